"""A table's life in a job: the states that it goes through, what is kept with each, every step from one state to another, and
every question about where it stands.

The picture is drawn from here into docs/reference/state.md. What does not live here: who takes a step and when (load, apply,
job), keeping states (TargetStore, Writer), and what capture does with a table, which stands in the trail.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import wraps
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from anabranch.errors import StateError
from anabranch.model.check_changes import NO_CHECKS, CheckChanges
from anabranch.model.foreign_key_changes import NO_KEY_CHANGES, KeyChanges, about_key
from anabranch.model.ids import TableId
from anabranch.model.index_changes import NO_CHANGES, IndexChanges, is_followed
from anabranch.model.parked_reasons import tells_dropped
from anabranch.model.table_facts import KEEP_ROWS, NO_FACTS, Facts, Key, ParkedFor

if TYPE_CHECKING:
    from anabranch.model.schema import TableSchema


class Life(StrEnum):
    """The states of a table."""

    PENDING = "pending"  # its load has not begun
    LOADING = "loading"  # rows are copied; behind it, changes are applied that were made meanwhile (the load's window)
    STREAMING = "streaming"  # every change is applied as it comes
    PARKED = "parked"  # no change is applied; the reason says why and what brings it back


Place = tuple[Life, int, Facts]


@dataclass(frozen=True, slots=True)
class TableState:
    """A row of anabranch.table_state. `low`, `high`: JSON lists of LogMark.resume texts, set when the load is handed over
    and until the table is past its window; `generation` counts loads of the table; `rows_loaded`, `changes_applied` are for
    status. `reason` is for people: what is decided by it stands in `facts.parked_for`."""

    source: TableId
    target: TableId
    state: Life
    generation: int = 0
    low: str = ""
    high: str = ""
    reason: str = ""
    rows_loaded: int = 0
    changes_applied: int = 0
    schema: TableSchema | None = None  # the source's definition that the load used
    facts: Facts = field(default=NO_FACTS)

    # --- where it stands ----------------------------------------------------------------------------------------------

    @property
    def is_streaming(self) -> bool:
        return self.state == Life.STREAMING

    @property
    def is_parked(self) -> bool:
        return self.state == Life.PARKED

    @property
    def is_loading(self) -> bool:
        """Rows are copied, or apply has not passed the window behind them."""
        return self.state == Life.LOADING

    @property
    def is_before_stream(self) -> bool:
        """Its load is to come, goes on, or has a window that apply has not passed."""
        return self.state in (Life.PENDING, Life.LOADING)

    @property
    def is_loaded(self) -> bool:
        """The load, or whatever opened a window, has handed it to apply, which takes it to the stream."""
        return self.is_loading and self.facts.loaded

    @property
    def is_open(self) -> bool:
        """Its load is not through."""
        return self.is_before_stream and not self.is_loaded

    @property
    def is_on_its_way(self) -> bool:
        """True if the table streams, or apply brings it there without anybody's help."""
        return self.is_streaming or self.is_loaded

    @property
    def is_joining(self) -> bool:
        """True if the table was loaded alone, or resumed, while others stream (K15)."""
        return self.is_before_stream and self.facts.joins

    @property
    def is_followed(self) -> bool:
        """Apply carries out its changes with those of the others."""
        return self.is_on_its_way and not self.is_joining

    @property
    def is_in_window_again(self) -> bool:
        """True if the table streamed before, and a repair, a rewind or rows read again opened a window."""
        return self.is_loading and self.facts.window is not None and not self.facts.joins

    @property
    def is_resuming(self) -> bool:
        """True if the table was parked, and goes on from its place as soon as apply accepts it."""
        return self.is_loading and self.facts.resumes is not None

    @property
    def is_at_rest(self) -> bool:
        """Its rows are those that the stream has left there. A load brings others, and forgets what is set aside."""
        return self.state in (Life.STREAMING, Life.PARKED) or (self.is_loaded and self.is_resuming)

    @property
    def is_untouched(self) -> bool:
        """No load of it has ever begun: the target has nothing of it."""
        return self.generation == 0 and self.schema is None

    @property
    def is_unbegun(self) -> bool:
        """Its first load is to come."""
        return self.state == Life.PENDING and self.generation == 0

    @property
    def is_dropped(self) -> bool:
        """The source has no such table any more."""
        return self.is_parked and self.facts.parked_for is ParkedFor.DROPPED

    @property
    def is_taken_out(self) -> bool:
        """Apply has let go of it for a load that was asked for."""
        return self.is_parked and self.facts.parked_for is ParkedFor.LOAD

    @property
    def is_built(self) -> bool:
        """True if the table streams, and its indexes and keys exist or are reported as not built."""
        return (
            self.is_streaming
            and self.facts.built
            and not (self.facts.adding or self.facts.checking or self.facts.keying)
        )

    @property
    def is_asked(self) -> bool:
        """True if it waits in front of a change of its definition, or of a table that foreign keys connect it with, until a
        person decides."""
        return self.is_parked and self.facts.parked_for is ParkedFor.ASKED

    def is_handed_over(self, generation: int) -> bool:
        """Return whether this load of the table is complete, so that apply does the rest."""
        return self.generation == generation and self.is_on_its_way

    @property
    def place(self) -> Place:
        """Identify the state: a change of it requires that the stored one is still this."""
        return self.state, self.generation, self.facts

    # --- what is noted without a step ---------------------------------------------------------------------------------

    def counted(self, changes: int) -> TableState:
        return replace(self, changes_applied=self.changes_applied + changes)

    def with_conflict(self) -> TableState:
        """Count one more conflict that a policy settled."""
        return self._with(conflicts=self.facts.conflicts + 1)

    def with_aside(self, more: int) -> TableState:
        """Add to the number of changes that are set aside; a negative `more` subtracts."""
        return self._with(set_aside=max(self.facts.set_aside + more, 0))

    def without_aside(self) -> TableState:
        return self._with(set_aside=0)

    def with_waiting(self, keys: Sequence[Key]) -> TableState:
        """Note the keys whose rows must be read from the source again before the table streams."""
        return self._with(reread=tuple(keys))

    def _with(self, **facts: object) -> TableState:
        return replace(self, facts=replace(self.facts, **facts))  # type: ignore[arg-type] # names of fields, all in this file


