"""Conversion of marked bytes to lines: coded text, escapes, NULL, dates that are none, floats; a whole block at once.

`expressions.py` says what the marks are; the result is rows/lines.py's form, byte for byte what the log gives for the
same values. What does not live here: SQL, the socket.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.connectors.mysql.source.coded import text_form
from anabranch.connectors.mysql.source.expressions import CODED, DATE, FLOAT32, FLOAT64, NULL, ROW, SEPARATOR, code_of
from anabranch.connectors.mysql.source.values import ZERO_DATE_HINT
from anabranch.contracts import ValueRules
from anabranch.errors import ValueRefused
from anabranch.model.datatype import Kind
from anabranch.model.ids import TableId
from anabranch.model.schema import TableSchema
from anabranch.rows.left_out import LeftOut
from anabranch.rows.left_out import block as left_out_block
from anabranch.rows.lines import parse_line, unescape
from anabranch.rows.refused import LEAVE_OUT, readable, refused
from anabranch.rows.zero_dates import NULL as NULL_CHOICE
from anabranch.rows.zero_dates import STOP, choice, text_of

BLOCK = 1_000_000  # bytes of lines that are finished together
_ESCAPES = ((b"\\", b"\\\\"), (b"\t", b"\\t"), (b"\n", b"\\n"), (b"\r", b"\\r"))
_FRAMES = bytes.maketrans(SEPARATOR + ROW, b"\t\n")
_MARKS = DATE + FLOAT32 + FLOAT64
_CODED = re.compile(CODED + rb"([a-z0-9]+):([0-9A-F]*)")
# A zero in year, month or day, or (ALLOW_INVALID_DATES) a day that the month does not have:
# https://dev.mysql.com/doc/refman/8.0/en/sql-mode.html#sqlmode_allow_invalid_dates
_NO_LEAP_YEAR = rb"(?:..(?:[02468][1235679]|[13579][01345789])|(?:[02468][1235679]|[13579][01345789])00)"
_NO_DATE = re.compile(
    DATE + rb"(?:0000|....-00|....-..-00|....-02-3|....-(?:0[469]|11)-31|" + _NO_LEAP_YEAR + rb"-02-29)[^\xfd\xff]*"
)
_FLOATS = (
    (Kind.FLOAT32, FLOAT32, np.float32, re.compile(FLOAT32 + rb"([^\xfd-\xff]+)")),
    (Kind.FLOAT64, FLOAT64, np.float64, re.compile(FLOAT64 + rb"([^\xfd-\xff]+)")),
)
_KINDS_OF_DATES = (Kind.DATE, Kind.TIMESTAMP, Kind.INSTANT)


class _Unfinished(Exception):
    """A value of a row that no target holds: its column, words for it, the row's key, and what to do."""

    def __init__(self, column: str, what: str, key: Mapping[str, str | None], hint: str) -> None:
        super().__init__(what)
        self.column, self.what, self.key, self.hint = column, what, key, hint

    def refusal(self, table: TableId) -> ValueRefused:
        return refused(table, self.column, self.key, self.what, self.hint)


