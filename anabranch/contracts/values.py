"""Values that engines and connectors hand to each other: rules for values, bounds of pieces, options of the log."""

from __future__ import annotations

from dataclasses import dataclass, field

from anabranch.model.column_changes import ColumnChange
from anabranch.model.value_rules import ValueRules


@dataclass(frozen=True, slots=True)
class Bounds:
    """A piece of a table: rows with lower < key <= upper, in the database's own order; None = open. Values are in the
    key columns' text form and are compared by the database only. Of a table without a key they say where rows lie, in the
    reader's own words (SharingReader.places)."""

    lower: tuple[str, ...] | None = None
    upper: tuple[str, ...] | None = None


@dataclass(frozen=True)
class LogOptions:
    """The settings that make capture a well-behaved replica; those of one database only are in its connector's own
    options.

    `reader_id`: a number that no other job has, for sources that know their readers by numbers. `name`: of what the job
    has at the source, used by no other job. `decoding`: which code decodes the log here (auto, python, native), where a
    connector has several. `leave_out`: origins whose rows and TRUNCATEs are not given, in the words of the trail's
    `origin`; ConfigError where that cannot be. `follows`: the kinds of changes of columns behind which a table goes on, of
    those that rows show some table, of others every one. Rows that come by other columns than those in force are told as
    LogRedefined, where a log names columns.
    """

    reader_id: int
    flush_interval: float  # seconds
    rules: ValueRules = field(default_factory=ValueRules)
    name: str = ""
    decoding: str = "auto"
    leave_out: frozenset[str] = frozenset()
    follows: frozenset[ColumnChange] = frozenset()
