"""A condition or a value over one row, in a form that belongs to no database: what a source understood of a CHECK or a
default, and a target may write down in its own SQL.

A source makes one only where it means exactly the same at any target that follows the table below; what it does not
understand stays text. What does not live here: reading SQL (connectors/<db>/), writing SQL.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

# op -> how many operands, None = two or more; what `text` is. Logic has three values, comparisons with NULL give NULL.
OPERATORS: dict[str, tuple[int | None, str]] = {
    "column": (0, "the source column's name"),
    "number": (0, "digits, with sign and decimals"),
    "text": (0, "the characters; of a date or timestamp its ISO form"),
    **dict.fromkeys(("=", "<>", "<", "<=", ">", ">=", "is not distinct from"), (2, "")),  # texts by their characters
    "in": (None, ""),  # the first in the others
    "between": (3, ""),
    **dict.fromkeys(("and", "or"), (None, "")),
    "not": (1, ""),
    "is null": (1, ""),
    **dict.fromkeys(("+", "-", "*", "%"), (2, "")),  # exact numbers; the remainder has the dividend's sign
    "negative": (1, ""),
    "like": (2, ""),  # % and _, nothing escaped, case counts
    "characters": (1, ""),  # of a text
    "bytes": (1, ""),  # of a text in UTF-8
    "now": (0, "digits of a second"),  # the moment of the statement: wall clock or instant, as the column is
    "today": (0, ""),
    "uuid": (0, ""),  # a new one, as text
}


@dataclass(frozen=True, slots=True)
class Term:
    op: str
    of: tuple[Term, ...] = ()
    text: str = ""

    def __post_init__(self) -> None:
        count, _ = OPERATORS[self.op]
        if len(self.of) < 2 if count is None else len(self.of) != count:
            raise ValueError(f"{self.op} with {len(self.of)} operands")

    def columns(self) -> Iterator[str]:
        """Yield the source columns that the term names, repeated as often as it names them."""
        if self.op == "column":
            yield self.text
        for term in self.of:
            yield from term.columns()

    @classmethod
    def from_json(cls, data: dict[str, Any] | None) -> Term | None:
        return None if data is None else cls(data["op"], tuple(_known(term) for term in data["of"]), data["text"])


def _known(data: dict[str, Any]) -> Term:
    return Term(data["op"], tuple(_known(term) for term in data["of"]), data["text"])
