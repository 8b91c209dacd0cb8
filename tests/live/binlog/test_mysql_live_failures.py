"""A source that refuses for a while: capture waits, opens the log again where the trail ends, and everything is in the trail
once. What a person has to mend ends it by name."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pymysql
import pytest

from anabranch import connectors
from anabranch.errors import AnabranchError, SourceError, SourceUnavailable
from anabranch.testing.databases import Database, unique_name
from anabranch.testing.in_time import until
from anabranch.testing.servers import Server
from rigs.mysql_capture import Captured

RIGHTS = ("REPLICATION SLAVE", "REPLICATION CLIENT", "SELECT")


@contextmanager
def account(database: Database) -> Iterator[str]:
    """A user that may capture, and no more."""
    user = f"'{unique_name('app')[:30]}'@'%'"
    database.execute(f"CREATE USER {user} IDENTIFIED BY 'secret'", f"GRANT {', '.join(RIGHTS)} ON *.* TO {user}")
    try:
        yield user
    finally:
        database.execute(f"DROP USER {user}")


def end_sessions(database: Database, user: str) -> None:
    name = user.split("'")[1]
    for (session,) in database.query("SELECT id FROM information_schema.processlist WHERE user = %s", [name]):
        with suppress(pymysql.err.OperationalError):  # it has ended meanwhile
            database.execute(f"KILL {session}")


@contextmanager
def capturing(one: Captured, user: str) -> Iterator[Callable[[], list[AnabranchError]]]:
    """It runs in a thread meanwhile, as this user; gives what it died of. Its end is asked for at the end."""
    one.endpoint = replace(one.endpoint, user=user.split("'")[1], password="secret")
    one.source = connectors.source(one.endpoint)
    stop, died = threading.Event(), list[AnabranchError]()

    def run() -> None:
        try:
            one.run(until=stop.is_set)
        except AnabranchError as error:
            died.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield lambda: died
    finally:
        stop.set()
        thread.join(180)


def follows(database: Database, user: str) -> bool:
    """A server keeps readers of others, which are gone, for a while."""
    name = user.split("'")[1]
    return any("Binlog Dump" in str(row) and name in str(row) for row in database.query("SHOW PROCESSLIST"))


def ways(server: Server, user: str) -> Iterator[tuple[str, Sequence[str], Sequence[str]]]:
    """What capture says, how it is made, how it is mended. All end the sessions as well."""
    yield "source lost", (), ()
    limit = f"ALTER USER {user} WITH MAX_CONNECTIONS_PER_HOUR "
    yield "1226", (f"{limit} 1",), (f"{limit} 0",)
    if server.name == "mysql":
        yield "3032", ("SET GLOBAL offline_mode = ON",), ("SET GLOBAL offline_mode = OFF",)


@pytest.mark.one_case("mariadb")
def test_pitfall_44_a_source_that_refuses_for_a_while(
    mysql_family: Server, source_database: Callable[[Server], Database], tmp_path: Path
) -> None:
    database = source_database(mysql_family)
    database.execute("CREATE TABLE t (id INT PRIMARY KEY)", "CREATE TABLE other (id INT PRIMARY KEY)")
    one, rows = Captured(database, tmp_path / "trail"), 0
    with account(database) as user, capturing(one, user) as died:
        until(lambda: (tmp_path / "trail" / "trail.json").exists(), "the trail begins")
        until(lambda: follows(database, user), "the log is being read")
        for says, making, mending in ways(mysql_family, user):
            one.waited.clear()
            database.execute(*making)
            end_sessions(database, user)
            rows += 1
            database.execute(f"INSERT INTO t VALUES ({rows})")
            until(lambda says=says: any(says in why for why in one.waited), says)
            database.execute(*mending)
            rows += 1
            database.execute(f"INSERT INTO t VALUES ({rows})")
            until(lambda rows=rows: len(one.transactions()) == rows, f"the trail has {rows} rows")
        assert died() == []
    assert one.transactions() == [[number] for number in range(1, rows + 1)]


def test_what_a_person_has_to_mend_at_the_source_ends_capture_by_name(
    mysql_family: Server, source_database: Callable[[Server], Database], tmp_path: Path
) -> None:
    database = source_database(mysql_family)
    database.execute("CREATE TABLE t (id INT PRIMARY KEY)", "CREATE TABLE other (id INT PRIMARY KEY)")
    one = Captured(database, tmp_path / "trail")
    with account(database) as user, capturing(one, user) as died:
        until(lambda: (tmp_path / "trail" / "trail.json").exists(), "the trail begins")
        until(lambda: follows(database, user), "the log is being read")
        database.execute(f"ALTER USER {user} ACCOUNT LOCK")
        end_sessions(database, user)
        until(died, "capture ends")
        (error,) = died()
        assert isinstance(error, SourceError) and not isinstance(error, SourceUnavailable)
        assert "the account is locked at the source" in str(error)
