"""Names of change tables: the table of changes of `shop.orders` is `cdc.shop_orders_CT`."""

from __future__ import annotations

from anabranch.model.ids import TableId

SCHEMA, SUFFIX = "cdc", "_CT"


def change_table(table: TableId) -> TableId:
    """Return the table that has the changes of a table, which the rules name as at a target that keeps rows."""
    return TableId(SCHEMA, f"{table.schema}_{table.name}{SUFFIX}")
