"""Open stores of every kind by their URLs: nothing is asked of a server, and no text of a store shows a secret."""

from __future__ import annotations

from pathlib import Path

import pytest

from anabranch.config.store_urls import KINDS, parse_store_url
from anabranch.errors import Side
from anabranch.stores.opening import STORES, open_store

URLS = {
    "objects": ("trail+objects://{place}/shop", "{place}/shop/pieces/1"),
    "s3": (
        "trail+s3://trails/shop?region=eu-north-1&access_key_id=hush1&secret_access_key=hush2&session_token=hush3",
        "s3://trails/shop/pieces/1",
    ),
    "sftp": (
        "trail+sftp://carrier:hush@drop.example:2222/in/shop?key_passphrase=hush&host_key=SHA256:a",
        "sftp://carrier@drop.example:2222/in/shop/pieces/1",
    ),
    "ftp": ("trail+ftp://carrier:hush@drop.example/in/shop", "ftp://carrier@drop.example/in/shop/pieces/1"),
    "hdfs": ("trail+hdfs://carrier@name1:9870/in/shop", "hdfs://carrier@name1/in/shop/pieces/1"),
    "kafka": (
        "trail+kafka://carrier:hush@broker1:9092,broker2/shop?ssl_mode=require",
        "kafka://broker1:9092,broker2:9092/shop/pieces/1",
    ),
    "ftps": ("trail+ftps://carrier:hush@drop.example/~/shop", "ftps://carrier@drop.example/~/shop/pieces/1"),
}


def test_every_kind_of_url_has_a_store() -> None:
    assert set(STORES) == set(KINDS) == set(URLS)


@pytest.mark.parametrize("kind", sorted(URLS))
def test_a_store_is_opened_without_a_server(kind: str, tmp_path: Path) -> None:
    url, path = (text.format(place=tmp_path) for text in URLS[kind])
    store = open_store(parse_store_url(url, {}), Side.SOURCE)
    assert store.path("pieces/1") == path
    assert "hush" not in f"{store!r}{parse_store_url(url, {})!r}{store.path()}"
    store.close()
    store.close()
