"""Keep objects on an FTP server, with TLS and without: logins, certificates, cut lines, lost answers, full disks."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from pyftpdlib.authorizers import DummyAuthorizer
from pyftpdlib.filesystems import AbstractedFS
from pyftpdlib.handlers import FTPHandler
from pyftpdlib.ioloop import IOLoop
from pyftpdlib.servers import FTPServer

from anabranch.config.store_urls import parse_store_url
from anabranch.errors import AnabranchError, ConfigError, Side, SourceUnavailable, StorageFull, TargetUnavailable
from anabranch.stores import ftp_session
from anabranch.stores.contract import ObjectExists, ObjectMissing, ObjectStore
from anabranch.stores.folders import ABANDONED_S, UPLOADS
from anabranch.stores.opening import open_store
from anabranch.testing.faults import Proxy
from anabranch.testing.in_time import until
from anabranch.testing.processes import give_away
from rigs.certificates import Authority
from rigs.disk import fill, small_disk
from rigs.ftp_server import EVERYTHING, PASSWORD, READING, FtpServer, ftp_server
from rigs.object_stores import names_of


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FtpServer]:
    """Run a server without TLS."""
    with ftp_server(tmp_path_factory.mktemp("ftp")) as running:
        yield running


@pytest.fixture
def drop(tmp_path: Path) -> Path:
    """Return a directory of the account that the server runs as."""
    (tmp_path / "drop").mkdir()
    give_away(tmp_path / "drop")
    return tmp_path / "drop"


def opened_at(url: str, end: Side = Side.TARGET) -> ObjectStore:
    return open_store(parse_store_url(url, {}), end)


def refused(kind: type[AnabranchError], work: Callable[[], object]) -> str:
    """Return what an error says, in which no password may stand."""
    with pytest.raises(kind) as error:
        work()
    assert error.value.hint and error.value.__cause__ is None and PASSWORD not in str(error.value)
    return str(error.value)


def test_files_are_where_people_look_for_them(server: FtpServer, drop: Path) -> None:
    store = opened_at(server.url(drop / "shop"))
    store.create("pieces/1", b"one")
    assert (drop / "shop/pieces/1").read_bytes() == b"one" and list((drop / "shop" / UPLOADS).iterdir()) == []
    assert store.path("pieces/1") == f"ftp://carrier@127.0.0.1:{server.port}{drop}/shop/pieces/1"
    assert not store.guarantees.creates_once and store.guarantees.lists_at_once
    store.close()
    with_home = opened_at(server.url(Path(f"/~{drop}/shop")))
    assert with_home.read("pieces/1") == b"one"
    with_home.close()


def test_a_login_that_is_refused(server: FtpServer, drop: Path) -> None:
    url = server.url(drop / "shop").replace("carrier:", "carrier:x")
    assert "the login is refused — check user and password" in refused(ConfigError, lambda: opened_at(url).read("1"))


def test_a_certificate_that_is_not_trusted(tmp_path: Path, drop: Path, server: FtpServer) -> None:
    with ftp_server(tmp_path / "ftps", tls=Authority(tmp_path / "ca").files("server")) as safe:
        url = safe.url(drop / "shop")
        other = Authority(tmp_path / "other").ca
        for wrong in (
            url.partition("?")[0],
            url.replace(safe.authority, str(other)),
            url.replace("127.0.0.1", "127.0.0.2"),
        ):
            if "127.0.0.2" not in wrong:
                said = refused(ConfigError, lambda wrong=wrong: opened_at(wrong).read("1"))  # type: ignore[misc]  # binds it
                assert "certificate is not trusted — name the authority (PEM)" in said
        plain = url.replace("trail+ftps", "trail+ftp").partition("?")[0]
        refused(ConfigError, lambda: opened_at(plain).read("1"))  # it demands TLS
        store = opened_at(url)
        store.create("1", b"one")
        assert store.read("1") == b"one"
        store.close()
    missing = url.replace(safe.authority, "/none")
    assert "the file /none cannot be read" in refused(ConfigError, lambda: opened_at(missing))
    no_tls = f"{server.url(drop / 'shop').replace('trail+ftp', 'trail+ftps')}?ssl_ca={safe.authority}"
    refused(ConfigError, lambda: opened_at(no_tls).read("1"))  # it has none: no password is sent to it


def test_a_directory_that_is_not_there_is_named(server: FtpServer, drop: Path) -> None:
    store = opened_at(server.url(drop / "none" / "shop"))
    for work in (
        lambda: store.create("1", b""),
        lambda: store.read("1"),
        lambda: names_of(store),
        lambda: store.size("1"),
    ):
        assert f"the directory {drop}/none is not there — make it" in refused(ConfigError, work)
    store.close()


@pytest.mark.parametrize(("end", "kind"), [(Side.SOURCE, SourceUnavailable), (Side.TARGET, TargetUnavailable)])
def test_a_line_that_is_cut_is_tried_again(
    server: FtpServer, drop: Path, end: Side, kind: type[AnabranchError]
) -> None:
    with Proxy("127.0.0.1", server.port) as proxy:
        store = opened_at(server.url(drop / "shop", proxy.port), end)
        store.create("1", b"one")
        proxy.cut()
        until(lambda: not proxy.is_used, "the line is not cut")
        refused(kind, lambda: store.create("2", b"two"))
        store.create("2", b"two")
        proxy.refuse()
        refused(kind, lambda: store.read("2"))
        refused(kind, lambda: names_of(store))
        proxy.restore()
        assert store.read("2") == b"two" and names_of(store) == ["1", "2"]
        store.close()


@pytest.mark.parametrize("when", ["unheard", "heard", "answered"])
def test_a_line_that_is_cut_at_the_last_step(server: FtpServer, drop: Path, when: str) -> None:
    """Whoever writes finds the object whole, or not at all."""
    with Proxy("127.0.0.1", server.port) as proxy:
        store = opened_at(server.url(drop / "shop", proxy.port))
        store.create("1", b"one")
        proxy.cut_at(b"RNTO", when)  # type: ignore[arg-type]  # a word of the parameters
        refused(TargetUnavailable, lambda: store.create("pieces/2", b"two" * 1000))
        names = names_of(store)
        assert names == ["1"] or (names == ["1", "pieces/2"] and store.read("pieces/2") == b"two" * 1000)
        if when == "unheard":
            assert names == ["1"]
        if when == "answered":
            assert names == ["1", "pieces/2"]
            with pytest.raises(ObjectExists):
                store.create("pieces/2", b"two")
        store.close()


def test_an_upload_whose_writer_is_killed_is_no_object(server: FtpServer, drop: Path) -> None:
    """End the line of data in the middle: the server takes the half for the whole, under a name that nobody reads."""
    store = opened_at(server.url(drop / "shop"))
    store.create("1", b"one")
    script = (
        "import ftplib, os, sys, signal\n"
        "from anabranch.stores import ftp_session\n"
        "from anabranch.config.store_urls import parse_store_url\n"
        "from anabranch.errors import Side\n"
        "from anabranch.stores.opening import open_store\n"
        "def store(self, path, content):\n"
        "    line = self._server().transfercmd('STOR ' + path)\n"
        "    line.sendall(content.read(4096)); os.kill(os.getpid(), signal.SIGKILL)\n"
        "ftp_session.FtpSession.store = store\n"
        "open_store(parse_store_url(sys.argv[1], {}), Side.TARGET).create('pieces/2', b'x' * 100_000)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, server.url(drop / "shop")])
    assert done.returncode < 0
    assert names_of(store) == ["1"] and [path.name for path in (drop / "shop" / UPLOADS).iterdir()] != []
    with pytest.raises(ObjectMissing):
        store.read("pieces/2")
    store.create("pieces/2", b"whole")
    assert store.read("pieces/2") == b"whole"
    store.close()


def test_a_server_that_is_silent_is_away(server: FtpServer, drop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ftp_session, "SILENCE_S", 3.0)
    with Proxy("127.0.0.1", server.port) as proxy:
        store = opened_at(server.url(drop / "shop", proxy.port))
        store.create("1", b"one")
        proxy.stall()
        assert "no answer within 3 s" in refused(TargetUnavailable, lambda: store.read("1"))
        proxy.restore()
        assert store.read("1") == b"one"
        store.close()


def test_a_session_that_has_rested_is_opened_anew(
    server: FtpServer, drop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ftp_session, "REST_S", 0.0)
    with Proxy("127.0.0.1", server.port) as proxy:
        store = opened_at(server.url(drop / "shop", proxy.port))
        store.create("1", b"one")
        proxy.cut()
        until(lambda: not proxy.is_used, "the line is not cut")
        assert store.read("1") == b"one"
        store.close()


@pytest.mark.parametrize("answer", [b"", b"452 Insufficient storage space", b"426 Write failed: quota exceeded"])
def test_a_full_disk_leaves_no_object(server: FtpServer, tmp_path: Path, answer: bytes) -> None:
    """Servers say by several answers that no room is left; this one's own does not tell it from other failures."""
    place = tmp_path / "disk"
    place.mkdir()
    with small_disk(place, 2, owner=65534) as disk, Proxy("127.0.0.1", server.port) as proxy:
        store = opened_at(server.url(disk / "shop", proxy.port))
        store.create("one", b"1" * 1000)
        fill(disk / "ballast")
        if answer:
            proxy.change(rb"426 [^\r]*", answer)
        kind = StorageFull if answer else TargetUnavailable
        for put in (store.create, store.replace):
            said = refused(kind, lambda put=put: put("pieces/2", b"2" * 300_000))  # type: ignore[misc]  # binds it
            assert ("no room is left — make room" if answer else "the server answers 426") in said
        assert names_of(store) == ["one"] and not list((disk / "shop" / UPLOADS).iterdir())
        (disk / "ballast").unlink()
        store.create("pieces/2", b"2" * 300_000)
        assert store.size("pieces/2") == 300_000
        store.close()


