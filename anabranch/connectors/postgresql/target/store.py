"""State at the target: schema `anabranch` (`migrate.py`), and the rows of jobs, checkpoints and tables.

What does not live here: the checkpoint's compare-and-set (`apply.py`), the ledger of chunks (`load.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, LiteralString

import psycopg
from psycopg.types.json import Jsonb

from anabranch.connectors.postgresql.connection import Connection, connect
from anabranch.connectors.postgresql.errors import translated
from anabranch.connectors.postgresql.target import (
    applied,
    aside,
    conflicts,
    cutover_notes,
    ddl_notes,
    skipped,
    trace,
    verified,
)
from anabranch.connectors.postgresql.target.migrate import migrate, shipped
from anabranch.connectors.postgresql.target.progress_view import hide, show
from anabranch.connectors.postgresql.target.stage_sweep import sweep
from anabranch.connectors.sql.migrations import KNOWS, Migration, newest
from anabranch.errors import Fenced, StateError
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId
from anabranch.model.position import Position
from anabranch.model.state import Checkpoint, Skipped
from anabranch.model.table_life import Place, TableState, read_stored

if TYPE_CHECKING:  # `status` goes without what these bring along
    from anabranch.model.cutover import CutoverNote
    from anabranch.model.ddl_changes import DdlChange
    from anabranch.model.schema import TableSchema
    from anabranch.model.verified import Verified
    from anabranch.rows.aside import AsideChange
    from anabranch.rows.conflict import NotedConflict

TARGET = "target"  # the checkpoint row's name of a job's only target
LOCK = 0x616E61  # pg_advisory_xact_lock: one process at a time makes or removes the schema
TABLES = ("load_chunk", "table_state", "checkpoint", "job")  # rows of jobs
MORE_TABLES = (
    "taken_off",
    "conflict",
    "skipped",
    "set_aside",
    "trace",
    "cutover",
    "verified",
    "pair_note",
    "ddl",
    "applied",
)  # an earlier release may not have made them
COLUMNS = ("uuid", "source_identity", "definition")  # of a job; what else it says goes into facts

# Not `to_regclass`: that one may answer what the session had found before it waited for the lock.
HAS_META = """
SELECT EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                WHERE n.nspname = 'anabranch' AND c.relname = 'meta')
"""
READ_JOB = "SELECT uuid, source_identity, definition::text, facts FROM anabranch.job WHERE job = %s"
SAVE_JOB = """
INSERT INTO anabranch.job (job, uuid, source_identity, definition, facts) VALUES (%s, %s, %s, %s, %s)
ON CONFLICT (job) DO UPDATE SET uuid = excluded.uuid, source_identity = excluded.source_identity,
    definition = excluded.definition, facts = excluded.facts
 WHERE job.facts -> 'target' IS NOT DISTINCT FROM excluded.facts -> 'target'
"""
READ_CHECKPOINT = """
SELECT owner, epoch, sequence, position, commit_time FROM anabranch.checkpoint WHERE job = %s AND target = %s
"""
CREATE_CHECKPOINT = """
INSERT INTO anabranch.checkpoint (job, target, sequence, position, commit_time) VALUES (%s, %s, %s, %s, %s)
ON CONFLICT DO NOTHING
"""
READ_TABLE = """
SELECT source_table, target_table, state, generation, low, high, reason, rows_loaded, changes_applied, schema, facts
  FROM anabranch.table_state WHERE job = %s AND source_table = %s
"""
# All of them at one moment. A row that is known by its version (xmin, ctid) comes without its definition: who waits asks
# again and again, and definitions of thousands of tables are megabytes. So does every row for who does not want them.
# https://www.postgresql.org/docs/current/ddl-system-columns.html
READ_TABLES = """
WITH known AS (SELECT * FROM unnest(%s::text[], %s::text[]) AS k (source_table, version))
SELECT t.xmin::text || t.ctid::text, source_table, target_table, state, generation, low, high, reason, rows_loaded,
       changes_applied, CASE WHEN %s AND known.version IS DISTINCT FROM t.xmin::text || t.ctid::text THEN schema END, facts
  FROM anabranch.table_state t LEFT JOIN known USING (source_table) WHERE job = %s
