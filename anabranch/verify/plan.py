"""The plan of a comparison: tables, and the pieces in which both sides are read."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import zip_longest

from anabranch.contracts import (
    Bounds,
    ReadTarget,
    SharingReader,
    SnapshotReader,
    SourceConnector,
    TargetReader,
    ValueRules,
)
from anabranch.model.at_target import TextForm
from anabranch.model.datatype import LogicalType
from anabranch.model.schema import TableSchema
from anabranch.rows import json_texts
from anabranch.rows.net import TargetTable
from anabranch.spark.where import Named


@dataclass(frozen=True)
class VerifyTable:
    """A table at both ends. Rows of the source that `filter` does not let pass are left out, as in load and stream. Where the
    target's `is_shared`, rows that only it has are somebody else's. `only_changed`: the target was told of rows alone that
    have changed, so of the source's only those are looked at of whose keys it tells."""

    schema: TableSchema
    table: TargetTable
    filter: Named | None = None
    is_shared: bool = False
    only_changed: bool = False


def with_computed(table: TargetTable, types: Mapping[str, LogicalType], there: Collection[str]) -> TargetTable:
    """Return the table as it is compared: with the columns that the target computes and has (`there`), and of which rows of
    the source have values, of these types. Another value there is a difference as any other (decision 202)."""
    found = [(source, name) for source, name in table.computed if source in types and name in there]
    return replace(
        table,
        columns=(*table.columns, *(name for _, name in found)),
        types=(*table.types, *(types[source] for source, _ in found)),
        source_columns=(*table.source_columns, *(source for source, _ in found)),
    )


@dataclass(frozen=True)
class VerifyPiece:
    """Rows of one side: `bounds` at the source; at the target `place`, a piece of its reader, which alone reads it. Both:
    the source's rows whose keys that piece tells."""

    one: VerifyTable
    bounds: Bounds | None = None
    place: str = ""

    @property
    def is_source(self) -> bool:
        return self.bounds is not None


def cut(
    source: SourceConnector,
    target: ReadTarget,
    tables: Sequence[VerifyTable],
    *,
    rows_per_piece: int,
    rules: ValueRules,
    expected_identity: str,
    by_place: bool = True,
) -> list[VerifyPiece]:
    """Return every piece of both sides, the tables with most pieces first. `by_place`: rows of a source may be cut by
    where they lie, of which one that moves may be missed: not beside writers, where the target's may be, too."""
    with closing(source.snapshot(expected_identity)) as snapshot, closing(target.reader(rules)) as reader:
        found = [pieces_of(snapshot, reader, one, rows_per_piece, rules, by_place) for one in tables]
    return [piece for pieces in sorted(found, key=len, reverse=True) for piece in pieces]


def pieces_of(
    snapshot: SnapshotReader,
    reader: TargetReader,
    one: VerifyTable,
    rows_per_piece: int,
    rules: ValueRules,
    by_place: bool,
) -> list[VerifyPiece]:
    """Return the pieces of both sides in turns, so that both servers work all the time."""
    if one.only_changed:
        places = reader.pieces(one.table, rows_per_piece)
        return [VerifyPiece(one, bounds, place) for place in places for bounds in (Bounds(), None)]
    there = [] if not by_place or has_json_key(one.schema, rules) else _by_place(snapshot, one, rows_per_piece)
    there = there or [VerifyPiece(one, bounds=bounds) for bounds in snapshot.bounds(one.schema, rows_per_piece)]
    here = [VerifyPiece(one, place=place) for place in reader.pieces(one.table, rows_per_piece)]
    return [piece for pair in zip_longest(there, here) for piece in pair if piece]


def has_json_key(schema: TableSchema, rules: ValueRules) -> bool:
    """Return whether a column would be JSON at the target if it were in no key, as it is where a table is cut by place."""
    types = (schema.column(name).type for name in schema.primary_key)
    return any(json_texts.wanted(type, rules) is not TextForm.OF_KIND for type in types)


def _by_place(snapshot: SnapshotReader, one: VerifyTable, rows_per_piece: int) -> list[VerifyPiece]:
    """Cut a source table by where its rows lie, as at the target. [] where the source cannot.

    Cutting reads nothing, and each piece is read in the order of the disk. A row that is changed meanwhile may move and
    be missed; that is a difference like any other change under way.
    """
    if not isinstance(snapshot, SharingReader):
        return []
    keyless = replace(one, schema=replace(one.schema, primary_key=()))  # its bounds are places
    places = snapshot.places(keyless.schema, rows_per_piece)
    return [VerifyPiece(keyless, bounds=bounds) for bounds in places] if len(places) > 1 else []
