"""Read what a PostgreSQL committed, row by row and in order, from the messages of pgoutput.

Slow and plain on purpose: nothing of the product takes part. What does not live here: the slot (postgresql_source.py), what
the rows come to (rows.py). https://www.postgresql.org/docs/current/protocol-logicalrep-message-formats.html
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from anabranch.testing.torture.rows import RowChange
from anabranch.testing.torture.tables import LEDGER
from anabranch.testing.torture.values import Text

PLUGIN = "pgoutput"
_TEXT, _NULL, _UNCHANGED = b"tnu"
_IN_KEY = 1


class NotRead(Exception):
    """A log that is not as expected. Never the product's fault."""


@dataclass
class Message:
    """One of pgoutput's, from a place on."""

    data: bytes
    at: int = 1

    def number(self, code: str) -> int:
        (value,) = struct.unpack_from(f">{code}", self.data, self.at)
        self.at += struct.calcsize(f">{code}")
        return int(value)

    def text(self) -> str:
        end = self.data.index(b"\0", self.at)
        found, self.at = self.data[self.at : end].decode(), end + 1
        return found

    def kind(self) -> str:
        self.at += 1
        return chr(self.data[self.at - 1])

    def value(self) -> Text:
        size = self.number("I")
        self.at += size
        return self.data[self.at - size : self.at].decode()


@dataclass(frozen=True)
class Relation:
    table: str
    columns: tuple[tuple[str, bool], ...]  # with: is it in the key?


@dataclass
class Reading:
    """Reads one slot's messages, from its beginning on. `history`: whose messages say numbers."""

    history: str = ""
    relations: dict[int, Relation] = field(default_factory=dict)

    def transactions(self, messages: Iterable[bytes]) -> Iterator[tuple[int, list[RowChange]]]:
        """The number that each wrote into the ledger, and its other changes. Those that wrote nothing are left out."""
        changes: list[RowChange] = []
        said: list[int] = []
        for data in messages:
            message = Message(data)
            if data[:1] == b"C":
                numbers = said + [int((one.new or {})["n"] or 0) for one in changes if one.table == LEDGER]
                if len(numbers) != 1 and changes:
                    raise NotRead(f"a transaction with {len(changes)} changes has the numbers {numbers}")
                yield from [(number, [one for one in changes if one.table != LEDGER]) for number in numbers]
                changes, said = [], []
            elif data[:1] == b"M":
                said += self._said(message)
            elif data[:1] == b"R":
                self._relation(message)
            elif data[:1] == b"T":
                changes += self._truncates(message)
            elif data[:1] in (b"I", b"U", b"D"):
                changes.append(self._change(message))
            elif data[:1] not in (b"B", b"O", b"Y", b"A"):  # 18.4 was seen to tell of an abort (A) without any stream
                raise NotRead(f"a message {data[:1]!r}")

    def _said(self, message: Message) -> list[int]:
        """Return the number that a transaction says of itself, where it writes none into the ledger (bare.py)."""
        _, _, prefix = message.number("B"), message.number("Q"), message.text()
        return [int(message.value() or 0)] if prefix == self.history else []

    def _relation(self, message: Message) -> None:
        oid, _, table, _ = message.number("I"), message.text(), message.text(), message.kind()
        columns = []
        for _ in range(message.number("H")):
            flags, name, _, _ = message.number("B"), message.text(), message.number("I"), message.number("i")
            columns.append((name, bool(flags & _IN_KEY)))
        self.relations[oid] = Relation(table, tuple(columns))

    def _truncates(self, message: Message) -> list[RowChange]:
        number, _ = message.number("I"), message.number("B")
        return [RowChange(self.relations[message.number("I")].table) for _ in range(number)]

    def _change(self, message: Message) -> RowChange:
        relation = self.relations[message.number("I")]
        old: Mapping[str, Text] | None = None
        mark = message.kind()
        if mark in "KO":
            old = _tuple(message, relation, only_key=mark == "K")
            if message.data[:1] == b"D":
                return RowChange(relation.table, old)
            mark = message.kind()
        new = _tuple(message, relation)
        if message.data[:1] == b"U" and old is None:
            old = {name: new[name] for name, is_key in relation.columns if is_key}
        return RowChange(relation.table, old, new)


def _tuple(message: Message, relation: Relation, only_key: bool = False) -> dict[str, Text]:
    """Return the texts by column, without a large value that was not changed."""
    if message.number("H") != len(relation.columns):
        raise NotRead(f"a row of {relation.table} with other columns")
    found: dict[str, Text] = {}
    for name, is_key in relation.columns:
        tag = ord(message.kind())
        value = message.value() if tag == _TEXT else None
        if tag not in (_TEXT, _NULL, _UNCHANGED):
            raise NotRead(f"a value {chr(tag)} of {relation.table}")
        if tag != _UNCHANGED and (is_key or not only_key):
            found[name] = value
    return found
