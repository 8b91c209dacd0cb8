"""Is the job's decoder fit for this server and these tables? What it does not show is said before it is missed.

What does not live here: the other checks of a source (preflight.py), what a decoder shows (decoders.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import psycopg

from anabranch.connectors.postgresql.connection import Connection
from anabranch.connectors.postgresql.errors import describe
from anabranch.connectors.postgresql.source.connection import open_session
from anabranch.connectors.postgresql.source.decoders import DECODERS, Decoder
from anabranch.connectors.postgresql.source.held_log import read_slot
from anabranch.connectors.postgresql.source.noted_columns import BY_NOTES
from anabranch.connectors.postgresql.source.preflight_facts import Live
from anabranch.connectors.postgresql.source.statement_notes import SET_UP, SINCE, is_set_up, tells_defaults
from anabranch.connectors.postgresql.source.truncate_notes import SCHEMA
from anabranch.connectors.postgresql.source.typemap import bare
from anabranch.contracts import PreflightContext
from anabranch.model.checks import CheckResult, CheckVerdict
from anabranch.model.column_changes import BESIDE_COLUMNS, IGNORE, PARK, TOLD_BY_ROWS, ColumnChange
from anabranch.model.schema import TableSchema

# Releases that have it refuse all other libraries when a slot is made or read; older ones do not start with it.
ALLOWED = "output_plugin_libraries"
CHECK = "source.decoder"
UNSURE = (ColumnChange.DROP, ColumnChange.RENAME)  # without notes
AS_UTF8 = ("UTF8", "SQL_ASCII")  # encodings whose text is read as UTF-8
OURS = "pgoutput"  # a part of every server
_OTHER = '[source.options] decoder = "pgoutput"'
TRIAL_MS = 3000  # a slot waits for transactions that are open; the file is found, or missing, before
_TRIAL = "SELECT pg_catalog.pg_create_logical_replication_slot(%s, %s, true)"
_NO_FILE = ("58P01", "42704", "42883")  # no such file; a file that is no decoder


def check_decoder(live: Live) -> Iterator[CheckResult]:
    connection, context = live.connection, live.context
    decoder = DECODERS[live.options.decoder]
    found = list(_allowed(live.value(ALLOWED), decoder)) or list(_installed(live, decoder))
    found += _truncates(connection, decoder)
    found += _redefined(context, decoder)
    found += swaps(context)
    found += indexes(context)
    found += _notes(live, decoder)
    found += unconverted(live.value("server_encoding") or "", decoder)
    for _, schema in sorted(context.tables.items(), key=lambda one: str(one[0])):
        found += _partitioned(connection, decoder, schema)
        found += _types(decoder, schema)
    if live.options.binary:
        found += _binary(connection, decoder, context)
    streams = decoder.can_stream(connection.info.server_version) and live.options.streaming
    how = "large transactions come while they are open" if streams else "a transaction comes when it commits"
    yield from found or [CheckResult(CHECK, CheckVerdict.OK, f"decoder {decoder.plugin}: {how}")]


def _installed(live: Live, decoder: Decoder) -> Iterator[CheckResult]:
    """Check that the decoder is installed, with a trial slot that ends with this session, unless the job's own slot
    shows it.

    The server loads a decoder's file when a slot is made, before it waits for anybody; only a superuser may ask for the
    file itself.
    """
    if decoder.plugin == OURS or read_slot(live.connection, live.context.source_name):
        return
    with closing(open_session(live.endpoint)) as beside:
        try:
            beside.execute(f"SET statement_timeout = {TRIAL_MS}".encode())
            beside.execute(_TRIAL, [f"anabranch_trial_{beside.info.backend_pid}", decoder.plugin])
        except psycopg.Error as error:
            if error.sqlstate in _NO_FILE:
                why = f"the server does not have {decoder.plugin}: {describe(error)}"
                package = f"postgresql-{live.version // 10_000}-{decoder.plugin}"
                hint = f"install it at the source (Debian: the package {package}), or {_OTHER}"
                yield CheckResult(CHECK, CheckVerdict.FAILED, why, hint)


def _allowed(listed: str | None, decoder: Decoder) -> Iterator[CheckResult]:
    if listed is not None and decoder.plugin not in [name.strip(' "') for name in listed.split(",")]:
        more = ", ".join(filter(None, (listed, decoder.plugin)))  # each a word: one text would be one name
        hint = f"ALTER SYSTEM SET {ALLOWED} = {more} at the source, and SELECT pg_reload_conf(); or {_OTHER}"
        yield CheckResult(
            CHECK, CheckVerdict.FAILED, f"the server lets nobody use {decoder.plugin}: {ALLOWED} = {listed}", hint
        )


def unconverted(encoding: str, decoder: Decoder) -> Iterator[CheckResult]:
    """Check that text comes as UTF-8: a plugin's output is not converted, only pgoutput does that by itself.

    https://www.postgresql.org/docs/current/logicaldecoding-output-plugin.html
    """
    if not decoder.converts and encoding not in AS_UTF8:
        why = f"the database's encoding is {encoding}, and {decoder.plugin} gives text as it is stored"
        yield CheckResult(CHECK, CheckVerdict.FAILED, why, _OTHER)


def _truncates(connection: Connection, decoder: Decoder) -> Iterator[CheckResult]:
    """Check what a decoder without TRUNCATE needs. It is noted in a table, which a publication of all tables would
    bring to subscribers that lack it.
    """
    if decoder.truncates:
        return
    why = f"{decoder.plugin} does not show TRUNCATE: capture gives each table a trigger that notes it"
    hint = f"who runs that has to own the tables, and may CREATE in the database (anabranch setup JOB shows it); or {_OTHER}"
    yield CheckResult(CHECK, CheckVerdict.WARNING, why, hint)
    query = "SELECT pubname::text FROM pg_catalog.pg_publication WHERE puballtables ORDER BY 1"
    for (publication,) in connection.execute(query).fetchall():
        why = f"the publication {publication} is of all tables: its subscribers stop at the job's own, which they do not have"
        hint = f"a publication of named tables, or the same table there ({SCHEMA}); or {_OTHER}"
        yield CheckResult(CHECK, CheckVerdict.FAILED, why, hint)


def _redefined(context: PreflightContext, decoder: Decoder) -> Iterator[CheckResult]:
    chosen = {kind: context.user_choices.get(f"ddl.{kind}", "") for kind in sorted(TOLD_BY_ROWS)}
    asked = [f'{kind} = "{action}"' for kind, action in chosen.items() if action not in ("", PARK)]
    if asked and not decoder.tells_columns:
        why = f"[ddl] {', '.join(asked)}: by {decoder.plugin} a table is parked where its columns are altered, all the same"
        yield CheckResult(CHECK, CheckVerdict.WARNING, why, _OTHER)


def swaps(context: PreflightContext) -> Iterator[CheckResult]:
    """Refuse to leave tables of tools out, whose swaps nothing here follows."""
    if context.user_choices.get(f"ddl.{ColumnChange.SWAP}", "") not in ("", PARK):
        why = f"[ddl] {ColumnChange.SWAP}: a PostgreSQL's log has no statements that tell how a copy was made"
        hint = (
            f'{ColumnChange.SWAP} = "{PARK}": tables of the names in [ddl] ghost_tables would be left out for nothing'
        )
        yield CheckResult(CHECK, CheckVerdict.FAILED, why, hint)


def indexes(context: PreflightContext) -> Iterator[CheckResult]:
    """Refuse to follow indexes, checks and the like, of which nothing here tells."""
    for kind in sorted(BESIDE_COLUMNS - {ColumnChange.FOREIGN_KEYS}):  # the catalogue is asked for these
        if context.user_choices.get(f"ddl.{kind}", "") not in ("", IGNORE):
            why = f"[ddl] {kind}: a PostgreSQL's log has no statements that make, drop or rename them"
            hint = f'{kind} = "{IGNORE}": the target would keep its own in any case'
            yield CheckResult(CHECK, CheckVerdict.FAILED, why, hint)


def _notes(live: Live, decoder: Decoder) -> Iterator[CheckResult]:
    """Say what an event trigger would tell of statements, where the job file asks for what is not certain without it."""
    chosen = live.context.user_choices
    asked = [kind for kind in (*UNSURE, *sorted(BY_NOTES)) if chosen.get(f"ddl.{kind}", "") not in ("", PARK)]
    if not asked or not decoder.tells_columns or live.version < SINCE:
        return
    if not is_set_up(live.connection):
        why = f"[ddl] {', '.join(asked)}: the source notes no statements. What the next row leaves in doubt parks its table"
        untold = [kind for kind in asked if kind in BY_NOTES]
    elif ColumnChange.DEFAULT in asked and not tells_defaults(live.connection):
        why, untold = "the source's notes of statements are those of an earlier release", [ColumnChange.DEFAULT]
    else:
        return
    why += f", and {' and '.join(untold)} {'is' if len(untold) == 1 else 'are'} not followed" if untold else ""
    statements = "; ".join(" ".join(statement.split()) for statement in SET_UP)
    yield CheckResult(CHECK, CheckVerdict.WARNING, why, f"a superuser may set that up: {statements}")


def _partitioned(connection: Connection, decoder: Decoder, schema: TableSchema) -> Iterator[CheckResult]:
    if decoder.roots:
        return
    query = """
        SELECT c.relkind = 'p' FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
         WHERE n.nspname = %s AND c.relname = %s"""
    row = connection.execute(query, [schema.id.schema, schema.id.name]).fetchone()
    if row and row[0]:
        why = f"partitioned: {decoder.plugin} names its rows by their partitions"
        yield CheckResult(
            CHECK, CheckVerdict.FAILED, why, f"{_OTHER}, or leave it out ([[rules]] exclude)", str(schema.id)
        )


def _types(decoder: Decoder, schema: TableSchema) -> Iterator[CheckResult]:
    table = str(schema.id)
    for column in schema.columns:
        kind = bare(column.native)
        if column.type is not None and kind in decoder.inexact:
            hint = f"{_OTHER}, or leave the column out ([[tables]] columns.drop)"
            yield CheckResult(
                CHECK, CheckVerdict.FAILED, f"column {column.name}, {kind}: {decoder.inexact[kind]}", hint, table
            )
    null = [c.name for c in schema.columns if c.type is not None and bare(c.native) in decoder.ambiguous]
    if null:
        why = (
            f"{', '.join(null)}: up to release 2.5 {decoder.plugin} writes NaN and infinity as NULL: a NULL there, or one of"
            " these, parks the table"
        )
        yield CheckResult(CHECK, CheckVerdict.WARNING, why, f"a newer {decoder.plugin}, or {_OTHER}", table)


def _binary(connection: Connection, decoder: Decoder, context: PreflightContext) -> Iterator[CheckResult]:
    """Say why values come as text all the same."""
    from anabranch.connectors.postgresql.source.binary_types import BINARY, columns, reader  # with Arrow

    hint = "[source.options] binary = false; the trail is the same"
    if not decoder.binary or connection.info.server_version < BINARY:
        why = f"{decoder.plugin} of this server gives values as text"
        yield CheckResult(CHECK, CheckVerdict.WARNING, why, hint)
        return
    for table in sorted(context.tables, key=str):
        found = columns(connection, [table])
        named = [name for name, oid, modifier in found if reader(connection, oid, modifier) is None]
        if named:
            why = f"{', '.join(named)}: of a type that is read as text alone: all values of the log come as text"
            yield CheckResult(CHECK, CheckVerdict.WARNING, why, hint, str(table))
