"""Changes of a table as a DataFrame, read from the trail: `spark.read.format("anabranch").option("changes", "shop.orders")`.

The rows are those of a change table (`rows/change_table.py`), with the source's names and types as Spark has them. Nothing is
asked of a source or a target. A partition is what begins in one segment; a task has one chunk of it in memory at a time.
What does not live here: the streaming source that triggers epochs (source.py), values as Spark sees them (rows.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import BinaryType, DataType, IntegerType, StringType, StructField, StructType

from anabranch.errors import ConfigError, RowRefused, SchemaError
from anabranch.model.change_names import COLUMNS
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.schema import TableSchema
from anabranch.rows.appended import changes_of
from anabranch.rows.change_table import change_rows
from anabranch.rows.chunk import BarrierKind, Chunk, TableRows
from anabranch.rows.lines import texts
from anabranch.rows.net import TargetTable
from anabranch.spark.rows import WIDEST_DECIMAL, spark_type, to_spark
from anabranch.trail.chunk_refs import ChunkRef
from anabranch.trail.reader import TrailReader
from anabranch.trail.stretches import Stretch, stretch_of, stretches

FORMAT = "anabranch"
PLANNED_ROWS = 50_000  # whose places a task holds at a time; each chunk counts as twenty at least
BEHIND = "read up to the transaction in front of it, and from the one behind it"


class ChangesSource(DataSource):
    """Options: `path` the trail's directory (what `load` is given), `changes` the table as the source calls it; `from` and `to`
    the first and the last transaction, each a position or its sequence. Without them: all of the newest definition; with
    `to` alone: of the definition of that transaction."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        with _trail(self.options) as trail:
            return change_schema(_asked(self.options, trail).table)

    def reader(self, schema: StructType) -> ChangesReader:
        return ChangesReader(self.options, schema)


@dataclass(frozen=True)
class _Asked:
    """The transactions `first` to `last` of a stretch, none where `last` is before `first`; `table`: its columns that the trail
    has."""

    stretch: Stretch
    table: TargetTable
    first: int
    last: int


class Range(InputPartition):
    """The transactions with after < sequence <= upto, of what is `asked`."""

    def __init__(self, after: int, upto: int, asked: _Asked) -> None:
        super().__init__(0)
        self.after, self.upto, self.asked = after, upto, asked