# --- steps ------------------------------------------------------------------------------------------------------------

P = ParamSpec("P")
S = TypeVar("S", bound="TableState | None")


@dataclass(frozen=True, slots=True)
class Step:
    """`before`: states in which it may be taken; None: the job has no state of the table yet."""

    name: str
    before: tuple[Life | None, ...]
    after: Life
    what: str


STEPS: list[Step] = []
_EVERY = tuple(Life)


def _step(
    *before: Life | None, after: Life
) -> Callable[[Callable[Concatenate[S, P], TableState]], Callable[Concatenate[S, P], TableState]]:
    def register(take: Callable[Concatenate[S, P], TableState]) -> Callable[Concatenate[S, P], TableState]:
        told = " ".join((take.__doc__ or "").split())
        STEPS.append(Step(take.__name__, before, after, told.split(". ")[0].rstrip(".")))

        @wraps(take)
        def checked(state: S, /, *args: P.args, **kwargs: P.kwargs) -> TableState:
            if (None if state is None else state.state) not in before:
                raise _illegal(take.__name__, *(("unknown", "") if state is None else (state.state, str(state.source))))
            return take(state, *args, **kwargs)

        return checked

    return register


def _illegal(name: str, where: str, table: str) -> StateError:
    return StateError(
        f"the step {name} does not begin where the table is: {where}",
        table=table,
        hint="somebody else has moved it; try again, and report it if it stays",
    )


def heard_of(source: TableId, target: TableId, joins: bool = False) -> TableState:
    """Return the first state of a table."""
    return TableState(source, target, Life.PENDING, facts=replace(NO_FACTS, joins=joins))


