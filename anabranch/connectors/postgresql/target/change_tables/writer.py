"""Appending changes to change tables, over the one committing connection of a job's apply process.

Epochs, the checkpoint and the states of tables are those of every PostgreSQL target (`target/apply.py`). What does not live
here: what a row has in it (`rows/change_table.py`), creating the tables (instances.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from anabranch.connectors.postgresql.connection import Connection
from anabranch.connectors.postgresql.errors import translated
from anabranch.connectors.postgresql.quoting import qualified, quote
from anabranch.connectors.postgresql.target.apply import PostgresWriter
from anabranch.connectors.postgresql.target.change_tables.attunity import HAS_STATE
from anabranch.connectors.postgresql.target.copy_in import refuse_miscount
from anabranch.connectors.postgresql.target.options import USUAL, PostgresTargetOptions
from anabranch.connectors.postgresql.target.staging import copy_rows
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
from anabranch.contracts import Begun, ValueRules
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId
from anabranch.model.position import Position
from anabranch.model.state import Checkpoint
from anabranch.rows.altered import AlteredTable
from anabranch.rows.appended import ChangeBatch, Committed, TableChanges
from anabranch.rows.net import TargetTable

LATEST = "SELECT tran_end_time, start_lsn FROM cdc.lsn_time_mapping ORDER BY start_lsn DESC LIMIT 1"
END = "UPDATE cdc.change_tables SET end_lsn = %s WHERE source_schema = %s AND source_table = %s AND end_lsn IS NULL"
NOTE = """
INSERT INTO cdc.lsn_time_mapping (start_lsn, tran_end_time, "position")
SELECT * FROM unnest(%s::bytea[], %s::timestamp[], %s::text[]) ON CONFLICT DO NOTHING
"""


class PostgresChangeWriter(PostgresWriter):
    """Appends changes at a PostgreSQL.

    Delivery: what an epoch appends and its checkpoint commit together or not at all; a fenced owner commits nothing. Nobody
    sees a part of a transaction, or its place before its rows."""

    takes_emptied = False  # SQL Server's change tables have no row for it

    def __init__(
        self,
        endpoint: Endpoint,
        rules: ValueRules,
        bypass_constraints: bool = False,
        options: PostgresTargetOptions = USUAL,
    ) -> None:
        super().__init__(endpoint, rules, bypass_constraints)
        self._instances: Mapping[TableId, list[Instance]] | None = None  # that changes come to; None: not known
        self._has_state = False  # of Attunity's: what an epoch has written is counted there
        self._count = EpochCount()
        self._retain_hours, self.idle_seconds = options.retain_changes_hours, options.heartbeat_s

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
            is_marked = connection.execute(IS_MARKED.encode(), [BEGINS, ENDS], prepare=True).fetchone() is not None
            if is_marked:
                known = instances(connection.execute(KNOWN.encode()).fetchall())
                for values in to_settle(known, place):
                    connection.execute(SETTLE.encode(), values)
            if self._instances is None:
                (self._has_state,) = connection.execute(HAS_STATE.encode()).fetchone() or (False,)
            if is_marked or self._instances is None:
                rows = (connection.execute(query.encode()).fetchall() for query in (KNOWN, COLUMNS))
                self._instances = by_source(instances(*rows))

    def commit(self) -> None:
        if self._has_state and self._count.transactions:
            connection, _ = self._transaction()
            with translated("count what is written in cdc.xdbcdc_state"):
                connection.execute(WRITTEN.encode(), self._count.values)
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
        with self._knowing_labels(table.source), translated(f"append to {table.target}", table.source):
            taken = copy_rows(connection, table.target, columns, arrays, self._rules.nul)
        refuse_miscount(connection, table.target, len(arrays[0]), taken, "append changes", table.source)

    def end(self, table: TargetTable, at: int) -> None:
        connection, _ = self._transaction()
        with translated(f"end {table.target}", table.source):
            connection.execute(END.encode(), [last_before(at), table.source.schema, table.source.name])

    def note_idle(self, position: Position, time: int) -> None:
        connection, _ = self._transaction()
        with translated("note the time"):
            when, latest = connection.execute(LATEST.encode()).fetchone() or (None, b"")
            place = place_between(position.sequence, bytes(latest))
            if place is not None and (when is None or utc(time) > when):
                connection.execute(NOTE.encode(), [[place], [utc(time)], [str(position)]])

    def clean_up(self, elapsed: int) -> bool:
        if not self._retain_hours:
            return False
        session = _Cleaning(self._outside())
        with translated("clean up change tables"):
            return piece(session, self._retain_hours, elapsed)

    def _note_times(self, transactions: Sequence[Committed]) -> None:
        """Note when transactions were committed. A large one comes in several batches, each of which may name it."""
        connection, _ = self._transaction()
        with translated("note the times of transactions"):
            found = connection.execute(LATEST.encode()).fetchone()
            connection.execute(NOTE.encode(), [*places(transactions, found[0] if found else None)])


@dataclass(frozen=True)
class _Cleaning:
    """A connection, as far as the clean-up needs it."""

    connection: Connection

    def ask(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        return self.connection.execute(sql.encode(), values).fetchall()

    def run(self, sql: str, *values: object) -> int:
        return self.connection.execute(sql.encode(), values).rowcount

    def remove(self, table: TableId, below: bytes, most: int) -> int:
        name, place = qualified(table), quote(START if table == PLACES else LSN)
        if self.ask("SELECT to_regclass(%s) IS NULL", name)[0][0]:
            return 0  # somebody has dropped what had ended
        some = f"SELECT ctid FROM {name} WHERE {place} < %s ORDER BY {place} LIMIT {most}"
        return self.run(f"DELETE FROM {name} WHERE ctid = ANY (ARRAY({some}))", below)

    def commit(self) -> None:
        self.connection.commit()
