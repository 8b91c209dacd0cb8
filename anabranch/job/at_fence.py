"""Comparing both ends at the fence of a cut-over: all rows; or, of the tables that `verify --watch` has found equal, what the
trail says has changed since.

Of a table that has such a place, and of which nothing happened that the trail does not tell row by row, each changed row is
compared by its key. Every other table is compared whole, and the note says why: also one of which the trail loses a part
meanwhile, since nobody holds it. What was done to the target by others since is seen by a whole comparison alone. What does
not live here: the place (watched.py), the fence (`cutover/`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from anabranch.errors import NotCaughtUp, TrailCorrupt, TrailError
from anabranch.job.left_out import tells_all
from anabranch.job.verifying import beside_of, forget_differing, states_of, tables_of, verify
from anabranch.job.watched import compared_as, looking
from anabranch.model.checks import CheckResult, CheckVerdict
from anabranch.model.cutover import Verifies, last_flip
from anabranch.model.ids import TableId
from anabranch.model.position import Position
from anabranch.model.table_life import TableState
from anabranch.model.verified import Verified
from anabranch.trail.reader import TrailReader
from anabranch.verify.again import Again
from anabranch.verify.filtering import Filtering
from anabranch.verify.plan import VerifyTable
from anabranch.verify.report import TableResult, Verification
from anabranch.verify.run import LIMIT_KEYS
from anabranch.verify.since import WHOLE, verify_since
from anabranch.verify.still import Still
from anabranch.verify.wanted import Wanted
from anabranch.view.identity import trail_uuid
from anabranch.view.opened import store_of
from anabranch.view.options import value_rules

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from anabranch.cutover.terms import Verified as AtTheFence
    from anabranch.view.job_view import JobView

CHECK = "cutover.verify"
NAMED = 3  # tables that differ, in the error
BEFORE = 600.0  # seconds for all passes before the fence, shared by the tables: nobody waits for them
PASSES = 8  # before the fence, each over what has changed since the one before it
LOOKS = 10.0  # seconds for the capture of the job that goes the other way to read up to now, once
SHORT = 1.0  # seconds: what changes meanwhile is quick to compare at the fence
UNDECIDED = "begin it again; anabranch verify JOB, beside the running job, says of what nobody can tell, and why"
NO_RESULT = "verify --watch has not found it equal yet"
ANEW = "it was loaded anew since verify --watch had looked at it"
NO_PLACE = "of its last result by verify --watch no place of the trail is known"
OTHER_TRAIL = "its last result by verify --watch is of another trail"
OTHER_TABLE = "its definition, or what the job makes of it, has changed since verify --watch had looked at it"
CUT_OVER = "the target may have been in use since verify --watch had looked at it"
STRAYS = "somebody has written to it at the target, behind the fence, while the job that goes the other way is held"
UNREAD = (
    "the job that goes the other way has not read up to now who else has written to the target: is its capture at work?"
)
LEAVES_OUT = "the job leaves out an origin that may have written: its trail does not tell all changes"
Strays = Callable[[float], Collection[TableId] | None]  # `WayBack.strays`


@dataclass(frozen=True, slots=True)
class Known:
    """A table of which only what changed behind `sequence`, at `position`, has to be compared."""

    one: VerifyTable
    sequence: int
    position: str


@dataclass(frozen=True, slots=True)
class Nearer:
    """The place of a table that was compared up to there before the source was fenced, by so many `keys`."""

    known: Known
    keys: int


@dataclass(frozen=True, slots=True)
class Compared:
    """The outcome for a table at the fence: what changed behind `near` was compared, `before` keys before the fence."""

    known: Known
    near: Known
    before: int
    result: TableResult

    @property
    def facts(self) -> dict[str, Any]:
        """Return it for the note. `since`: the place of the result of `verify --watch`."""
        found = {"source": self.result.source, "since": self.known.position, "keys": self.result.rows_source}
        if self.near is self.known:
            return found
        return {**found, "before_fence": {"keys": self.before, "until": self.near.position}}


@dataclass(frozen=True, slots=True)
class Choice:
    """The way in which each table is compared: by what changed, or whole, and why."""

    known: tuple[Known, ...]
    whole: Mapping[TableId, str]


@dataclass
class AtFence:
    """Comparing of a cut-over (cutover/terms.py)."""

    job: JobView
    spark: Callable[[], SparkSession]
    tell: Callable[[str], None] = lambda _: None
    strays: Strays = lambda _: frozenset()
    _patience: float = LOOKS
    _nearer: dict[TableId, Nearer] = field(default_factory=dict)

    def before(self, verifies: Verifies) -> str:
        """Start Spark where it will be needed; and bring the places of tables as near to the fence as they come beside writers.
        What is undecided by then is left for the fence."""
        choice = self._choice() if verifies is Verifies.SINCE_WATCH else None
        if choice is None or choice.whole or any(one.one.filter for one in choice.known):
            self.spark()
        if choice is None or not choice.known:
            return ""
        self.tell("compares what has changed since verify --watch, before the source is fenced")
        beside = replace(beside_of(self.job), tells_all=True, extends=False)
        self._nearer = {}
        with closing(looking(self.job, Again, beside, passing=Filtering(self.spark))) as again:
            until = time.monotonic() + BEFORE
            for _ in range(PASSES):
                began = time.monotonic()
                if differing := self._come_nearer(again, choice.known, until):
                    return "; ".join(differing[:NAMED])
                if time.monotonic() >= until or time.monotonic() - began < SHORT:
                    break
        return ""

    def _come_nearer(self, again: Again, tables: Sequence[Known], until: float) -> list[str]:
        """Compare what changed behind each table's place, which becomes one from before that. Returns what differs. Each table
        has its share of the time up to `until`, so that a busy one leaves the others theirs."""
        nearest = [self._nearest(known) for known in tables]
        rest, differing = untouched(self.job, nearest), list[str]()
        for number, (known, near) in enumerate(zip(tables, nearest, strict=True)):
            source, now = known.one.table.source, time.monotonic()
            again.until(now + (until - now) / (len(tables) - number))
            place = None if source in rest or again.is_over else again.place(known.one)
            if place is None:
                continue
            result = _changed_since(again, near)
            if isinstance(result, str):
                continue
            if result.differs:
                forget_differing(self.job, [result])
                differing.append(_differing(near, result))
            elif result.identical and place.sequence > near.sequence:
                keys = result.rows_source + (self._nearer[source].keys if source in self._nearer else 0)
                self._nearer[source] = Nearer(Known(known.one, place.sequence, str(place)), keys)
        return differing

    def _nearest(self, known: Known) -> Known:
        found = self._nearer.get(known.one.table.source)
        return known if found is None or found.known.sequence < known.sequence else found.known

    def at_fence(self, verifies: Verifies) -> AtTheFence:
        """Compare both ends. Raises NotCaughtUp where nothing differs, and nobody can tell of all tables."""
        if verifies is Verifies.WHOLE:
            return told(self.job.label, [], verify(self.job, self.spark, Wanted(), is_still=True), {})
        choice = self._choice()
        since, left = self._since(choice.known)
        whole = {**choice.whole, **left}
        found = Verification(())
        if whole:
            found = verify(self.job, self.spark, Wanted(), only=whole, is_still=True)
        return told(self.job.label, since, found, whole)

    def _choice(self) -> Choice:
        return but_strays(chosen(self.job), self._strays)

    def _strays(self) -> Collection[TableId] | None:
        """Ask for tables that somebody else has written to. Who has waited for an answer in vain waits no second time, when the
        application stands: it is there by now, or nobody can tell."""
        found = self.strays(self._patience)
        self._patience = LOOKS if found is not None else 0.0
        return found

    def _since(self, tables: Sequence[Known]) -> tuple[list[Compared], dict[TableId, str]]:
        """Compare what changed. Returns results that are certain, and the tables that have to be compared whole, with why. Each
        table has its own time: one that uses it up does not have the others compared whole."""
        found, left = list[Compared](), dict[TableId, str]()
        nearest = [self._nearest(known) for known in tables]
        rest, beside = untouched(self.job, nearest), replace(beside_of(self.job), tells_all=True)  # so they were chosen
        with closing(looking(self.job, Still, beside, passing=Filtering(self.spark))) as again:
            for known, near in zip(tables, nearest, strict=True):
                table = known.one.table
                before = self._nearer[table.source].keys if near is not known else 0
                if table.source in rest:
                    equal = TableResult(str(table.source), str(table.target), 0, 0, identical=True)
                    found.append(Compared(known, near, before, equal))
                    continue
                again.until(time.monotonic() + beside.patience)
                result = _changed_since(again, near)
                if isinstance(result, str):
                    left[table.source] = result
                elif result.is_undecided:
                    left[table.source] = result.why
                else:
                    found.append(Compared(known, near, before, result))
        forget_differing(self.job, [one.result for one in found])
        return found, left


def _changed_since(again: Again, known: Known) -> TableResult | str:
    """Compare a table's rows that changed behind its place; or say that the trail does not reach back to it any more."""
    try:
        (result,) = verify_since(again, [known.one], known.sequence, LIMIT_KEYS)
    except TrailError as error:
        return _lost(known.position, error)
    return result


