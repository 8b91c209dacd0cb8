"""The job's choice of target types for columns: [types.map], [target.options] geometry and vector, [[tables]] columns.type.

What does not live here: which choices a target knows (its connector's TypeMap), the table's other settings
(`rule_set.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from fnmatch import fnmatchcase

from anabranch.config.sections.types_at_target import Types
from anabranch.contracts import TypeMap, ValueRules
from anabranch.model.at_target import TextForm
from anabranch.model.datatype import Fidelity, Kind, LogicalType
from anabranch.model.schema import Column
from anabranch.rows import json_texts

_COMMENT = re.compile(r"/\*.*?\*/")
_SIZES = re.compile(r"\([^)]*\)")


class TypeChoices:
    """The choices of one job for every column."""

    def __init__(self, types: Types, target: TypeMap, rules: ValueRules) -> None:
        """Set up the choices. `target`: the type map of the job's target."""
        self._map = {_plain(pattern): target for pattern, target in types.map.items()}
        self._written = {_plain(pattern): pattern for pattern in types.map}
        self._target, self._rules = target, rules

    def of(self, column: Column, chosen: str = "", is_of_key: bool = False) -> LogicalType | None:
        """Return the column's logical type with the job's choice in it; `chosen` is what the table's own entry says. What a
        domain or an enum is made of does not matter to a choice: it is made of the text that the source prints. Nor does it
        to a key (`is_of_key`): labels that two tables do not have alike would be compared there."""
        if column.type is None:
            return None
        own = chosen or self._mapped(column)
        type, is_enum = column.type, column.type.kind is Kind.ENUM and column.type.printed
        if (own and (type.base or is_enum)) or (is_of_key and is_enum) or self._is_refused_number(type):
            type = LogicalType(Kind.NATIVE, native=type.native)
        found = replace(type, target=_plain(own or self._target.by_setting(type.kind, self._rules)))
        form = self._target.at_target(found, self._rules)
        if is_of_key and form.text in json_texts.FORMS:
            form = replace(form, text=TextForm.OF_KIND)
        return replace(found, at_target=form)

    def _is_refused_number(self, type: LogicalType) -> bool:
        """Return whether a domain is of numbers that no number at the target holds: it is the text then."""
        is_number = bool(type.base) and type.kind is Kind.DECIMAL
        return is_number and self._target.fit(type, self._rules).fidelity is Fidelity.REFUSED

    def unused(self, columns: Iterable[Column]) -> list[str]:
        """Return the patterns of the map that match none of these columns, as the job file writes them."""
        spellings = {spelling for column in columns for spelling in _spellings(column.native)}
        return [
            written
            for pattern, written in self._written.items()
            if not any(spelling == pattern or fnmatchcase(spelling, pattern) for spelling in spellings)
        ]

    def _mapped(self, column: Column) -> str:
        """Return the map's choice for a column: by the exact spelling, else by the first pattern that fits the type,
        with or without its sizes.
        """
        exact, *others = _spellings(column.native)
        for spelling in (f"{exact}()", exact):
            if spelling in self._map:
                return self._map[spelling]
        spellings = (exact, *others)
        found = (
            target for pattern, target in self._map.items() for spelling in spellings if fnmatchcase(spelling, pattern)
        )
        return next(found, "")


def _spellings(native: str) -> Iterator[str]:
    """Return how a pattern may spell a type: as the source does, by its name alone, and as `name()` where it has no sizes."""
    plain = _plain(_COMMENT.sub("", native))
    yield plain
    yield _plain(_SIZES.sub("", plain)) if "(" in plain else f"{plain}()"


def _plain(text: str) -> str:
    return " ".join(text.lower().split())
