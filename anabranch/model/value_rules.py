"""Rules for values that a target may not take as they are."""

from __future__ import annotations

from dataclasses import dataclass

from anabranch.model.at_target import TextForm
from anabranch.model.datatype import Kind


@dataclass(frozen=True, slots=True)
class ValueRules:
    """`[types]` of the job file, and what the target's options say of types, for load and stream alike."""

    zero_date: str = "stop"  # "stop" | "null" | a date
    nul: str = "stop"  # "stop" | "strip"
    json: str = ""  # a target's own words for how values of these kinds stand there, "" for its type map's
    geometry: str = ""
    vector: str = ""
    uuid: str = ""
    instant: str = ""
    computed: str = ""  # "values": what the target could compute as well gets the source's values, too
    arrays: str = ""  # "json": those of a PostgreSQL are JSON where they are in no key
    composites: str = ""  # "json": the same of its composite types
    zero_dates: tuple[tuple[str, str, str], ...] = ()  # source table, column -> as zero_date, before which it goes
    texts: tuple[
        tuple[Kind, TextForm], ...
    ] = ()  # of kinds whose text form at the target is another than the kind's own
    keeps_nul: bool = False  # the target's text holds zero characters: they go there unless `nul` strips them
    carries: bool = (
        False  # a value that cannot be converted does not stop the reader: its row goes on without it, marked
    )

    def text_of(self, kind: Kind) -> TextForm:
        return dict(self.texts).get(kind, TextForm.OF_KIND)
