"""Is this database ready to be the job's target? Every check reads only; what fails says what mends it.

What does not live here: checks of the source, the report (preflight/), type facts (typemap.py).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

from anabranch.abc import CheckResult, Fit, PreflightContext, ValueRules
from anabranch.connectors.postgresql import ddl
from anabranch.connectors.postgresql.catalog import (
    ExistingIndex,
    ExistingTable,
    holds_rows,
    may_bypass_constraints,
    read_tables,
)
from anabranch.connectors.postgresql.connection import Connection, connect
from anabranch.connectors.postgresql.constraints import grant_statement
from anabranch.connectors.postgresql.errors import translated
from anabranch.connectors.postgresql.typemap import PostgresTypes
from anabranch.model.datatype import Fidelity, Kind, LogicalType
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId
from anabranch.rows.net import TargetTable

OLDEST = 120000  # shortest float text: https://www.postgresql.org/docs/release/12.0/
PARAMETER_GRANTS_SINCE = 150000  # https://www.postgresql.org/docs/release/15.0/
OUR_CONNECTIONS = 4  # apply, its index builder, state, status; a load adds its parallel tasks
NAMED = 3  # of the columns or things that a finding is about, this many stand in its message

# Existing column types that take every value of a type we would have made, beside that very type.
ALSO_FITS: dict[str, tuple[str, ...]] = {
    "smallint": ("integer", "bigint", "numeric"),
    "integer": ("bigint", "numeric"),
    "bigint": ("numeric",),
    "numeric": (),
    "real": ("double precision",),
    "double precision": (),
    "character varying": ("text",),
    "text": (),
    "bytea": (),
    "bit": (),
    "date": (),
    "timestamp without time zone": (),
    "timestamp with time zone": (),
    "interval": (),
    "jsonb": (),
    "json": ("text",),
}
# short names that the type map writes -> format_type's
LONG_NAMES = {
    "varchar": "character varying",
    "timestamp": "timestamp without time zone",
    "timestamptz": "timestamp with time zone",
}


class PostgresChecks:
    """The checks of a PostgreSQL target, over one connection. Reads only."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._connection: Connection | None = None

    def run(self, context: PreflightContext) -> list[CheckResult]:
        """Raises TargetUnavailable, or TargetError when the server refuses us."""
        if self._connection is None or self._connection.closed:
            self._connection = connect(self._endpoint, "anabranch-preflight", autocommit=True)
        with translated("check the target"):
            live = _Live(self._connection, context)
            found = [result for check in LIVE_CHECKS for result in check(live)]
        return [*found, *check_names(context), *check_types(context), *check_not_carried(context)]

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


@dataclass
class _Live:
    """What the checks of a connected target share."""

    connection: Connection
    context: PreflightContext
    version: int = 0
    user: str = ""
    existing: dict[TableId, ExistingTable] = field(default_factory=dict)
    defer_constraints: bool = False

    def __post_init__(self) -> None:
        self.version = int(self.one("SELECT current_setting('server_version_num')"))
        self.user = self.one("SELECT current_user::text")
        self.existing = read_tables(self.connection, {t.target for t in self.context.targets.values()})
        self.defer_constraints = self.context.user_choices.get("load.defer_constraints", "").lower() == "true"

    def one(self, query: str, *values: object) -> str:
        row = self.connection.execute(query.encode(), values).fetchone()
        return str(row[0]) if row else ""

    def true(self, query: str, *values: object) -> bool:
        return self.one(query, *values) == "True"

    def tables(self) -> Iterator[tuple[TargetTable, ExistingTable]]:
        """The job's target tables that are there already."""
        for table in self.context.targets.values():
            if table.target in self.existing:
                yield table, self.existing[table.target]

    def first_loads(self) -> Iterator[tuple[TargetTable, ExistingTable]]:
        """Those of them that this job did not load."""
        return ((t, e) for t, e in self.tables() if t.source not in self.context.loaded)


# --- server and rights ------------------------------------------------------------------------------------------------


