"""Events of a history: each gives the statements of one thing that hurts a replication.

Events look at a model of the tables to find rows and values to meet, in the order in which transactions are drawn. What the
sources' sessions then find differs where they overlap; statements that fail belong to a history.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal

from anabranch.testing.torture.draft import Draft, is_foreign
from anabranch.testing.torture.history import Assigned, Choice, Condition, Plus, Statement
from anabranch.testing.torture.rows import Row
from anabranch.testing.torture.tables import Table
from anabranch.testing.torture.values import Literal

MANY = 45  # rows from which a table is rather emptied than filled
SHIFT = 1000  # how far keys are shifted, at most

Event = Callable[[Draft], Sequence[Statement]]


def new_rows(d: Draft) -> list[Statement]:
    table = d.table(lambda t: len(d.rows(t)) < MANY)
    rows = [row for _ in range(d.r.choice((1, 1, 2, 4))) if table and (row := d.row(table))]
    return d.take(d.insert(table, rows)) if table and rows else []


def change_values(d: Draft) -> list[Statement]:
    """Payload of a row, one or several columns; the same value again, too."""
    table = d.table()
    found = d.some_rows(table, 1) if table else None
    if not table or not found:
        return []
    names = {d.payload(table) for _ in range(d.r.choice((1, 1, 2)))}
    return d.take(d.update(table, found[0], **{name: d.edge(table, name) for name in sorted(names)}))


def change_many(d: Draft) -> list[Statement]:
    table = d.table()
    if not table or not d.rows(table):
        return []
    name, where = d.payload(table), _range(d, table)
    return d.take(Statement("update", table.name, assigned=((name, d.edge(table, name)),), where=where))


def remove(d: Draft) -> list[Statement]:
    table = d.table(lambda t: len(d.rows(t)) > 3)
    found = d.some_rows(table, d.r.choice((1, 1, 2))) if table else None
    return d.take(*(d.delete(table, row) for row in found)) if table and found else []


def remove_many(d: Draft) -> list[Statement]:
    table = d.table(lambda t: len(d.rows(t)) > 12)
    return d.take(Statement("delete", table.name, where=_range(d, table))) if table else []


def _range(d: Draft, table: Table) -> tuple[Condition, ...]:
    """Some rows of a table by numbers."""
    names = [n for n in (*table.key, "g") if any(c.name == n and c.of.form == "number" for c in table.columns)]
    place = table.place(names[0]) if names else 0
    numbers = sorted({int(Decimal(row[place] or "0")) for row in d.rows(table)}) if names else []
    if not numbers:
        return d.where(table, d.r.choice(d.rows(table)))
    low = d.r.randrange(len(numbers))
    high = min(len(numbers) - 1, low + d.r.randrange(6))
    return (Condition(names[0], "between", (str(numbers[low]), str(numbers[high]))),)


# --- unique values and keys that move ------------------------------------------------------------------------------------


def _unique(d: Draft, number: int) -> tuple[Table, tuple[str, ...], list[Row]] | None:
    """A keyed table, one of its other unique keys, and rows that have values there."""
    table = d.table(lambda t: bool(t.key and t.uniques))
    if table is None:
        return None
    columns = d.r.choice(table.uniques)
    having = [row for row in d.rows(table) if all(row[table.place(name)] is not None for name in columns)]
    return (table, columns, d.r.sample(having, number)) if len(having) >= number else None


def _parked(d: Draft, table: Table, columns: Sequence[str]) -> dict[str, Assigned]:
    """Values that are in nobody's way."""
    own = [name for name in columns if not name.startswith("p")]
    name = d.r.choice([n for n in own if n != "g"])
    return {name: None if table.column(name).nullable and d.r.random() < 0.6 else d.fresh(table, name)}


def rotate_uniques(d: Draft) -> list[Statement]:
    """A swap of two, or a rotation of more, over a parked one."""
    found = _unique(d, d.r.choice((2, 2, 2, 3, 4)))
    if found is None:
        return []
    table, columns, rows = found
    values = [d.literals(table, row, columns) for row in rows]
    steps = [d.update(table, rows[0], **_parked(d, table, columns))]
    for row, value in zip(rows[1:], values, strict=False):
        steps.append(d.update(table, row, **dict(zip(columns, value, strict=True))))
    # In another order every step but the first and the last would meet a value that is still there.
    steps[1:] = list(reversed(steps[1:])) if d.r.random() < 0.1 else steps[1:]
    steps.append(d.update(table, rows[0], **dict(zip(columns, values[-1], strict=True))))
    return d.take(*steps)


