"""System-versioned tables of MariaDB: only rows that are current now are replicated, their history is not.

The log has history as rows: an UPDATE also inserts the row as it was, a DELETE is an update of the row's end. What the
decoders give is sifted into what happened to current rows.
https://mariadb.com/kb/en/system-versioned-tables/ · https://mariadb.com/kb/en/binary-log-formats/

What does not live here: the decoding itself (`rows_decode.py`), how the load reads current rows (the server does that).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from anabranch.connectors.mysql.source.hashed import with_hashes
from anabranch.connectors.mysql.source.rows_decode import Decoder, TableDecoders
from anabranch.connectors.mysql.source.structures import HIDDEN
from anabranch.connectors.mysql.source.tablemap import TableMap
from anabranch.connectors.mysql.source.transactions import LogGroup
from anabranch.contracts import ValueRules
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.schema import Column, TableSchema
from anabranch.rows.builder import ChunkBuilder, Run, TableBuffer
from anabranch.rows.chunk import Op

_MICROSECONDS = 1_000_000
# What stands at the end of a current row: the last instant there is, of 64-bit servers from 11.5 on a later one.
# https://mariadb.com/kb/en/timestamp/
CURRENT = frozenset(seconds * _MICROSECONDS + 999_999 for seconds in (0x7FFFFFFF, 0xFFFFFFFF))


def as_logged(schema: TableSchema) -> TableSchema:
    """Return the definition as table maps have it: with the hidden columns, and the row's end in the primary key."""
    columns = schema.columns
    if schema.row_end not in (column.name for column in columns):
        instant = LogicalType(Kind.INSTANT)
        columns += tuple(Column(name, instant, "timestamp(6)", False) for name in HIDDEN)
    key = (*schema.primary_key, schema.row_end) if schema.primary_key else ()
    return replace(schema, columns=columns, primary_key=key)


class VersionedDecoders(TableDecoders):
    """Decoders of a versioned table. What they make takes the rows of an event into lists of its own, moves what concerns
    current rows to the buffer, and returns 0: runs and counts are done by then."""

    def __init__(
        self,
        seen: TableMap,
        buffer: TableBuffer,
        rules: ValueRules,
        family: str,
        builder: ChunkBuilder,
        group: LogGroup,
    ) -> None:
        super().__init__(seen, buffer, rules, family, with_hashes(as_logged(buffer.schema), seen))
        self._builder, self._group = builder, group
        self._end = self.schema.index_of(buffer.schema.row_end)

    def _make(self, kind: int, head: bytes, keys_off: bool) -> Decoder:
        decode, op, shape, second_shape = super()._make(kind, head, keys_off)

        def sift(data: bytes, at: int, end: int) -> int:
            images = decode(data, at, end)
            ends = self.lists[self._end]
            found = _pairs(ends, shape, second_shape) if op is Op.BEFORE else _single(ends, op, shape)
            for run, rows in found:
                self._move(run, rows)
            assert images == len(ends)
            for values in self.lists:
                values.clear()
            return 0

        return sift, op, shape, second_shape

    def _move(self, run: tuple[Op, int, int], rows: list[int]) -> None:
        for into, values in zip(self.buffer.columns, self.lists, strict=False):
            into.extend([values[row] for row in rows])
        op, shape, second_shape = run
        group, images = self._group, len(rows)
        made: Run = (op, self._builder.transaction, group.ordinal, shape, second_shape, images)
        self.buffer.runs.append(made)
        group.ordinal += images
        self._builder.images += images


Found = list[tuple[tuple[Op, int, int], list[int]]]
"""(op, shape, shape of every second image) and the rows that go with it, in the order of the log."""


def _single(ends: list[Any], op: Op, shape: int) -> Found:
    rows = [row for row, end in enumerate(ends) if end in CURRENT]
    return [((op, shape, shape), rows)] if rows else []


def _pairs(ends: list[Any], shape: int, second_shape: int) -> Found:
    """Return an update of a current row; it ends the row if it gives it another end. An absent end stays."""
    found: Found = []
    for before in range(0, len(ends), 2):
        if ends[before] not in CURRENT:
            continue
        stays = ends[before + 1] is None or ends[before + 1] in CURRENT
        run = (Op.BEFORE, shape, second_shape) if stays else (Op.DELETE, shape, shape)
        if not found or found[-1][0] != run:
            found.append((run, []))
        found[-1][1].extend((before, before + 1) if stays else (before,))
    return found
