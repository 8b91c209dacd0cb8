"""The ledger of the load into a trail: what a job is, the states of its tables and their chunks, in `ledger/load.db`.

It is written at the source's site only, by the processes of one machine, and nobody else reads it: what other sites need stands
in manifests. In a trail that is encrypted, where chunks begin and end, definitions of tables and why one is parked are sealed
(sealed_texts.py).
What does not live here: what the contracts make of it (store.py, loader.py).
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from anabranch.contracts import Bounds, LoadedChunk
from anabranch.errors import StateError, StorageFull, TargetBusy, TrailError
from anabranch.model.ids import TableId
from anabranch.model.schema import TableSchema
from anabranch.model.table_life import TableState, read_stored
from anabranch.rows.net import TargetTable
from anabranch.trail_end.manifests import ChunkFile, RecordedChunk
from anabranch.trail_end.sealed_texts import SealedTexts, SealingConnection

FOLDER = "ledger"
FILE = f"{FOLDER}/load.db"
VERSION = 1
WAIT_S = 30.0  # for another process's transaction; each is short
TABLES = """
CREATE TABLE IF NOT EXISTS job (job TEXT PRIMARY KEY, facts TEXT, is_begun INTEGER NOT NULL DEFAULT 0);
CREATE TABLE IF NOT EXISTS table_state (
    job TEXT, source TEXT, target TEXT NOT NULL, state TEXT NOT NULL, generation INTEGER NOT NULL, low TEXT NOT NULL,
    high TEXT NOT NULL, reason TEXT NOT NULL, rows_loaded INTEGER NOT NULL, schema TEXT, facts TEXT NOT NULL,
    columns TEXT NOT NULL DEFAULT '', PRIMARY KEY (job, source));
CREATE TABLE IF NOT EXISTS chunk (
    job TEXT, source TEXT, generation INTEGER, number INTEGER, lower TEXT, upper TEXT, rows INTEGER, low TEXT NOT NULL,
    high TEXT NOT NULL, file TEXT NOT NULL, bytes INTEGER NOT NULL, sha256 TEXT NOT NULL,
    PRIMARY KEY (job, source, generation, number));