def hand_over_unique(d: Draft) -> list[Statement]:
    """The value of a row that goes, to a row that stays, or to a new one with another key."""
    found = _unique(d, 2)
    if found is None:
        return []
    table, columns, (gone, stays) = found
    value = dict(zip(columns, d.literals(table, gone, columns), strict=True))
    if d.r.random() < 0.5:
        return d.take(d.delete(table, gone), d.update(table, stays, **value))
    new = d.row(table)
    return d.take(d.delete(table, gone), *([d.insert(table, [new | value])] if new else []))


def free_and_take_unique(d: Draft) -> list[Statement]:
    """A row gives its value up, a new one takes it."""
    found, new = _unique(d, 1), None
    if found is None:
        return []
    table, columns, (row,) = found
    value, new = dict(zip(columns, d.literals(table, row, columns), strict=True)), d.row(table)
    return d.take(
        d.update(table, row, **_parked(d, table, columns)), *([d.insert(table, [new | value])] if new else [])
    )


def chain_in_one_statement(d: Draft) -> list[Statement]:
    """Each row takes the value of the one before it, which the first gives up; a swap so is what the source refuses."""
    found = _unique(d, d.r.choice((2, 3)))
    if found is None or len(found[1]) > 1:
        return []
    table, (column,), rows = found
    if len(table.key) > 1 or table.column(table.key[0]).of.form != "number":
        return []
    keys = [d.literals(table, row, table.key)[0] or "" for row in rows]
    order = sorted(range(len(rows)), key=lambda i: float(keys[i]))
    keys, rows = [keys[i] for i in order], [rows[i] for i in order]
    values = [d.literals(table, row, (column,))[0] for row in rows]
    is_swap = d.r.random() < 0.25
    first = values[-1] if is_swap else d.fresh(table, column)
    choice = Choice(table.key[0], tuple(zip(keys, [first, *values[:-1]], strict=True)))
    where = (Condition(table.key[0], "in", tuple(keys)),)
    statement = Statement("update", table.name, assigned=((column, choice),), where=where, order=table.key[0])
    return [statement] if is_swap else d.take(statement)


def shift_keys(d: Draft) -> list[Statement]:
    """`SET id = id + 1` over neighbours, in the order in which it works, or seldom in the other."""
    table = d.table(lambda t: d.may_hand_on_keys(t) and t.column(t.key[0]).of.form == "number")
    if table is None or not d.rows(table):
        return []
    name, up = table.key[0], d.r.random() < 0.6
    where = _range(d, table)
    if (
        where[0].operator != "between"
        or abs(float(where[0].values[1] or 0)) > 20_000
        or float(where[0].values[0] or 0) < 1
    ):
        return []
    step = Plus(d.r.choice((1, 1, 2, SHIFT)) * (1 if up else -1))
    if "unsigned" in table.column(name).kind and float(where[0].values[0] or 0) + step.number < 0:
        return []
    backwards = up if d.r.random() < 0.9 else not up
    order = f"{name} DESC" if backwards else name
    return d.take(Statement("update", table.name, assigned=((name, step),), where=where, order=order))


def swap_keys(d: Draft) -> list[Statement]:
    """Two or three rows exchange their primary keys over a parked one."""
    table = d.table(d.may_hand_on_keys)
    rows = d.some_rows(table, d.r.choice((2, 2, 3))) if table else None
    if not table or not rows:
        return []
    keys = [dict(zip(table.key, d.literals(table, row, table.key), strict=True)) for row in rows]
    parked: dict[str, Literal] = {name: d.fresh(table, name) for name in table.key}
    here, there = [keys[0], *keys[1:], parked], [parked, *keys[:-1], keys[-1]]
    return d.take(*(_moved(table, a, b) for a, b in zip(here, there, strict=True)))


def _moved(table: Table, here: dict[str, Literal], there: dict[str, Literal]) -> Statement:
    where = tuple(Condition(name, "<=>", (value,)) for name, value in here.items())
    return Statement("update", table.name, assigned=tuple(there.items()), where=where)


