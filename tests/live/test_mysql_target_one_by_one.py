"""Source transactions that are committed one by one in one packet, at a real MySQL and MariaDB, and what becomes of those
that are refused in its middle (`mode = "transaction"`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pytest

from anabranch.connectors.postgresql.source.typemap import logical_type
from anabranch.errors import Fenced
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.position import Position
from anabranch.model.state import Checkpoint
from anabranch.rows.net import DELETE, INSERT, UPDATE, ChangeShape, Operation, TargetTable
from anabranch.rows.small import SmallChanges, SmallTransactions
from anabranch.testing.databases import Database
from anabranch.testing.servers import Server
from rigs.mysql_epoch import Epoch, epoch_at

pytestmark = pytest.mark.every_server("fractions")
NAMES, TYPES = (
    ("id", "a", "b"),
    (LogicalType(Kind.INT64), LogicalType(Kind.DECIMAL, precision=10, scale=4), LogicalType(Kind.TEXT)),
)
ODD = "a\tb\\N'\" \n%s $1 {ä€},😀; COMMIT; --"
Change = tuple[Operation, tuple[str | None, ...]]  # the values of the row after, then the key before


@pytest.fixture
def at(mysql_family: Server, source_database: Callable[[Server], Database]) -> Iterator[Epoch]:
    database = source_database(mysql_family)
    database.execute(
        "CREATE TABLE items (id bigint PRIMARY KEY, a decimal(10,2), b varchar(50))",
        "CREATE TABLE seen (id bigint, sequence bigint)",
    )
    with epoch_at(database) as made:
        made.writer.rollback()
        yield made


def insert(number: int, a: str | None = "0", b: str | None = "new") -> Change:
    return INSERT, (str(number), a, b)


def update(number: int, to: int, a: str | None, b: str | None) -> Change:
    return UPDATE, (str(to), a, b, str(number))


def delete(number: int) -> Change:
    return DELETE, (str(number),)


def small(
    at: Epoch, transactions: Sequence[Sequence[Change]], first: int = 1, types: tuple[LogicalType, ...] = TYPES
) -> SmallTransactions:
    table = TargetTable(TableId("shop", "items"), TableId(at.database.name, "items"), NAMES, types, ("id",), NAMES)
    parts: dict[Operation, list[tuple[int, int, tuple[str | None, ...]]]] = {}
    order = 0
    for number, changes in enumerate(transactions):
        for operation, values in changes:
            parts.setdefault(operation, []).append((number, order, values))
            order += 1
    made = []
    for operation, rows in parts.items():
        columns = tuple(pa.array(column, pa.string()) for column in zip(*(values for *_, values in rows), strict=True))
        shape = ChangeShape(table, operation, () if operation == DELETE else NAMES)
        places = [np.array([row[place] for row in rows], np.int64) for place in (0, 1)]
        made.append(SmallChanges(shape, places[0], places[1], columns))
    sequences = list(range(first, first + len(transactions)))
    return SmallTransactions(sequences, [f"log.1:{n}" for n in sequences], sequences, made)


def rows(at: Epoch) -> list[tuple[int, str, str]]:
    return at.database.query("SELECT id, CONCAT(a), b FROM items ORDER BY id")


def test_rule_09_each_transaction_is_committed_by_itself_with_its_checkpoint(at: Epoch) -> None:
    at.database.execute(
        "CREATE TRIGGER note AFTER INSERT ON items FOR EACH ROW INSERT INTO seen"
        f" SELECT NEW.id, sequence FROM anabranch.checkpoint WHERE job = '{at.job}'"
    )
    found = at.writer.one_by_one(at.now, small(at, [[insert(2 * n), insert(2 * n + 1)] for n in range(250)]))
    assert (found.epoch, found.position) == (250, Position(250, "log.1:250")) and found.owner == "me"
    seen = at.database.query("SELECT id, sequence FROM seen ORDER BY id")
    assert list(seen) == [(n, n // 2 + 1) for n in range(500)]


def test_every_form_of_a_change_arrives(at: Epoch) -> None:
    found = at.writer.one_by_one(
        at.now,
        small(
            at,
            [
                [insert(1, None, None)],
                [insert(2, "2", ""), insert(3, "-99999999.99", ODD)],
                [update(1, 1, "7", "x"), update(1, 1, "7", "x")],
                [update(2, 20, "2", ODD)],
                [insert(4), delete(1), update(4, 4, "5", None)],
                [insert(5), update(5, 6, "1", "b"), update(6, 7, "1", "b")],
            ],
        ),
    )
    assert found.epoch == 6
    assert rows(at) == [(3, "-99999999.99", ODD), (4, "5.00", None), (7, "1.00", "b"), (20, "2.00", ODD)]


def test_nothing_is_written_to_a_column_that_somebody_has_altered(at: Epoch) -> None:
    types = (*TYPES[:2], logical_type("public.mood", labels=("a", "A")))
    alter = "ALTER TABLE items MODIFY b {}"
    at.database.execute(alter.format("enum('a', 'A') CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"))
    found = at.writer.one_by_one(at.now, small(at, [[insert(1, b="a")], [insert(2, b="A")]], types=types))
    assert found.epoch == 2
    for other in ("enum('a') CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci", "longtext"):
        at.database.execute("DELETE FROM items WHERE b <> BINARY 'a'", alter.format(other))
        assert at.writer.one_by_one(found, small(at, [[insert(3, b="A")]], 3, types)) == found
        assert rows(at) == [(1, "0.00", "a")]


REFUSED = {
    "a row that is missing": [insert(99), update(50, 50, "1", "x")],
    "a row that is there": [insert(99), insert(7)],
    "a row to delete that is missing": [insert(99), delete(50)],
    "a value that is too long": [insert(99), insert(50, "1", "x" * 51)],
    "a value that would be rounded": [insert(99), insert(50, "1.005", "x")],
    "a NULL as key": [insert(99), (INSERT, (None, "1", "x"))],
}


@pytest.mark.parametrize("case", REFUSED)
def test_rule_28_of_what_is_refused_in_the_middle_nothing_stays_and_all_before_it_does(at: Epoch, case: str) -> None:
    before, behind = ([[insert(n)] for n in part] for part in (range(1, 31), range(31, 61)))
    found = at.writer.one_by_one(at.now, small(at, [*before, REFUSED[case], *behind]))
    assert (found.epoch, found.position.sequence) == (30, 30)
    assert at.database.query("SELECT count(*), max(id) FROM items") == [(30, 30)]
    found = at.writer.one_by_one(found, small(at, behind, first=31))
    assert found.epoch == 60 and len(rows(at)) == 60


def test_rule_09_a_fenced_owner_commits_none(at: Epoch) -> None:
    at.database.execute(f"UPDATE anabranch.checkpoint SET owner = 'another' WHERE job = '{at.job}'")
    with pytest.raises(Fenced):
        at.writer.one_by_one(at.now, small(at, [[insert(1)]]))
    assert rows(at) == []


def test_rule_09_a_checkpoint_that_stands_elsewhere_is_told(at: Epoch) -> None:
    found = at.writer.one_by_one(at.now, small(at, [[insert(1)]]))
    assert at.writer.one_by_one(at.now, small(at, [[insert(2)]])) == found
    assert found == Checkpoint("me", 1, Position(1, "log.1:1"), 1) and len(rows(at)) == 1