class Finisher:
    """Makes lines of one table's rows. Those that have no line, where the job wants that (ValueRules.carries), wait in
    `left_out`; `blocks` passes them on."""

    def __init__(self, table: TableSchema, columns: Sequence[str], rules: ValueRules) -> None:
        self._table, self._columns, self._rules = table, columns, rules
        self.left_out: list[LeftOut] = []
        kinds = {column.type.kind for name in columns if (column := table.column(name)).type}
        self._has_coded = any(code_of(column) for name in columns if (column := table.column(name)).type)
        self._zero = {
            name: choice(rules, table, name)
            for name in columns
            if (column := table.column(name)).type and column.type.kind in _KINDS_OF_DATES
        }
        self._has_dates = not kinds.isdisjoint(_KINDS_OF_DATES)
        self._floats = [entry for entry in _FLOATS if entry[0] in kinds]

    @property
    def is_plain(self) -> bool:
        """True if only escapes, NULLs and dates have to be finished."""
        return not self._has_coded and not self._floats

    def blocks(self, rows: Iterable[bytes | Sequence[bytes]]) -> Iterator[bytes]:
        """Yield blocks of whole lines, of about 1 MB each, and blocks of rows that were left out. Finished lines are
        passed on between them.
        """
        waiting: list[bytes] = []
        done: list[bytes] = []
        size = 0
        for some in rows:
            if isinstance(some, bytes):
                if waiting:
                    done.append(self.finish(waiting))
                    waiting = []
                done.append(some)
                size += len(some)
            else:
                waiting += some
                size += sum(map(len, some))
            if size >= BLOCK:
                yield from self._block(done, waiting)
                waiting, done, size = [], [], 0
        if size or waiting:
            yield from self._block(done, waiting)

    def _block(self, done: Sequence[bytes], waiting: Sequence[bytes]) -> Iterator[bytes]:
        if some := b"".join(done) + self.finish(waiting):
            yield some
        if self.left_out:
            yield left_out_block(self.left_out)
            self.left_out.clear()

    def finish(self, rows: Sequence[bytes]) -> bytes:
        """Return the lines of rows. Raises ValueRefused, or notes which row it is of."""
        try:
            return self._finished(rows)
        except _Unfinished as found:
            if not self._rules.carries:
                raise found.refusal(self._table.id) from found.__cause__
        if len(rows) == 1:
            self.left_out.append(self._without(rows[0]))
            return b""
        middle = len(rows) // 2
        return self.finish(rows[:middle]) + self.finish(rows[middle:])

    def _without(self, row: bytes) -> LeftOut:
        """Return a row without the values that have no text form."""
        cells, unconverted = row.split(SEPARATOR), dict[str, str]()
        while True:
            try:
                line = self._finished([SEPARATOR.join(cells)])
                break
            except _Unfinished as found:
                unconverted[found.column] = found.what
                cells[self._columns.index(found.column)] = NULL
        values = zip(self._columns, parse_line(line[:-1]), strict=True)
        return LeftOut({name: value for name, value in values if name not in unconverted}, unconverted)

    def _finished(self, rows: Sequence[bytes]) -> bytes:
        block = ROW.join([*rows, b""])
        if self._has_coded and CODED in block:
            block = self._decoded(block)
        for raw, escaped in _ESCAPES:
            block = block.replace(raw, escaped)
        if b"\0" in block and (self._rules.nul == "strip" or not self._rules.keeps_nul):
            block = self._without_nul(block)
        if self._has_dates:
            block = self._with_real_dates(block)
        for _, mark, width, pattern in self._floats:
            block = _with_shortest(block, mark, width, pattern)
        return block.translate(_FRAMES, _MARKS).replace(NULL, b"\\N")

    def _decoded(self, block: bytes) -> bytes:
        """Decode text that the server did not convert, or not reliably."""

        def text(found: re.Match[bytes]) -> bytes:
            try:
                return text_form(found[1].decode(), self._rules)(bytes.fromhex(found[2].decode()))
            except ValueError as error:
                raise self._refusal(block, found.start(), str(error), LEAVE_OUT, is_escaped=False) from error

        return _CODED.sub(text, block)

    def _without_nul(self, block: bytes) -> bytes:
        if self._rules.nul != "strip":
            hint = 'correct the row, or set [types] nul = "strip"'
            raise self._refusal(block, block.index(b"\0"), "a zero character in text", hint)
        return block.replace(b"\0", b"")

    def _with_real_dates(self, block: bytes) -> bytes:
        if set(self._zero.values()) == {NULL_CHOICE}:
            return _NO_DATE.sub(NULL, block)

        def instead(found: re.Match[bytes]) -> bytes:
            name = self._column_at(block, found.start())
            choice = self._zero[name]
            is_partly = name in self._table.primary_key and found[0][1:].strip(b"0-: .+") != b""
            if choice == STOP or is_partly:
                value = found[0][1:].decode()
                raise self._refusal(
                    block, found.start(), f"the date {value!r}, which is not a valid date", ZERO_DATE_HINT
                )
            type = self._table.column(name).type
            assert type is not None
            return NULL if choice == NULL_CHOICE else DATE + text_of(type, choice).encode()

        return _NO_DATE.sub(instead, block)

    def _column_at(self, block: bytes, at: int) -> str:
        return self._columns[block.count(SEPARATOR, block.rfind(ROW, 0, at) + 1, at)]

    def _refusal(self, block: bytes, at: int, what: str, hint: str, is_escaped: bool = True) -> _Unfinished:
        """Name table, row and column of the value at `at`."""
        start = block.rfind(ROW, 0, at) + 1
        column = self._column_at(block, at)
        row = block[start : block.index(ROW, at)].translate(None, _MARKS).split(SEPARATOR)
        named = dict(zip(self._columns, row, strict=True))
        read = unescape if is_escaped else bytes
        key = {name: self._readable(read(named[name])) for name in self._table.primary_key if name in named}
        return _Unfinished(column, what, key, hint)

    def _readable(self, value: bytes) -> str:
        """Return a key's value as people can read it; it may be coded still, or be the value that is refused."""
        found = _CODED.fullmatch(value)
        if found is None:
            return readable(value)
        stored = bytes.fromhex(found[2].decode())
        try:
            return readable(text_form(found[1].decode(), self._rules)(stored))
        except ValueError:
            return readable(stored)


def _with_shortest(block: bytes, mark: bytes, width: type, pattern: re.Pattern[bytes]) -> bytes:
    """Write floats as the trail prints them: the shortest digits that read back equal in their own width."""
    found = pattern.findall(block)
    if not found:
        return block
    numbers = pa.array(np.array(found).astype(np.float64).astype(width))
    texts = iter(pc.cast(numbers, pa.string()).to_pylist())
    return pattern.sub(lambda _: next(texts).encode(), block)