"""
READ_OTHERS = "SELECT DISTINCT target_table FROM anabranch.table_state WHERE job <> %s"
# Who comes second waits for the first one's transaction, and adds nothing.
ADD_TABLE = """
INSERT INTO anabranch.table_state (job, source_table, target_table, state) VALUES (%s, %s, %s, 'pending')
ON CONFLICT DO NOTHING
"""
LOCK_TABLE = (
    "SELECT state, generation, facts, reason FROM anabranch.table_state WHERE job = %s AND source_table = %s FOR UPDATE"
)
LOCK_TABLES = """
SELECT source_table, state, generation, facts, reason FROM anabranch.table_state
 WHERE job = %s AND source_table = ANY (%s) ORDER BY source_table FOR UPDATE
"""
FORGET_TABLE: tuple[LiteralString, ...] = (
    "DELETE FROM anabranch.table_state WHERE job = %s AND source_table = %s",
    "DELETE FROM anabranch.load_chunk WHERE job = %s AND source_table = %s",
)
FORGET_VERIFIED = "DELETE FROM anabranch.verified WHERE job = %s AND source_table = %s"
FORGET_UNTOUCHED = """
DELETE FROM anabranch.table_state WHERE job = %s AND source_table = %s AND generation = 0 AND schema IS NULL
"""
SAVE_TABLE = """
INSERT INTO anabranch.table_state (job, source_table, target_table, state, generation, low, high, reason, rows_loaded,
    changes_applied, schema, facts) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
ON CONFLICT (job, source_table) DO UPDATE SET target_table = excluded.target_table, state = excluded.state,
    generation = excluded.generation, low = excluded.low, high = excluded.high, reason = excluded.reason,
    rows_loaded = excluded.rows_loaded, changes_applied = excluded.changes_applied,
    schema = coalesce(excluded.schema, table_state.schema), facts = excluded.facts
"""
IS_PUBLISHED = """
SELECT EXISTS (SELECT FROM pg_catalog.pg_publication_rel r JOIN pg_catalog.pg_class c ON c.oid = r.prrelid
                 JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'anabranch')
