"""Appending changes to change tables, over the one committing connection of a job's apply process.

Epochs, the checkpoint and the states of tables are those of every MySQL target (`target/apply.py`). What does not live here:
what a row has in it (`rows/change_table.py`), creating the tables (`instances.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pymysql

from anabranch.connectors.mysql.target.apply import MysqlWriter
from anabranch.connectors.mysql.target.change_tables.attunity import HAS_STATE
from anabranch.connectors.mysql.target.errors import NO_TABLE, translated
from anabranch.connectors.mysql.target.session import Connection, ask, quoted, run, table_name
from anabranch.connectors.mysql.target.staging import send_rows, way_into
from anabranch.connectors.sql.appended import LSN, last_before, place_between, places, staged
from anabranch.connectors.sql.attunity import WRITTEN, EpochCount
from anabranch.connectors.sql.change_tables import utc
from anabranch.connectors.sql.cleaning import PLACES, START, piece
from anabranch.connectors.sql.instances import (
    BEGINS,
    COLUMNS,
    ENDS,
    IS_MARKED,
    KNOWN,
    SETTLE,
    Instance,
    by_source,
    captured_by,
    instances,
    refuse_again,
    to_settle,
)
from anabranch.contracts import Begun, Conflict
from anabranch.model.ids import TableId
from anabranch.model.position import Position
from anabranch.model.state import Checkpoint
from anabranch.rows.altered import AlteredTable
from anabranch.rows.appended import ChangeBatch, Committed, TableChanges
from anabranch.rows.net import TargetTable

LATEST = "SELECT start_lsn, tran_end_time FROM cdc.lsn_time_mapping ORDER BY start_lsn DESC LIMIT 1"
END = "UPDATE cdc.change_tables SET end_lsn = %s WHERE source_schema = %s AND source_table = %s AND end_lsn IS NULL"
NOTE = "INSERT INTO cdc.lsn_time_mapping (start_lsn, tran_end_time, `position`) VALUES "
NOTED_AT_ONCE = 500  # places in one statement


class MysqlChangeWriter(MysqlWriter):
    """Appends changes at a MySQL or MariaDB.

    Delivery: what an epoch appends and its checkpoint commit together or not at all; a fenced owner commits nothing. Nobody
    sees a part of a transaction, or its place before its rows."""

    takes_emptied = False  # SQL Server's change tables have no row for it

    _instances: Mapping[TableId, list[Instance]] | None = None  # that changes come to; None: not known
    _has_state = False  # of Attunity's: what an epoch has written is counted there
    _count = EpochCount()

    def claim(self, job: str, owner: str) -> Checkpoint:
        self._instances = None
        return super().claim(job, owner)

    def begin(self, now: Checkpoint, then: Checkpoint, origin: str = "") -> Begun:
        begun = super().begin(now, then, origin)
        self._count = EpochCount()
        if begun is Begun.OPEN:
            self._settle(last_before(now.position.sequence + 1))
        return begun

    def _settle(self, place: bytes) -> None:
        """Begin and end what is marked, from this place on; a mark may come at any time."""
        connection, _ = self._transaction()
        with translated("begin capture instances"):
            is_marked = bool(list(ask(connection, IS_MARKED, BEGINS, ENDS)))
            if is_marked:
                for values in to_settle(instances(ask(connection, KNOWN)), place):
                    run(connection, SETTLE, *values)
            if self._instances is None:
                self._has_state = bool(ask(connection, HAS_STATE))
            if is_marked or self._instances is None:
                self._instances = by_source(instances(ask(connection, KNOWN), ask(connection, COLUMNS)))

    def commit(self) -> None:
        if self._has_state and self._count.transactions:
            connection, _ = self._transaction()
            with translated("count what is written in cdc.xdbcdc_state"):
                run(connection, WRITTEN, *self._count.values)
        super().commit()

    def rollback(self) -> None:
        self._instances = None
        super().rollback()

    def close(self) -> None:
        self._instances = None
        super().close()

    @property
    def alters_apart(self) -> bool:
        return False  # nothing is altered: an instance keeps the columns that it was made with

    def refuse_standing(self, altered: AlteredTable) -> None:
        """Do nothing: `alter` looks."""

    def alter(self, now: Checkpoint, altered: AlteredTable) -> Sequence[str]:
        assert self._instances is not None, "an epoch is open"
        refuse_again(self._instances.get(altered.table.source, ()), altered)
        return ()

    def keeps_up_with(self, altered: AlteredTable) -> bool:
        return False  # its rows have other columns

    def append(self, batch: ChangeBatch) -> None:
        assert self._instances is not None, "an epoch is open"
        for changes in batch.tables:
            for instance in self._instances.get(changes.table.source, ()):
                self._append(captured_by(instance, changes))
        self._count.add(batch)
        if batch.transactions:
            self._note_times(batch.transactions)

    def _append(self, changes: TableChanges) -> None:
        connection, _ = self._transaction(writes=changes.table)
        table, (columns, arrays) = changes.table, staged(changes)
        if not len(arrays[0]):
            return
        with self._labels.known(table), translated(f"append to {table.target}", table.source):
            way = way_into(connection, table.target, columns)
            taken = send_rows(connection, way, columns, arrays, self._rules.nul, table.source)
        if taken != len(arrays[0]):
            raise Conflict(table.source, f"{len(arrays[0])} changes were sent, and the server took {taken}")

    def end(self, table: TargetTable, at: int) -> None:
        connection, _ = self._transaction()
        with translated(f"end {table.target}", table.source):
            run(connection, END, last_before(at), table.source.schema, table.source.name)

    @property
    def idle_seconds(self) -> int:
        return self._options.heartbeat_s

    def note_idle(self, position: Position, time: int) -> None:
        connection, _ = self._transaction()
        with translated("note the time"):
            latest, when = next(iter(ask(connection, LATEST)), (b"", None))
            place = place_between(position.sequence, bytes(latest))
            if place is not None and (when is None or utc(time) > when):
                run(connection, NOTE + "(%s, %s, %s)", place, utc(time), str(position))

    def clean_up(self, elapsed: int) -> bool:
        if not (hours := self._options.retain_changes_hours):
            return False
        session = _Cleaning(self._outside())
        with translated("clean up change tables"):
            return piece(session, hours, elapsed)

    def _note_times(self, transactions: Sequence[Committed]) -> None:
        """Note when transactions were committed. A large one comes in several batches, each of which may name it."""
        connection, _ = self._transaction()
        with translated("note the times of transactions"):
            new = [*_new(connection, transactions)]
            for some in (new[at : at + NOTED_AT_ONCE] for at in range(0, len(new), NOTED_AT_ONCE)):
                values = [value for row in some for value in row]
                run(connection, NOTE + ", ".join(["(%s, %s, %s)"] * len(some)), *values)


@dataclass(frozen=True)
class _Cleaning:
    """A connection, as far as the clean-up needs it."""

    connection: Connection

    def ask(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        return ask(self.connection, sql, *values)

    def run(self, sql: str, *values: object) -> int:
        return run(self.connection, sql, *values)

    def remove(self, table: TableId, below: bytes, most: int) -> int:
        place = quoted(START if table == PLACES else LSN)
        some = f"{place} < %s ORDER BY {place} LIMIT {most}"
        try:
            return self.run(f"DELETE FROM {table_name(table)} WHERE {some}", below)
        except pymysql.err.Error as error:
            if error.args[0] != NO_TABLE:
                raise
            return 0  # somebody has dropped what had ended

    def commit(self) -> None:
        self.connection.commit()


def _new(connection: Connection, transactions: Sequence[Committed]) -> Iterator[tuple[object, ...]]:
    """Yield place, time and position of the transactions that are not noted yet: places rise."""
    latest, when = next(iter(ask(connection, LATEST)), (b"", None))
    noted = bytes(latest)
    for row in zip(*places(transactions, when), strict=True):
        if row[0] > noted:
            noted = row[0]
            yield row
