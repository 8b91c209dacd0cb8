"""Changes of a table's keys and columns at the source: whether the table can be followed on, and what to call them.

What does not live here: definitions (`schema.py`), statements (each connector), who parks a table (`capture/definitions.py`).
"""

from __future__ import annotations

from dataclasses import replace

from anabranch.model.column_changes import ColumnChange, with_those
from anabranch.model.schema import Action, ForeignKey, TableSchema


def goes_on_as(then: TableSchema, now: TableSchema) -> bool:
    """Return whether a table that is followed by the definition `then` can be followed on where the source has `now`.

    Indexes may differ, unique ones too if the table has a primary key (without one a unique key tells its rows apart in the
    log), and foreign keys that only refuse. The others decide what becomes of rows with their parents. Where a log has no
    statements, rows come whole: defaults and NOT NULL may differ, too.
    """
    if now.numbers:
        then, now = _as_whole_rows(then), _as_whole_rows(now)
    return _what_counts(then).same_definition(_what_counts(now))


def _as_whole_rows(schema: TableSchema) -> TableSchema:
    columns = (
        replace(c, nullable=True, has_default=False, default=None, default_is_expression=False) for c in schema.columns
    )
    return replace(schema, columns=tuple(columns))


def may_become(then: TableSchema, now: TableSchema, kinds: frozenset[ColumnChange]) -> bool:
    """Return whether a table that is followed by the definition `then` can be followed on where the source has `now`, apart
    from what later changes of these kinds, which the log tells of at their place, may have done."""
    before, behind = ({column.name for column in table.columns} for table in (then, now))
    if kinds & {ColumnChange.ADD, ColumnChange.RENAME}:
        now = replace(now, columns=tuple(column for column in now.columns if column.name in before))
    if kinds & {ColumnChange.DROP, ColumnChange.RENAME}:
        then = replace(then, columns=tuple(column for column in then.columns if column.name in behind))
    former = {column.name: column for column in then.columns}
    columns = tuple(with_those(c, former[c.name], kinds) if c.name in former else c for c in now.columns)
    return goes_on_as(then, replace(now, columns=columns))


def _what_counts(schema: TableSchema) -> TableSchema:
    keys = tuple(key for key in schema.foreign_keys if acts(key))
    return replace(schema, foreign_keys=keys, indexes=() if schema.primary_key else schema.indexes)


def acts(key: ForeignKey) -> bool:
    """Return whether a foreign key does more than refuse."""
    return key.on_delete is not Action.RESTRICT or key.on_update is not Action.RESTRICT


def keys_apart(then: TableSchema, now: TableSchema) -> list[str]:
    """Return in words which unique and foreign keys the source has lost or got since: by what they ask of rows, not by name."""
    before, after = _keys(then), _keys(now)
    lost = [f"{name} is gone" for key, name in before.items() if key not in after]
    return lost + [f"{name} is new" for key, name in after.items() if key not in before]


def _keys(schema: TableSchema) -> dict[object, str]:
    unique: dict[object, str] = {(i.columns, i.prefixes): f"unique index {i.name}" for i in schema.indexes if i.unique}
    foreign: dict[object, str] = {replace(key, name=""): f"foreign key {key.name}" for key in schema.foreign_keys}
    return unique | foreign
