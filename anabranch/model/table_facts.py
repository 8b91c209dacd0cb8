"""Facts that are kept with a table's state (table_life.py): typed here, texts by name where they are stored."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any

KEEP_ROWS = "keep-rows"  # a decision about every change behind a table's place, up to where it joins
Key = Mapping[str, str | None]  # target column -> text form


class ParkedFor(StrEnum):
    """Why a table is parked, where something is decided by it. `words`: the beginning of the reason that people read."""

    OTHER = ""
    DROPPED = "dropped"  # the source has no such table any more
    LOAD = "load"  # apply has let go of it for a load that was asked for
    ASKED = "asked"  # it waits for a decision about a change of its definition

    @property
    def words(self) -> str:
        return _WORDS[self]


_WORDS = {
    ParkedFor.OTHER: "",
    ParkedFor.DROPPED: "dropped at the source",
    ParkedFor.LOAD: "it is to be loaded again",
    ParkedFor.ASKED: "it waits for a decision",
}


@dataclass(frozen=True, slots=True)
class Facts:
    """`window`: the sequences between which changes are applied as behind a load. `resumes`: the sequence behind which a parked
    table can go on. `others`: facts that this release does not know, kept as they are."""

    joins: bool = False  # it is loaded by itself, or resumed, while others stream
    recreate: bool = False  # the job file changed: its load has to make the target table anew
    kept: bool = False  # rows were in the target table before the load, and stay
    loaded: bool = False  # the load is through, or a window was opened: it is apply's
    built: bool = False  # indexes and keys were built, but for `not_built`
    not_built: tuple[str, ...] = ()
    parked_for: ParkedFor = ParkedFor.OTHER
    resumes: int | None = None
    stood: int | None = (
        None  # of one that is parked in front of a change: as `resumes`, while nobody holds the trail for it
    )
    window: tuple[int, int] | None = None
    reread: tuple[Key, ...] = ()  # keys whose rows have to come from the source again
    set_aside: int = 0  # changes that are set aside
    conflicts: int = 0  # disagreements that a policy has settled since the load
    altering: int | None = None  # the transaction that alters it, by a statement that commits by itself and has begun
    asked: int | None = None  # the transaction that alters it, in front of which it waits or has waited for a decision
    decided: tuple[str, ...] = ()  # that decision, and who has made it
    vouched: tuple[
        str, ...
    ] = ()  # of rows that no load has brought: the place at which they are right, who says so, and when
    adding: tuple[str, ...] = ()  # indexes (the source's names) that came since it was built, and are still to be built
    checking: tuple[str, ...] = ()  # as `adding`: checks
    keying: tuple[str, ...] = ()  # as `adding`: foreign keys
    passed: tuple[
        str, ...
    ] = ()  # indexes (the source's names) that came, and that are not followed: nobody builds them
    left_out: tuple[str, ...] = ()  # columns that came, and that the target is without; the definition says it, too
    others: Mapping[str, str] = field(default_factory=dict)

    def decision(self, sequence: int) -> tuple[str, ...]:
        """Return what a person has decided about the change in this transaction; () where nobody has."""
        is_told = bool(self.decided) and (self.asked == sequence or self.decided[0] == KEEP_ROWS)
        return self.decided if is_told else ()

    @classmethod
    def read(cls, stored: Mapping[str, str]) -> Facts:
        """Parse stored facts. Raises ValueError for a value that is not valid."""
        known = {name: _FORMS[name][0](text) for name, text in stored.items() if name in _FORMS}
        others = {name: text for name, text in stored.items() if name not in _FORMS}
        return cls(**known, others=others) if stored else NO_FACTS

    def stored(self) -> dict[str, str]:
        """Return the facts that hold, by name."""
        values = {one.name: getattr(self, one.name) for one in fields(self) if one.name in _FORMS}
        found = {name: _FORMS[name][1](value) for name, value in values.items() if value != _DEFAULTS[name]}
        return {**found, **self.others}


def _flag(text: str) -> bool:
    return text == "yes"


def _pair(text: str) -> tuple[int, int]:
    low, high = text.split(",")
    return int(low), int(high)


def _yes(value: bool) -> str:
    return "yes"


def _list(text: str) -> tuple[Any, ...]:
    return tuple(json.loads(text))


_FORMS: dict[str, tuple[Callable[[str], Any], Callable[[Any], str]]] = {
    **dict.fromkeys(("joins", "recreate", "kept", "loaded", "built"), (_flag, _yes)),
    **dict.fromkeys(("resumes", "stood", "set_aside", "conflicts", "altering", "asked"), (int, str)),
    **dict.fromkeys(
        ("not_built", "adding", "checking", "keying", "passed", "reread", "decided", "vouched", "left_out"),
        (_list, json.dumps),
    ),
    "window": (_pair, lambda pair: f"{pair[0]},{pair[1]}"),
    "parked_for": (ParkedFor, str),
}
_DEFAULTS = {one.name: one.default for one in fields(Facts)}
NO_FACTS = Facts()
