"""The job's set-up at its source, carried out and removed over a session of its own. What is needed: slots.py."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace

import psycopg

from anabranch.connectors.postgresql.changed_types import changed_types
from anabranch.connectors.postgresql.connection import Connection
from anabranch.connectors.postgresql.source.added_columns import SeenFile, note_files
from anabranch.connectors.postgresql.source.catalog import PostgresCatalog
from anabranch.connectors.postgresql.source.connection import log_end, open_session
from anabranch.connectors.postgresql.source.decoders import DECODERS
from anabranch.connectors.postgresql.source.definitions import Attached
from anabranch.connectors.postgresql.source.errors import translate, translated
from anabranch.connectors.postgresql.source.held_log import read_slot
from anabranch.connectors.postgresql.source.marker_tables import has_written
from anabranch.connectors.postgresql.source.options import PostgresSourceOptions
from anabranch.connectors.postgresql.source.partitions import Look, unseen, what_went, why_came
from anabranch.connectors.postgresql.source.retyped_columns import Looks, TableLook, look, why_retyped
from anabranch.connectors.postgresql.source.slots import missing as statements
from anabranch.connectors.postgresql.source.slots import removal
from anabranch.connectors.postgresql.source.widened import keeps_rows, keeps_values
from anabranch.contracts import Drift, LogOptions, Rekeyed, Undecided
from anabranch.errors import SourceUnavailable
from anabranch.model.column_changes import TOLD_BY_ROWS, ColumnChange, Follows, as_rows_tell, with_those
from anabranch.model.endpoint import Endpoint
from anabranch.model.foreign_key_changes import keys_of_now
from anabranch.model.ids import TableId
from anabranch.model.markers import jobs_among
from anabranch.model.schema import TableSchema
from anabranch.model.steps import SetUpStep

WIDENED = frozenset({ColumnChange.TYPE})
LOCK_SECONDS = 2.0  # that others may have to wait behind a statement of ours
LET_GO_SECONDS = 10.0  # in which a server sees that a slot's reader is gone


def steps_for(
    endpoint: Endpoint,
    options: LogOptions,
    own: PostgresSourceOptions,
    tables: Mapping[TableId, TableSchema],
    begins: bool,
) -> list[SetUpStep]:
    jobs = jobs_among(options.leave_out)
    with open_session(endpoint) as connection, translated("look at what the source has of the job"):
        # Who begins or names tables says that they are needed; a mere start adds them where it hides nothing.
        is_marked = bool(jobs) and (begins or bool(tables) or not has_written(connection, jobs))
        return statements(connection, options.name, tables, begins, DECODERS[own.decoder], is_marked, own.failover)


def drift(
    endpoint: Endpoint,
    options: LogOptions,
    decoder: str,
    tables: Mapping[TableId, TableSchema],
    files: dict[int, SeenFile],
    follows: Follows,
    looks: Looks,
) -> dict[TableId, Drift]:
    """Return tables whose set-up or definition at the source no longer fits, with the reason.

    The log has no statements: only a table's next row, if one ever comes, would tell. It does of changes of columns that
    the table follows. Where a partition went with its rows, and the table follows that, it goes on without it. Notes the
    tables' `files`, and takes `looks` at their columns.
    """
    with open_session(endpoint) as connection, translated("ask which transactions are seen"):
        not_seen = unseen(connection, list(tables.values()))  # before the catalogue, which has what is seen by then
    with closing(PostgresCatalog(endpoint)) as catalog:
        now = catalog.tables(tables.__contains__)
        attached = catalog.attached or Attached()
    note_files(files, now.values())
    with open_session(endpoint) as connection, translated("look at the source's columns"):
        latest = look(connection, now)
        end, slot = log_end(connection), read_slot(connection, options.name)
        read = slot.confirmed if slot is not None else end
    hopes = set[int]()  # tables that need a note which may still come
    hidden = _retyped(tables, now, looks, latest, (end, read), hopes)
    if DECODERS[decoder].tells_columns:
        now = {
            table: _as_rows_tell(
                tables[table], schema, follows(table), latest.get(schema.oid), looks, (end, read), hopes
            )
            for table, schema in now.items()
        }
    looks.awaited = {oid: place for oid, place in looks.awaited.items() if oid in hopes}
    with open_session(endpoint) as connection, translated("look at what the source has of the job"):
        steps = statements(connection, options.name, now, False, DECODERS[decoder])
    found: dict[TableId, Drift] = {
        table: f"the log does not have all of its rows any more: {step.sql}" for step in steps for table in step.tables
    }
    found |= hidden
    wholes = {part.table: whole for whole, schema in now.items() for part in schema.partitions}
    with open_session(endpoint) as connection, translated("look at the partitions of the source's tables"):
        parts = Look(connection, attached, not_seen, looks.scanned)
        for table, schema in tables.items():
            if table in wholes:
                found[table] = f"it became a partition of {wholes[table]}, with which its rows are loaded and followed"
            elif why := _what_became(schema, now.get(table), parts):
                found[table] = why
            elif table not in found:
                is_followed = ColumnChange.PARTITIONS in follows(table)
                if (told := what_went(schema, now[table], is_followed, parts)) is not None:
                    found[table] = told
                if (told is None or isinstance(told, Undecided)) and ColumnChange.FOREIGN_KEYS in follows(table):
                    keyed, changes = keys_of_now(schema, now[table], tables)
                    found |= {table: Rekeyed(keyed, bool(changes.added))} if changes else {}
    return found


def _retyped(
    tables: Mapping[TableId, TableSchema],
    now: Mapping[TableId, TableSchema],
    looks: Looks,
    latest: Mapping[int, TableLook],
    places: tuple[int, int],
    hopes: set[int],
) -> dict[TableId, str]:
    """Return tables with columns that may have got other values since the last look; the latest one stands for the next, but
    for tables whose note may still come (`hopes`). `places`: the log's end, and what capture is behind."""
    found = {}
    for table, schema in now.items():
        oid = schema.oid
        if oid in looks.tables and oid in latest:
            why, should_tell = why_retyped(looks.tables[oid], latest[oid], tables[table].file or oid)
            if why and should_tell and looks.awaits(oid, *places):
                hopes.add(oid)
            elif why:
                found[table] = why
    looks.tables.update({oid: one for oid, one in latest.items() if oid not in hopes})
    return found