@_step(None, after=Life.STREAMING)
def take_over(state: None, schema: TableSchema, target: TableId) -> TableState:
    """Let a table stream that stands at the target with the source's rows already: nothing is loaded, nothing is built."""
    return TableState(
        schema.id, target, Life.STREAMING, generation=1, schema=schema, facts=replace(NO_FACTS, built=True)
    )


@_step(None, after=Life.STREAMING)
def create(state: None, schema: TableSchema, target: TableId) -> TableState:
    """Let a table stream that the source has just made, and that was made at the target: it has no rows at either end."""
    return TableState(schema.id, target, Life.STREAMING, generation=1, schema=schema)


@_step(None, Life.PENDING, Life.LOADING, Life.PARKED, after=Life.PENDING)
def prepare(
    state: TableState | None, schema: TableSchema, target: TableId, joins: bool = False, keeps: bool = False
) -> TableState:
    """Note the definition that a load is about to begin with.

    Changes that are set aside are forgotten by the load's first statement at the target, and their number with them.
    """
    facts = Facts(joins=joins, kept=keeps, set_aside=state.facts.set_aside if state else 0)
    now = TableState(schema.id, target, Life.PENDING, schema=schema, facts=facts)
    return replace(now, generation=state.generation, changes_applied=state.changes_applied) if state else now


@_step(Life.PENDING, Life.LOADING, Life.PARKED, after=Life.LOADING)
def begin(state: TableState, generation: int) -> TableState:
    """Start copying rows. A target does this together with the ledger, in one transaction."""
    facts = replace(state.facts, loaded=False, parked_for=ParkedFor.OTHER, stood=None, asked=None, decided=())
    return replace(
        state, state=Life.LOADING, generation=generation, low="", high="", reason="", rows_loaded=0, facts=facts
    )


def require_begin(state: str, table: TableId) -> None:
    """Raise StateError where `begin` would. A target that takes this step in a statement of its own calls it."""
    if not any(step.name == "begin" and state in step.before for step in STEPS):
        raise _illegal("begin", state, str(table))


@_step(None, Life.PENDING, Life.PARKED, after=Life.LOADING)
def vouch(
    state: TableState | None, schema: TableSchema, target: TableId, mark: str, by: Sequence[str], joins: bool
) -> TableState:
    """Hand a table to apply whose rows somebody has brought, as if a load had read all of them at this place of the log.

    `mark`: LogMark.resume of the place; `by`: Facts.vouched; `joins`: the others stream already. Indexes and keys of one that
    no load has made are left as they are.
    """
    before = state if state is not None else heard_of(schema.id, target)
    facts = Facts(joins=joins, kept=before.facts.kept, loaded=True, built=before.is_untouched, vouched=tuple(by))
    return replace(
        TableState(schema.id, target, Life.LOADING, before.generation + 1, schema=schema, facts=facts),
        low=json.dumps([mark]),
        high=json.dumps([mark]),
        changes_applied=before.changes_applied,
    )


@_step(Life.LOADING, after=Life.LOADING)
def hand_over(state: TableState, low: str, high: str, rows: int, aside: int = 0) -> TableState:
    """Hand a table whose rows are all there to apply, which begins with the load's window. `aside`: rows that the load
    set aside.
    """
    facts = replace(state.facts, loaded=True, set_aside=aside or state.facts.set_aside)
    return replace(state, low=low, high=high, rows_loaded=rows, facts=facts)


@_step(Life.LOADING, after=Life.LOADING)
def arrive(state: TableState) -> TableState:
    """Let a table that was loaded alone, or resumed, join the others."""
    return replace(state, reason="", facts=replace(state.facts, joins=False, resumes=None, decided=()))


@_step(Life.LOADING, after=Life.STREAMING)
def stream(state: TableState) -> TableState:
    """Begin to stream: the window is passed, and no row has to be read again."""
    return replace(state, state=Life.STREAMING, low="", high="", facts=replace(state.facts, window=None))


