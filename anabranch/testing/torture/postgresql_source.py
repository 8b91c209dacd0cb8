"""PostgreSQL as a history's source (sources.SourceFamily): a schema for each history, a slot for its order."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from psycopg.sql import Literal

from anabranch.errors import ConfigError
from anabranch.model.endpoint import Endpoint
from anabranch.testing.databases import Database, connect
from anabranch.testing.servers import Server, start_postgresql
from anabranch.testing.torture.decoded import PLUGIN, Reading
from anabranch.testing.torture.events import Event
from anabranch.testing.torture.history import History
from anabranch.testing.torture.labels import has_labels
from anabranch.testing.torture.place import LOCK_SECONDS
from anabranch.testing.torture.policies import at_the_source
from anabranch.testing.torture.postgresql_events import EVENTS, OF_LABELS
from anabranch.testing.torture.postgresql_sessions import PostgresqlSpeaker
from anabranch.testing.torture.postgresql_snapshots import OPTIONS
from anabranch.testing.torture.postgresql_tables import create_statements
from anabranch.testing.torture.postgresql_values import KINDS, NUMBERS, WHOLE
from anabranch.testing.torture.sources import Commits, Kinds, SourceFamily
from anabranch.testing.torture.tables import LEDGER, Column, Schema
from anabranch.testing.torture.values import Version

DATABASE = "postgres"
DECODERS = ("pgoutput", "wal2json", "decoderbufs")
WITH_DECODERS = "15"  # the release that all of them are had for
# Types that a decoder does not show exactly, or whose NULL may be a value: jobs refuse them, or park.
NOT_SHOWN = {"wal2json": ("real", "double precision", "numeric"), "decoderbufs": ("time with time zone", "point")}
# Nothing here has to survive a power failure; what is decoded is spilled early, and who waits for each other is told soon.
FAST = (
    "--fsync=off",
    "--full-page-writes=off",
    "--autovacuum=off",
    "--deadlock-timeout=100ms",
    "--wal-level=logical",
    "--max-prepared-transactions=10",
    "--max-replication-slots=30",
    "--max-wal-senders=30",
    "--logical-decoding-work-mem=64kB",
)
# What the job and the kit have there for one history, by its name.
_SLOTS = "SELECT slot_name, active_pid FROM pg_replication_slots WHERE slot_name ~ %s AND database = current_database()"
_PUBLICATIONS = "SELECT pubname FROM pg_publication WHERE pubname ~ %s"
_NOTES = """
SELECT pg_catalog.format('%%I.%%I', n.nspname, c.relname) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE n.nspname = 'anabranch' AND c.relname ~ %s
"""
_PREPARED = "SELECT gid FROM pg_prepared_xacts WHERE gid ~ %s AND database = current_database()"
_CHANGES = (
    "SELECT data FROM pg_logical_slot_get_binary_changes(%s, NULL, NULL, 'proto_version', '1', 'publication_names', %s,"
    " 'messages', 'true')"
)
GONE_SECONDS = 60.0  # for a reader of a slot to be gone

WHOLE_ROWS = """
DO $$ DECLARE one regclass; BEGIN
 FOR one IN SELECT oid FROM pg_class WHERE relnamespace = '{}'::regnamespace AND relkind IN ('r', 'p') LOOP
  EXECUTE format('ALTER TABLE %s REPLICA IDENTITY FULL', one);
 END LOOP;
