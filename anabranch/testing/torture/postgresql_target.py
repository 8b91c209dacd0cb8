"""PostgreSQL as a history's target (targets.TargetFamily): private servers and their users, what is made and removed.

What does not live here: one history's tables (postgresql_target_tables.py), reading them (postgresql_snapshots.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import psycopg

from anabranch.errors import PreflightFailed, TargetUnavailable
from anabranch.model.endpoint import Endpoint
from anabranch.testing.databases import Database, connect
from anabranch.testing.servers import Server, start_postgresql
from anabranch.testing.torture import bound, policies, worst
from anabranch.testing.torture.contract import SECOND
from anabranch.testing.torture.place import LOCK_SECONDS
from anabranch.testing.torture.postgresql_target_tables import PostgresqlTargetTables
from anabranch.testing.torture.sources import Kinds
from anabranch.testing.torture.targets import STATE, Found, Private, TargetFamily
from anabranch.testing.torture.uninterrupted import uninterrupted

# Nothing here has to survive a power failure, and what is to be lost must not be on its way to the disk already.
FAST = (
    "--fsync=off",
    "--full-page-writes=off",
    "--synchronous-commit=off",
    "--wal-writer-delay=10s",
    "--autovacuum=off",
)
CONNECT_SECONDS = 10
LONGEST_NAME = 63  # bytes, of a database
# Who owns a database of its own and may not set session_replication_role: foreign keys act and are checked (K1, K7).
PLAIN = "torture_plain"
KEPT_IN = """
SELECT table_name FROM information_schema.columns JOIN information_schema.tables USING (table_schema, table_name)
 WHERE table_type = 'BASE TABLE' AND table_schema = 'anabranch' AND column_name = 'job' ORDER BY 1
