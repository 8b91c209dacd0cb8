"""Checks of types that the job's tables need, of extensions and of the source's users: is each there, the same as at
the source, or can it be created?
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import LiteralString

from anabranch.connectors.postgresql import needed_objects as needs
from anabranch.connectors.postgresql.quoting import quote
from anabranch.connectors.postgresql.target import made_objects
from anabranch.connectors.postgresql.target.fits import split_type
from anabranch.connectors.postgresql.target.preflight_facts import Live
from anabranch.connectors.postgresql.target.typemap import EXTENSIONS, PostgresTypes
from anabranch.connectors.sql.findings import NOT_CARRIED, failed, ok, some, value_rules, warning
from anabranch.model.checks import CheckResult
from anabranch.model.schema import Need

INSTALLED = "SELECT EXISTS (SELECT FROM pg_extension WHERE extname = %s)"
MAY_MAKE = """
SELECT coalesce((SELECT has_schema_privilege(oid, 'CREATE') FROM pg_namespace WHERE nspname = %s),
                has_database_privilege(current_database(), 'CREATE'))
"""
AVAILABLE = """
SELECT EXISTS (SELECT FROM pg_available_extensions WHERE name = %s)
"""
THERE: LiteralString = """
SELECT i.type, i.identity
  FROM (SELECT 'pg_proc'::regclass::oid AS class, oid FROM pg_proc WHERE oid >= 16384
        UNION ALL SELECT 'pg_operator'::regclass, oid FROM pg_operator WHERE oid >= 16384
        UNION ALL SELECT 'pg_opclass'::regclass, oid FROM pg_opclass WHERE oid >= 16384
        UNION ALL SELECT 'pg_class'::regclass, oid FROM pg_class WHERE relkind = 'S') AS o
 CROSS JOIN LATERAL pg_identify_object(o.class, o.oid, 0) AS i WHERE i.identity = ANY(%s)
"""
# A trusted extension takes CREATE on the database: https://www.postgresql.org/docs/current/sql-createextension.html
MAY_CREATE = """
SELECT coalesce(bool_or(r.rolsuper OR NOT v.superuser OR
         coalesce((to_jsonb(v) ->> 'trusted')::boolean, false)
         AND has_database_privilege(current_database(), 'CREATE')), false)
  FROM pg_available_extensions a
  JOIN pg_available_extension_versions v ON v.name = a.name AND v.version = a.default_version,
       pg_roles r WHERE a.name = %s AND r.rolname = current_user
