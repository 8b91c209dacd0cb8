"""Stretches of a trail in which a table is followed by the same columns: what a reader of changes can have in one piece.

A value made of the schema history. What does not live here: reading the rows (`spark/changes.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from anabranch.errors import ConfigError
from anabranch.model.ids import TableId
from anabranch.model.schema import TableSchema
from anabranch.trail.history import Entry, SchemaHistory

OPEN = (1 << 63) - 1  # a stretch that goes on


@dataclass(frozen=True, slots=True)
class Stretch:
    """The transactions `first` to `last` (sequences), in which rows of the table have the columns of `schema`, whose `versions`
    differ in other things. `ended`: why it goes no further, "" while it does."""

    schema: TableSchema
    versions: frozenset[int]
    first: int
    last: int = OPEN
    ended: str = ""


def stretches(history: SchemaHistory, table: TableId) -> list[Stretch]:
    """Return the stretches of a table in their order; [] for one that the trail never had. One that is parked, and one that is
    dropped, ends in front of that transaction."""
    found: list[Stretch] = []
    for entry in history.entries:
        if entry.kind == "park" and entry.table == table:
            found = _ended(found, entry, f"the table was parked: {entry.reason}")
        elif entry.kind == "schema" and entry.schema and entry.schema.id == table:
            found = _defined(found, entry, entry.schema)
    return [one for one in found if one.first <= one.last]


def _defined(found: list[Stretch], entry: Entry, schema: TableSchema) -> list[Stretch]:
    if entry.dropped:
        return _ended(found, entry, "the table was dropped")
    goes_on = bool(found) and found[-1].last == OPEN and not (entry.joined or entry.swapped)
    if goes_on and found[-1].schema.columns == schema.columns:
        return [*found[:-1], replace(found[-1], versions=found[-1].versions | {schema.version})]
    ended = _ended(found, entry, "its definition changed")
    return [*ended, Stretch(schema, frozenset({schema.version}), entry.sequence)]


def _ended(found: list[Stretch], entry: Entry, why: str) -> list[Stretch]:
    if not found or found[-1].last != OPEN:
        return found
    return [*found[:-1], replace(found[-1], last=entry.sequence - 1, ended=why)]


def stretch_of(found: Sequence[Stretch], table: TableId, first: int | None, last: int | None) -> Stretch:
    """Return the stretch that has the transactions `first` to `last`: without `first` that of `last`, without both the newest
    one; without `last` it must still go on. Raises ConfigError where none has all of them: it says what there is."""
    if not found:
        raise ConfigError(f"the trail has no table {table}", hint="name it as the source does: schema.table")
    at = last if first is None else first
    one = found[-1] if at is None else next((s for s in found if s.first <= at <= s.last), None)
    if one is not None and (OPEN if last is None else last) <= one.last:
        return one
    asked = "the newest definition" if at is None else f"transaction {at}"
    if last is None or first is not None:
        asked += " to the trail's end" if last is None else f" to {last}"
    has = "; ".join(_shown(s) for s in found)
    raise ConfigError(
        f"{asked} is no range in which table {table} has one definition: it has {has}",
        hint="read each of these ranges by itself (options `from` and `to`)",
    )


def _shown(one: Stretch) -> str:
    return f"{one.first} and later" if one.last == OPEN else f"{one.first} to {one.last}, where {one.ended}"
