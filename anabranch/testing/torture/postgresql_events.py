"""Events of a history on a PostgreSQL source: those of all sources, and its own.

Statements that only MySQL and MariaDB have are left out. What does not live here: how it is said (postgresql_sql.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from anabranch.testing.torture.draft import Draft
from anabranch.testing.torture.events import EVENTS as OF_ALL
from anabranch.testing.torture.events import Event, replace_rows
from anabranch.testing.torture.history import Statement
from anabranch.testing.torture.model import Refused
from anabranch.testing.torture.postgresql_tables import is_late_key, is_late_unique
from anabranch.testing.torture.postgresql_values import LABEL
from anabranch.testing.torture.rows import Row
from anabranch.testing.torture.tables import Table


def empty_tables(d: Draft) -> list[Statement]:
    """TRUNCATE in a transaction: one table and all that refer to it, which are named, or not."""
    table = d.table(lambda t: _may_be_emptied(d, _with_those_below(d, t))) if d.empties else None
    if table is None:
        return []
    parts = tuple(Statement("empty", name) for name in _with_those_below(d, table) if name != table.name)
    return d.take(Statement("empty", table.name, parts=parts, name=d.r.choice(("", "cascade"))))


def _may_be_emptied(d: Draft, names: list[str]) -> bool:
    return len(names) < len(d.schema.tables) and all(d.model.schema[name].may_be_emptied for name in names)


def _with_those_below(d: Draft, table: Table) -> list[str]:
    reached, left = [table.name], [table.name]
    while left:
        below = {child.name for child, _ in d.schema.references(left.pop())} - set(reached)
        reached += sorted(below)
        left += sorted(below)
    return reached


def change_beside_what_is_wide(d: Draft) -> list[Statement]:
    """Change all of a row but the large value that is kept outside of it."""
    table = d.table(lambda t: any(c.of.is_wide for c in t.columns) and bool(d.rows(t)))
    if table is None:
        return []
    names = [c.name for c in table.columns if c.name.startswith("v") and not c.of.is_wide]
    row = d.r.choice(d.rows(table))
    if not names:
        return []
    return d.take(d.update(table, row, **{name: d.edge(table, name) for name in names}))


def move_a_wide_row(d: Draft) -> list[Statement]:
    """Its key changes, its wide value does not."""
    table = d.table(lambda t: any(c.of.is_wide for c in t.columns) and bool(t.key) and bool(d.rows(t)))
    if table is None or any(name in key.columns for key in table.foreign_keys for name in table.key):
        return []
    row, name = d.r.choice(d.rows(table)), d.r.choice(table.key)
    return d.take(d.update(table, row, **{name: d.fresh(table, name)}))


def child_before_its_parent(d: Draft) -> list[Statement]:
    table = d.table(lambda t: any(is_late_key(t, key) and key.parent != t.name for key in t.foreign_keys))
    child = d.row(table) if table else None
    if table is None or child is None:
        return []
    key = d.r.choice([key for key in table.foreign_keys if is_late_key(table, key) and key.parent != table.name])
    above = d.schema[key.parent]
    parent = d.row(above)
    if parent is None:
        return []
    parent |= {name: d.fresh(above, name) for name in key.parent_columns if above.column(name).of.nth}
    child |= dict(zip(key.columns, (parent[name] for name in key.parent_columns), strict=True))
    return _late(d, d.insert(table, [child]), d.insert(above, [parent]))


def _late(d: Draft, *statements: Statement) -> list[Statement]:
    """Return statements that are right at their end alone; the model carries out those that it does not refuse."""
    for statement in statements:
        with suppress(Refused):
            d.model.execute(statement, False)
    return list(statements)


def rotate_late_uniques(d: Draft) -> list[Statement]:
    """Each row takes the value of the next one, without one that is parked: what is checked late is right at the end."""
    found = _late_unique(d, d.r.choice((2, 2, 3)))
    if found is None:
        return []
    table, columns, rows = found
    values = [d.literals(table, row, columns) for row in rows]
    steps = [
        d.update(table, row, **dict(zip(columns, value, strict=True)))
        for row, value in zip(rows, [*values[1:], values[0]], strict=True)
    ]
    name = next(name for name in columns if name.startswith("u"))
    with suppress(Refused):  # the model checks each: there it goes over a parked value
        for step in (d.update(table, rows[0], **{name: d.fresh(table, name)}), *reversed(steps)):
            d.model.execute(step, False)
    return steps


def take_late_unique(d: Draft) -> list[Statement]:
    """A new row takes a value before the row that has it goes, or gives it up."""
    found, new = _late_unique(d, 1), None
    if found is None or (new := d.row(found[0])) is None:
        return []
    table, columns, (row,) = found
    name = next(name for name in columns if name.startswith("u"))
    new |= dict(zip(columns, d.literals(table, row, columns), strict=True))
    gives = d.delete(table, row) if d.r.random() < 0.5 else d.update(table, row, **{name: d.fresh(table, name)})
    takes = d.insert(table, [new])
    _late(d, gives, takes)
    return [takes, gives]


def _late_unique(d: Draft, number: int) -> tuple[Table, tuple[str, ...], list[Row]] | None:
    table = d.table(lambda t: bool(t.key) and any(is_late_unique(t, unique) for unique in t.uniques))
    if table is None:
        return None
    columns = d.r.choice([unique for unique in table.uniques if is_late_unique(table, unique)])
    having = [row for row in d.rows(table) if all(row[table.place(name)] is not None for name in columns)]
    return (table, columns, d.r.sample(having, number)) if len(having) >= number else None


def change_group(d: Draft) -> list[Statement]:
    """Change the partition column of a table without a key, so that a row moves to another partition."""
    table = d.table(lambda t: any(c.name == "g" for c in t.columns) and bool(d.rows(t)))
    if table is None:
        return []
    value = str(d.r.randrange(6)) if d.r.random() < 0.8 else None
    return d.take(d.update(table, d.r.choice(d.rows(table)), g=value))


def add_label(d: Draft) -> list[Statement]:
    """Add a label to the enum, or one that is there already. Rows may take it once it is committed."""
    number, place = len(d.labels), ""
    label = d.r.choice(d.labels) if d.r.random() < 0.15 else f"'{d.r.choice(NAMES)} {number}'"
    if d.r.random() < 0.7:
        place = f"{d.r.choice(('BEFORE', 'AFTER'))} {d.r.choice(d.labels)}"
    if label not in d.labels:
        d.labels.append(label)
    return [Statement("label", name=label, order=place)]


def take_a_label(d: Draft) -> list[Statement]:
    """A row takes the newest one."""
    table = d.table(lambda t: any(c.kind == LABEL for c in t.columns) and bool(d.rows(t)))
    if table is None:
        return []
    (name,) = (c.name for c in table.columns if c.kind == LABEL)
    return d.take(d.update(table, d.r.choice(d.rows(table)), **{name: d.labels[-1]}))


NAMES = ("new", "it''s", "ü \\ %", "low")
OF_LABELS: Mapping[Event, int] = {add_label: 5, take_a_label: 8}
_NOT = (replace_rows,)
EVENTS: Mapping[Event, int] = {
    **{event: weight for event, weight in OF_ALL.items() if event not in _NOT},
    empty_tables: 2,
    change_beside_what_is_wide: 6,
    move_a_wide_row: 3,
    child_before_its_parent: 4,
    rotate_late_uniques: 6,
    take_late_unique: 4,
    change_group: 4,
}
