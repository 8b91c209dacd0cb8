"""Numbers of a message's fields: which field has which one, and which may never be given again.

A number is what stands in front of a value in every message, so it stays with its column for ever: a renamed column keeps it, a
column that goes leaves it to nobody. What does not live here: where numbers are kept (a connector), schemas (schemas.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from anabranch.rows.altered import AlteredTable, ColumnAdded

KEPT_BY_PROTOBUF = range(19000, 20000)
HIGHEST = (1 << 29) - 1
# https://protobuf.dev/programming-guides/proto3/#updating
ALIKE = dict.fromkeys(("int32", "int64", "uint32", "uint64", "bool"), "varint") | {"bytes": "string"}
_BORDERS = KEPT_BY_PROTOBUF.start, KEPT_BY_PROTOBUF.stop  # no range that is reserved goes across


@dataclass(frozen=True)
class Numbers:
    """Numbers of fields by what the fields stand for (columns), and the highest number that any field has ever had. `types`:
    of the fields, where the numbers were read from a schema."""

    fields: Mapping[str, int] = field(default_factory=dict)
    highest: int = 0
    types: Mapping[str, str] = field(default_factory=dict, compare=False)

    def of(self, names: Iterable[str]) -> Numbers:
        """Return the numbers of these: those that are known, then new ones."""
        found, highest, missing = dict[str, int](), self.highest, list[str]()
        for name in names:
            if name in self.fields:
                found[name] = self.fields[name]
            else:
                missing.append(name)
        highest = max(highest, *self.fields.values(), 0)
        for name in missing:
            highest = found[name] = _behind(highest)
        return Numbers(found, highest)

    def above(self, others: Numbers) -> Numbers:
        """Return the same numbers; new ones will be behind those that others have had, too."""
        return replace(self, highest=max(self.highest, others.highest))

    def without_other(self, types: Mapping[str, str]) -> Numbers:
        """Return the numbers without those of fields that had another type, as far as bytes of values tell: a column of that
        name which has come since then is another one."""
        kept = {
            name: number
            for name, number in self.fields.items()
            if name not in types or name not in self.types or _bytes_of(self.types[name]) == _bytes_of(types[name])
        }
        return replace(self, fields=kept)

    def reserved(self) -> Iterator[tuple[int, int]]:
        """Yield first and last of each gap between numbers up to the highest one: numbers that no field has any more."""
        begin = 1
        for number in sorted({*self.fields.values(), self.highest + 1, *_BORDERS}):
            if begin < number <= self.highest + 1 and begin not in KEPT_BY_PROTOBUF:
                yield begin, number - 1
            begin = number if number in _BORDERS else number + 1

    def to_json(self) -> dict[str, Any]:
        return {"fields": dict(self.fields), "highest": self.highest}

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> Numbers:
        return Numbers(dict(value["fields"]), value["highest"])


def _bytes_of(type: str) -> str:
    """Return a word for what the bytes of a type's values are, as compatibility of Protobuf has it."""
    return ALIKE.get(type, type.lstrip("."))


def _behind(highest: int) -> int:
    number = highest + 1
    number = KEPT_BY_PROTOBUF.stop if number in KEPT_BY_PROTOBUF else number
    if number > HIGHEST:
        raise OverflowError("no number is left for another field")
    return number


def altered(former: Numbers, change: AlteredTable) -> Numbers:
    """Return the numbers behind the steps. `former`: those of the columns in front of them. A column that comes gets a new one,
    also where one of its name goes."""
    came = {step.name for step in change.steps if isinstance(step, ColumnAdded)}
    kept = {}
    for name in change.table.source_columns:
        before = change.former_name(name)
        if name not in came and before in change.former_table.source_columns:
            kept[change.target(name)] = former.fields[change.former_target(before)]
    return Numbers(kept, max(former.highest, *former.fields.values(), 0)).of(change.table.columns)
