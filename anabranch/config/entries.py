"""Checks of `[[tables]]` beyond single values: two entries for one table, a table no rule includes, invalid filters.

They read the file before it is parsed into models, so that one wrong value elsewhere hides nothing. What does not live
here: single values (`sections/`); what a filter is (`rules/expressions.py`, handed in).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from anabranch.config.lines import Path as KeyPath
from anabranch.config.patterns import Pattern
from anabranch.errors import Problem
from anabranch.model.ids import TableId

Found = tuple[KeyPath, Problem]


def found_in(data: Mapping[str, Any], check_filter: Callable[[str], None]) -> Iterator[Found]:
    """Yield the problems. Values of a wrong type are skipped: the models report them."""
    rules = _Rules.of(data)
    seen: dict[TableId, int] = {}
    for number, entry in enumerate(_tables(data, "tables")):
        yield from _filter(number, entry, check_filter)
        table = _table(entry.get("name"))
        if table is None:
            continue
        key: KeyPath = ("tables", number, "name")
        if table in seen:
            yield key, Problem(f"{entry['name']} has an entry already (number {seen[table] + 1})", expected="one entry")
        elif rules is not None and (why := rules.without(table, entry["name"])):
            yield key, Problem(why, expected="a table that is replicated")
        seen.setdefault(table, number)


class _Rules:
    """Patterns with the number of their rule."""

    def __init__(self, include: list[tuple[int, Pattern]], exclude: list[tuple[int, Pattern]]) -> None:
        self._include, self._exclude = include, exclude

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> _Rules | None:
        """Read the rules. Returns None where one is invalid: then nobody can say what is included."""
        found: dict[str, list[tuple[int, Pattern]]] = {"include": [], "exclude": []}
        try:
            for number, rule in enumerate(data["rules"], 1):
                for kind, patterns in found.items():
                    patterns += [(number, Pattern.parse(text)) for text in rule.get(kind, [])]
        except (KeyError, TypeError, AttributeError, ValueError):
            return None
        return cls(**found)

    def without(self, table: TableId, name: str) -> str:
        """Say why the table is not replicated; "" if it is."""
        for number, pattern in self._exclude:
            if pattern.matches(table):
                return f"rule {number} excludes {name}, for all rules"
        return "" if any(pattern.matches(table) for _, pattern in self._include) else f"no rule includes {name}"


def _filter(number: int, entry: Mapping[str, Any], check_filter: Callable[[str], None]) -> Iterator[Found]:
    where = entry.get("where")
    if isinstance(where, str) and where:
        try:
            check_filter(where)
        except ValueError as error:
            yield ("tables", number, "where"), Problem(str(error))


def _tables(data: Mapping[str, Any], section: str) -> list[Mapping[str, Any]]:
    found = data.get(section)
    return [one if isinstance(one, dict) else {} for one in found] if isinstance(found, list) else []


def _table(name: object) -> TableId | None:
    try:
        return TableId.parse(name) if isinstance(name, str) else None
    except ValueError:
        return None