"""


class PostgresStore:
    """State of jobs at a PostgreSQL target. One connection, opened on first use and again after it was lost.

    Delivery: what a call wrote is committed when it returns."""

    def __init__(self, endpoint: Endpoint, migrations: Sequence[Migration] = ()) -> None:
        """Set up the store. `migrations`: in place of those of this release."""
        self._endpoint, self._migrations = endpoint, migrations or shipped()
        self._open: Connection | None = None
        self._known: dict[str, dict[str, tuple[str, TableState]]] = {}  # job -> source table -> version, state

    @property
    def jobs(self) -> PostgresStore:
        return self

    @property
    def states(self) -> PostgresStore:
        return self

    @property
    def journal(self) -> PostgresStore:
        return self

    @property
    def asides(self) -> PostgresStore:
        return self

    @property
    def cutovers(self) -> PostgresStore:
        return self

    @property
    def verifications(self) -> PostgresStore:
        return self

    def exists(self) -> bool:
        with self._session("look for the schema anabranch") as connection:
            return bool(_one(connection, HAS_META))

    def prepare(self) -> None:
        """Make the schema, or bring that of an earlier release to this one. May run in several processes at once: the first
        does it, the others find it done."""
        with self._session("prepare the schema anabranch") as connection, connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s)", [LOCK])
            migrate(connection, self._migrations)

    def show_progress(self) -> None:
        """Make `public.kafkaoffset`, as ShowsProgress has it."""
        with self._session("show progress as exBase does") as connection, connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s)", [LOCK])
            show(connection)

    def job(self, job: str) -> dict[str, str] | None:
        row = self._read("read the job", READ_JOB, [job])
        if row is None:
            return None
        *columns, facts = row
        facts.pop(KNOWS, None)
        return {**{k: v for k, v in zip(COLUMNS, columns, strict=True) if v is not None}, **facts}

    def save_job(self, job: str, facts: Mapping[str, str]) -> None:
        rest = {name: value for name, value in facts.items() if name not in COLUMNS}
        rest[KNOWS] = str(newest(self._migrations))
        with self._session("save the job") as connection:
            saved = connection.execute(SAVE_JOB, [job, *(facts.get(name) for name in COLUMNS), Jsonb(rest)])
        if saved.rowcount != 1:
            raise StateError("this database is another target of the job", job=job, hint="one database for each target")

    def checkpoint(self, job: str) -> Checkpoint | None:
        row = self._read("read the checkpoint", READ_CHECKPOINT, [job, TARGET])
        return None if row is None else checkpoint_of(row)

    def create_checkpoint(self, job: str, position: Position, commit_time: int) -> None:
        with self._session("create the checkpoint") as connection:
            row = [job, TARGET, position.sequence, position.native, commit_time]
            connection.execute(CREATE_CHECKPOINT, row)

    def applied(self, job: str) -> dict[int, str]:
        with self._session("read what is applied beyond the checkpoint") as connection:
            return applied.read(connection, job, TARGET) if _exists(connection, "applied") else {}

    def begin_notes(self) -> None:
        with self._session("keep older releases out") as connection:
            applied.keep_older_out(connection, self._migrations)

    def tables(self, job: str, whole: bool = True) -> dict[TableId, TableState]:
        with self._session("read the tables' states") as connection:
            if not _one(connection, HAS_META):
                return {}
            known = self._known.get(job, {})
            versions = [version for version, _ in known.values()]
            rows = connection.execute(READ_TABLES, [list(known), versions, whole, job]).fetchall()
        found = {
            row[0]: known[row[0]]
            if row[0] in known and known[row[0]][0] == version
            else (version, state_of(tuple(row)))
            for version, *row in rows
        }
        if whole:
            self._known[job] = found
        return {state.source: state for _, state in found.values()}

    def table(self, job: str, table: TableId) -> TableState | None:
        with self._session("read a table's state") as connection:
            row = connection.execute(READ_TABLE, [job, str(table)]).fetchone()
        return None if row is None else state_of(row)

    def others(self, job: str) -> frozenset[TableId]:
        with self._session("read the tables of other jobs") as connection:
            rows = connection.execute(READ_OTHERS, [job]).fetchall()
        return frozenset(TableId.parse(target) for (target,) in rows)

    def save_table(self, job: str, state: TableState, before: TableState | None) -> None:
        with self._session("save a table's state") as connection, connection.transaction():
            if before is not None:
                require_same(connection, job, before)
            elif connection.execute(ADD_TABLE, [job, str(state.source), str(state.target)]).rowcount != 1:
                raise _changed(job, state.source)
            save_table(connection, job, state)

    def save_tables(self, job: str, states: Sequence[tuple[TableState, TableState | None]]) -> None:
        added = [state for state, before in states if before is None]
        with self._session("save states of tables") as connection, connection.transaction():
            _require_all(connection, job, {state.source: before for state, before in states})
            with connection.cursor() as cursor:
                add_states(cursor, job, added)
                cursor.executemany(SAVE_TABLE, [state_row(job, state) for state, _ in states])

    def forget_table(self, job: str, before: TableState) -> None:
        with self._session("forget a table") as connection, connection.transaction():
            require_same(connection, job, before)
            aside.forget(connection, job, before.source)
            for statement in FORGET_TABLE:
                connection.execute(statement, [job, str(before.source)])
            if _exists(connection, "verified"):
                connection.execute(FORGET_VERIFIED, [job, str(before.source)])

    def conflicts(self, job: str, table: TableId | None = None, after: int = 0, limit: int = 0) -> list[NotedConflict]:
        with self._session("read the conflicts") as connection:
            if not _exists(connection, "conflict"):
                return []
            return conflicts.read(connection, job, table, after, limit)

    def ddl_changes(self, job: str, table: TableId | None = None) -> list[DdlChange]:
        with self._session("read the changes of definitions") as connection:
            return ddl_notes.read(connection, job, table) if _exists(connection, "ddl") else []

    def skip(self, job: str, one: Skipped) -> None:
        with self._session("note a transaction to leave out") as connection:
            skipped.add(connection, job, one)

    def skipped(self, job: str) -> list[Skipped]:
        with self._session("read the transactions to leave out") as connection:
            return skipped.read(connection, job) if _exists(connection, "skipped") else []

    def unskip(self, job: str, sequence: int) -> bool:
        with self._session("forget a transaction to leave out") as connection:
            return skipped.remove(connection, job, sequence)

    def set_aside(self, job: str, table: TableId | None = None, discarded: bool = False) -> list[AsideChange]:
        with self._session("read what is set aside") as connection:
            return aside.read(connection, job, table, discarded) if _exists(connection, "set_aside") else []

    def count_aside(self, job: str) -> Mapping[TableId, int]:
        with self._session("count what is set aside") as connection:
            return aside.count(connection, job) if _exists(connection, "set_aside") else {}

    def forget_aside(self, job: str, table: TableId) -> None:
        with self._session("forget what is set aside") as connection, connection.transaction():
            aside.forget(connection, job, table)

    def asked(self, job: str) -> bool:
        with self._session("look what is wanted for rows that are set aside") as connection:
            return _exists(connection, "set_aside") and aside.asked(connection, job)

    def wish(self, job: str, numbers: Sequence[int], wish: str, reason: str = "") -> int:
        with self._session("note what is wanted for rows that are set aside") as connection:
            return aside.wish(connection, job, numbers, wish, reason)

    def forget_conflicts(self, job: str, upto: int) -> int:
        with self._session("remove conflicts") as connection:
            if not _exists(connection, "conflict"):
                return 0
            return connection.execute(conflicts.FORGET, [job, upto]).rowcount

    def add_trace(self, job: str, entries: Sequence[Mapping[str, Any]], oldest: str) -> bool:
        if self.job(job) is None:
            return False
        with self._session("write the trace") as connection:
            if not _exists(connection, "trace"):
                return False
            trace.add(connection, job, entries, oldest)
            return True

    def trace(self, job: str, first: str = "") -> list[dict[str, Any]]:
        with self._session("read the trace") as connection:
            return trace.read(connection, job, first) if _exists(connection, "trace") else []

    def cutover_notes(self, job: str) -> list[CutoverNote]:
        with self._session("read the notes of cut-overs") as connection:
            return cutover_notes.read(connection, job) if _exists(connection, "cutover") else []

    def note_cutover(self, job: str, note: CutoverNote) -> None:
        with self._session("note a step of the cut-over") as connection:
            cutover_notes.add(connection, job, note)

    def verified(self, job: str) -> list[Verified]:
        with self._session("read the results of verification") as connection:
            return verified.read(connection, job) if _exists(connection, "verified") else []

    def note_verified(self, job: str, found: Verified, before: int = 0) -> bool:
        with self._session("keep a result of verification") as connection:
            return verified.keep(connection, job, found, before)

    def forget_verified(self, job: str, table: TableId) -> None:
        with self._session("forget a result of verification") as connection:
            if _exists(connection, "verified"):
                connection.execute(FORGET_VERIFIED, [job, str(table)])

    def taken_off(self, job: str) -> list[str]:
        from anabranch.connectors.postgresql.target.taken_off import not_back  # `status` goes without what it needs

        with self._session("read the keys that were taken off") as connection:
            return not_back(connection, job)

    def drop(self, job: str) -> None:
        """Drop the job's rows and staging tables; with the last job our tables and, if nothing else is in it, the schema."""
        with self._session("remove the job's state") as connection:
            if not _one(connection, HAS_META):
                return
            sweep(connection, job)
            with connection.transaction():
                connection.execute("SELECT pg_advisory_xact_lock(%s)", [LOCK])
                _drop_rows(connection, job)

    def close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None

    @contextmanager
    def _session(self, doing: str) -> Iterator[Connection]:
        if self._open is None or self._open.closed:
            self._open = connect(self._endpoint, "anabranch-state", autocommit=True)
            self._known.clear()  # it may be another server, whose rows have the same versions
        with translated(doing):
            yield self._open

    def _read(self, doing: str, query: str, values: list[Any]) -> tuple[Any, ...] | None:
        """Read one row. None also where no job has ever been."""
        with self._session(doing) as connection:
            if not _one(connection, HAS_META):
                return None
            return connection.execute(query.encode(), values).fetchone()