class ChangesReader(DataSourceReader):
    """Plans in one Python process, and reads in those of the tasks.

    Delivery: every change of the range once. What the trail does not have, or has damaged, and what has no row raises; so does
    a segment that is dropped meanwhile."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._options, self._schema = options, schema

    def partitions(self) -> list[InputPartition]:
        with _trail(self._options) as trail:
            asked = _asked(self._options, trail)
            starts = trail.starts()
        if change_schema(asked.table) != self._schema:
            raise ConfigError(
                f"table {asked.table.source} has other columns than this DataFrame: its definition changed",
                hint="load it again; the schema is the trail's and none can be chosen",
            )
        inside = [start - 1 for start in starts if asked.first < start <= asked.last]
        bounds = [asked.first - 1, *inside, asked.last]
        return [Range(one, other, asked) for one, other in pairwise(bounds) if one < other]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Range)
        with _trail(self._options) as trail:
            at = partition.after
            while at < partition.upto:
                refs = trail.descriptors(at, partition.upto, limit_rows=PLANNED_ROWS)
                for ref in refs:
                    yield from _batches(trail, ref, partition.asked)
                at = refs[-1].last_sequence


def change_schema(table: TargetTable) -> StructType:
    """Return the columns of a change table as Spark has them. Decimals of more digits than Spark knows are text."""
    lsn, end, seqval, operation, mask, command = COLUMNS
    head = [(lsn, BinaryType()), (end, BinaryType()), (seqval, BinaryType()), (operation, IntegerType())]
    own = [(name, _spark_type(type)) for name, type in zip(table.columns, table.types, strict=True)]
    fields = [*head, (mask, BinaryType()), *own, (command, IntegerType())]
    return StructType([StructField(name, type) for name, type in fields])


# --- what is asked for ------------------------------------------------------------------------------------------------


def _trail(options: Mapping[str, str]) -> TrailReader:
    if not (path := options.get("path")):
        raise ConfigError("no trail is named", hint='give its directory: .load("/var/lib/anabranch/shop/trail")')
    return TrailReader(path, name="spark")


def _asked(options: Mapping[str, str], trail: TrailReader) -> _Asked:
    """Return what there is of the range. Raises ConfigError for a table or a range that the trail does not have."""
    if not (name := options.get("changes")):
        raise ConfigError("no table is named", hint='.option("changes", "schema.table"), as the source calls it')
    try:
        table = TableId.parse(name)
    except ValueError as error:
        raise ConfigError(f"option changes: {error}") from None
    first, last, end = _sequence(options, "from"), _sequence(options, "to"), trail.end().position.sequence
    if last is not None and last > end:
        raise ConfigError(f"option to: the trail ends at {end}, before {last}", hint="read up to there")
    if last is not None and first is not None and first > last:
        raise ConfigError(f"option from: {first} is behind {last}, the last transaction (option to)")
    stretch = stretch_of(stretches(trail.history, table), table, first, last)
    if last is not None and last < trail.first():
        raise ConfigError(
            f"option to: the trail begins at {trail.first()}, behind {last}", hint="read what it has left"
        )
    begin = max(stretch.first, trail.first()) if first is None else first
    return _Asked(stretch, _table(stretch.schema), begin, end if last is None else last)


def _sequence(options: Mapping[str, str], name: str) -> int | None:
    """Return the transaction that an option names: `4711@mysql-bin.000003:15499` or `4711`."""
    if (text := options.get(name)) is None:
        return None
    number = text.partition("@")[0]
    if not (number.isascii() and number.isdigit()) or int(number) < 1:
        raise ConfigError(f"option {name}: {text!r} is no position", hint="positions are <sequence>@<native position>")
    return int(number)


def _table(schema: TableSchema) -> TargetTable:
    """Return the table with the columns that rows of the trail have: not those that were refused or that the log lacks."""
    kept = {column.name: column.type for column in schema.columns if column.type is not None}
    if taken := [name for name in kept if name.lower() in COLUMNS]:
        raise ConfigError(f"table {schema.id} has a column {taken[0]}, as change tables call one of their own")
    return TargetTable(schema.id, schema.id, tuple(kept), tuple(kept.values()), schema.primary_key, tuple(kept))


# --- rows -------------------------------------------------------------------------------------------------------------


def _batches(trail: TrailReader, ref: ChunkRef, asked: _Asked) -> Iterator[pa.RecordBatch]:
    table = asked.table.source
    if not ref.has_barriers and str(table) not in dict(ref.tables):
        return
    chunk = trail.load(ref)
    _refuse_emptied(trail, chunk, table)
    for rows in chunk.tables:
        if rows.table == table and rows.batch.num_rows:
            _refuse_unreadable(trail, chunk, rows, asked.stretch)
            yield _batch(chunk, rows, asked)


def _batch(chunk: Chunk, rows: TableRows, asked: _Asked) -> pa.RecordBatch:
    table, schema = asked.table, asked.stretch.schema
    found = change_rows(changes_of(chunk, rows, table, [schema.index_of(name) for name in table.source_columns]))
    none = pa.nulls(rows.batch.num_rows, pa.binary())
    own = [_values(type, column) for type, column in zip(table.types, found.values, strict=True)]
    arrays = [found.lsn, none, found.seqval, found.operation, found.mask, *own, found.command]
    return pa.RecordBatch.from_arrays(arrays, names=change_schema(table).names)


def _refuse_emptied(trail: TrailReader, chunk: Chunk, table: TableId) -> None:
    for barrier in chunk.barriers:
        if barrier.kind is BarrierKind.TRUNCATE and barrier.table == table:
            place = trail.position_at(chunk.first_sequence + barrier.tx)
            what = "the source has emptied the table by TRUNCATE, which changes have no row for"
            raise RowRefused(f"{what}, at {place}", table=str(table), position=str(place), hint=BEHIND)


def _refuse_unreadable(trail: TrailReader, chunk: Chunk, rows: TableRows, stretch: Stretch) -> None:
    if rows.version not in stretch.versions:
        what = f"rows behind transaction {chunk.first_sequence} have definition version {rows.version}"
        raise SchemaError(f"{what}, which the schema history has elsewhere", table=str(rows.table))
    for one in rows.unconverted[:1]:
        place = trail.position_at(chunk.first_sequence + int(rows.batch.column(1)[one.row].as_py()))
        what = f"column {stretch.schema.columns[one.column].name} has {one.what}, which is no value of its type, at {place}"
        raise RowRefused(what, table=str(rows.table), position=str(place), hint=BEHIND)


def _is_text(type: LogicalType) -> bool:
    return type.carried is Kind.DECIMAL and type.precision > WIDEST_DECIMAL


def _spark_type(type: LogicalType) -> DataType:
    found: DataType = StringType() if _is_text(type) else spark_type(type)
    return found


def _values(type: LogicalType, column: pa.Array) -> pa.Array:
    return texts(type, column) if _is_text(type) else to_spark(type, column)
