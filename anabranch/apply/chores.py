"""Work that apply does between two epochs: pass over idle log, let tables come and go, read rows again, build keys.

What does not live here: when it is done, and what is reported about it (`run.py`); each single task (`life/`,
`aside/`).
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass

from anabranch.apply.aside.release import settle_wishes
from anabranch.apply.cleaning import Cleaning
from anabranch.apply.epoch import Applier
from anabranch.apply.following import Following
from anabranch.apply.heartbeats import Heartbeats
from anabranch.apply.life.finish import Finisher
from anabranch.apply.life.join import join_loaded
from anabranch.apply.life.repair import Repairer
from anabranch.apply.life.reread import Rereader
from anabranch.apply.life.taking_out import forget_unbuilt, let_leave
from anabranch.apply.pair_deletes import PairDeletes
from anabranch.apply.pair_standing import PairStanding
from anabranch.failpoints import reach
from anabranch.model.position import Position
from anabranch.model.table_life import TableState, note_built


@dataclass(frozen=True)
class Chores:
    """The tasks of apply between two epochs. The thread that applies calls them, never during an epoch. Each may be
    repeated after any error."""

    applier: Applier
    following: Following
    rereader: Rereader
    repairer: Repairer
    finisher: Finisher
    standing: PairStanding
    deletes: PairDeletes
    cleaning: Cleaning
    heartbeats: Heartbeats

    def __post_init__(self) -> None:
        self.applier.leaving = lambda: let_leave(self.applier.progress, self._take_off, self.finisher.lets_go)

    @property
    def is_consistent(self) -> bool:
        return not any(state.is_loading for state in self.applier.progress.states.values())

    def before_first_epoch(self) -> None:
        progress = self.applier.progress
        let_leave(progress, self._take_off)  # the first epoch may fail at what the table is loaded again for,
        settle_wishes(self.applier, self.following)  # or a row that a person has just released
        forget_unbuilt(progress)
        self.applier.altering.park_left_behind()

    def do(self, done: int) -> None:
        """Do everything except building. `done`: the sequence up to which epochs were carried out."""
        progress = self.applier.progress
        progress.look_for_another()
        if progress.checkpoint.position.sequence < done:  # the target lost its last commits
            self.applier.apply(done)
        end, at = progress.trail.end(), progress.checkpoint.position
        is_past = end.position.native != at.native and not progress.settings.rests
        if end.position.sequence == at.sequence and (is_past or self._has_ended_windows()):
            progress.move_on(Position(at.sequence, end.position.native), end.commit_time)
        self.rereader.look(self.applier)
        self.applier.leaving()
        settle_wishes(self.applier, self.following)
        join_loaded(self.applier, self.following)
        self.repairer.look(self.applier)
        self.standing.look(self.applier)
        self.deletes.look(self.applier)
        self.cleaning.look()
        self.heartbeats.look(progress)

    def finish(self) -> bool:
        """Note what was built, and start building what is left, once everything is consistent. Returns whether it is."""
        if not self.is_consistent:
            return False
        progress = self.applier.progress
        results = self.finisher.take_results(progress.states)
        if built := [note_built(progress.states[table], points) for table, points in results]:
            reach("apply.built.told")
            progress.save(*built)
            progress.ask_again()  # keys that were taken off for the load are built again
        self.finisher.start(progress.states)
        return True

    def _has_ended_windows(self) -> bool:
        progress = self.applier.progress
        at = progress.checkpoint.position.sequence
        return any(
            progress.states[table].is_loading and followed.high <= at
            for table, followed in progress.context.tables.items()
        )

    def _take_off(self, state: TableState) -> None:
        """Remove the keys of a table that is taken out. Its load puts them back."""
        if state.schema is None:
            return
        table = self.following.rule_set.target_table(state.schema)
        with closing(self.following.target.tables(self.following.rules)) as tables:
            tables.take_off_keys(self.applier.progress.job, table)
