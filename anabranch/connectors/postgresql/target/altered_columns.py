"""Columns that the source has altered are altered in the target's table, inside the epoch.

The server fills rows that are there from the default, without writing them: https://www.postgresql.org/docs/current/sql-altertable.html
What does not live here: how a column is rendered (`ddl.py`), when it comes (apply engine).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from anabranch.connectors.postgresql import verbatim
from anabranch.connectors.postgresql.connection import Connection
from anabranch.connectors.postgresql.quoting import literal, qualified, quote
from anabranch.connectors.postgresql.target import (
    altered_checks,
    altered_comments,
    altered_indexes,
    altered_keys,
    ddl,
    label_checks,
)
from anabranch.connectors.postgresql.target.fits import split_type
from anabranch.connectors.postgresql.target.label_checks import LabelCheck
from anabranch.connectors.postgresql.target.typemap import PostgresTypes
from anabranch.contracts import Conflict, ValueRules
from anabranch.model.datatype import Fidelity
from anabranch.rows.altered import (
    AlteredTable,
    ColumnAdded,
    ColumnDropped,
    ColumnRenamed,
    ColumnRetyped,
    DefaultChanged,
    NullabilityChanged,
    filled_schema,
)

# Others that use the table are waited for so long, and let go on then: whoever comes behind us waits as well.
WAIT = "SET LOCAL lock_timeout = '3s'"
_COLUMNS = (
    "SELECT attname::text, pg_catalog.format_type(atttypid, atttypmod) FROM pg_attribute"
    " WHERE attrelid = to_regclass({table}) AND attnum > 0 AND NOT attisdropped"
)
# What goes with a column, or keeps it from going, but its own default, and a check or NOT NULL of it alone.
# https://www.postgresql.org/docs/current/catalog-pg-depend.html
_DEPENDENTS = """
SELECT pg_describe_object(d.classid, d.objid, d.objsubid)
FROM pg_depend d
JOIN pg_attribute a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid
LEFT JOIN pg_attrdef f ON d.classid = 'pg_attrdef'::regclass AND f.oid = d.objid
LEFT JOIN pg_constraint c ON d.classid = 'pg_constraint'::regclass AND c.oid = d.objid
WHERE d.refclassid = 'pg_class'::regclass AND d.refobjid = to_regclass({table}) AND a.attname = {column}
  AND (f.adnum IS NULL OR f.adnum <> a.attnum)
  AND (c.contype IS NULL OR c.contype NOT IN ('c', 'n') OR c.conkey <> ARRAY[a.attnum])
ORDER BY 1
"""


def alter(connection: Connection, altered: AlteredTable, rules: ValueRules) -> list[str]:
    """Carry out the steps, in the open transaction; return what was not done of indexes, which come first (a column may only go
    behind its index), and of comments. Raises Conflict where the table is not as it has to be before them, or rows
    that are there cannot have the source's values. Driver errors pass."""
    checks = label_checks.standing(connection, altered)
    found = list(statements(altered, rules, connection.info.server_version, checks))
    connection.execute(WAIT)
    if any(isinstance(step, ColumnDropped) for step in altered.steps):  # nothing may come to depend on it meanwhile
        connection.execute(f"LOCK TABLE {qualified(altered.table.target)} IN ACCESS EXCLUSIVE MODE".encode())
    altered_keys.alter(connection, altered)
    left = altered_indexes.alter(connection, altered)
    altered_checks.alter(connection, altered, rules)
    refuse_unlike(connection, altered, rules)
    for statement in found:
        connection.execute(statement.encode())
    left += altered_comments.alter(connection, altered)
    connection.execute("RESET lock_timeout")
    return left


def refuse_unlike(connection: Connection, altered: AlteredTable, rules: ValueRules) -> None:
    """Raise Conflict where the table is not as it has to be before the steps."""
    altered_checks.refuse_unmade(altered, rules)
    if unlike := list(_unlike_before(connection, altered, rules)):
        raise Conflict(altered.table.source, "; ".join(unlike))


def statements(
    altered: AlteredTable, rules: ValueRules, version: int, checks: Collection[LabelCheck] = ()
) -> Iterator[str]:
    """Yield what carries out the steps. `checks`: those of labels that stand. Raises Conflict, as `alter`."""
    place, lines, behind = qualified(altered.table.target), list[str](), list[str]()
    for step in altered.steps:
        match step:
            case ColumnDropped():
                lines += _dropped(altered, step)
            case ColumnRenamed():  # a statement of its own
                former, name = quote(altered.former_target(step.former)), _fitting(altered, step.name)
                yield f"ALTER TABLE {place} RENAME COLUMN {former} TO {quote(name)}"
            case ColumnAdded():
                lines.append(_added(altered, step, rules, version))
                if step.fill is not None:
                    behind.append(f"ALTER TABLE {place} ALTER COLUMN {quote(altered.target(step.name))} DROP DEFAULT")
                if comment := altered.schema.column(step.name).comment.replace("\x00", ""):
                    column = f"{place}.{quote(altered.target(step.name))}"
                    behind.append(f"COMMENT ON COLUMN {column} IS {literal(comment)}")
            case NullabilityChanged():
                lines += _nullable(altered, step, rules)
            case DefaultChanged():
                lines.append(_default(altered, step, version))
            case ColumnRetyped():
                former, native = types(altered, step, rules)
                if former != native:
                    lines.append(
                        f"ALTER COLUMN {quote(altered.target(step.name))} TYPE {native}{_collation(altered, step)}"
                    )
                lines += label_checks.lines(altered, step, checks)
    if lines:
        yield f"ALTER TABLE {place} {', '.join(lines)}"
    yield from behind


