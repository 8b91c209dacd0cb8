"""Names of capture instances that these servers take: their length, and which of them are one, since names of routines have
neither case nor accents; and the columns that a change table has room for.

https://dev.mysql.com/doc/refman/8.0/en/identifier-case-sensitivity.html
What does not live here: the names (`sql/change_tables.py`).
"""

from __future__ import annotations

import unicodedata

from anabranch.connectors.mysql.target.names import NAME_CHARACTERS, target_columns
from anabranch.connectors.sql.change_tables import NET, instance_of
from anabranch.model.change_names import COLUMNS
from anabranch.model.ids import TableId
from anabranch.rows.net import TargetTable

LONGEST = NAME_CHARACTERS - len(NET)  # characters: its procedures have the longest names
# https://dev.mysql.com/doc/refman/8.0/en/innodb-limits.html
MOST = 1017 - len(COLUMNS)  # columns of a table beside those that a change table has of its own
COLUMN_HINT = "[[tables]] columns.rename gives a column another name, columns.drop leaves it out"


def is_too_long(table: TableId) -> bool:
    return len(instance_of(table)) > LONGEST


def folded(table: TableId) -> str:
    """Return what two instances have in common whose procedures would have one name."""
    name = instance_of(table).replace(
        "ß", "s"
    )  # as utf8mb4_general_ci has it, which names of instances are compared by
    parts = unicodedata.normalize("NFKD", name.casefold())
    return "".join(character for character in parts if not unicodedata.combining(character))


def refused_columns(table: TargetTable) -> str:
    """Return why a change table cannot have a table's columns beside its own, "" if it can."""
    own, theirs = {name.lower() for name in COLUMNS}, list(target_columns(table).values())
    if taken := [name for name in theirs if name.lower() in own]:
        return f"a change table has columns of its own that are called {', '.join(taken)}"
    return f"it has {len(theirs)} columns, a change table has room for {MOST}" if len(theirs) > MOST else ""
