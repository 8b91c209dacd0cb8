"""Is the database set up for it: version, encoding, room, rights."""

from __future__ import annotations

from collections.abc import Iterator

from anabranch.connectors.postgresql.connection import Connection
from anabranch.connectors.postgresql.quoting import qualified, quote
from anabranch.connectors.postgresql.room import rooms
from anabranch.connectors.postgresql.target.migrate import may_alter, pending, shipped, statements
from anabranch.connectors.postgresql.target.partitions import plan_partitions
from anabranch.connectors.postgresql.target.preflight_facts import WRITABLE, Live
from anabranch.connectors.postgresql.target.progress_view import HINT, TAKEN, VIEW, is_shown
from anabranch.connectors.postgresql.target.stage_sweep import stage_prefix
from anabranch.connectors.sql.findings import failed, ok, warning
from anabranch.errors import StateError
from anabranch.model.checks import CheckResult
from anabranch.model.room import judged

OLDEST = 120000  # shortest float text: https://www.postgresql.org/docs/release/12.0/
TESTED = (18,)  # releases that this project's own test runs have written to
STATE = "target.state"
EXBASE = "compat.exbase"  # in PreflightContext.user_choices
_NOT_OPEN = """
SELECT EXISTS (SELECT FROM pg_namespace n WHERE n.nspname = 'anabranch' AND NOT has_schema_privilege(n.oid, 'USAGE'))
"""
_HAS_STATE = """
SELECT has_schema_privilege(oid, 'USAGE') AND to_regclass('anabranch.meta') IS NOT NULL FROM pg_namespace
 WHERE nspname = 'anabranch'
"""
# Tables of our schema that the job cannot use: state without the rights to it, and its staging tables of another owner.
_CLOSED = """
SELECT c.relname::text, pg_get_userbyid(c.relowner)::text, starts_with(c.relname::text, 'stage_')
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE n.nspname = 'anabranch' AND c.relkind = 'r'
   AND CASE WHEN starts_with(c.relname::text, 'stage_')
            THEN starts_with(c.relname::text, %s) AND NOT pg_has_role(c.relowner, 'USAGE')
            ELSE NOT (has_table_privilege(c.oid, 'SELECT') AND has_table_privilege(c.oid, 'INSERT')
                      AND has_table_privilege(c.oid, 'UPDATE') AND has_table_privilege(c.oid, 'DELETE')) END
 ORDER BY 1
"""
# Beside those of a load's pieces: apply, load, state for three parts, and two that ask who is in the way.
OUR_CONNECTIONS = 7


def too_old(connection: Connection) -> Iterator[CheckResult]:
    """Check for a release that cannot be a target."""
    version = connection.info.server_version
    if version < OLDEST:
        name = f"{version // 10_000}.{version % 10_000}"
        yield failed("version", f"PostgreSQL {name} is too old", f"use PostgreSQL {OLDEST // 10_000} or later")


def check_version(live: Live) -> Iterator[CheckResult]:
    name = live.one("SELECT current_setting('server_version')")
    if live.version // 10_000 not in TESTED:
        tested = ", ".join(map(str, TESTED))
        hint = f"use PostgreSQL {tested}, or let anabranch verify JOB compare both ends"
        yield warning(
            "version", f"PostgreSQL {name} is not among the versions that were tested as a target ({tested})", hint
        )
    else:
        yield ok("version", f"PostgreSQL {name}")


def check_encoding(live: Live) -> Iterator[CheckResult]:
    encoding = live.one("SELECT current_setting('server_encoding')")
    if encoding == "UTF8":
        yield ok("encoding", encoding)
    else:
        hint = f"CREATE DATABASE {quote(live.connection.info.dbname + '_utf8')} ENCODING 'UTF8' TEMPLATE template0"
        yield failed("encoding", f"the database stores text as {encoding}: not every character fits", hint)


def check_connections(live: Live) -> Iterator[CheckResult]:
    parallel = int(live.context.user_choices.get("load.parallel") or 4)
    yield from judged(rooms(live.connection, "target", OUR_CONNECTIONS + parallel), "target", OUR_CONNECTIONS, parallel)