def _dropped(altered: AlteredTable, step: ColumnDropped) -> list[str]:
    column = quote(altered.former_target(step.name))
    if step.keeps:
        return [f"ALTER COLUMN {column} DROP NOT NULL", f"ALTER COLUMN {column} DROP DEFAULT"]
    return [f"DROP COLUMN {column}"]


def _added(altered: AlteredTable, step: ColumnAdded, rules: ValueRules, version: int) -> str:
    schema, table, target = filled_schema(altered.schema, step), altered.table, _fitting(altered, step.name)
    column, logical = schema.column(step.name), table.type_of(target)
    is_as_there = ddl.is_as_there(schema, logical) and not column.default_is_expression
    if not is_as_there and ddl.loses_default(column, logical, version):
        raise Conflict(table.source, f"rows cannot have the default of {step.name} here")
    return f"ADD COLUMN {ddl.column_line(schema, table, step.name, target, rules, version, ())}"


def _nullable(altered: AlteredTable, step: NullabilityChanged, rules: ValueRules) -> Iterator[str]:
    """Yield the line, unless the target takes NULL as before: it also does where zero dates become NULL."""
    was, may = (
        ddl.may_be_null(schema, schema.column(name), table.type_of(target), rules)
        for schema, table, name, target in altered.both(step.name)
    )
    if was is not may:
        yield f"ALTER COLUMN {quote(altered.target(step.name))} {'DROP' if may else 'SET'} NOT NULL"


def _default(altered: AlteredTable, step: DefaultChanged, version: int) -> str:
    column, target = altered.schema.column(step.name), altered.target(step.name)
    logical = altered.table.type_of(target)
    is_as_there = ddl.is_as_there(altered.schema, logical) and not column.default_is_expression
    if not is_as_there and ddl.loses_default(column, logical, version):
        raise Conflict(altered.table.source, f"{step.name} cannot have its default here")
    own = {name: planned for name, _, planned in verbatim.defaults(altered.schema, altered.table)}.get(step.name)
    if isinstance(own, str):  # the time, the date, a new UUID
        return f"ALTER COLUMN {quote(target)} SET DEFAULT {own}"
    default = ddl.default_of(column, logical, is_as_there)
    return f"ALTER COLUMN {quote(target)} " + ("DROP DEFAULT" if default is None else f"SET DEFAULT {literal(default)}")


def types(altered: AlteredTable, step: ColumnRetyped, rules: ValueRules) -> tuple[str, str]:
    """Return the column's type here before and behind. Raises Conflict for one that is refused."""
    fits = [PostgresTypes().fit(table.type_of(target), rules) for _, table, _, target in altered.both(step.name)]
    if refused := next((fit.reason for fit in fits if fit.fidelity is Fidelity.REFUSED), ""):
        raise Conflict(altered.table.source, f"column {step.name}: {refused}")
    natives = (
        schema.column(name).native if ddl.is_as_there(schema, table.type_of(target)) else fit.native
        for fit, (schema, table, name, target) in zip(fits, altered.both(step.name), strict=True)
    )
    former, native = natives
    return former, native


def _collation(altered: AlteredTable, step: ColumnRetyped) -> str:
    """Return the column's collation, which a server takes away with the type unless it is said again."""
    is_as_there = ddl.is_as_there(altered.schema, altered.table.type_of(altered.target(step.name)))
    return ddl.collation(altered.schema.column(step.name)) if is_as_there else ""


def _fitting(altered: AlteredTable, name: str) -> str:
    target = altered.target(name)
    if not ddl.fits(target):
        raise Conflict(altered.table.source, f"{target}: longer than {ddl.NAME_BYTES} bytes")
    return target


# --- what stands ------------------------------------------------------------------------------------------------------


def _unlike_before(connection: Connection, altered: AlteredTable, rules: ValueRules) -> Iterator[str]:
    """Say what keeps the table from the steps: columns that are there, or are not, and what depends on one that goes."""
    table = literal(qualified(altered.table.target))
    there: dict[str, str] = dict(connection.execute(_COLUMNS.format(table=table).encode()).fetchall())
    for step in altered.steps:
        match step:
            case ColumnAdded() | ColumnRenamed() if altered.target(step.name) in there:
                yield f"the target's table has {altered.target(step.name)} already"
            case ColumnRenamed() if altered.former_target(step.former) not in there:
                yield f"the target's table has no column {altered.former_target(step.former)}"
            case NullabilityChanged() | DefaultChanged() if altered.former_of(step.name) not in there:
                yield f"the target's table has no column {altered.former_of(step.name)}"
            case ColumnRetyped():
                name, (former, native) = altered.former_of(step.name), types(altered, step, rules)
                if former != native and split_type(there.get(name, "")) not in (split_type(former), split_type(native)):
                    yield f"column {name} of the target's table is {there.get(name, 'missing')}, and was made as {former}"
            case ColumnDropped():
                name = altered.former_target(step.name)
                if name not in there:
                    yield f"the target's table has no column {name}"
                elif not step.keeps:
                    asked = _DEPENDENTS.format(table=table, column=literal(name))
                    for (what,) in connection.execute(asked.encode()).fetchall():
                        yield f"{what} depends on {name} at the target"
