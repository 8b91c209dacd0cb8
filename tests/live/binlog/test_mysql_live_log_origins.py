"""Transactions that another server made, as a replica writes them down: whose they are, and readers that leave them out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Any

import pytest

from anabranch import connectors
from anabranch.connectors.mysql.target import ledger
from anabranch.connectors.mysql.target.begin import empty_table
from anabranch.connectors.mysql.target.session import connect
from anabranch.errors import ConfigError
from anabranch.model.ids import TableId
from anabranch.model.position import Position
from anabranch.rows.chunk import Chunk
from anabranch.rows.log_items import LogDecided, LogPrepared, LogStatement
from anabranch.testing.databases import Database, unique_name
from anabranch.testing.servers import Server
from anabranch.trail.reader import TrailReader
from anabranch.trail.show import show
from rigs.mysql_capture import Captured

Make = Callable[[Server], Database]
THERE = "4321"
OTHER = "3e11fa47-71ca-11e1-9e33-c80aa9429562"


@contextmanager
def made_at(database: Database, server: str) -> Iterator[Callable[..., None]]:
    """Runs statements whose events have the id of another server. MySQL lets no session have one of its own."""
    is_mysql = database.server.name == "mysql"
    ((own,),) = database.query("SELECT @@global.server_id")
    if is_mysql:
        database.execute(f"SET GLOBAL server_id = {server}")
    try:
        with closing(database.connect()) as connection, closing(connection.cursor()) as cursor:
            if not is_mysql:
                cursor.execute(f"SET SESSION server_id = {server}")
            yield lambda *statements: [cursor.execute(statement) for statement in statements]
    finally:
        if is_mysql:
            database.execute(f"SET GLOBAL server_id = {own}")


def origins(items: list[Any]) -> list[str | None]:
    return [one for item in items if isinstance(item, Chunk) for one in item.transactions.column("origin").to_pylist()]


def test_rule_21_another_server_is_told_and_left_out(mysql_family: Server, source_database: Make, follow: Any) -> None:
    """Rows and TRUNCATEs of it are left out; what it does to definitions is told."""
    database = source_database(mysql_family)
    database.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    everything, rest = follow(database), follow(database)
    rest.leave_out = frozenset((THERE,))
    for follower in (everything, rest):
        follower.begin()
    with made_at(database, THERE) as run:
        run("INSERT INTO t VALUES (1, 1), (2, 2)", "UPDATE t SET v = 7 WHERE id = 1")
        database.execute("INSERT INTO t VALUES (3, 3)") if mysql_family.name == "mariadb" else None
        run("TRUNCATE TABLE t", "ALTER TABLE t COMMENT 'there'")
    database.execute("INSERT INTO t VALUES (4, 4)", "TRUNCATE TABLE t", "INSERT INTO t VALUES (5, 5)")
    here = 3 if mysql_family.name == "mariadb" else 2
    told = [item.origin for item in everything.take() if isinstance(item, LogStatement)]
    assert told == [THERE, THERE, None]
    assert origins(everything.items) == [THERE, THERE, *[None] * here]
    assert [(item.sql[:5], item.origin) for item in rest.take() if isinstance(item, LogStatement)] == [
        ("ALTER", THERE),
        ("TRUNC", None),
    ]
    assert origins(rest.items) == [None] * here
    assert {image["id"] for image in rest.images("t")} == {3, 4, 5} - ({3} if here == 2 else set())


def test_rule_21_a_source_of_gtids_is_left_out(mysql: Server, source_database: Make, follow: Any) -> None:
    database = source_database(mysql)
    database.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    follower = follow(database)
    follower.leave_out = frozenset((OTHER.upper(),))
    follower.begin()
    for number in range(1, 7):
        by = f"{OTHER}:{number}" if number % 2 else "AUTOMATIC"
        database.execute(f"SET gtid_next = '{by}'", f"INSERT INTO t VALUES ({number})", "SET gtid_next = 'AUTOMATIC'")
    follower.take()
    assert {image["id"] for image in follower.images("t")} == {2, 4, 6}
    gtids = [gtid for chunk in follower.chunks() for gtid in chunk.transactions.column("gtid").to_pylist()]
    assert len(gtids) == 3 and not any(gtid.startswith(OTHER) for gtid in gtids)


def test_rule_21_prepared_transactions_of_another_server(
    mysql_family: Server, source_database: Make, follow: Any
) -> None:
    """Where they are left out their ends are told all the same: a transaction of that name is over then."""
    database = source_database(mysql_family)
    database.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    everything, rest = follow(database), follow(database)
    rest.leave_out = frozenset((THERE,))
    for follower in (everything, rest):
        follower.begin()
    with made_at(database, THERE) as run:
        run("XA START 'x'", "INSERT INTO t VALUES (1), (2)", "XA END 'x'", "XA PREPARE 'x'", "XA COMMIT 'x'")
    for follower, rows in ((everything, 2), (rest, 0)):
        items = follower.take()
        assert sum(item.chunk.row_count for item in items if isinstance(item, LogPrepared)) == rows
        (decided,) = (item for item in items if isinstance(item, LogDecided))
        assert decided.is_committed and decided.origin == THERE


def test_rule_21_a_name_that_no_log_has_is_refused(mysql_family: Server, source_database: Make, follow: Any) -> None:
    follower = follow(source_database(mysql_family))
    for name in ("north", "0", "-1", "4294967296", OTHER[:-1]):
        follower.leave_out = frozenset((name,))
        with pytest.raises(ConfigError, match=r"is no origin that a binary log names"):
            follower.begin()


def test_rule_21_the_trail_has_it(mysql_family: Server, source_database: Make, tmp_path: Any) -> None:
    database = source_database(mysql_family)
    database.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    captured = Captured(database, tmp_path / "trail")
    captured.run()
    with made_at(database, THERE) as run:
        run("INSERT INTO t VALUES (1)", "XA START 'x'", "INSERT INTO t VALUES (2)", "XA END 'x'", "XA PREPARE 'x'")
        run("XA COMMIT 'x'")
    database.execute("INSERT INTO t VALUES (3)")
    captured.run()
    with TrailReader(tmp_path / "trail") as reader:
        assert [(row.values["id"], row.origin) for row in show(reader, after=0) if row.values] == [
            ("1", THERE),
            ("2", THERE),
            ("3", None),
        ]


def test_rule_21_a_table_that_a_load_empties(mysql_family: Server, source_database: Make, follow: Any) -> None:
    """By TRUNCATE, which says it in a comment; by DELETE where that is refused, behind a change of the load's mark (MariaDB: a
    table that keeps its history)."""
    database, job, source = source_database(mysql_family), unique_name("job"), TableId("s", "t")
    versioned = " WITH SYSTEM VERSIONING" * (mysql_family.name == "mariadb")
    database.execute("CREATE TABLE t (id INT PRIMARY KEY)", f"CREATE TABLE u (id INT PRIMARY KEY){versioned}")
    database.execute("INSERT INTO t VALUES (1)", "INSERT INTO u VALUES (1), (2)")
    endpoint = replace(follow(database).endpoint, database="")
    with closing(connectors.row_target(endpoint).store()) as store:
        store.prepare()
    rest = follow(database)
    rest.leave_out = frozenset((f"anabranch:{job}",))
    rest.begin()
    with closing(connect(endpoint, "test", autocommit=True)) as session:
        ledger.mark(session, job, source, 1, ledger.Mark.EMPTY)
        for name in ("t", "u"):
            empty_table(session, TableId(database.name, name), job, source)
        ledger.clear(session, job, source)
    assert database.query("SELECT * FROM t") == database.query("SELECT * FROM u") == []
    database.execute("INSERT INTO u VALUES (3)")
    items = rest.take()
    assert not [item for item in items if isinstance(item, LogStatement) and item.sql.startswith("TRUNCATE")]
    assert origins(items) == [None] and {image["id"] for image in rest.images("u")} == {3}


def test_rule_21_a_marker_among_partial_updates(mysql: Server, source_database: Make, follow: Any) -> None:
    """With PARTIAL_JSON an update is another event, also of a table without documents."""
    database, job = source_database(mysql), unique_name("job")
    database.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    rest = follow(database)
    with closing(connectors.row_target(rest.endpoint).store()) as store:
        store.prepare()
        store.jobs.create_checkpoint(job, Position(1, ""), 0)
    rest.leave_out = frozenset((f"anabranch:{job}",))
    rest.begin()
    move = f"UPDATE anabranch.checkpoint SET epoch = epoch + 1 WHERE job = '{job}'"
    database.execute(
        "SET binlog_row_value_options = PARTIAL_JSON", "BEGIN", move, "INSERT INTO t VALUES (1)", "COMMIT",
        "INSERT INTO t VALUES (2)",
    )  # fmt: skip
    rest.take()
    assert {image["id"] for image in rest.images("t")} == {2}
