"""Capture instances beyond any database: what begins and ends with an epoch, and the columns that each has of a batch."""

from __future__ import annotations

import sqlite3
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from anabranch.connectors.postgresql.target.change_tables.functions import gated
from anabranch.connectors.sql.instances import (
    BEGINS,
    ENDS,
    NO_END,
    NOT_MADE,
    SETTLE,
    Instance,
    captured_by,
    refuse_again,
    settled,
    to_follow,
    to_settle,
)
from anabranch.errors import StateError, TargetError
from anabranch.model.change_names import table_of_instance
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.schema import TableSchema
from anabranch.rows.altered import AlteredTable, ColumnAdded
from anabranch.rows.appended import TableChanges
from anabranch.rows.change_table import change_rows
from anabranch.rows.chunk import Op
from anabranch.rows.net import TargetTable

ORDERS, ITEMS = TableId("shop", "orders"), TableId("shop", "items")
PLACE, EARLIER = b"\x00" * 9 + b"\x09", b"\x00" * 9 + b"\x01"
OLD = Instance("shop_orders", ORDERS, EARLIER, None)
INT, TEXT = LogicalType(Kind.INT64), LogicalType(Kind.TEXT)
TABLE = TargetTable(ORDERS, table_of_instance("shop_orders"), ("id", "v", "n"), (INT, TEXT, INT), ("id",))


def wanted(*names: str) -> list[tuple[TableSchema, TargetTable]]:
    return [(TableSchema(ORDERS, ()), replace(TABLE, target=table_of_instance(name))) for name in names]


def test_what_is_marked_begins_and_ends_at_the_place_of_the_epoch() -> None:
    new, going = Instance("second", ORDERS, BEGINS, None), replace(OLD, end=ENDS)
    assert [*settled([OLD, new], PLACE)] == [replace(new, start=PLACE)]
    assert [*settled([going, new], PLACE)] == [replace(going, end=PLACE), replace(new, start=PLACE)]
    assert [*settled([OLD, replace(new, start=NOT_MADE)], PLACE)] == [], "its table may not be there"
    given_up = Instance("third", ORDERS, NOT_MADE, ENDS)
    assert [*settled([OLD, given_up], PLACE)] == [replace(given_up, start=PLACE, end=PLACE)]


def test_what_is_settled_is_as_it_was_read() -> None:
    new, going, given_up = (
        Instance("second", ORDERS, BEGINS, None),
        replace(OLD, end=ENDS),
        Instance("third", ORDERS, NOT_MADE, ENDS),
    )
    assert [*to_settle([going, new, given_up], PLACE)] == [
        (EARLIER, PLACE, "shop_orders", EARLIER, NO_END, ENDS),
        (PLACE, None, "second", BEGINS, NO_END, NO_END),
        (PLACE, PLACE, "third", NOT_MADE, NO_END, ENDS),
    ]
    with sqlite3.connect(":memory:") as there:
        there.execute("ATTACH ':memory:' AS cdc")
        there.execute("CREATE TABLE cdc.change_tables (capture_instance, start_lsn, end_lsn)")
        add = "INSERT INTO cdc.change_tables VALUES (?, ?, ?)"
        there.executemany(add, [("shop_orders", EARLIER, None), ("second", BEGINS, ENDS), ("third", NOT_MADE, ENDS)])
        for values in to_settle([going, new, given_up], PLACE):
            there.execute(SETTLE.replace("%s", "?"), values)
        found = there.execute("SELECT * FROM cdc.change_tables").fetchall()
    others = [("shop_orders", EARLIER, None), ("second", BEGINS, ENDS)]
    assert found == [*others, ("third", PLACE, PLACE)], "marks that came or went meanwhile are left"


def test_an_instance_of_a_table_that_was_parked_meanwhile_ends_as_it_begins() -> None:
    parked, new = replace(OLD, end=EARLIER), Instance("second", ORDERS, BEGINS, None)
    other = Instance("shop_items", ITEMS, EARLIER, None)
    assert [*settled([parked, new, other], PLACE)] == [replace(new, start=PLACE, end=PLACE)]


