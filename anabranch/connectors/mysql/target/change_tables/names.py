"""Names of capture instances that these servers take: their length, and which of them are one, since names of routines have
neither case nor accents.

https://dev.mysql.com/doc/refman/8.0/en/identifier-case-sensitivity.html
What does not live here: the names (`sql/change_tables.py`).
"""

from __future__ import annotations

import unicodedata

from anabranch.connectors.mysql.target.names import NAME_CHARACTERS
from anabranch.connectors.sql.change_tables import NET, instance_of
from anabranch.model.ids import TableId

LONGEST = NAME_CHARACTERS - len(NET)  # characters: its procedures have the longest names


def is_too_long(table: TableId) -> bool:
    return len(instance_of(table)) > LONGEST


def folded(table: TableId) -> str:
    """Return what two instances have in common whose procedures would have one name."""
    parts = unicodedata.normalize("NFKD", instance_of(table).casefold())
    return "".join(character for character in parts if not unicodedata.combining(character))