def check_version(live: _Live) -> Iterator[CheckResult]:
    name = live.one("SELECT current_setting('server_version')")
    if live.version < OLDEST:
        yield _failed("version", f"PostgreSQL {name} is too old", "use PostgreSQL 12 or later")
    else:
        yield _ok("version", f"PostgreSQL {name}")


def check_encoding(live: _Live) -> Iterator[CheckResult]:
    encoding = live.one("SELECT current_setting('server_encoding')")
    if encoding == "UTF8":
        yield _ok("encoding", encoding)
    else:
        hint = f"CREATE DATABASE {ddl.quote(live.connection.info.dbname + '_utf8')} ENCODING 'UTF8' TEMPLATE template0"
        yield _failed("encoding", f"the database stores text as {encoding}: not every character fits", hint)


def check_writable(live: _Live) -> Iterator[CheckResult]:
    if live.true("SELECT pg_is_in_recovery() OR current_setting('default_transaction_read_only')::bool"):
        yield _failed("writable", "the target is read-only", "point the job at the primary")


def check_connections(live: _Live) -> Iterator[CheckResult]:
    needed = OUR_CONNECTIONS + int(live.context.user_choices.get("load.parallel") or 4)
    free = live.one("""
        SELECT current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
               - (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend')""")
    if int(free) >= needed:
        yield _ok("connections", f"{free} connections are free")
    else:
        yield _warning(
            "connections",
            f"{free} connections are free, the job may open {needed}",
            f"ALTER SYSTEM SET max_connections = {int(live.one('SHOW max_connections')) + needed}; restart the target",
        )


def check_schemas(live: _Live) -> Iterator[CheckResult]:
    """May we create what is missing: schemas, tables in them, and schema `anabranch`?"""
    missing = {"anabranch"} | {t.target.schema for t in live.context.targets.values() if t.target not in live.existing}
    may_create = live.true("SELECT has_database_privilege(current_database(), 'CREATE')")
    user = ddl.quote(live.user)
    for schema in sorted(missing):
        if not live.true("SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = %s)", schema):
            if not may_create:
                grant = f"GRANT CREATE ON DATABASE {ddl.quote(live.connection.info.dbname)} TO {user}"
                yield _failed("rights", f"{live.user} may not create schema {schema}", grant)
        elif not live.true(
            "SELECT has_schema_privilege(%s, 'CREATE') AND has_schema_privilege(%s, 'USAGE')", *[schema] * 2
        ):
            grant = f"GRANT CREATE, USAGE ON SCHEMA {ddl.quote(schema)} TO {user}"
            yield _failed("rights", f"{live.user} may not create tables in schema {schema}", grant)


def check_table_rights(live: _Live) -> Iterator[CheckResult]:
    """Truncating, indexing and adding foreign keys need ownership or its rights."""
    for table, existing in live.tables():
        if existing.kind in WRITABLE and not live.true(
            "SELECT pg_has_role(relowner, 'USAGE') FROM pg_class WHERE oid = %s", existing.oid
        ):
            hint = f"ALTER TABLE {ddl.qualified(existing.id)} OWNER TO {ddl.quote(live.user)}"
            yield _failed("rights", f"{live.user} does not own {existing.id}", hint, table)


def check_bypass(live: _Live) -> Iterator[CheckResult]:
    """K7, enforcement off: needed where target tables have, or will have, foreign keys or triggers."""
    reasons = [f"{e.id} has foreign keys or triggers" for _, e in live.tables() if e.has_actions]
    reasons += [f"{s.id} has foreign keys" for s in live.context.tables.values() if s.foreign_keys]
    reasons = sorted(set(reasons))
    if not reasons:
        return
    if may_bypass_constraints(live.connection):
        yield _ok("session_replication_role", "may be set")
        return
    since = live.version >= PARAMETER_GRANTS_SINCE
    yield _failed(
        "session_replication_role",
        f"{live.user} may not set it, and {_some(reasons)}",
        grant_statement(live.user) if since else f"ALTER ROLE {ddl.quote(live.user)} SUPERUSER",
        names=reasons,
    )


# --- target tables ----------------------------------------------------------------------------------------------------

WRITABLE = ("table", "partitioned table")


