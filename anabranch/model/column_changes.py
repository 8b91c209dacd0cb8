"""Kinds of changes of a table's columns, and what such a change says beyond the definitions before and behind it.

What does not live here: which statement does what (each connector), what becomes of a change (`[ddl]` of the job file).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from anabranch.model.schema import TableSchema

APPLY, PARK = "apply", "park"


class ColumnChange(StrEnum):
    """Each is named as its key in `[ddl]` of the job file."""

    ADD = "add_column"


Actions = Mapping[ColumnChange, str]
"""What the job file has for each kind; `park` for one that is not in it."""
APPLY_ALL: Actions = dict.fromkeys(ColumnChange, APPLY)


@dataclass(frozen=True, slots=True)
class Untold:
    """The part of a change that two definitions do not tell. `renamed`: former and next name of columns; `filled`:
    columns that were added, and what rows that were there have got, in the column's text form, where it is not the
    column's constant default, or NULL."""

    renamed: tuple[tuple[str, str], ...] = ()
    filled: tuple[tuple[str, str], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.renamed or self.filled)

    def to_json(self) -> dict[str, Any]:
        return {name: pairs for name in ("renamed", "filled") if (pairs := getattr(self, name))}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Untold:
        return cls(**{name: tuple((one, other) for one, other in pairs) for name, pairs in data.items()})


NOTHING_UNTOLD = Untold()


@dataclass(frozen=True, slots=True)
class Altered:
    """A table behind a statement that altered it: its definition, the kinds of changes that led there, and what those do not
    tell."""

    schema: TableSchema
    kinds: frozenset[ColumnChange]
    untold: Untold = NOTHING_UNTOLD


def changed_names(then: TableSchema, altered: Altered) -> dict[str, list[str]]:
    """Return what has come, gone and got another name, for people."""
    before, behind = ([column.name for column in table.columns] for table in (then, altered.schema))
    renamed = dict(altered.untold.renamed)
    told = {
        "added": [name for name in behind if name not in before and name not in renamed.values()],
        "dropped": [name for name in before if name not in behind and name not in renamed],
        "renamed": [f"{former} to {name}" for former, name in renamed.items()],
    }
    return {what: names for what, names in told.items() if names}
