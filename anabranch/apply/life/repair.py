"""Repair of rows that differ: they are made equal to the source's, between two epochs and at one place of the stream.

The rows are read in a snapshot, the stream is carried out up to where that snapshot begins, and the rows are written.
Changes between the snapshot's two marks are applied as in a load's window. So a row that changes meanwhile is left to
the stream, and the comparison may be long past: it only says which rows to look at.

A row that the source had and no longer has is left to the stream, which brings its delete. Where the target refuses
rows, they are tried in halves, and what still fails is reported.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

from anabranch import log
from anabranch.apply.context import Followed
from anabranch.apply.epoch import Applier
from anabranch.apply.feed import GROUP_ROWS
from anabranch.apply.life.reread import Rereader
from anabranch.apply.progress import Progress
from anabranch.errors import RowRefused, SourceError, SourceUnavailable
from anabranch.failpoints import reach
from anabranch.model.ids import TableId
from anabranch.model.schema import component
from anabranch.model.table_life import open_window
from anabranch.rows.lines import parse_line
from anabranch.rows.net import DELETE, INSERT, RowChange, TargetTable
from anabranch.trail import repairs
from anabranch.trail.repairs import Key, Repair

BATCH = 1_000  # rows read and put at once
NOT_NOW = "the table does not stream, or not with all its rows by a key"
ASIDE = "rows are set aside, here or where foreign keys lead: anabranch parked release, or discard, first"
TRIES = 5  # for a row whose unique value another row may give up meanwhile

Keys = tuple[tuple[Key, bool], ...]
"""Keys, each with: did the source have it when it was compared?"""


@dataclass
class _Open:
    """A repair that is going on: the keys that are left, and those that the target refuses."""

    asked: Repair
    left: deque[tuple[Keys, int]]  # each with the number of tries so far
    refused: list[tuple[Key, str]] = field(default_factory=list)


@dataclass
class Repairer:
    """Repairs rows between two epochs. Its work is kept in memory only: a request stays in the mailbox until all of it
    is done."""

    reader: Rereader
    _open: dict[TableId, _Open] = field(default_factory=dict, init=False)

    def look(self, applier: Applier) -> None:
        """Repair one batch of every table that somebody asked for, while it streams."""
        progress = applier.progress
        directory = progress.settings.names.repairs(Path(progress.trail.directory))
        for asked in repairs.asked(directory):
            state, followed = progress.states.get(asked.table), progress.context.tables.get(asked.table)
            if state is None or followed is None or followed.filter or not followed.table.key:
                repairs.answer(directory, asked, [(key, NOT_NOW) for key in (*asked.present, *asked.extra)])
            elif _has_rows_aside(progress, asked.table):
                repairs.answer(directory, asked, [(key, ASIDE) for key in (*asked.present, *asked.extra)])
            elif state.is_streaming:  # not in the window of the last batch
                work = self._work(asked)
                if work.left and not _is_behind(progress):
                    self._do(applier, followed, work)
                if not work.left:
                    del self._open[asked.table]
                    repairs.answer(directory, asked, work.refused)

    def _work(self, asked: Repair) -> _Open:
        known = self._open.get(asked.table)
        if known is None or known.asked.id != asked.id:
            keys = [*((key, True) for key in asked.present), *((key, False) for key in asked.extra)]
            batches = (tuple(keys[start : start + BATCH]) for start in range(0, len(keys), BATCH))
            known = self._open[asked.table] = _Open(asked, deque((batch, 0) for batch in batches))
        return known

    def _do(self, applier: Applier, followed: Followed, work: _Open) -> None:
        keys, tries = work.left[0]
        try:
            lines, high = self._read(applier, followed, keys)
        except SourceUnavailable:
            raise
        except SourceError as error:  # the table was redefined by now, or the server is another one
            work.refused += [(key, error.message) for batch, _ in work.left for key, _ in batch]
            work.left.clear()
            return
        if high is None:
            return
        try:
            if followed.table.source in applier.progress.context.tables:  # not parked meanwhile
                self._put(applier, followed.table.source, keys, [*_rows(followed.table, lines)], high)
        except RowRefused as refusal:
            applier.progress.back_out()
            middle = len(keys) // 2
            if middle:
                work.left.extend([(keys[:middle], 0), (keys[middle:], 0)])
            elif tries + 1 < TRIES:
                work.left.append((keys, tries + 1))
            else:
                work.refused.append((keys[0][0], refusal.message))
        work.left.popleft()

    def _read(self, applier: Applier, followed: Followed, keys: Keys) -> tuple[bytes, int | None]:
        """Read the rows in a snapshot, and carry the stream out up to where the snapshot begins. Returns the rows, and
        the last sequence that the snapshot may have. None for it means "try again soon": the stream is already past the
        snapshot, or capture does not reach it."""
        target, reader = followed.table, self.reader
        names = dict(zip(target.columns, target.source_columns, strict=True))
        with closing(reader.source.snapshot(reader.identity)) as snapshot:
            low, high = snapshot.open(followed.schema, reader.lock)
            wanted = [{names[name]: value for name, value in key.items()} for key, _ in keys]
            lines = b"".join(snapshot.lines_of(followed.schema, target.source_columns, wanted, reader.rules))
        reach("apply.repair")
        if not reader.is_reached(replace(applier.progress.states[target.source], high=json.dumps([high.resume]))):
            return b"", None
        at = reader.resolver.low(low.resume)
        if at < applier.progress.checkpoint.position.sequence:
            return b"", None
        applier.apply(at)
        now = applier.progress.context.tables.get(target.source)
        if now is not None and now.schema.version != followed.schema.version:
            return b"", None  # it was altered on the way, and the rows lack its new columns
        return lines, max(at, reader.resolver.high(high.resume))

    def _put(
        self, applier: Applier, table: TableId, keys: Keys, rows: Sequence[Mapping[str, str | None]], high: int
    ) -> None:
        progress = applier.progress
        state, at = progress.states[table], progress.checkpoint.position.sequence
        followed, window = progress.context.tables[table], None
        if high > at:
            state, window = open_window(state, at, high), replace(followed, low=at, high=high, takeovers={})
        keys_act = progress.context.keys is not None
        applier.carrier.put(state, _changes(followed.table, keys, rows, keys_act), window)
        log.get(job=progress.job, table=str(table)).warning("rows_repaired", keys=len(keys), found=len(rows))


def _changes(
    table: TargetTable, keys: Keys, rows: Sequence[Mapping[str, str | None]], keys_act: bool
) -> Iterator[RowChange]:
    """Yield the changes that make the rows equal. Deletes come first, so that their unique values are free. Other rows
    are only set, not replaced: the target may have columns of its own."""
    found = {tuple(row[name] for name in table.key) for row in rows}
    for key, was_present in keys:
        if not was_present and tuple(key[name] for name in table.key) not in found:
            yield RowChange(table, DELETE, dict(key), checked=False, keys_off=keys_act)
    for row in rows:
        yield RowChange(table, INSERT, values=dict(row), checked=False)


def _has_rows_aside(progress: Progress, table: TableId) -> bool:
    """Return whether rows are set aside, here or where foreign keys lead. What concerns them is found only while all
    these tables stream."""
    schemas = {name: state.schema for name, state in progress.states.items() if state.schema}
    return any(progress.states[name].facts.set_aside for name in component([table], schemas))


def _is_behind(progress: Progress) -> bool:
    """Return whether the target is behind by more than an epoch: then the stream comes first, in steps of its own."""
    end, at = progress.trail.end().position.sequence, progress.checkpoint.position.sequence
    refs = progress.trail.descriptors(at, limit_rows=GROUP_ROWS)
    return bool(refs) and refs[-1].last_sequence < end


def _rows(table: TargetTable, lines: bytes) -> Iterator[Mapping[str, str | None]]:
    for line in lines.split(b"\n")[:-1]:
        yield dict(zip(table.columns, parse_line(line), strict=True))
