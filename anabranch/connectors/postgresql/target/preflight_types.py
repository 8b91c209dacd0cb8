"""Checks of types, indexes, keys and names as the target will have them. Needs no server."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace

from anabranch.connectors.postgresql import verbatim
from anabranch.connectors.postgresql.target import choices, ddl
from anabranch.connectors.postgresql.target.fits import split_type
from anabranch.connectors.postgresql.target.indexes import MAY_BE_TOO_LONG, key_fits, plan_indexes
from anabranch.connectors.postgresql.target.planned import plan_checks, plan_foreign_key
from anabranch.connectors.postgresql.target.typemap import PostgresTypes
from anabranch.connectors.postgresql.verbatim import NotCarried, is_ours
from anabranch.connectors.sql.findings import (
    failed,
    not_carried,
    some,
    source_type,
    toml,
    type_findings,
    value_rules,
    warning,
)
from anabranch.contracts import PreflightContext
from anabranch.model.checks import CheckResult
from anabranch.model.datatype import Fidelity, Fit
from anabranch.model.ids import TableId
from anabranch.rows import zero_dates
from anabranch.rows.net import TargetTable


def check_types(context: PreflightContext) -> Iterator[CheckResult]:
    """Report one line per target type and reason that is not exact, with its columns, and one line for all others."""
    exact = 0
    groups: dict[Fit, list[tuple[str, str, str]]] = defaultdict(list)
    rules = value_rules(context)
    for table in context.targets.values():
        schema = context.tables[table.source]
        for (source, target), logical in zip(ddl.target_columns(table).items(), table.types, strict=True):
            own = zero_dates.choice(rules, schema, source) if logical.carried in zero_dates.KINDS else rules.zero_date
            fit = PostgresTypes().fit(logical, replace(rules, zero_date=own))
            if target in table.key and not choices.may_be_key(logical, schema.column(source).collation):
                reason = f"a key column cannot become {logical.target}: its values print or compare otherwise"
                fit = Fit(fit.native, Fidelity.REFUSED, reason)
            if fit.fidelity is Fidelity.EXACT and not logical.target:
                exact += 1
                continue
            column = (source_type(schema.column(source).native, logical), fit.native, f"{table.source}.{target}")
            groups[replace(fit, native=split_type(fit.native)[0])].append(column)
    yield from type_findings(exact, groups)


def check_not_carried(context: PreflightContext) -> Iterator[CheckResult]:
    """Report indexes, checks, foreign keys, partitions and defaults that the target will not get: one line per reason."""
    groups: dict[tuple[str, str], list[tuple[TargetTable, str]]] = defaultdict(list)
    for table in context.targets.values():
        for kind, name, why in _not_carried(context, table):
            groups[kind, why].append((table, name))
    yield from not_carried(groups)


def _not_carried(context: PreflightContext, table: TargetTable) -> Iterator[tuple[str, str, str]]:
    """Check, name, reason."""
    schema = context.tables[table.source]
    for index, wanted in plan_indexes(schema, table):
        if isinstance(wanted, NotCarried):
            yield "indexes", index.name, str(wanted)
    for name, planned in plan_checks(schema, table, value_rules(context)).items():
        if isinstance(planned, NotCarried):
            yield "checks", name, str(planned)
    for key in schema.foreign_keys:
        try:
            plan_foreign_key(key, table, context.targets.get)
        except NotCarried as why:
            yield "foreign_keys", key.name, str(why)
    for column, _, expression in verbatim.computed(schema, table):
        if isinstance(expression, NotCarried):
            yield "computed", column.name, str(expression)
    try:
        verbatim.partition_key(schema, table)
    except NotCarried as why:
        yield "partitions", schema.partition_key, str(why)
    for source, what in ddl.lost_defaults(schema, table):
        yield "defaults", source, what if is_ours(schema) else f"{what} has no counterpart"


def check_key_sizes(context: PreflightContext) -> Iterator[CheckResult]:
    """Warn of keys that are created although some values may not fit: most of them will."""
    long = [table for table in context.targets.values() if not key_fits(context.tables[table.source], table)]
    names = [str(table.source) for table in long]
    if names:
        text = f"values of a primary key {MAY_BE_TOO_LONG}: one that does not fit stops the job ({some(names)})"
        yield warning("key", text, "", long[0] if len(long) == 1 else None, names)


def check_names(context: PreflightContext) -> Iterator[CheckResult]:
    by_target: dict[TableId, list[TargetTable]] = defaultdict(list)
    for table in context.targets.values():
        by_target[table.target].append(table)
        for name in ddl.long_names(table):
            text = f"{name} is longer than {ddl.NAME_BYTES} bytes"
            yield failed("names", text, _renamed(table, name), table)
    for target, tables in by_target.items():
        if len(tables) > 1:
            sources = ", ".join(str(t.source) for t in tables)
            yield failed("names", f"{sources} would all go into {target}", "give each its own [[rules]] target")


def _renamed(table: TargetTable, name: str) -> str:
    """Suggest what the job file may say instead, with a name that fits."""
    short = ddl.shortened(name)
    if name in table.columns:
        source = table.source_columns[table.columns.index(name)] if table.source_columns else name
        return f"[[tables]] name = {toml(str(table.source))}, columns.rename = {{ {toml(source)} = {toml(short)} }}"
    target = TableId(ddl.shortened(table.target.schema), ddl.shortened(table.target.name))
    return f"before the other rules: [[rules]] include = [{toml(str(table.source))}], target = {toml(str(target))}"
