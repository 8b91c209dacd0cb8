"""Appending changes to change tables, over the one committing connection of a job's apply process.

Epochs, the checkpoint and the states of tables are those of every PostgreSQL target (`target/apply.py`). What does not live
here: what a row has in it (`rows/change_table.py`), creating the tables (instances.py).
"""

from __future__ import annotations

from collections.abc import Sequence

from anabranch.connectors.postgresql.errors import translated
from anabranch.connectors.postgresql.target.apply import PostgresWriter
from anabranch.connectors.postgresql.target.copy_in import refuse_miscount
from anabranch.connectors.postgresql.target.staging import copy_rows
from anabranch.connectors.sql.appended import last_before, places, staged
from anabranch.connectors.sql.change_tables import instance_of
from anabranch.rows.appended import ChangeBatch, Committed, TableChanges
from anabranch.rows.net import TargetTable

LATEST = "SELECT tran_end_time FROM cdc.lsn_time_mapping ORDER BY start_lsn DESC LIMIT 1"
END = "UPDATE cdc.change_tables SET end_lsn = %s WHERE capture_instance = %s AND end_lsn IS NULL"
NOTE = """
INSERT INTO cdc.lsn_time_mapping (start_lsn, tran_end_time, "position")
SELECT * FROM unnest(%s::bytea[], %s::timestamp[], %s::text[]) ON CONFLICT DO NOTHING
"""


class PostgresChangeWriter(PostgresWriter):
    """Appends changes at a PostgreSQL.

    Delivery: what an epoch appends and its checkpoint commit together or not at all; a fenced owner commits nothing. Nobody
    sees a part of a transaction, or its place before its rows."""

    takes_emptied = False  # SQL Server's change tables have no row for it

    def append(self, batch: ChangeBatch) -> None:
        for changes in batch.tables:
            self._append(changes)
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
            connection.execute(END.encode(), [last_before(at), instance_of(table.target)])

    def _note_times(self, transactions: Sequence[Committed]) -> None:
        """Note when transactions were committed. A large one comes in several batches, each of which may name it."""
        connection, _ = self._transaction()
        with translated("note the times of transactions"):
            found = connection.execute(LATEST.encode()).fetchone()
            connection.execute(NOTE.encode(), [*places(transactions, found[0] if found else None)])
