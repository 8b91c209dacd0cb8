"""The comparison of a drill: each table with its shadow, looked at until every row that differs is decided.

A row that differs may be on its way: it counts once all that was committed before the look has gone to the target and come
back, and neither version of it is another one than before. What does not live here: asking the server (connectors), what is
written in between where the server does not number its rows (drill_writes.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace

from anabranch.contracts import Shadow, UnlikeRow
from anabranch.cutover.following import Following
from anabranch.errors import StateError
from anabranch.job.drill_report import DrilledRow, DrilledTable
from anabranch.job.drill_writes import Writes, watching
from anabranch.model.column_changes import left_out_now
from anabranch.model.ids import TableId
from anabranch.rules.way_back import TableBack, WayBack
from anabranch.view.job_view import JobView
from anabranch.view.opened import catalog_of, source_of, store_of

ROWS = 1_000  # of a table that differ, which are looked at again
TOLD = 100  # of these, in the result
REST = 1.0  # seconds between two looks at rows on their way
WAS_AWAITED = "somebody waits for its definition, so the comparison was ended"


@dataclass(frozen=True)
class Looks:
    """The comparison. `forward`: the job, `behind`: the drill's own. `seconds`: for each wait, until the rest is pending."""

    job: JobView
    forward: Following
    behind: Following
    shadow: Shadow
    seconds: float
    tell: Callable[[str], None]

    def compared(self, back: WayBack, into: Callable[[TableId], TableId]) -> tuple[list[DrilledTable], str]:
        """Compare all tables until each row is decided or the time is over. Returns them, and the place of the source's log
        behind which all was confirmed."""
        with self._watched() as writes:
            until, results = time.monotonic() + self.seconds, dict[TableId, DrilledTable]()
            open_ = {
                table.written: _Compared(table, self.job, self.shadow, into(table.written), writes, self.seconds)
                for table in back.tables
            }
            position = self._round_trip(writes)
            while True:
                for name, one in open_.items():
                    results[name] = one.look()
                if not (left := {name for name, found in results.items() if found.pending}):
                    break
                self.tell(f"comparing: rows of {len(left)} tables are on their way")
                if time.monotonic() > until:
                    break
                time.sleep(REST)
                position = self._round_trip(writes)
                open_ = {name: one for name, one in open_.items() if name in left}
            return [results[table.written] for table in back.tables], position

    @contextmanager
    def _watched(self) -> Iterator[Writes | None]:
        with nullcontext() if self.shadow.numbers_rows else watching(self.job, self.forward) as writes:
            yield writes

    def _round_trip(self, writes: Writes | None) -> str:
        """Wait until all that is committed at the source now has gone to the target and come back."""
        position = passed(self.forward, self.seconds)
        passed(self.behind, self.seconds)
        return position


def passed(one: Following, seconds: float) -> str:
    """Wait until a job has carried over what is committed at its source now. Returns the place. Raises NotCaughtUp."""
    with catalog_of(source_of(one.job)) as catalog:
        mark = catalog.mark()
    one.reached(mark, seconds)
    return mark.native


@dataclass
class _Compared:
    """A table whose rows are compared with its shadow's, again and again. `_before`: rows that differed last, `_place`:
    where the trail was then."""

    table: TableBack
    job: JobView
    shadow: Shadow
    into: TableId
    writes: Writes | None
    seconds: float
    _before: set[tuple[tuple[str, ...], tuple[str, str]]] = field(default_factory=set)
    _place: int = 0
    _last: DrilledTable | None = None

    def look(self) -> DrilledTable:
        """Judge its rows. What differed the last time, and is what it was then, does not come back any more."""
        key, columns = self._names()
        place = self.writes.place() if self.writes else 0
        found = self.shadow.unlike(self.table.written, self.into, key, columns, ROWS)
        if found is None:
            return self._gave_way()
        stayed = self._unwritten(key, [row for row in found.sample if (row.key, row.versions) in self._before])
        self._before, self._place = {(row.key, row.versions) for row in found.sample}, place
        self._last = DrilledTable(
            str(self.table.written),
            str(self.table.read),
            found.rows,
            different=len(stayed),
            pending=found.count - len(stayed),
            sample=tuple(_row(key, row) for row in stayed[:TOLD]),
        )
        return self._last

    def _gave_way(self) -> DrilledTable:
        last = self._last or DrilledTable(str(self.table.written), str(self.table.read))
        self._before = set()
        return replace(last, pending=max(1, last.pending), why=WAS_AWAITED)

    def _unwritten(self, key: Sequence[str], rows: list[UnlikeRow]) -> list[UnlikeRow]:
        """Return those that nobody has written since the last look, as far as the server's versions do not tell."""
        if not rows or self.writes is None:
            return rows
        keys = [row.key for row in rows]
        written = self.writes.since(self._place, self.table.written, key, keys, self.seconds)
        return [row for row in rows if row.key not in written]

    def _names(self) -> tuple[list[str], list[str]]:
        with catalog_of(source_of(self.job)) as catalog:
            wanted = self.table.written
            schema = catalog.tables(lambda table: table == wanted, whole=False)[wanted]
        with store_of(self.job) as store:
            state = store.states.table(self.job.config.name, wanted)
        then = state.schema.leaving_out(state.facts.left_out) if state and state.schema else schema
        if (there := left_out_now(then, schema)) is None:
            told = "the source altered its columns during the drill, and the target is without some of them"
            raise StateError(told, table=str(wanted), hint="let the job come there, then drill again")
        form = self.job.rules.target_table(there)
        names = dict(zip(form.source_columns, form.columns, strict=True)) | dict(form.computed)
        return list(schema.primary_key), [name for name, there in names.items() if there not in self.table.drop]


def _row(key: Sequence[str], row: UnlikeRow) -> DrilledRow:
    return DrilledRow(row.kind, dict(zip(key, row.key, strict=True)), row.columns)