def test_missing_rights_are_told(server: FtpServer, drop: Path, tmp_path: Path) -> None:
    store = opened_at(server.url(drop / "shop"))
    store.create("one", b"1")
    with ftp_server(tmp_path / "reading", rights=READING) as limited:
        reader = opened_at(limited.url(drop / "shop"), Side.SOURCE)
        assert reader.read("one") == b"1" and names_of(reader) == ["one"]
        for work in (
            lambda: reader.create("two", b"2"),
            lambda: reader.replace("one", b"2"),
            lambda: reader.delete("one"),
        ):
            assert "the server refuses it (550)" in refused(ConfigError, work)
        reader.close()
    assert store.read("one") == b"1"
    store.close()


def test_old_halves_are_tidied_away(server: FtpServer, drop: Path) -> None:
    uploads = drop / "shop" / UPLOADS
    uploads.mkdir(parents=True)
    for path in (drop / "shop", uploads):
        give_away(path)
    (uploads / "new.tmp").write_bytes(b"half")
    (uploads / "old.tmp").write_bytes(b"half")
    long_ago = time.time() - ABANDONED_S - 3600
    os.utime(uploads / "old.tmp", (long_ago, long_ago))
    store = opened_at(server.url(drop / "shop"))
    store.create("1", b"one")
    assert [path.name for path in uploads.iterdir()] == ["new.tmp"]
    store.close()


