"""The compiled decoder (`anabranch-native`), where it is installed: buffers that it fills, decoders that ask it first.

The generated Python decoders stay the reference. What the compiled one refuses (bytes that are wrong, kinds of values that it
does not know) they decode, or say what is wrong with it; so a table's rows may be partly in its buffers and partly in lists.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from anabranch.abc import ValueRules
from anabranch.connectors.mysql import binlog as b
from anabranch.connectors.mysql.native_fields import described
from anabranch.connectors.mysql.rows_decode import Decoder, TableDecoders
from anabranch.connectors.mysql.tablemap import TableMap
from anabranch.errors import ConfigError, ValueRefused
from anabranch.model.schema import TableSchema
from anabranch.rows.arrow import array, arrow_type
from anabranch.rows.builder import ChunkBuilder, Directory, TableBuffer
from anabranch.rows.chunk import TRANSACTION_SCHEMA, TableRows

try:
    import anabranch_native as found
except ImportError:
    found = None

INTERFACE = 1
_COMPILED: Any = found if getattr(found, "INTERFACE", None) == INTERFACE else None
_META = ("<i1", "<i4", "<i8", "<i2")  # op, transaction, ordinal, shape


def compiled(decoding: str) -> bool:
    """Is the compiled decoder used? `decoding`: auto, python, native. Raises ConfigError where it is asked for and missing."""
    if decoding == "native" and _COMPILED is None:
        raise ConfigError(
            'the compiled decoder is not installed, or of another version, and [capture] decoding = "native" asks for it',
            hint="pip install ./native in a checkout of anabranch (needs cargo)",
        )
    return decoding != "python" and _COMPILED is not None


class Native:
    """What a log's reader makes instead of its Python counterparts. `log`: the compiled half of the loop over events."""

    def __init__(self, family: str, is_gapless: bool) -> None:
        """`is_gapless`: the server sends every event of its log."""
        self.log = _COMPILED.Log(family == "mysql", is_gapless)

    def builder(self) -> ChunkBuilder:
        return ChunkBuilder(_buffer, _Directory(self.log))

    def decoders(self, seen: TableMap, buffer: TableBuffer, rules: ValueRules, family: str) -> TableDecoders:
        return NativeDecoders(seen, buffer, rules, family)


def _buffer(schema: TableSchema) -> TableBuffer:
    return TableBuffer(schema) if schema.row_end else NativeBuffer(schema)


class _Directory(Directory):
    def __init__(self, log: Any) -> None:
        self._log = log

    def add(self, native: str, gtid: str | None, commit_time: int, rows: int) -> None:
        self._log.add(native, gtid, commit_time, rows)

    def take(self) -> pa.RecordBatch:
        count, columns = self._log.take()
        arrays = [_array(field.type, count, given) for field, given in zip(TRANSACTION_SCHEMA, columns, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=TRANSACTION_SCHEMA)


@dataclass(slots=True)
class _Section:
    """Images that are behind those of the section before: of each column a list of raw values, or an array."""

    images: int
    columns: list[Any]

    def first(self, count: int) -> _Section:
        return _Section(count, [column[:count] for column in self.columns])

    def rest(self, count: int) -> _Section:
        return _Section(self.images - count, [column[count:] for column in self.columns])


class NativeBuffer(TableBuffer):
    """A table whose rows wait in compiled buffers (`table`), or in `columns`: first those of `_sections`, then those of one of
    the two, then nothing. `listed`: images in `columns`."""

    def __init__(self, schema: TableSchema) -> None:
        super().__init__(schema)
        self.types = [arrow_type(column.type) for column in schema.columns]
        self.table = _COMPILED.Table([_width(type) for type in self.types])
        self.runs = self.table
        self.listed = 0
        self._sections: list[_Section] = []

    def to_lists(self) -> None:
        """The next rows come into `columns`."""
        if not self.table.is_closed:
            self._seal()
            self.table.is_closed = True

    def to_table(self) -> None:
        """The next rows come into `table`."""
        if self.table.is_closed:
            self._seal()
            self.table.is_closed = False

    def take(self, before_tx: int) -> TableRows | None:
        count, *meta, used = self.table.take_runs(before_tx)
        if not count:
            return None
        every = tuple(self._shapes)
        facts = [np.frombuffer(part, kind) for part, kind in zip(meta, _META, strict=True)]
        return self._rows(facts, self._arrays(count), tuple(every[number] for number in used))

    def drop(self, tx: int, first: int = 0) -> int:
        dropped: int = self.table.forget_runs(tx, first)
        self._seal()
        left = dropped
        while left:
            last = self._sections.pop()
            if last.images > left:
                self._sections.append(last.first(last.images - left))
            left -= min(left, last.images)
        return dropped

    def _arrays(self, count: int) -> list[pa.Array]:
        if self._sections:
            return self._from_sections(count)
        if self.table.is_closed:
            made = [self._values(index, count) for index in range(len(self.columns))]
            self.listed -= count
            return made
        return self._given(count)

    def _given(self, count: int) -> list[pa.Array]:
        columns = zip(self.types, self.table.take(count), strict=True)
        return [pa.nulls(count) if given is None else _array(type, count, given) for type, given in columns]

    def _seal(self) -> None:
        """What waits becomes a section."""
        if self.listed:
            self._sections.append(_Section(self.listed, [column[: self.listed] for column in self.columns]))
            self.listed = 0
        for column in self.columns:
            column.clear()
        if self.table.images:
            images = self.table.images
            self._sections.append(_Section(images, self._given(images)))

    def _from_sections(self, count: int) -> list[pa.Array]:
        self._seal()
        leaving, left = [], count
        while left:
            section = self._sections.pop(0)
            if section.images > left:
                self._sections.insert(0, section.rest(left))
                section = section.first(left)
            leaving.append(section)
            left -= section.images
        return [self._joined(index, leaving) for index in range(len(self.columns))]

    def _joined(self, index: int, sections: list[_Section]) -> pa.Array:
        column = self.schema.columns[index]
        if column.type is None:
            return pa.nulls(sum(section.images for section in sections))
        arrays: list[pa.Array] = []
        for section in sections:
            values = section.columns[index]
            if isinstance(values, list):
                before = sum(map(len, arrays))
                try:
                    values = array(column.type, [None] * before + values)[before:]
                except ValueError as error:  # which names the value by its place in all of them
                    raise ValueRefused(f"column {column.name}: {error}", table=str(self.schema.id)) from error
            arrays.append(values)
        return arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)


