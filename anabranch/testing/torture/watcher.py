"""Watch the target as a reader: all tables of a history in one snapshot, again and again, while the job runs.

What does not live here: how a target shows its tables in one snapshot (targets.Snapshots), whether what is seen is right
(check.py).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from anabranch.testing.databases import Database
from anabranch.testing.torture.tables import LEDGER, LEDGER_COLUMNS, Schema
from anabranch.testing.torture.targets import family_at

REST = 0.005  # seconds between two observations
WAIT_SECONDS = 0.1  # between two questions whether all tables stream
LONGEST_LOOK = 180.0  # seconds until a look that does not end is an error of the kit


@dataclass(slots=True, eq=False)
class Observation:
    """Keep one snapshot's rows by table, as they came (targets.Snapshot). Rows that did not change stay the same object.

    `times`: how many in a row showed the same. `more`: tables that are no part of the history. `away`: tables that the job
    says are loading or parked, in the same snapshot."""

    number: int
    contents: dict[str, bytes] = field(repr=False)
    times: int = 1
    more: dict[str, bytes] = field(default_factory=dict, repr=False)
    away: frozenset[str] = frozenset()


class Watcher:
    """Observes from `start` to `stop`, one that `waits` from when every table streams; the target may go away meanwhile. An
    observation that shows what the one before it showed is counted, not kept. `drops`: History.drops."""

    def __init__(
        self,
        target: Database,
        namespace: str,
        schema: Schema,
        beside: Sequence[str] = (),
        rest: float = REST,
        waits: bool = False,
        drops: str = "",
    ) -> None:
        self.rest, self.waits = rest, waits
        columns = {LEDGER: LEDGER_COLUMNS, **{table.name: table.columns for table in schema.steady}}
        passing = {name: [t.columns for t in tables] for name, tables in schema.passing(drops).items()}
        self.tables = (*columns, *passing)
        family = family_at(target)
        self._snapshots = family.tables(target, namespace).snapshots(columns, beside, passing)
        self._lost = family.lost
        self.observations: list[Observation] = []
        self.made = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._failure: BaseException | None = None
        self.missed = ""  # why the last look came to nothing, where one did

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Raises what the watching died of."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(LONGEST_LOOK)
        if self._thread.is_alive():
            raise RuntimeError(
                f"a look at the target took {LONGEST_LOOK:.0f} s; before it: {self.missed or 'no error'}"
            )
        if self._failure is not None:
            raise self._failure

    def close(self) -> None:
        self._snapshots.close()

    def observe(self) -> Observation:
        """One more, now. Raises the driver's error."""
        last = self.observations[-1] if self.observations else None
        read = self._snapshots.read()
        contents, more, away = dict(read.tables), dict(read.beside), read.away
        if last is not None:
            for table, seen in last.contents.items():
                if contents[table] == seen:
                    contents[table] = seen
        self.made += 1
        is_new = last is None or any(contents[table] is not last.contents[table] for table in self.tables)
        if last is None or is_new or (more, away) != (last.more, last.away):
            last = Observation(self.made, contents, more=more, away=away)
            self.observations.append(last)
        else:
            last.times += 1
        return last

    def observe_last(self, seconds: float) -> Observation:
        """One more, of a target that may be about to come back."""
        deadline = time.monotonic() + seconds
        while (seen := self._try()) is None:
            if time.monotonic() > deadline:
                return self.observe()
        while self._has_more():
            seen = self._try() or seen
        return seen

    def _has_more(self) -> bool:
        """Return whether the target has shown less than it has. Raises the driver's error."""
        return self._snapshots.has_more

    def _try(self) -> Observation | None:
        """Observe once; None where the target is gone, or restarting."""
        try:
            return self.observe()
        except self._lost as error:
            self.missed = str(error).strip()
            self.close()
            time.sleep(0.05)
            return None

    def _watch(self) -> None:
        try:
            while self.waits and not self._streams():
                if self._stop.wait(WAIT_SECONDS):
                    return
            while not self._stop.wait(self.rest):
                self._try()
        except BaseException as error:  # noqa: BLE001 - carried over to the thread that stops us
            self._failure = error

    def _streams(self) -> bool:
        try:
            return self._snapshots.streams()
        except self._lost:
            return False
