"""Tables drawn by seed: with and without keys, with up to three other unique keys, with foreign keys in every direction.

What a job refuses to carry is not drawn: tables that remove each other's rows by ON DELETE CASCADE, foreign keys that change
rows over columns in which the source takes different texts for equal, and, for a target that enforces keys, rows that move by
two keys at once and are followed (docs/explanation/correctness.md, K1).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from anabranch.testing.databases import Database
from anabranch.testing.torture.sources import Kinds, source_family
from anabranch.testing.torture.tables import CASCADE, RESTRICT, SET_NULL, Column, ForeignKey, Schema, Table
from anabranch.testing.torture.targets import family_at
from anabranch.testing.torture.values import Kind, Version

ACTIONS = (RESTRICT, CASCADE, SET_NULL)


def draw_schema(
    r: random.Random, family: str, version: Version, decoder: str = "", target: Database | None = None
) -> Schema:
    """Three to five tables; at least one has a key, one or more foreign keys lead from or to it. `target`: where their values
    have to come exactly; None: at a PostgreSQL, which takes them all."""
    known = known_kinds(family, version, decoder, target)
    tables = [_draw_table(r, f"t{i}", known, keyed=i == 1) for i in range(1, r.randint(3, 5) + 1)]
    for place in range(len(tables)):
        for _ in range(r.choice((0, 1, 1, 1, 2))):
            _refer(r, tables, place)
    return Schema(tuple(_with_uniques(r, table, known) for table in tables))


def known_kinds(family: str, version: Version, decoder: str = "", target: Database | None = None) -> Kinds:
    """Return the kinds of columns that come exactly; as draw_schema has it."""
    known = source_family(family).kinds(version, decoder)
    return family_at(target).kinds(known, family, target) if target else known


def with_one_way(schema: Schema) -> Schema:
    """The same, where of the tables that others follow each moves by one foreign key at most."""
    followed = {key.parent for table in schema.tables for key in table.foreign_keys if key.on_update != RESTRICT}
    return Schema(tuple(_moved_once(table) if table.name in followed else table for table in schema.tables))


def draw_table(r: random.Random, name: str, known: Kinds) -> Table:
    """Draw a table that no foreign key connects with others."""
    return _with_uniques(r, _draw_table(r, name, known, keyed=r.random() < 0.7), known)


def without_actions(schema: Schema) -> Schema:
    """The same, where foreign keys change no rows."""
    tables = (
        replace(t, foreign_keys=tuple(replace(key, on_delete=RESTRICT, on_update=RESTRICT) for key in t.foreign_keys))
        for t in schema.tables
    )
    return Schema(tuple(tables))


def may_be_written_to(schema: Schema) -> list[Table]:
    """Tables to whose target somebody else may write (intruder.py)."""
    return [
        table
        for table in schema.tables
        if _is_told_whole(table) and not table.foreign_keys and not any(schema.references(table.name))
    ]


def with_one_apart(schema: Schema) -> Schema:
    """The same, with a table that no foreign key connects with others, if one may be."""
    keyed = [t for t in schema.tables if _is_told_whole(t)]
    if not keyed or may_be_written_to(schema):
        return schema
    name = keyed[0].name
    tables = (
        replace(t, foreign_keys=tuple(key for key in t.foreign_keys if name not in (t.name, key.parent)))
        for t in schema.tables
    )
    return Schema(tuple(tables))


def _moved_once(table: Table) -> Table:
    moving = [key for key in table.foreign_keys if key.on_update != RESTRICT]
    keys = [replace(key, on_update=RESTRICT) if key in moving[1:] else key for key in table.foreign_keys]
    return replace(table, foreign_keys=tuple(keys))


def _draw_table(r: random.Random, name: str, known: Kinds, keyed: bool) -> Table:
    names = known.in_keys
    form = r.choices(("one", "two", "none"), (60, 20, 0 if keyed else 20))[0]
    key: tuple[Column, ...] = ()
    if form == "one":
        kind = r.choice(known.numbers) if r.random() < 0.6 else r.choice(names)
        key = (Column("id", kind, nullable=False),)
    elif form == "two":
        key = (Column("a", known.whole, nullable=False), Column("b", r.choice(names), nullable=False))
    payload = [_payload(r, f"v{i}", r.choice(known.all)) for i in range(1, r.randint(1, 4) + 1)]
    group = (Column("g", known.whole),) if not key or r.random() < 0.3 else ()
    return Table(name, (*key, *group, *payload), tuple(column.name for column in key))


def _payload(r: random.Random, name: str, kind: Kind) -> Column:
    may_default = not kind.native.startswith(("text", "longtext", "blob", "longblob", "json", "point"))
    default = r.choice(sorted(kind.texts)) if may_default and r.random() < 0.2 else None
    if default is not None and "(" in default:
        default = None  # an expression
    return Column(name, kind.name, r.random() < 0.8, default)


def _refer(r: random.Random, tables: list[Table], place: int) -> None:
    """Give a table a foreign key, if one is to be had."""
    child = tables[place]
    parents = [table for table in tables if table.key and not _is_caseless(table)]
    if not parents or len(child.foreign_keys) == 2:
        return
    parent = r.choice(parents)
    number = len(child.foreign_keys) + 1
    if r.random() < 0.15 and _may_share_key(tables, child, parent):
        child, columns = _sharing_key(child, parent)
    else:
        # One that must not be NULL needs a parent that is filled before it.
        nullable = tables.index(parent) >= place or r.random() < 0.7
        added = tuple(replace(parent.column(n), name=f"p{number}{n}", nullable=nullable) for n in parent.key)
        child, columns = replace(child, columns=child.columns + added), tuple(c.name for c in added)
    possible = ACTIONS if all(child.column(name).nullable for name in columns) else ACTIONS[:2]
    key = ForeignKey(
        f"{child.name}_f{number}", columns, parent.name, parent.key, r.choice(possible), r.choice(possible)
    )
    if key.on_delete == CASCADE and parent.name != child.name and _removes(tables, parent.name, child.name):
        key = replace(key, on_delete=RESTRICT)
    tables[place] = replace(child, foreign_keys=(*child.foreign_keys, key))


def _is_told_whole(table: Table) -> bool:
    """Return whether the log of a changed row has its key and every value.

    A large value that stays as it is is not in the log: the row keeps what an intruder left there, also under another key."""
    return bool(table.key) and not _is_caseless(table) and not any(column.of.is_wide for column in table.columns)


def _is_caseless(table: Table) -> bool:
    return any(table.column(name).of.ignores_case for name in table.key)


def _may_share_key(tables: Sequence[Table], child: Table, parent: Table) -> bool:
    """A child whose primary key is its parent's: the parent comes first, and nobody refers to the child's old key, nor is it
    another parent's already."""
    is_referred_to = any(key.parent == child.name for table in tables for key in table.foreign_keys)
    is_shared = any(set(key.columns) & set(child.key) for key in child.foreign_keys)
    return bool(child.key) and tables.index(parent) < tables.index(child) and not is_referred_to and not is_shared


