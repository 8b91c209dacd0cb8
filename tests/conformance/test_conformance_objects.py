"""Ask every store of objects what a trail in it relies on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from anabranch.config.store_urls import parse_store_url
from anabranch.errors import Side
from anabranch.stores.directory import UPLOADS
from anabranch.stores.opening import open_store
from anabranch.testing.conformance import objects
from anabranch.testing.conformance.objects import Place
from rigs.s3_server import S3Server, s3_server

STORES = ("directory", "s3", "s3 that overwrites")


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """Run a server with S3's protocol."""
    with s3_server(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture(scope="module")
def overwriting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """Run one that does not know conditional puts."""
    with s3_server(tmp_path_factory.mktemp("overwriting"), ignores_conditions=True) as server:
        yield server


@pytest.fixture(params=STORES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """Make an empty place in a store of each kind."""
    if request.param == "directory":
        return directory(tmp_path)
    if request.param == "s3":
        return bucket(request.getfixturevalue("s3"), tmp_path, 1_100)  # more than a page
    return bucket(request.getfixturevalue("overwriting"), tmp_path, 100)


def opened(url: str) -> Callable[[], objects.ObjectStore]:
    return lambda: open_store(parse_store_url(url, {}), Side.TARGET)


def directory(tmp_path: Path) -> Place:
    uploads = tmp_path / "shop" / UPLOADS

    def half(name: str, content: bytes) -> None:
        uploads.mkdir(parents=True, exist_ok=True)
        (uploads / "cut.tmp").write_bytes(content)

    return Place(opened(f"trail+objects://{tmp_path}/shop"), half)


def bucket(server: S3Server, tmp_path: Path, many: int) -> Place:
    name = server.bucket(f"b{abs(hash(tmp_path))}")

    def half(key: str, content: bytes) -> None:
        """Leave an upload in parts that was never completed."""
        client, where = server.client(), {"Bucket": name, "Key": f"trails/shop/{key}"}
        upload = client.create_multipart_upload(**where)["UploadId"]
        client.upload_part(**where, UploadId=upload, PartNumber=1, Body=content)

    return Place(opened(server.url(name)), half, many)


@pytest.mark.parametrize("check", objects.CHECKS, ids=lambda check: check.__name__)
def test_objects(check: Callable[[Place], None], place: Place) -> None:
    check(place)