@_step(Life.STREAMING, Life.LOADING, after=Life.LOADING)
def open_window(state: TableState, low: int, high: int) -> TableState:
    """Open a window: between these sequences changes are applied as behind a load.

    Needed where rows came from the source again, or changes come once more.
    """
    return replace(state, state=Life.LOADING, facts=replace(state.facts, loaded=True, window=(low, high)))


@_step(Life.STREAMING, after=Life.STREAMING)
def note_built(state: TableState, not_built: Sequence[str] = ()) -> TableState:
    """Note that indexes and keys exist, except those that the target refused; of a table that was built already it is the
    indexes that have come since."""
    before = state.facts.not_built if state.facts.built else ()
    told = tuple(dict.fromkeys((*before, *not_built)))
    return replace(state, facts=replace(state.facts, built=True, not_built=told, adding=(), checking=(), keying=()))


@_step(Life.STREAMING, after=Life.STREAMING)
def build_again(state: TableState) -> TableState:
    """Note that indexes and keys have to be checked again: they were taken off, or what kept them from being built may
    be gone.
    """
    return replace(state, facts=_unbuilt(state.facts))


@_step(Life.STREAMING, after=Life.STREAMING)
def begin_altering(state: TableState, sequence: int) -> TableState:
    """Note that the target's table is about to be altered, by a statement that commits by itself. `sequence`: of the
    transaction for which it is."""
    return replace(state, facts=replace(state.facts, altering=sequence))


@_step(Life.STREAMING, after=Life.STREAMING)
def alter(
    state: TableState,
    schema: TableSchema,
    indexes: IndexChanges = NO_CHANGES,
    passed: Sequence[str] = (),
    checks: CheckChanges = NO_CHECKS,
    keys: KeyChanges = NO_KEY_CHANGES,
) -> TableState:
    """Follow the table by its next definition, which its target's table has by now, but for indexes and checks that come.
    `passed`: indexes that come, and that the target is to be without."""
    facts = _keyed(_indexed(state, schema, indexes, passed, checks), keys)
    return replace(state, schema=schema, facts=replace(facts, altering=None))


@_step(Life.STREAMING, after=Life.STREAMING)
def rename(state: TableState, schema: TableSchema, target: TableId) -> TableState:
    """Go on under another name, which its target's table has by now, too."""
    return replace(state, source=schema.id, target=target, schema=schema, facts=replace(state.facts, altering=None))


@_step(Life.LOADING, after=Life.LOADING)
def rename_behind(state: TableState, schema: TableSchema, target: TableId, sequence: int) -> TableState:
    """Go on under another name, which the target's table of one that resumes has by now, too, behind this transaction."""
    facts = replace(state.facts, resumes=sequence, altering=None, asked=None, decided=())
    return replace(state, source=schema.id, target=target, schema=schema, facts=facts)


@_step(Life.STREAMING, Life.LOADING, after=Life.PARKED)
def ask(state: TableState, reason: str, sequence: int, asked: bool) -> TableState:
    """Hold the table in front of a change of a definition until a person decides. `sequence`: the transaction with the change;
    `asked`: whether it is this table's."""
    told = sequence if asked else None
    facts = replace(state.facts, parked_for=ParkedFor.ASKED, resumes=sequence - 1, stood=None, joins=False, window=None)
    facts = replace(facts, asked=told, decided=(), altering=None)
    return replace(state, state=Life.PARKED, low="", high="", reason=reason, facts=facts)


@_step(Life.PARKED, after=Life.LOADING)
def decide(state: TableState, decision: str, by: Sequence[str]) -> TableState:
    """Go on from the place of a change about which a person has decided. `by`: who, and statements that were run instead."""
    told = (decision, *by) if state.facts.asked is not None else ()
    return replace(resume(state), reason="", facts=replace(resume(state).facts, decided=told))


