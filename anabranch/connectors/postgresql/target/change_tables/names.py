"""Names that a capture instance can have: their length, since its functions have the longest names, and those of columns.

What does not live here: the names (`sql/change_tables.py`).
"""

from __future__ import annotations

import re

from anabranch.connectors.postgresql.connection import NAME_LIMIT
from anabranch.connectors.postgresql.target import ddl
from anabranch.connectors.sql.change_tables import NET, instance_of
from anabranch.model.change_names import COLUMNS
from anabranch.model.ids import TableId
from anabranch.rows.net import TargetTable

LONGEST = NAME_LIMIT - len(NET)  # bytes
COLUMN_HINT = "[[tables]] columns.rename gives a column another name, columns.drop leaves it out"
QUOTES = "$fn$"  # around the text of a function
ARGUMENT = re.compile(r"\$([1-9][0-9]{0,4})")


def is_too_long(table: TableId) -> bool:
    return len(instance_of(table).encode()) > LONGEST


def refused_names(table: TargetTable) -> str:
    """Return why a table cannot have an instance by its names, "" if it can. PL/pgSQL calls all that a function takes and gives
    `$1`, `$2`, and so on, beside its name. https://www.postgresql.org/docs/current/plpgsql-declarations.html"""
    names = list(ddl.target_columns(table).values())
    if taken := [name for name in names if name in COLUMNS]:
        return f"a change table has columns of its own that are called {', '.join(taken)}"
    most = 3 + 4 + len(names)  # what a function takes, the columns in front, those of the table
    if taken := [name for name in names if (found := ARGUMENT.fullmatch(name)) and int(found[1]) <= most]:
        return f"the functions that readers call have arguments that are called {', '.join(taken)}"
    if taken := [name for name in (instance_of(table.target), *names) if QUOTES in name]:
        return f"the functions that readers call cannot name {', '.join(taken)}"
    return ""
