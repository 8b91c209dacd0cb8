"""Names of things: a table in a database."""

from __future__ import annotations

import shlex
from dataclasses import dataclass


def quote(name: str) -> str:
    """Write a name as patterns and messages do: bare where that is unambiguous, else in double quotes."""
    if name and all(c.isalnum() or c in "_-$" for c in name):
        return name
    return '"' + name.replace('"', '""') + '"'


@dataclass(frozen=True, slots=True, order=True)
class TableId:
    """A table's schema (MySQL: database) and name, exactly as the database spells them."""

    schema: str
    name: str

    def __str__(self) -> str:
        return f"{quote(self.schema)}.{quote(self.name)}"

    @property
    def typed(self) -> str:
        """Return it as a person types it in a command: a shell would take quotes away, and `$NAME` for a variable."""
        return shlex.quote(str(self))

    @classmethod
    def parse(cls, text: str) -> TableId:
        """Parse what `str` gives: two parts, each bare or double-quoted. Raises ValueError."""
        parts, rest = [], text
        while rest:
            part, rest = _part(rest)
            parts.append(part)
        if len(parts) != 2 or not all(parts):
            raise ValueError(f"expected schema.table, got {text!r}")
        return cls(*parts)


def _part(text: str) -> tuple[str, str]:
    if not text.startswith('"'):
        head, _, tail = text.partition(".")
        return head, tail
    end = 1
    while end < len(text):
        if text[end] == '"':
            if text[end : end + 2] != '""':
                break
            end += 1
        end += 1
    if end >= len(text) or text[end + 1 : end + 2] not in ("", "."):
        raise ValueError(f"unbalanced quotes in {text!r}")
    return text[1:end].replace('""', '"'), text[end + 2 :]
