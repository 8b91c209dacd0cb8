"""Cuts large tables into stretches on the memory twin: each key is in one of them, also behind a key of another cut."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch import connectors
from anabranch.connectors.memory.database import database
from anabranch.contracts import Bounds, ValueRules
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId
from anabranch.model.schema import Column, TableSchema
from anabranch.model.verified import Reached, Verified, VerifiedBy
from anabranch.rows.net import TargetTable
from anabranch.verify import stretches
from anabranch.verify.plan import VerifyTable
from anabranch.verify.stretches import Stretch, pieces_of_stretch, stretches_of

INT, WORD = LogicalType(Kind.INT32), LogicalType(Kind.TEXT)
ID, ROWS = TableId("s", "numbers"), 1_000
RULES = ValueRules()


@pytest.fixture
def end(monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    monkeypatch.setattr(stretches, "ROWS_PER_RANGE", 50)
    made = database("stretches")
    made.tables.clear()
    columns = (Column("id", INT, "int"), Column("word", WORD, "text"))
    made.create(TableSchema(ID, columns, ("id",)))
    with made.transaction() as open_:
        for number in range(ROWS):
            open_.insert(ID, {"id": str(3 * number), "word": f"w{number}"})
    yield Endpoint("memory", "", 0, "", "", "stretches")
    made.tables.clear()


def table(end: Endpoint, key: str = "id") -> VerifyTable:
    found = database(end.database).tables[ID].schema
    assert found is not None
    schema = TableSchema(ID, found.columns, (key,))
    return VerifyTable(schema, TargetTable(ID, ID, ("id", "word"), (INT, WORD), (key,), ("id", "word")))


def cut(end: Endpoint, *behind: str, one: VerifyTable | None = None, column: str = "id") -> list[Stretch]:
    ends, key = (connectors.source(end), connectors.row_target(end)), [(column, value) for value in behind]
    return stretches_of(*ends, one or table(end), key, rows=200, rules=RULES, expected_identity="")


def read(end: Endpoint, every: Sequence[Stretch]) -> list[list[bytes]]:
    """Return the rows of each side, as the pieces of all stretches give them."""
    snapshot, found = connectors.source(end).snapshot(), [list[bytes](), list[bytes]()]
    target, one = connectors.row_target(end), table(end)
    for stretch in every:
        for piece in pieces_of_stretch(target, one, stretch, RULES):
            if piece.bounds is not None:
                lines = snapshot.lines(piece.one.schema, ("id", "word"), piece.bounds, RULES)
            else:
                lines = target.reader(RULES).lines(one.table, piece.place)
            found[not piece.is_source] += b"".join(lines).splitlines()
    return found


def test_every_row_is_in_one_stretch_at_both_ends(end: Endpoint) -> None:
    every = cut(end)
    assert [len(one.ranges) for one in every] == [4] * 5
    there, here = read(end, every)
    assert len(there) == len({*there}) == ROWS == len({*here}) == len(here)


@pytest.mark.parametrize("behind", ["-1", "0", "149", "150", "151", "1500", "2997", "9999"])
def test_behind_a_key_is_what_is_greater(end: Endpoint, behind: str) -> None:
    """Also behind one at which nothing is cut now, as where rows have come or gone since."""
    there, here = read(end, cut(end, behind))
    wanted = sum(3 * number > int(behind) for number in range(ROWS))
    assert (len({*there}), len({*here})) == (wanted, wanted)


def test_what_cannot_be_cut_or_not_by_that_key_has_no_stretches(end: Endpoint) -> None:
    assert cut(end, one=table(end, "word")) == [] == cut(end, "5", column="other")


def between(*edges: int | None) -> list[Bounds]:
    texts = [None if edge is None else (str(edge),) for edge in edges]
    return [Bounds(lower, upper) for lower, upper in pairwise(texts)]


def test_ranges_that_leave_keys_out_are_not_used() -> None:
    whole = between(None, 5, 10, None)
    assert stretches._behind(whole, None) == whole
    for some in ([], whole[:2], [whole[0], whole[2]], whole[1:]):
        assert stretches._behind(some, None) == [], some
    assert stretches._behind(whole, ("7",)) == between(7, 10, None)
    assert stretches._behind(whole[2:], ("7",)) == [] != stretches._behind(whole[2:], ("10",))


@given(st.lists(st.integers(-99, 99), unique=True).map(sorted), st.integers(-120, 120), st.integers(-120, 120))
def test_a_key_is_behind_another_in_one_range_or_in_none(cuts: list[int], at: int, key: int) -> None:
    found = stretches._behind(between(None, *cuts, None), (str(at),))
    inside = [
        one
        for one in found
        if (one.lower is None or int(one.lower[0]) < key) and (one.upper is None or key <= int(one.upper[0]))
    ]
    assert len(inside) == (key > at)


def test_what_is_kept_is_read_as_it_was() -> None:
    by = VerifiedBy(7, "digest", "server", 2, True, 30, 1, ("a", "b"))
    reached = Reached(by, 4, (("id", "12"), ("line", "3")), 99, ("1@a", "2@b"), 31)
    found = Verified(ID, 5, 1, "pending", 4, ("", ""), 31, 0, 1, False, "why", reached=reached)
    assert Verified.of(str(ID), 5, found.facts) == found and str(reached) == "id=12, line=3"
    assert found.runs == [7] and found.without_run().reached is None and found.without_run().runs == []
