"""Indexes and unique keys that come, go or get another name between two definitions of a table, as far as they are followed:
those over columns alone.

What does not live here: differences for people (`schema_changes.py`), changes of columns (`column_changes.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from anabranch.model.schema import Index, TableSchema

KINDS = ("btree", "hash")


@dataclass(frozen=True, slots=True)
class IndexChanges:
    """`added`: names behind the change; `dropped`: names before it; `renamed`: former and next names. A name may be both
    dropped and added: the index has other columns then."""

    added: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    renamed: tuple[tuple[str, str], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.dropped or self.renamed)

    def __str__(self) -> str:
        found = [f"add index {name}" for name in self.added] + [f"drop index {name}" for name in self.dropped]
        return ", ".join(found + [f"rename index {former} to {name}" for former, name in self.renamed])

    def plus(self, other: IndexChanges) -> IndexChanges:
        """Return these changes and the others."""
        return IndexChanges(self.added + other.added, self.dropped + other.dropped, self.renamed + other.renamed)


NO_CHANGES = IndexChanges()


def is_followed(index: Index) -> bool:
    """Return whether an index or unique key may come and go while its table is followed: columns say all of it."""
    return index.kind.lower() in KINDS and not (index.parts or index.definition or index.constraint)


def index_changes(
    then: TableSchema, now: TableSchema, renamed: Mapping[str, str], unique: bool = False
) -> IndexChanges:
    """Return what becomes of indexes, or with `unique` of unique keys beside the primary one. `renamed`: former and next names
    of columns. An index that loses a column goes, and comes without it. None where a source has no statements in its log: its
    definitions show only the latest state."""
    if then.numbers or now.numbers:
        return NO_CHANGES
    before = {index.name: _with_names(index, renamed) for index in _of(then, unique)}
    behind = {index.name: index for index in _of(now, unique)}
    gone = [name for name, index in before.items() if not _is_same(behind.get(name), index)]
    came = [name for name, index in behind.items() if not _is_same(before.get(name), index)]
    pairs: list[tuple[str, str]] = []
    for name in gone:
        to = next((other for other in came if other not in before and _is_same(before[name], behind[other])), None)
        if to is not None and name not in behind:
            pairs.append((name, to))
            came.remove(to)
    moved = {former for former, _ in pairs}
    return IndexChanges(tuple(came), tuple(name for name in gone if name not in moved), tuple(pairs))


def others_differ(then: TableSchema, now: TableSchema) -> bool:
    """Return whether two definitions have other indexes than those over columns alone, by their names."""
    before, behind = ({index.name for index in table.indexes if not is_followed(index)} for table in (then, now))
    return before != behind


def passed_over(
    then: TableSchema, now: TableSchema, renamed: Mapping[str, str], followed: IndexChanges
) -> tuple[str, ...]:
    """Return indexes and unique keys that came, and that are not followed: nobody would take them off again. `followed`: what
    is. Of one that is not over columns alone, or whose definition is the latest one, its name tells whether it came."""
    before = {index.name: index for index in then.indexes}
    kept = {*followed.added, *(name for _, name in followed.renamed)}
    by_name = bool(then.numbers or now.numbers)
    return tuple(
        index.name
        for index in now.indexes
        if index.name not in kept and _came(before.get(index.name), index, renamed, by_name)
    )


def may_refuse(then: TableSchema, now: TableSchema, name: str) -> bool:
    """Return whether rows of now may break a unique key of then: no other one sees to its columns."""
    index = next((one for one in then.indexes if one.name == name), None)
    if index is None or not index.unique:
        return False
    others = [one.columns for one in now.indexes if one.unique and is_followed(one) and not any(one.prefixes)]
    others += [now.primary_key] if now.primary_key else []
    return not any(set(columns) <= set(index.columns) for columns in others)


def _came(before: Index | None, now: Index, renamed: Mapping[str, str], by_name: bool) -> bool:
    if before is None:
        return True
    if by_name or not (is_followed(before) and is_followed(now)):
        return not by_name and is_followed(before) is not is_followed(now)
    return before.unique is not now.unique or not _is_same(_with_names(before, renamed), now)


def _of(table: TableSchema, unique: bool) -> Iterator[Index]:
    return (index for index in table.indexes if is_followed(index) and index.unique is unique)


def _with_names(index: Index, renamed: Mapping[str, str]) -> Index:
    return replace(index, columns=tuple(renamed.get(name, name) for name in index.columns))


def _is_same(one: Index | None, other: Index | None) -> bool:
    """Return whether two indexes are alike but for their names."""
    return one is not None and other is not None and _what(one) == _what(other)


def _what(index: Index) -> tuple[object, ...]:
    nothing = (None,) * len(index.columns)
    descending = index.descending if any(index.descending) else ()
    return index.columns, index.prefixes or nothing, descending, index.invisible
