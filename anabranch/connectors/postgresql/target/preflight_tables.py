"""Are the target tables that are there already such that the job may write to them?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from anabranch.connectors.postgresql.quoting import qualified, quote
from anabranch.connectors.postgresql.target import ddl, own_source
from anabranch.connectors.postgresql.target.catalog import ExistingIndex, ExistingTable, holds_rows
from anabranch.connectors.postgresql.target.fits import takes
from anabranch.connectors.postgresql.target.heirs import mixed
from anabranch.connectors.postgresql.target.partitions import plan_partitions
from anabranch.connectors.postgresql.target.preflight_facts import WRITABLE, Live
from anabranch.connectors.postgresql.target.shared_tables import others, whole_of
from anabranch.connectors.postgresql.target.typemap import PostgresTypes
from anabranch.connectors.sql.findings import failed, ok, some, value_rules, warning
from anabranch.connectors.sql.shared_tables import check_shared
from anabranch.model.checks import CheckResult

LOCKS_EACH = 4  # a table, its key's index, what holds its large values, with the index of that


def check_own_source(live: Live) -> Iterator[CheckResult]:
    """Check for target tables that are the source's own, or hold the state of jobs: emptying or writing one would
    change those.
    """
    for table in live.context.targets.values():
        if table.target.schema == own_source.STATE:
            yield failed("own_source", own_source.is_state(table.target), own_source.STATE_REMEDY, table)
    for source, found in live.own.items():
        table = live.context.targets[source]
        yield failed("own_source", own_source.why(table.target, found), own_source.REMEDY, table)


def check_standing(live: Live) -> Iterator[CheckResult]:
    """Check that the tables of a job that never loads are there, before it begins: the job that it goes back from has made
    them, or has read them there."""
    for table in live.context.targets.values():
        if table.source in live.context.stand and table.target not in live.existing:
            hint = (
                f"set up the job first whose way back this is; or make the table there, with the rows of {table.source}"
            )
            yield failed("standing", f"{table.target} is not there, and this job loads nothing", hint, table)


def check_existing(live: Live) -> Iterator[CheckResult]:
    """Check that tables are absent or empty, unless the job says otherwise or loaded them itself (K29)."""
    choice = live.context.user_choices.get("load.existing")
    for table, existing in live.first_loads():
        if table.source in live.own or table.target.schema == own_source.STATE:
            continue  # said already; to empty it would empty the source
        if existing.kind not in WRITABLE:
            yield failed("existing", f"{existing.id} is a {existing.kind}", "choose another target name", table)
        elif whole := whole_of(live.connection, existing.id):
            hint = f"load the table that is {whole} here with --recreate first, or choose another target name"
            yield failed("existing", f"{existing.id} is a partition of {whole}, which a job writes to", hint, table)
        elif found := mixed(live.connection, existing.id):
            yield failed("existing", f"{existing.id}: {found.why}", found.remedy, table)
        elif not _may_read(live, existing):
            hint = f"GRANT SELECT ON {qualified(existing.id)} TO {quote(live.user)}"
            yield failed("existing", f"{live.user} may not read {existing.id}", hint, table)
        elif sharing := others(live.connection, live.context.job, existing.id):
            yield from check_shared(table, sharing, choice)
        elif live.true("SELECT row_security_active(%s)", existing.oid):
            continue  # whether it holds rows is not seen; check_row_security names it
        elif holds_rows(live.connection, existing.id) and choice == "keep":
            yield warning("existing", f"{existing.id} holds rows, which stay", "", table)
        elif holds_rows(live.connection, existing.id) and choice != "empty":
            yield failed(
                "existing",
                f"{existing.id} holds rows",
                f'TRUNCATE {qualified(existing.id)}, or [load] existing = "empty"; "keep" leaves them there',
                table,
            )


def _may_read(live: Live, existing: ExistingTable) -> bool:
    return live.true(
        "SELECT has_schema_privilege(relnamespace, 'USAGE') AND has_table_privilege(oid, 'SELECT')"
        " FROM pg_class WHERE oid = %s",
        existing.oid,
    )


def check_partitions(live: Live) -> Iterator[CheckResult]:
    """Check the number of partitions: all of a table's are created in one transaction, which locks each with what comes
    with it.
    """
    each, connections = (int(live.one(f"SHOW {name}")) for name in ("max_locks_per_transaction", "max_connections"))
    room, names = each * connections, []
    for table in live.context.targets.values():
        schema = live.context.tables[table.source]
        planned = plan_partitions(schema, table) if table.target not in live.existing else []
        names += [str(table.source)] if planned else []
        if LOCKS_EACH * len(planned) > room:
            text = f"{len(planned)} partitions are made at once, and the target has room for some {room} locks"
            locks = each + LOCKS_EACH * len(planned) // connections
            hint = f"ALTER SYSTEM SET max_locks_per_transaction = {locks}; restart the target"
            yield warning("partitions", text, hint, table)
    if names:
        more = "and others for rows that none of those takes"
        yield ok("partitions", f"{len(names)} tables get the source's partitions, {more}: {some(names)}")


def check_columns(live: Live) -> Iterator[CheckResult]:
    """Check existing tables: every column is there, of a type that takes all values, and none would stay empty."""
    for table, existing in live.tables():
        there = {c.name: c for c in existing.columns}
        for name, logical in zip(table.columns, table.types, strict=True):
            wanted = PostgresTypes().fit(logical, value_rules(live.context)).native
            alter = f"ALTER TABLE {qualified(existing.id)}"
            if name not in there:
                yield failed("columns", f"column {name} is missing", f"{alter} ADD {quote(name)} {wanted}", table)
            elif not takes(there[name].type, wanted):
                hint = f"{alter} ALTER {quote(name)} TYPE {wanted}"
                yield failed("columns", f"column {name} is {there[name].type}, needed is {wanted}", hint, table)
            elif there[name].generated:
                hint = f"{alter} ALTER {quote(name)} DROP EXPRESSION"
                yield failed("columns", f"column {name} is generated at the target", hint, table)
            elif there[name].identity == "a":
                hint = f"{alter} ALTER {quote(name)} SET GENERATED BY DEFAULT"
                yield failed("columns", f"column {name} is GENERATED ALWAYS AS IDENTITY", hint, table)
        for _, name in table.computed:
            if name in there and not there[name].generated:
                hint = f"ALTER TABLE {qualified(existing.id)} DROP {quote(name)}: it is made when the rest is built"
                yield failed(
                    "columns", f"column {name} is not generated at the target: nobody would fill it", hint, table
                )
        for column in existing.columns:
            if column.name not in table.columns and column.not_null and not column.has_default:
                hint = f"ALTER TABLE {qualified(existing.id)} ALTER {quote(column.name)} DROP NOT NULL"
                yield failed("columns", f"extra column {column.name} is NOT NULL without default", hint, table)


def check_not_null(live: Live) -> Iterator[CheckResult]:
    """Check for columns that may be NULL at the source and may not at the target."""
    for table, existing in live.tables():
        schema = live.context.tables[table.source]
        strict = {c.name for c in existing.columns if c.not_null}
        for source, target in ddl.target_columns(table).items():
            nullable = ddl.may_be_null(schema, schema.column(source), table.type_of(target), value_rules(live.context))
            if target in strict and target not in table.key and nullable:
                hint = f"ALTER TABLE {qualified(existing.id)} ALTER {quote(target)} DROP NOT NULL"
                message = f"column {target} is NOT NULL at the target, not at the source"
                if not schema.column(source).nullable:  # only a zero date makes it NULL
                    message = f'column {target} is NOT NULL at the target, where zero_date = "null" writes NULL'
                    hint += f'; or columns.zero_date = {{ {source} = "0001-01-01" }} in its [[tables]]'
                yield failed("columns", message, hint, table)


def check_keys(live: Live) -> Iterator[CheckResult]:
    for table, existing in live.tables():
        if existing.kind in WRITABLE and set(existing.primary_key) != set(table.key):
            yield failed(
                "key",
                f"the primary key is ({', '.join(existing.primary_key)}), the source's is ({', '.join(table.key)})",
                _alter(existing, _other_key(existing, table.key)),
                table,
            )


def _other_key(existing: ExistingTable, columns: tuple[str, ...]) -> Iterator[str]:
    """Yield what gives an existing table this primary key, or none."""
    for index in existing.indexes:
        if index.primary and index.constraint:
            yield f"DROP CONSTRAINT {quote(index.constraint)}"
    if columns:
        yield f"ADD PRIMARY KEY ({', '.join(map(quote, columns))})"


def _alter(existing: ExistingTable, actions: Iterable[str]) -> str:
    return f"ALTER TABLE {qualified(existing.id)} {', '.join(actions)}"


def check_constraints(live: Live) -> Iterator[CheckResult]:
    """Check secondary keys, which chunks of different moments may break: they are taken off only if the job file says
    so (K29).
    """
    for table, existing in live.first_loads():
        things = [f"unique index {i.name}" for i in existing.secondary_unique]
        things += [f"foreign key {k.name}" for k in existing.foreign_keys]
        things += [f"foreign key {k.name} of {k.child}" for k in existing.referenced_by if k.child != existing.id]
        if live.may_bypass:  # else they fire, and are named where that is said
            things += [f"trigger {name}" for name, enabled in existing.triggers.items() if enabled == "O"]
        if not things:
            continue
        if live.defer_constraints:
            text = "are off during the load" + (" (triggers: for all of this job's writes)" if live.may_bypass else "")
            yield warning("constraints", f"{some(things)} {text}", "", table, things)
        else:
            yield failed(
                "constraints",
                f"the target table has {some(things)}",
                "[load] defer_constraints = true takes them off for the load and puts them back, or drop them",
                table,
                things,
            )


def check_deferrable(live: Live) -> Iterator[CheckResult]:
    """Check for deferrable keys: not enforced under session_replication_role = replica; where keys act, they are
    checked at commit (K8).
    """
    for table, existing in live.tables() if live.may_bypass else ():
        for index in (i for i in existing.indexes if i.unique and i.deferrable):
            text = f"deferrable key {index.name} is not enforced for replicated rows"
            yield warning("constraints", text, _alter(existing, _not_deferrable(index)), table)


def _not_deferrable(index: ExistingIndex) -> Iterator[str]:
    """Yield the clauses that replace a deferrable constraint: it cannot be altered in place."""
    name, kind = quote(index.constraint or index.name), "PRIMARY KEY" if index.primary else "UNIQUE"
    yield f"DROP CONSTRAINT {name}"
    yield f"ADD CONSTRAINT {name} {kind} ({', '.join(map(quote, index.columns))})"
