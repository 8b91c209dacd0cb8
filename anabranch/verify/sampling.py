"""A sample of every table: ranges of its key, drawn by a number, that both ends read.

Ends compare keys in orders of their own; only whole numbers have one order everywhere. So a table is cut by the columns
that begin its key and hold whole numbers. What does not live here: comparing the pieces (run.py).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import takewhile

from anabranch.contracts import (
    Bounds,
    RangedReader,
    ReadTarget,
    SnapshotReader,
    SourceConnector,
    TargetReader,
    ValueRules,
)
from anabranch.model.at_target import TextForm
from anabranch.model.datatype import LogicalType
from anabranch.model.ids import TableId
from anabranch.verify.plan import VerifyPiece, VerifyTable, has_json_key, pieces_of
from anabranch.verify.report import TableResult
from anabranch.verify.touched import WHOLE
from anabranch.verify.wanted import Sample

RANGES = 64  # into which a table is cut at least, if it has enough rows
OF_A_KIND = 4  # ranges that are drawn at least, where there are enough
FEWEST, MOST = 1_000, 200_000  # rows of a range
UNKNOWN = 10_000  # rows of a range where the server has not counted the table's

NO_RANGES = (
    "no range of its key can be read at both ends, which takes an index there that begins with a whole number,"
    " and it is too large to be read as a whole: verify it without --sample"
)


def drawn(sample: Sample, table: TableId, bounds: Sequence[Bounds]) -> list[Bounds]:
    """Draw some ranges of a table, at least one. A range that is still there when others have come keeps its place in the
    draw."""

    def place(one: Bounds) -> bytes:
        return blake2b(repr((sample.seed, str(table), one.lower)).encode()).digest()

    count = min(len(bounds), max(1, math.ceil(sample.share * len(bounds) - 1e-9)))
    chosen = set(sorted(bounds, key=place)[:count])
    return [one for one in bounds if one in chosen]


@dataclass(frozen=True, slots=True)
class Part:
    """The part of a table that is compared: so many of its ranges; `rows`: what the source says it has, 0 where it does not
    know."""

    drawn: int
    ranges: int
    rows: int


@dataclass
class Sampled:
    """Pieces of both sides, and which part of each table they are. A table without a part cannot be sampled."""

    pieces: list[VerifyPiece] = field(default_factory=list)
    parts: dict[TableId, Part] = field(default_factory=dict)


def cut_sample(
    source: SourceConnector,
    target: ReadTarget,
    tables: Sequence[VerifyTable],
    sample: Sample,
    *,
    rows_per_piece: int,
    rules: ValueRules,
    expected_identity: str,
) -> Sampled:
    """Cut tables into ranges and draw of them. A small table that has none is one piece, and compared whole."""
    found = Sampled()
    with closing(source.snapshot(expected_identity)) as snapshot, closing(target.reader(rules)) as reader:
        for one in tables:
            rows = snapshot.estimate(one.schema)
            pieces, part = _ranged(snapshot, reader, one, sample, rows, rules)
            if part is None and rows <= rows_per_piece:
                pieces, part = pieces_of(snapshot, reader, one, rows_per_piece, rules, by_place=False), Part(1, 1, rows)
            if part is not None:
                found.pieces += pieces
                found.parts[one.table.source] = part
    return found


def _ranged(
    snapshot: SnapshotReader, reader: TargetReader, one: VerifyTable, sample: Sample, rows: int, rules: ValueRules
) -> tuple[list[VerifyPiece], Part | None]:
    """Return the pieces of ranges that are drawn; no part where the table has no ranges."""
    leading = numbers_of(one)
    if not leading or not isinstance(reader, RangedReader) or has_json_key(one.schema, rules):
        return [], None
    ranged = ranged_by(one, leading)
    bounds = list(distinct(snapshot.bounds(ranged.schema, rows_per_range(rows, sample.share))))
    some = drawn(sample, one.table.source, bounds)
    pieces = pieces_in(reader, one, leading, some)
    return (pieces, Part(len(some), len(bounds), rows)) if pieces else ([], None)


def pieces_in(
    reader: RangedReader, one: VerifyTable, leading: Sequence[str], ranges: Sequence[Bounds]
) -> list[VerifyPiece]:
    """Return the pieces of both sides of some ranges of the columns that begin the key; [] where the target has no index that
    begins with them."""
    names = dict(zip(one.table.source_columns, one.table.columns, strict=True))
    places = reader.ranges(one.table, [names[column] for column in leading], ranges)
    ranged = ranged_by(one, leading)
    pairs = zip(ranges, places, strict=True) if places else ()
    return [piece for at, place in pairs for piece in (VerifyPiece(ranged, bounds=at), VerifyPiece(one, place=place))]


def ranged_by(one: VerifyTable, leading: Sequence[str]) -> VerifyTable:
    """Return the table with these columns as its key, by which its source is cut."""
    return replace(one, schema=replace(one.schema, primary_key=tuple(leading)))


def of_parts(
    tables: Sequence[VerifyTable], results: Sequence[TableResult], parts: Mapping[TableId, Part]
) -> tuple[TableResult, ...]:
    """Return a result for each table, which says what part of it was compared; pending where it could not be sampled."""
    found = {one.source: one for one in results}
    return tuple(_of_part(one, found.get(str(one.table.source)), parts.get(one.table.source)) for one in tables)


def _of_part(one: VerifyTable, found: TableResult | None, part: Part | None) -> TableResult:
    if found is None or part is None:
        names = str(one.table.source), str(one.table.target)
        return TableResult(*names, 0, 0, identical=False, is_complete=False, pending=1, why=NO_RANGES, ranges=(0, 0))
    return replace(found, ranges=(part.drawn, part.ranges), about=part.rows)


def rows_per_range(rows: int, share: float) -> int:
    """Return how many rows a range is to have, so that enough of them are drawn."""
    if not rows:
        return UNKNOWN
    return min(MOST, max(FEWEST, math.ceil(rows / max(RANGES, OF_A_KIND / share))))


def numbers_of(one: VerifyTable) -> list[str]:
    """Return the source columns that begin the key, hold whole numbers, and are numbers at the target, too."""
    types = dict(zip(one.table.source_columns, one.table.types, strict=True))
    return list(takewhile(lambda name: name in types and _is_number(types[name]), one.schema.primary_key))


def _is_number(type: LogicalType) -> bool:
    there = type.at_target
    return type.carried in WHOLE and there.text is TextForm.OF_KIND and there.keeps_whole and not there.sorts_as_text


def distinct(bounds: Sequence[Bounds]) -> Iterator[Bounds]:
    """Leave out ranges that are empty: leading columns of two rows may be equal."""
    return (one for one in bounds if one.lower is None or one.lower != one.upper)
