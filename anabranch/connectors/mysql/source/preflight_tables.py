"""Are the tables such that they can be replicated: engines, keys, foreign keys."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from anabranch.connectors.mysql.collations import compares_exactly
from anabranch.connectors.mysql.connection import account, ask
from anabranch.connectors.mysql.rights import Rights, as_pattern, grant
from anabranch.connectors.mysql.source import foreign_keys, mending, privileges
from anabranch.connectors.mysql.source.catalog import cascades_are_logged
from anabranch.connectors.mysql.source.preflight_facts import Live, failed, names_of, ok, some, warning
from anabranch.connectors.mysql.source.snapshot import has_transactions
from anabranch.model.checks import CheckResult
from anabranch.model.schema import ForeignKey, TableSchema

# Collations that compare bytes and do not pad: from MySQL 8.0.17, MariaDB 10.2.
LOOSE_HINTS = {
    family: f"give the key's columns a collation that compares exactly ({collation}), at both ends, or the key RESTRICT"
    for family, collation in (("mysql", "utf8mb4_0900_bin"), ("mariadb", "utf8mb4_nopad_bin"))
}


def check_engines(live: Live) -> Iterator[CheckResult]:
    loaded = live.context.loaded
    torn = live.tables(lambda s: not has_transactions(s) and not s.primary_key and s.id not in loaded)
    if torn:
        names = names_of(torn)
        message = f"neither transactions nor a primary key in {some(names)}: a row inserted during the load comes twice"
        yield replace(failed("engines", message, mending.give_either(torn)), names=names)
    found = [table for table in live.tables(lambda s: not has_transactions(s)) if table not in torn]
    if found:
        names = names_of(found)
        message = (
            f"no transactions in {some(names)}: rows stay after ROLLBACK, and a load has no consistent view of them"
        )
        hint = f"{mending.give_transactions(found)}; or write nothing to them during the load"
        yield replace(warning("engines", message, hint), names=names)
    elif not torn and live.context.tables:
        yield ok("engines", "every table has transactions")


def check_keys(live: Live) -> Iterator[CheckResult]:
    found = live.tables(lambda schema: not schema.primary_key)
    if not found:
        if live.context.tables:
            yield ok("keys", "every table has a primary key")
        return
    names = names_of(found)
    message = f"no primary key in {some(names)}: loaded in one piece, rows are found by all their columns"
    if not live.is_exact:
        message += "; the load waits for a moment at which nothing changes them"
    hint = mending.give_keys(found) + ("" if live.is_exact else '; or [load] lock = "table"')
    yield replace(warning("keys", message, hint), names=names)


def check_standing_keys(live: Live) -> Iterator[CheckResult]:
    """Check tables whose images are partial: a row's image before it changed has nothing but the key that the server takes for
    primary."""
    image = live.variables.get("binlog_row_image", "FULL").upper()
    found = live.tables(lambda schema: mending.standing_key(schema) is not None)
    if image != "FULL" and found:
        names = names_of(found)
        why = "have no primary key, and only a unique key of changed rows is logged"
        message = f"binlog_row_image = {image}: {some(names)} {why}"
        hint = f"{mending.give_keys(found)}; or SET GLOBAL binlog_row_image = 'FULL'"
        yield replace(failed("keys", message, hint), names=names)


def check_hidden_keys(live: Live) -> Iterator[CheckResult]:
    """Check for foreign keys that the user does not see: they would cascade unnoticed (K1)."""
    found = list(foreign_keys.hidden(live.connection, live.context.tables))
    for schema in sorted({table.schema for table in found}):
        names = tuple(str(table) for table in found if table.schema == schema)
        place, user = f"{as_pattern(schema)}.*", account(live.connection)
        hint = grant(foreign_keys.RIGHT, place, user)
        yield replace(failed("hidden_keys", f"{some(names)}: {foreign_keys.MESSAGE}", hint), names=names)


def check_foreign_keys(live: Live) -> Iterator[CheckResult]:
    """Check foreign keys over texts that the source takes for equal ('a' and 'A', 'a' and 'a ') (K1).

    The target finds children by equal values, so the source would cascade further.
    """
    if cascades_are_logged(live.family, live.version, live.variables):
        return
    for table, schema in sorted(live.context.tables.items()):
        for key in schema.foreign_keys:
            loose = sorted(_loose_columns(key, schema, live.context.tables.get(key.parent)))
            if key.changes_rows and loose:
                message = (
                    f"foreign key {key.name} changes rows, the log does not show it, and the source takes different "
                    f"values of {', '.join(loose)} for equal"
                )
                yield failed("foreign_keys", message, f"{LOOSE_HINTS[live.family]}, or exclude {table}", str(table))


def _loose_columns(key: ForeignKey, child: TableSchema, parent: TableSchema | None) -> Iterator[str]:
    """Yield columns of the key, with their collation, in which equal values may differ."""
    for name, parent_name in zip(key.columns, key.parent_columns, strict=True):
        column = child.column(name)
        ends = [column, parent.column(parent_name) if parent is not None else column]
        if any(end.type is not None and end.type.values for end in ends):  # a number at the source, a text here
            is_exact = len({end.type for end in ends}) == 1
        else:
            is_exact = not any(end.collation for end in ends) or all(compares_exactly(end) for end in ends)
        if not is_exact:
            yield f"{name} ({column.collation})"


def check_versioned(live: Live) -> Iterator[CheckResult]:
    found = live.tables(lambda schema: schema.row_end != "")
    by_transaction = [
        schema for schema in found if any(c.name == schema.row_end and not c.type for c in schema.columns)
    ]
    if by_transaction:
        names = names_of(by_transaction)
        message = f"{some(names)}: history is kept by transactions, the log has every change as a statement"
        yield replace(failed("versioned", message, "exclude them"), names=names)
    elif found:
        names = names_of(found)
        message = f"system-versioned: {some(names)}: the rows of now are replicated, their history is not"
        yield replace(warning("versioned", message, ""), names=names)


def check_computed(live: Live) -> Iterator[CheckResult]:
    """Check the right to temporary tables where keys change inputs of computed columns (K1).

    Without it the rows themselves are read, which are others where they have changed again.
    """
    if cascades_are_logged(live.family, live.version, live.variables):
        return
    right = privileges.TEMPORARY_TABLES
    rights = Rights([str(row[0]) for row in ask(live.connection, "SHOW GRANTS")])
    found = live.tables(_computes_from_keys)
    lacking = [schema for schema in found if not rights.has(right, schema.id)]
    for place in sorted({f"{as_pattern(schema.id.schema)}.*" for schema in lacking}):
        names = names_of([s for s in lacking if f"{as_pattern(s.id.schema)}.*" == place])
        message = (
            f"columns of {some(names)} are computed from foreign keys that change rows; without {right} the source"
            " cannot tell them for a row that has changed again meanwhile, and the job stops there"
        )
        hint = grant(right, place, account(live.connection))
        yield replace(warning("computed", message, hint), names=names)


def _computes_from_keys(schema: TableSchema) -> bool:
    changed = {c for key in schema.foreign_keys if key.changes_rows for c in key.columns}
    return bool(schema.computed_over(changed))


def check_generated(live: Live) -> Iterator[CheckResult]:
    found = live.tables(lambda schema: any(column.generated for column in schema.columns))
    if found:
        names = names_of(found)
        message = (
            f"generated columns of {some(names)} have values in the log, which arrive as those of plain columns do"
        )
        yield replace(ok("generated", message), names=names)