def _lost(since: str, error: TrailError) -> str:
    """Say that a part of the trail was removed meanwhile. Raises TrailCorrupt: that is no such thing."""
    if isinstance(error, TrailCorrupt):
        raise error
    return f"the trail does not tell any more what changed since {since}: {error.message}"


def untouched(job: JobView, tables: Sequence[Known]) -> set[TableId]:
    """Return the tables of which the trail has nothing behind their place, by its descriptors alone; none where it does not
    reach back to all of these places any more."""
    if not tables:
        return set()
    parents, last, barrier = beside_of(job).parents, dict[str, int](), 0
    with TrailReader(job.trail, name="verify") as trail:
        try:
            for ref in trail.descriptors(min(one.sequence for one in tables)):
                barrier = ref.last_sequence if ref.has_barriers else barrier
                last.update((name, ref.last_sequence) for name, _ in ref.tables)
        except TrailCorrupt:
            raise
        except TrailError:
            return set()
    found = set[TableId]()
    for each in tables:
        source = each.one.table.source
        acting = (source, *parents.get(source, ()))
        if max(barrier, *(last.get(str(name), 0) for name in acting)) <= each.sequence:
            found.add(source)
    return found


def plan(job: JobView, strays: Strays) -> Iterator[CheckResult]:
    """Say of each table how it would be compared now, with how many keys."""
    choice = but_strays(chosen(job), lambda: strays(LOOKS))
    with closing(looking(job, Still, beside_of(job))) as again:
        for known in choice.known:
            table = str(known.one.table.source)
            keys = _keys(again, known)
            if isinstance(keys, str):
                said = f"{table} is compared whole: {keys}"
            else:
                said = f"{table} is compared by what changed since {known.position}: {keys:,} keys up to now"
            yield CheckResult(CHECK, CheckVerdict.OK, said, table=table)
    for name, why in sorted(choice.whole.items()):
        yield CheckResult(CHECK, CheckVerdict.OK, f"{name} is compared whole: {why}", table=str(name))


