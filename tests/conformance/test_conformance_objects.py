"""Ask every store of objects what a trail in it relies on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from anabranch.config.store_urls import parse_store_url
from anabranch.errors import Side
from anabranch.stores.failures import Failures
from anabranch.stores.folders import UPLOADS
from anabranch.stores.hdfs_session import HdfsSession
from anabranch.stores.kafka import KafkaStore
from anabranch.stores.opening import open_store
from anabranch.testing.conformance import objects
from anabranch.testing.conformance.objects import Place
from anabranch.testing.databases import unique_name
from anabranch.testing.hdfs import HdfsServer, start_hdfs
from anabranch.testing.openssh import SftpServer, start_sftp
from anabranch.testing.processes import give_away
from anabranch.testing.servers import Server
from rigs.certificates import Authority
from rigs.ftp_server import FtpServer, ftp_server
from rigs.kafka_trail import cut_in_half, kafka_url
from rigs.s3_server import S3Server, s3_server

STORES = ("directory", "s3", "s3 that overwrites", "sftp", "sftp without links", "ftp", "ftps", "hdfs", "kafka")


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


@pytest.fixture(scope="module")
def sftp(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SftpServer]:
    """Run OpenSSH's server."""
    server = start_sftp(tmp_path_factory.mktemp("sftp"))
    yield server
    server.daemon.stop()


@pytest.fixture(scope="module")
def linkless(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SftpServer]:
    """Run one that knows neither links nor how to make a file durable."""
    server = start_sftp(tmp_path_factory.mktemp("linkless"), "-P hardlink,fsync")
    yield server
    server.daemon.stop()


@pytest.fixture(scope="module")
def ftp(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FtpServer]:
    """Run an FTP server without TLS."""
    with ftp_server(tmp_path_factory.mktemp("ftp")) as server:
        yield server


@pytest.fixture(scope="module")
def ftps(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FtpServer]:
    """Run one that demands TLS of commands and data."""
    folder = tmp_path_factory.mktemp("ftps")
    with ftp_server(folder, tls=Authority(folder / "ca").files("server")) as server:
        yield server


@pytest.fixture(scope="module")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HdfsServer]:
    """Run a name node with a data node."""
    server = start_hdfs(tmp_path_factory.mktemp("hdfs"))
    yield server
    server.stop()


@pytest.fixture(params=STORES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """Make an empty place in a store of each kind."""
    if request.param == "directory":
        return directory(tmp_path, f"trail+objects://{tmp_path}/shop")
    if request.param in ("sftp", "sftp without links", "ftp", "ftps", "hdfs"):
        server = request.getfixturevalue("sftp" if request.param == "sftp" else "linkless")
        give_away(tmp_path)
        return directory(tmp_path, server.url(tmp_path / "shop"))
    if request.param in ("ftp", "ftps", "hdfs"):
        give_away(tmp_path)
        return directory(tmp_path, request.getfixturevalue(request.param).url(tmp_path / "shop"))
    if request.param == "hdfs":
        return distributed(request.getfixturevalue("hdfs"), tmp_path)
    if request.param == "kafka":
        return log_of_names(request.getfixturevalue("kafka"))
    if request.param == "s3":
        return bucket(request.getfixturevalue("s3"), tmp_path, 1_100)  # more than a page
    return bucket(request.getfixturevalue("overwriting"), tmp_path, 100)


def opened(url: str) -> Callable[[], objects.ObjectStore]:
    return lambda: open_store(parse_store_url(url, {}), Side.TARGET)


def directory(tmp_path: Path, url: str) -> Place:
    uploads = tmp_path / "shop" / UPLOADS

    def half(name: str, content: bytes) -> None:
        uploads.mkdir(exist_ok=True)
        (uploads / "cut.tmp").write_bytes(content)

    def fill(names: Sequence[str]) -> None:
        for folder in {(tmp_path / "shop" / name).parent for name in names}:
            folder.mkdir(parents=True)
        for name in names:
            (tmp_path / "shop" / name).write_bytes(b"x")
        for path in (tmp_path / "shop").rglob("*"):
            give_away(path)

    return Place(opened(url), half, fill=fill)


def bucket(server: S3Server, tmp_path: Path, many: int) -> Place:
    name = server.bucket(f"b{abs(hash(tmp_path))}")

    def half(key: str, content: bytes) -> None:
        """Leave an upload in parts that was never completed."""
        client, where = server.client(), {"Bucket": name, "Key": f"trails/shop/{key}"}
        upload = client.create_multipart_upload(**where)["UploadId"]
        client.upload_part(**where, UploadId=upload, PartNumber=1, Body=content)

    return Place(opened(server.url(name)), half, many)


def distributed(server: HdfsServer, tmp_path: Path) -> Place:
    root = server.make(f"/in/{tmp_path.name}")

    def half(name: str, content: bytes) -> None:
        """Leave an upload that never got its name."""
        server.make(f"{root}/shop/{UPLOADS}")
        HdfsSession(parse_store_url(server.url(f"{root}/shop"), {}), Failures(Side.TARGET, "")).send(
            f"{root}/shop/{UPLOADS}/cut.tmp", content
        )

    return Place(opened(server.url(f"{root}/shop")), half, many=1_100)


def log_of_names(server: Server) -> Place:
    url = kafka_url(server, unique_name("trail"))

    def half(name: str, content: bytes) -> None:
        """Leave pieces, and the record that says so, without a name."""
        with closing(opened(url)()) as store:
            assert isinstance(store, KafkaStore)
            cut_in_half(store, name, content)

    return Place(opened(url), half, many=1_100)


@pytest.mark.parametrize("check", objects.CHECKS, ids=lambda check: check.__name__)
def test_objects(check: Callable[[Place], None], place: Place) -> None:
    check(place)
