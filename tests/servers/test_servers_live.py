"""Every server of the test kit, for real: started, asked, restarted, killed, and gone when it should be gone."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import psycopg
import pymysql
import pytest

from anabranch.testing.databases import Database, connect, create_database, drop_database, unique_name
from anabranch.testing.in_time import in_time
from anabranch.testing.servers import (
    Server,
    ServerUnavailable,
    free_port,
    server_from_dsn,
    start_mariadb,
    start_mysql,
    start_postgresql,
)

STARTERS = {"mariadb": start_mariadb, "mysql": start_mysql, "postgresql": start_postgresql}
NAMES = sorted(STARTERS)
A_BAD_OPTION = "--no-such-option-here=1"


@pytest.fixture(params=NAMES)
def server(request: pytest.FixtureRequest) -> Server:
    found: Server = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def own(server: Server) -> Server:
    """A server that a test may stop."""
    assert server.can_restart, "these tests need a server of their own: unset the DSN"
    return server


@pytest.fixture
def database(server: Server, source_database: Callable[[Server], Database]) -> Iterator[Database]:
    made = source_database(server)
    made.execute("CREATE TABLE kept (id INT PRIMARY KEY, word VARCHAR(20))", "INSERT INTO kept VALUES (1, 'before')")
    yield made


def processes_under(directory: Path) -> list[str]:
    """Command lines that name `directory`."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = file.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if f"{directory}/" in words:
            found.append(words)
    return found


