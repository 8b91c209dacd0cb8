"""Decoders of row events, generated: one function per table definition, kind of event and columns present.

A function decodes all rows of an event and appends the values to the column lists of a TableBuffer. Neighbouring columns
of fixed width (and the length before a variable one) are one `unpack_from`; nothing asks for a type while it runs.
Rows with NULLs take a second body, in which columns that may be NULL are looked at one by one.
Format: https://dev.mysql.com/doc/dev/mysql-server/latest/classbinary__log_1_1Rows__event.html
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from anabranch.connectors.mysql.source import binlog as b
from anabranch.connectors.mysql.source.fields import OF_DATES, Field, Unfit, environment, field_of, of_dates
from anabranch.connectors.mysql.source.json_partial import OPTION
from anabranch.connectors.mysql.source.tablemap import JSON, TableMap, mismatch
from anabranch.connectors.mysql.source.values import BAD, STOP, Bad, bad_values, zero_of
from anabranch.contracts import ValueRules
from anabranch.model.schema import Column, TableSchema
from anabranch.rows.builder import TableBuffer
from anabranch.rows.chunk import Op
from anabranch.rows.raw import parse_text
from anabranch.rows.refused import raw_text
from anabranch.rows.zero_dates import KINDS, NULL, choice
from anabranch.rows.zero_dates import STOP as STOP_CHOICE

Decode = Callable[[bytes, int, int], int]
"""(data, first row, end of rows) -> images. Raises BadValue; IndexError, ValueError, struct.error for rows that do not fit."""

ROW_EVENTS = {
    kind: op for kinds, op in ((b.WRITE, Op.INSERT), (b.UPDATE, Op.BEFORE), (b.DELETE, Op.DELETE)) for kind in kinds
} | {b.PARTIAL_UPDATE: Op.BEFORE}
# Does a partial after image carry virtual columns that have changed? MariaDB leaves them out under MINIMAL (seen).
LOGS_COMPUTED = {"mysql": True, "mariadb": False}
_REMEDY = "; binlog_row_image = FULL at the source would log it"
_NAME = re.compile(r"[a-z_]\w*")
CELL_BYTES = 4  # of a column in memory
_PATTERNS = 256  # combinations of present columns that are kept per table


Decoder = tuple[Decode, Op, int, int]
"""A function, what its images are, their shape and the shape of every second one."""


class TableDecoders:
    """All decoders of one table map, made when first needed. Raises Unfit when the definition cannot be of this table.

    `kinds`: kind of event -> bytes of its head (number of columns, bitmaps of present ones), and decoders by this head.
    `kinds_off`: the same for events that were logged with foreign keys switched off. `least`: bytes that an image costs
    at least, whatever the log needs for it: a NULL is a bit there, and a value's room here."""

    def __init__(
        self, seen: TableMap, buffer: TableBuffer, rules: ValueRules, family: str, logged: TableSchema | None = None
    ) -> None:
        """Set up the decoders of a table map. `logged`: the definition as the log has it, where that is not the buffer's."""
        self.schema = logged or buffer.schema
        self.lists = [[] for _ in logged.columns] if logged else buffer.columns
        why = mismatch(seen, self.schema)
        if why:
            raise Unfit(why)
        self.seen, self.buffer, self.rules, self.family = seen, buffer, rules, family
        columns = len(seen.columns)
        self.least = CELL_BYTES * columns
        self._count = bytes((columns,)) if columns < 0xFB else b"\xfc" + columns.to_bytes(2, "little")
        self._width = (len(seen.columns) + 7) // 8
        self._fields = tuple(map(field_of, seen.columns, self.schema.columns))
        self.kinds, self.kinds_off = self._empty(), self._empty()

    def decoder(self, kind: int, head: bytes, keys_off: bool) -> Decoder:
        """Make the decoder for an event of `kind` with these columns.

        Raises Unfit for an insert whose values are not known, ValueError for an invalid head.
        """
        made = (self.kinds_off if keys_off else self.kinds)[kind][1]
        if len(made) >= _PATTERNS:
            made.clear()
        if not head.startswith(self._count):
            raise ValueError("rows with another number of columns than their table")
        found = made[head] = self._make(kind, head, keys_off)
        return found

    def refused_value(
        self, kind: int, head: bytes, data: bytes, at: int, end: int
    ) -> tuple[str, dict[str, str | None]]:
        """Return the column of the first bad value in these rows, and the row's key in text form."""
        schema, lists = self.schema, self.with_bad_values(kind, head, data, at, end)
        row, place = next(iter(bad_values(lists)))
        keys = {schema.columns[i].name: (schema.columns[i].type, lists[i][row]) for i in schema.key_indexes}
        return schema.columns[place].name, {
            name: "(no value)" if isinstance(raw, Bad) else raw_text(type, raw) for name, (type, raw) in keys.items()
        }

    def with_bad_values(self, kind: int, head: bytes, data: bytes, at: int, end: int) -> list[list[Any]]:
        """Return the rows of an event by column, a Bad in place of each value that no target holds."""
        images = self._images(head)
        fill = _defaults(self.schema, images[0]) if ROW_EVENTS[kind] is Op.INSERT else {}
        lists: list[list[Any]] = [[] for _ in self.schema.columns]
        self._generate(kind, images, fill, lists, BAD)(data, at, end)
        return lists

    def _empty(self) -> dict[int, tuple[int, dict[bytes, Decoder]]]:
        count = len(self._count)
        return {kind: (count + self._width * (2 if op is Op.BEFORE else 1), {}) for kind, op in ROW_EVENTS.items()}

    def _make(self, kind: int, head: bytes, keys_off: bool) -> Decoder:
        op, images, schema = ROW_EVENTS[kind], self._images(head), self.schema
        if not any(map(any, images)):
            raise ValueError("rows without columns")  # of no bytes: nobody could say how many
        fill = _defaults(schema, images[0]) if op is Op.INSERT else {}
        if op is Op.BEFORE and not LOGS_COMPUTED[self.family]:
            _check_computed(schema, images[1])
        decode = self._generate(kind, images, fill, self.lists, STOP)
        ours = len(self.buffer.columns)
        carried = [
            tuple(
                present or place in fill or schema.columns[place].type is None
                for place, present in enumerate(image[:ours])
            )
            for image in images
        ]
        made = decode, op, self.buffer.shape(carried[0], keys_off), self.buffer.shape(carried[-1], keys_off)
        return self._finished(kind, head, keys_off, images, fill, made)

    def _finished(
        self,
        kind: int,
        head: bytes,
        keys_off: bool,
        images: list[list[bool]],
        fill: Mapping[int, Any],
        made: Decoder,
    ) -> Decoder:
        """Return the decoder to use; subclasses that decode in another way replace it.

        `images`: the present columns of each image, `fill`: values of absent ones.
        """
        return made

    def _images(self, head: bytes) -> list[list[bool]]:
        bitmaps = head[len(self._count) :]
        parts = [bitmaps[at : at + self._width] for at in range(0, len(bitmaps), self._width)]
        return [[bool(part[i // 8] >> i % 8 & 1) for i in range(len(self.seen.columns))] for part in parts]

    def _generate(
        self, kind: int, images: list[list[bool]], fill: Mapping[int, Any], lists: list[list[Any]], bad: Any
    ) -> Decode:
        """Generate a decoder. `bad`: the stand-in for values without one: STOP raises, BAD is put in their place."""
        is_partial = kind == b.PARTIAL_UPDATE
        generator = _Generator(self.seen, self.schema, self._fields, fill, lists, self.rules, is_partial)
        return generator.function(images, bad)


def _defaults(schema: TableSchema, present: Sequence[bool]) -> dict[int, Any]:
    """Return values of columns that an insert leaves out: constant defaults, NULL where there is none (K20)."""
    return {
        place: _default(column)
        for place, column in enumerate(schema.columns)
        if not present[place] and column.type is not None
    }


def _check_computed(schema: TableSchema, present: Sequence[bool]) -> None:
    for place, column in enumerate(schema.columns):
        if column.generated and column.type is not None and not present[place]:
            raise Unfit(f"an update leaves out column {column.name}, which the source computes{_REMEDY}")


def _default(column: Column) -> Any:
    missing = f"an insert leaves out column {column.name}"
    if column.generated:
        raise Unfit(f"{missing}, which the source computes{_REMEDY}")
    if column.default_is_expression:
        raise Unfit(f"{missing}, whose default is an expression, or cannot be read exactly{_REMEDY}")
    if not column.has_default or column.default is None:
        if not column.nullable:
            raise Unfit(f"{missing}, which has no default and is not nullable{_REMEDY}")
        return None
    assert column.type is not None
    try:
        return parse_text(column.type, column.default)
    except ValueError as error:
        raise Unfit(f"{missing}, whose default is not understood: {error}") from error


@dataclass(slots=True)
class _Generator:
    """Writes and compiles one decoder. `is_partial`: JSON columns of the second image may be differences to the first."""

    seen: TableMap
    schema: TableSchema
    fields: tuple[Field, ...]
    fill: Mapping[int, Any]
    lists: list[list[Any]]
    rules: ValueRules
    is_partial: bool = False
    _bound: dict[str, Any] = field(default_factory=dict)
    _difference_bits: dict[int, int] = field(default_factory=dict)
    _bad: Any = STOP
    _zeros: dict[str, int] = field(default_factory=dict)
    _of_dates: dict[str, Any] = field(default_factory=dict)

    def function(self, images: list[list[bool]], bad: Any) -> Decode:
        """Compile the function. `images`: the present columns of an image, or of a before and an after image."""
        body: list[str] = []
        self._bad = bad
        for place, image in enumerate(images):
            if self.is_partial and place == 1:
                body += self._options()
            body += self._image(image)
        used = set(_NAME.findall("\n".join(body)))  # every default of a parameter costs a little at every call
        every = environment() | self._of_dates
        bound = {name: value for name, value in every.items() if name in used} | self._bound
        lines = [
            f"def decode(data, p, end, {', '.join(f'{name}={name}' for name in bound)}):",
            "    images = 0",
            "    while p < end:",
            *(f"        {line}" for line in body),
            f"        images += {len(images)}",
            "    if p != end: raise ValueError(f'rows end {p - end} bytes too far')",
            "    return images",
        ]
        exec(compile("\n".join(lines), f"<decoder of {self.schema.id}>", "exec"), bound)
        made: Decode = bound["decode"]
        return made

    def _options(self) -> list[str]:
        """Write code for what stands before the second image of a partial update.

        Options, then a bit for each JSON column of the table, in the image or not, that says whether it is differences
        to the first image.
        """
        documents = [place for place, column in enumerate(self.seen.columns) if column.type == JSON]
        self._difference_bits = {place: 1 << bit for bit, place in enumerate(documents)}
        width = (len(documents) + 7) // 8
        return [
            f"if data[p] > {OPTION}: raise ValueError(f'unknown options {{data[p]}} of a row')",
            f"j = from_bytes(data[p + 1:p + {1 + width}], 'little') if data[p] else 0",
            f"p += {1 + width} if data[p] else 1",
        ]

    def _image(self, present: list[bool]) -> list[str]:
        """Write code for a row image: its null bitmap (a bit per present column, the rest of the last byte is noise),
        its values.
        """
        places = [place for place, there in enumerate(present) if there]
        width = (len(places) + 7) // 8
        bits = {place: bit for bit, place in enumerate(places) if self.seen.columns[place].nullable}
        mask = sum(1 << bit for bit in bits.values())
        absent = [i for i, there in enumerate(present) if not there and self._is_wanted(i)]
        lines = [f"{self._append(i)}({self._constant(i)})" for i in absent]
        if not places:
            return lines
        if not mask:
            return [*lines, f"p += {width}", *self._values(places, {})]
        return [
            *lines,
            f"n = ({_bitmap(width)}) & {mask}",
            f"p += {width}",
            "if n:",
            *_indented(self._values(places, bits)),
            "else:",
            *_indented(self._values(places, {})),
        ]

    def _constant(self, place: int) -> str:
        if self.fill.get(place) is None:
            return "None"
        return self._bind(f"fill{place}", self.fill[place])

    def _append(self, place: int) -> str:
        return self._bind(f"a{place}", self.lists[place].append)

    def _bind(self, name: str, value: Any) -> str:
        self._bound[name] = value
        return name

    def _values(self, places: list[int], null_bits: Mapping[int, int]) -> list[str]:
        """Write code for the values of one image; `null_bits` are tested."""
        lines: list[str] = []
        run: list[int] = []
        for place in places:
            if place in null_bits:
                lines += self._run(run)
                run = []
                lines += [
                    f"if n & {1 << null_bits[place]}: {self._append(place)}(None)",
                    "else:",
                    *_indented(self._run([place])),
                ]
            else:
                run.append(place)
                if self.fields[place].variable:
                    lines += self._run(run)
                    run = []
        return lines + self._run(run)

    def _run(self, places: list[int]) -> list[str]:
        """Write code for columns whose fixed bytes are neighbours: one unpack, then their values; only the last may be
        variable.
        """
        if not places:
            return []
        codes = "".join(self._struct_code(place) for place in places)
        size = struct.calcsize("<" + codes)
        names = [name for place in places for name in self._names(place)]
        lines = [self._unpack(codes, names), f"p += {size}"]
        for place in places:
            lines += self._value(place)
        return lines

    def _struct_code(self, place: int) -> str:
        one = self.fields[place]
        if self._is_wanted(place) or one.variable:
            return one.code
        return f"{struct.calcsize('<' + one.code)}x"

    def _is_wanted(self, place: int) -> bool:
        return self.schema.columns[place].type is not None

    def _names(self, place: int) -> list[str]:
        one = self.fields[place]
        if not self._is_wanted(place) and not one.variable:
            return []
        count = len(struct.unpack("<" + one.code, bytes(struct.calcsize("<" + one.code))))
        return [f"{letter}{place}_" for letter in "xy"[:count]]

    def _unpack(self, codes: str, names: list[str]) -> str:
        if not names:
            return "pass"
        if codes == "B":
            return f"{names[0]} = data[p]"
        unpack = self._bind("unpack_" + codes, struct.Struct("<" + codes).unpack_from)
        return f"{', '.join(names)}{',' if len(names) == 1 else ''} = {unpack}(data, p)"

    def _value(self, place: int) -> list[str]:
        one, names, lines = self.fields[place], self._names(place), []
        a, b = (*names, "", "")[:2]
        if one.variable:
            length = a if len(names) == 1 else f"({a} | {b} << 16)"
            if not self._is_wanted(place):
                return [f"p += {length}"]
            lines += [f"e = p + {length}", "v = data[p:e]", "p = e"]
            a = "v"
        if not self._is_wanted(place):
            return lines
        bound = {"a": a, "b": b, "i": place}
        for name, value in one.names.items():
            self._bind(f"{name}{place}", value)
        for name, make in one.by_zero.items():
            self._bind(f"{name}{place}", make(self._bad))
        lines += [self._for_column(line.format(**bound), place) for line in one.lines]
        value = self._for_column(one.value.format(**bound), place)
        if place in self._difference_bits:
            before = self._bind(f"c{place}", self.lists[place])
            value = f"patched({before}[-1], {a}) if j & {self._difference_bits[place]} else {value}"
        return [*lines, f"{self._append(place)}({value})"]

    def _for_column(self, code: str, place: int) -> str:
        """Bind the job's choice for invalid dates into a column's code. Columns of one choice share their cache."""
        column = self.schema.columns[place]
        if column.type is None or column.type.kind not in KINDS:
            return code
        wanted, in_key = choice(self.rules, self.schema, column.name), column.name in self.schema.primary_key
        kind = f"{wanted}/{column.type.kind}/{in_key}" if wanted not in (STOP_CHOICE, NULL) else wanted
        if kind not in self._zeros:
            number = len(self._zeros)
            self._zeros[kind] = number
            made = of_dates(zero_of(column, wanted, in_key, self._bad))
            self._of_dates |= {f"{name}_{number}": value for name, value in made.items()}
        return OF_DATES.sub(lambda found: f"{found[0]}_{self._zeros[kind]}", code)


def _bitmap(width: int) -> str:
    if width == 1:
        return "data[p]"
    if width == 2:
        return "data[p] | data[p + 1] << 8"
    return f"from_bytes(data[p:p + {width}], 'little')"


def _indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]