def check_schemas(live: Live) -> Iterator[CheckResult]:
    """Check that we may create what is missing: schemas, tables in them, and schema `anabranch`."""
    new = [t for t in live.context.targets.values() if t.target not in live.existing]
    missing = {"anabranch"} | {t.target.schema for t in new}
    missing |= {part.name.schema for t in new for part in plan_partitions(live.context.tables[t.source], t)}
    is_free = live.true("SELECT has_database_privilege(current_database(), 'CREATE')")
    for schema in sorted(missing):
        if not live.true("SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = %s)", schema):
            if not is_free:
                grant = may_create(live.connection.info.dbname, live.user)
                yield failed("rights", f"{live.user} may not create schema {schema}", grant)
        elif not live.true(
            "SELECT has_schema_privilege(%s, 'CREATE') AND has_schema_privilege(%s, 'USAGE')", *[schema] * 2
        ):
            yield failed(
                "rights", f"{live.user} may not create tables in schema {schema}", may_create_in(schema, live.user)
            )


def may_create(database: str, user: str) -> str:
    """Return the statement after which a user may make schemas."""
    return f"GRANT CREATE ON DATABASE {quote(database)} TO {quote(user)}"


def may_create_in(schema: str, user: str) -> str:
    """Return the statement after which a user may make tables in a schema that is there."""
    return f"GRANT CREATE, USAGE ON SCHEMA {quote(schema)} TO {quote(user)}"


def check_state(live: Live) -> Iterator[CheckResult]:
    """Check the rights on schema `anabranch`, which another role may have created: an administrator, or another job's user."""
    user = quote(live.user)
    if live.true(_NOT_OPEN):
        yield failed(
            "state",
            f"{live.user} may not use the schema anabranch",
            f"GRANT CREATE, USAGE ON SCHEMA anabranch TO {user}",
        )
    found = live.connection.execute(_CLOSED.encode(), [stage_prefix(live.context.job)]).fetchall()
    tables = [(name, owner) for name, owner, is_stage in found if not is_stage]
    for owner in sorted({owner for _, owner in tables}):
        listed = [f"anabranch.{quote(name)}" for name, whose in tables if whose == owner]
        why = f"{live.user} may not read and write the job's state in {', '.join(listed)}, which belong to {owner}"
        yield failed("state", why, f"GRANT SELECT, INSERT, UPDATE, DELETE ON {', '.join(listed)} TO {user}")
    for name, owner, is_stage in found:
        if is_stage:
            why = f"anabranch.{name}, a staging table of this job, belongs to {owner}: {live.user} cannot remove it"
            yield failed("state", why, f"ALTER TABLE anabranch.{quote(name)} OWNER TO {user}")
    if not found and live.true(_HAS_STATE):
        yield from _check_release(live)


def _check_release(live: Live) -> Iterator[CheckResult]:
    """Check the schema's release. The first start migrates an earlier one, if its user may; a newer one may be refused."""
    try:
        lacking = pending(live.connection, shipped())
    except StateError as error:
        yield failed("state", error.message, error.hint)
        return
    names = ", ".join(map(str, lacking))
    if lacking and may_alter(live.connection):
        yield ok("state", f"the first start brings the schema anabranch to this release: {names}")
    elif lacking:
        why = f"the schema anabranch is of an earlier release, and {live.user} does not own its tables: {names}"
        yield failed("state", why, statements(lacking, live.user))


def check_progress_view(live: Live) -> Iterator[CheckResult]:
    """Check that `public.kafkaoffset` can be made, where the job file asks for it."""
    if live.context.user_choices.get(EXBASE) != "true":
        return
    found = is_shown(live.connection)
    if found is None:
        yield failed("compat", TAKEN, HINT)
    elif not found and not live.true("SELECT has_schema_privilege('public', 'CREATE')"):
        yield failed("compat", f"{live.user} may not make the view {VIEW}", may_create_in("public", live.user))
    else:
        yield ok("compat", f"{VIEW} shows the progress of jobs")


def check_table_rights(live: Live) -> Iterator[CheckResult]:
    """Check that the user owns the tables: truncating, indexing and adding foreign keys need that, or the owner's rights."""
    for table, existing in live.tables():
        if existing.kind in WRITABLE and not live.true(
            "SELECT pg_has_role(relowner, 'USAGE') FROM pg_class WHERE oid = %s", existing.oid
        ):
            hint = f"ALTER TABLE {qualified(existing.id)} OWNER TO {quote(live.user)}"
            yield failed("rights", f"{live.user} does not own {existing.id}", hint, table)