"""


@dataclass
class PostgresqlTarget:
    name: str = "postgresql"
    error: type[Exception] = psycopg.Error
    lost: type[Exception] = psycopg.OperationalError
    has_policies: bool = True
    keeps_changes: bool = False
    form: str = ""
    is_alone: bool = False
    preloaded: Sequence[str] = (
        "anabranch.connectors.postgresql.target.apply",
        "anabranch.connectors.postgresql.target.load",
        "anabranch.connectors.postgresql.target.store",
        "psycopg",
    )
    choices: Mapping[str, Sequence[str | int | bool]] = field(default_factory=dict)

    @contextmanager
    def private(self, directory: Path) -> Iterator[Private]:
        with start_postgresql(directory / "postgresql", options=FAST) as server:
            try:
                yield _made_ready(server)
            finally:
                server.stop(immediate=True)

    def kinds(self, known: Kinds, source: str, target: Database) -> Kinds:
        return known

    def entered(self, end: Endpoint) -> Database:
        server = Server(self.name, "", end.host, end.port, end.user, end.password)
        try:
            with closing(connect(server, end.database, connect_timeout=CONNECT_SECONDS)) as connection:
                said = str(connection.info.parameter_status("server_version"))
        except (psycopg.Error, OSError) as error:
            text = " ".join(str(error).split())
            raise TargetUnavailable(
                f"--target {end.place}: {text}", hint="check --target, its user, and that its database is there"
            ) from error
        target = Database(replace(server, version=re.split(r"[^0-9.]", said)[0]), end.database)
        _require_rights(target)
        return target

    def found(self, target: Database) -> Found:
        schemas = [name for (name,) in target.query("SELECT nspname FROM pg_namespace")]
        with closing(target.connect()) as connection:
            jobs = [
                {job for (job,) in connection.execute(f'SELECT DISTINCT job FROM {STATE}."{table}"').fetchall()}
                for table in _kept_in(connection)
            ]
        return Found(schemas, sorted(set().union(*jobs)))

    def of_history(self, target: Database, name: str) -> Database:
        return target

    def prepare(self, target: Database, name: str) -> None:
        self.drop(target, name)

    def drop(self, target: Database, name: str) -> None:
        target.execute(
            f"SET lock_timeout = '{LOCK_SECONDS}s'",
            "SET client_min_messages = warning",
            f'DROP SCHEMA IF EXISTS "{name}" CASCADE',
        )

    def forget(self, target: Database, job: str) -> None:
        with closing(target.connect()) as connection:
            connection.execute(f"SET lock_timeout = '{LOCK_SECONDS}s'")
            for table in _kept_in(connection):
                connection.execute(f'DELETE FROM {STATE}."{table}" WHERE job = %s', [job])

    def drop_state(self, target: Database) -> None:
        with closing(target.connect(autocommit=False)) as connection:
            connection.execute(f"SET lock_timeout = '{LOCK_SECONDS}s'")
            connection.execute("SET client_min_messages = warning")
            tables = [f'{STATE}."{table}"' for table in _kept_in(connection)]
            if tables:
                connection.execute(f"LOCK TABLE {', '.join(tables)} IN ACCESS EXCLUSIVE MODE")
            if not any(connection.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone() for table in tables):
                connection.execute(f"DROP SCHEMA IF EXISTS {STATE} CASCADE")
                connection.commit()

    @contextmanager
    def beside(self, target: Database, name: str) -> Iterator[Database | str]:
        try:
            missing = _missing(target, name) or _make(target, name)
        except psycopg.Error as error:
            missing = " ".join(str(error).split())
        if missing:
            yield missing
            return
        try:
            yield Database(target.server, name)
        finally:
            _drop(target, name)

    def tables(self, target: Database, namespace: str) -> PostgresqlTargetTables:
        return PostgresqlTargetTables(target, namespace)


def family(name: str) -> TargetFamily:
    return PostgresqlTarget(name)


def _kept_in(connection: Any) -> list[str]:
    """The tables in which the product keeps anything by job."""
    return [table for (table,) in connection.execute(KEPT_IN).fetchall()]


def _require_rights(target: Database) -> None:
    may = "has_database_privilege(current_database(), 'CREATE')"
    may_create, only_reads = target.query(f"SELECT {may}, pg_is_in_recovery()")[0]
    if only_reads:
        raise PreflightFailed("--target: this is a standby, which only reads", hint="name its primary")
    if not may_create:
        raise PreflightFailed(
            f"--target: its user may not make schemas in {target.name}",
            hint=f"GRANT CREATE ON DATABASE {target.name} TO {target.server.user}",
        )


# --- a private server ---------------------------------------------------------------------------------------------------


def _made_ready(server: Server) -> Private:
    """Make the users that histories come as, and a database beside each for jobs with two targets."""
    worst.make_user(server)
    admin = Database(server, "postgres")
    admin.execute(f"CREATE DATABASE {SECOND}")
    policies.make_user(admin)
    _make_bound_user(admin)
    for database in (admin, Database(server, SECOND)):
        policies.make_them_at_the_target(database)
    plain, plain_second = _plain(admin)
    return Private(admin, plain, Database(server, SECOND), plain_second)


def _make_bound_user(admin: Database) -> None:
    """Owns what the administrator owns, and is bound by what is forced upon owners."""
    admin.execute(
        f"CREATE ROLE {bound.USER} LOGIN PASSWORD '{admin.server.password}'",
        f'GRANT "{admin.server.user}", {worst.USER} TO {bound.USER}',
        *policies.may_switch_triggers_off(admin, bound.USER),
    )


def _plain(admin: Database) -> tuple[Database, Database]:
    server = replace(admin.server, user=PLAIN)
    admin.execute(
        f"CREATE ROLE {PLAIN} LOGIN PASSWORD '{server.password}'",
        f"GRANT pg_checkpoint TO {PLAIN}",  # for the kit, not for the job
        f"CREATE DATABASE {PLAIN} OWNER {PLAIN}",
        f"CREATE DATABASE {PLAIN}_{SECOND} OWNER {PLAIN}",
        "CHECKPOINT",  # it outlives a server that loses its last commits
    )
    return Database(server, PLAIN), Database(server, f"{PLAIN}_{SECOND}")


# --- a database beside one of the user's ----------------------------------------------------------------------------------


def _missing(target: Database, name: str) -> str:
    if len(name.encode()) > LONGEST_NAME:
        return f"{name} is too long for a database"
    asked = "SELECT rolcreatedb OR rolsuper, EXISTS (SELECT FROM pg_database WHERE datname = %s) FROM pg_roles"
    ((may, is_there),) = target.query(f"{asked} WHERE rolname = current_user", [name])
    if is_there:
        return f"there is a database {name} at the target; if an earlier run left it, drop it"
    return "" if may else f"the target's user may not make a database {name} (ALTER ROLE … CREATEDB)"


def _make(target: Database, name: str) -> str:
    """Make it like the one beside it; return "". Raises psycopg.Error."""
    asked = "SELECT pg_encoding_to_char(encoding), datcollate, datctype FROM pg_database"
    ((encoding, collate, ctype),) = target.query(f"{asked} WHERE datname = current_database()")
    target.execute(
        f"CREATE DATABASE \"{name}\" TEMPLATE template0 ENCODING '{encoding}' LC_COLLATE '{collate}' LC_CTYPE '{ctype}'"
    )
    return ""


def _drop(target: Database, name: str) -> None:
    with uninterrupted():
        target.execute(
            "SET client_min_messages = warning",
            f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false',
            f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'",
            f'DROP DATABASE IF EXISTS "{name}"',
        )