def move_key(d: Draft) -> list[Statement]:
    """A key of its own for a row, or another case of the same; its children follow or hold it."""
    table = d.table(lambda t: bool(t.key) and not any(is_foreign(t, name) for name in t.key))
    rows = d.some_rows(table, 1) if table else None
    if not table or not rows:
        return []
    name = d.r.choice(table.key)
    (old,) = d.literals(table, rows[0], (name,))
    is_caseless = table.column(name).of.ignores_case and d.r.random() < 0.5
    new = (old or "").swapcase() if is_caseless else d.fresh(table, name)
    return d.take(d.update(table, rows[0], **{name: new}))


def again_under_another_key(d: Draft) -> list[Statement]:
    """Deleted and inserted: the same key, or the same unique values under another key."""
    table = d.table(lambda t: bool(t.key))
    rows, new = d.some_rows(table, 1) if table else None, d.row(table) if table else None
    if not table or not rows or new is None:
        return []
    kept = [n for unique in table.uniques for n in unique] if table.uniques and d.r.random() < 0.5 else table.key
    back = new | dict(zip(kept, d.literals(table, rows[0], kept), strict=True))
    return d.take(d.delete(table, rows[0]), d.insert(table, [back]))


def many_changes_of_one(d: Draft) -> list[Statement]:
    """One key over and over; sometimes it comes and goes within the transaction."""
    table = d.table(lambda t: bool(t.key))
    new = d.row(table) if table else None
    if not table or new is None:
        return []
    where = tuple(Condition(name, "<=>", (new[name],)) for name in table.key)
    steps = [d.insert(table, [new])]
    for _ in range(d.r.randint(1, 5)):
        name = d.payload(table)
        steps.append(Statement("update", table.name, assigned=((name, d.edge(table, name)),), where=where))
    if d.r.random() < 0.6:
        steps.append(Statement("delete", table.name, where=where))
        if d.r.random() < 0.4:
            steps.append(d.insert(table, [new]))
    return d.take(*steps)


# --- statements of MySQL's own ---------------------------------------------------------------------------------------------


def _meeting(d: Draft, table: Table) -> dict[str, Literal] | None:
    """A new row that has some unique values of rows that are there."""
    new = d.row(table)
    for unique in table.unique_keys if new else ():
        rows = d.some_rows(table, 1)
        if rows and new and d.r.random() < 0.6:
            new |= dict(zip(unique, d.literals(table, rows[0], unique), strict=True))
    return new


def _meeting_one(d: Draft, table: Table) -> dict[str, Literal] | None:
    """A new row that has one unique value of a row that is there. Where it had two, of two rows, the server would change the
    one that it meets first; and who removes or adds that one meanwhile is held by no lock (torture seed 228)."""
    new, rows = d.row(table), d.some_rows(table, 1)
    if new is None:
        return None
    referring = {name for key in table.foreign_keys for name in key.columns}
    for name in dict.fromkeys(name for unique in table.unique_keys for name in unique if name not in referring):
        if new[name] is not None:
            new[name] = d.fresh(table, name)
    if rows and not any(referring.issuperset(unique) for unique in table.unique_keys):
        unique = d.r.choice(table.unique_keys)
        new |= dict(zip(unique, d.literals(table, rows[0], unique), strict=True))
    return new


def upsert(d: Draft) -> list[Statement]:
    table = d.table(lambda t: bool(t.unique_keys))
    rows = [row for _ in range(d.r.choice((1, 2, 3))) if table and (row := _meeting_one(d, table))]
    if not table or not rows:
        return []
    name = d.payload(table)
    return d.take(d.insert(table, rows, "upsert", **{name: d.edge(table, name)}))


def replace_rows(d: Draft) -> list[Statement]:
    table = d.table(lambda t: bool(t.unique_keys))
    rows = [row for _ in range(d.r.choice((1, 1, 2))) if table and (row := _meeting(d, table))]
    return d.take(d.insert(table, rows, "replace")) if table and rows else []


def insert_ignore(d: Draft) -> list[Statement]:
    table = d.table(lambda t: bool(t.unique_keys) and len(d.rows(t)) < MANY)
    rows = [row for _ in range(d.r.choice((2, 3))) if table and (row := _meeting(d, table))]
    return d.take(d.insert(table, rows, "ignore")) if table and rows else []


def two_tables(d: Draft) -> list[Statement]:
    """One statement about two tables."""
    keyed = [table for table in d.schema.tables if table.key and d.rows(table)]
    if len(keyed) < 2:
        return []
    parts, does = [], d.r.choice(("update", "update", "delete"))
    for table in d.r.sample(keyed, 2):
        row, name = d.r.choice(d.rows(table)), d.payload(table)
        parts.append(d.delete(table, row) if does == "delete" else d.update(table, row, **{name: d.edge(table, name)}))
    return d.take(Statement("both", parts=tuple(parts)))