def test_what_the_file_names_is_made_and_what_it_does_not_name_ends() -> None:
    other = Instance("shop_items", ITEMS, EARLIER, None)
    new, ending, _ = to_follow([OLD, other], wanted("shop_orders", "second"))
    assert [table.target for _, table in new] == [table_of_instance("second")] and ending == []
    new, ending, _ = to_follow([OLD, other], wanted("second"))
    assert ending == ["shop_orders"], "no instance of a table that was not asked for"
    killed = Instance("second", ORDERS, NOT_MADE, None)
    assert len(to_follow([OLD, killed], wanted("shop_orders", "second")).new) == 1, "its table may not be there"
    given_up = replace(killed, end=ENDS)
    assert to_follow([OLD, given_up], wanted("second", "shop_orders")) == (wanted("second"), [], []), (
        "made, and not kept"
    )


def test_what_the_file_names_again_before_it_has_ended_goes_on() -> None:
    going, new = replace(OLD, end=ENDS), Instance("second", ORDERS, BEGINS, None)
    assert to_follow([going, new], wanted("shop_orders")) == ([], ["second"], ["shop_orders"])
    assert to_follow([OLD, replace(new, end=ENDS)], wanted("second")) == ([], ["shop_orders"], ["second"])


@pytest.mark.parametrize(
    ("there", "why"), [(replace(OLD, end=EARLIER), "has ended"), (replace(OLD, source=ITEMS), r"is one of shop\.items")]
)
def test_a_name_that_was_used_is_refused(there: Instance, why: str) -> None:
    with pytest.raises(StateError, match=why):
        to_follow([there], wanted("shop_orders"))


def changes() -> TableChanges:
    """An insert, an update of n, one of v, and a delete."""
    op = [Op.INSERT, Op.BEFORE, Op.AFTER, Op.BEFORE, Op.AFTER, Op.DELETE]
    rows = {"id": [1] * 6, "v": ["a", "a", "a", "a", "b", "b"], "n": [1, 1, 2, 2, 2, 2]}
    places = np.array([0, 1, 1, 2, 2, 3], np.int64)
    shape, presence = np.zeros(6, np.int16), np.ones((1, 3), np.bool_)
    return TableChanges(TABLE, np.array(op, np.int8), places + 5, places, shape, presence, pa.table(rows))


def test_an_instance_has_its_columns_and_the_updates_that_change_one_of_them() -> None:
    narrow = captured_by(Instance("narrow", ORDERS, PLACE, None, ("id", "v")), changes())
    rows = change_rows(narrow)
    assert narrow.table.target == table_of_instance("narrow")
    assert rows.operation.to_pylist() == [2, 3, 4, 1]
    assert [mask[0] for mask in rows.mask.to_pylist()] == [3, 2, 2, 3]
    assert [column.to_pylist() for column in rows.values] == [[1, 1, 1, 1], ["a", "a", "b", "b"]]


def test_an_instance_of_all_columns_has_updates_that_change_nothing_and_a_column_that_is_gone_is_null() -> None:
    whole = Instance("whole", ORDERS, PLACE, None, ("id", "v", "was", "n"))
    same = replace(changes(), rows=pa.table({"id": [1] * 6, "v": ["a"] * 6, "n": [1] * 6}))
    rows = change_rows(captured_by(whole, same))
    assert rows.operation.to_pylist() == [2, 3, 4, 3, 4, 1]
    assert [mask[0] for mask in rows.mask.to_pylist()] == [15, 0, 0, 0, 0, 15]
    assert rows.values[2].to_pylist() == [None] * 6


def test_a_column_under_the_name_of_one_that_went_is_refused() -> None:
    table = replace(TABLE, source_columns=("id", "v", "n"))
    altered = AlteredTable(TableSchema(ORDERS, ()), table, TableSchema(ORDERS, ()), table, (ColumnAdded("n"),))
    refuse_again([Instance("narrow", ORDERS, PLACE, None, ("id", "v"))], altered)
    with pytest.raises(TargetError, match="capture instance whole has a column n of before"):
        refuse_again([Instance("whole", ORDERS, PLACE, None, ("id", "v", "n"))], altered)


def test_a_role_gets_the_functions_of_its_instance_and_nobody_else_has_them() -> None:
    given = list(gated("narrow", 'cdc."narrow_CT"', True, 'aud"itors'))
    assert given[0] == 'REVOKE EXECUTE ON FUNCTION cdc."fn_cdc_get_all_changes_narrow"(bytea, bytea, text) FROM PUBLIC'
    assert given[3].endswith(' TO "aud""itors"') and "get_net_changes" in given[3]
    assert given[-1].startswith("GRANT SELECT ON cdc.change_tables,") and 'cdc."narrow_CT" TO' in given[-1]
