"""The apply process: it waits for trail and load, follows the trail, lets tables join, and builds what waits for
consistency.

Delivery: see `progress.py`. Everything kept here can be rebuilt from the target and the trail.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeVar

from anabranch import log, pace
from anabranch.apply.abilities import StateWriter, appending, merging
from anabranch.apply.altering import Altering
from anabranch.apply.append_carrier import AppendCarrier
from anabranch.apply.carry_out import CarryOut
from anabranch.apply.cascades.cascade import refuse_far_cascades
from anabranch.apply.cascades.computed import AskedSource
from anabranch.apply.chores import Chores
from anabranch.apply.cleaning import Cleaning
from anabranch.apply.creating import Creating
from anabranch.apply.dropping import Dropping
from anabranch.apply.epoch import Applier
from anabranch.apply.filter import StreamFilter
from anabranch.apply.following import Following
from anabranch.apply.heartbeats import Heartbeats
from anabranch.apply.labels import needed_now
from anabranch.apply.life.finish import Finisher
from anabranch.apply.life.repair import Repairer
from anabranch.apply.life.reread import Rereader
from anabranch.apply.merge_carrier import MergeCarrier
from anabranch.apply.pair_deletes import PairDeletes
from anabranch.apply.pair_standing import PairStanding
from anabranch.apply.patience import Patience
from anabranch.apply.progress import Progress, claim
from anabranch.apply.same_trail import refuse_other_trail
from anabranch.apply.settings import ApplySettings
from anabranch.apply.staging import Executors
from anabranch.apply.tables import Tables
from anabranch.apply.told import Totals
from anabranch.apply.window import WindowResolver
from anabranch.contracts import (
    Enforced,
    LabelWriter,
    RowTarget,
    SourceConnector,
    StagedWriter,
    TargetStore,
    ValueRules,
    Writer,
)
from anabranch.errors import AnabranchError, Fenced, SourceUnavailable, StorageFull, TargetUnavailable, TrailError
from anabranch.failpoints import reach
from anabranch.model.condition import Waiting
from anabranch.model.cutover import OWNER, Cutover
from anabranch.model.datatype import Fit, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.state import Checkpoint
from anabranch.model.table_life import TableState
from anabranch.spark.engine import Engine, Epochs
from anabranch.trail import retention
from anabranch.trail.holding import Held
from anabranch.trail.reader import TrailReader

BEGINS = ("", Waiting.LOAD)  # nothing is missing
HELD = "for the cut-over: the target is, or will be, written by its users; anabranch cutover JOB --status tells"
FOR_VERIFICATION = "for a verification that reads both ends at one position"
HELD_POLL = 0.005  # seconds between two looks at a verification's hold
FULL_SECONDS = 1.0  # between two looks whether a full disk has room
T = TypeVar("T")


class Watcher(Protocol):
    """The receiver of reports on how far apply is."""

    def waiting(self, why: str, on: Waiting | AnabranchError) -> None:
        """Take note that apply waits. `on`: what for, in one word, or the error behind it."""

    def counted(self, totals: Totals) -> None:
        """Take the counts over. Called now and then."""

    def streaming(self, consistent: bool) -> None: ...

    def builds(self, tables: Sequence[str]) -> None:
        """Take note of tables whose indexes and keys are being built from here on; none: that is over."""

    def begins(self, upto: int) -> None:
        """Take note that an epoch begins, which goes up to a sequence."""

    def enforcing(self, acts: Enforced) -> None:
        """Take note which of the target's foreign keys and triggers act on what is applied."""

    def applied(self, checkpoint: Checkpoint) -> None: ...

    def slow(self, totals: Totals) -> None:
        """Take note of slow epochs: there are more than at the last call, or apply starts."""


