"""Draws samples on the memory twin: which ranges they have, which tables can be cut into ranges, what the result says."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

import pytest

from anabranch import connectors
from anabranch.connectors.memory.database import database
from anabranch.contracts import Bounds, ValueRules
from anabranch.model.at_target import AtTarget
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId
from anabranch.model.schema import Column, TableSchema
from anabranch.rows.net import TargetTable
from anabranch.verify import sampling
from anabranch.verify.plan import VerifyTable
from anabranch.verify.report import TableResult, Verification
from anabranch.verify.sampling import NO_RANGES, Part, cut_sample, drawn, numbers_of, of_parts, rows_per_range
from anabranch.verify.wanted import Sample

INT, WORD = LogicalType(Kind.INT32), LogicalType(Kind.TEXT)
ID = TableId("s", "t")
ROWS = 4_000


def cut_at(*ends: int) -> list[Bounds]:
    edges = [None, *((str(end),) for end in ends), None]
    return [Bounds(lower, upper) for lower, upper in pairwise(edges)]


def table(types: Sequence[LogicalType], key: Sequence[str], names: Sequence[str] = ("a", "b", "c")) -> VerifyTable:
    columns = tuple(Column(name, type, str(type)) for name, type in zip(names, types, strict=False))
    there = tuple(f"{column.name}_there" for column in columns)
    at_target = tuple(f"{name}_there" for name in key)
    made = TargetTable(ID, ID, there, tuple(types), at_target, tuple(column.name for column in columns))
    return VerifyTable(TableSchema(ID, columns, tuple(key)), made)


def test_the_same_number_draws_the_same_ranges_also_of_a_table_that_has_grown() -> None:
    sample, before = Sample(0.1, 7), cut_at(*range(100, 10_000, 100))
    some = drawn(sample, ID, before)
    assert len(some) == 10 and some == drawn(sample, ID, before) and set(some) < set(before)
    assert some != drawn(Sample(0.1, 8), ID, before) and some != drawn(sample, TableId("s", "other"), before)
    grown = cut_at(*range(100, 10_500, 100))
    assert len({one.lower for one in drawn(sample, ID, grown)} & {one.lower for one in some}) >= 9


def test_every_range_is_drawn_by_some_number() -> None:
    bounds = cut_at(*range(10))
    assert {one for seed in range(200) for one in drawn(Sample(0.01, seed), ID, bounds)} == set(bounds)
    assert drawn(Sample(0.01, 1), ID, [Bounds()]) == [Bounds()]
    assert drawn(Sample(1.0, 1), ID, bounds) == bounds


@pytest.mark.parametrize(
    ("rows", "share", "wanted"),
    [
        (0, 0.05, 10_000),
        (500, 0.05, 1_000),
        (1_000_000, 0.05, 12_500),
        (1_000_000, 0.001, 1_000),
        (10**10, 0.05, 200_000),
    ],
)
def test_ranges_are_small_enough_that_some_are_drawn(rows: int, share: float, wanted: int) -> None:
    assert rows_per_range(rows, share) == wanted


def test_a_table_is_cut_by_the_whole_numbers_that_begin_its_key() -> None:
    assert numbers_of(table([INT, INT, WORD], ["b", "a"])) == ["b", "a"]
    assert numbers_of(table([INT, WORD, INT], ["a", "b", "c"])) == ["a"]
    assert numbers_of(table([WORD, INT], ["a", "b"])) == []
    assert numbers_of(table([INT, INT], [])) == []
    as_words = replace(INT, target="varchar(20)", at_target=AtTarget(sorts_as_text=True))
    assert numbers_of(table([as_words], ["a"])) == []
    assert numbers_of(table([replace(INT, target="double", at_target=AtTarget(keeps_whole=False))], ["a"])) == []
    left_out = table([INT, INT], ["a", "b"])
    assert numbers_of(replace(left_out, table=replace(left_out.table, source_columns=("x", "b")))) == []


@pytest.fixture
def end() -> Iterator[Endpoint]:
    name = "sampling"
    made = database(name)
    made.tables.clear()
    for table_name, key in (("numbers", ("id",)), ("words", ("word",))):
        columns = (Column("id", INT, "int"), Column("word", WORD, "text"))
        made.create(TableSchema(TableId("s", table_name), columns, key))
        with made.transaction() as open_:
            for number in range(ROWS):
                open_.insert(TableId("s", table_name), {"id": str(number), "word": f"w{number}"})
    yield Endpoint("memory", "", 0, "", "", name)
    made.tables.clear()


def both(end: Endpoint) -> list[VerifyTable]:
    schemas = [found.schema for found in database(end.database).tables.values()]
    return [
        VerifyTable(one, TargetTable(one.id, one.id, ("id", "word"), (INT, WORD), one.primary_key, ("id", "word")))
        for one in schemas
        if one is not None
    ]


def test_both_ends_are_asked_for_the_same_rows(end: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "FEWEST", 10)
    source, target = connectors.source(end), connectors.row_target(end)
    how = {"rows_per_piece": 1_000, "rules": ValueRules(), "expected_identity": ""}
    found = cut_sample(source, target, both(end), Sample(0.05, 3), **how)  # type: ignore[arg-type]  # what they are
    numbers = TableId("s", "numbers")
    assert found.parts == {numbers: Part(4, 80, ROWS)}, "of words there are too many to be read as a whole"
    snapshot, reader = source.snapshot(), target.reader(ValueRules())
    read: dict[bool, list[bytes]] = {True: [], False: []}
    for piece in found.pieces:
        if piece.bounds is not None:
            blocks = snapshot.lines(piece.one.schema, ("id", "word"), piece.bounds, ValueRules())
        else:
            blocks = reader.lines(piece.one.table, piece.place)
        read[piece.is_source] += b"".join(blocks).split(b"\n")[:-1]
    assert sorted(read[True]) == sorted(read[False]) and ROWS // 20 <= len(read[True]) <= ROWS // 10
    whole = cut_sample(source, target, both(end), Sample(0.05, 3), **{**how, "rows_per_piece": ROWS})  # type: ignore[arg-type]  # as above
    assert whole.parts[TableId("s", "words")] == Part(1, 1, ROWS)


def test_the_result_says_that_it_is_a_sample(end: Endpoint) -> None:
    numbers, words = both(end)
    equal = TableResult("s.numbers", "s.numbers", 260, 260, identical=True)
    parts = {numbers.table.source: Part(4, 64, ROWS)}
    found = Verification(of_parts([numbers, words], [equal], parts), sample=Sample(0.05, 3))
    assert str(found.tables[0]).endswith("260 rows of some 4,000, in 4 of 64 ranges of its key")
    assert found.tables[1].why == NO_RANGES and found.exit_code == 9 and not found.identical
    told = io.StringIO()
    found.write(told)
    assert (
        "a sample of 5%: 260 rows at the source were compared; --seed 3 compares the same ranges again"
        in told.getvalue()
    )
    shown = json.loads(json.dumps(found.to_json()))
    assert shown["sample"] == {"share": 0.05, "seed": 3} and shown["tables"][0]["ranges"] == [4, 64]
    different = replace(equal, identical=False, missing=1, rows_target=259, ranges=(4, 64), about=ROWS)
    assert "260 rows at the source, 259 at the target of some 4,000, in 4 of 64 ranges of its key; 1 missing" in str(
        different
    )
    assert str(replace(equal, ranges=(1, 1))) == str(equal), "all of it was compared"
