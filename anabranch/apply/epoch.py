"""Takes a target along its trail, epoch by epoch: waits for an end that is away, parks tables whose rows are refused,
leaves out transactions that a person chose to skip.

What does not live here: carrying an epoch out (`carry_out.py`), the checkpoint and its guarantees (`progress.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from anabranch import log
from anabranch.apply.altering import Altering
from anabranch.apply.carry_out import CarryOut
from anabranch.apply.dropping import Dropping
from anabranch.apply.feed import Feed, stops
from anabranch.apply.life.park import is_told, parked_with, refused_table
from anabranch.apply.progress import Progress
from anabranch.apply.same_trail import refuse_other_trail
from anabranch.errors import (
    AnabranchError,
    Redefined,
    RowRefused,
    SourceUnavailable,
    TargetBusy,
    TargetFull,
    TargetUnavailable,
)
from anabranch.failpoints import reach
from anabranch.model.ids import TableId
from anabranch.model.position import Position
from anabranch.model.table_life import TableState
from anabranch.trail import retention

EVENTS: dict[type[AnabranchError], str] = {TargetBusy: "target_busy", TargetFull: "target_full"}


@dataclass
class Applier:
    """Applies a job's trail to its target. One per apply process, one thread at a time."""

    progress: Progress
    carrier: CarryOut
    altering: Altering
    waiting: Callable[[str, AnabranchError], None] = lambda why, error: None  # is told what for
    settled: Callable[[TableId], bool] = lambda table: False  # waits for keys that are being built: were there any?
    dropping: Dropping | None = None  # None: a job without tables that are dropped on the way
    leaving: Callable[[], None] = lambda: None  # takes out the tables that a load asks for

    def __post_init__(self) -> None:
        self.progress.catch_up = self._catch_up

    def apply(self, upto: int) -> None:
        """Carry out the transactions after the checkpoint, up to sequence `upto`. Waits for an end that is away or
        full."""
        progress = self.progress
        refusal: RowRefused | None = None
        while True:
            try:
                progress.look()
                if refusal is not None and self._may_park(refusal):  # the look may have parked it
                    self._park(refusal)
                refusal, slow = None, progress.totals.slow_epochs
                self._advance(upto)
                if progress.totals.slow_epochs > slow:
                    progress.ask_again()  # a key of the target may be new
            except (TargetUnavailable, SourceUnavailable) as lost:  # the source may be asked for what it computes
                self._wait_for_end(lost)
            except RowRefused as error:
                progress.writer.rollback()
                if self._had_half_built_keys(error):
                    continue
                if early := self._before_capture(error):
                    self._wait_for_end(early)
                    continue
                refusal = error
                if not self._may_park(error):
                    raise
            else:
                return progress.patience.success()

    def take_out(self, refusal: RowRefused) -> bool:
        """Park the refused table between two epochs. Returns False where the job does not want that, or the refusal is
        about no followed table."""
        if not self._may_park(refusal):
            return False
        self.progress.back_out()
        self._park(refusal)
        return True

    def _catch_up(self) -> None:
        """Carry out what is missing before the last transaction that is applied beyond the checkpoint. A table that cannot be
        followed any more leaves first."""
        progress = self.progress
        self.leaving()
        last = Position(*max(progress.ahead.items()))
        for place in (progress.checkpoint.position, last):
            refuse_other_trail(progress.job, progress.trail, place)
        log.get(job=progress.job).info("transactions_between", number=len(progress.ahead), upto=str(last))
        while True:
            try:
                return self._advance(last.sequence)
            except Redefined as error:
                progress.writer.rollback()
                if early := self._before_capture(error):
                    raise early from error
                if not self._may_park(error):
                    raise
                self._park(error)

    # --- along the trail ---------------------------------------------------------------------------------------------

    def _advance(self, upto: int) -> None:
        progress, at = self.progress, self.progress.checkpoint.position.sequence
        altered = set(progress.trail.history.altered_between(at, upto))
        for stop in stops(altered.union(progress.skipped), at, upto):
            self._carry_on(stop.before)
            if stop.skipped is None:
                continue
            if stop.skipped not in progress.skipped:
                self._alter(stop.skipped)
                continue
            self._pass_over(stop.skipped)
            if stop.skipped in altered:
                self.altering.park_left_behind()

    def _alter(self, sequence: int) -> None:
        if self.dropping is not None and self.progress.trail.history.drops_at(sequence):
            self.dropping.carry_out(sequence)
        else:
            self.altering.carry_out(sequence)

    def carry_out_behind(self, sequence: int, group: Sequence[TableState]) -> list[TableState]:
        """Carry out a change of tables that resume, and have come to it. Returns their states, without those that it drops."""
        if self.dropping is not None and self.progress.trail.history.drops_at(sequence):
            return self.dropping.carry_out_behind(sequence, group)
        return self.altering.carry_out_behind(sequence, group)

    def _carry_on(self, upto: int) -> None:
        at = self.progress.checkpoint.position.sequence
        if upto > at:
            self.carrier.carry_out(Feed(self.progress.trail, at, upto))

    def _pass_over(self, sequence: int) -> None:
        """Move the checkpoint past a transaction that is left out."""
        where = self.progress.where(sequence)
        log.get(job=self.progress.job).warning("transaction_skipped", position=where.position)
        self.progress.move_on(Position.parse(where.position), where.commit_time)

    # --- what the target refuses ---------------------------------------------------------------------------------------

    def _may_park(self, refusal: RowRefused) -> bool:
        """Return whether a table is parked for this. With transactions applied beyond the checkpoint it has no one place of the
        log from which to go on: then only one that has to be loaded again is."""
        settings, is_redefined = self.progress.settings, isinstance(refusal, Redefined)
        asked_for = settings.parks or (refusal.is_taken and settings.parks_taken)
        may = is_redefined or (asked_for and not self.progress.ahead)
        return may and refused_table(refusal, self.progress.context) is not None

    def _before_capture(self, refusal: RowRefused) -> SourceUnavailable | None:
        """Return what to wait for where the source defines the table otherwise, and the trail does not say so yet."""
        progress = self.progress
        if not isinstance(refusal, Redefined):
            return None
        if is_told(refusal, progress.context, progress.trail, progress.checkpoint):
            return None
        return SourceUnavailable(f"capture has not read of it yet: {refusal}", table=refusal.table)

    def _had_half_built_keys(self, refusal: RowRefused) -> bool:
        """Return whether keys of the table were being built, so that the refused change is worth another try. Until its
        index has become the constraint, a deferrable unique key is checked immediately (K8)."""
        table = refused_table(refusal, self.progress.context)
        if table is None or not self.settled(table):
            return False
        log.get(job=self.progress.job, table=str(table)).info("tried_again_behind_new_keys", reason=refusal.message)
        self.progress.ask_again()
        return True

    def _park(self, refusal: RowRefused) -> None:
        """Park the refused table and those that go with it. The trail is held for them before the target says so."""
        progress = self.progress
        table, at = refused_table(refusal, progress.context), progress.checkpoint.position
        parked = parked_with(table, refusal, at, progress.states) if table else []
        for state in parked:
            if state.facts.resumes is not None:
                retention.hold(progress.trail.directory, progress.settings.names.table(state.source), at.sequence)
        reach("apply.parking")
        progress.park(*parked)
        for state in parked:
            log.get(job=progress.job, table=str(state.source)).warning("table_parked", reason=state.reason)

    # --- an end that is away --------------------------------------------------------------------------------------------

    def _wait_for_end(self, lost: TargetUnavailable | SourceUnavailable) -> None:
        """Wait, and close the connections. The same work is then tried again over new ones: the checkpoint row says
        what is left of it."""
        progress = self.progress
        progress.ask_again()
        pause = progress.patience.failure(lost)
        end = "source" if isinstance(lost, SourceUnavailable) else "target"
        event = EVENTS.get(type(lost), f"{end}_lost")
        log.get(job=progress.job).warning(event, error=lost.message, retry_in=pause, **lost.named())
        self.waiting(f"for the {end}: {lost}", lost)
        progress.writer.close()
        progress.store.close()
        progress.patience.wait(pause)
