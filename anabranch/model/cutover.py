"""A cut-over as its notes tell it: which step it is at, who writes at this moment, and what may be done next.

Notes stand at the target (`anabranch.cutover`), one before and one behind each step. What does not live here: keeping them
(`CutoverStore`), carrying steps out (`cutover/`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from anabranch.errors import ConfigError


class Step(StrEnum):
    """The steps of a cut-over, in their order. BEGIN and ABORT are notes about the whole."""

    BEGIN = "begin"
    LAG = "lag"
    FENCE = "fence"
    DRAIN = "drain"
    HOLD = "hold"
    VERIFY = "verify"
    COUNTERS = "counters"
    CONSTRAINTS = "constraints"
    REVERSE = "reverse"
    FLIP = "flip"
    GRACE = "grace"
    REPORT = "report"
    ABORT = "abort"


class Phase(StrEnum):
    """The moment of a step that a note is about."""

    BEGINS = "begins"
    DONE = "done"
    FAILED = "failed"  # of the flip command: it said so itself
    ALARM = "alarm"  # of the grace time: the source took a write


class Verifies(StrEnum):
    """The way in which both ends are compared at the fence; each compares more than the one before."""

    NOT = ""
    SINCE_WATCH = "since-watch"  # what changed since `verify --watch` found a table equal; others whole
    WHOLE = "whole"

    @classmethod
    def of(cls, asked: bool | str) -> Verifies:
        """Return what is asked for; True stands for all rows of all tables. Raises ConfigError."""
        if not isinstance(asked, str):
            return cls.WHOLE if asked else cls.NOT
        if asked not in list(cls):
            words = f'"{cls.SINCE_WATCH}" or "{cls.WHOLE}", which True means as well'
            raise ConfigError(f"verify={asked!r} is no way to compare both ends", hint=f"{words}; False for none")
        return cls(asked)

    @classmethod
    def noted(cls, facts: Mapping[str, Any]) -> Verifies:
        """Return what the note says with which a cut-over began."""
        if not facts.get("verify"):
            return cls.NOT
        return cls.SINCE_WATCH if facts.get("since_watch") else cls.WHOLE

    @property
    def facts(self) -> dict[str, Any]:
        """Return it for that note; releases before know `verify` alone, and compare everything."""
        since = {"since_watch": True} if self is Verifies.SINCE_WATCH else {}
        return {"verify": self is not Verifies.NOT, **since}

    def or_more(self, other: Verifies) -> Verifies:
        """Return the one that compares more."""
        return max(self, other, key=list(Verifies).index)


OWNER = "cutover-"  # so begins the owner of a checkpoint that a cut-over has taken from apply
UNKNOWN = "nobody knows whether the source takes writes, the target is not in use"
STEPS = tuple(step for step in Step if step not in (Step.BEGIN, Step.ABORT))


@dataclass(frozen=True, slots=True)
class CutoverNote:
    """A row of anabranch.cutover. `number` counts the job's notes from 1; `at`: microseconds since 1970 UTC, by the clock of
    the machine that wrote it; `facts` are JSON."""

    number: int
    step: Step
    phase: Phase
    at: int
    facts: Mapping[str, Any] = field(default_factory=dict)


def last_flip(notes: Iterable[CutoverNote]) -> CutoverNote | None:
    """Return the last note that the application was about to be led to the target: it may have written there since."""
    return next((one for one in reversed(list(notes)) if (one.step, one.phase) == (Step.FLIP, Phase.BEGINS)), None)


def given_back(notes: Sequence[CutoverNote]) -> CutoverNote | None:
    """Return the note from which on nobody but the job writes to the target again, behind the last flip; None where there is
    none."""
    flip = last_flip(notes)
    ends = ((Step.ABORT, Phase.DONE), (Step.BEGIN, Phase.BEGINS))
    later = (one for one in notes if flip and one.number > flip.number)
    return next((one for one in later if (one.step, one.phase) in ends), None)


def held(notes: Iterable[tuple[str, int, str, str, int]]) -> frozenset[str]:
    """Return the jobs whose last cut-over is through, and from which nobody has returned. `notes`: of jobs whose checkpoint a
    cut-over has taken from apply, so that they write nothing; job, number, step, phase and time of each, in the order of the
    first two."""
    of: dict[str, list[CutoverNote]] = {}
    for job, number, step, phase, at in notes:
        of.setdefault(job, []).append(CutoverNote(number, Step(step), Phase(phase), at, {}))
    return frozenset(job for job, its in of.items() if Cutover.of(its).is_finished)


@dataclass(frozen=True)
class Cutover:
    """The latest cut-over of a job, by its notes. One that has none has not begun."""

    notes: tuple[CutoverNote, ...] = ()
    last: int = 0  # number of the job's last note, also where it is of an earlier cut-over

    @classmethod
    def of(cls, notes: Sequence[CutoverNote]) -> Cutover:
        """Return the latest one. `notes`: all of a job, in their order."""
        begins = [place for place, note in enumerate(notes) if note.step == Step.BEGIN]
        return cls(tuple(notes[begins[-1] :]) if begins else (), notes[-1].number if notes else 0)

    def note(self, step: Step, phase: Phase) -> CutoverNote | None:
        """Return the last such note."""
        return next((n for n in reversed(self.notes) if n.step == step and n.phase == phase), None)

    def has(self, step: Step, phase: Phase) -> bool:
        return self.note(step, phase) is not None

    def is_done(self, step: Step) -> bool:
        return self.has(step, Phase.DONE)

    def facts(self, step: Step, phase: Phase = Phase.DONE) -> Mapping[str, Any]:
        found = self.note(step, phase)
        return found.facts if found else {}

    @property
    def is_aborted(self) -> bool:
        return self.is_done(Step.ABORT)

    @property
    def is_finished(self) -> bool:
        """Return whether it is through, and nobody has returned since."""
        return self.is_done(Step.REPORT) and not self.is_aborted

    @property
    def is_under_way(self) -> bool:
        """Return whether it has begun, and is neither taken back nor through."""
        return bool(self.notes) and not self.is_aborted and not self.is_finished

    @property
    def is_fenced(self) -> bool:
        """Return whether the source may be fenced: from before it is touched until it is known to be open again."""
        return self.has(Step.FENCE, Phase.BEGINS) and not self.is_aborted

    @property
    def holds_apply(self) -> bool:
        """Return whether apply has to stand still: the target is, or will be, somebody else's to write."""
        return self.has(Step.HOLD, Phase.BEGINS) and not self.is_aborted

    @property
    def is_flipped(self) -> bool:
        return self.is_done(Step.FLIP)

    @property
    def is_flip_unknown(self) -> bool:
        """Return whether the flip command was started and nobody knows how it ended."""
        last = next((note for note in reversed(self.notes) if note.step == Step.FLIP), None)
        return last is not None and last.phase == Phase.BEGINS

    @property
    def is_to_be_taken_back(self) -> bool:
        """Return whether an abort has begun that did not end: only that goes on."""
        return self.has(Step.ABORT, Phase.BEGINS) and not self.is_aborted

    @property
    def next(self) -> Step | None:
        """Return the step that comes next; None where there is none."""
        return next((step for step in STEPS if not self.is_done(step)), None) if self.is_under_way else None

    @property
    def command(self) -> str:
        """Return the command that goes on with it: of a way back that is cut over it is another one."""
        return f"anabranch {'failback' if self.facts(Step.BEGIN, Phase.BEGINS).get('returns') else 'cutover'} JOB"

    @property
    def downtime(self) -> float | None:
        """Return the seconds from the fence to "the target takes writes"; None before that."""
        fenced, flipped = self.note(Step.FENCE, Phase.BEGINS), self.note(Step.FLIP, Phase.DONE)
        return None if fenced is None or flipped is None else round((flipped.at - fenced.at) / 1e6, 3)

    def who_writes(self) -> str:
        """Say who may write now, the source's users, the target's, or nobody, and what comes next."""
        if not self.notes:
            return "the source takes writes, the target follows: no cut-over has begun"
        if self.is_aborted:
            return f"the source takes writes, the target follows: the cut-over was taken back at {self._at(Step.ABORT)}"
        if self.is_finished:
            return f"cut over: the target takes writes since {self._at(Step.FLIP)}, the source stays fenced"
        if self.is_to_be_taken_back:
            return f"it is being taken back: {UNKNOWN}; go on: {self.command} --abort"
        if self.is_flipped:
            since = self._at(Step.FLIP)
            return f"the target takes writes since {since}, the source is fenced; next: {self.next}: {self.command}"
        return self._before_the_flip()

    def _before_the_flip(self) -> str:
        go_on, abort = self.command, f"{self.command} --abort"
        if self.is_flip_unknown:
            return (
                f"the flip command was started at {self._at(Step.FLIP, Phase.BEGINS)}, and nobody knows how it ended: the "
                f"source is fenced, the target may be in use; {go_on} runs it again; or, where you have seen that it did "
                f"nothing, or have undone what it did: {abort} --flip-undone"
            )
        since = self._at(Step.FENCE, Phase.BEGINS)
        if self.is_fenced and not self.is_done(Step.FENCE):
            return f"the fence was being raised at {since}: {UNKNOWN}; go on: {go_on}; or {abort} opens the source"
        if self.is_fenced:
            next_one = f"next: {self.next}: {go_on}; or {abort} opens the source again"
            return f"nobody writes: the source is fenced since {since}, the target is not in use; {next_one}"
        return f"the source takes writes, the target follows; next: {self.next}: {go_on}"

    def _at(self, step: Step, phase: Phase = Phase.DONE) -> str:
        found = self.note(step, phase)
        return moment(found.at) if found else "an unknown time"


def moment(microseconds: int) -> str:
    """Write a time in ISO 8601, UTC, with milliseconds."""
    return datetime.fromtimestamp(microseconds / 1e6, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