def test_parts_are_read_while_others_write(server: FtpServer, drop: Path) -> None:
    """A part is left in the middle of a line of data: what is asked next has its own answer."""
    content = os.urandom(1 << 20)
    store, other = opened_at(server.url(drop / "shop")), opened_at(server.url(drop / "shop"))
    store.create("1", content)
    writer = threading.Thread(target=lambda: [other.create(f"x/{number}", b"x") for number in range(20)])
    writer.start()
    for offset in range(0, 1 << 20, 200_000):
        assert store.read("1", offset, 1000) == content[offset : offset + 1000]
        assert store.size("1") == len(content)
    writer.join()
    assert len(names_of(store)) == 21
    store.close()
    other.close()


class Halves(AbstractedFS):  # type: ignore[misc]  # pyftpdlib has no types
    """Let files be read that end too early, and nobody says so."""

    lost = 0

    def open(self, filename: str, mode: str) -> Any:
        file = super().open(filename, mode)
        if "r" in mode and self.lost:
            content = file.read()
            file.close()
            file = BytesIO(content[: -self.lost])
            file.name = filename  # type: ignore[attr-defined]  # as files have it
        return file


def test_a_file_that_ends_early_is_not_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "drop").mkdir()
    authorizer = DummyAuthorizer()
    authorizer.add_user("carrier", PASSWORD, "/", perm=EVERYTHING)
    handler = type("Handler", (FTPHandler,), {"authorizer": authorizer, "abstracted_fs": Halves, "use_sendfile": False})
    served = FTPServer(("127.0.0.1", 0), handler, ioloop=IOLoop())
    thread = threading.Thread(target=served.serve_forever, kwargs={"timeout": 0.05, "handle_exit": False})
    thread.start()
    try:
        url = f"trail+ftp://carrier:{quote(PASSWORD, safe='')}@127.0.0.1:{served.address[1]}{tmp_path}/drop/shop"
        store = opened_at(url)
        store.create("1", b"0123456789")
        monkeypatch.setattr(Halves, "lost", 4)
        for offset in (0, 3):
            assert "1: the bytes end before their end" in refused(
                TargetUnavailable,
                lambda offset=offset: store.read("1", offset),  # type: ignore[misc]  # binds it
            )
        monkeypatch.setattr(Halves, "lost", 0)
        assert store.read("1") == b"0123456789" and store.read("1", 3) == b"3456789"
        store.close()
    finally:
        served.ioloop.call_later(0, served.close_all)
        thread.join()
