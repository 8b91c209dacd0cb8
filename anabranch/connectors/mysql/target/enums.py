"""Enums of a PostgreSQL as enum(…): which ones can be, and what the servers would take for a label that it is not.

A strict server takes a text that is no label for one in two cases: a whole number is the place of a label, and blanks at the
end do not count. So no enum with such labels becomes an enum(…), and such values are refused.
https://dev.mysql.com/doc/refman/8.0/en/enum.html · https://mariadb.com/kb/en/enum/
What does not live here: labels that the source has got since (labels.py).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from anabranch.model.datatype import Kind, LogicalType

MOST = 3000  # labels: https://dev.mysql.com/doc/refman/5.7/en/string-type-syntax.html
NO_LABEL = r"^[[:space:]]*[-+]?[0-9]+[[:space:]]*$|[[:space:]]$|^$"
# Letters that every release shows in a table's definition as they are told: no control characters, none beyond the BMP.
_LABEL = re.compile(r"(?!\s*[-+]?[0-9]+\s*$)(?!.*\s$)[^\x00-\x1f\x7f\U00010000-\U0010ffff]+")


def are_fit(labels: Sequence[str]) -> bool:
    """Return whether an enum(…) holds these labels, and takes no other value for one of them."""
    return 0 < len(labels) <= MOST and all(map(_LABEL.fullmatch, labels))


def is_enum(type: LogicalType) -> bool:
    """Return whether a column of this type is an enum(…) made of a PostgreSQL's enum."""
    return type.kind is Kind.ENUM and type.printed and not type.target and are_fit(type.values)


def guarded(value: str) -> str:
    """Return SQL for a label; of what the server would take for one it makes a text that is none."""
    return f"IF({value} REGEXP '{NO_LABEL}', CONCAT({value}, '\\0'), {value})"