END $$"""


@dataclass
class PostgresqlSource:
    name: str = "postgresql"
    job_database: str = DATABASE
    has_beside: bool = False
    has_images: bool = False
    commits_truncates: bool = False
    hides_actions: bool = False
    has_policies: bool = True
    preloaded: Sequence[str] = (
        "anabranch.connectors.postgresql.source.capture",
        "anabranch.connectors.postgresql.source.set_up",
        "anabranch.connectors.postgresql.source.snapshot",
        "psycopg",
    )

    def kinds(self, version: Version, decoder: str = "") -> Kinds:
        shown = [kind for kind in KINDS.values() if not kind.native.startswith(NOT_SHOWN.get(decoder, ()))]
        return Kinds(shown, [name for name in NUMBERS if KINDS[name] in shown], WHOLE)

    def events(self, schema: Schema) -> Mapping[Event, int]:
        return {**EVENTS, **OF_LABELS} if has_labels(schema) else EVENTS

    def start(self, directory: Path, decoders: Sequence[str] = ()) -> Server:
        release = WITH_DECODERS if any(decoders) else ""
        return start_postgresql(directory / "source", release=release, options=FAST)

    def entered(self, end: Endpoint) -> Server:
        raise ConfigError("--source: of this kind only private ones can be tortured", hint="--source postgresql")

    def named(self, server: Server) -> list[tuple[str, str]]:
        database = Database(server, DATABASE)
        schemas = database.query("SELECT nspname FROM pg_namespace")
        slots = database.query("SELECT slot_name FROM pg_replication_slots")
        return [("schema", name) for (name,) in schemas] + [("slot", name) for (name,) in slots]

    def prepare(self, history: History, server: Server) -> None:
        """The slot is the place."""
        self.drop(server, history.database)
        names = (LEDGER, *(table.name for table in history.schema.tables))
        tables = ", ".join(names)
        Database(server, DATABASE).execute(
            f"CREATE SCHEMA {history.database}",
            f"SET search_path = {history.database}",
            *create_statements(history.schema, history.decoder),
            *at_the_source(history.seed, names),
            f"CREATE PUBLICATION {history.database} FOR TABLE {tables} WITH (publish_via_partition_root = true)",
            f"SELECT pg_create_logical_replication_slot('{history.database}', '{PLUGIN}')",
        )

    def tell_whole_rows(self, server: Server, name: str) -> None:
        Database(server, DATABASE).execute(WHOLE_ROWS.format(name))

    def commits(self, server: Server, place: None, history: History) -> Commits:
        with closing(connect(server, DATABASE, options=OPTIONS)) as connection:
            found = connection.execute(_CHANGES, [history.database, history.database]).fetchall()
        read = list(Reading(history.database).transactions(bytes(data) for (data,) in found))
        return Commits([number for number, _ in read], dict(read))

    def lines(self, server: Server, database: str, schema: Schema) -> dict[str, list[bytes]]:
        columns = {LEDGER: (Column("n", "int"),), **{table.name: table.columns for table in schema.tables}}
        with closing(connect(server, DATABASE, options=OPTIONS)) as connection:
            connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            # Of partitions the parent has the rows, of heirs it only shows them.
            only = {name: "ONLY " if any(schema.heirs(name)) else "" for name in columns}
            places = {name: f'{only[name]}"{database}"."{name}"' for name in columns}
            return {name: sorted(_copied(connection, places[name], some)) for name, some in columns.items()}

    def drop(self, server: Server, name: str) -> None:
        pattern = f"^({name}|anabranch_{name}_[0-9a-f]+)$"
        with closing(connect(server, DATABASE)) as connection:
            connection.execute(f"SET lock_timeout = '{LOCK_SECONDS}s'")
            connection.execute("SET client_min_messages = warning")
            _drop_slots(connection, pattern)
            for (publication,) in connection.execute(_PUBLICATIONS, [pattern]).fetchall():
                connection.execute(f'DROP PUBLICATION "{publication}"')
            for (notes,) in connection.execute(_NOTES, [pattern]).fetchall():
                connection.execute(f"DROP FUNCTION IF EXISTS {notes}() CASCADE")
                connection.execute(f"DROP TABLE {notes}")
            connection.execute(f"DROP SCHEMA IF EXISTS {name} CASCADE")

    def roll_back(self, server: Server, name: str) -> None:
        with closing(connect(server, DATABASE)) as connection:
            for (gid,) in connection.execute(_PREPARED, [rf"^{name}_\d+$"]).fetchall():
                connection.execute(f"ROLLBACK PREPARED '{gid}'")

    def session(self, server: Server, history: History, number: int) -> PostgresqlSpeaker:
        return PostgresqlSpeaker(server, DATABASE, history)


def _drop_slots(connection: Any, pattern: str) -> None:
    """A process that was killed may still be read for at the server."""
    import psycopg

    until = time.monotonic() + GONE_SECONDS
    while slots := connection.execute(_SLOTS, [pattern]).fetchall():
        for slot, reader in slots:
            if reader is not None:
                connection.execute("SELECT pg_terminate_backend(%s)", [reader])
                time.sleep(0.02)
            with contextlib.suppress(psycopg.errors.ObjectInUse, psycopg.errors.UndefinedObject):
                connection.execute("SELECT pg_drop_replication_slot(%s)", [slot])
        if time.monotonic() > until:
            raise RuntimeError(f"slots of the source are still in use: {slots}")


def _copied(connection: Any, place: str, columns: tuple[Column, ...]) -> Iterator[bytes]:
    """Return the rows, with its default for a column whose statement failed."""
    attributes = "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped"
    there = {name for (name,) in connection.execute(attributes, [place.removeprefix("ONLY ")]).fetchall()}
    texts = (f'"{c.name}"' if c.name in there else Literal(c.before()).as_string() for c in columns)
    names = ", ".join(texts)
    with (
        connection.cursor() as cursor,
        cursor.copy(f"COPY (SELECT {names} FROM {place}) TO STDOUT") as copy,
    ):
        yield from b"".join(map(bytes, copy)).splitlines()


def family(_: str) -> SourceFamily:
    return PostgresqlSource()
