"""Unique keys that a source asks at its commit alone (DEFERRABLE of a PostgreSQL), at a real MySQL and MariaDB, which ask at
each row: set-wise, row by row, alone and in packets (K8)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import pytest

from anabranch.contracts import Conflict
from anabranch.errors import RowRefused
from anabranch.rows.conflict import ConflictPolicy, OnConflict
from anabranch.rows.net import DELETE, INSERT, UPDATE, RowChange, TargetTable
from anabranch.testing.databases import Database
from anabranch.testing.servers import Server
from rigs.chunks import schema
from rigs.mysql_applier import Carried
from rigs.mysql_epoch import Epoch, epoch_at
from rigs.mysql_writer import INT, TEXT

ITEMS = schema("items", {"id": INT, "u": INT, "b": TEXT}, ["id"])
# What is the target's own stays with a row that leaves: a number, a time that would move by itself, an invisible column.
TABLE = """
CREATE TABLE items (id bigint PRIMARY KEY, U bigint NOT NULL, b varchar(50), own int DEFAULT 5,
  at timestamp(6) NOT NULL DEFAULT '2001-02-03 04:05:06' ON UPDATE CURRENT_TIMESTAMP(6),
  twice bigint AS (u * 2) STORED, UNIQUE (u))
"""
STAYS = "SELECT COUNT(*), SUM(own = 8), SUM(at = '2001-02-03 04:05:06'), SUM(twice = u * 2) FROM items"
SIZES = (2, 3, 60)  # rows: the last ones more than go without a staging table


def row(number: int, u: int, b: str = "x") -> dict[str, Any]:
    return {"id": number, "u": u, "b": b}


@pytest.fixture
def database(mysql_family: Server, source_database: Callable[[Server], Database]) -> Database:
    made = source_database(mysql_family)
    made.execute(TABLE)
    return made


@pytest.fixture
def carried(database: Database, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Carried]:
    """`source_wins`: a row that is missing makes its transaction go row by row."""
    policy = ConflictPolicy(OnConflict.SOURCE_WINS)
    options = {"per_transaction": getattr(request, "param", False)}
    with closing(Carried(database, tmp_path / "trail", [ITEMS], policy, frozenset({"u"}), options)) as made:
        yield made


@pytest.mark.parametrize("carried", [False, True], ids=["epoch", "transaction"], indirect=True)
@pytest.mark.one_case("mysql-epoch", "mariadb-transaction")
def test_rule_08_pitfall_11_values_that_the_source_asks_for_late_go_round(carried: Carried) -> None:
    """Each row takes the value of the next, the last one that of the first: no order of the rows leads there, and where one is
    missing only the rows one by one do. Before and behind stand transactions that go in one packet."""
    for case, (size, is_missing) in enumerate(product(SIZES, (False, True))):
        first, done = 10_000 * case, carried.checkpoint
        carried.apply([("i", row(first + n, first + n)) for n in range(size)])
        carried.database.execute(f"UPDATE items SET own = 8, at = at WHERE id >= {first}")
        if is_missing:
            carried.database.execute(f"DELETE FROM items WHERE id = {first + 1}")
        turned = [("u", row(first + n, first + n), row(first + n, first + (n + 1) % size, "y")) for n in range(size)]
        others = [[("i", row(first + number, first + number))] for number in range(1000, 1010)]
        carried.apply(*others[:5], turned, *others[5:])
        found = carried.database.query(
            f"SELECT id, u, b FROM items WHERE id BETWEEN {first} AND {first + 999} ORDER BY id"
        )
        assert list(found) == [(first + n, first + (n + 1) % size, "y") for n in range(size)], (size, is_missing)
        whole = size - is_missing
        assert carried.database.query(f"{STAYS} WHERE id >= {first}") == [(size + 10, whole, size + 10, size + 10)]
        assert carried.checkpoint == done + 12


def test_rule_08_a_new_row_takes_a_value_before_it_is_given_up(carried: Carried) -> None:
    """By a row that goes, one that changes, one that was missing here; the first of two waits for the second."""
    carried.apply([("i", row(number, number)) for number in range(6)])
    carried.database.execute("DELETE FROM items WHERE id = 5")
    carried.apply(
        [
            ("i", row(10, 0)),
            ("d", row(0, 0)),
            ("i", row(11, 1)),
            ("u", row(1, 1), row(1, 70)),
            ("u", row(2, 2), row(2, 3)),
            ("u", row(3, 3), row(3, 4)),
            ("u", row(4, 4), row(4, 2)),
            ("u", row(5, 5), row(5, 6)),
        ]
    )
    found = carried.database.query("SELECT id, u FROM items ORDER BY id")
    assert list(found) == [(1, 70), (2, 3), (3, 4), (4, 2), (5, 6), (10, 0), (11, 1)]


def test_rule_28_a_value_that_nobody_gives_up_is_refused_with_the_row_that_took_it(carried: Carried) -> None:
    carried.apply([("i", row(1, 1)), ("i", row(2, 2))])
    carried.database.execute("INSERT INTO items (id, u) VALUES (50, 7)")
    with pytest.raises(RowRefused, match=r"Duplicate entry … .*\(row id = 2\)"):
        carried.apply([("u", row(1, 1), row(1, 3)), ("u", row(2, 2), row(2, 7))])
    found = carried.database.query("SELECT id, u FROM items ORDER BY id")
    assert list(found) == [(1, 1), (2, 2), (50, 7)] and carried.checkpoint == 1


# --- inside one epoch -------------------------------------------------------------------------------------------------


@pytest.fixture
def at(database: Database) -> Iterator[Epoch]:
    database.execute("INSERT INTO items (id, u, b) VALUES (1, 1, 'a'), (2, 2, 'b'), (3, 3, 'c')")
    with epoch_at(database) as made:
        yield made


def items(at: Epoch) -> TargetTable:
    names = tuple(column.name for column in ITEMS.columns)
    types = tuple(column.type for column in ITEMS.columns if column.type)
    return at.table(TargetTable(ITEMS.id, ITEMS.id, names, types, ("id",), names))


def change(at: Epoch, number: int, **values: str) -> None:
    assert at.writer.change(RowChange(items(at), UPDATE, {"id": str(number)}, values))


def there(at: Epoch) -> list[tuple[int, int]]:
    return [tuple(one) for one in at.database.query("SELECT id, u FROM items ORDER BY id")]


def test_rule_08_a_row_that_is_held_back_is_found_and_changed(at: Epoch) -> None:
    change(at, 1, u="2")  # 2 is held
    found = at.writer.row(items(at), {"id": "2"}, None)
    assert found is not None and found.values == {"id": "2", "u": "2", "b": "b"}
    change(at, 2, b="other")  # whatever else it is, it cannot come back yet
    assert at.writer.change(RowChange(items(at), DELETE, {"id": "1"}))
    at.commit()
    assert there(at) == [(2, 2), (3, 3)]


def test_rule_08_what_is_held_back_is_let_in_where_a_part_is_done_alone(at: Epoch) -> None:
    """Going back brings back who was held there; with `at_once` it is asked at the end of the part."""
    change(at, 1, u="2")
    with pytest.raises(ZeroDivisionError), at.writer.alone():
        change(at, 2, u="3")
        raise ZeroDivisionError
    with pytest.raises(Conflict) as refused, at.writer.alone(at_once=True):
        at.writer.change(RowChange(items(at), INSERT, values={"id": "4", "u": "3", "b": None}))
    assert refused.value.key == {"id": "1"}
    change(at, 2, u="1")
    at.commit()
    assert there(at) == [(1, 2), (2, 1), (3, 3)]


def test_rule_08_what_is_still_held_back_at_the_commit_is_a_conflict(at: Epoch) -> None:
    change(at, 1, u="2")
    with pytest.raises(Conflict) as refused:
        at.writer.commit()
    assert refused.value.key == {"id": "1"}
    at.again()
    assert there(at) == [(1, 1), (2, 2), (3, 3)]
    change(at, 1, u="9")
    at.commit()
    assert there(at) == [(1, 9), (2, 2), (3, 3)]


def test_rule_08_where_a_trigger_would_see_it_no_row_leaves(at: Epoch) -> None:
    at.database.execute("CREATE TRIGGER seen BEFORE DELETE ON items FOR EACH ROW SET @seen = 1")
    with pytest.raises(Conflict) as refused:
        change(at, 1, u="2")
    assert refused.value.key == {"id": "1"}


# --- changes of a load's window ---------------------------------------------------------------------------------------


def put(at: Epoch, **values: str | None) -> None:
    at.writer.change(RowChange(items(at), INSERT, values={"b": None, **values}, checked=False))


def test_rule_03_rule_08_a_row_that_is_held_back_is_the_one_that_a_window_s_change_is_about(at: Epoch) -> None:
    """It is set where it is said to come, and where another one is said to move to it; never does it stand there twice."""
    put(at, id="4", u="2")  # 2 is held
    put(at, id="2", u="8")
    put(at, id="5", u="3")  # 3 is held
    assert at.writer.change(RowChange(items(at), UPDATE, {"id": "1"}, {"id": "3", "b": "moved"}, checked=False))
    at.writer.change(RowChange(items(at), DELETE, {"id": "5"}, checked=False))
    at.commit()
    found = at.database.query("SELECT id, u, b FROM items ORDER BY id")
    assert list(found) == [(2, 8, None), (3, 3, "moved"), (4, 2, None)]


def test_rule_03_rule_08_drawn_windows_end_as_the_source_does(at: Epoch) -> None:
    """Rows of a load are of different moments; the changes of all those moments are applied to them once more."""
    for seed in range(10):
        moments, changes, loaded = window(Random(seed))
        at.writer.rollback()
        at.database.execute("DELETE FROM items")
        for number, (u, b) in loaded.items():
            at.database.execute(f"INSERT INTO items (id, u, b) VALUES ({number}, {u}, '{b}')")
        at.begin()
        for old, new in changes:
            if old is not None:
                at.writer.change(RowChange(items(at), DELETE, {"id": str(old)}, checked=False))
            if new is not None:
                put(at, id=str(new[0]), u=str(new[1]), b=new[2])
        at.commit()
        found = {number: (u, b) for number, u, b in at.database.query("SELECT id, u, b FROM items")}
        assert found == moments[-1], f"seed {seed}"


Rows = dict[int, tuple[int, str]]
Change = tuple[int | None, tuple[int, int, str] | None]  # the key of what goes, the row that comes


def window(random: Random) -> tuple[list[Rows], list[Change], Rows]:
    """Return a source's states, the changes between them, and rows that a load may have read meanwhile: each of a state of
    its own, none with another one's unique value."""
    moments: list[Rows] = [{number: (number, "a") for number in range(1, 4)}]
    changes: list[Change] = []
    for at in range(12):
        rows, text = dict(moments[-1]), f"b{at}"
        free = [number for number in range(1, 7) if number not in rows]
        spare = [u for u in range(1, 7) if u not in {u for u, _ in rows.values()}]
        one, other = random.choice(sorted(rows) or [0]), random.choice(sorted(rows) or [0])
        what = random.choice(("insert", "insert", "delete", "value", "move", "swap"))
        if what == "insert" and free and spare:
            new = {random.choice(free): (random.choice(spare), text)}
        elif what == "value" and rows and spare:
            new = {one: (random.choice(spare), text)}
        elif what == "move" and rows and free:
            new = {random.choice(free): (rows.pop(one)[0], text)}
            changes.append((one, None))
        elif what == "swap" and one != other:  # which a source may ask for late
            new = {one: (rows[other][0], text), other: (rows[one][0], text)}
        else:
            new = {}
            if rows:
                rows.pop(one)
                changes.append((one, None))
        changes += [(number if number in rows else None, (number, *row)) for number, row in new.items()]
        moments.append({**rows, **new})
    loaded: Rows = {}
    for number in range(1, 7):
        row = random.choice(moments).get(number)
        if row is not None and row[0] not in {u for u, _ in loaded.values()}:
            loaded[number] = row
    return moments, changes, loaded
