"""Keys of which the target may hold something else for a while, as it says itself in the same snapshot: rows that an intruder
wrote (intruder.py), rows that are set aside (setting_aside.py). All other rows of their tables are judged as ever.

Of a key that was written to, the target holds what the intruder left while the source has not touched it, and the source's row
once it has. Two things may keep what the intruder left beyond that: an UPDATE that sets what is there is not in the log, and
what comes and goes in one epoch meets nobody. What does not live here: where the states come from (check.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from anabranch.testing.torture.history import Statement
from anabranch.testing.torture.model import Model
from anabranch.testing.torture.rows import Row, RowChange, TableRows
from anabranch.testing.torture.tables import Schema, Table
from anabranch.testing.torture.values import copied

INTRUDER, ASIDE = (
    "intruder",
    "aside",
)  # relations beside a history's tables: keys that were written to, or are set aside
UPDATED, DELETED, INSERTED = "updated", "deleted", "inserted"
MISSING, EXISTS = "missing", "exists"  # kinds of conflicts, as they are noted
KINDS = {DELETED: MISSING, INSERTED: EXISTS}
NONE = b"\\N"

Key = tuple[bytes, ...]  # fields as COPY writes them


@dataclass(frozen=True, slots=True)
class Touch:
    """A key of a table. `did`: what the intruder did to it, "" for one that is set aside. `left`: the row that it left, as a
    line of COPY; `commits`: rows of the ledger at that moment; `is_mending`: the key is being made equal again."""

    table: str
    key: Key
    did: str = ""
    left: bytes | None = None
    commits: int = 0
    is_mending: bool = False


@dataclass(frozen=True, slots=True)
class Noted:
    """A conflict that the job has settled: the key is that of the row which was missing or there."""

    table: str
    kind: str
    decision: str
    key: Key

    def __str__(self) -> str:
        return f"{self.kind} {self.decision} {self.table} {b' '.join(self.key).decode(errors='replace')}"


def touches(more: Mapping[str, bytes]) -> list[Touch]:
    """Return the exempt keys that one observation shows."""
    aside = (Touch(f[0].decode(), _key(f[1:3])) for f in _fields(more.get(ASIDE, b"")))
    return [*aside, *(_touch(fields) for fields in _fields(more.get(INTRUDER, b"")))]


def _fields(lines: bytes) -> list[list[bytes]]:
    return [line.split(b"\t") for line in lines.splitlines()]


def _touch(fields: Sequence[bytes]) -> Touch:
    table, _, _, did, commits, mends, left = fields
    line = None if left == NONE else bytes.fromhex(left.decode()[3:])  # behind \\x
    return Touch(table.decode(), _key(fields[1:3]), did.decode(), line, int(commits), mends == b"t")


def _key(fields: Sequence[bytes]) -> Key:
    return tuple(field for field in fields if field != NONE)


def key_of(table: Table, line: bytes) -> Key:
    fields = line.split(b"\t")
    return tuple(fields[table.place(name)] for name in table.key)


# --- what the source did ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Commit:
    """The effect of a committed transaction: its statements that succeeded, with how many rows each affected; or the rows that
    the log says it changed. `truncates`: tables."""

    statements: Sequence[tuple[Statement, int]] = ()
    checks: bool = True
    truncates: frozenset[str] = frozenset()
    changes: Sequence[RowChange] | None = None

    def carry_out(self, model: Model) -> None:
        """Raises Disagreement, NoSuchRow."""
        if self.changes is None:
            model.replay(self.statements, self.checks)
        else:
            model.rows.follow(self.changes)
            model.rows.settle()


@dataclass(frozen=True, slots=True)
class State:
    """Rows by key, the number of each (it keeps it under another key), and the keys that were written to on the way there."""

    rows: Mapping[Key, Row]
    numbers: Mapping[Key, int]
    written: frozenset[Key]


@dataclass
class Story:
    """The source's rows by key after each commit, from none on, and the keys that each wrote to on its way."""

    schema: Schema
    family: str
    commits: Sequence[Commit]

    def __post_init__(self) -> None:
        self._known: dict[str, list[State]] = {}

    def at(self, name: str) -> list[State]:
        if name not in self._known:
            model, table = Model(self.schema, self.family), self.schema[name]
            spy = _Spy(table, model.rows[name])
            found = [spy.state()]
            for commit in self.commits:
                commit.carry_out(model)
                found.append(spy.state())
            self._known[name] = found
        return self._known[name]

    def truncated(self, table: str, since: int, upto: int) -> bool:
        return any(table in commit.truncates for commit in self.commits[since:upto])

    def allowed(self, touch: Touch, since: int, place: int) -> set[bytes | None]:
        """Return what the key may hold after `place` commits, if it was written to after `since` of them."""
        states = self.at(touch.table)[since : place + 1]
        rows = [state.rows.get(touch.key) for state in states]
        now = _line(rows[-1]) if rows[-1] is not None else None
        if touch.is_mending:
            return {now, touch.left}
        empties = self.truncated(touch.table, since, place)
        if not empties and not any(touch.key in state.written for state in states[1:]):
            return {touch.left}
        if not empties and all(
            row == rows[0] for row in rows
        ):  # what is set again, or came and went in one transaction
            return {touch.left, now}
        return {now, touch.left} if rows[0] is None and rows[-1] is None else {now}

    def must_be_noted(self, touch: Touch, first: int, last: int) -> bool:
        """Return whether the stream must have seen the difference. `first`, `last`: commits behind which it was written."""
        if touch.did not in KINDS or self.truncated(touch.table, first, len(self.commits)):
            return False
        rows = [state.rows.get(touch.key) for state in self.at(touch.table)[last:]]
        if touch.did == DELETED:
            return any(row != rows[0] for row in rows)
        return rows[-1] is not None

    def later_keys(self, touch: Touch, last: int) -> set[Key]:
        """Return the other keys to which the source moved the row that the touched key had behind `last` commits."""
        states = self.at(touch.table)[last:]
        number = states[0].numbers.get(touch.key)
        return {key for state in states[1:] for key, one in state.numbers.items() if one == number} - {touch.key}


