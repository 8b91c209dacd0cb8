"""Foreign keys of a table that only refuse, and that come and go between two definitions of it.

What does not live here: keys that change rows themselves (`key_changes.py`), differences for people (`schema_changes.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping

    from anabranch.model.ids import TableId
    from anabranch.model.schema import ForeignKey, TableSchema


@dataclass(frozen=True, slots=True)
class KeyChanges:
    """`added`: names behind the change; `dropped`: names before it. A name may be in both: it is another key then."""

    added: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.dropped)

    def __str__(self) -> str:
        found = [f"add foreign key {name}" for name in self.added] + [
            f"drop foreign key {name}" for name in self.dropped
        ]
        return ", ".join(found)


NO_KEY_CHANGES = KeyChanges()


def foreign_key_changes(then: TableSchema, now: TableSchema) -> KeyChanges:
    """Return the keys that come and go."""
    before, behind = ({key.name: key for key in table.foreign_keys if refuses(key)} for table in (then, now))
    gone = tuple(name for name, key in before.items() if behind.get(name) != key)
    return KeyChanges(tuple(name for name, key in behind.items() if before.get(name) != key), gone)


def refuses(key: ForeignKey) -> bool:
    """Return whether a key does nothing but refuse."""
    return key.on_delete == key.on_update == "restrict"


def by_source_name(lines: Iterable[str], name: str, *there: str) -> list[str]:
    """Return what is said of a key of the target, by the name that the source's has: those lines go with that key. `there`:
    names that it may have at the target, of which the one that it has is told."""
    return [_by_source_name(line, name, there) for line in lines]


def _by_source_name(line: str, name: str, there: tuple[str, ...]) -> str:
    own = next((one for one in there if line.startswith(about_key(one))), name)
    return line if own == name else f"{about_key(name)}{line.removeprefix(about_key(own))}; there its name is {own}"


def about_key(name: str) -> str:
    """Return how what is said of a foreign key that could not be built, or stands unproven, begins."""
    return f"foreign key {name} of "


def keys_of_now(
    then: TableSchema, now: TableSchema, tables: Mapping[TableId, TableSchema]
) -> tuple[TableSchema, KeyChanges]:
    """Return the definition `then` without the keys that the source has no more or otherwise; where there are none, with those
    that it has got. Keys that come are between `tables`, which are followed, and over columns that these have."""
    there = {key.name: key for key in now.foreign_keys}
    gone = [key for key in then.foreign_keys if refuses(key) and there.get(key.name) != key]
    if gone:
        after = replace(then, foreign_keys=tuple(key for key in then.foreign_keys if key not in gone))
    else:
        come = (key for key in now.foreign_keys if refuses(key) and key not in then.foreign_keys)
        come = (key for key in come if key.name not in {one.name for one in then.foreign_keys})
        some = tuple(
            key for key in come if _has(then, key.columns) and _has(tables.get(key.parent), key.parent_columns)
        )
        after = replace(then, foreign_keys=then.foreign_keys + some)
    return after, foreign_key_changes(then, after)


def _has(table: TableSchema | None, columns: Iterable[str]) -> bool:
    return table is not None and {column.name for column in table.columns}.issuperset(columns)


def with_keys_to(then: TableSchema, now: TableSchema, parents: Container[TableId]) -> TableSchema:
    """Return the next definition without keys that come and refer to other tables than these."""
    kept = tuple(key for key in now.foreign_keys if key in then.foreign_keys or key.parent in parents)
    return now if kept == now.foreign_keys else replace(now, foreign_keys=kept)


def with_former_keys(then: TableSchema, now: TableSchema) -> TableSchema:
    """Return the next definition with the keys of before, but for those that change rows themselves."""
    keys = [key for key in then.foreign_keys if refuses(key)] + [key for key in now.foreign_keys if not refuses(key)]
    same = sorted(keys, key=repr) == sorted(now.foreign_keys, key=repr)
    return now if same else replace(now, foreign_keys=tuple(keys))
