"""Names of change tables: the table of changes of `shop.orders` is `cdc.shop_orders_CT`; and of the columns that each has."""

from __future__ import annotations

from anabranch.model.ids import TableId

SCHEMA, SUFFIX = "cdc", "_CT"
COLUMNS = ("__$start_lsn", "__$end_lsn", "__$seqval", "__$operation", "__$update_mask", "__$command_id")


def change_table(table: TableId) -> TableId:
    """Return the table that has the changes of a table, which the rules name as at a target that keeps rows."""
    return table_of_instance(f"{table.schema}_{table.name}")


def table_of_instance(instance: str) -> TableId:
    """Return the change table of a capture instance."""
    return TableId(SCHEMA, instance + SUFFIX)