def _keys(again: Again, known: Known) -> int | str:
    """Return how many keys changed, some perhaps counted twice; or why the table has to be compared whole."""
    try:
        if not again.can_find(known.one):
            return WHOLE if again.has_changed(known.one, known.sequence) else 0
        counts = [None if some is None else len(some) for some in again.changed(known.one, known.sequence)]
    except TrailError as error:
        return _lost(known.position, error)
    return WHOLE if None in counts else sum(count for count in counts if count)


def chosen(job: JobView) -> Choice:
    """Choose for each table that streams how it is compared."""
    name = job.config.name
    states, others = states_of(job, ())
    with store_of(job) as store:
        results = {one.source: one for one in store.verifications.verified(name)}
        notes = store.cutovers.cutover_notes(name)
    flip = last_flip(notes)
    flipped = flip.number if flip else 0
    known, whole = list[Known](), dict[TableId, str]()
    is_told, parents = tells_all(job), beside_of(job).parents
    with TrailReader(job.trail, name="verify") as trail:
        for one in tables_of(job, states, others):
            source = one.table.source
            found = results.get(source)
            why = _refused(job, found, states[source], flipped) if is_told else LEAVES_OUT
            if not why and found is not None and found.place is not None:
                digest = compared_as(one, value_rules(job), parents.get(source, {}))
                there = OTHER_TABLE if found.place.compared != digest else _in_trail(trail, found.place.position)
                if isinstance(there, Position):
                    known.append(Known(one, there.sequence, str(there)))
                    continue
                why = there
            whole[source] = why
    return Choice(tuple(known), whole)