"""


def check_needs(live: Live) -> Iterator[CheckResult]:
    """Check what the tables of a source of our own kind need: extensions, types, functions."""
    by_need: dict[Need, list[str]] = defaultdict(list)
    for table in live.context.targets.values():
        for need in live.context.tables[table.source].needs:
            by_need[need].append(str(table.source))
    there = needs.present(live.connection, by_need) if by_need else {}
    for need, tables in sorted(by_need.items(), key=lambda item: (item[0].kind, item[0].name)):
        if need in there:
            yield from _differing(need, there[need], tables)
        elif need.kind == needs.EXTENSION:
            yield _extension(live, need, tables)
        elif not need.definition:
            hint = "make it at the target as it is at the source"
            yield failed("types", f"{some(tables)} need the type {need.name}, which is missing", hint, names=tables)
        else:
            yield _made(live, need, tables)
    if any(need.kind == needs.FUNCTION and need not in there for need in by_need):
        for need, why in made_objects.refused(live.connection, _as_needed(live)).items():
            if need.kind == needs.FUNCTION:
                text = f"function {need.name} will not be made, nor what uses it: the target refuses it: {why}"
                yield warning("functions", text, "make it at the target before the load", names=by_need[need])


def _as_needed(live: Live) -> list[Need]:
    """Return the needed objects in the order in which they can be created."""
    tables = live.context.targets.values()
    return list(dict.fromkeys(need for table in tables for need in live.context.tables[table.source].needs))


def check_lacking(live: Live) -> Iterator[CheckResult]:
    """List what uses something that cannot be copied and that the target lacks."""
    found = [
        (table, one) for table in live.context.targets.values() for one in live.context.tables[table.source].lacking
    ]
    asked = sorted({one.uses for _, one in found})
    there = set(live.connection.execute(THERE, [asked]).fetchall()) if asked else set()
    for table, one in found:
        own = live.context.tables[table.source].columns
        counts = one.what == "defaults" and any(column.name == one.name and column.auto_increment for column in own)
        if counts or (one.kind, one.uses) not in there:
            single, _, becomes = NOT_CARRIED[one.what]
            text = f"{single} {one.name} will not be {becomes}: it uses the {one.kind} {one.uses}: {one.why}"
            hint = "" if counts else f"make the {one.kind} at the target before the load"
            yield warning(one.what, text, hint, table, [one.name])


def _made(live: Live, need: Need, tables: list[str]) -> CheckResult:
    if live.true(MAY_MAKE, need.schema):
        return ok("types", f"{need.kind} {need.name} will be made")
    database, user = quote(live.connection.info.dbname), quote(live.user)
    is_there = live.true("SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = %s)", need.schema)
    hint = f"GRANT CREATE ON DATABASE {database} TO {user}"
    hint = f"GRANT CREATE, USAGE ON SCHEMA {quote(need.schema)} TO {user}" if is_there else hint
    message = f"{some(tables)} need {need.kind} {need.name}, which {live.user} may not make"
    return failed("types", message, hint, names=tables)


def _extension(live: Live, need: Need, tables: list[str]) -> CheckResult:
    needed = f"{some(tables)} need the extension {need.name}"
    if not live.true(AVAILABLE, need.name):
        hint = f"install its package on the target's server, or leave the columns out: {some(tables)}"
        return failed("extensions", f"{needed}, which the target's server does not have", hint, names=tables)
    if not live.true(MAY_CREATE, need.name):
        message = f"{needed}, which is not installed in this database, and {live.user} may not install it"
        return failed("extensions", message, need.definition, names=tables)
    return ok("extensions", f"{need.name} will be installed")


def _differing(need: Need, definition: str, tables: list[str]) -> Iterator[CheckResult]:
    """Check an object that differs. An enum that has more labels takes all values of the source; anything else a person
    has to judge.
    """
    if definition == need.definition:
        return
    here, there = needs.labels(definition), needs.labels(need.definition)
    lacking = [label for label in there if label not in here]
    if need.kind == needs.ENUM and lacking:
        hint = "; ".join(f"ALTER TYPE {need.name} ADD VALUE {label}" for label in lacking)
        if extra := [label for label in here if label not in there]:
            hint += f"; or RENAME VALUE, where one of {', '.join(extra)} was renamed at the source"
        yield failed("types", f"the enum {need.name} of the target lacks {', '.join(lacking)}", hint, names=tables)
    else:
        text = f"{need.kind} {need.name} is another one at the target than at the source"
        yield warning("types", text, f"at the source: {need.definition}", names=tables)


def check_extensions(live: Live) -> Iterator[CheckResult]:
    """Check for PostGIS, pgvector and citext, where the job's columns take a type of theirs."""
    needed: dict[str, list[str]] = defaultdict(list)
    for table in live.context.targets.values():
        for name, logical in zip(table.columns, table.types, strict=True):
            native = split_type(PostgresTypes().fit(logical, value_rules(live.context)).native)[0]
            if native in EXTENSIONS:
                needed[EXTENSIONS[native]].append(f"{table.source}.{name}")
    for extension, columns in sorted(needed.items()):
        if live.true(INSTALLED, extension):
            yield ok("extensions", f"{extension} is installed")
        else:
            message = f"{some(columns)} need the extension {extension}, which is not installed in this database"
            yield failed("extensions", message, f"CREATE EXTENSION {quote(extension)}", names=columns)
