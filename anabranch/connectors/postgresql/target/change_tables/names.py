"""Names of a capture instance and of what belongs to it, as SQL Server's change data capture gives them.

https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/sys-sp-cdc-enable-table-transact-sql
"""

from __future__ import annotations

from anabranch.connectors.postgresql.connection import NAME_LIMIT
from anabranch.model.change_names import SUFFIX
from anabranch.model.ids import TableId

ALL, NET = "fn_cdc_get_all_changes_", "fn_cdc_get_net_changes_"
LONGEST = NAME_LIMIT - len(NET)  # bytes of an instance's name: its functions have the longest names
COLUMNS = ("__$start_lsn", "__$end_lsn", "__$seqval", "__$operation", "__$update_mask", "__$command_id")


def instance_of(table: TableId) -> str:
    """Return the capture instance of a change table."""
    return table.name.removesuffix(SUFFIX)


def is_too_long(table: TableId) -> bool:
    return len(instance_of(table).encode()) > LONGEST
