"""Checks of types, indexes, keys and names as the target will have them. Needs no server."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace

from anabranch.connectors.postgresql import verbatim
from anabranch.connectors.postgresql.target import choices, ddl
from anabranch.connectors.postgresql.target.fits import split_type
from anabranch.connectors.postgresql.target.indexes import MAY_BE_TOO_LONG, key_fits, plan_indexes
from anabranch.connectors.postgresql.target.preflight_facts import failed, ok, some, value_rules, warning
from anabranch.connectors.postgresql.target.typemap import PostgresTypes
from anabranch.connectors.postgresql.verbatim import NotCarried, is_ours
from anabranch.contracts import PreflightContext
from anabranch.model.checks import CheckResult
from anabranch.model.datatype import Fidelity, Fit, Kind, LogicalType
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
            column = (_source_type(schema.column(source).native, logical), fit.native, f"{table.source}.{target}")
            groups[replace(fit, native=split_type(fit.native)[0])].append(column)
    if exact:
        yield ok("types", f"{exact} columns exact")
    for fit, columns in sorted(groups.items(), key=lambda group: (group[0].fidelity, group[0].native)):
        sources, natives, names = (sorted(set(part)) for part in zip(*columns, strict=True))
        native = natives[0] if len(natives) == 1 else fit.native
        reason = f": {fit.reason}" if fit.reason else ""
        text = f"{', '.join(sources)} as {native} is {fit.fidelity}{reason} ({some(names)})"
        if fit.fidelity is Fidelity.REFUSED:
            hint = "correct [types.map] or [[tables]] columns.type, or drop the columns ([[tables]] columns.drop)"
            yield failed("types", text, hint, names=names)
        elif fit.fidelity is Fidelity.EXACT:
            yield ok("types", text)
        else:
            yield warning("types", text, "", names=names)


def _source_type(native: str, logical: LogicalType) -> str:
    """Return the source's type without sizes and labels."""
    if logical.carried in (Kind.ENUM, Kind.SET, Kind.JSON):
        return str(logical.kind)
    name, bracket, rest = native.partition("(")
    return name + rest.partition(")")[2] if bracket else native


def check_not_carried(context: PreflightContext) -> Iterator[CheckResult]:
    """Report indexes, checks, foreign keys, partitions and defaults that the target will not get: one line per reason."""
    groups: dict[tuple[str, str], list[tuple[TargetTable, str]]] = defaultdict(list)
    for table in context.targets.values():
        for kind, name, why in _not_carried(context, table):
            groups[kind, why].append((table, name))
    for (kind, why), found in groups.items():
        one, many, becomes = NOT_CARRIED[kind]
        names = [f"{table.source}.{name}" for table, name in found]
        if len(found) == 1:
            (table, name), *_ = found
            yield warning(kind, f"{one} {name} will not be {becomes}: {why}", "", table, names)
        else:
            yield warning(kind, f"{len(found)} {many} will not be {becomes}: {why} ({some(names)})", "", names=names)


# check -> one of them, several, what they will not be
NOT_CARRIED = {
    "indexes": ("index", "indexes", "built"),
    "checks": ("check", "checks", "built"),
    "foreign_keys": ("foreign key", "foreign keys", "built"),
    "computed": ("computed column", "computed columns", "made"),
    "defaults": ("the default of", "defaults", "carried over"),
    "partitions": ("partitions by", "partitioned tables", "carried over"),
}


def _not_carried(context: PreflightContext, table: TargetTable) -> Iterator[tuple[str, str, str]]:
    """Check, name, reason."""
    schema = context.tables[table.source]
    for index, wanted in plan_indexes(schema, table):
        if isinstance(wanted, NotCarried):
            yield "indexes", index.name, str(wanted)
    for name, planned in ddl.plan_checks(schema, table, value_rules(context)).items():
        if isinstance(planned, NotCarried):
            yield "checks", name, str(planned)
    for key in schema.foreign_keys:
        try:
            ddl.plan_foreign_key(key, table, context.targets.get)
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


def toml(text: str) -> str:
    """Return a string as the job file has it. https://toml.io/en/v1.0.0#string"""
    return "'" + text + "'" if '"' in text and "'" not in text else json.dumps(text, ensure_ascii=False)