def check_existing(live: _Live) -> Iterator[CheckResult]:
    """Absent or empty, unless the job says otherwise or loaded it itself (K29)."""
    may_empty = live.context.user_choices.get("load.existing") == "empty"
    for table, existing in live.first_loads():
        if existing.kind not in WRITABLE:
            yield _failed("existing", f"{existing.id} is a {existing.kind}", "choose another target name", table)
        elif not _may_read(live, existing):
            hint = f"GRANT SELECT ON {ddl.qualified(existing.id)} TO {ddl.quote(live.user)}"
            yield _failed("existing", f"{live.user} may not read {existing.id}", hint, table)
        elif holds_rows(live.connection, existing.id) and not may_empty:
            yield _failed(
                "existing",
                f"{existing.id} holds rows",
                f'TRUNCATE {ddl.qualified(existing.id)}, or [load] existing = "empty"',
                table,
            )


def _may_read(live: _Live, existing: ExistingTable) -> bool:
    return live.true(
        "SELECT has_schema_privilege(relnamespace, 'USAGE') AND has_table_privilege(oid, 'SELECT')"
        " FROM pg_class WHERE oid = %s",
        existing.oid,
    )


def check_columns(live: _Live) -> Iterator[CheckResult]:
    """Existing tables: every column there, of a type that takes all values, and none that would stay empty."""
    for table, existing in live.tables():
        there = {c.name: c for c in existing.columns}
        for name, logical in zip(table.columns, table.types, strict=True):
            wanted = PostgresTypes().fit(logical, value_rules(live.context)).native
            alter = f"ALTER TABLE {ddl.qualified(existing.id)}"
            if name not in there:
                yield _failed("columns", f"column {name} is missing", f"{alter} ADD {ddl.quote(name)} {wanted}", table)
            elif not takes(there[name].type, wanted):
                hint = f"{alter} ALTER {ddl.quote(name)} TYPE {wanted}"
                yield _failed("columns", f"column {name} is {there[name].type}, needed is {wanted}", hint, table)
            elif there[name].generated:
                hint = f"{alter} ALTER {ddl.quote(name)} DROP EXPRESSION"
                yield _failed("columns", f"column {name} is generated at the target", hint, table)
            elif there[name].identity == "a":
                hint = f"{alter} ALTER {ddl.quote(name)} SET GENERATED BY DEFAULT"
                yield _failed("columns", f"column {name} is GENERATED ALWAYS AS IDENTITY", hint, table)
        for column in existing.columns:
            if column.name not in table.columns and column.not_null and not column.has_default:
                hint = f"ALTER TABLE {ddl.qualified(existing.id)} ALTER {ddl.quote(column.name)} DROP NOT NULL"
                yield _failed("columns", f"extra column {column.name} is NOT NULL without default", hint, table)


def check_not_null(live: _Live) -> Iterator[CheckResult]:
    """Columns that may be NULL at the source and may not at the target."""
    for table, existing in live.tables():
        schema = live.context.tables[table.source]
        strict = {c.name for c in existing.columns if c.not_null}
        for source, target in ddl.target_columns(table).items():
            nullable = ddl.may_be_null(schema.column(source), table.type_of(target), value_rules(live.context))
            if target in strict and target not in table.key and nullable:
                hint = f"ALTER TABLE {ddl.qualified(existing.id)} ALTER {ddl.quote(target)} DROP NOT NULL"
                yield _failed("columns", f"column {target} is NOT NULL at the target, not at the source", hint, table)


def check_keys(live: _Live) -> Iterator[CheckResult]:
    for table, existing in live.tables():
        if existing.kind in WRITABLE and set(existing.primary_key) != set(table.key):
            yield _failed(
                "key",
                f"the primary key is ({', '.join(existing.primary_key)}), the source's is ({', '.join(table.key)})",
                _alter(existing, _other_key(existing, table.key)),
                table,
            )


def _other_key(existing: ExistingTable, columns: tuple[str, ...]) -> Iterator[str]:
    """What gives an existing table this primary key, or none."""
    for index in existing.indexes:
        if index.primary and index.constraint:
            yield f"DROP CONSTRAINT {ddl.quote(index.constraint)}"
    if columns:
        yield f"ADD PRIMARY KEY ({', '.join(map(ddl.quote, columns))})"


