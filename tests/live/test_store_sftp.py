"""Keep objects on OpenSSH's server: who it is, who may enter, what becomes of a cut line, a full disk, a server that ends."""

from __future__ import annotations

import asyncio
import os
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import asyncssh
import pytest

from anabranch.config.store_urls import parse_store_url
from anabranch.errors import AnabranchError, ConfigError, Side, SourceUnavailable, StorageFull, TargetUnavailable
from anabranch.stores import sftp_session
from anabranch.stores.contract import ObjectExists, ObjectMissing, ObjectStore
from anabranch.stores.folders import ABANDONED_S, UPLOADS
from anabranch.stores.opening import open_store
from anabranch.testing.faults import Proxy
from anabranch.testing.in_time import until
from anabranch.testing.openssh import SftpServer, start_sftp
from anabranch.testing.processes import give_away
from rigs.disk import fill, small_disk
from rigs.object_stores import names_of, refused


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SftpServer]:
    """Run a server."""
    running = start_sftp(tmp_path_factory.mktemp("sftp"))
    yield running
    running.daemon.stop()


@pytest.fixture
def drop(tmp_path: Path) -> Path:
    """Return a directory of the account that the server runs as."""
    (tmp_path / "drop").mkdir()
    give_away(tmp_path / "drop")
    return tmp_path / "drop"


def opened_at(url: str, end: Side = Side.TARGET) -> ObjectStore:
    return open_store(parse_store_url(url, {}), end)


def test_files_are_where_people_look_for_them(server: SftpServer, drop: Path) -> None:
    store = opened_at(server.url(drop / "shop"))
    store.create("pieces/1", b"one")
    assert (drop / "shop/pieces/1").read_bytes() == b"one" and list((drop / "shop" / UPLOADS).iterdir()) == []
    assert store.path("pieces/1") == f"sftp://{server.user}@127.0.0.1:{server.port}{drop}/shop/pieces/1"
    assert store.guarantees.creates_once and store.guarantees.lists_at_once
    store.close()


def test_a_server_whose_key_is_not_known_is_refused(server: SftpServer, drop: Path, tmp_path: Path) -> None:
    good = server.url(drop / "shop")
    other = "SHA256:" + "A" * 43
    for url in (good.replace(server.host_key.replace("+", "%2B"), other), good.partition("&host_key")[0]):
        known = "" if "host_key" in url else f"&known_hosts={tmp_path}/known"
        (tmp_path / "known").write_text("")
        said = refused(ConfigError, lambda url=url, known=known: opened_at(url + known).read("1"))  # type: ignore[misc]  # binds them
        assert f"host key that is not known ({server.host_key})" in said and "host_key=SHA256:" in said
    assert not (drop / "shop").exists()


def test_a_servers_key_is_known_from_a_file(server: SftpServer, drop: Path, tmp_path: Path) -> None:
    known = tmp_path / "known_hosts"
    key = server.key.with_name("host_key.pub").read_text()
    known.write_text(f"[127.0.0.1]:{server.port} {key}")
    store = opened_at(f"{server.url(drop / 'shop').partition('&host_key')[0]}&known_hosts={known}")
    store.create("1", b"one")
    assert names_of(store) == ["1"]
    store.close()


def test_one_of_several_fingerprints(server: SftpServer, drop: Path) -> None:
    url = server.url(drop / "shop").replace("host_key=", f"host_key=SHA256:{'B' * 43},")
    store = opened_at(url)
    store.create("1", b"one")
    store.close()


def test_logins_that_are_refused(server: SftpServer, drop: Path, tmp_path: Path) -> None:
    key = tmp_path / "other"
    subprocess.run(["ssh-keygen", "-qt", "ed25519", "-N", "", "-f", str(key)], check=True)
    url = server.url(drop / "shop")
    assert "the login is refused" in refused(
        ConfigError, lambda: opened_at(url.replace(str(server.key), str(key))).read("1")
    )
    (tmp_path / "nonsense").write_text("hush")
    said = refused(ConfigError, lambda: opened_at(url.replace(str(server.key), f"{tmp_path}/nonsense")).read("1"))
    assert "the key cannot be used" in said and "hush" not in said
    missing = url.replace(str(server.key), "/none")
    assert "the file /none cannot be read" in refused(ConfigError, lambda: opened_at(missing).read("1"))
    locked = tmp_path / "locked"
    subprocess.run(["ssh-keygen", "-qt", "ed25519", "-N", "hush-hush", "-f", str(locked)], check=True)
    said = refused(
        ConfigError,
        lambda: opened_at(url.replace(str(server.key), f"{locked}&key_passphrase=hush-not")).read("1"),
    )
    assert "the key cannot be used" in said and "hush" not in said
    assert "is no fingerprint" in refused(
        ConfigError, lambda: opened_at(url.partition("&host_key")[0] + "&host_key=ssh-ed25519")
    )