def add_states(cursor: psycopg.Cursor[Any], job: str, states: Sequence[TableState]) -> None:
    """Add rows of new tables. Raises Fenced where somebody has added one meanwhile."""
    if states:
        cursor.executemany(ADD_TABLE, [(job, str(state.source), str(state.target)) for state in states])
        if cursor.rowcount != len(states):
            raise _changed(job, states[0].source)


def _require_all(connection: Connection, job: str, before: Mapping[TableId, TableState | None]) -> None:
    """Raise Fenced unless many states are as they were, in one statement; None: there is no row, and nobody adds one
    meanwhile.
    """
    absent = {table for table, state in before.items() if state is None}
    rows = connection.execute(LOCK_TABLES, [job, [str(table) for table in before.keys() - absent]]).fetchall()
    found = {source: stored_place(*rest) for source, *rest in rows}
    for table, state in before.items():
        if state is not None and found.get(str(table)) != state.place:
            raise _changed(job, table)


def require_same(connection: Connection, job: str, before: TableState) -> None:
    """Lock the row of a state that somebody has seen. Raises Fenced where it is another one by now."""
    found = connection.execute(LOCK_TABLE, [job, str(before.source)]).fetchone()
    if found is None or stored_place(*found) != before.place:
        raise _changed(job, before.source)


