"""The ledger of a load, anabranch.load_chunk: entering a chunk and noting that it is done, in the transaction of its rows; and
marks of a load that is about to begin (`beginning.py`), which stand there as rows with a number below 0.

What does not live here: rows (`load.py`), states of tables (`store.py`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from enum import IntEnum

from anabranch.connectors.mysql.target.session import Connection, ask, run
from anabranch.contracts import Bounds, LoadedChunk
from anabranch.errors import Fenced
from anabranch.model.ids import TableId

Chunk = tuple[str, str, int, int]
"""Job, source table, generation, number."""

# A new generation locks the state row for itself, chunks of one generation share it: they load side by side.
LOCK_STATE = "SELECT generation, state FROM anabranch.table_state WHERE job = %s AND source_table = %s FOR UPDATE"
SHARE_STATE = """
SELECT generation, state FROM anabranch.table_state WHERE job = %s AND source_table = %s LOCK IN SHARE MODE
"""
OF_CHUNK = "job = %s AND source_table = %s AND generation = %s AND number = %s"
LOCK_CHUNK = f"SELECT `rows` FROM anabranch.load_chunk WHERE {OF_CHUNK} FOR UPDATE"
# The transaction's first change is here (K21): a reader of the target's log sees whose the rows behind it are.
MARK_CHUNK = f"UPDATE anabranch.load_chunk SET low = %s, high = %s WHERE {OF_CHUNK}"
CHUNK_DONE = f"UPDATE anabranch.load_chunk SET `rows` = %s WHERE {OF_CHUNK}"
READ = """
SELECT source_table, number, `lower`, `upper`, `rows`, low, high FROM anabranch.load_chunk
 WHERE job = %s AND number >= 0 AND ({which}) ORDER BY source_table, number
"""
HAS_ROWS = """
SELECT 1 FROM anabranch.load_chunk
 WHERE job = %s AND source_table = %s AND generation = %s AND number >= 0 LIMIT 1
"""
MARKED = "SELECT number FROM anabranch.load_chunk WHERE job = %s AND source_table = %s AND number < 0"
ADD = """
INSERT INTO anabranch.load_chunk (job, source_table, generation, number, `lower`, `upper`) VALUES {rows}
"""
CLEAR = "DELETE FROM anabranch.load_chunk WHERE job = %s AND source_table = %s"
AT_ONCE = 500  # rows of one INSERT


class Mark(IntEnum):
    """The thing that a load which has not begun was about to do with its target table when the mark was set."""

    EMPTY = -1  # remove the rows that are in it
    MAKE = -2  # create it: it was not there


def enter(connection: Connection, chunk: Chunk, marks: tuple[str, str]) -> int | None:
    """Return the rows of a chunk that is done, None for one that is ours to load: nobody else loads it until the transaction
    ends, and no later load begins. Raises Fenced."""
    job, source, generation, number = chunk
    found = ask(connection, SHARE_STATE, job, source)
    if not found or found[0] != (generation, "loading"):
        now = f", it is {found[0][1]} in load {found[0][0]}" if found else ""
        raise Fenced(
            f"load {generation} of the table is over{now}",
            table=source,
            hint="a later load of the table replaced this one, or it has ended",
        )
    ledger = ask(connection, LOCK_CHUNK, *chunk)
    if not ledger:
        raise Fenced(f"load {generation} of the table has no chunk {number}", table=source)
    rows: int | None = ledger[0][0]
    if rows is None:
        run(connection, MARK_CHUNK, *marks, *chunk)
    return rows


def finish(connection: Connection, chunk: Chunk, rows: int) -> None:
    run(connection, CHUNK_DONE, rows, *chunk)


def read(connection: Connection, job: str, generations: Mapping[TableId, int]) -> dict[TableId, list[LoadedChunk]]:
    """Return the ledgers of these loads, by number; an empty one for a load that has not begun."""
    found: dict[TableId, list[LoadedChunk]] = {table: [] for table in generations}
    if not generations:
        return found
    which = " OR ".join(["source_table = %s AND generation = %s"] * len(generations))
    wanted = [value for table, generation in generations.items() for value in (str(table), generation)]
    for source, number, lower, upper, rows, low, high in ask(connection, READ.format(which=which), job, *wanted):
        bounds = Bounds(_ends(lower), _ends(upper))
        found[TableId.parse(source)].append(LoadedChunk(number, bounds, rows, low or "", high or ""))
    return found


def has_begun(connection: Connection, job: str, source: TableId, generation: int) -> bool:
    return bool(ask(connection, HAS_ROWS, job, str(source), generation))


def marked(connection: Connection, job: str, source: TableId) -> Mark | None:
    """Return what a load that did not begin was about to do."""
    found = ask(connection, MARKED, job, str(source))
    return Mark(found[0][0]) if found else None


def mark(connection: Connection, job: str, source: TableId, generation: int, what: Mark) -> None:
    """Forget the ledger, and say what is about to be done."""
    _replace(connection, job, source, [(job, str(source), generation, int(what), None, None)])


def replace(connection: Connection, job: str, source: TableId, generation: int, bounds: Sequence[Bounds]) -> None:
    """Write a new ledger in place of whatever there is."""
    rows = [(job, str(source), generation, number, *_texts(one)) for number, one in enumerate(bounds)]
    _replace(connection, job, source, rows)


def clear(connection: Connection, job: str, source: TableId) -> None:
    run(connection, CLEAR, job, str(source))


def _replace(connection: Connection, job: str, source: TableId, rows: Sequence[tuple[object, ...]]) -> None:
    clear(connection, job, source)
    for first in range(0, len(rows), AT_ONCE):
        some = rows[first : first + AT_ONCE]
        places = ", ".join(["(%s, %s, %s, %s, %s, %s)"] * len(some))
        run(connection, ADD.format(rows=places), *(value for row in some for value in row))


def _texts(bounds: Bounds) -> tuple[str | None, str | None]:
    lower, upper = (
        None if ends is None else json.dumps(ends, ensure_ascii=False) for ends in (bounds.lower, bounds.upper)
    )
    return lower, upper


def _ends(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else tuple(json.loads(text))