@dataclass
class ApplyRun:
    """One run of apply. `stop` is asked between epochs; the running one is finished."""

    job: str
    trail_directory: Path
    spark_directory: Path
    source: SourceConnector
    target: RowTarget
    rules: ValueRules
    tables: Tables
    settings: ApplySettings
    engine: Engine
    stop: Callable[[], bool]
    watcher: Watcher
    patience: Patience = field(init=False)
    chores: Chores = field(init=False)  # it has the applier
    query: Epochs = field(init=False)
    _held: Held = field(init=False)

    def __post_init__(self) -> None:
        self._held = Held(self.settings.names.held(self.trail_directory))
        self.patience = Patience(retry=self.settings.retry)

    def run(self) -> None:
        """Run until `stop` says so. Raises errors that a person has to look at."""
        self.engine.warm_up()
        with closing(self.target.store()) as store:
            store.exists()  # a target that is away at the start is an error at once; it is waited for behind a cut-over
            while (trail := self._wait_for_load(store)) is not None:
                try:
                    if not self._follow(store, trail):
                        return
                except Fenced:
                    if self._asked(store, lambda: was_taken(store, self.job)) is False:
                        raise

    # --- before the first epoch ----------------------------------------------------------------------------------

    def _wait_for_load(self, store: TargetStore) -> TrailReader | None:
        """Wait until every table is loaded and the trail reaches past every load window. Returns the trail; None when
        stopped."""
        while not self.stop():
            why = self._patiently(store, lambda: self._missing(store))
            if why is BEGINS:
                return TrailReader(self.trail_directory)
            if why is not None:
                self.watcher.waiting(*why)
            time.sleep(pace.current.apply_tick)
        return None

    def _missing(self, store: TargetStore) -> tuple[str, Waiting]:
        """Return what apply has to wait for; BEGINS when it may begin."""
        if not (self.trail_directory / "trail.json").exists():
            return "for capture to begin the trail", Waiting.CAPTURE
        store.prepare()
        if store.jobs.checkpoint(self.job) is None:
            return "for the load to begin", Waiting.LOAD
        if is_held(store, self.job):
            return HELD, Waiting.CUTOVER
        states = store.states.tables(self.job)
        if not states and not self._all_dropped():
            return "for the load to begin", Waiting.LOAD
        first = {t: s for t, s in states.items() if s.is_before_stream and not s.is_joining}
        loading = [str(table) for table, state in first.items() if not state.is_followed]
        if loading:
            return f"for the load of {len(loading)} tables ({', '.join(loading[:3])} …)", Waiting.LOAD
        with TrailReader(self.trail_directory) as trail:
            resolver = WindowResolver(trail, self.source.order)
            if not all(resolver.reached(state) for state in first.values()):
                return "for capture to pass the positions of the load", Waiting.LOAD
        return BEGINS

    def _all_dropped(self) -> bool:
        """Return whether the job has no table any more because the source has dropped them."""
        with TrailReader(self.trail_directory) as trail:
            return bool(trail.history.dropped()) and not trail.history.in_force()

    # --- following ---------------------------------------------------------------------------------------------------

    def _follow(self, store: TargetStore, trail: TrailReader) -> bool:
        """Follow the trail until stopped. Returns whether to wait once more: a cut-over holds the target."""
        chores = self._claimed(store, trail)
        if chores is None:
            return False
        # It may have begun while this process claimed the target, which has changed nothing: what is applied beyond the
        # checkpoint, and makes a start carry out what is missing, keeps a cut-over from holding the target.
        if self._asked(store, lambda: is_held(store, self.job)) is not False:
            chores.finisher.close()
            chores.applier.progress.writer.close()
            return True
        self.chores, progress = chores, chores.applier.progress
        query: Epochs | None = None
        try:
            query = self._begun(trail)
            if query is not None:
                self.query = query
                self._loop(store)
            tables = progress.context.tables
            in_pair = {
                table for table, followed in tables.items() if followed.on_conflict.pair
            }  # the site counts for itself
            chores.finisher.raise_sequences({t: s for t, s in progress.states.items() if t not in in_pair})
        except TrailError:
            with suppress(TargetUnavailable):
                progress.look_for_another()  # another owner may have read on, and let the trail drop what is missing here
            raise
        finally:
            if query is not None:
                query.stop()
                self._note_place()
            chores.finisher.close()
            chores.deletes.close()
            progress.writer.close()
        return False

    @property
    def _progress(self) -> Progress:
        return self.chores.applier.progress

    def _begun(self, trail: TrailReader) -> Epochs | None:
        """Hold the trail from where the target is, and begin to follow it. Returns None when stopped before."""
        start = self._at()
        refuse_other_trail(self.job, trail, self._progress.checkpoint.position)
        self._with_room(lambda: retention.register(self.trail_directory, self.settings.names.apply, start))
        reach("apply.registered")
        self.watcher.slow(self._progress.totals)
        self.watcher.waiting("for the first epoch", Waiting.BEGIN)
        return self._with_room(
            lambda: self.engine.follow(self.trail_directory, self.spark_directory, start, self._epoch, self._at)
        )

    def _claimed(self, store: TargetStore, trail: TrailReader) -> Chores | None:
        """Claim the target. A target that is away or busy is waited for now: hours of loading may lie behind. Returns
        None when stopped."""
        return self._asked(store, lambda: self._chores(store, trail))

    def _asked(self, store: TargetStore, action: Callable[[], T]) -> T | None:
        """Run an action as soon as its end is there. Returns None when stopped before."""
        while not self.stop():
            found = self._patiently(store, action)
            if found is not None:
                return found
            time.sleep(pace.current.apply_tick)
        return None

    def _with_room(self, action: Callable[[], T]) -> T | None:
        """Run an action, and wait for room on the trail's disk as long as it is full, as capture does. Returns None
        when stopped before."""
        while not self.stop():
            try:
                return action()
            except StorageFull as full:
                log.get(job=self.job).warning("disk_full", error=full.message, **full.named())
                self.watcher.waiting(f"disk full: {full.message}", full)
                time.sleep(FULL_SECONDS)
        return None

    def _note_place(self) -> None:
        """Note how far the trail has been read. If there is no room for the note, more of the trail is kept; nothing
        else happens."""
        with suppress(StorageFull):
            retention.advance(self.trail_directory, self.settings.names.apply, self._at())

    def _chores(self, store: TargetStore, trail: TrailReader) -> Chores:
        """Claim the target, and begin where it is."""
        states = store.states.tables(self.job)
        is_guarded = self._is_guarded(states)
        opened = self.target.writer(self.rules, is_guarded)
        writer: StateWriter = opened if appending(opened) else merging(opened)
        try:
            owner = claim(self.job, writer)
        except TargetUnavailable:
            writer.close()
            raise
        enforced = writer.enforced()
        if is_guarded:
            self._tell_enforced(enforced, states)
        resolver, identity = WindowResolver(trail, self.source.order), trail.identity.source_identity
        asked = AskedSource(self.source, identity, self.rules)
        following = Following(self.target, self.rules, self.tables, self.settings, resolver, enforced.keys, asked)
        progress = Progress(
            self.job,
            trail,
            writer,
            store,
            owner,
            following.context,
            self.tables.target_of,
            self.settings,
            sweep=writer.sweep if isinstance(writer, StagedWriter) else lambda: None,
            patience=Patience(self.stop, self.settings.retry),
        )
        if isinstance(writer, LabelWriter):
            writer.follow_labels(needed_now(self.source, lambda: progress.states))
        finisher = Finisher(self.job, self.target, self.rules, self.tables, self.watcher.builds)
        applier = Applier(
            progress,
            self._carrier(progress, opened),
            Altering(
                progress,
                writer,
                self.tables,
                self._fit,
                lambda table, waits: finisher.make_way(table, self.stop, waits),
                Creating(self.job, self.target, self.rules, self.settings.choices),
            ),
            waiting=self.watcher.waiting,
            settled=lambda table: finisher.settle(table, self.stop),
            dropping=Dropping(progress, writer, self.tables, finisher.lets_go),
        )
        rereader = Rereader(self.source, resolver, self.rules, self.settings.lock, identity, self.stop)
        standing = PairStanding(self._is_compared)
        deletes = PairDeletes(self.source, resolver, self.settings.twin, self._is_compared)
        cleaning, heartbeats = Cleaning(writer), Heartbeats(writer, self.source)
        repairer = Repairer(rereader)
        chores = Chores(applier, following, rereader, repairer, finisher, standing, deletes, cleaning, heartbeats)
        _first_look(chores)
        refuse_far_cascades(progress.context, progress.states, store.states.others(self.job))
        chores.before_first_epoch()
        return chores

    def _fit(self, type: LogicalType) -> Fit:
        """Return how the target stores a type."""
        return self.target.types.fit(type, self.rules)

    def _is_compared(self) -> bool:
        """Return whether a verification compares both ends at one position: nothing else is written meanwhile."""
        return self._held.bound() is not None

    def _carrier(self, progress: Progress, writer: Writer) -> CarryOut:
        """Return the way of carrying out that this kind of target needs: it keeps changes, or rows."""
        if appending(writer):
            return AppendCarrier(progress, writer, StreamFilter(self.engine), self.settings.at_once)
        executors = Executors(
            self.job, self.trail_directory, self.target, self.rules, self.engine, self.settings.stage_rows
        )
        return MergeCarrier(progress, merging(writer), StreamFilter(self.engine), executors)

    def _tell_enforced(self, enforced: Enforced, states: Mapping[TableId, TableState]) -> None:
        """Tell what acts. A trigger can do so only where there is one; keys may be built later."""
        fires = enforced.triggers and self._guards(states).triggers
        self.watcher.enforcing(Enforced(enforced.keys, fires))
        facts = {"are": _on(enforced.keys)}
        if enforced.keys != enforced.triggers:
            facts = {"keys": _on(enforced.keys), "triggers": _on(enforced.triggers)}
        log.get(job=self.job).info("foreign_keys_and_triggers", **facts)

    def _is_guarded(self, states: Mapping[TableId, TableState]) -> bool:
        """Return whether foreign keys or triggers would react to what we write, now or once the source's keys are
        built."""
        schemas = [state.schema for state in states.values() if state.schema]
        if any(key.parent in states for schema in schemas for key in schema.foreign_keys):
            return True
        return bool(self._guards(states))

    def _guards(self, states: Mapping[TableId, TableState]) -> Enforced:
        """Return whether the target's tables have foreign keys and triggers now."""
        schemas = [state.schema for state in states.values() if state.schema]
        with closing(self.target.catalog()) as catalog:
            return catalog.guards([self.tables.target_table(schema) for schema in schemas])

    def _epoch(self, upto: int) -> None:
        """Apply up to a sequence; while a verification holds apply, up to its place first."""
        while (bound := self._held.bound()) is not None and bound < upto and not self.stop():
            if bound > self._at():
                self._apply(bound)
            else:
                self.watcher.waiting(FOR_VERIFICATION, Waiting.VERIFICATION)
                time.sleep(HELD_POLL)
        if bound is None or bound >= upto:
            self._apply(upto)

    def _apply(self, upto: int) -> None:
        progress = self._progress
        slow = progress.totals.slow_epochs
        if upto > self._at():  # it may last: with a backlog, or where each transaction is one of the target's
            self.watcher.streaming(self.chores.is_consistent)
        self.watcher.begins(upto)
        began = time.monotonic()
        self.chores.applier.apply(upto)
        progress.totals.busy_seconds += time.monotonic() - began
        self.watcher.applied(progress.checkpoint)
        self.watcher.counted(progress.totals)
        if progress.totals.slow_epochs > slow:
            self.watcher.slow(progress.totals)

    def _at(self) -> int:
        return self._progress.checkpoint.position.sequence

    def _loop(self, store: TargetStore) -> None:
        query = self.query
        next_chores = next_register = 0.0
        while not self.stop():
            try:
                query.wait(pace.current.apply_tick)
            except StorageFull:
                self._with_room(query.start_again)
            now = time.monotonic()
            if query.is_warm.is_set() and now >= next_chores:
                next_chores = now + pace.current.apply_chores
                self._do_chores(store)
            if now >= next_register:
                self._note_place()
                next_register = now + pace.current.apply_register

    def _do_chores(self, store: TargetStore) -> None:
        with self.query.idle:
            self._patiently(store, self._between_epochs)

    def _patiently(self, store: TargetStore, action: Callable[[], T]) -> T | None:
        """Run an action, and return None if an end is away. Raises once that lasts longer than an epoch would wait."""
        try:
            found = action()
        except (TargetUnavailable, SourceUnavailable) as lost:
            self.patience.failure(lost)
            log.get(job=self.job).warning("end_lost", error=lost.message, **lost.named())
            self.watcher.waiting(f"for an end that is away: {lost}", lost)
            store.close()
            return None
        self.patience.success()
        return found

    def _between_epochs(self) -> None:
        self.chores.do(self.query.done)
        self.watcher.applied(self._progress.checkpoint)
        is_consistent = self.chores.finish()
        self.watcher.streaming(is_consistent)


def _first_look(chores: Chores) -> None:
    """Take over what the target says, and carry out what is missing there. Closes the connections where that fails."""
    progress = chores.applier.progress
    try:
        progress.look()
    except BaseException:  # whatever it was: it may be waited for, with connections of its own, and is passed on
        chores.finisher.close()
        progress.writer.close()
        raise


def is_held(store: TargetStore, job: str) -> bool:
    """Return whether a cut-over holds the target: then nothing is applied, until it is taken back."""
    return Cutover.of(store.cutovers.cutover_notes(job)).holds_apply


def was_taken(store: TargetStore, job: str) -> bool:
    """Return whether it was a cut-over that has taken the checkpoint, also one that is taken back by now: no other apply."""
    found = store.jobs.checkpoint(job)
    return found is not None and found.owner.startswith(OWNER)


def _on(acts: bool) -> str:
    return "on" if acts else "off"