def _alter(existing: ExistingTable, actions: Iterable[str]) -> str:
    return f"ALTER TABLE {ddl.qualified(existing.id)} {', '.join(actions)}"


def check_constraints(live: _Live) -> Iterator[CheckResult]:
    """Chunks of different moments may break secondary keys: they are taken off by the user's word only (K29)."""
    for table, existing in live.first_loads():
        things = [f"unique index {i.name}" for i in existing.secondary_unique]
        things += [f"foreign key {k.name}" for k in existing.foreign_keys]
        things += [f"foreign key {k.name} of {k.child}" for k in existing.referenced_by if k.child != existing.id]
        things += [f"trigger {name}" for name, enabled in existing.triggers.items() if enabled == "O"]
        if not things:
            continue
        if live.defer_constraints:
            text = "are off during the load (triggers: for all of this job's writes)"
            yield _warning("constraints", f"{_some(things)} {text}", "", table, things)
        else:
            yield _failed(
                "constraints",
                f"the target table has {_some(things)}",
                "[load] defer_constraints = true takes them off for the load and puts them back, or drop them",
                table,
                things,
            )


def check_other_triggers(live: _Live) -> Iterator[CheckResult]:
    """Triggers that fire in spite of session_replication_role = replica."""
    for table, existing in live.tables():
        for name in (n for n, enabled in existing.triggers.items() if enabled in "RA"):
            hint = f"ALTER TABLE {ddl.qualified(existing.id)} ENABLE TRIGGER {ddl.quote(name)}"
            yield _failed("triggers", f"trigger {name} also fires for replicated rows", hint, table)


def check_deferrable(live: _Live) -> Iterator[CheckResult]:
    """K8: not enforced under session_replication_role = replica."""
    for table, existing in live.tables():
        for index in (i for i in existing.indexes if i.unique and i.deferrable):
            text = f"deferrable key {index.name} is not enforced for replicated rows"
            yield _warning("constraints", text, _alter(existing, _not_deferrable(index)), table)


def _not_deferrable(index: ExistingIndex) -> Iterator[str]:
    """Only a constraint is deferrable, and it cannot be altered in place."""
    name, kind = ddl.quote(index.constraint or index.name), "PRIMARY KEY" if index.primary else "UNIQUE"
    yield f"DROP CONSTRAINT {name}"
    yield f"ADD CONSTRAINT {name} {kind} ({', '.join(map(ddl.quote, index.columns))})"


LIVE_CHECKS: tuple[Callable[[_Live], Iterator[CheckResult]], ...] = (
    check_version,
    check_encoding,
    check_writable,
    check_connections,
    check_schemas,
    check_table_rights,
    check_bypass,
    check_existing,
    check_columns,
    check_not_null,
    check_keys,
    check_constraints,
    check_other_triggers,
    check_deferrable,
)


def takes(existing: str, wanted: str) -> bool:
    """Does an existing column type hold every value of the type we would create? Unknown pairs do not."""
    have, have_size = split_type(existing)
    want, want_size = split_type(wanted)
    if have == want:
        return not have_size or _holds(want, have_size, want_size)
    return have in ALSO_FITS.get(want, ()) and not have_size


def split_type(native: str) -> tuple[str, tuple[int, ...]]:
    """`timestamp(6) without time zone` -> (`timestamp without time zone`, (6,))."""
    head, bracket, rest = native.partition("(")
    numbers, _, tail = rest.partition(")")
    name = f"{head.strip()} {tail.strip()}".strip() if bracket else native
    sizes = tuple(int(n) for n in numbers.split(",")) if bracket else ()
    return LONG_NAMES.get(name, name), sizes


def _holds(name: str, have: tuple[int, ...], want: tuple[int, ...]) -> bool:
    if name == "bit":
        return have == want
    if name != "numeric":
        return bool(want) and have[0] >= want[0]
    precision, scale = (*have, 0)[:2]
    wanted_precision, wanted_scale = (*want, 0)[:2]
    return bool(want) and scale == wanted_scale and precision >= wanted_precision


