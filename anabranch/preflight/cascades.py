"""Foreign keys that change rows without the source's log showing it (K1): can apply do what they did?

It can where it knows every row and column that such a key looks at. What does not live here: doing it (apply/).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from anabranch.contracts import ValueRules
from anabranch.errors import AnabranchError
from anabranch.model.checks import CheckResult, CheckVerdict
from anabranch.model.ids import TableId
from anabranch.model.load_groups import closure
from anabranch.model.schema import Action, ForeignKey, TableSchema
from anabranch.rows.computed import refusals
from anabranch.rules.rule_set import RuleSet

CHECK = "job.cascades"
OTHER_ACTION = "declare the key with RESTRICT at the source"


def check_cascades(
    rules: RuleSet, tables: Iterable[TableSchema], values: ValueRules, others: Iterable[TableSchema] = ()
) -> Iterator[CheckResult]:
    """Check foreign keys whose effects the source's log does not show. Also for a single table that is to join the `others`,
    as their targets have them."""
    tables = list(tables)
    left_out = {schema.id: rules.left_out(schema) for schema in (*others, *tables)}
    keys = [(child, key) for child in tables for key in child.foreign_keys if key.changes_rows]
    found = [result for child, key in keys for result in _check(rules, child.id, key, left_out)]
    found += [result for child, key in keys for result in _check_unwritten(rules, child, key, tables)]
    found += [result for child in tables for result in _check_computed(rules, child, values)]
    found += _circles({child.id: child for child, _ in keys})
    yield from found
    if keys and not found:
        yield CheckResult(
            CHECK,
            CheckVerdict.OK,
            f"{len(keys)} foreign keys change rows without a record in the log; apply makes these changes at the target",
        )


def _check(
    rules: RuleSet, child: TableId, key: ForeignKey, left_out: Mapping[TableId, Collection[str]]
) -> Iterator[CheckResult]:
    parent, place = key.parent, _place(key)
    if not rules.includes(parent):
        message = f"{place} changes rows, which the source's log does not show, and the job leaves {parent} out"
        yield _failed(child, message, f"include {parent}, exclude {child}, or {OTHER_ACTION}")
        return
    ends = list(dict.fromkeys((child, parent)))
    filtered = ", ".join(str(table) for table in ends if rules.has_filter(table))
    if filtered:
        message = f"{place} changes rows, which the source's log does not show, and {filtered} has a filter"
        yield _failed(child, message, f"take the filter out, exclude a table, or {OTHER_ACTION}")
    pairs = ((child, key.columns), (parent, key.parent_columns))
    lost = [(t, c) for t, columns in pairs for c in columns if c in left_out.get(t, rules.dropped(t))]
    if lost:
        drops = "the job drops" if all(c in rules.dropped(t) for t, c in lost) else "the target is without"
        names = ", ".join(f"{t}.{c}" for t, c in lost)
        message = f"{place} changes rows, which the source's log does not show, and {drops} {names}"
        yield _failed(child, message, f"replicate the column, exclude the table, or {OTHER_ACTION}")


def _check_unwritten(
    rules: RuleSet, child: TableSchema, key: ForeignKey, tables: list[TableSchema]
) -> Iterator[CheckResult]:
    """Check that the columns of both ends are written: of one that the target computes apply does not know the values."""
    ends = [(schema, key.columns) for schema in tables if schema.id == child.id]
    ends += [(schema, key.parent_columns) for schema in tables if schema.id == key.parent]
    for schema, columns in ends:
        try:
            computed = dict(rules.target_table(schema).computed)
        except AnabranchError:  # said elsewhere
            continue
        if some := ", ".join(f"{schema.id}.{column}" for column in columns if column in computed):
            message = (
                f"{_place(key)} changes rows, which the source's log does not show, and the target computes {some}"
            )
            hint = f"choose a type for the column ([[tables]] columns.type), so that it is written, or {OTHER_ACTION}"
            yield _failed(child.id, message, hint)


def _check_computed(rules: RuleSet, child: TableSchema, values: ValueRules) -> Iterator[CheckResult]:
    """Check columns that the source computes from columns which such a key changes."""
    acting = [
        key for key in child.foreign_keys if key.on_update is not Action.RESTRICT or key.on_delete is Action.SET_NULL
    ]
    changed = {column for key in acting if key.changes_rows for column in key.columns}
    try:
        table = rules.target_table(child)
    except AnabranchError:  # said elsewhere
        return
    for why, hint in refusals(child, table, changed, values):
        message = f"{_place(acting[0])} changes rows, which the source's log does not show, and {why}"
        yield _failed(child.id, message, f"{hint} in the job file, exclude the table, or {OTHER_ACTION}")


def _circles(tables: Mapping[TableId, TableSchema]) -> Iterator[CheckResult]:
    """Refuse tables that remove each other's rows: each would have to be loaded before the other (load/order.py)."""
    above = {t: {k.parent for k in s.foreign_keys if k.on_delete is Action.CASCADE} - {t} for t, s in tables.items()}
    for table in tables:
        if table in closure(above, table):
            others = sorted(str(t) for t in closure(above, table) if table in closure(above, t) and t != table)
            message = (
                f"{table} and {', '.join(others)} remove each other's rows by ON DELETE CASCADE, unseen by the log"
            )
            yield _failed(table, message, f"exclude one of them, or {OTHER_ACTION} in one of them")


def _place(key: ForeignKey) -> str:
    return (
        f"foreign key {key.name} to {key.parent} (ON DELETE {key.on_delete.upper()}, ON UPDATE {key.on_update.upper()})"
    )


def _failed(child: TableId, message: str, hint: str) -> CheckResult:
    return CheckResult(CHECK, CheckVerdict.FAILED, message, hint, str(child))
