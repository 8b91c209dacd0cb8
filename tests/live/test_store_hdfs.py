"""Keep objects in HDFS: lost answers, nodes that are down, quotas, rights."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from anabranch.config.store_urls import parse_store_url
from anabranch.errors import AnabranchError, ConfigError, Side, SourceUnavailable, StorageFull, TargetUnavailable
from anabranch.stores import hdfs_session
from anabranch.stores.contract import ObjectExists, ObjectMissing, ObjectStore
from anabranch.stores.folders import UPLOADS
from anabranch.stores.opening import open_store
from anabranch.testing.faults import Proxy
from anabranch.testing.hdfs import HdfsServer, start_hdfs
from rigs.object_stores import names_of

NUMBERS = count(1)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HdfsServer]:
    """Run a name node with a data node."""
    running = start_hdfs(tmp_path_factory.mktemp("hdfs"))
    yield running
    running.stop()


@pytest.fixture
def drop(server: HdfsServer) -> str:
    return server.make(f"/drop/{next(NUMBERS)}")


def opened_at(url: str, end: Side = Side.TARGET) -> ObjectStore:
    return open_store(parse_store_url(url, {}), end)


def refused(kind: type[AnabranchError], work: Callable[[], object]) -> str:
    """Return what an error says, in which there is nothing of a server's stack."""
    with pytest.raises(kind) as error:
        work()
    assert error.value.hint and error.value.__cause__ is None and "org.apache" not in str(error.value)
    return str(error.value)


def test_files_are_where_people_look_for_them(server: HdfsServer, drop: str) -> None:
    store = opened_at(server.url(f"{drop}/shop"))
    store.create("pieces/1", b"one")
    assert server.ask("GET", f"{drop}/shop/pieces/1?op=OPEN") == b"one"
    assert store.path("pieces/1") == f"hdfs://carrier@127.0.0.1:{server.port}{drop}/shop/pieces/1"
    assert store.guarantees.creates_once and store.guarantees.lists_at_once
    assert b'"FileStatus":[]' in server.ask("GET", f"{drop}/shop/{UPLOADS}?op=LISTSTATUS").translate(None, b"\n ")


def test_a_directory_that_is_not_there_is_named(server: HdfsServer) -> None:
    store = opened_at(server.url("/drop/none/shop"))
    for work in (
        lambda: store.create("1", b""),
        lambda: store.read("1"),
        lambda: names_of(store),
        lambda: store.size("1"),
    ):
        assert "the directory /drop/none is not there — make it" in refused(ConfigError, work)
    server.make("/drop/none")
    store.create("a/1", b"one")
    server.ask("DELETE", "/drop/none/shop/a?op=DELETE&recursive=true")
    store.create("a/2", b"two")
    assert names_of(store) == ["a/2"]


@pytest.mark.parametrize("op", ["op=CREATE", "op=RENAME"])
@pytest.mark.parametrize("when", ["unheard", "answered"])
def test_a_line_that_is_cut(server: HdfsServer, drop: str, op: str, when: str) -> None:
    """Whoever writes finds the object whole, or not at all."""
    with Proxy("127.0.0.1", server.port) as proxy:
        store = opened_at(server.url(f"{drop}/shop", proxy.port))
        store.create("1", b"one")
        proxy.cut_at(op.encode(), when)  # type: ignore[arg-type]  # a word of the parameters
        refused(TargetUnavailable, lambda: store.create("pieces/2", b"two" * 1000))
        if (op, when) == ("op=RENAME", "answered"):
            assert store.read("pieces/2") == b"two" * 1000
            with pytest.raises(ObjectExists):
                store.create("pieces/2", b"two" * 1000)
            return
        assert names_of(store) == ["1"]
        with pytest.raises(ObjectMissing):
            store.read("pieces/2")
        store.create("pieces/2", b"again")
        assert store.read("pieces/2") == b"again"


def test_a_name_node_that_is_silent_is_away(server: HdfsServer, drop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hdfs_session, "SILENCE_S", 3.0)
    with Proxy("127.0.0.1", server.port) as proxy:
        store = opened_at(server.url(f"{drop}/shop", proxy.port))
        proxy.stall()
        assert "no answer within 3 s" in refused(TargetUnavailable, lambda: store.read("1"))


def test_a_quota_that_is_used_up_is_a_full_store(server: HdfsServer, drop: str) -> None:
    store = opened_at(server.url(f"{drop}/shop"))
    store.create("1", b"one")
    server.ask("PUT", f"{drop}?op=SETQUOTA&storagespacequota=1000&namespacequota=9223372036854775807")
    for put in (store.create, store.replace):
        said = refused(StorageFull, lambda put=put: put("pieces/2", b"2" * 100_000))  # type: ignore[misc]  # binds it
        assert "the quota is used up (DSQuotaExceededException)" in said
    assert names_of(store) == ["1"]
    server.ask("PUT", f"{drop}?op=SETQUOTA&storagespacequota=10000000000&namespacequota=9223372036854775807")
    store.create("pieces/2", b"2" * 100_000)
    assert store.size("pieces/2") == 100_000


def test_missing_rights_are_told(server: HdfsServer, drop: str) -> None:
    opened_at(server.url(f"{drop}/shop")).create("1", b"one")
    store = opened_at(server.url(f"{drop}/shop", user="somebody"), Side.SOURCE)
    for work in (lambda: store.create("2", b"two"), lambda: store.read("1"), lambda: store.delete("1")):
        assert "permission denied (AccessControlException)" in refused(ConfigError, work)


@pytest.mark.long
def test_nodes_that_are_killed_are_away_until_they_are_back(tmp_path: Path) -> None:
    """Nothing that was answered is lost: the nodes are killed, not stopped."""
    server = start_hdfs(tmp_path / "hdfs")
    store = opened_at(server.url(f"{server.make('/drop')}/shop"), Side.SOURCE)
    store.create("1", b"one")
    server.data_node.kill()
    refused(SourceUnavailable, lambda: store.create("2", b"two"))
    refused(SourceUnavailable, lambda: store.read("1"))
    server.name_node.kill()
    for work in (lambda: store.read("1"), lambda: store.create("2", b"two"), lambda: names_of(store)):
        assert "it cannot be reached" in refused(SourceUnavailable, work)
    server.name_node.start()
    server.data_node.start()
    assert store.read("1") == b"one"
    store.create("2", b"two")
    assert names_of(store) == ["1", "2"]
    server.stop()