def _what_became(then: TableSchema, now: TableSchema | None, parts: Look) -> str:
    """Say why the log no longer tells of the table what it should; "" where it does."""
    if now is None:
        return "it is gone at the source, has another name, or became a partition"
    if then.oid and then.oid != now.oid:
        return "another table has its name now"
    if not then.reads_like(now) or _is_other(then, now):
        return "its definition changed at the source"
    if why := changed_types(then, now):
        return why
    if why := why_came(then, now, parts):
        return why
    if dark := [part.name for part in now.partitions if not part.is_logged]:
        return f"the partition {dark[0]} is unlogged: its rows are not in the log"
    return ""


def _as_rows_tell(
    then: TableSchema,
    now: TableSchema,
    follows: frozenset[ColumnChange],
    latest: TableLook | None,
    looks: Looks,
    places: tuple[int, int],
    hopes: set[int],
) -> TableSchema:
    """Return the definition without what is followed and rows will tell of. A type is not, where its rows may have been written
    anew: what was written into them is in no log but a note, which may come until the log is read up to this look
    (`places`)."""
    told = follows & TOLD_BY_ROWS
    if not told:
        return now
    if ColumnChange.TYPE in told:
        former = {column.number: column for column in then.columns}
        is_same = now.file == (then.file or then.oid)
        noted = {number for number, column in latest.columns.items() if column.noted} if latest else set()
        columns = []
        for c in now.columns:
            natives = (former[c.number].native, c.native) if c.number in former else ("", "")
            is_told = _is_told(*natives, is_same, False)
            if not is_told and c.number in noted and _is_told(*natives, is_same, True):
                is_told = looks.awaits(now.oid, *places)
                hopes |= {now.oid} if is_told else set()
            columns.append(with_those(c, former[c.number], WIDENED) if is_told else c)
        now = replace(now, columns=tuple(columns))
    return as_rows_tell(then, now, told - WIDENED)


def _is_told(former: str, native: str, is_same_file: bool, is_noted: bool) -> bool:
    """Return whether the log tells of another type of a column where that changed, by a row or a note."""
    return (keeps_rows(former, native) and (is_same_file or is_noted)) or (is_noted and keeps_values(former, native))


def _is_other(then: TableSchema, now: TableSchema) -> bool:
    """Return whether the table has another key, or columns that only look the same. Both have as many columns."""
    pairs = zip(then.columns, now.columns, strict=True)
    return then.primary_key != now.primary_key or any(
        (a.number and a.number != b.number) or (a.expression, a.collation) != (b.expression, b.collation)
        for a, b in pairs
    )


def run_steps(endpoint: Endpoint, steps: Sequence[SetUpStep], patience: float, stop: Callable[[], bool]) -> None:
    """Carry out set-up statements. Raises SourceError with the statement that was refused.

    One that waits for a table's lock makes every writer wait behind it: so it is tried again and again, a moment each.
    One that only waits for transactions to end waits once.
    """
    with open_session(endpoint, limited=False) as connection:
        for step in steps:
            _run_step(connection, step, patience, stop)


def _run_step(connection: Connection, step: SetUpStep, patience: float, stop: Callable[[], bool]) -> None:
    until = time.monotonic() + patience
    while True:
        left = until - time.monotonic()
        longest = left if step.waits else min(patience, LOCK_SECONDS)
        try:
            run(connection, f"SET lock_timeout = {0 if longest == math.inf else max(1, int(longest * 1000))}")
            run(connection, step.sql)
            return
        except SourceUnavailable:
            if time.monotonic() + min(longest, LOCK_SECONDS) > until or connection.closed or stop():
                raise
            time.sleep(LOCK_SECONDS)


def remains(endpoint: Endpoint, name: str, remove: bool) -> list[str]:
    if not name:
        return []
    with open_session(endpoint, limited=False) as connection:
        with translated("look at what the source has of the job"):
            found = removal(connection, name)
            until = time.monotonic() + LET_GO_SECONDS
            while remove and time.monotonic() < until and (slot := read_slot(connection, name)) and slot.reader:
                time.sleep(0.1)  # of a reader that has just ended
        for statement in found if remove else ():
            run(connection, statement)
    return found


def run(connection: Connection, statement: str) -> None:
    try:
        connection.execute(statement.encode())
    except psycopg.Error as error:
        raise translate(error, f"set the source up: {statement}") from None
