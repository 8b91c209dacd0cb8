"""Deletes of many rows by lists of their keys, on real MySQL and MariaDB (decision 380)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing

import pymysql
import pytest

from anabranch.connectors.mysql.target.listed import AT_ONCE
from anabranch.connectors.mysql.target.session import ask, connect, run
from anabranch.contracts import Conflict
from anabranch.model.datatype import Kind, LogicalType
from anabranch.rows.net import TableNet, TargetTable
from anabranch.testing.servers import Server
from rigs.mysql_writer import INT, TEXT, Applying, applying_at, keys, rows

MANY = 2 * AT_ONCE + 1  # three lists
COUNTED = "SHOW SESSION STATUS LIKE 'Com_delete_multi'"
SINCE_56 = pytest.mark.every_server("row images")
EDGES = {
    "BIGINT": (INT, [-(1 << 63), -(1 << 63) + 1, -1, 0, 1, (1 << 63) - 2, (1 << 63) - 1]),
    "BIGINT UNSIGNED": (LogicalType(Kind.UINT64), [0, 1, (1 << 63) - 1, 1 << 63, (1 << 63) + 1, (1 << 64) - 1]),
}


@pytest.fixture
def applying(mysql_family: Server, request: pytest.FixtureRequest) -> Iterator[Applying]:
    with applying_at(mysql_family, request.node.name) as made:
        yield made


def filled(
    applying: Applying, numbers: Sequence[int], key: str = "id INT PRIMARY KEY", type: LogicalType = INT
) -> TargetTable:
    of = applying.create("t", f"{key}, u VARCHAR(40) NOT NULL UNIQUE", {"id": type, "u": TEXT})
    applying.merge(TableNet(of, inserts=rows(of, ("id", "u"), *((number, f"row {number}") for number in numbers))))
    return of


def left(applying: Applying) -> list[int]:
    return [number for (number,) in applying.rows("SELECT id FROM t ORDER BY id")]


def statements(applying: Applying, net: TableNet) -> int:
    """Merge a net change, and return how many statements have removed rows by way of a join or a list."""

    def counted() -> int:
        connection = applying.writer._session()
        ((_, found),) = ask(connection, COUNTED)
        connection.commit()
        return int(found)

    before = counted()
    applying.merge(net)
    return counted() - before


@SINCE_56
def test_many_rows_go_by_lists_in_any_order_and_no_others(applying: Applying) -> None:
    of = filled(applying, range(2 * MANY))
    gone = [number for number in range(2 * MANY - 1, -1, -1) if number % 2]
    assert statements(applying, TableNet(of, deletes=keys(of, *gone))) == 3
    assert left(applying) == list(range(0, 2 * MANY, 2))


@SINCE_56
@pytest.mark.parametrize("declared", EDGES)
def test_the_ends_of_what_a_key_holds_are_found(applying: Applying, declared: str) -> None:
    type, edges = EDGES[declared]
    usual = range(1000, 1000 + AT_ONCE)
    of = filled(applying, [*edges, *usual], f"id {declared} PRIMARY KEY", type)
    gone = [*edges[::2], *usual]
    assert statements(applying, TableNet(of, deletes=keys(of, *gone))) == 2
    assert left(applying) == sorted(set(edges) - set(gone))


@SINCE_56
def test_rule_28_a_row_that_is_not_there_is_a_conflict_and_all_stay(applying: Applying) -> None:
    of = filled(applying, range(MANY))
    with pytest.raises(Conflict, match=f"expected {MANY} deletes, found {MANY - 1}"):
        applying.merge(TableNet(of, deletes=keys(of, *range(1, MANY + 1))))
    assert left(applying) == list(range(MANY))
    applying.merge(TableNet(of, deletes=keys(of, *range(1, MANY + 1)), checked=False))
    assert left(applying) == [0]


@SINCE_56
@pytest.mark.parametrize(
    "key", ["id INT NOT NULL UNIQUE, other INT AUTO_INCREMENT PRIMARY KEY", "id INT NOT NULL UNIQUE"]
)
def test_a_key_that_is_not_the_primary_one_goes_by_a_staging_table(applying: Applying, key: str) -> None:
    of = filled(applying, range(MANY + 1), key)
    assert statements(applying, TableNet(of, deletes=keys(of, *range(MANY)))) == 1
    assert left(applying) == [MANY]


@SINCE_56
def test_a_primary_key_that_goes_is_noticed_in_the_next_epoch(applying: Applying) -> None:
    of = filled(applying, range(2 * MANY + 1))
    assert statements(applying, TableNet(of, deletes=keys(of, *range(MANY)))) == 3
    applying.database.execute("ALTER TABLE t DROP PRIMARY KEY, ADD UNIQUE KEY (id)")
    assert statements(applying, TableNet(of, deletes=keys(of, *range(MANY, 2 * MANY)))) == 1
    assert left(applying) == [2 * MANY]


@SINCE_56
def test_rows_of_a_small_table_that_nobody_removes_are_not_locked(applying: Applying) -> None:
    """Rows between those that go and behind them may be changed while the epoch is open."""
    of = filled(applying, [3 * number for number in range(MANY + 1)])
    writer = applying.begin()
    writer.merge(TableNet(of, deletes=keys(of, *(3 * number for number in range(1, MANY)))))
    with closing(connect(applying.endpoint, "test", autocommit=True)) as other:
        run(other, "SET SESSION innodb_lock_wait_timeout = 1")
        for number in (0, 3 * MANY):
            assert run(other, f"UPDATE {applying.database.name}.t SET u = 'other {number}' WHERE id = {number}") == 1
        with pytest.raises(pymysql.err.OperationalError, match="1205"):
            run(other, f"UPDATE {applying.database.name}.t SET u = 'taken' WHERE id = 3")
    applying.commit()
    assert applying.rows("SELECT id, u FROM t ORDER BY id") == [(0, "other 0"), (3 * MANY, f"other {3 * MANY}")]
