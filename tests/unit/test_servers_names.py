"""The parts of the test kit that need no server: versions, URLs, names, the cache, what apt prints."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from anabranch.testing import debian, packages
from anabranch.testing.cache import ServerUnavailable, cache_directory, fetched
from anabranch.testing.databases import unique_name
from anabranch.testing.recipes import read_greeting
from anabranch.testing.servers import Server, dsn_variable, free_port, server_from_dsn, server_from_environment


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ANABRANCH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("mariadbd  Ver 10.11.19-MariaDB-0+deb12u1 for debian-linux-gnu on x86_64 (Debian 12)", (10, 11, 19)),
        ("/opt/mysql-9.1/bin/mysqld  Ver 8.0.33 for Linux on x86_64 (MySQL Community Server - GPL)", (8, 0, 33)),
        ("postgres (PostgreSQL) 18.4", (18, 4)),
        ("postgres (PostgreSQL) 19beta1", (19,)),
        ('openjdk version "17.0.15" 2025-04-15', (17, 0, 15)),
        ('openjdk version "21" 2023-09-19', (21,)),
        ('java version "1.8.0_392"', (8, 0)),
        ("no version here", None),
    ],
)
def test_parse_version(text: str, version: tuple[int, ...] | None) -> None:
    assert packages.parse_version(text) == version


def test_needed_packages_are_the_new_ones_without_the_c_library() -> None:
    printed = (
        "Reading package lists...\nInst libaio1 (0.3.113-4 Debian)\nInst libc6 [2.36] (2.37 x)\nConf libaio1 (0.3)\n"
    )
    assert debian.needed_packages(printed) == ["libaio1"]


@pytest.mark.parametrize("name", ["mariadb", "mysql", "postgresql"])
def test_url_survives_any_password(name: str) -> None:
    server = Server(name, "1", "127.0.0.1", 4711, "root", "p@:/?#[] %ü")
    parts = urlsplit(server.url("shop"))
    assert (parts.scheme, parts.hostname, parts.port, parts.path) == (name, "127.0.0.1", 4711, "/shop")
    assert "p%40%3A%2F" in server.url()


def test_password_is_not_in_the_text_of_a_server() -> None:
    assert "secret" not in repr(Server("mysql", "8", "127.0.0.1", 1, "root", "secret"))


def test_foreign_server_is_not_ours_to_stop() -> None:
    server = Server("mysql", "8", "db.example", 3306, "root", "")
    assert not server.can_restart
    assert server.pid is None
    for verb in (server.start, server.stop, server.kill):
        with pytest.raises(ServerUnavailable, match=r"not ours.*ANABRANCH_TEST_MYSQL_DSN"):
            verb()
    with server:
        pass


@pytest.mark.parametrize("dsn", ["oracle://u:p@h/d", "mysql:///x", "h:3306"])
def test_dsn_of_an_unknown_kind_is_refused(dsn: str) -> None:
    with pytest.raises(ServerUnavailable, match="expected mariadb://"):
        server_from_dsn(dsn)


@pytest.mark.parametrize("name", ["mariadb", "mysql", "postgresql"])
def test_dsn_where_nothing_listens_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(dsn_variable(name), f"{name}://u:p@127.0.0.1:{free_port()}/")
    with pytest.raises(ServerUnavailable, match="does not answer"):
        server_from_environment(name)


@pytest.mark.parametrize(
    ("greeting", "version"),
    [
        (b"\x4a\0\0\0\x0a5.5.5-10.11.19-MariaDB-log\0rest", "10.11.19-MariaDB-log"),
        (b"\x4a\0\0\0\x0a8.0.33\0rest", "8.0.33"),
        (b"\x10\0\0\0\xff\x10\x04Too many connections", None),
        (b"", None),
    ],
)
def test_read_greeting(greeting: bytes, version: str | None) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.sendall(greeting)

        thread = threading.Thread(target=serve)
        thread.start()
        assert read_greeting("127.0.0.1", listener.getsockname()[1]) == version
        thread.join()


def test_free_port_is_free_and_not_ephemeral() -> None:
    port = free_port()
    assert 20000 <= port < 32768
    with socket.create_server(("127.0.0.1", port)):
        pass


def test_names_are_unique_short_and_need_no_quotes() -> None:
    names = {unique_name("test_load[MariaDB-ü " + "x" * 80) for _ in range(50)}
    assert len(names) == 50
    assert all(len(name) <= 63 and name.replace("_", "a").isalnum() and name.islower() for name in names)
    assert unique_name("").startswith("t_")


def test_fetched_fills_once(cache: Path) -> None:
    calls: list[Path] = []

    def fill(scratch: Path) -> None:
        calls.append(scratch)
        (scratch / "file").write_text("x")

    assert fetched("thing", fill) == fetched("thing", fill) == cache / "thing"
    assert len(calls) == 1
    assert (cache / "thing" / "file").read_text() == "x"


def test_a_failed_fetch_leaves_nothing_and_may_be_tried_again(cache: Path) -> None:
    def fail(scratch: Path) -> None:
        (scratch / "half").write_text("x")
        raise ServerUnavailable("network")

    with pytest.raises(ServerUnavailable):
        fetched("thing", fail)
    assert not [path for path in cache.iterdir() if path.is_dir()]
    (cache / ".thing.left").mkdir()  # as by a process that was killed
    fetched("thing", lambda scratch: None)
    assert [path.name for path in cache.iterdir() if path.is_dir()] == ["thing"]


FETCH = """
import sys
from anabranch.testing.cache import fetched
fetched("thing", lambda scratch: open(sys.argv[1], "a").write("filled\\n"))
"""


def test_two_processes_fetch_once(cache: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    workers = [subprocess.Popen([sys.executable, "-c", FETCH, str(log)]) for _ in range(2)]
    assert [worker.wait(180) for worker in workers] == [0, 0]
    assert log.read_text() == "filled\n"


def test_cache_that_cannot_be_made_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ANABRANCH_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(ServerUnavailable, match="set ANABRANCH_CACHE"):
        cache_directory()


def test_absolute_links_of_an_unpacked_tree_become_relative(tmp_path: Path) -> None:
    target, home = tmp_path / "etc" / "java" / "x.cfg", tmp_path / "usr" / "lib" / "jvm"
    target.parent.mkdir(parents=True)
    home.mkdir(parents=True)
    target.write_text("x")
    (home / "x.cfg").symlink_to("/etc/java/x.cfg")
    (home / "dangling").symlink_to("/etc/absent")
    debian.relink(tmp_path)
    assert (home / "x.cfg").readlink() == Path("../../../etc/java/x.cfg")
    assert (home / "dangling").readlink() == Path("/etc/absent")


def test_postgresql_named_by_the_environment_and_absent_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANABRANCH_PG_BIN", str(tmp_path))
    with pytest.raises(ServerUnavailable, match="no PostgreSQL server in ANABRANCH_PG_BIN"):
        packages.find_postgresql()


def test_mysql_is_not_fetched_when_only_looked_for(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    monkeypatch.setattr(packages, "_on_machine", lambda name: [])
    with pytest.raises(ServerUnavailable, match="fetched when first needed"):
        packages.find_mysql(fetch=False)
    assert list(cache.iterdir()) == []


def test_java_that_is_too_old_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def java(name: str, version: str) -> Path:
        program = tmp_path / name / "bin" / "java"
        program.parent.mkdir(parents=True)
        program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
        program.chmod(0o755)
        return program

    monkeypatch.setenv("JAVA_HOME", str(java("old", "11.0.2").parent.parent))
    new = java("new", "21.0.1")
    monkeypatch.setattr(packages, "_on_machine", lambda name: [new])
    assert packages.find_java(fetch=False) == new
