"""Keep objects in a bucket while the line or the server fails: what is told, what is there afterwards; no secret is shown."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from anabranch.config.store_urls import parse_store_url
from anabranch.errors import AnabranchError, ConfigError, Side, SourceUnavailable, StorageFull, TargetUnavailable
from anabranch.stores import s3
from anabranch.stores.contract import ObjectExists, ObjectMissing, ObjectStore
from anabranch.stores.opening import open_store
from anabranch.testing.faults import Proxy
from rigs.certificates import Authority
from rigs.object_stores import names_of
from rigs.s3_server import KEYS, Fault, Line, S3Server, line_to, s3_server

MB = 1 << 20
NUMBERS = count(1)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """Run a server with S3's protocol."""
    with s3_server(tmp_path_factory.mktemp("s3")) as running:
        yield running


@pytest.fixture
def line(server: S3Server) -> Iterator[Line]:
    with line_to(server) as made:
        yield made


@pytest.fixture
def bucket(server: S3Server) -> str:
    return server.bucket(f"bucket-{next(NUMBERS)}")


@pytest.fixture
def store(server: S3Server, bucket: str, line: Line) -> Iterator[ObjectStore]:
    """Open a store whose server is at the other end of the line."""
    opened = opened_at(server.url(bucket, port=line.port))
    assert opened.guarantees.creates_once and not opened.guarantees.lists_at_once
    yield opened
    opened.close()


def opened_at(url: str, end: Side = Side.TARGET) -> ObjectStore:
    return open_store(parse_store_url(url, {}), end)


def refused(kind: type[AnabranchError], work: Callable[[], object]) -> str:
    """Return what an error says, in which no secret may stand."""
    with pytest.raises(kind) as error:
        work()
    said = f"{error.value}{error.value!r}{error.value.__cause__}"
    assert not any(secret in said for secret in KEYS.values()) and error.value.hint
    return str(error.value)


@pytest.mark.parametrize(
    ("fault", "kind", "is_there"),
    [
        ("slow_down", TargetUnavailable, False),
        ("cut", TargetUnavailable, False),
        ("lost", TargetUnavailable, True),
        ("full", StorageFull, False),
        ("denied", ConfigError, False),
        ("unknown", ConfigError, False),
    ],
)
def test_a_put_that_fails(
    store: ObjectStore, line: Line, fault: Fault, kind: type[AnabranchError], is_there: bool
) -> None:
    for put in (store.create, store.replace):
        line.plan(fault, "PUT", f"pieces/{put.__name__}")
        refused(kind, lambda put=put: put(f"pieces/{put.__name__}", b"content" * 1000))  # type: ignore[misc]  # binds it
        assert (f"pieces/{put.__name__}" in names_of(store)) is is_there and line.is_through
    if is_there:
        assert store.read("pieces/create") == b"content" * 1000
        with pytest.raises(ObjectExists):
            store.create("pieces/create", b"content" * 1000)
    else:
        store.create("pieces/create", b"again")
        assert store.read("pieces/create") == b"again"


def test_what_failures_say(store: ObjectStore, line: Line, bucket: str) -> None:
    for fault, kind, said in (
        ("slow_down", TargetUnavailable, "it answers 503 (SlowDown) — check that the store is running"),
        ("denied", ConfigError, "the credentials are refused, or have not the right (AccessDenied)"),
        ("full", StorageFull, "no room is left (XMinioStorageFull) — make room"),
        ("lost", TargetUnavailable, "the line was cut before the answer"),
    ):
        line.plan(fault, "GET", "one")  # type: ignore[arg-type]  # a word of the table
        assert f"s3://{bucket}/trails/shop: {said}" in refused(kind, lambda: store.read("one"))
    for fault in ("slow_down", "denied"):  # whose answers have no body
        line.plan(fault, "HEAD", "one")  # type: ignore[arg-type]  # a word of the table
        refused(ConfigError if fault == "denied" else TargetUnavailable, lambda: store.size("one"))
    line.plan("slow_down", "GET", "list-type")
    refused(TargetUnavailable, lambda: names_of(store))


def test_a_put_that_is_sent_twice_on_its_way_is_one(store: ObjectStore, line: Line) -> None:
    """The second is refused, since the name is taken: by the same put, which therefore has succeeded."""
    line.plan("twice", "PUT", "pieces/1")
    store.create("pieces/1", b"one")
    assert store.read("pieces/1") == b"one" and line.is_through
    with pytest.raises(ObjectExists):
        store.create("pieces/1", b"one")