@_step(Life.LOADING, after=Life.LOADING)
def catch_up(
    state: TableState,
    sequence: int,
    schema: TableSchema | None = None,
    indexes: IndexChanges = NO_CHANGES,
    passed: Sequence[str] = (),
    checks: CheckChanges = NO_CHECKS,
    keys: KeyChanges = NO_KEY_CHANGES,
) -> TableState:
    """Note how far a table has come that resumes. `schema`: its next definition, which its target's table has by now, but for
    indexes and checks that come; `passed` as for `alter`."""
    facts = replace(state.facts, resumes=sequence)
    if schema is None:
        return replace(state, facts=facts)
    lasts = facts.decided if facts.decided[:1] == (KEEP_ROWS,) else ()
    facts = _keyed(_indexed(state, schema, indexes, passed, checks), keys)
    facts = replace(facts, resumes=sequence, altering=None, asked=None, decided=lasts)
    return replace(state, schema=schema, facts=facts)


@_step(Life.LOADING, after=Life.LOADING)
def begin_altering_behind(state: TableState, sequence: int) -> TableState:
    """Note that the target's table of one that resumes is about to be altered, by a statement that commits by itself."""
    return replace(state, facts=replace(state.facts, altering=sequence))


@_step(*_EVERY, after=Life.PARKED)
def park(state: TableState, reason: str, resumes: int | None = None, stood: int | None = None) -> TableState:
    """Stop applying changes to the table. `resumes`: the sequence behind which it can go on, as long as the trail is kept;
    `stood`: the same, where a change of its definition keeps it from going on and nobody holds the trail."""
    parked_for = ParkedFor.DROPPED if tells_dropped(reason) else ParkedFor.OTHER
    resumes = state.facts.resumes if resumes is None else resumes
    facts = replace(state.facts, parked_for=parked_for, resumes=resumes, stood=stood)
    facts = replace(facts, altering=None, asked=None, decided=())
    return replace(state, state=Life.PARKED, low="", high="", reason=reason, facts=facts)


@_step(*_EVERY, after=Life.PARKED)
def take_out(state: TableState) -> TableState:
    """Take a table that is followed out of the stream, because a load of it was asked for."""
    facts = replace(_unbuilt(state.facts), joins=False, reread=(), resumes=None, window=None, parked_for=ParkedFor.LOAD)
    facts = replace(facts, stood=None, asked=None, decided=(), altering=None)
    reason = f"{ParkedFor.LOAD.words}: anabranch load JOB --table {state.source.typed}"
    return replace(state, state=Life.PARKED, low="", high="", reason=reason, facts=facts)


@_step(*_EVERY, after=Life.PARKED)
def wait_for_load(state: TableState, reason: str, recreates: bool) -> TableState:
    """Park a table that only a load brings in as the changed job file wants it. `recreates`: the target table must be
    created anew.
    """
    facts = replace(state.facts, joins=False, resumes=None, stood=None, parked_for=ParkedFor.OTHER)
    facts = replace(facts, asked=None, decided=(), altering=None)
    return replace(park(state, reason), facts=replace(facts, recreate=recreates or facts.recreate))


@_step(Life.PARKED, after=Life.LOADING)
def resume(state: TableState) -> TableState:
    """Ask that a parked table goes on from its place; apply accepts that, or refuses."""
    facts = replace(state.facts, joins=True, loaded=True, parked_for=ParkedFor.OTHER)
    return replace(state, state=Life.LOADING, facts=facts)


@_step(Life.PARKED, after=Life.PARKED)
def hold_place(state: TableState) -> TableState:
    """Note that the trail is held again for a table that was parked in front of a change: it can go on from there."""
    place = state.facts.resumes if state.facts.stood is None else state.facts.stood
    return replace(state, facts=replace(state.facts, resumes=place, stood=None))


@_step(Life.PARKED, after=Life.LOADING)
def keep_rows(state: TableState, by: str) -> TableState:
    """Ask that a parked table goes on from its place with the rows that it has, and is altered by every change behind it,
    whatever the job file says of columns. `by`: who asks."""
    return replace(resume(state), reason="", facts=replace(resume(state).facts, decided=(KEEP_ROWS, by)))


@_step(Life.STREAMING, after=Life.STREAMING)
def build_all(state: TableState, schema: TableSchema) -> TableState:
    """Note that all indexes, keys and checks of the definition have to be there, also those that came and were not
    followed."""
    return replace(state, schema=schema, facts=replace(_unbuilt(state.facts), passed=()))