"""
NUMBERING = (
    "CREATE TABLE IF NOT EXISTS numbering (job TEXT, source TEXT, base INTEGER NOT NULL, PRIMARY KEY (job, source))"
)
STATE = "source, target, state, generation, low, high, reason, rows_loaded, schema, facts"
CHUNK = "number, lower, upper, rows, low, high, file, bytes, sha256"


class Ledger:
    """A connection to the ledger, opened on first use. Not for several threads."""

    def __init__(self, trail: Path) -> None:
        self.trail = trail
        self._connection: SealingConnection | None = None

    def exists(self) -> bool:
        return (self.trail / FILE).exists()

    def prepare(self) -> None:
        """Create the file. Raises StateError where a newer release made it, TrailError where it cannot be."""
        try:
            (self.trail / FOLDER).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            hint = "check the directory that the job's [target] url names"
            raise TrailError(f"cannot make {self.trail / FOLDER}: {error.strerror}", hint=hint) from error
        with self.transaction() as connection:
            known = connection.execute("PRAGMA user_version").fetchone()[0]
            if known > VERSION:
                message = f"{self.trail / FILE} has version {known}, this release knows {VERSION}"
                raise StateError(message, hint="use the newer release again")
            for statement in (*TABLES.split(";"), NUMBERING):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {VERSION}")

    @contextmanager
    def transaction(self) -> Iterator[SealingConnection]:
        """Open a transaction that nobody else writes beside; it commits when the block ends well."""
        with _told(self.trail):
            connection = self._connected()
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:  # whatever it was: nothing of it stays, and it goes on
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    def rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """Read rows; none where there is no ledger yet."""
        if not self.exists():
            return []
        with _told(self.trail), closing(self._connected().execute(query, values)) as found:
            return found.fetchall()

    def number(self, job: str, table: TableId, generation: int) -> int:
        """Return which number a load of a table has in the trail. Those of a table that was forgotten go on behind the numbers
        that files, readers and replicas know."""
        if not self.rows("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'numbering'"):
            return generation  # an earlier release made the ledger
        found = self.rows("SELECT base FROM numbering WHERE job = ? AND source = ?", job, str(table))
        return generation + (found[0][0] if found else 0)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _connected(self) -> SealingConnection:
        if self._connection is None:
            self._connection = sqlite3.connect(
                self.trail / FILE,
                timeout=WAIT_S,
                isolation_level=None,
                check_same_thread=False,
                factory=SealingConnection,
            )
            self._connection.texts = SealedTexts(self.trail)
            self._connection.row_factory = self._connection.texts.row
            self._connection.execute("PRAGMA synchronous = FULL")
        return self._connection


@contextmanager
def _told(trail: Path) -> Iterator[None]:
    """Translate errors of the database."""
    try:
        yield
    except sqlite3.OperationalError as error:
        text = str(error)
        if "full" in text:
            raise StorageFull(f"no room left for the ledger of the load in {trail}") from error
        if "locked" in text or "busy" in text:
            raise TargetBusy(f"another process has the ledger of the load in {trail}") from error
        raise TrailError(f"the ledger of the load cannot be used ({trail / FILE}): {text}", hint=_MEND) from error
    except sqlite3.DatabaseError as error:
        raise TrailError(f"the ledger of the load is damaged ({trail / FILE}): {error}", hint=_MEND) from error


_MEND = "restore it from a backup of the trail; or remove the trail (anabranch drop JOB --execute), and load again"


def put_state(connection: SealingConnection, job: str, state: TableState) -> None:
    """Write a table's state in the caller's transaction; one without schema keeps the one that is there."""
    schema = None if state.schema is None else connection.seals(json.dumps(state.schema.to_json()))
    reason = connection.seals(state.reason) if state.reason else ""  # a value that was refused may be in it
    connection.execute(
        f"INSERT INTO table_state (job, {STATE}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (job, source) DO UPDATE"
        " SET target = excluded.target, state = excluded.state, generation = excluded.generation, low = excluded.low,"
        " high = excluded.high, reason = excluded.reason, rows_loaded = excluded.rows_loaded,"
        " schema = coalesce(excluded.schema, schema), facts = excluded.facts",
        (
            job,
            str(state.source),
            str(state.target),
            str(state.state),
            state.generation,
            state.low,
            state.high,
            reason,
            state.rows_loaded,
            schema,
            json.dumps(state.facts.stored()),
        ),
    )


def state_of(row: Sequence[Any], whole: bool = True) -> TableState:
    """Return a row of STATE."""
    source, target, state, generation, low, high, reason, rows, schema, facts = row
    life, known = read_stored(state, reason, json.loads(facts))
    definition = TableSchema.from_json(json.loads(schema)) if whole and schema else None
    ids = TableId.parse(source), TableId.parse(target)
    return TableState(*ids, life, generation, low, high, reason, rows, 0, definition, known)


def go_on_numbering(connection: SealingConnection, job: str, table: TableId, last: int) -> None:
    """Note that a table begins from nothing, in a trail that knows its loads up to number `last`."""
    connection.execute(NUMBERING)
    connection.execute(
        "INSERT INTO numbering (job, source, base) VALUES (?, ?, ?)"
        " ON CONFLICT (job, source) DO UPDATE SET base = excluded.base",
        (job, str(table), last),
    )


def one_state(connection: SealingConnection, job: str, table: TableId) -> TableState | None:
    query = f"SELECT {STATE} FROM table_state WHERE job = ? AND source = ?"
    row = connection.execute(query, (job, str(table))).fetchone()
    return None if row is None else state_of(row)


def put_chunks(
    connection: SealingConnection, job: str, table: TargetTable, generation: int, bounds: Sequence[Bounds]
) -> None:
    """Write the chunks of a load that begins, in place of those of all loads of the table before, and which columns it has.
    The table's state is there already."""
    columns, source = json.dumps(table.source_columns), str(table.source)
    connection.execute("UPDATE table_state SET columns = ? WHERE job = ? AND source = ?", (columns, job, source))
    connection.execute("DELETE FROM chunk WHERE job = ? AND source = ?", (job, source))
    connection.executemany(
        f"INSERT INTO chunk (job, source, generation, {CHUNK}) VALUES (?, ?, ?, ?, ?, ?, NULL, '', '', '', 0, '')",
        [
            (job, source, generation, number, *(connection.seals(_as_text(key)) for key in (one.lower, one.upper)))
            for number, one in enumerate(bounds)
        ],
    )


def columns_of(connection: SealingConnection, job: str, table: TableId) -> tuple[str, ...]:
    """Return the source columns that the table's load reads."""
    query = "SELECT columns FROM table_state WHERE job = ? AND source = ?"
    return tuple(json.loads(connection.execute(query, (job, str(table))).fetchone()[0]))


def chunk_of(row: Sequence[Any]) -> LoadedChunk:
    """Return a row of CHUNK."""
    number, lower, upper, rows, low, high, *_ = row
    return LoadedChunk(number, Bounds(_as_key(lower), _as_key(upper)), rows, low, high)


def recorded(row: Sequence[Any]) -> RecordedChunk:
    """Return a row of CHUNK that is done."""
    _, lower, upper, rows, low, high, file, size, digest = row
    return RecordedChunk(Bounds(_as_key(lower), _as_key(upper)), low, high, ChunkFile(file, rows, size, digest))


def _as_text(key: tuple[str, ...] | None) -> str | None:
    return None if key is None else json.dumps(key)


def _as_key(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else tuple(json.loads(text))
