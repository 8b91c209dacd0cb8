"""The compiled decoder (`anabranch-native`), where it is installed: buffers that it fills, decoders that ask it first.

The generated Python decoders stay the reference. What the compiled one refuses (bytes that are wrong, kinds of values that it
does not know) they decode, or say what is wrong with it; so a table's rows may be partly in its buffers and partly in lists.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import pyarrow as pa

from anabranch.connectors.mysql.packets import Front
from anabranch.connectors.mysql.source import binlog as b
from anabranch.connectors.mysql.source.hashed import may_be_hashed
from anabranch.connectors.mysql.source.left_out import LeftOutOrigins
from anabranch.connectors.mysql.source.native_fields import described
from anabranch.connectors.mysql.source.rows_decode import Decoder, TableDecoders
from anabranch.connectors.mysql.source.tablemap import TableMap
from anabranch.contracts import ValueRules
from anabranch.model.schema import TableSchema
from anabranch.rows import compiled
from anabranch.rows.arrow import array, arrow_type
from anabranch.rows.builder import ChunkBuilder, TableBuffer
from anabranch.rows.chunk import TableRows
from anabranch.rows.compiled import CompiledDirectory, given_arrays, given_meta, made_table, width
from anabranch.rows.sections import Sections
from anabranch.rows.zero_dates import KINDS, NULL, choice


def compiled_lines() -> Front | None:
    """Return compiled code that makes lines of rows of one value each, as packets.py and lines.py do; None if not
    installed.

    It converts the rows at the front of a buffer, up to the first one that is not plain.
    """
    return None if compiled.NATIVE is None else compiled.NATIVE.lines


def compiled_columns(kinds: bytes) -> Front | None:
    """Return compiled code that makes lines of rows with several values; None if not installed.

    `kinds` has a letter for each column: "n" for a value taken as it is, "d" for a date, "w" for words.
    """
    if compiled.NATIVE is None:
        return None
    of_columns = compiled.NATIVE.lines_of_columns
    return lambda buffer: cast("tuple[bytes, int]", of_columns(buffer, kinds))


class CompiledParts:
    """The compiled counterparts of a log reader's Python parts. `log`: the compiled half of the loop over events."""

    def __init__(self, family: str, is_gapless: bool, own: int, left_out: LeftOutOrigins) -> None:
        """Set up the compiled loop. `is_gapless`: the server sends every event of its log; `own`: its id; `left_out`:
        where the loop stops.
        """
        self.log = compiled.NATIVE.Log(family == "mysql", is_gapless, own, left_out.servers, left_out.sources)

    def builder(self) -> ChunkBuilder:
        return ChunkBuilder(_buffer, CompiledDirectory(self.log))

    def decoders(self, seen: TableMap, buffer: TableBuffer, rules: ValueRules, family: str) -> TableDecoders:
        return NativeDecoders(seen, buffer, rules, family)


def _buffer(schema: TableSchema) -> TableBuffer:
    return TableBuffer(schema) if schema.row_end or may_be_hashed(schema) else NativeBuffer(schema)


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
        self.table = made_table(self.types)
        self.runs = self.table
        self.listed = 0
        self._sections = Sections[_Section]()

    def to_lists(self) -> None:
        """Put the next rows into `columns`."""
        if not self.table.is_closed:
            self._seal()
            self.table.is_closed = True

    def to_table(self) -> None:
        """Put the next rows into `table`."""
        if self.table.is_closed:
            self._seal()
            self.table.is_closed = False

    def came(self, images: int) -> None:
        self.listed += images

    def take(self, before_tx: int) -> TableRows | None:
        count, *meta, used = self.table.take_runs(before_tx)
        if not count:
            return None
        every = tuple(self._shapes)
        return self._rows(given_meta(meta), self._arrays(count), [every[number] for number in used])

    def drop(self, tx: int, first: int = 0) -> int:
        dropped: int = self.table.forget_runs(tx, first)
        self._seal()
        self._sections.drop(dropped)
        return dropped

    def _arrays(self, count: int) -> list[pa.Array]:
        if self._sections.waiting:
            return self._from_sections(count)
        if self.table.is_closed:
            made = self._every(count)
            self.listed -= count
            return made
        return given_arrays(self.table, self.types, count)

    def _seal(self) -> None:
        """Make a section of the waiting rows."""
        if self.listed:
            self._sections.waiting.append(_Section(self.listed, [column[: self.listed] for column in self.columns]))
            self.listed = 0
        for column in self.columns:
            column.clear()
        if images := self.table.images:
            self._sections.waiting.append(_Section(images, given_arrays(self.table, self.types, images)))

    def _from_sections(self, count: int) -> list[pa.Array]:
        self._seal()
        leaving = self._sections.take(count)
        return [self._joined(index, leaving) for index in range(len(self.columns))]

    def _joined(self, index: int, sections: list[_Section]) -> pa.Array:
        if self.schema.columns[index].type is None:
            return pa.nulls(sum(section.images for section in sections))
        arrays: list[pa.Array] = []
        before = 0
        for section in sections:
            values = section.columns[index]
            is_list = isinstance(values, list)
            arrays.append(self._made(index, section.columns, section.images, before) if is_list else values)
            before += section.images
        return arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)


class NativeDecoders(TableDecoders):
    """Decoders of one table map that ask the compiled one first. `layout`: how it reads the rows, None where it does not."""

    def __init__(self, seen: TableMap, buffer: TableBuffer, rules: ValueRules, family: str) -> None:
        super().__init__(seen, buffer, rules, family)
        assert isinstance(buffer, NativeBuffer)
        self.native = buffer
        fields = described(seen.columns, self.schema.columns)
        dates = [c for c in self.schema.columns if c.type is not None and c.type.kind in KINDS]
        # What a date stands for Python puts in its place.
        is_null = bool(dates) and all(choice(rules, self.schema, c.name) == NULL for c in dates)
        self.layout = (
            compiled.NATIVE.Layout(buffer.table, fields, is_null, self._width, len(self._count), self.least)
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
        """Return a raw value as Arrow keeps it."""
        if value is None:
            return None
        made = array(self.schema.columns[place].type, [value])
        data: bytes = made.buffers()[-1].to_pybytes()
        return data[: width(made.type) or len(made.cast(pa.binary())[0].as_py())]
