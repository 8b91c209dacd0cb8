"""The plan of a scan: which tables, in which pieces, and which of their keys are looked at as a whole.

What does not live here: trying a piece (`trying.py`), drawing ranges (verify/sampling.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field

from anabranch import pace
from anabranch.contracts import Bounds, SnapshotReader, SourceConnector
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.schema import Index, TableSchema
from anabranch.rows import zero_dates
from anabranch.rows.net import TargetTable
from anabranch.spark.where import Named
from anabranch.verify.sampling import FEWEST, MOST, RANGES, drawn
from anabranch.verify.wanted import Sample

CHUNKS = 8  # of a table
NOT_ALONE = (
    "rows that the target takes for equal in the unique key {}: it takes parts of values or of rows, or expressions"
)
PRIMARY, ALL = "the primary key", Bounds()
# Kinds of which every target tells apart what the source tells apart. Of all others its collation, or its form, decides.
TOLD_APART = frozenset(
    {
        *(Kind.INT8, Kind.INT16, Kind.INT32, Kind.INT64, Kind.UINT8, Kind.UINT16, Kind.UINT32, Kind.UINT64),
        *(Kind.DECIMAL, Kind.FLOAT32, Kind.FLOAT64, Kind.BOOLEAN, Kind.BINARY, Kind.BIT, Kind.DATE, Kind.TIME),
        *(Kind.TIMESTAMP, Kind.INSTANT, Kind.DURATION, Kind.YEAR, Kind.UUID),
    }
)


@dataclass(frozen=True)
class ScanTable:
    """A table to look at. `zero_dates`: source columns in which the job writes another date for one that is none. `chooses`:
    the job's settings change values of some kind."""

    schema: TableSchema
    table: TargetTable
    filter: Named | None = None
    zero_dates: frozenset[str] = frozenset()
    chooses: bool = False


@dataclass(frozen=True)
class ScanPiece:
    """Rows of a table, inside `bounds`; with a `key` (target columns) the values of that key in all rows. `tells_equal`: no
    piece with a key tells which rows the target takes for equal, so this one does, as far as its rows go."""

    one: ScanTable
    bounds: Bounds = ALL
    key: tuple[str, ...] = ()
    key_name: str = ""
    tells_equal: bool = False


@dataclass
class Plan:
    """The pieces of a table. `part`: how many ranges of how many are tried; `rows`: an estimate of the table's; `not_seen`:
    what is not looked at, and why."""

    one: ScanTable
    pieces: list[ScanPiece]
    part: tuple[int, int]
    rows: int
    not_seen: list[str] = field(default_factory=list)


def plan(source: SourceConnector, tables: list[ScanTable], sample: Sample | None, identity: str) -> list[Plan]:
    """Cut the tables, those with most rows first."""
    with closing(source.snapshot(identity)) as snapshot:
        found = [_planned(snapshot, one, sample) for one in tables]
    return sorted(found, key=lambda one: -one.rows)


def _planned(snapshot: SnapshotReader, one: ScanTable, sample: Sample | None) -> Plan:
    rows = snapshot.estimate(one.schema)
    if sample is None:
        least, most = pace.current.load_rows
        bounds = tried = snapshot.bounds(one.schema, min(max(rows // CHUNKS, least), most))
    else:
        bounds = snapshot.bounds(one.schema, min(max(rows // RANGES, FEWEST), MOST))
        tried = drawn(sample, one.schema.id, bounds)
    keys, not_seen = [], list[str]()
    for columns, name in _keys(one):
        if one.filter is not None:
            not_seen.append(f"rows that the target takes for equal in {name}: the table has a filter")
        elif len(tried) < len(bounds):
            not_seen.append(f"rows of other ranges that the target takes for equal in {name}: that takes all rows")
        else:
            keys.append(ScanPiece(one, ALL, columns, name))
    not_seen += [NOT_ALONE.format(name) for name in _keys_not_alone(one)]
    if one.filter is not None and one.chooses:
        not_seen.append("values that [types] changes: the table has a filter")
    pieces = [ScanPiece(one, some, tells_equal=not keys) for some in tried]
    return Plan(one, [*pieces, *keys], (len(tried), len(bounds)), rows, not_seen)


def _keys(one: ScanTable) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the keys (columns at the target) of which the target may take values for equal that the source tells apart."""
    names = dict(zip(one.table.source_columns, one.table.columns, strict=True))
    if one.table.key and _may_merge(one, one.table.key):
        yield one.table.key, PRIMARY
    for index in one.schema.indexes:
        if index.unique and _is_plain(index) and index.columns and all(name in names for name in index.columns):
            columns = tuple(names[name] for name in index.columns)
            if columns != one.table.key and _may_merge(one, columns):
                yield columns, f"the unique key {index.name}"


def _is_plain(index: Index) -> bool:
    return not index.definition and not index.parts and not any(index.prefixes or ())


def _keys_not_alone(one: ScanTable) -> Iterator[str]:
    """Yield the unique keys that no table of their columns alone can try. Without one of its columns a key is not made."""
    names = dict(zip(one.table.source_columns, one.table.columns, strict=True))
    for index in one.schema.indexes:
        if index.unique and (not _is_plain(index) or not index.columns) and all(c in names for c in index.columns):
            yield index.name


def _may_merge(one: ScanTable, columns: tuple[str, ...]) -> bool:
    sources = dict(zip(one.table.columns, one.table.source_columns, strict=True))
    return any(_merges(one.table.type_of(name)) or sources[name] in one.zero_dates for name in columns)


def _merges(type: LogicalType) -> bool:
    return type.kind not in TOLD_APART or bool(type.target and type.kind not in zero_dates.KINDS)
