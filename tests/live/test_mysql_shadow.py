"""The shadow of a drill at a MySQL or MariaDB: what it copies, what differs, and that a comparison is in nobody's way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest

from anabranch.connectors.mysql.source.shadow import MysqlShadow
from anabranch.contracts import Unlike
from anabranch.errors import AnabranchError
from anabranch.model.ids import TableId
from anabranch.testing.databases import Database, unique_name
from anabranch.testing.in_time import until
from anabranch.testing.servers import Server
from rigs.mysql_administrator import endpoint_at

KINDS = (
    "CREATE TABLE kinds (a char(3) CHARACTER SET latin1, b varbinary(4), f float, j json, d decimal(9,3), t time(2),"
    " e set('x', 'y'), twice int AS (n * 2), n int, PRIMARY KEY (a, b), KEY (n)) PARTITION BY KEY (b) PARTITIONS 2"
)
ROWS = (
    "INSERT INTO {} (a, b, f, j, d, t, e, n) VALUES ('é', x'00', 0.1, '[1]', 1.5, '-01:02:03.45', 'x,y', 1),"
    " ('b', x'ff', 1e-30, NULL, 2, NULL, '', 2), ('c', x'', NULL, '{{\"k\": 1}}', 3, NULL, NULL, 3)"
)
COLUMNS = ("a", "b", "f", "j", "d", "t", "e", "twice", "n")
COMPARING = "SELECT ID FROM information_schema.PROCESSLIST WHERE INFO LIKE %s AND INFO NOT LIKE '%%PROCESSLIST%%'"


@dataclass
class Made:
    database: Database
    shadow: MysqlShadow

    def unlike(self, name: str, *columns: str, key: tuple[str, ...] = ("id",)) -> Unlike | None:
        table, copy = (TableId(schema, name) for schema in (self.database.name, self.shadow.schema))
        return self.shadow.unlike(table, copy, key, columns, 10)

    def is_comparing(self) -> bool:
        """Return whether the server is comparing this shadow."""
        return bool(self.database.query(COMPARING, [f"%LEFT JOIN%{self.shadow.schema}%"]))


@pytest.fixture
def made(mysql_family: Server, source_database: Callable[[Server], Database]) -> Iterator[Made]:
    database = source_database(mysql_family)
    shadow = MysqlShadow(endpoint_at(mysql_family), unique_name("anabranch_drill"), "shop")
    yield Made(database, shadow)
    shadow.close()
    database.execute(f"DROP DATABASE IF EXISTS `{shadow.schema}`")


def test_a_shadow_is_like_its_tables_and_rows_are_compared_to_the_byte(made: Made) -> None:
    made.database.execute(KINDS, ROWS.format("kinds"))
    tables = {TableId(made.database.name, "kinds"): TableId(made.shadow.schema, "kinds")}
    outlook = made.shadow.outlook(tables.keys(), admits_log=False)
    assert outlook.room > 0 and not outlook.findings and outlook.options == {"sql_log_bin": False}
    assert made.shadow.owner() is None
    made.shadow.make(tables)
    assert made.shadow.owner() == "shop" and not made.shadow.is_begun()
    copy = f"`{made.shadow.schema}`.kinds"
    made.database.execute(ROWS.format(copy))
    key = ("a", "b")
    same = made.unlike("kinds", *COLUMNS, key=key)
    assert same is not None and (same.rows, same.count) == (3, 0)
    made.database.execute(
        f"UPDATE {copy} SET d = 1.501, f = 0.10001 WHERE a = 'é'",
        f"UPDATE {copy} SET a = 'B' WHERE a = 'b'",
        f"DELETE FROM {copy} WHERE a = 'c'",
        f"INSERT INTO {copy} (a, b, n) VALUES ('z', x'7a', 9)",
    )
    found = made.unlike("kinds", *COLUMNS, key=key)
    assert found is not None and found.count == 4
    assert {(row.kind, row.key, row.columns) for row in found.sample} == {
        ("different", ("é", "00"), ("f", "d")),
        ("different", ("b", "FF"), ("a",)),
        ("missing", ("c", ""), ()),
        ("extra", ("z", "7A"), ()),
    }
    again = made.unlike("kinds", *COLUMNS, key=key)
    assert again == found, "nobody has written a row, so each has its version"
    assert made.shadow.remove() and made.shadow.owner() is None


def test_whoever_waits_for_a_definition_goes_before_a_comparison(made: Made) -> None:
    """The copy is a view that sleeps, so that the comparison takes as long as it likes."""
    asleep(made)
    with ThreadPoolExecutor(2) as beside:
        comparison = beside.submit(made.unlike, "item", "v")
        until(lambda: made.is_comparing(), "the comparison is at work")
        change = beside.submit(made.database.execute, "ALTER TABLE item ADD COLUMN later INT")
        assert comparison.result() is None
        change.result()
    assert made.shadow.owner() == "", "it goes on with a session of its own"


def test_a_comparison_that_was_called_away_from_ends_at_the_server_too(made: Made) -> None:
    asleep(made)
    with ThreadPoolExecutor(1) as beside:
        comparison = beside.submit(made.unlike, "item", "v")
        until(lambda: made.is_comparing(), "the comparison is at work")
        made.shadow.close()
        assert isinstance(comparison.exception(), AnabranchError)
    until(lambda: not made.is_comparing(), "its statement has ended")


def asleep(made: Made) -> None:
    made.database.execute(
        "CREATE TABLE item (id INT PRIMARY KEY, v INT)",
        "INSERT INTO item VALUES (1, 1)",
        f"CREATE DATABASE `{made.shadow.schema}`",
        f"CREATE VIEW `{made.shadow.schema}`.item AS SELECT id, v FROM `{made.database.name}`.item WHERE SLEEP(3600) = 0",
    )
