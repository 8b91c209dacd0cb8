"""Keys beside the primary one: unique keys, and foreign keys that the target enforces on what we write, with where they do
otherwise than the source's (K7).

Names are the target's. What does not live here: the order that such keys accept (`apply/order.py`), reading them from a
database (its connector).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from anabranch.model.ids import TableId
from anabranch.model.schema import Action, ForeignKey, TableSchema
from anabranch.rows.net import TargetTable

CHANGES_ROWS = frozenset({Action.CASCADE, Action.SET_NULL, Action.SET_DEFAULT})
SOURCE_DOES = frozenset(
    {Action.CASCADE, Action.SET_NULL}
)  # what a source's key does; SET DEFAULT refuses, as in InnoDB
EVENTS = ("delete", "update")


@dataclass(frozen=True, slots=True)
class UniqueKey:
    """A unique key beside the primary one. `columns`: all that are replicated and on which it depends in any way; `is_plain`:
    it takes two rows for equal exactly if the values of all of these are, and none is NULL."""

    columns: frozenset[str]
    is_plain: bool = True


@dataclass(frozen=True, slots=True)
class EnforcedKey:
    """A foreign key that stands at the target. `waits`: it can be asked at the end of our transaction."""

    name: str
    child: TableId
    columns: tuple[str, ...]
    parent: TableId
    parent_columns: tuple[str, ...]
    on_delete: Action = Action.RESTRICT
    on_update: Action = Action.RESTRICT
    waits: bool = False

    @property
    def acts(self) -> bool:
        """True if the key changes or removes children by itself."""
        return not CHANGES_ROWS.isdisjoint((self.on_delete, self.on_update))

    def on(self, event: str) -> Action:
        return self.on_delete if event == "delete" else self.on_update

    @property
    def pairs(self) -> frozenset[tuple[str, str]]:
        return frozenset(zip(self.columns, self.parent_columns, strict=True))


@dataclass(frozen=True, slots=True)
class KeyDifference:
    """A key of the target that does otherwise than the source's. `loses_rows`: the target would end up with other rows,
    and nobody would notice; else the job stops by name or goes row by row."""

    key: EnforcedKey
    what: str
    loses_rows: bool = False

    def __str__(self) -> str:
        return f"foreign key {self.key.name} of {self.key.child} {self.what}"


def source_keys(
    schemas: Mapping[TableId, TableSchema], targets: Mapping[TableId, TargetTable]
) -> Iterator[tuple[ForeignKey, EnforcedKey]]:
    """Yield the source's keys between replicated tables, and each as it would be at the target.

    A key whose columns are not all replicated has no counterpart there and is left out.
    """
    for source, schema in schemas.items():
        for key in schema.foreign_keys:
            child, parent = targets.get(source), targets.get(key.parent)
            if child is None or parent is None:
                continue
            columns, parent_columns = _renamed(key.columns, child), _renamed(key.parent_columns, parent)
            if columns and parent_columns:
                ends = child.target, columns, parent.target, parent_columns
                yield key, EnforcedKey(key.name, *ends, key.on_delete, key.on_update)


def _renamed(names: Iterable[str], table: TargetTable) -> tuple[str, ...]:
    """Return the target names of source columns; () where one of them is not replicated."""
    sources = table.source_columns or table.columns
    places = {name: table.columns[place] for place, name in enumerate(sources)}
    found = [places.get(name, "") for name in names]
    return tuple(found) if all(found) else ()


def differences(
    enforced: Iterable[EnforcedKey], schemas: Mapping[TableId, TableSchema], targets: Mapping[TableId, TargetTable]
) -> Iterator[KeyDifference]:
    """Yield how the target's keys between the job's own tables differ from the source's.

    Keys of other tables to ours are left out: they are their owner's affair.
    """
    ours = {table.target for table in targets.values()}
    known: dict[tuple[TableId, TableId, frozenset[tuple[str, str]]], EnforcedKey] = {}
    for _, key in source_keys(schemas, targets):
        known[key.child, key.parent, key.pairs] = key
    for key in enforced:
        if key.child in ours and key.parent in ours:
            yield from _differences(key, known.get((key.child, key.parent, key.pairs)))


def _differences(key: EnforcedKey, source: EnforcedKey | None) -> Iterator[KeyDifference]:
    if source is None and not key.acts:
        yield KeyDifference(key, "has no counterpart at the source: a row without a parent stops the job")
    for event in EVENTS:
        does, should = key.on(event), source.on(event) if source else None
        if does in CHANGES_ROWS and should is None:
            yield KeyDifference(key, f"is {_told(event, does)}, and the source has no such key", True)
        elif does in CHANGES_ROWS and should in SOURCE_DOES and does is not should:
            yield KeyDifference(key, f"is {_told(event, does)}, the source's {_told(event, should)}", True)
        elif does not in CHANGES_ROWS and should in SOURCE_DOES and not key.waits:
            follows = event == "update" and should is Action.CASCADE
            then = "stops the job" if follows else "goes row by row"
            yield KeyDifference(key, f"is not {_told(event, should)}, as the source's is: what depends on that {then}")


def _told(event: str, action: Action | None) -> str:
    return f"ON {event.upper()} {str(action).upper()}"
