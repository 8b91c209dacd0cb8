"""Rows on their way into the trail that name large objects (large_objects.py): their table is parked before the first of them.

https://www.postgresql.org/docs/current/catalog-pg-largeobject-metadata.html
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence

import pyarrow as pa

from anabranch.connectors.postgresql.connection import Connection
from anabranch.connectors.postgresql.source.connection import open_session
from anabranch.connectors.postgresql.source.errors import translated
from anabranch.connectors.postgresql.source.large_objects import REMEDY, Forms, ObjectForm
from anabranch.contracts import Select
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId
from anabranch.model.schema import Column, TableSchema
from anabranch.rows.chunk import META, OP, ORDINAL, TX, Barrier, BarrierKind, Chunk, Op, TableRows

_NUMBER = re.compile(r"\d+")
_THERE = "SELECT oid::bigint FROM pg_catalog.pg_largeobject_metadata WHERE oid = ANY(%s::bigint[]::oid[])"


class LargeObjectGuard:
    """ValueGuard. Asks the source only for tables with such columns, once a chunk and column."""

    def __init__(self, endpoint: Endpoint, dropped: Callable[[TableId], Collection[str]]) -> None:
        self._endpoint, self._dropped = endpoint, dropped
        self._connection: Connection | None = None
        self._forms = Forms(self._session)
        self._watched: dict[tuple[TableId, int], Mapping[int, ObjectForm]] = {}

    def barriers(self, chunk: Chunk, select: Select) -> list[Barrier]:
        with translated("look for large objects"):
            found = (self._barrier(rows, select(rows.table)) for rows in chunk.tables)
            return [barrier for barrier in found if barrier is not None]

    def _barrier(self, rows: TableRows, schema: TableSchema | None) -> Barrier | None:
        """Return a barrier before the first row that names an object."""
        if schema is None or schema.version != rows.version:
            return None
        hits = [
            (at, schema.columns[place])
            for place, form in self._places(schema).items()
            if (at := self._first(rows.batch, schema.columns[place], place, form)) is not None
        ]
        if not hits:
            return None
        at, column = min(hits, key=lambda hit: hit[0])
        at -= int(rows.batch.column(OP)[at].as_py() == Op.AFTER)  # an update is two rows
        tx, ordinal = (rows.batch.column(name)[at].as_py() for name in (TX, ORDINAL))
        why = f"its column {column.name} ({column.native}) names a large object, which is in no log: {REMEDY}"
        return Barrier(tx, ordinal, BarrierKind.PARK, rows.table, reason=why)

    def _places(self, schema: TableSchema) -> Mapping[int, ObjectForm]:
        key = schema.id, schema.version
        if key not in self._watched:
            left_out = self._dropped(schema.id)
            found = {
                place: self._forms.of(schema.id, column)
                for place, column in enumerate(schema.columns)
                if column.type is not None and column.name not in left_out
            }
            self._watched[key] = {
                place: form for place, form in found.items() if form in (ObjectForm.PLAIN, ObjectForm.ARRAY)
            }
        return self._watched[key]

    def _first(self, batch: pa.RecordBatch, column: Column, place: int, form: ObjectForm) -> int | None:
        """Return the place of the first row whose new value names an object."""
        import pyarrow.compute as pc  # eight megabytes, which only tables with such columns take

        from anabranch.rows.lines import texts

        assert column.type is not None
        is_new = pc.is_in(batch.column(OP), value_set=pa.array([Op.INSERT, Op.AFTER], batch.column(OP).type))
        values: Sequence[str | None] = pc.if_else(
            is_new, texts(column.type, batch.column(META + place)), None
        ).to_pylist()
        numbers = {text: _numbers(text, form) for text in set(values) if text}
        wanted = sorted({number for found in numbers.values() for number in found})
        if not wanted:
            return None
        there = {number for (number,) in self._session().execute(_THERE, [wanted]).fetchall()}
        named = {text for text, found in numbers.items() if there.intersection(found)}
        return next((at for at, text in enumerate(values) if text in named), None) if named else None

    def _session(self) -> Connection:
        if self._connection is None or self._connection.closed:
            self._connection = open_session(self._endpoint)
        return self._connection

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _numbers(text: str, form: ObjectForm) -> Collection[int]:
    found: Sequence[str] = _NUMBER.findall(text) if form is ObjectForm.ARRAY else [text]
    return [int(number) for number in found if number != "0"]