class _Spy:
    """Sees which keys are written to."""

    def __init__(self, table: Table, rows: TableRows) -> None:
        self._places = [table.place(name) for name in table.key]
        self._rows, self._written = rows, set[Key]()
        self._put = rows.put
        rows.put = self._seen  # type: ignore[method-assign]  # of this one only

    def state(self) -> State:
        """Now, with what was written to since the last one."""
        written, self._written = self._written, set()
        rows = {self._key(row): (number, row) for number, row in self._rows.rows.items()}
        numbers = {key: number for key, (number, _) in rows.items()}
        return State({key: row for key, (_, row) in rows.items()}, numbers, frozenset(written))

    def _seen(self, number: int, row: Row | None) -> None:
        self._written |= {self._key(one) for one in (self._rows.rows.get(number), row) if one is not None}
        self._put(number, row)

    def _key(self, row: Row) -> Key:
        return tuple(_field(row[place]) for place in self._places)


def _field(text: str | None) -> bytes:
    return copied(text).encode()


def _line(row: Row) -> bytes:
    return b"\t".join(map(_field, row))


# --- what is right ------------------------------------------------------------------------------------------------------


def split(table: Table, lines: Sequence[bytes], keys: set[Key]) -> tuple[list[bytes], dict[Key, list[bytes]]]:
    """The lines of other keys, and those of each of these."""
    rest: list[bytes] = []
    found: dict[Key, list[bytes]] = {}
    for line in lines:
        key = key_of(table, line)
        if key in keys:
            found.setdefault(key, []).append(line)
        else:
            rest.append(line)
    return rest, found


def wrong_notes(story: Story, found: Mapping[Touch, tuple[int, int]], noted: Sequence[Noted]) -> str:
    """Return what is wrong with the conflicts that a job noted, "" for nothing.

    `found`: the keys that were written to, each with the first and the last number of commits behind which that may have
    been. A key meets one conflict at most, in its first change, and a change is noted once: where the row that it moves is
    missing and another one has the key that it moves to, as that one."""
    causes = {(one.table, one.key): one for one in found}
    seen: set[tuple[str, Key]] = set()
    for one in noted:
        cause = causes.get((one.table, one.key))
        if cause is None or KINDS.get(cause.did) != one.kind or one.decision == "target":
            return f"a conflict was noted that nobody caused: {one} (written to: {_all(found)})"
        if (one.table, one.key) in seen:
            return f"a conflict was noted twice: {one}"
        seen.add((one.table, one.key))
    for touch, (first, last) in found.items():
        if (touch.table, touch.key) in seen or not story.must_be_noted(touch, first, last):
            continue
        if touch.did != DELETED or not any((touch.table, key) in seen for key in story.later_keys(touch, last)):
            return (
                f"a conflict happened and was not noted: {_said(touch)} (noted: {', '.join(map(str, noted)) or 'none'})"
            )
    return ""


def _all(found: Iterable[Touch]) -> str:
    return ", ".join(map(_said, found)) or "nothing"


def _said(touch: Touch) -> str:
    return f"{touch.table} {b' '.join(touch.key).decode(errors='replace')} {touch.did or 'set aside'}"
