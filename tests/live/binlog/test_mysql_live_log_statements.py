"""Changes that a log has as statements, and statements that bring rows with them: followed, parked or refused by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from anabranch.errors import UnknownLogEvent
from anabranch.model.ids import TableId
from anabranch.rows.chunk import BarrierKind
from anabranch.testing.databases import Database
from anabranch.testing.servers import Server
from anabranch.trail.reader import TrailReader
from rigs.mysql_capture import Captured

Make = Callable[[Server], Database]
TABLE = "(id int PRIMARY KEY AUTO_INCREMENT, v varchar(40))"


@contextmanager
def session(database: Database, **options: Any) -> Iterator[Callable[..., None]]:
    """`do(statement, …)` on one connection."""
    with closing(database.connect(**options)) as connection, closing(connection.cursor()) as cursor:

        def do(*statements: str) -> None:
            for statement in statements:
                cursor.execute(statement)

        yield do


@pytest.fixture
def database(mysql_family: Server, source_database: Make) -> Iterator[Database]:
    """With tables `t` and `other`; capture does not want the second one. Clients may send files."""
    made = source_database(mysql_family)
    made.execute(f"CREATE TABLE t {TABLE}", f"CREATE TABLE other {TABLE}")
    ((local,),) = made.query("SELECT @@GLOBAL.local_infile")
    made.execute("SET GLOBAL local_infile = ON")
    yield made
    made.execute(f"SET GLOBAL local_infile = {local}")


@pytest.fixture
def file(tmp_path: Path) -> str:
    """Rows to be loaded."""
    path = tmp_path / "rows.txt"
    path.write_text("".join(f"{n}\tfrom a file\n" for n in range(50, 60)))
    return str(path)


REFUSED = {
    "a value": ("STATEMENT", ["INSERT INTO t VALUES (1, 'secret')"]),
    "a generated key": ("STATEMENT", ["INSERT INTO t (v) VALUES ('secret')"]),
    "a random value": ("STATEMENT", ["UPDATE t SET v = RAND() WHERE id < 0"]),
    "a variable": ("STATEMENT", ["SET @x = 'secret'", "INSERT INTO t (v) VALUES (@x)"]),
    "several tables": ("STATEMENT", ["DELETE o FROM other o JOIN t ON t.id = o.id"]),
    "mixed format": ("MIXED", ["REPLACE INTO t VALUES (1, 'secret')"]),
    "behind rows": ("MIXED", ["BEGIN", "INSERT INTO t (v) VALUES (UUID())", "UPDATE t SET v = 'secret'", "COMMIT"]),
    "a file": ("STATEMENT", ["LOAD DATA LOCAL INFILE '{file}' INTO TABLE t"]),
}


def test_pitfall_8_changes_logged_as_statements_stop_before_anything_of_their_transaction(
    database: Database, tmp_path: Path, file: str
) -> None:
    """The statement as people may see it, its place and what to do; nothing is skipped by starting again."""
    for what, (how, statements) in REFUSED.items():
        database.execute("DELETE FROM t")
        captured = Captured(database, tmp_path / what.replace(" ", "-"))
        captured.run()
        with session(database, local_infile=True) as do:
            do("INSERT INTO t VALUES (900, 'before')", f"SET SESSION binlog_format = {how}")
            do(*(statement.format(file=file) for statement in statements))
            do("SET SESSION binlog_format = ROW", "INSERT INTO t VALUES (5000, 'after')")
        shown = next(s.split()[0] for s in reversed(statements) if s.split()[0] not in ("SET", "BEGIN", "COMMIT"))
        for _ in range(2):
            with pytest.raises(UnknownLogEvent, match="logged as a statement") as refused:
                captured.run()
            assert shown in refused.value.message and "secret" not in refused.value.message, what
            assert refused.value.position and "ROW" in refused.value.hint, what
            assert captured.transactions() == [[900]], what


def test_mysql_live_statements_about_other_tables_do_not_stop(database: Database, tmp_path: Path, file: str) -> None:
    captured = Captured(database, tmp_path / "trail")
    captured.run()
    with session(database, local_infile=True) as do:
        for how in ("STATEMENT", "MIXED"):
            do(
                f"SET SESSION binlog_format = {how}", "INSERT INTO other (v) VALUES ('x')", "SET @x = 'y'",
                "UPDATE other SET v = CONCAT(@x, RAND())", "INSERT INTO other (v) VALUES (@x), (UUID())",
                f"LOAD DATA LOCAL INFILE '{file}' REPLACE INTO TABLE other", "DELETE FROM other",
            )  # fmt: skip
        do("SET SESSION binlog_format = ROW", "INSERT INTO t VALUES (1, 'x')")
    captured.run()
    assert captured.transactions() == [[1]]


def test_mysql_live_rows_of_load_data_and_of_tables_that_statements_make(
    database: Database, tmp_path: Path, file: str
) -> None:
    """In ROW format LOAD DATA is rows; a table made by SELECT comes after the start and is parked; temporary tables, also
    one that hides a replicated one, are not in the log."""
    captured = Captured(database, tmp_path / "trail")
    captured.run()
    with session(database, local_infile=True) as do:
        do(f"LOAD DATA LOCAL INFILE '{file}' INTO TABLE t", "CREATE TABLE made AS SELECT * FROM t WHERE id < 53")
        do("INSERT INTO made VALUES (1, 'x')", "INSERT INTO t VALUES (1, 'x')")
        do(f"CREATE TEMPORARY TABLE t {TABLE}", "INSERT INTO t VALUES (2, 'x')", "UPDATE t SET v = 'y'")
        do("BEGIN", "INSERT INTO other VALUES (3, 'x')", "INSERT INTO t VALUES (3, 'x')", "COMMIT", "TRUNCATE t")
        do("DROP TEMPORARY TABLE t", "INSERT INTO t VALUES (4, 'x')")
        do(f"CREATE TEMPORARY TABLE t {TABLE}", "INSERT INTO t VALUES (5, 'x')")  # dropped with the session
    with session(database) as do:
        do("INSERT INTO t VALUES (6, 'x')")
    captured.run()
    assert captured.transactions() == [list(range(50, 60)), [1], [4], [6]]
    with TrailReader(tmp_path / "trail") as trail:
        assert {str(table) for table in trail.history.parked()} == {f"{database.name}.made"}
        assert TableId(database.name, "t") in trail.history.in_force()


def test_rule_19_keys_that_only_refuse_come_and_go(database: Database, tmp_path: Path) -> None:
    """The table is followed by the definition that it has: no row of it is written otherwise. A key that takes rows along
    parks the table, and with it what is connected."""
    database.execute("CREATE TABLE child (id int PRIMARY KEY, n int, t int)", "INSERT INTO t VALUES (7, 'a parent')")
    captured = Captured(database, tmp_path / "trail")
    captured.run()
    named, t = f"CONSTRAINT {database.name} FOREIGN KEY (t) REFERENCES t (id)", TableId(database.name, "t")
    statements = (
        f"ALTER TABLE child ADD {named} ON DELETE RESTRICT, ADD UNIQUE KEY u (n)",
        "CREATE UNIQUE INDEX v ON t (v)",
        f"ALTER TABLE child DROP FOREIGN KEY {database.name}, DROP KEY u /* both at once */",
        "DROP INDEX v ON t",
    )
    for number, statement in enumerate(statements):
        database.execute(statement, f"INSERT INTO child VALUES ({number}, {number}, 7)")
    captured.run()
    assert captured.transactions() == [[number] for number in range(len(statements))]
    barriers = [barrier for chunk in captured.chunks() for barrier in chunk.barriers]
    shown = [statement.partition(" /*")[0] for statement in statements]
    assert [(one.kind, one.statement) for one in barriers] == [(BarrierKind.NOTE, one) for one in shown]
    with TrailReader(tmp_path / "trail") as trail:
        assert [(s.version, s.keyed) for s in trail.history.in_force().values()] == [(1, {"id"})] * 2
    database.execute(
        f"ALTER TABLE child ADD {named} ON DELETE CASCADE", f"ALTER TABLE child DROP FOREIGN KEY {database.name}"
    )
    captured.run()
    with TrailReader(tmp_path / "trail") as trail:
        (reason,) = trail.history.parked().values()
        assert "columns or keys were altered" in reason and t in trail.history.in_force()


def test_mysql_live_a_statement_behind_fragments_stops(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("anabranch.connectors.mysql.source.endings.FULL_IMAGES", 10)
    captured = Captured(database, tmp_path / "trail")
    captured.run()
    rows = "INSERT INTO t (v) VALUES " + ", ".join(["(UUID())"] * 30)
    with session(database) as do:
        do("SET SESSION binlog_format = MIXED", "BEGIN", rows, "UPDATE t SET v = 'secret'", "COMMIT")
    with pytest.raises(UnknownLogEvent, match="statement besides rows") as refused:
        captured.run()
    assert "secret" not in refused.value.message and captured.transactions() == []