class NativeDecoders(TableDecoders):
    """Decoders of one table map that ask the compiled one first. `layout`: how it reads the rows, None where it does not."""

    def __init__(self, seen: TableMap, buffer: TableBuffer, rules: ValueRules, family: str) -> None:
        super().__init__(seen, buffer, rules, family)
        assert isinstance(buffer, NativeBuffer)
        self.native = buffer
        fields = described(seen.columns, self.schema.columns)
        is_null = rules.zero_date == "null"
        self.layout = (
            _COMPILED.Layout(buffer.table, fields, is_null, self._width, len(self._count), self.least)
            if fields is not None
            else None
        )

    def _finished(
        self,
        kind: int,
        head: bytes,
        keys_off: bool,
        images: list[list[bool]],
        fill: Mapping[int, Any],
        made: Decoder,
    ) -> Decoder:
        python, op, shape, second_shape = made
        layout, buffer = self.layout, self.native
        if layout is not None and kind != b.PARTIAL_UPDATE:
            patterns = [self._image(image, fill) for image in images]
            layout.know(kind, keys_off, head, patterns, op, shape, second_shape)

        def decode(data: bytes, at: int, end: int) -> int:
            if layout is not None:
                buffer.to_table()
                done: int | None = layout.decode(kind, keys_off, head, data, at, end)
                if done is not None:
                    return done
            buffer.to_lists()
            found = python(data, at, end)
            buffer.listed += found
            return found

        return decode, op, shape, second_shape

    def _image(self, present: list[bool], fill: Mapping[int, Any]) -> tuple[Any, Any]:
        places = [place for place, there in enumerate(present) if there]
        steps = [(place, bit if self.seen.columns[place].nullable else -1) for bit, place in enumerate(places)]
        absent = [
            (place, self._stored(place, fill.get(place)))
            for place, there in enumerate(present)
            if not there and self._is_kept(place)
        ]
        return steps, absent

    def _is_kept(self, place: int) -> bool:
        return self.schema.columns[place].type is not None

    def _stored(self, place: int, value: Any) -> bytes | None:
        """A raw value as Arrow keeps it."""
        if value is None:
            return None
        made = array(self.schema.columns[place].type, [value])
        data: bytes = made.buffers()[-1].to_pybytes()
        return data[: _width(made.type) or len(made.cast(pa.binary())[0].as_py())]


def _width(type: pa.DataType) -> int:
    """Bytes of a value; 0: of any length, -1: it is left out."""
    if pa.types.is_null(type):
        return -1
    return 0 if pa.types.is_string(type) or pa.types.is_binary(type) else int(type.bit_width) // 8


def _array(type: pa.DataType, count: int, given: tuple[bytes | None, int, bytes | None, bytes]) -> pa.Array:
    validity, nulls, offsets, data = given
    parts = [validity, data] if offsets is None else [validity, offsets, data]
    buffers = [None if part is None else pa.py_buffer(part) for part in parts]
    return pa.Array.from_buffers(type, count, buffers, nulls)
