"""Patterns of rules: case-sensitive globs on `schema.table`, and the template that names the target table.

A part in double quotes is taken literally, so a name that a message prints can be pasted into a rule. What does not
live here: the rule set as a whole (`rules/rule_set.py`).
"""

from __future__ import annotations

import fnmatch
import re
from dataclasses import dataclass

from anabranch.model.ids import TableId

_PART = re.compile(r'"(?P<quoted>(?:[^"]|"")*)"|(?P<bare>[^".]+)')
_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_GLOB = "*?["
PLACEHOLDERS = ("schema", "table")


def _parts(text: str) -> list[tuple[str, bool]]:
    """Return the two parts of `schema.table`, each with whether it was quoted. Raises ValueError."""
    parts, at = [], 0
    while match := _PART.match(text, at):
        quoted = match["quoted"] is not None
        parts.append((match["quoted"].replace('""', '"') if quoted else match["bare"], quoted))
        at = match.end()
        if text[at : at + 1] != ".":
            break
        at += 1
    if at != len(text) or text.endswith(".") or len(parts) != 2 or not all(part for part, _ in parts):
        raise ValueError("two parts with one dot between them")
    return parts


def place_of(text: str) -> TableId | None:
    """Return the table that a pattern names, or `schema.*` where it names several of one schema; None where it names schemas by
    a glob. Raises ValueError."""
    (schema, is_literal), (table, is_name) = _parts(text)
    if not is_literal and set(schema) & set(_GLOB):
        return None
    return TableId(schema, table if is_name or not set(table) & set(_GLOB) else "*")


@dataclass(frozen=True, slots=True)
class Pattern:
    """A glob for the schema and one for the table: `*`, `?`, `[abc]`."""

    schema: re.Pattern[str]
    table: re.Pattern[str]

    @classmethod
    def parse(cls, text: str) -> Pattern:
        """Parse a pattern. Raises ValueError, whose message is what was expected."""
        schema, table = (
            re.compile(re.escape(part) if quoted else fnmatch.translate(part)) for part, quoted in _parts(text)
        )
        return cls(schema, table)

    def matches(self, table: TableId) -> bool:
        return bool(self.schema.fullmatch(table.schema) and self.table.fullmatch(table.name))


@dataclass(frozen=True, slots=True)
class Template:
    """The target's name for a table: two parts with `{schema}` and `{table}` in them."""

    schema: str
    table: str

    @classmethod
    def parse(cls, text: str) -> Template:
        """Parse a template. Raises ValueError, whose message is what was expected."""
        (schema, _), (table, _) = _parts(text)
        for part in (schema, table):
            rest = _PLACEHOLDER.sub("", part)
            if set(_PLACEHOLDER.findall(part)) - set(PLACEHOLDERS) or "{" in rest or "}" in rest:
                raise ValueError("no other placeholders than {schema} and {table}")
        return cls(schema, table)

    def render(self, table: TableId) -> TableId:
        values = {"schema": table.schema, "table": table.name}
        return TableId(*(_PLACEHOLDER.sub(lambda m: values[m[1]], part) for part in (self.schema, self.table)))
