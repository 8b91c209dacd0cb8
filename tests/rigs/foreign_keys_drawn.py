"""Histories of foreign keys, drawn: tables are small and keys of several columns are shared, so that rows hang on each other in
many ways at once."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from anabranch.model.schema import ForeignKey, TableSchema
from rigs.foreign_keys import CASCADE, RESTRICT, SET_NULL, Change, Refused, Row, Source, do, foreign_key, table


def known_shapes(pick: Random) -> list[TableSchema]:
    """Shapes in which something went wrong once: a parent's key in its children's, two ways to one table, columns of two
    keys, keys that are cleared and referred to, a key that moves in part."""

    def follows(columns: str, parent: str, to: str = "") -> ForeignKey:
        return foreign_key(f"{columns}_{parent}", columns, parent, to or columns, CASCADE, CASCADE)

    def acts(columns: str, parent: str, to: str = "") -> ForeignKey:
        does = [pick.choice([CASCADE, SET_NULL]) for _ in range(2)]
        return foreign_key(f"{columns}_{parent}", columns, parent, to or columns, *does)

    top, wide = table("top", "a", "a"), table("top", "a b", "a b")
    chain = table("middle", "a n", "a n", keys=[follows("a", "top")])
    shapes = (
        [top, chain, table("low", "a n", pick.choice(["a n", ""]), keys=[follows("a n", "middle")])],
        [top, chain, table("low", "id a n", "id", keys=[acts("a n", "middle")])],
        [
            top,
            table("both", "a b", "a b", keys=[follows("a", "top"), follows("b", "top", "a")]),
            table("low", "id a b", "id", keys=[acts("a b", "both")]),
        ],
        [
            top,
            chain,
            table("right", "a m", "a m", keys=[follows("a", "top")]),
            table("low", "id a n m", "id", keys=[acts("a n", "middle"), acts("a m", "right")]),
        ],
        [
            top,
            table("other", "b", "b"),
            table("low", "id x", "id", keys=[acts("x", "top", "a"), acts("x", "other", "b")]),
        ],
        [
            top,
            table("unit", "id u", "id", ["u"], [acts("u", "top", "a")]),
            table("low", "id x", "id", keys=[acts("x", "unit", "u")]),
        ],
        [
            wide,
            table("here", "a id b", "a id", keys=[follows("a b", "top")]),
            table("low", "id a h", "id", keys=[acts("a h", "here", "a id")]),
        ],
    )
    return pick.choice(shapes)


def any_shape(pick: Random) -> list[TableSchema]:
    """Two to five tables."""
    made: list[TableSchema] = []
    for place in range(pick.randint(2, 5)):
        made.append(_any_table(f"t{place}", made, pick))
    return made


def _any_table(name: str, before: Sequence[TableSchema], pick: Random) -> TableSchema:
    """Its keys lead to the primary or a unique key of one before it, or to its own."""
    columns = list("abc"[: pick.choice([1, 2, 2, 3])])
    primary = columns[: pick.choice([1, 1, 2])] if pick.random() < 0.85 or not before else []
    free = [column for column in columns if column not in primary]
    unique = [pick.choice(free)] if free and pick.random() < 0.3 else []
    keys: list[ForeignKey] = []
    for number in range(pick.choice([1, 1, 2, 2, 3]) if before else 0):
        own = table(name, " ".join(columns), " ".join(primary))
        parent = own if primary and pick.random() < 0.1 else pick.choice(before[-2:] if pick.random() < 0.7 else before)
        targets = [to for to in (parent.primary_key, *(index.columns for index in parent.indexes)) if to]
        to = pick.choice(targets) if targets else ()
        if 0 < len(to) <= len(columns):
            ours = pick.sample(columns, len(to)) if pick.random() < 0.5 else columns[: len(to)]
            may_be_null = set(ours).isdisjoint(primary)
            actions = [CASCADE, CASCADE, CASCADE, RESTRICT] + [SET_NULL] * (2 * may_be_null)
            does = [pick.choice(actions) for _ in range(2)]
            keys.append(foreign_key(str(number), " ".join(ours), parent.id.name, " ".join(to), *does))
    different = {(key.columns, key.parent): key for key in keys}
    return table(name, " ".join(columns), " ".join(primary), unique, list(different.values()))


def _attempt(source: Source, change: Change) -> bool:
    before = {name: [dict(row) for row in rows] for name, rows in source.rows.items()}
    logged = len(source.log)
    try:
        do(source, change)
    except Refused:
        source.rows, source.log = before, source.log[:logged]
        return False
    return True


def drawn(seed: int) -> tuple[Sequence[TableSchema], list[Change], list[Change]]:
    """Tables, the changes that fill them, the changes that are applied."""
    pick = Random(seed)
    schemas = (any_shape if pick.random() < 0.3 else known_shapes)(pick)
    source, highest = Source(schemas), pick.choice([3, 4])
    start = [change for change in (_insert(source, pick, highest) for _ in range(60)) if _attempt(source, change)]
    length, changes = pick.choice([3, 4, 6, 12]), list[Change]()
    for _ in range(length * 8):
        change = _change(source, pick, highest)
        if len(changes) < length and change is not None and _attempt(source, change):
            changes.append(change)
    return schemas, start, changes


def _insert(source: Source, pick: Random, highest: int) -> Change:
    one = pick.choice(source.schemas)
    return (one.id.name, "i", _row(source, one, pick, highest))


def _change(source: Source, pick: Random, highest: int) -> Change | None:
    """Mostly of rows that others refer to."""
    one, what = pick.choice(source.schemas), pick.random()
    name, rows = one.id.name, source.rows[one.id.name]
    if what < 0.2 or not rows:
        return (name, "i", _row(source, one, pick, highest))
    old = dict(pick.choice(rows))
    if what < 0.4:
        return (name, "d", old)
    is_parent = any(key.parent.name == name for child in source.schemas for key in child.foreign_keys)
    columns = list(one.primary_key) if is_parent and pick.random() < 0.8 else []
    columns = columns or [column.name for column in one.columns]
    new = old | {c: _value(one, c, pick, highest) for c in pick.sample(columns, pick.randint(1, len(columns)))}
    return (name, "u", old, new) if new != old else None


def _row(source: Source, one: TableSchema, pick: Random, highest: int) -> Row:
    """Mostly below parents that there are."""
    row = {c.name: _value(one, c.name, pick, highest) for c in one.columns}
    for key in one.foreign_keys:
        parents = source.rows[key.parent.name]
        if parents and pick.random() < 0.9:
            parent = pick.choice(parents)
            row |= {ours: parent[theirs] for ours, theirs in zip(key.columns, key.parent_columns, strict=True)}
    return row


def _value(one: TableSchema, column: str, pick: Random, highest: int) -> int | None:
    return None if column not in one.primary_key and pick.random() < 0.15 else pick.randint(1, highest)