def _sharing_key(child: Table, parent: Table) -> tuple[Table, tuple[str, ...]]:
    shared = tuple(parent.column(name) for name in parent.key)
    rest = tuple(c for c in child.columns if c.name not in child.key and c.name not in parent.key)
    return replace(child, columns=shared + rest, key=parent.key), parent.key


def _removes(tables: Sequence[Table], below: str, above: str) -> bool:
    """Return whether a row deleted from `above` takes rows of `below` along, over other tables."""
    reached: set[str] = set()
    open_names = [above]
    while open_names:
        name = open_names.pop()
        found = {t.name for t in tables for k in t.foreign_keys if k.parent == name and k.on_delete == CASCADE}
        open_names += found - reached
        reached |= found
    return below in reached


def _with_uniques(r: random.Random, table: Table, known: Kinds) -> Table:
    names = known.in_keys
    columns, uniques = list(table.columns), []
    for number in range(1, r.choice((0, 0, 1, 1, 2, 3)) + 1):
        columns.append(Column(f"u{number}", r.choice(names), nullable=r.random() < 0.8))
        others = [c.name for c in columns if c.name == "g" or c.name.startswith("p")]
        beside = (r.choice(others),) if others and r.random() < 0.3 else ()
        uniques.append((*beside, f"u{number}"))
    return replace(table, columns=tuple(columns), uniques=tuple(uniques))
