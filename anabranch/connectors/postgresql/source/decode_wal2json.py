"""Messages of wal2json, format 2, for the assembler. Numbers stay the text that they are.

https://github.com/eulerto/wal2json#readme
What does not live here: transactions and chunks (assemble.py), rows and definitions (named_rows.py), what the plugin is asked
for (decoders.py).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from anabranch.connectors.postgresql.source.assemble import Assembler
from anabranch.connectors.postgresql.source.heartbeat import written_at
from anabranch.connectors.postgresql.source.named_rows import Cell, NamedRows
from anabranch.connectors.postgresql.source.positions import Place
from anabranch.contracts import Select
from anabranch.model.ids import TableId
from anabranch.model.markers import MARKERS
from anabranch.rows.chunk import Op

_OPS = {"I": Op.INSERT, "U": Op.AFTER, "D": Op.DELETE}
_BYTEA = "17"
_NUMBERS = {"700": "real", "701": "double precision", "1700": "numeric"}
AS_IT_IS = "surrogateescape"  # bytes that are no UTF-8 are looked at with the values of their column
_START, _MICROSECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)


def _refuse(constant: str) -> None:
    raise ValueError(f"a number that is none of JSON's: {constant}")


_DECODER = json.JSONDecoder(parse_float=str, parse_int=str, parse_constant=_refuse)


class _Ambiguous(Exception):
    """A null that may be a value."""


class Wal2jsonAssembler(Assembler):
    """Assembler of wal2json's messages. `tells_numbers`: numbers come as text, so that NaN and infinity are no nulls."""

    def __init__(
        self, place: Place, select: Select, tells_numbers: bool, leave_out: frozenset[str] = frozenset()
    ) -> None:
        super().__init__(place, leave_out=leave_out)
        self._rows = NamedRows(select, self._buffer, self._park, leaves_out=True)
        self._tells_numbers = tells_numbers
        self._actions: dict[str, Callable[[dict[str, Any], int], None]] = {"B": self._begins, "C": self._ends}
        self._actions |= {"M": self._written, "T": self._empties, **dict.fromkeys(_OPS, self._changes)}

    def reselect(self) -> None:
        self._rows.reselect()

    def take(self, message: bytes, lsn: int = 0) -> None:
        try:
            item = _DECODER.decode(message.decode(errors=AS_IT_IS))
            action = self._actions.get(item["action"])
            if action is None:
                raise ValueError(f"a message of unknown kind {item['action']!r}")
            action(item, lsn)
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            raise self._unknown(f"a message that cannot be read: {error}") from error

    def _begins(self, item: dict[str, Any], lsn: int) -> None:
        self._begin(int(item["xid"]))

    def _ends(self, item: dict[str, Any], lsn: int) -> None:
        if int(item["xid"]) != self._xid:
            raise ValueError("the end of a transaction that did not begin")
        self._commit(lsn, (datetime.fromisoformat(item["timestamp"]) - _START) // _MICROSECOND)

    def _written(self, item: dict[str, Any], lsn: int) -> None:
        """Take a message that a session wrote into the log: only our own was asked for."""
        if not item["transactional"]:
            self._beat(lsn, written_at(item["content"].encode()))

    def _empties(self, item: dict[str, Any], lsn: int) -> None:
        self._require_open()
        table = _table(item)
        if self._rows.follows(table) and not self._is_left_out:
            self._truncate(table)

    def _changes(self, item: dict[str, Any], lsn: int) -> None:
        self._require_open()
        table = _table(item)
        if table in MARKERS:
            self._marked(_job(item))
        if self._is_left_out or not self._rows.follows(table):
            return
        try:
            old, new = (self._cells(item.get(part)) for part in ("identity", "columns"))
        except _Ambiguous as ambiguous:
            self._rows.park(table, str(ambiguous))
            return
        op = _OPS[item["action"]]
        if (new is None) is not (op is Op.DELETE):
            raise ValueError("a change without its row")
        if op is Op.INSERT:
            old = None
        self._added(*self._rows.add(op, table, old, new, self._builder.transaction, self._ordinal))

    def _cells(self, columns: list[dict[str, Any]] | None) -> list[Cell] | None:
        if columns is None:
            return None
        return [Cell(one["name"], one["type"], self._text(one)) for one in columns]

    def _text(self, one: dict[str, Any]) -> bytes | None:
        value = one["value"]
        if value is None:
            if not self._tells_numbers and (number := _NUMBERS.get(one["typeoid"])):
                why = f"column {one['name']}, {number}, is NULL, NaN or infinite, and this wal2json does not tell which"
                raise _Ambiguous(f"{why}: a newer one does (numeric-data-types-as-string)")
            return None
        if isinstance(value, bool):
            return b"t" if value else b"f"
        text: bytes = value.encode(errors=AS_IT_IS)
        return b"\\x" + text if one["typeoid"] == _BYTEA else text

    def _require_open(self) -> None:
        if self._xid is None:
            raise ValueError("a change outside a transaction")


def _job(item: dict[str, Any]) -> str:
    """Return the job that a row of a marker table names."""
    cells = [*(item.get("identity") or ()), *(item.get("columns") or ())]
    return next((str(one["value"]) for one in cells if one["name"] == "job"), "")


def _table(item: dict[str, Any]) -> TableId:
    schema, name = item["schema"], item["table"]
    if not (isinstance(schema, str) and isinstance(name, str)):
        raise ValueError("a table without a name")
    return TableId(schema, name)
