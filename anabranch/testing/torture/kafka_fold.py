"""The rows that a Kafka's messages tell (format `plain`), folded message by message, and refused where they cannot be right.

Nothing of the product takes part: what a message has is what docs/reference/kafka-messages.md says. A change that is told
twice, left out, out of order or in another partition than its key's contradicts what is there: Contradiction. What does not
live here: reading topics (kafka_snapshots.py), which states are right (check.py).
"""

from __future__ import annotations

import base64
import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from anabranch.testing.torture.mysql_target_values import as_known
from anabranch.testing.torture.tables import Column
from anabranch.testing.torture.values import Kind, copied

ZEROS = re.compile(r"(\.\d*?)0+(?=$|[+-])")  # at the end of a fraction
SHOWN = 300  # characters of a message


class Contradiction(Exception):
    """A message contradicts those before it."""


@dataclass(frozen=True, slots=True)
class Told:
    """One message. `copies`: how many of its kind a transaction has to have, one for each partition; 1 for all others."""

    table: str
    partition: int
    offset: int
    key: bytes | None
    value: Mapping[str, Any] | None
    sequence: int
    copies: int = 1

    @property
    def op(self) -> str:
        return "tombstone" if self.value is None else str(self.value["op"])

    @property
    def place(self) -> tuple[int, int]:
        """Return where it stands in its transaction; a tombstone has no number of its own."""
        number = -1 if self.value is None else int(self.value["ordinal"])
        return number, {"delete": 0, "tombstone": 1}.get(self.op, 2)

    def __str__(self) -> str:
        said = json.dumps(self.value, ensure_ascii=False)[:SHOWN]
        return (
            f"transaction {self.sequence}, offset {self.offset} of partition {self.partition} of {self.table}: key"
            f" {self.key!r}, {said}"
        )


def read_value(value: bytes | None) -> Mapping[str, Any] | None:
    """Return a message's value, its numbers as they are written."""
    found: Mapping[str, Any] | None = None if value is None else json.loads(value, parse_int=str, parse_float=str)
    return found


@dataclass
class Fold:
    """One table's rows. A table with a key has one line by key, another one lines with their number."""

    name: str
    columns: Sequence[Column]
    is_keyed: bool = field(default=False, init=False)
    _rows: dict[bytes, bytes] = field(default_factory=dict, init=False)
    _lines: Counter[bytes] = field(default_factory=Counter, init=False)
    _where: dict[bytes, int] = field(default_factory=dict, init=False)  # partition of each key, or line without one
    _seen: bytes | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._shown = [(column.name, shown(column.of)) for column in self.columns]

    @property
    def contents(self) -> bytes:
        """Return the rows as lines of COPY; the same object as long as nothing was told."""
        if self._seen is None:
            lines = [*self._rows.values(), *self._lines.elements()]
            self._seen = b"".join(line + b"\n" for line in sorted(lines))
        return self._seen

    def take(self, told: Told) -> None:
        """Take one message, in the order of its transaction. Raises Contradiction."""
        self._seen = None
        if told.op == "truncate":
            self._rows.clear()
            self._lines.clear()
            return
        if told.op not in ("read", "insert", "update", "delete", "tombstone"):
            raise Contradiction(f"no such operation: {told}")
        try:
            (self._take_row if told.key is None else self._take_keyed)(told)
        except (KeyError, ValueError, TypeError, AttributeError) as error:
            raise Contradiction(f"it is none of the format ({error!r}): {told}") from error

    def _take_keyed(self, told: Told) -> None:
        assert told.key is not None, "so it was asked"
        self._require_place(told.key, told)
        before, there = self._line(told, "before"), self._rows.get(told.key)
        if told.op == "tombstone":
            if there is not None:
                raise Contradiction(f"a tombstone of a row that is there: {told}")
            return
        if before != there:
            raise Contradiction(f"the row before it is {there!r}, and not as told: {told}")
        after = self._line(told, "after")
        if after is None:
            del self._rows[told.key]
        else:
            self._rows[told.key] = after

    def _take_row(self, told: Told) -> None:
        for image, weight in (("before", -1), ("after", 1)):
            line = self._line(told, image)
            if line is None:
                continue
            if told.op != "update":
                self._require_place(line, told)
            self._lines[line] += weight
            if self._lines[line] < 0:
                raise Contradiction(f"a row goes that is not there: {told}")

    def _require_place(self, key: bytes, told: Told) -> None:
        if self._where.setdefault(key, told.partition) != told.partition:
            raise Contradiction(f"it was in partition {self._where[key]} before: {told}")

    def _line(self, told: Told, image: str) -> bytes | None:
        """Return an image as a line of COPY; None for none."""
        found = told.value[image] if told.value is not None else None
        if found is None:
            return None
        if found.keys() != {column.name for column in self.columns}:
            raise Contradiction(f"its columns are not those of the table: {told}")
        return "\t".join(
            copied(None if found[name] is None else show(found[name])) for name, show in self._shown
        ).encode()


def shown(kind: Kind) -> Callable[[str], str]:
    """Return what makes the checker's text of a message's value."""
    at = kind.at_target
    if at in ("real", "double precision", "jsonb"):
        return as_known(kind)
    if at == "bytea":
        return lambda value: "\\x" + base64.b64decode(value, validate=True).hex()
    if at.startswith(("timestamp", "time ")) or at == "interval":
        return lambda value: ZEROS.sub(r"\1", value).replace(".+", "+").removesuffix(".")
    return str
