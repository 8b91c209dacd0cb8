"""Read URLs of stores: what they name, what is wrong with them, and that no text of them shows a secret."""

from __future__ import annotations

import pytest

from anabranch.config.store_urls import StoreUrl, is_store_url, parse_store_url

ENV = {"PW": "p@ss/w?rd#%41", "KEY": "k&=y", "DIR": "drop"}


@pytest.mark.parametrize(
    ("text", "found", "shown"),
    [
        ("trail+objects:///srv/a%20b/shop", StoreUrl("objects", "/srv/a b/shop"), "trail+objects:///srv/a b/shop"),
        (
            "trail+s3://trails/eu/north/shop?region=eu-north-1&secret_access_key=${KEY}",
            StoreUrl(
                "s3",
                "eu/north/shop",
                "trails",
                options=(("region", "eu-north-1"), ("secret_access_key", "k&=y")),
            ),
            "trail+s3://trails/eu/north/shop",
        ),
        ("trail+s3://trails/shop", StoreUrl("s3", "shop", "trails"), "trail+s3://trails/shop"),
        (
            "trail+sftp://carrier:${PW}@drop.example/~/${DIR}/shop",
            StoreUrl("sftp", "/~/drop/shop", "drop.example", 22, "carrier", "p@ss/w?rd#%41"),
            "trail+sftp://carrier@drop.example/~/drop/shop",
        ),
        (
            "trail+sftp://carrier@[::1]:2222/shop?host_key=SHA256:abc",
            StoreUrl("sftp", "/shop", "::1", 2222, "carrier", options=(("host_key", "SHA256:abc"),)),
            "trail+sftp://carrier@[::1]:2222/shop",
        ),
        (
            "trail+ftps://carrier:p%40ss@drop.example:990/in/shop?ssl_ca=/etc/ca.pem",
            StoreUrl("ftps", "/in/shop", "drop.example", 990, "carrier", "p@ss", (("ssl_ca", "/etc/ca.pem"),)),
            "trail+ftps://carrier@drop.example:990/in/shop",
        ),
        ("trail+kafka://broker/shop", StoreUrl("kafka", "shop", "broker", 9092), "trail+kafka://broker/shop"),
        (
            "trail+kafka://carrier:${PW}@a:9093,[::1],c/shop?sasl_mechanism=PLAIN&ssl_ca=/etc/ca.pem",
            StoreUrl(
                "kafka",
                "shop",
                "a:9093,[::1]:9092,c:9092",
                9092,
                "carrier",
                "p@ss/w?rd#%41",
                (("sasl_mechanism", "PLAIN"), ("ssl_ca", "/etc/ca.pem")),
            ),
            "trail+kafka://carrier@a:9093,[::1]:9092,c:9092/shop",
        ),
    ],
)
def test_urls_that_are_good(text: str, found: StoreUrl, shown: str) -> None:
    url = parse_store_url(text, ENV)
    assert url == found and str(url) == shown and url.name == "shop"
    assert is_store_url(text)
    assert not any(secret in repr(url) + str(url) for secret in ("p@ss", "k&=y"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("trail+objects://host/srv/shop", "trail\\+objects:///DIRECTORY/NAME, an absolute path"),
        ("trail+objects:///srv/../shop", "neither leads upwards nor"),
        ("trail+objects:///srv//shop", "nor has an empty part"),
        ("trail+objects:///", "nor has an empty part"),
        ("trail+objects:///srv/sh op", "where NAME has 1 to 63"),
        ("trail+objects:///srv/shop?fsync=no", "no option"),
        ("trail+s3://Trails/shop", "where BUCKET is the name of a bucket"),
        ("trail+s3://minio:9000/trails/shop", "the option endpoint_url"),
        ("trail+s3://key:secret@trails/shop", "trail\\+s3://BUCKET/PREFIX/NAME$"),
        ("trail+s3://trails/shop?secret_key=hush", "did you mean secret_access_key"),
        ("trail+s3://trails/shop?region=a&region=b", "each once"),
        ("trail+sftp://drop.example/shop", "with a user before the @"),
        ("trail+sftp://carrier@drop.example:99999/shop", "where HOST may be followed by :PORT"),
        ("trail+sftp://carrier:${NONE}@drop.example/shop", "the environment variable NONE to have a value"),
        ("trail+ftp://carrier:hush@drop.example/shop#x", "special characters are written as %XX"),
        ("trail+kafka://broker/eu/shop", "where NAME is one part: the topics NAME.names and NAME.objects"),
        ("trail+kafka://carrier@broker/shop", "or neither"),
        ("trail+kafka://a:9092,/shop", "where HOST may be followed by :PORT"),
        ("trail+kafka://broker/shop?replicas=3", "did you mean replication"),
        ("trail+gopher://drop.example/shop", "trail\\+objects:///DIRECTORY/NAME or trail\\+s3"),
    ],
)
def test_urls_that_are_wrong(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said) as refused:
        parse_store_url(text, ENV)
    assert "hush" not in str(refused.value)
    assert is_store_url(text) is not text.startswith("trail+gopher")
    assert not is_store_url("trail+file:///srv/shop")
