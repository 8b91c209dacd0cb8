"""Tables that users ask for (`load --table`): prepared at the source, and read there, until they can join.

What does not live here: bringing them in, and all that the log says (`definitions.py`), the requests themselves (trail).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace

from anabranch import log, waits
from anabranch.capture.begin import read_definitions
from anabranch.contracts import SourceCatalog, SourceConnector
from anabranch.errors import SourceError, SourceUnavailable
from anabranch.model.ids import TableId
from anabranch.model.position import LogMark
from anabranch.model.schema import TableSchema
from anabranch.trail import requests
from anabranch.trail.writer import TrailWriter

PREPARE_SECONDS = 10.0  # between two tries to prepare a table that others are in the way of


@dataclass(frozen=True)
class Unlisted:
    """Staged transactions (xid, where it was prepared) that the source did not list as prepared, asked before `mark`."""

    staged: frozenset[tuple[str, str]]
    mark: LogMark
    waits_for: frozenset[tuple[str, str]]  # all that had rows of the table then


@dataclass(frozen=True)
class JoiningTable:
    """A requested table: its definition holds from `mark` on."""

    schema: TableSchema
    mark: LogMark
    settled: LogMark
    asked: float  # time.monotonic()
    unlisted: Unlisted | None = None  # set once it is told that it waits


class Requested:
    """Keeps the tables that are asked for until they can join. `patience`: seconds that one waits for prepared transactions to
    end; `prepare`: carries out at the source what these tables still need."""

    def __init__(
        self,
        source: SourceConnector,
        trail: TrailWriter,
        patience: float,
        prepare: Callable[[Mapping[TableId, TableSchema]], object],
    ) -> None:
        self.source, self.trail, self.patience, self.prepare = source, trail, patience, prepare
        self.joining: dict[TableId, JoiningTable] = {}
        self._prepare_from = 0.0  # time.monotonic() of the next try
        self._settling: dict[TableId, frozenset[str]] = {}  # transactions that a table waits for before it joins
        self._told: dict[TableId, float] = {}  # when it was said last for whom a table waits

    def forget(self, tables: Iterable[TableId]) -> None:
        """Forget the definitions of tables that a statement names: their requests have them read again."""
        for table in tables:
            self.joining.pop(table, None)

    def look(self) -> None:
        """Read the definitions of tables that `load --table` asks for."""
        asked = [r.table for r in requests.pending(self.trail.directory) if r.table not in self.joining]
        if not asked or time.monotonic() < self._prepare_from:
            return
        with closing(self.source.catalog()) as catalog:
            tables = catalog.tables(lambda table: table in asked)
            ready = [table for table, schema in tables.items() if self._is_prepared(schema)]
            settled = {table for table in ready if self._is_settled(table, catalog)}
            found = read_definitions(catalog, settled.__contains__)
        for table, schema in found.tables.items():
            del self._settling[table]
            self.joining[table] = JoiningTable(schema, found.before, found.after, time.monotonic())
        for table in set(asked) - tables.keys():
            requests.refuse(self.trail.directory, table, "the source has no such table")

    def _is_prepared(self, schema: TableSchema) -> bool:
        """Prepare a table at the source. A refusal ends the request, not capture; where others hold locks it is tried
        again later.
        """
        try:
            self.prepare({schema.id: schema})
        except SourceUnavailable as busy:
            log.get().warning("table_waits_to_join", table=str(schema.id), why=busy.message)
            self._prepare_from = time.monotonic() + PREPARE_SECONDS
            return False
        except SourceError as refused:
            requests.refuse(self.trail.directory, schema.id, f"{refused.message} — {refused.hint}")
            return False
        return True

    def _is_settled(self, table: TableId, catalog: SourceCatalog) -> bool:
        """Return whether the transactions that were open when the table was asked for have ended. The log may lack rows
        of theirs.
        """
        in_progress = catalog.transactions.in_progress()
        before = self._settling.get(table, in_progress)
        left = before & in_progress
        if left:
            self._tell_settling(table, left, catalog, is_new=table not in self._settling or left != before)
        elif before and table in self._settling:
            waits.publish(str(table), "")
        self._settling[table] = left
        return not left

    def _tell_settling(self, table: TableId, left: frozenset[str], catalog: SourceCatalog, is_new: bool) -> None:
        """Say whom the table waits for: immediately, whenever one has ended, and once a minute."""
        held = "; ".join(catalog.transactions.who_has(left)[:5])
        waits.publish(str(table), f"for transactions that were open when {table} was asked for, held by {held}")
        now = time.monotonic()
        if is_new or now - self._told.get(table, now) > waits.REPEAT:
            self._told[table] = now
            transactions = sorted(left)[:5]
            log.get().warning("table_waits_to_join", table=str(table), for_transactions=transactions, held_by=held)

    def ready(self, mark: LogMark) -> dict[TableId, JoiningTable]:
        """Return the tables that join at `mark`, the place the log is read up to, and keep them no longer."""
        ready = {t: j for t, j in self.joining.items() if self.source.order.includes(mark, j.mark.native, None)}
        asked = {request.table for request in requests.pending(self.trail.directory)} if ready else set()
        for table in ready.keys() - asked:  # withdrawn
            del self.joining[table]
        ready = {t: joining for t, joining in ready.items() if t in asked and not self._awaits(t, joining, mark)}
        for table in ready:
            del self.joining[table]
        return ready

    def _awaits(self, table: TableId, joining: JoiningTable, mark: LogMark) -> bool:
        if uncommitted := self.trail.open_staging.lacking(table):
            if time.monotonic() - joining.asked > self.patience:
                self._refuse_waiting(table, uncommitted, is_same=True)
            return True
        lacking, first = self.trail.staging.lacking(table), joining.unlisted
        if lacking and first is None:
            log.get().warning("table_waits_to_join", table=str(table), for_prepared=lacking[:5])
            self.joining[table] = replace(joining, unlisted=self._unlisted(lacking))
        elif lacking and first and time.monotonic() - joining.asked > self.patience:
            self._forget_ended(lacking, first, mark)
            lacking = self.trail.staging.lacking(table)
            if lacking:
                self._refuse_waiting(table, lacking, is_same=bool(first.waits_for & self._staged(lacking)))
        return bool(lacking)

    def _refuse_waiting(self, table: TableId, lacking: list[str], is_same: bool) -> None:
        """Refuse the request of a table that waited too long. `is_same`: some of the transactions are those that were
        open at first.
        """
        xids, seconds = ", ".join(lacking[:5]), f"{self.patience:g} s"
        reason = f"the transactions {xids} have rows of it and did not end in {seconds}: end them, then ask again"
        if not is_same:
            reason = (
                f"for {seconds} some prepared transaction always had rows of it, each time another one, now {xids}: it can "
                "join only while none is open; pause its XA writers for a moment, then ask again"
            )
        requests.refuse(self.trail.directory, table, reason)
        del self.joining[table]

    def _unlisted(self, xids: list[str]) -> Unlisted:
        with closing(self.source.catalog()) as catalog:
            listed = catalog.transactions.prepared()
            gone = [] if listed is None else [xid for xid in xids if xid not in listed]
            return Unlisted(self._staged(gone), catalog.mark(), self._staged(xids))

    def _staged(self, xids: Iterable[str]) -> frozenset[tuple[str, str]]:
        return frozenset((xid, self.trail.staging[xid].native) for xid in xids)

    def _forget_ended(self, lacking: list[str], first: Unlisted, mark: LogMark) -> None:
        """Forget staged transactions that ended without the log (`sql_log_bin = 0`, a crash while being prepared).

        Such a transaction is listed by the source neither now nor when the table began to wait, and the log up to
        `mark` does not end it. It would delay joins for ever.
        """
        if self.source.order.includes(mark, first.mark.native, None):
            for xid, native in first.staged & self._unlisted(lacking).staged:
                log.get().warning("transaction_ended_unlogged", xid=xid, prepared_at=native)
                self.trail.staging.remove(xid)

    def joined(self, tables: Iterable[TableId], sequence: int) -> None:
        for table in tables:
            requests.done(self.trail.directory, table, sequence)
