"""The ledger of a table's load: its generation, its chunks, which of them are done.

What does not live here: rows (copy_chunk.py), new tables, whose ledgers are begun together (begin.py).
"""

from __future__ import annotations

from collections.abc import Mapping

from anabranch.connectors.postgresql.connection import Connection
from anabranch.contracts import Bounds, LoadedChunk
from anabranch.errors import Fenced
from anabranch.model.ids import TableId
from anabranch.model.table_life import Life

# A new generation locks the state row fully, chunks of one generation share it: they load side by side.
LOCK_STATE = "SELECT generation, state FROM anabranch.table_state WHERE job = %s AND source_table = %s FOR UPDATE"
SHARE_STATE = "SELECT generation, state FROM anabranch.table_state WHERE job = %s AND source_table = %s FOR KEY SHARE"
BEGIN_STATE = """
INSERT INTO anabranch.table_state (job, source_table, target_table, generation, state)
VALUES (%s, %s, %s, %s, 'loading')
ON CONFLICT (job, source_table) DO UPDATE
   SET target_table = excluded.target_table, generation = excluded.generation, state = 'loading',
       low = '', high = '', reason = '', rows_loaded = 0,
       facts = table_state.facts - 'loaded' - 'parked_for' - 'asked' - 'decided'
"""
NOT_KEPT = "UPDATE anabranch.table_state SET facts = facts - 'kept' WHERE job = %s AND source_table = %s"
HAS_LEDGER = "SELECT 1 FROM anabranch.load_chunk WHERE job = %s AND source_table = %s AND generation = %s LIMIT 1"
CLEAR_LEDGER = "DELETE FROM anabranch.load_chunk WHERE job = %s AND source_table = %s"
READ_LEDGER = """
SELECT number, lower, upper, rows, low, high FROM anabranch.load_chunk
 WHERE job = %s AND source_table = %s AND generation = %s ORDER BY number
"""
READ_LEDGERS = """
SELECT source_table, number, lower, upper, rows, low, high FROM anabranch.load_chunk
  JOIN unnest(%s::text[], %s::bigint[]) AS w (source_table, generation) USING (source_table, generation)
 WHERE job = %s ORDER BY source_table, number
"""
MARK_CHUNK = """
UPDATE anabranch.load_chunk SET rows = rows
 WHERE job = %s AND source_table = %s AND generation = %s AND number = %s RETURNING rows
"""
CHUNK_DONE = """
UPDATE anabranch.load_chunk SET rows = %s, low = %s, high = %s
 WHERE job = %s AND source_table = %s AND generation = %s AND number = %s
"""


def lock_generation(connection: Connection, job: str, table: TableId, highest: int) -> tuple[int, str]:
    """Return the table's present generation and state, locked; (0, "pending") without one. Raises Fenced above `highest`."""
    row = connection.execute(LOCK_STATE, [job, str(table)]).fetchone()
    last, state = (int(row[0]), str(row[1])) if row else (0, str(Life.PENDING))
    if last > highest:
        raise Fenced(f"load {highest} of the table was replaced by load {last}", table=str(table))
    return last, state


def enter_chunk(connection: Connection, chunk: tuple[str, str, int, int]) -> int | None:
    """Return the rows of a chunk that is done, None for one that is ours to load. Raises Fenced."""
    job, source, generation, number = chunk
    state = connection.execute(SHARE_STATE, [job, source]).fetchone()
    if state is None or state[0] != generation or state[1] != "loading":
        raise Fenced(
            f"load {generation} of the table is over" + (f", it is {state[1]} in load {state[0]}" if state else ""),
            table=source,
            hint="a later load of the table replaced this one, or it has ended",
        )
    ledger = connection.execute(MARK_CHUNK, chunk).fetchone()
    if ledger is None:
        raise Fenced(f"load {generation} of the table has no chunk {number}", table=source)
    rows: int | None = ledger[0]
    return rows


def _bound(values: list[str] | None) -> tuple[str, ...] | None:
    return None if values is None else tuple(values)


def read_ledger(connection: Connection, job: str, source: TableId, generation: int) -> list[LoadedChunk]:
    """Return the chunks of a load, in their order."""
    rows = connection.execute(READ_LEDGER, [job, str(source), generation]).fetchall()
    return [
        LoadedChunk(number, Bounds(_bound(lower), _bound(upper)), done, low or "", high or "")
        for number, lower, upper, done, low, high in rows
    ]


def read_ledgers(
    connection: Connection, job: str, generations: Mapping[TableId, int]
) -> dict[TableId, list[LoadedChunk]]:
    """Return the chunks of several loads, in one question."""
    values = [[str(table) for table in generations], list(generations.values()), job]
    rows = connection.execute(READ_LEDGERS, values).fetchall()
    found: dict[TableId, list[LoadedChunk]] = {table: [] for table in generations}
    for source, number, lower, upper, done, low, high in rows:
        bounds = Bounds(_bound(lower), _bound(upper))
        found[TableId.parse(source)].append(LoadedChunk(number, bounds, done, low or "", high or ""))
    return found