@_step(Life.LOADING, after=Life.PARKED)
def refuse_to_resume(state: TableState, why: str) -> TableState:
    """Park a table again at its place, because it cannot go on yet."""
    facts = replace(state.facts, joins=False)
    return replace(park(state, f"still refused: {why}"), facts=facts)


@_step(Life.PARKED, Life.LOADING, after=Life.PARKED)
def give_up_place(state: TableState) -> TableState:
    """Release the part of the trail that is held for the table: only a load brings it back.

    A table that was about to resume stays parked, too: without its place nothing could tell where to go on.
    """
    parked_for = ParkedFor.OTHER if state.facts.parked_for is ParkedFor.ASKED else state.facts.parked_for
    facts = replace(state.facts, joins=False, resumes=None, stood=None, parked_for=parked_for, asked=None, decided=())
    return replace(state, state=Life.PARKED, facts=facts)


def _unbuilt(facts: Facts) -> Facts:
    others = {name: value for name, value in facts.others.items() if name != "analyzed"}  # of releases before
    return replace(facts, built=False, not_built=(), adding=(), checking=(), keying=(), others=others)


def _keyed(facts: Facts, keys: KeyChanges) -> Facts:
    """Return the facts with the foreign keys that are to be built."""
    of_gone = tuple(map(about_key, keys.dropped))
    left = (name for name in facts.keying if name not in keys.dropped)
    not_built = tuple(line for line in facts.not_built if not line.startswith(of_gone))
    return replace(facts, keying=tuple(dict.fromkeys((*left, *keys.added))), not_built=not_built)


def _indexed(
    state: TableState, schema: TableSchema, changes: IndexChanges, passed: Sequence[str], checks: CheckChanges
) -> Facts:
    """Return the facts with the indexes and checks that are to be built, and the indexes that are not. Behind an index that
    goes, others over the same columns may have to be: a target builds one of them."""
    names, there = dict(changes.renamed), {index.name for index in schema.indexes}
    wanted = [names.get(name, name) for name in state.facts.adding] + list(changes.added)
    before = state.schema.indexes if state.schema else ()
    had = {index.name: index.columns for index in before if index.name not in state.facts.passed}
    gone = {had[name] for name in changes.dropped if name in had}
    passed = [*(names.get(name, name) for name in state.facts.passed if name not in changes.dropped), *passed]
    passed = [name for name in dict.fromkeys(passed) if name in there and name not in changes.added]
    built = [index for index in schema.indexes if index.name not in passed]
    wanted += [index.name for index in built if is_followed(index) and index.columns in gone]
    adding = tuple(name for name in dict.fromkeys(wanted) if name in there and name not in passed)
    of_gone = tuple(f"index {name} of " for name in changes.dropped)
    of_gone += tuple(f"check {name} of " for name in checks.dropped)
    not_built = tuple(line for line in state.facts.not_built if not line.startswith(of_gone))
    left = (name for name in state.facts.checking if name not in checks.dropped)
    facts = replace(state.facts, adding=adding, checking=tuple(dict.fromkeys((*left, *checks.added))))
    return replace(facts, not_built=not_built, passed=tuple(passed), left_out=schema.left_out)


def read_stored(state: str, reason: str, facts: Mapping[str, str]) -> tuple[Life, Facts]:
    """Read a stored state and its facts, also as releases before have left them: there words told what a table is parked for.
    Raises StateError for what only a later release can have written."""
    try:
        life, known = Life(state), Facts.read(facts)
    except ValueError as error:
        raise StateError(
            f"the state of a table cannot be read: {error}", hint="a later release has written it: use that one"
        ) from None
    if life is Life.PARKED and known.parked_for is ParkedFor.OTHER:
        told = next(
            (one for one in (ParkedFor.DROPPED, ParkedFor.LOAD) if reason.startswith(one.words)), known.parked_for
        )
        known = replace(known, parked_for=told)
    return life, known