def test_a_put_that_meets_another_is_done_again(
    store: ObjectStore, line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3, "CONFLICTS", (0.0, 0.0))
    line.plan("conflict", "PUT", "pieces/1")
    line.plan("conflict", "PUT", "pieces/1")
    store.create("pieces/1", b"one")
    assert store.read("pieces/1") == b"one" and line.is_through
    line.always = "conflict"
    assert "it answers 409" in refused(TargetUnavailable, lambda: store.create("pieces/2", b"two"))


def test_an_answer_cut_in_half_is_none(store: ObjectStore, line: Line) -> None:
    store.create("pieces/1", b"content" * 100_000)
    line.plan("half_answer", "GET", "pieces/1")
    assert "the line was cut in the answer" in refused(TargetUnavailable, lambda: store.read("pieces/1"))
    assert store.read("pieces/1", 7, 7) == b"content"


@pytest.fixture
def in_parts(monkeypatch: pytest.MonkeyPatch) -> bytes:
    """Return a content that goes in three parts."""
    monkeypatch.setattr(s3, "LARGE", 6 * MB)
    monkeypatch.setattr(s3, "PART", 5 * MB)
    return bytes(range(256)) * 45 * 1024


def test_a_large_object_goes_in_parts(
    store: ObjectStore, line: Line, server: S3Server, bucket: str, in_parts: bytes
) -> None:
    store.create("load/1", in_parts)
    assert store.read("load/1") == in_parts and sum("partNumber" in asked for asked in line.asked) == 3
    line.plan("twice", "POST", "uploadId")
    store.create("load/2", in_parts)
    with pytest.raises(ObjectExists):
        store.create("load/1", in_parts[::-1])
    assert store.read("load/1", 6 * MB, 9) == in_parts[6 * MB : 6 * MB + 9]
    store.replace("load/1", in_parts[::-1])
    assert store.read("load/1") == in_parts[::-1]
    assert "Uploads" not in server.client().list_multipart_uploads(Bucket=bucket)


@pytest.mark.parametrize("fault", ["slow_down", "cut", "full"])
def test_an_upload_in_parts_that_fails_leaves_nothing(
    store: ObjectStore, line: Line, server: S3Server, bucket: str, in_parts: bytes, fault: Fault
) -> None:
    steps = [("POST", "uploads"), ("PUT", "partNumber=2"), ("POST", "uploadId")]
    for method, words in steps[fault == "cut" :]:  # the first has no body to cut
        line.plan(fault, method, words)
        refused(StorageFull if fault == "full" else TargetUnavailable, lambda: store.create("load/1", in_parts))
        assert names_of(store) == [] and line.is_through
        with pytest.raises(ObjectMissing):
            store.size("load/1")
    assert "Uploads" not in server.client().list_multipart_uploads(Bucket=bucket)
    line.plan("lost", "POST", "uploadId")
    refused(TargetUnavailable, lambda: store.create("load/1", in_parts))
    assert store.read("load/1") == in_parts


@pytest.mark.parametrize(("end", "kind"), [(Side.SOURCE, SourceUnavailable), (Side.TARGET, TargetUnavailable)])
def test_a_server_that_dies_is_away_until_it_is_back(tmp_path: Path, end: Side, kind: type[AnabranchError]) -> None:
    with s3_server(tmp_path / "s3") as server:
        store = opened_at(server.url(server.bucket("trails")), end)
        store.create("1", b"one")
        server.daemon.kill()
        for work in (lambda: store.read("1"), lambda: store.create("2", b"two"), lambda: names_of(store)):
            assert "it cannot be reached" in refused(kind, work)
        server.daemon.start()  # with nothing of what was in its memory
        assert "the bucket is not there" in refused(ConfigError, lambda: store.create("2", b"two"))
        server.bucket("trails")
        store.create("2", b"two")
        assert names_of(store) == ["2"]


def test_a_server_that_is_silent_is_away(server: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3, "READ_S", 3.0)
    with Proxy("127.0.0.1", server.port) as proxy:
        store = opened_at(server.url(bucket, port=proxy.port))
        store.create("1", b"one")
        proxy.stall()
        assert "no answer within the time for it" in refused(TargetUnavailable, lambda: store.read("1"))
        proxy.restore()
        assert store.read("1") == b"one"