# --- types and names, without the server ------------------------------------------------------------------------------


def value_rules(context: PreflightContext) -> ValueRules:
    chosen = {name: context.user_choices.get(f"types.{name}") for name in ("zero_date", "nul", "json")}
    return ValueRules(**{name: value for name, value in chosen.items() if value})


def check_types(context: PreflightContext) -> Iterator[CheckResult]:
    """One line per target type and reason that is not exact, with the columns that have it, and one for the others."""
    exact = 0
    groups: dict[Fit, list[tuple[str, str, str]]] = defaultdict(list)
    for table in context.targets.values():
        schema = context.tables[table.source]
        for (source, target), logical in zip(ddl.target_columns(table).items(), table.types, strict=True):
            fit = PostgresTypes().fit(logical, value_rules(context))
            if fit.fidelity is Fidelity.EXACT:
                exact += 1
                continue
            column = (_source_type(schema.column(source).native, logical), fit.native, f"{table.source}.{target}")
            groups[replace(fit, native=split_type(fit.native)[0])].append(column)
    if exact:
        yield _ok("types", f"{exact} columns exact")
    for fit, columns in sorted(groups.items(), key=lambda group: (group[0].fidelity, group[0].native)):
        sources, natives, names = (sorted(set(part)) for part in zip(*columns, strict=True))
        native = natives[0] if len(natives) == 1 else fit.native
        text = f"{', '.join(sources)} as {native} is {fit.fidelity}: {fit.reason} ({_some(names)})"
        if fit.fidelity is Fidelity.REFUSED:
            yield _failed("types", text, "drop the columns in the job file ([[tables]] columns.drop)", names=names)
        else:
            yield _warning("types", text, "", names=names)


def _source_type(native: str, logical: LogicalType) -> str:
    """The source's type without sizes and labels."""
    if logical.kind in (Kind.ENUM, Kind.SET, Kind.JSON):
        return str(logical.kind)
    name, bracket, rest = native.partition("(")
    return name + rest.partition(")")[2] if bracket else native


def check_not_carried(context: PreflightContext) -> Iterator[CheckResult]:
    """Indexes and foreign keys that the target will not get."""
    for table in context.targets.values():
        schema = context.tables[table.source]
        for index in schema.indexes:
            try:
                ddl.plan_index(index, table)
            except ddl.NotCarried as why:
                yield _warning("indexes", f"index {index.name} will not be built: {why}", "", table)
        for key in schema.foreign_keys:
            try:
                ddl.plan_foreign_key(key, table, context.targets.get)
            except ddl.NotCarried as why:
                yield _warning("foreign_keys", f"foreign key {key.name} will not be built: {why}", "", table)


def check_names(context: PreflightContext) -> Iterator[CheckResult]:
    by_target: dict[TableId, list[TargetTable]] = defaultdict(list)
    for table in context.targets.values():
        by_target[table.target].append(table)
        for name in ddl.long_names(table):
            text = f"{name} is longer than {ddl.NAME_BYTES} bytes"
            yield _failed("names", text, "rename it in the job file", table)
    for target, tables in by_target.items():
        if len(tables) > 1:
            sources = ", ".join(str(t.source) for t in tables)
            yield _failed("names", f"{sources} would all go into {target}", "give each its own [[rules]] target")


# --- results ----------------------------------------------------------------------------------------------------------


def _some(names: Iterable[str]) -> str:
    found = list(names)
    more = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
    return ", ".join(found[:NAMED]) + more


def _ok(check: str, message: str) -> CheckResult:
    return CheckResult(f"target.{check}", "ok", message)


def _warning(
    check: str, message: str, hint: str, table: TargetTable | None = None, names: Iterable[str] = ()
) -> CheckResult:
    source = str(table.source) if table else ""
    return CheckResult(f"target.{check}", "warning", message, hint, source, tuple(names))


def _failed(
    check: str, message: str, hint: str, table: TargetTable | None = None, names: Iterable[str] = ()
) -> CheckResult:
    return replace(_warning(check, message, hint, table, names), verdict="failed")
