"""One chunk inside a Spark task: open a snapshot, note its marks, pass the lines on to the target.

A chunk may be done again at any time: its rows and its ledger row commit together, and a loader leaves a chunk alone
that is done. What does not live here: which chunks there are (plan.py), what happens after a failure (run.py).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass

from anabranch.abc import SnapshotReader, SourceConnector, TargetConnector, ValueRules
from anabranch.errors import SourceError
from anabranch.failpoints import reach
from anabranch.load.plan import LoadTable, Piece
from anabranch.model.ids import TableId
from anabranch.model.position import LogMark
from anabranch.spark.where import read_columns

Quiet = Callable[[frozenset[TableId], LogMark, LogMark], bool | None]
"""Does the trail hold no transaction on the tables that `high` includes and `low` does not? None: capture is not there
yet. Picklable: it is asked in the task, while the snapshot stays open."""

TRIES = 10  # openings of a keyless table's snapshot
PATIENCE = 15.0  # seconds that an open snapshot waits for capture; then the chunk is put back
POLL = 0.1
WAITING = "waiting"
LOCK_HINT = '[load] lock = "table" locks the table for reading at the moment of opening'


@dataclass(frozen=True)
class ChunkWork:
    """Work over pieces (spark/pieces.py). The outcome is its rows, None for a chunk that waits for capture."""

    job: str
    source: SourceConnector
    target: TargetConnector
    rules: ValueRules
    lock: str = "none"
    expected_identity: str = ""
    quiet: Quiet | None = None

    @contextmanager
    def read(self, piece: Piece) -> Iterator[tuple[bytes, Iterator[bytes]]]:
        load = piece.load
        with closing(self.source.snapshot(self.expected_identity)) as snapshot:
            marks = self.marks(snapshot, load)
            reach("load.snapshot")
            if marks is None:
                yield json.dumps(WAITING).encode(), iter(())
            else:
                columns = read_columns(load.table, load.filter)
                yield json.dumps(marks).encode(), snapshot.lines(load.schema, columns, piece.bounds, self.rules)

    def finish(self, piece: Piece, header: bytes, blocks: Iterator[bytes]) -> int | None:
        marks = json.loads(header)
        if marks == WAITING:
            return None
        load = piece.load
        with closing(self.target.loader(self.rules)) as loader:
            low, high = marks
            rows = loader.load_chunk(self.job, load.table, load.generation, piece.number, (low, high), blocks)
            reach("load.committed")
            return rows

    def marks(self, snapshot: SnapshotReader, load: LoadTable) -> tuple[str, str] | None:
        """Open the snapshot. A keyless table has no idempotent window: its marks are one, proven by capture where the
        source cannot say it (K4). None: capture has not come far enough yet."""
        for _ in range(TRIES):
            low, high = snapshot.open(load.schema, self.lock)
            if low == high or (load.table.key and not load.exact):
                return low.resume, high.resume
            if self.quiet is None:
                break
            verdict = self._ask(self.quiet, load.changed_with | {load.schema.id}, low, high)
            if verdict is None:
                return None
            if verdict:  # nothing touched the table in between: its rows are those of `high`, a place in the log
                return high.resume, high.resume
        raise SourceError(
            "the table has to be loaded as of one moment, and none was found at which nothing changed it",
            table=str(load.schema.id),
            hint=LOCK_HINT,
        )

    def _ask(self, quiet: Quiet, tables: frozenset[TableId], low: LogMark, high: LogMark) -> bool | None:
        until = time.monotonic() + PATIENCE
        verdict = quiet(tables, low, high)
        while verdict is None and time.monotonic() < until:
            time.sleep(POLL)
            verdict = quiet(tables, low, high)
        return verdict