def test_only_objects_are_listed(store: ObjectStore, server: S3Server, bucket: str) -> None:
    """People and consoles leave other keys beside them: folders, hidden files, what is next to the trail."""
    client = server.client()
    for key in ("trails/shop/", "trails/shop/pieces/", "trails/shop/.x/1", "trails/shop2/1", "trails/shopping"):
        client.put_object(Bucket=bucket, Key=key, Body=b"")
    store.create("pieces/1", b"1")
    assert names_of(store) == ["pieces/1"]
    with pytest.raises(ObjectMissing):
        store.read("pieces")


def test_a_server_without_conditional_puts_is_found_out(tmp_path: Path) -> None:
    with s3_server(tmp_path / "s3", ignores_conditions=True) as server:
        store = opened_at(server.url(server.bucket("trails")))
        assert not store.guarantees.creates_once
        store.create("1", b"one")
        with pytest.raises(ObjectExists):
            store.create("1", b"two")
        assert names_of(store) == ["1"] and store.read("1") == b"one"


def test_a_server_that_refuses_conditional_puts_is_found_out(server: S3Server, bucket: str, line: Line) -> None:
    """Some servers answer 501 to `If-None-Match`: they are used without it, and not waited for."""
    line.plan("unknown", "PUT", ".probe")
    store = opened_at(server.url(bucket, port=line.port))
    store.create("1", b"one")
    assert line.is_through and not store.guarantees.creates_once
    with pytest.raises(ObjectExists):
        store.create("1", b"two")
    assert store.read("1") == b"one"
    store.close()


def test_a_reader_without_the_right_to_write(store: ObjectStore, server: S3Server, bucket: str, line: Line) -> None:
    store.create("1", b"one")
    line.plan("denied", "PUT", ".probe")
    reader = opened_at(server.url(bucket, port=line.port), Side.SOURCE)
    assert reader.read("1") == b"one" and not reader.guarantees.creates_once


def test_amazon_is_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    for region in ("eu-north-1", "cn-north-1"):
        store = opened_at(f"trail+s3://trails/shop?region={region}")
        assert store.guarantees.creates_once and store.guarantees.lists_at_once


def test_keys_come_from_the_environment(server: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEYS["access_key_id"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", KEYS["secret_access_key"])
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", server.endpoint)
    store = opened_at(f"trail+s3://{bucket}/trails/shop")
    store.create("1", b"one")
    assert names_of(store) == ["1"] and store.path("1") == f"s3://{bucket}/trails/shop/1"


@pytest.fixture
def no_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("no_keys")
@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("", "there are no credentials — give access_key_id"),
        ("access_key_id=AKIATEST", "the URL has a part of a key"),
        ("profile=nobody", "there is no such profile"),
        ("addressing=sideways", "there is no addressing 'sideways' — one of auto, path, virtual"),
        ("endpoint_url=minio", "endpoint_url is no URL of a server"),
        (
            "ssl_ca=/none.pem",
            "the file /none.pem cannot be read",
        ),
    ],
)
def test_options_that_are_wrong(query: str, said: str) -> None:
    assert said in refused(ConfigError, lambda: opened_at(f"trail+s3://trails/shop?{query}").read("1"))


def test_a_bucket_that_is_not_there_and_one_of_another_kind(server: S3Server) -> None:
    store = opened_at(server.url("none"))
    for work in (lambda: store.read("1"), lambda: store.create("1", b""), lambda: names_of(store)):
        assert "the bucket is not there — make it" in refused(ConfigError, work)
    assert "lists in no order" in refused(ConfigError, lambda: opened_at("trail+s3://fast--eun1-az1--x-s3/shop"))


def test_a_certificate_has_to_be_trusted(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "ca")
    with s3_server(tmp_path / "s3", tls=authority.files("server")) as safe:
        url = safe.url(safe.bucket("trails"))
        store = opened_at(url)
        store.create("1", b"one")
        assert store.read("1") == b"one"
        for wrong in (url.partition("&ssl_ca")[0], url.replace(safe.authority, str(Authority(tmp_path / "other").ca))):
            said = refused(ConfigError, lambda wrong=wrong: opened_at(wrong).read("1"))  # type: ignore[misc]  # binds it
            assert "its certificate is not trusted — name the authority (PEM) with the option ssl_ca" in said
        plain = url.replace("https://", "http://")
        refused(TargetUnavailable, lambda: opened_at(plain).read("1"))


def test_without_the_library_it_is_said_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "boto3", None)
    monkeypatch.delitem(sys.modules, "anabranch.stores.s3")
    assert "the package boto3 is not installed — pip install '.[s3]'" in refused(
        ConfigError, lambda: opened_at("trail+s3://trails/shop")
    )