def but_strays(choice: Choice, strays: Callable[[], Collection[TableId] | None]) -> Choice:
    """Return it with the tables whole that somebody else has written to at the target, which the job's trail does not tell."""
    written = strays() if choice.known else ()
    if written is None:
        return Choice((), {**choice.whole, **{one.one.table.source: UNREAD for one in choice.known}})
    left = {one.one.table.source: STRAYS for one in choice.known if one.one.table.target in written}
    known = tuple(one for one in choice.known if one.one.table.source not in left)
    return Choice(known, {**choice.whole, **left})


def _refused(job: JobView, found: Verified | None, state: TableState, flipped: int) -> str:
    """Say why the last result does not spare a whole comparison; "" where it may."""
    if found is None or found.generation != state.generation:
        return NO_RESULT if found is None else ANEW
    if found.result != "identical" or found.sample or not found.is_complete:
        part = f" in a sample of {found.sample}" if found.sample else ""
        return f"verify --watch found it {found.result}{part}"
    if found.place is None:
        return NO_PLACE
    if found.place.trail != trail_uuid(job):
        return OTHER_TRAIL
    return CUT_OVER if flipped > found.place.cutovers else ""


def _in_trail(trail: TrailReader, text: str) -> Position | str:
    """Return the place if the trail still tells all that came behind it; else why not."""
    place, first, end = Position.parse(text), trail.first() - 1, trail.end().position.sequence
    if not first <= place.sequence <= end:
        return f"the trail does not tell what changed since {text}: it reaches from {first} to {end}"
    # in front of the trail's first transaction: what the position was called stands nowhere any more
    try:
        is_other = first < place.sequence and trail.position_at(place.sequence) != place
    except TrailError as error:
        return _lost(text, error)
    return f"the trail has another transaction at {text}" if is_other else place


def told(
    job: str, since: Sequence[Compared], found: Verification, why: Mapping[TableId, str]
) -> tuple[str, dict[str, Any]]:
    """Return what differs, then what is undecided, and the facts. Raises NotCaughtUp where nothing differs and not all of it
    could be told."""
    differing = [_differing(one.near, one.result) for one in since if not one.result.identical]
    differing += [str(result) for result in found.tables if result.differs]
    undecided = [str(result) for result in found.tables if result.is_undecided]
    if undecided and not differing:
        said = _first(undecided)
        raise NotCaughtUp(f"nobody can tell at the fence whether both ends are equal: {said}", job=job, hint=UNDECIDED)
    tables = [one.facts for one in since]
    reasons = {str(table): text for table, text in why.items()}
    for result in found.tables:
        rows = {"source": result.source, "rows_source": result.rows_source, "rows_target": result.rows_target}
        sums = dict(zip(("digest_source", "digest_target"), result.digests, strict=False))
        tables.append({**rows, **sums, **({"why": reasons[result.source]} if result.source in reasons else {})})
    said = f"{len(found.tables)} tables compared whole"
    if since or why:
        keys = sum(one.result.rows_source for one in since)
        said += f", {len(since)} by the {keys} rows that changed since verify --watch, or the look before the fence"
    return _first([*differing, *undecided]), {"tables": tables, "said": said}


def _first(lines: Sequence[str]) -> str:
    more = f"; and {len(lines) - NAMED} more tables" if len(lines) > NAMED else ""
    return "; ".join(lines[:NAMED]) + more


def _differing(since: Known, result: TableResult) -> str:
    """Say how much differs of a table. No key: it may be a name or an address."""
    counts = (("missing", result.missing), ("extra", result.extra), ("different", result.different))
    said = ", ".join(f"{count} {what}" for what, count in counts if count)
    return f"{result.source}: {said} of the {result.rows_source} rows that changed since {since.position}"