def stored_place(state: str, generation: int, facts: Mapping[str, str], reason: str) -> Place:
    """Return TableState.place of a row."""
    life, known = read_stored(state, reason, facts)
    return life, generation, known


def _changed(job: str, table: TableId) -> Fenced:
    return Fenced(
        "the table's state was changed meanwhile",
        job=job,
        table=str(table),
        hint="another load of it goes on: let one of them end",
    )


def save_table(connection: Connection, job: str, state: TableState) -> None:
    """Write a row of anabranch.table_state in the caller's transaction; a state without schema keeps the one there."""
    connection.execute(SAVE_TABLE, state_row(job, state))


def state_row(job: str, state: TableState) -> list[Any]:
    """Return the parameters of SAVE_TABLE."""
    schema = None if state.schema is None else Jsonb(state.schema.to_json())
    reason = aside.readable(state.reason)
    places = [str(state.source), str(state.target), state.state, state.generation, state.low, state.high, reason]
    return [job, *places, state.rows_loaded, state.changes_applied, schema, Jsonb(state.facts.stored())]


def checkpoint_of(row: tuple[Any, ...]) -> Checkpoint:
    """Return a row of READ_CHECKPOINT."""
    owner, epoch, sequence, native, commit_time = row
    return Checkpoint(owner, epoch, Position(sequence, native), commit_time)


def state_of(row: tuple[Any, ...], whole: bool = True) -> TableState:
    """Return a row of READ_TABLE. `whole=False`: without its definition."""
    source, target, state, generation, low, high, reason, rows, changes, schema, facts = row
    definition = _definition(schema) if whole and schema is not None else None
    ids = TableId.parse(source), TableId.parse(target)
    life, known = read_stored(state, reason, facts)
    return TableState(*ids, life, generation, low, high, reason, rows, changes, definition, known)


def _definition(schema: Any) -> TableSchema:
    from anabranch.model.schema import TableSchema  # see READ_TABLES: not everybody wants them

    return TableSchema.from_json(schema)


def _drop_rows(connection: Connection, job: str) -> None:
    mine = [*TABLES, *(name for name in MORE_TABLES if _exists(connection, name))]
    for name in mine:
        connection.execute(f"DELETE FROM anabranch.{name} WHERE job = %s".encode(), [job])
    if any(_one(connection, f"SELECT EXISTS (SELECT FROM anabranch.{name})") for name in mine):
        return
    if _one(connection, IS_PUBLISHED):  # a job that reads here knows by these tables what others have written
        return
    hide(connection)
    for name in (*mine, "meta"):
        connection.execute(f"DROP TABLE anabranch.{name}".encode())
    try:
        with connection.transaction():
            connection.execute("DROP SCHEMA anabranch")
    except psycopg.errors.DependentObjectsStillExist:
        pass  # somebody keeps tables of their own in it


def _exists(connection: Connection, name: str) -> bool:
    return bool(_one(connection, f"SELECT to_regclass('anabranch.{name}') IS NOT NULL"))


def _one(connection: Connection, query: str) -> Any:
    row = connection.execute(query.encode()).fetchone()
    return row[0] if row else None
