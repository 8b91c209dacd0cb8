"""One seed: its history, its faults, and the job that carries them.

What does not live here: which seeds (campaign.py), what a history is and how it is judged (run.py).
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from anabranch.testing.databases import Database
from anabranch.testing.torture.choices import draw_options
from anabranch.testing.torture.contract import Fault, Pipeline, is_apart
from anabranch.testing.torture.deeds import deed_faults, draw_deed
from anabranch.testing.torture.draw import draw_history
from anabranch.testing.torture.emptying import emptying_faults
from anabranch.testing.torture.ends import version_of
from anabranch.testing.torture.faults_plan import ON_SERVERS, draw_faults, faults_of_changes
from anabranch.testing.torture.ground import Ground
from anabranch.testing.torture.growing import growing_faults, may_grow
from anabranch.testing.torture.history import History
from anabranch.testing.torture.passing import may_pass, passing_faults
from anabranch.testing.torture.pipeline import LocalPipeline, Restart
from anabranch.testing.torture.place import Place
from anabranch.testing.torture.postgresql_tables import NAMES_PARTITIONS
from anabranch.testing.torture.run import PATIENCE, Result, run_history
from anabranch.testing.torture.second import spread
from anabranch.testing.torture.spark_pipeline import SparkPipeline, spark_faults

SPARK_PATIENCE = 500.0  # it starts twice, and again after each kill
NAMED_PATIENCE = 400.0  # decoders that write a row's names and all of its values: a large transaction takes them long


@dataclass(frozen=True)
class One:
    """Runs one history: where, and how."""

    ground: Ground
    directory: Path
    with_spark: bool = False
    restart: Restart | None = None  # instead of the ground's own way

    def __post_init__(self) -> None:
        if self.with_spark:  # one target, the ground's
            self.ground.turns = False

    def drawn(self, seed: int) -> tuple[History, tuple[Fault, ...]]:
        source = self.ground.source_of(seed)
        unchecked = self.ground.target_of(seed) is not self.ground.plain
        keeps = self.ground.family.keeps_changes
        deed = None if self.with_spark or keeps else draw_deed(seed)
        apart = deed is not None and deed.needs_apart
        history = draw_history(
            seed,
            source.name,
            version_of(source),
            unchecked=unchecked,
            apart=apart,
            decoder=self.ground.decoder_of(seed),
            target=self.ground.holding_of(seed),
            grows=deed is None and not (self.with_spark or keeps) and may_grow(seed),
            passes=deed is None and not (self.with_spark or keeps) and may_pass(seed),
        )
        if self.with_spark:
            return history, spark_faults(seed)
        faults = draw_faults(seed, with_servers=self.ground.is_ours)
        if keeps:
            return history, faults_of_changes(seed, faults, self.ground.family.form)
        sakes = (*deed_faults(seed), *emptying_faults(history, self.ground.target_of(seed)))
        sakes = (*sakes, *growing_faults(history), *passing_faults(history))
        more = [one for one in sakes if one.where not in [fault.where for fault in faults]]
        if second := self.second_of(seed):
            faults = spread(faults, seed, apart=is_apart((self.ground.target_of(seed), second)))
        return history, (*faults, *more)

    def second_of(self, seed: int) -> Database | None:
        """The other target of the job, where it has two; `run` with Spark has one, and a deed that shows keys at the target."""
        deed = draw_deed(seed)
        if self.ground.family.keeps_changes:
            return None
        return None if self.with_spark or (deed and deed.shows_keys) else self.ground.second_of(seed)

    def run(self, history: History, faults: Sequence[Fault]) -> Result:
        """Raises what is wrong with the servers or the kit. What the job left is kept where it failed. Where there is no second
        target any more, its faults are the first one's."""
        source, target = self.ground.source_of(history.seed), self.ground.target_of(history.seed)
        directory = self.directory / history.database
        shutil.rmtree(directory, ignore_errors=True)
        second = self.second_of(history.seed)
        faults = faults if second else [replace(fault, at="") for fault in faults]
        place = Place(
            history.database,
            source,
            target,
            directory,
            second=second,
            decoder=history.decoder,
            users=self.ground.users_of(history.seed),
            options=[draw_options(history.seed, one) for one in (target, second) if one],
        )
        pipeline = self._pipeline(place, history, faults)
        patience = NAMED_PATIENCE if history.decoder in NAMES_PARTITIONS else PATIENCE
        patience = SPARK_PATIENCE if self.with_spark else patience
        result = run_history(history, source, target, pipeline, patience=patience)
        if result.failure is None:
            shutil.rmtree(directory, ignore_errors=True)
        return result

    def _pipeline(self, place: Place, history: History, faults: Sequence[Fault]) -> Pipeline:
        if self.with_spark:
            return SparkPipeline(place, faults)

        def restart(where: str, loses: bool) -> None:
            where = self.ground.named(where, history.seed)
            if self.restart:
                self.restart(where, loses)
            else:
                self.ground.restart(where, place.source.name, loses)

        return LocalPipeline(place, faults, history.seed, restart, history)


def concerns_servers(faults: Sequence[Fault]) -> bool:
    """Then no other history may run meanwhile."""
    return any(fault.kind in ON_SERVERS for fault in faults)
