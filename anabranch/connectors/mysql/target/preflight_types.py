"""Checks of types, and of what the target will not get: each with its reason, in one line per reason."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

from anabranch.connectors.mysql.target import choices, ddl
from anabranch.connectors.mysql.target.columns import made_columns
from anabranch.connectors.mysql.target.indexes import plan_indexes
from anabranch.connectors.mysql.target.names import NotMade, target_columns
from anabranch.connectors.mysql.target.planned import plan_checks, plan_foreign_key, why_looser
from anabranch.connectors.mysql.target.preflight_facts import Live
from anabranch.connectors.mysql.target.words import bare
from anabranch.connectors.sql.findings import (
    not_carried,
    source_type,
    type_findings,
    value_rules,
    warning,
)
from anabranch.errors import TargetError
from anabranch.model.checks import CheckResult
from anabranch.model.datatype import Fidelity, Fit
from anabranch.rows import zero_dates
from anabranch.rows.net import TargetTable


def check_types(live: Live) -> Iterator[CheckResult]:
    """Report one line per target type and reason that is not exact, with its columns, and one line for all others."""
    exact = 0
    groups: dict[Fit, list[tuple[str, str, str]]] = defaultdict(list)
    for table in live.context.targets.values():
        schema = live.context.tables[table.source]
        for source, target in target_columns(table).items():
            logical, fit = table.type_of(target), _fit(live, table, source, target)
            if fit.fidelity is Fidelity.EXACT and not logical.target:
                exact += 1
                continue
            column = (source_type(schema.column(source).native, logical), fit.native, f"{table.source}.{target}")
            groups[replace(fit, native=bare(fit.native))].append(column)
    yield from type_findings(exact, groups)


def _fit(live: Live, table: TargetTable, source: str, target: str) -> Fit:
    rules, schema, logical = value_rules(live.context), live.context.tables[table.source], table.type_of(target)
    if logical.carried in zero_dates.KINDS:
        rules = replace(rules, zero_date=zero_dates.choice(rules, schema, source))
    fit = live.types.column_fit(schema.column(source), logical, rules)
    if not live.release.has_type(name := bare(fit.native)):
        return Fit(fit.native, Fidelity.REFUSED, f"this release of the target has no {name}")
    if target in table.key and logical.target and not choices.may_be_key(logical, live.family):
        reason = f"a key column cannot become {logical.target}: its values print or compare otherwise"
        return Fit(fit.native, Fidelity.REFUSED, reason)
    return fit


def check_not_carried(live: Live) -> Iterator[CheckResult]:
    """Report indexes, checks and foreign keys that the target will not get, one line per reason; and what else is lost."""
    groups: dict[tuple[str, str], list[tuple[TargetTable, str]]] = defaultdict(list)
    for table in live.context.targets.values():
        try:
            for kind, name, why in _not_carried(live, table):
                groups[kind, why].append((table, name))
            schema = live.context.tables[table.source]
            for text in ddl.left_out(schema, table, value_rules(live.context), live.release):
                yield warning("definition", f"not carried over: {text}", "", table)
            for text in _looser(live, table):
                yield warning("foreign_keys", text, "", table)
        except TargetError:
            continue  # a type that is refused: check_types says so
    yield from not_carried(groups)


def _not_carried(live: Live, table: TargetTable) -> Iterator[tuple[str, str, str]]:
    """Yield check, name, reason."""
    schema, rules = live.context.tables[table.source], value_rules(live.context)
    columns = made_columns(schema, table, rules, live.release)
    for index, wanted in plan_indexes(schema, table, columns, live.release):
        if isinstance(wanted, NotMade):
            yield "indexes", index.name, str(wanted)
    for name, planned in plan_checks(schema, table, rules, live.release).items():
        if isinstance(planned, NotMade):
            yield "checks", name, str(planned)
    for key in schema.foreign_keys:
        try:
            plan_foreign_key(key, table, live.context.targets.get)
        except NotMade as why:
            yield "foreign_keys", key.name, str(why)


def _looser(live: Live, table: TargetTable) -> Iterator[str]:
    """Yield the foreign keys that are built, and take more here than at the source."""
    schema = live.context.tables[table.source]
    for key in schema.foreign_keys:
        if looser := why_looser(key, schema):
            with suppress(NotMade):  # one that is not built takes all, which is said already
                plan_foreign_key(key, table, live.context.targets.get)
                yield f"foreign key {key.name} is built otherwise: {looser}"