def wait_until(condition: Callable[[], bool], seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        in_time(deadline, "it did not come true in time")
        time.sleep(0.05)


def test_version_over_the_wire(server: Server, database: Database) -> None:
    question = "SHOW server_version" if server.name == "postgresql" else "SELECT VERSION()"
    ((version,),) = database.query(question)
    assert version.startswith(server.version)
    assert ("MariaDB" in version) == (server.name == "mariadb")


def test_administrator_needs_the_password(server: Server) -> None:
    with pytest.raises((psycopg.OperationalError, pymysql.err.OperationalError)):
        connect(server, password="wrong").close()


def test_runs_without_root(own: Server) -> None:
    assert Path(f"/proc/{own.pid}").stat().st_uid != 0


def test_password_is_on_no_command_line(own: Server) -> None:
    assert own.password not in Path(f"/proc/{own.pid}/cmdline").read_text()


def test_binary_log_is_complete_and_durable(own_source: Server) -> None:
    expected = {
        "log_bin": "ON",
        "binlog_format": "ROW",
        "binlog_row_image": "FULL",
        "binlog_row_metadata": "FULL",
        "sync_binlog": "1",
        "innodb_flush_log_at_trx_commit": "1",
        "character_set_server": "utf8mb4",
        "server_id": "1",
    }
    if own_source.name == "mysql":
        expected |= {"gtid_mode": "ON", "enforce_gtid_consistency": "ON"}
    settings = dict(Database(own_source, "").query("SHOW GLOBAL VARIABLES"))
    assert {name: settings[name] for name in expected} == expected


def test_mysql_family_has_no_account_without_a_password(
    mysql_family: Server, source_database: Callable[[Server], Database]
) -> None:
    accounts = source_database(mysql_family).query(
        "SELECT user, host FROM mysql.user WHERE user = '' OR (user = 'root' AND authentication_string = '')"
    )
    assert accounts == []


def test_postgresql_is_durable(servers_directory: Path) -> None:
    with start_postgresql(servers_directory / unique_name("durable")) as server:
        assert Database(server, "postgres").query("SHOW fsync") == [("on",)]
        assert Database(server, "postgres").query("SHOW server_encoding") == [("UTF8",)]


@pytest.mark.parametrize("how", ["stop", "stop immediately", "kill"])
def test_restart_keeps_port_and_rows(own: Server, database: Database, how: str) -> None:
    pid, url = own.pid, own.url()
    if how == "kill":
        own.kill()
    else:
        own.stop(immediate=how == "stop immediately")
    assert own.pid is None
    with pytest.raises(OSError):
        socket.create_connection((own.host, own.port), timeout=2).close()
    own.start()
    assert own.pid not in (None, pid)
    assert own.url() == url
    assert database.query("SELECT word FROM kept") == [("before",)]
    database.execute("INSERT INTO kept VALUES (2, 'after')")
    drop_database(create_database(own))  # the session that made the first database has ended


def test_same_handle_from_a_dsn(server: Server) -> None:
    other = server_from_dsn(server.url())
    assert (other.name, other.version, other.url("x")) == (server.name, server.version, server.url("x"))
    assert not other.can_restart


def test_database_is_dropped_while_a_session_uses_it(server: Server) -> None:
    database = create_database(server, "in use")
    database.execute("CREATE TABLE busy (id INT PRIMARY KEY)")
    with closing(database.connect(autocommit=False)) as session:
        session.cursor().execute("INSERT INTO busy VALUES (1)")
        drop_database(database)
    names = "SELECT datname FROM pg_database" if server.name == "postgresql" else "SHOW DATABASES"
    assert (database.name,) not in Database(server, "").query(names)


def test_only_plain_statements_that_follow_each_other_share_a_session(server: Server, database: Database) -> None:
    own = {"postgresql": "pg_backend_pid()"}.get(server.name, "CONNECTION_ID()")
    database.execute(f"CREATE VIEW who AS SELECT {own} AS session")

    def session() -> int:
        return int(database.query("SELECT session FROM who")[0][0])

    first = session()
    database.execute("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)", "DROP TABLE t")
    assert session() == first
    with ThreadPoolExecutor(1) as others:
        assert others.submit(session).result() != first
    assert session() == first
    database.query(f"SELECT {own}")
    second = session()
    with closing(database.connect()):
        third, fourth = session(), session()
    assert len({first, second, third, fourth, session()}) == 5
    with pytest.raises((psycopg.Error, pymysql.Error)):
        database.execute("INSERT INTO kept VALUES (1, 'again')")
    assert session() == session()


@pytest.mark.parametrize("name", NAMES)
def test_stop_leaves_no_process_and_the_directory_opens_again(name: str, tmp_path: Path) -> None:
    """As root, pytest's directories are closed to the account that servers run as: that must do no harm either."""
    directory = tmp_path / "s"
    with STARTERS[name](directory) as first:
        database = create_database(first)
        assert processes_under(directory)
    assert processes_under(directory) == []
    with STARTERS[name](directory) as second:
        assert second.url() == first.url()
        second.kill()
        assert processes_under(directory) == []
        second.start()
        assert "Zerofilling" not in second.log_tail(10_000)  # MariaDB lost its Aria control file
        drop_database(Database(second, database.name))


def test_options_override(tmp_path: Path) -> None:
    with start_mysql(tmp_path, options=["--gtid-mode=OFF", "--enforce-gtid-consistency=OFF"]) as server:
        assert Database(server, "").query("SELECT @@gtid_mode") == [("OFF",)]


@pytest.mark.parametrize("name", ["mariadb", "postgresql"])
def test_failed_start_shows_the_log(name: str, tmp_path: Path) -> None:
    with pytest.raises(ServerUnavailable, match=r"(?s)ended with \d+ at its start.*no.such.option.here"):
        STARTERS[name](tmp_path, options=[A_BAD_OPTION])
    assert processes_under(tmp_path) == []


def test_data_of_another_server_is_refused(tmp_path: Path) -> None:
    start_postgresql(tmp_path).stop()
    with pytest.raises(ServerUnavailable, match=r"holds data of postgresql .*remove"):
        start_mariadb(tmp_path)


def test_port_that_is_taken_is_said(tmp_path: Path) -> None:
    with (
        socket.create_server(("127.0.0.1", free_port())) as listener,
        pytest.raises(ServerUnavailable, match="in use"),
    ):
        start_postgresql(tmp_path, port=listener.getsockname()[1])


def test_outlives_the_thread_that_started_it(tmp_path: Path) -> None:
    """Linux would send the death signal when that thread ends."""
    started: list[Server] = []
    thread = threading.Thread(target=lambda: started.append(start_postgresql(tmp_path)))
    thread.start()
    thread.join()
    time.sleep(0.2)
    with started[0] as server:
        assert server.pid is not None
        assert Database(server, "").query("SELECT 1") == [(1,)]


@pytest.mark.parametrize(
    ("name", "end"), [("mariadb", "SIGKILL"), ("mysql", "SIGKILL"), ("postgresql", "SIGKILL"), ("postgresql", "exit")]
)
def test_does_not_outlive_its_process(name: str, end: str, tmp_path: Path) -> None:
    last = "os.kill(os.getpid(), 9)" if end == "SIGKILL" else "sys.exit(3)"
    code = (
        "import os, sys; from pathlib import Path; from anabranch.testing import servers;"
        f"s = servers.start_{name}(Path(sys.argv[1])); print(s.pid, flush=True); {last}"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == (-signal.SIGKILL if end == "SIGKILL" else 3), done.stderr
    assert int(done.stdout) > 0
    wait_until(lambda: processes_under(tmp_path) == [])
