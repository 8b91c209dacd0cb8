"""Is the database set up for it: version, encoding, room, rights."""

from __future__ import annotations

from collections.abc import Iterator

from anabranch.connectors.postgresql import ddl
from anabranch.connectors.postgresql.partitions import plan_partitions
from anabranch.connectors.postgresql.preflight_facts import WRITABLE, Live, failed, ok, warning
from anabranch.model.checks import CheckResult

OLDEST = 120000  # shortest float text: https://www.postgresql.org/docs/release/12.0/
OUR_CONNECTIONS = 4  # apply, its index builder, state, status; a load adds its parallel tasks


def check_version(live: Live) -> Iterator[CheckResult]:
    name = live.one("SELECT current_setting('server_version')")
    if live.version < OLDEST:
        yield failed("version", f"PostgreSQL {name} is too old", "use PostgreSQL 12 or later")
    else:
        yield ok("version", f"PostgreSQL {name}")


def check_encoding(live: Live) -> Iterator[CheckResult]:
    encoding = live.one("SELECT current_setting('server_encoding')")
    if encoding == "UTF8":
        yield ok("encoding", encoding)
    else:
        hint = f"CREATE DATABASE {ddl.quote(live.connection.info.dbname + '_utf8')} ENCODING 'UTF8' TEMPLATE template0"
        yield failed("encoding", f"the database stores text as {encoding}: not every character fits", hint)


def check_writable(live: Live) -> Iterator[CheckResult]:
    if live.true("SELECT pg_is_in_recovery() OR current_setting('default_transaction_read_only')::bool"):
        yield failed("writable", "the target is read-only", "point the job at the primary")


def check_connections(live: Live) -> Iterator[CheckResult]:
    needed = OUR_CONNECTIONS + int(live.context.user_choices.get("load.parallel") or 4)
    free = live.one("""
        SELECT current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
               - (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend')""")
    if int(free) >= needed:
        yield ok("connections", f"{free} connections are free")
    else:
        yield warning(
            "connections",
            f"{free} connections are free, the job may open {needed}",
            f"ALTER SYSTEM SET max_connections = {int(live.one('SHOW max_connections')) + needed}; restart the target",
        )


def check_schemas(live: Live) -> Iterator[CheckResult]:
    """May we create what is missing: schemas, tables in them, and schema `anabranch`?"""
    new = [t for t in live.context.targets.values() if t.target not in live.existing]
    missing = {"anabranch"} | {t.target.schema for t in new}
    missing |= {part.name.schema for t in new for part in plan_partitions(live.context.tables[t.source], t)}
    may_create = live.true("SELECT has_database_privilege(current_database(), 'CREATE')")
    user = ddl.quote(live.user)
    for schema in sorted(missing):
        if not live.true("SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = %s)", schema):
            if not may_create:
                grant = f"GRANT CREATE ON DATABASE {ddl.quote(live.connection.info.dbname)} TO {user}"
                yield failed("rights", f"{live.user} may not create schema {schema}", grant)
        elif not live.true(
            "SELECT has_schema_privilege(%s, 'CREATE') AND has_schema_privilege(%s, 'USAGE')", *[schema] * 2
        ):
            grant = f"GRANT CREATE, USAGE ON SCHEMA {ddl.quote(schema)} TO {user}"
            yield failed("rights", f"{live.user} may not create tables in schema {schema}", grant)


def check_table_rights(live: Live) -> Iterator[CheckResult]:
    """Truncating, indexing and adding foreign keys need ownership or its rights."""
    for table, existing in live.tables():
        if existing.kind in WRITABLE and not live.true(
            "SELECT pg_has_role(relowner, 'USAGE') FROM pg_class WHERE oid = %s", existing.oid
        ):
            hint = f"ALTER TABLE {ddl.qualified(existing.id)} OWNER TO {ddl.quote(live.user)}"
            yield failed("rights", f"{live.user} does not own {existing.id}", hint, table)
