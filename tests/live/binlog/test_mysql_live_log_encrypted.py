"""A log that is encrypted on the source's disk: the server decrypts what it sends, so it reads like any other."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from anabranch.testing import packages
from anabranch.testing.databases import create_database, unique_name
from anabranch.testing.processes import give_away
from anabranch.testing.servers import Server, start_mariadb, start_mysql

PLUGIN = "file_key_management.so"


def of_mariadb(directory: Path) -> list[str]:
    """https://mariadb.com/kb/en/file-key-management-encryption-plugin/"""
    shutil.copy(packages.find_mariadb_plugin(PLUGIN), directory)  # the server's account may not read root's cache
    (directory / PLUGIN).chmod(0o755)
    keys = directory / "keys"
    keys.write_text(f"1;{'a7' * 32}\n")
    return [
        f"--plugin-dir={directory}",
        "--plugin-load-add=file_key_management",
        f"--file-key-management-filename={keys}",
        "--encrypt-binlog=ON",
    ]


def of_mysql(directory: Path) -> list[str]:
    """https://dev.mysql.com/doc/refman/8.0/en/replication-binlog-encryption.html"""
    keyring = directory / "keyring"
    keyring.mkdir()
    give_away(keyring)
    early = ["--early-plugin-load=keyring_file.so", f"--keyring-file-data={keyring / 'keys'}"]
    return [*early, "--binlog-encryption=ON"]


SERVERS = {"mariadb": (start_mariadb, of_mariadb), "mysql": (start_mysql, of_mysql)}


@pytest.fixture(params=SERVERS)
def encrypting(request: pytest.FixtureRequest, servers_directory: Path) -> Iterator[Server]:
    directory = servers_directory / unique_name(f"encrypting-{request.param}")
    directory.mkdir()
    start, options = SERVERS[request.param]
    with start(directory / "server", options=options(directory)) as server:
        yield server
        server.stop(immediate=True)


def test_mysql_live_an_encrypted_log(encrypting: Server, follow: Callable) -> None:
    database = create_database(encrypting, "log")
    database.execute("CREATE TABLE t (id int PRIMARY KEY, v varchar(90))")
    follower = follow(database)
    begun = follower.begin()
    follower.run(
        "INSERT INTO t VALUES (1, 'nobody can read this')", "FLUSH BINARY LOGS", "INSERT INTO t VALUES (2, 'nor that')"
    )
    follower.run("UPDATE t SET v = 'so they say' WHERE id = 2")
    follower.begin(begun)
    follower.items.clear()
    follower.take()
    assert follower.told("t") == follower.read("t") == [b"1\tnobody can read this\n", b"2\tso they say\n"]
    follower.stop()
    files = list(encrypting.datadir.glob("binlog.0*"))
    assert len(files) > 1 and not [file for file in files if b"read this" in file.read_bytes()]
