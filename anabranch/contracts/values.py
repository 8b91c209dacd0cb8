"""Values that engines and connectors hand to each other: rules for values, bounds of pieces, options of the log."""

from __future__ import annotations

from dataclasses import dataclass, field

from anabranch.model.at_target import TextForm
from anabranch.model.datatype import Kind


@dataclass(frozen=True, slots=True)
class ValueRules:
    """`[types]` of the job file, for load and stream alike."""

    zero_date: str = "stop"  # "stop" | "null" | a date
    nul: str = "stop"  # "stop" | "strip"
    json: str = "jsonb"  # "jsonb" | "json" | "text"
    geometry: str = "bytea"  # "bytea" | "geometry"
    vector: str = "real[]"  # "real[]" | "vector"
    large_objects: str = "stop"  # "stop" | "numbers"
    zero_dates: tuple[tuple[str, str, str], ...] = ()  # source table, column -> as zero_date, before which it goes
    texts: tuple[
        tuple[Kind, TextForm], ...
    ] = ()  # of kinds whose text form at the target is another than the kind's own
    carries: bool = (
        False  # a value that cannot be converted does not stop the reader: its row goes on without it, marked
    )

    def text_of(self, kind: Kind) -> TextForm:
        return dict(self.texts).get(kind, TextForm.OF_KIND)


@dataclass(frozen=True, slots=True)
class Bounds:
    """A piece of a table: rows with lower < key <= upper, in the database's own order; None = open. Values are in the
    key columns' text form and are compared by the database only. Of a table without a key they say where rows lie, in the
    reader's own words (SharingReader.places)."""

    lower: tuple[str, ...] | None = None
    upper: tuple[str, ...] | None = None


@dataclass(frozen=True)
class LogOptions:
    """What capture needs to know to be a well-behaved replica. `name`: of what the job has at the source, of no other job.
    `decoder`: who turns the log into changes there, where a source has several; `decoding`: who does it here (auto, python,
    native), where a connector has several. `binary`: may values come in the source's binary form, where there is one? What is
    given is the same. `streaming`: large transactions may come while they are open, where the source can do that. `leave_out`:
    origins whose rows and TRUNCATEs are not given, in the words of the trail's `origin`; ConfigError where that cannot be."""

    server_id: int
    flush_interval: float  # seconds
    rules: ValueRules = field(default_factory=ValueRules)
    name: str = ""
    decoder: str = "pgoutput"
    heartbeat: float = 0.0  # seconds between messages that a reader writes into an idle source's log; 0: none
    binary: bool = False
    streaming: bool = False
    decoding: str = "auto"
    leave_out: frozenset[str] = frozenset()