def fail_half_way(d: Draft) -> list[Statement]:
    """Rows of which the last meets one that is there: what was done of the statement is taken back."""
    table = d.table(lambda t: bool(t.key))
    rows = d.some_rows(table, 1) if table else None
    new = [row for _ in range(3) if table and (row := d.row(table))]
    if not table or not rows or len(new) < 3:
        return []
    new[2] |= dict(zip(table.key, d.literals(table, rows[0], table.key), strict=True))
    return [d.insert(table, new)]


# --- parents, and tables without a key ---------------------------------------------------------------------------------------


def _parent_row(d: Draft) -> tuple[Table, Row] | None:
    table = d.table(lambda t: any(True for _ in d.schema.references(t.name)))
    rows = d.some_rows(table, 1) if table else None
    return (table, rows[0]) if table and rows else None


def parent_goes(d: Draft) -> list[Statement]:
    """Its children go, or lose it, or hold it; sometimes it comes back in the same transaction, or its children come."""
    found = _parent_row(d)
    if found is None:
        return []
    table, row = found
    steps = [d.delete(table, row)]
    if d.r.random() < 0.3 and (new := d.row(table)):
        back = new | dict(zip(table.key, d.literals(table, row, table.key), strict=True))
        steps.append(d.insert(table, [back]))
    return d.take(*steps)


def parent_moves(d: Draft) -> list[Statement]:
    found = _parent_row(d)
    if found is None or any(is_foreign(found[0], name) for name in found[0].key):
        return []
    table, row = found
    name = d.r.choice(table.key)
    there = d.update(table, row, **{name: d.fresh(table, name)})
    if d.r.random() < 0.3 and (new := d.row(table)):  # another row takes over the key that it leaves
        taken = new | dict(zip(table.key, d.literals(table, row, table.key), strict=True))
        return d.take(there, d.insert(table, [taken]))
    return d.take(there)


def new_parent_for_a_child(d: Draft) -> list[Statement]:
    table = d.table(lambda t: any(not set(k.columns) & set(t.key) for k in t.foreign_keys))
    rows = d.some_rows(table, 1) if table else None
    if not table or not rows:
        return []
    key = d.r.choice([k for k in table.foreign_keys if not set(k.columns) & set(table.key)])
    found = d.parent(table, key)
    return d.take(d.update(table, rows[0], **dict(zip(key.columns, found, strict=True)))) if found else []


def equal_rows(d: Draft) -> list[Statement]:
    """The same row several times where there is no key."""
    table = d.table(lambda t: not t.unique_keys and len(d.rows(t)) < MANY)
    new = d.row(table) if table else None
    if not table or new is None:
        return []
    rows = d.some_rows(table, 1)
    if rows and d.r.random() < 0.5:
        names = [c.name for c in table.given]
        new = dict(zip(names, d.literals(table, rows[0], names), strict=True))
    return d.take(d.insert(table, [new] * d.r.randint(1, 3)))


def some_of_equal_rows(d: Draft) -> list[Statement]:
    """Delete or change one or two of several equal rows."""
    table = d.table(lambda t: not t.key)
    rows = d.some_rows(table, 1) if table else None
    if not table or not rows:
        return []
    limit = d.r.choice((1, 1, 2)) if all(c.of.is_comparable for c in table.given) else None
    where, name = d.where(table, rows[0]), d.payload(table)
    if not where:
        return []
    if d.r.random() < 0.5:
        return d.take(Statement("delete", table.name, where=where, limit=limit))
    return d.take(Statement("update", table.name, assigned=((name, d.edge(table, name)),), where=where, limit=limit))


EVENTS: dict[Event, int] = {
    new_rows: 10, change_values: 10, change_many: 3, remove: 6, remove_many: 1,
    rotate_uniques: 9, hand_over_unique: 5, free_and_take_unique: 4, chain_in_one_statement: 4,
    shift_keys: 4, swap_keys: 5, move_key: 4, again_under_another_key: 4, many_changes_of_one: 4,
    upsert: 4, replace_rows: 4, insert_ignore: 3, two_tables: 3, fail_half_way: 2,
    parent_goes: 5, parent_moves: 5, new_parent_for_a_child: 3, equal_rows: 5, some_of_equal_rows: 5,
}  # fmt: skip
