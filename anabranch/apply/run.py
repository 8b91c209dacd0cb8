"""The apply process: waits for trail and load, follows the trail, lets tables join, builds what waits for consistency.

Delivery: see `epoch.py`. Everything kept here can be rebuilt from the target and the trail.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeVar

from anabranch import log, pace
from anabranch.apply.abilities import merging
from anabranch.apply.aside.release import settle_wishes
from anabranch.apply.cascades.cascade import refuse_far_cascades
from anabranch.apply.cascades.computed import AskedSource
from anabranch.apply.epoch import Applier
from anabranch.apply.filter import StreamFilter
from anabranch.apply.following import Following
from anabranch.apply.labels import needed_now
from anabranch.apply.life.finish import Finisher
from anabranch.apply.life.join import join_loaded
from anabranch.apply.life.repair import Repairer
from anabranch.apply.life.reread import Rereader
from anabranch.apply.life.taking_out import forget_unbuilt, let_leave
from anabranch.apply.patience import Patience
from anabranch.apply.same_trail import refuse_other_trail
from anabranch.apply.staging import Executors
from anabranch.apply.told import Totals
from anabranch.apply.window import WindowResolver
from anabranch.contracts import Emptying, LabelWriter, RowTarget, SourceConnector, TargetStore, ValueRules
from anabranch.errors import AnabranchError, SourceUnavailable, StorageFull, TargetUnavailable, TrailError
from anabranch.failpoints import reach
from anabranch.model.condition import Waiting
from anabranch.model.endpoint import USUAL, EndLimits
from anabranch.model.ids import TableId
from anabranch.model.position import Position
from anabranch.model.schema import TableSchema
from anabranch.model.state import Checkpoint
from anabranch.model.table_life import TableState, note_built
from anabranch.rows.conflict import ConflictPolicy
from anabranch.rows.net import TargetTable
from anabranch.rules.rule_set import Filter
from anabranch.spark.engine import Engine, Epochs
from anabranch.trail import retention
from anabranch.trail.reader import TrailReader

BEGINS = ("", Waiting.LOAD)  # nothing is missing
FULL_SECONDS = 1.0  # between two looks whether a full disk has room
T = TypeVar("T")


class Watcher(Protocol):
    """Who is told how far apply is."""

    def waiting(self, why: str, on: Waiting | AnabranchError) -> None:
        """`on`: what for, in one word, or the error behind it."""

    def counted(self, totals: Totals) -> None:
        """Now and then."""

    def streaming(self, consistent: bool) -> None: ...

    def enforcing(self, keys: bool) -> None:
        """Do foreign keys and triggers of the target act on what is applied?"""

    def applied(self, checkpoint: Checkpoint) -> None: ...

    def slow(self, totals: Totals) -> None:
        """There are more slow epochs than when it was last called, or this is the start."""


@dataclass
class ApplyRun:
    """One run of apply. `stop` is asked between epochs; the running one finishes."""

    job: str
    trail_directory: Path
    spark_directory: Path
    source: SourceConnector
    target: RowTarget
    rules: ValueRules
    target_of: Callable[[TableId], TableId | None]
    target_table: Callable[[TableSchema], TargetTable]
    where: Callable[[TableSchema], Filter | None]
    on_conflict: Callable[[TableSchema], ConflictPolicy]
    logs_cascades: bool
    truncate: Emptying
    lock: str
    per_transaction: bool
    parks: bool
    sets_aside: bool
    aside_limit: int
    stage_rows: int | None
    engine: Engine
    stop: Callable[[], bool]
    watcher: Watcher
    names: retention.Names = field(default_factory=retention.Names)  # of what this target holds of the trail
    retry: EndLimits = USUAL  # how long the target is waited for
    resolver: WindowResolver = field(init=False)
    rereader: Rereader = field(init=False)
    repairer: Repairer = field(init=False)
    applier: Applier = field(init=False)
    following: Following = field(init=False)
    finisher: Finisher = field(init=False)
    query: Epochs = field(init=False)
    patience: Patience = field(init=False)

    def __post_init__(self) -> None:
        self.patience = Patience(retry=self.retry)

    def run(self) -> None:
        """Returns when `stop` says so. Raises what a person has to look at."""
        self.engine.warm_up()
        store = self.target.store()
        try:
            trail = self._wait_for_load(store)
            if trail is not None:
                self._follow(store, trail)
        finally:
            store.close()

    # --- before the first epoch ----------------------------------------------------------------------------------

    def _wait_for_load(self, store: TargetStore) -> TrailReader | None:
        """The trail once every table is loaded and the trail reaches past every load window; None when stopped."""
        store.exists()  # a target that is away at the start is an error at once
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
        states = store.states.tables(self.job)
        if not states:
            return "for the load to begin", Waiting.LOAD
        first = {t: s for t, s in states.items() if s.is_before_stream and not s.is_joining}
        loading = [str(table) for table, state in first.items() if not state.is_followed]
        if loading:
            return f"for the load of {len(loading)} tables ({', '.join(loading[:3])} …)", Waiting.LOAD
        resolver = WindowResolver(TrailReader(self.trail_directory), self.source.order)
        if not all(resolver.reached(state) for state in first.values()):
            return "for capture to pass the positions of the load", Waiting.LOAD
        return BEGINS

    # --- following ---------------------------------------------------------------------------------------------------

    def _follow(self, store: TargetStore, trail: TrailReader) -> None:
        applier = self._claimed(store, trail)
        if applier is None:
            return
        self.applier = applier
        self.finisher = Finisher(self.job, self.target, self.rules, self.target_table)
        query: Epochs | None = None
        try:
            query = self._begun(trail)
            if query is not None:
                self.query = query
                self._loop(store)
            self.finisher.raise_sequences(self.applier.states)
        except TrailError:
            with suppress(TargetUnavailable):
                applier.look_for_another()  # who took over has read on, and what this one misses may be gone since
            raise
        finally:
            if query is not None:
                query.stop()
                self._note_place()
            self.finisher.close()
            self.applier.writer.close()

    def _begun(self, trail: TrailReader) -> Epochs | None:
        """The trail is held from where the target is, and followed. None when stopped before."""
        start = self.applier.checkpoint.position.sequence
        refuse_other_trail(self.job, trail, self.applier.checkpoint.position)
        self._with_room(lambda: retention.register(self.trail_directory, self.names.apply, start))
        reach("apply.registered")
        self.watcher.slow(self.applier.totals)
        self.watcher.waiting("for the first epoch", Waiting.BEGIN)
        return self._with_room(
            lambda: self.engine.follow(self.trail_directory, self.spark_directory, start, self._epoch, self._at)
        )

    def _claimed(self, store: TargetStore, trail: TrailReader) -> Applier | None:
        """A target that is away, or in the way, now is waited for: hours of loading may lie before. None when stopped."""
        while not self.stop():
            applier = self._patiently(store, lambda: self._applier(store, trail))
            if applier is not None:
                return applier
            time.sleep(pace.current.apply_tick)
        return None

    def _with_room(self, action: Callable[[], T]) -> T | None:
        """Does it; waits meanwhile for room on the disk beside the trail, as capture does. None when stopped before."""
        while not self.stop():
            try:
                return action()
            except StorageFull as full:
                log.get(job=self.job).warning("disk_full", error=full.message, **full.named())
                self.watcher.waiting(f"disk full: {full.message}", full)
                time.sleep(FULL_SECONDS)
        return None

    def _note_place(self) -> None:
        """How far the trail has been read. That it cannot be noted keeps more of the trail, and nothing else."""
        with suppress(StorageFull):
            retention.advance(self.trail_directory, self.names.apply, self.applier.checkpoint.position.sequence)

    def _applier(self, store: TargetStore, trail: TrailReader) -> Applier:
        owner = uuid.uuid4().hex
        is_guarded = self._is_guarded(store.states.tables(self.job))
        writer = merging(self.target.writer(self.rules, is_guarded))
        reach("apply.claim")
        try:
            writer.claim(self.job, owner)
        except TargetUnavailable:
            writer.close()
            raise
        reach("apply.claimed")
        self.resolver = WindowResolver(trail, self.source.order)
        identity = trail.identity.source_identity
        self.rereader = Rereader(self.source, self.resolver, self.rules, self.lock, identity, self.stop)
        self.repairer = Repairer(self.rereader)
        enforced = writer.enforced()
        if is_guarded:
            self.watcher.enforcing(enforced.keys or enforced.triggers)
            facts = {"are": _on(enforced.keys)}
            if enforced.keys != enforced.triggers:
                facts = {"keys": _on(enforced.keys), "triggers": _on(enforced.triggers)}
            log.get(job=self.job).info("foreign_keys_and_triggers", **facts)
        self.following = Following(
            self.target,
            self.rules,
            self.target_table,
            self.where,
            self.on_conflict,
            self.logs_cascades,
            self.truncate,
            self.resolver,
            enforced.keys,
            AskedSource(self.source, identity, self.rules),
        )
        applier = Applier(
            self.job,
            trail,
            writer,
            store,
            owner,
            self.following.context,
            self.target_of,
            filtered=StreamFilter(self.engine),
            per_transaction=self.per_transaction,
            parks=self.parks,
            sets_aside=self.sets_aside,
            aside_limit=self.aside_limit,
            stop=self.stop,
            waiting=self.watcher.waiting,
            settled=lambda table: self.finisher.settle(table, self.stop),
            executors=Executors(self.job, self.trail_directory, self.target, self.rules, self.engine, self.stage_rows),
            names=self.names,
            retry=self.retry,
        )
        if isinstance(writer, LabelWriter):
            writer.follow_labels(needed_now(self.source, lambda: applier.states))
        applier.look()
        refuse_far_cascades(applier.context, applier.states, store.states.others(self.job))
        let_leave(applier, self._take_off)  # the first epoch may meet what the table is loaded again for,
        settle_wishes(applier, self.following)  # or a row that a person has just released
        forget_unbuilt(applier)
        return applier

    def _take_off(self, state: TableState) -> None:
        """The keys of a table that leaves. Its load puts them back."""
        if state.schema is None:
            return
        with closing(self.target.tables(self.rules)) as tables:
            tables.take_off_keys(self.job, self.target_table(state.schema))

    def _is_guarded(self, states: Mapping[TableId, TableState]) -> bool:
        """Are there foreign keys or triggers that would react to what we write, now or once the source's are built?"""
        schemas = [state.schema for state in states.values() if state.schema]
        if any(key.parent in states for schema in schemas for key in schema.foreign_keys):
            return True
        with closing(self.target.catalog()) as catalog:
            return catalog.has_guards([self.target_table(schema) for schema in schemas])

    def _epoch(self, upto: int) -> None:
        slow = self.applier.totals.slow_epochs
        if upto > self._at():  # it may last: with a backlog, or where each transaction is one of the target's
            self.watcher.streaming(self._is_consistent())
        self.applier.apply(upto)
        self.watcher.applied(self.applier.checkpoint)
        self.watcher.counted(self.applier.totals)
        if self.applier.totals.slow_epochs > slow:
            self.watcher.slow(self.applier.totals)

    def _at(self) -> int:
        return self.applier.checkpoint.position.sequence

    def _is_consistent(self) -> bool:
        return not any(state.is_loading for state in self.applier.states.values())

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
            self._patiently(store, self._chores)

    def _patiently(self, store: TargetStore, action: Callable[[], T]) -> T | None:
        """An end that is away is tried again for as long as an epoch would; None meanwhile."""
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

    def _chores(self) -> None:
        """Between two epochs: positions over idle log, tables that join, windows that end, what to build then."""
        applier = self.applier
        applier.look_for_another()
        if self._at() < self.query.done:  # the target lost its last commits
            applier.apply(self.query.done)
        end = applier.trail.end()
        at = applier.checkpoint.position
        if end.position.sequence == at.sequence and (end.position.native != at.native or self._has_ended_windows()):
            applier.move_on(Position(at.sequence, end.position.native), end.commit_time)
        self.rereader.look(applier)
        let_leave(applier, self._take_off, self.finisher.lets_go)
        settle_wishes(applier, self.following)
        join_loaded(applier, self.following)
        self.repairer.look(applier)
        self.watcher.applied(applier.checkpoint)
        if consistent := self._is_consistent():
            results = self.finisher.take_results(applier.states)
            if built := [note_built(applier.states[table], points) for table, points in results]:
                reach("apply.built.told")
                applier.save_all(built)
                applier.ask_again()  # keys that were taken off for the load stand again
            self.finisher.start(applier.states)
        self.watcher.streaming(consistent)

    def _has_ended_windows(self) -> bool:
        at = self.applier.checkpoint.position.sequence
        return any(
            self.applier.states[table].is_loading and followed.high <= at
            for table, followed in self.applier.context.tables.items()
        )


def _on(acts: bool) -> str:
    return "on" if acts else "off"
