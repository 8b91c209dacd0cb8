"""Changes of rows in a table of the twin, with what contradicts them.

What does not live here: epochs and their order (apply.py), what a table holds (database.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa

from anabranch.connectors.memory.database import Relation, Texts
from anabranch.contracts import Conflict
from anabranch.rows.lines import texts
from anabranch.rows.net import TableNet, TargetTable, Updates


def rows_of(table: TargetTable, rows: Any) -> Iterator[dict[str, str | None]]:
    """Yield rows of an Arrow table as text forms by column; none for None."""
    return plain_rows(table, rows.column_names if rows is not None else (), rows)


def plain_rows(table: TargetTable, names: Sequence[str], rows: Any) -> Iterator[dict[str, str | None]]:
    if rows is not None and rows.num_rows:
        columns = [texts(table.type_of(name), rows.column(name)).to_pylist() for name in names]
        yield from (dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True))


def remove(table: TargetTable, relation: Relation, values: Texts, checked: bool) -> bool:
    place = relation.find(values)
    if place is not None:
        del relation.rows[place]
    elif checked:
        raise Conflict(table.source, "delete: the row is not there", _named(table, values))
    return place is not None


def refuse_newer(net: TableNet, relation: Relation) -> None:
    parts = [(net.deletes, net.ages), *((one.old_keys, one.ages) for one in net.updates)]
    for rows, ages in parts if net.newest_by else ():
        age_texts = plain_rows(
            net.table, [net.newest_by], pa.table({net.newest_by: ages}) if ages is not None else None
        )
        for key, age in zip(rows_of(net.table, rows), age_texts, strict=True):
            place = relation.find(key)
            there = relation.texts(relation.rows[place])[net.newest_by] if place is not None else None
            if is_later(there, age[net.newest_by]):
                raise Conflict(
                    net.table.source, f"a row of the target is newer by {net.newest_by}", _named(net.table, key)
                )


def is_later(there: str | None, value: str | None, or_equal: bool = False) -> bool:
    """Compare by number where both are numbers, else by text, which is right for dates and times of one length."""
    if there is None or value is None:
        return there is not None
    try:
        one, other = Decimal(there), Decimal(value)
        return one >= other if or_equal else one > other
    except InvalidOperation:
        return there >= value if or_equal else there > value


def insert(table: TargetTable, relation: Relation, values: Texts, checked: bool) -> None:
    place = relation.find({name: values[name] for name in table.key}) if table.key else None
    if place is not None and checked:
        raise Conflict(table.source, "insert: the key is there already", _named(table, values))
    kept = relation.texts(relation.rows.pop(place)) if place is not None else {}
    put(table, relation, {**kept, **values})


def put(table: TargetTable, relation: Relation, values: Texts) -> None:
    """Put a row at a key that is free."""
    if not all(check(values) for check in relation.checks):
        raise Conflict(table.source, "a check is broken", _named(table, values))
    taken = relation.meets(values)
    if taken is not None:
        raise Conflict(table.source, f"the unique key ({', '.join(taken)}) is there already", _named(table, values))
    relation.put(relation.row(values))


def exchange(table: TargetTable, relation: Relation, contending: Sequence[Updates]) -> None:
    """Take every row out before the first comes back, so that keys and unique values may be handed on."""
    pairs = [
        pair
        for updates in contending
        for pair in zip(rows_of(table, updates.old_keys), rows_of(table, updates.values), strict=True)
    ]
    taken = [(_take(table, relation, old), new) for old, new in pairs]
    for before, new in taken:
        insert(table, relation, {**before, **new}, True)


def update(table: TargetTable, relation: Relation, updates: Updates, checked: bool) -> list[dict[str, str | None]]:
    """Update rows. Returns the keys of missing ones."""
    pairs = zip(rows_of(table, updates.old_keys), rows_of(table, updates.values), strict=True)
    found = [(old, new, change_row(table, relation, old, new, checked)) for old, new in pairs]
    return [{name: {**old, **new}[name] for name in table.key} for old, new, was_there in found if not was_there]


def _take(table: TargetTable, relation: Relation, key: Texts) -> dict[str, str | None]:
    place = relation.find(key)
    if place is None:
        raise Conflict(table.source, "update: the row is not there", _named(table, key))
    return relation.texts(relation.rows.pop(place))


def change_row(table: TargetTable, relation: Relation, old: Texts, new: Texts, checked: bool) -> bool:
    """Set values in one row. Not checked, it may be at its new place already (K3): then the old one goes."""
    place, arrived = relation.find(old), None
    if table.key and any(new.get(name, old[name]) != old[name] for name in table.key):
        arrived = relation.find({name: new.get(name, old[name]) for name in table.key})
        if arrived is not None and checked:
            raise Conflict(table.source, "update: the new key is there already", _named(table, old))
    if place is None and arrived is None:
        if checked:
            raise Conflict(table.source, "update: the row is not there", _named(table, old))
        return False
    before = relation.rows.pop(place) if place is not None else None
    if arrived is not None:
        before = relation.rows.pop(arrived)
    assert before is not None
    put(table, relation, {**relation.texts(before), **new})
    return True


def merge_multiset(net: TableNet, relation: Relation) -> None:
    if net.multiset is None:
        return
    *places, count = range(net.multiset.num_columns)
    deltas, images = net.multiset.column(count).to_pylist(), net.multiset.select(places)
    rows = list(zip(plain_rows(net.table, images.column_names, images), deltas, strict=True))
    for values, delta in rows:
        for _ in range(-delta):
            remove(net.table, relation, values, True)
    for values, delta in rows:
        for _ in range(delta):
            put(net.table, relation, values)


def _named(table: TargetTable, values: Texts) -> dict[str, str | None]:
    return {name: values.get(name) for name in table.key}
