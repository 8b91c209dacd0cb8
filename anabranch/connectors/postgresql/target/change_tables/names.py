"""Length of the name of a capture instance: its functions have the longest names.

What does not live here: the names (`sql/change_tables.py`).
"""

from __future__ import annotations

from anabranch.connectors.postgresql.connection import NAME_LIMIT
from anabranch.connectors.sql.change_tables import NET, instance_of
from anabranch.model.ids import TableId

LONGEST = NAME_LIMIT - len(NET)  # bytes


def is_too_long(table: TableId) -> bool:
    return len(instance_of(table).encode()) > LONGEST
