"""Reading rows from the source again that the load window could not complete (K3).

A partial image found no row, because a key had moved between two chunks; or a cascade moved children whose parent had
taken over another one's value (cascades/takeovers.py). The keys are kept with the table's state. Once the stream is
past the window, their rows are read in a snapshot, the stream is carried out up to where that snapshot begins, and the
rows are written. The changes between the snapshot's two marks are the table's last window.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from anabranch import log
from anabranch.apply.context import Followed
from anabranch.apply.epoch import Applier
from anabranch.apply.progress import Progress
from anabranch.apply.window import WindowResolver
from anabranch.apply.work import Texts, key_of
from anabranch.contracts import SourceConnector, ValueRules
from anabranch.errors import RowRefused, ValueRefused
from anabranch.failpoints import reach
from anabranch.model.ids import TableId
from anabranch.model.table_life import TableState, open_window
from anabranch.rows.lines import parse_line
from anabranch.rows.net import DELETE, INSERT, RowChange, TargetTable

PATIENCE = 10.0  # seconds that the stream is held until capture has passed the snapshot
POLL = 0.05


class Rereader:
    """Reads rows again, between two epochs."""

    def __init__(
        self,
        source: SourceConnector,
        resolver: WindowResolver,
        rules: ValueRules,
        lock: str,
        identity: str,
        stop: Callable[[], bool],
    ) -> None:
        self.source, self.resolver, self.rules, self.lock = source, resolver, rules, lock
        self.identity, self.stop = identity, stop

    def look(self, applier: Applier) -> None:
        """Read rows again in tables whose window has passed."""
        progress = applier.progress
        for table, followed in list(progress.context.tables.items()):
            state = progress.states[table]
            is_followed = table in progress.context.tables  # not parked meanwhile
            if is_followed and state.facts.reread and self._is_passed(progress, state):
                try:
                    self._read_again(applier, followed, state)
                except RowRefused as refusal:
                    if not applier.take_out(refusal):
                        raise

    def _is_passed(self, progress: Progress, state: TableState) -> bool:
        return self.resolver.window(state)[1] <= progress.checkpoint.position.sequence

    def _read_again(self, applier: Applier, followed: Followed, state: TableState) -> None:
        keys = state.facts.reread
        names = dict(zip(followed.table.columns, followed.table.source_columns, strict=True))
        snapshot = self.source.snapshot(self.identity)
        try:
            low, high = snapshot.open(followed.schema, self.lock)
            wanted = [{names[name]: value for name, value in key.items()} for key in keys]
            lines = b"".join(snapshot.lines_of(followed.schema, followed.table.source_columns, wanted, self.rules))
        except ValueRefused as refusal:  # treated like any other row that cannot be applied
            raise RowRefused(refusal.message, table=refusal.table, hint=refusal.hint) from refusal
        finally:
            snapshot.close()
        reach("apply.reread")
        if self.is_reached(replace(state, high=json.dumps([high.resume]))):
            at = self.resolver.low(low.resume)
            if (
                at >= applier.progress.checkpoint.position.sequence
            ):  # else the snapshot lacks what the target has: try again soon
                applier.apply(at)
                self._put(applier, state.source, keys, high.resume, lines)

    def _put(self, applier: Applier, table: TableId, keys: Sequence[Texts], high: str, lines: bytes) -> None:
        """Write the rows. The target is where the snapshot is, except for what came between the snapshot's two marks."""
        progress = applier.progress
        followed = progress.context.tables.get(table)
        if followed is None:
            return  # parked meanwhile
        state, target = progress.states[table], followed.table
        left = [key for key in state.facts.reread if key not in keys]
        at = progress.checkpoint.position.sequence
        last = max(at, self.resolver.high(high))
        read = open_window(state, at, last).with_waiting(left)
        waiting = frozenset(key_of(target, key) for key in left)
        window = replace(followed, low=at, high=last, takeovers={}, waiting=waiting, loaded=None)
        applier.carrier.put(read, _changes(target, keys, lines), window)
        log.get(job=progress.job, table=str(table)).info("rows_read_again", keys=len(keys), left=len(left))

    def is_reached(self, read: TableState) -> bool:
        """Hold the stream until capture is past the snapshot. Returns False if that takes too long, as when capture is
        away: try later."""
        until = time.monotonic() + PATIENCE
        while not self.resolver.reached(read):
            if time.monotonic() > until or self.stop():
                return False
            time.sleep(POLL)
        return True


def _changes(table: TargetTable, keys: Iterable[Texts], lines: bytes) -> Iterator[RowChange]:
    for key in keys:
        yield RowChange(table, DELETE, dict(key), checked=False)
    for line in lines.split(b"\n")[:-1]:
        values = dict(zip(table.columns, parse_line(line), strict=True))
        yield RowChange(table, INSERT, values=values, checked=False)