def test_a_directory_that_is_not_there_is_named(server: SftpServer, drop: Path) -> None:
    store = opened_at(server.url(drop / "none" / "shop"))
    for work in (
        lambda: store.create("1", b""),
        lambda: store.read("1"),
        lambda: names_of(store),
        lambda: store.size("1"),
    ):
        assert f"the directory {drop}/none is not there — make it" in refused(ConfigError, work)
    (drop / "none").mkdir()
    give_away(drop / "none")
    store.create("a/1", b"one")
    assert names_of(store) == ["a/1"]
    for path in (drop / "none/shop/a/1", drop / "none/shop/a"):
        path.unlink() if path.is_file() else path.rmdir()
    store.create("a/2", b"two")
    assert names_of(store) == ["a/2"]
    store.close()


@pytest.mark.parametrize(("end", "kind"), [(Side.SOURCE, SourceUnavailable), (Side.TARGET, TargetUnavailable)])
def test_a_line_that_is_cut_is_tried_again(
    server: SftpServer, drop: Path, end: Side, kind: type[AnabranchError]
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


def test_an_upload_whose_line_is_cut_is_no_object(server: SftpServer, drop: Path) -> None:
    """Cut the line when half of the bytes have passed."""
    content = os.urandom(8 << 20)
    with Proxy("127.0.0.1", server.port) as proxy:
        store = opened_at(server.url(drop / "shop", proxy.port))
        assert store.guarantees.creates_once
        before, passed = proxy.passed, []

        def cut() -> None:
            until(lambda: proxy.passed > before + (4 << 20), "nothing passes")
            proxy.cut()
            passed.append(True)

        proxy.slow(0.002)
        cutter = threading.Thread(target=cut)
        cutter.start()
        refused(TargetUnavailable, lambda: store.create("pieces/1", content))
        cutter.join()
        proxy.restore()
        assert passed and names_of(store) == []
        with pytest.raises(ObjectMissing):
            store.read("pieces/1")
        left = [path.stat().st_size for path in (drop / "shop" / UPLOADS).iterdir()]
        assert len(left) == 1 and left[0] < len(content)
        store.create("pieces/1", content)
        assert store.read("pieces/1") == content
        store.close()


def test_a_server_that_is_silent_is_away(server: SftpServer, drop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sftp_session, "ALIVE_S", 1.0)
    with Proxy("127.0.0.1", server.port) as proxy:
        store = opened_at(server.url(drop / "shop", proxy.port))
        store.create("1", b"one")
        proxy.stall()
        refused(TargetUnavailable, lambda: store.read("1"))
        proxy.restore()
        assert store.read("1") == b"one"
        store.close()


def test_a_server_that_is_killed_is_away_until_it_is_back(tmp_path: Path, drop: Path) -> None:
    server = start_sftp(tmp_path / "sftp")
    store = opened_at(server.url(drop / "shop"))
    store.create("1", b"one")
    store.close()
    server.daemon.kill()  # sessions that are open outlive it
    store = opened_at(server.url(drop / "shop"))
    assert "it cannot be reached" in refused(TargetUnavailable, lambda: store.create("2", b"two"))
    server.daemon.start()
    store.create("2", b"two")
    assert names_of(store) == ["1", "2"]
    store.close()
    server.daemon.stop()


def test_a_full_disk_is_told_and_leaves_nothing(server: SftpServer, tmp_path: Path) -> None:
    place = tmp_path / "disk"
    place.mkdir()
    with small_disk(place, 2, owner=65534) as disk:
        store = opened_at(server.url(disk / "shop"))
        store.create("one", b"1" * 1000)
        fill(disk / "ballast")
        for put in (store.create, store.replace):
            said = refused(StorageFull, lambda put=put: put("pieces/2", b"2" * 300_000))  # type: ignore[misc]  # binds it
            assert "no room is left — make room" in said
        assert names_of(store) == ["one"] and not list((disk / "shop" / UPLOADS).iterdir())
        (disk / "ballast").unlink()
        store.create("pieces/2", b"2" * 300_000)
        assert store.size("pieces/2") == 300_000
        store.close()


def test_missing_rights_are_told(server: SftpServer, drop: Path) -> None:
    store = opened_at(server.url(drop / "shop"))
    store.create("one", b"1")
    store.close()
    limited = start_sftp(drop.parent / "limited", "-R")  # it lets nobody write
    reader = opened_at(limited.url(drop / "shop"), Side.SOURCE)
    assert reader.read("one") == b"1" and not reader.guarantees.creates_once
    assert "permission denied" in refused(ConfigError, lambda: reader.create("two", b"2"))
    reader.close()
    limited.daemon.stop()


def test_a_server_that_cannot_replace_in_one_step_is_refused(tmp_path: Path, drop: Path) -> None:
    server = start_sftp(tmp_path / "sftp", "-P posix-rename,hardlink")
    store = opened_at(server.url(drop / "shop"))
    store.create("one", b"1")
    with pytest.raises(ObjectExists):
        store.create("one", b"2")
    said = refused(ConfigError, lambda: store.replace("one", b"2"))
    assert "cannot replace a file in one step — a server that knows posix-rename@openssh.com" in said
    assert store.read("one") == b"1" and not store.guarantees.creates_once
    store.close()
    server.daemon.stop()


def test_old_halves_are_tidied_away(server: SftpServer, drop: Path) -> None:
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


def test_folders_that_readers_write_have_the_mode_of_the_root(server: SftpServer, drop: Path) -> None:
    (drop / "shop").mkdir()
    give_away(drop / "shop")
    (drop / "shop").chmod(0o770)
    store = opened_at(server.url(drop / "shop"))
    store.create("pieces/1", b"one")
    store.replace("readers/in.json", b"{}")
    modes = {one: (drop / "shop" / one).stat().st_mode & 0o777 for one in (UPLOADS, "readers", "pieces")}
    assert modes[UPLOADS] == modes["readers"] == 0o770 and modes["pieces"] != 0o770
    store.close()


class Guard(asyncssh.SSHServer):
    """Let one user in by a password."""

    def begin_auth(self, username: str) -> bool:
        return True

    def password_auth_supported(self) -> bool:
        return True

    def validate_password(self, username: str, password: str) -> bool:
        return (username, password) == ("carrier", PASSWORD)


PASSWORD = "hush/p:w d@sftp"


@contextmanager
def guarded(root: Path, serving: type[asyncssh.SFTPServer] = asyncssh.SFTPServer) -> Iterator[tuple[int, str]]:
    """Run asyncssh's server over a directory, which knows passwords. Yield its port and the fingerprint of its key."""
    key = asyncssh.generate_private_key("ssh-ed25519")
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def listen() -> asyncssh.SSHAcceptor:
        return await asyncssh.create_server(
            Guard,
            "127.0.0.1",
            0,
            server_host_keys=[key],
            sftp_factory=lambda chan: serving(chan, chroot=str(root).encode()),
        )

    served = asyncio.run_coroutine_threadsafe(listen(), loop).result(60)
    try:
        yield served.get_port(), key.get_fingerprint()
    finally:
        loop.call_soon_threadsafe(served.close)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


def test_a_password_at_a_server_of_another_make(tmp_path: Path) -> None:
    with guarded(tmp_path) as (port, shown):
        good = f"trail+sftp://carrier:{quote(PASSWORD, safe='')}@127.0.0.1:{port}/shop?host_key={shown.replace('+', '%2B')}"
        store = opened_at(good)
        store.create("pieces/1", b"one")
        with pytest.raises(ObjectExists):
            store.create("pieces/1", b"two")
        store.replace("state", b"1")
        store.replace("state", b"2")
        assert names_of(store) == ["pieces/1", "state"] and store.read("state") == b"2"
        assert store.guarantees.creates_once and (tmp_path / "shop/pieces/1").read_bytes() == b"one"
        store.close()
        bad = good.replace("carrier:", "carrier:x")
        said = refused(ConfigError, lambda: opened_at(bad).read("state"))
        assert "the login is refused" in said and PASSWORD not in said


class Hanging(asyncssh.SFTPServer):
    """Answer no question about a file while `hangs` is set, as a server does whose disk is away; its session answers."""

    hangs = threading.Event()

    async def stat(self, path: bytes) -> asyncssh.SFTPAttrs:
        while self.hangs.is_set():
            await asyncio.sleep(0.01)
        return asyncssh.SFTPAttrs.from_local(super().stat(path))  # type: ignore[arg-type]  # it is not awaited there


def test_a_server_whose_sessions_answer_and_whose_files_do_not_is_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with guarded(tmp_path, Hanging) as (port, shown):
        password = quote(PASSWORD, safe="")
        store = opened_at(f"trail+sftp://carrier:{password}@127.0.0.1:{port}/shop?host_key={shown.replace('+', '%2B')}")
        store.create("1", b"one")
        with monkeypatch.context() as patched:
            patched.setattr(sftp_session, "LONGEST_S", 3.0)
            Hanging.hangs.set()
            assert "no answer within 3 s" in refused(TargetUnavailable, lambda: store.size("1"))
            Hanging.hangs.clear()
        assert store.size("1") == 3 and store.read("1") == b"one"
        store.close()
