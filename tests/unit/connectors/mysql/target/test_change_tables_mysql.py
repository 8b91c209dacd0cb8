"""Statements of change tables at a MySQL: what stands around a table's own columns, and what each procedure refuses first."""

from __future__ import annotations

import pytest

from anabranch.connectors.mysql.target.change_tables import functions, procedures
from anabranch.connectors.mysql.target.change_tables.instances import _refuse_names, captured, create_table
from anabranch.connectors.mysql.target.change_tables.names import MOST, folded, is_too_long, refused_columns
from anabranch.connectors.mysql.target.columns import MadeColumn
from anabranch.connectors.mysql.target.release import Release
from anabranch.connectors.sql.instances import Instance
from anabranch.contracts import ValueRules
from anabranch.errors import TargetError
from anabranch.model.change_names import change_table, table_of_instance
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.schema import Column, TableSchema
from anabranch.rows.net import TargetTable

COLUMNS = (MadeColumn("id", "id", "int", True), MadeColumn("v`w", "v`w", "varchar(9)", True))


def test_every_column_may_be_null_and_the_key_is_the_order_of_rows() -> None:
    native = ("text", "timestamp with time zone")
    types = (LogicalType(Kind.TEXT, native=native[0]), LogicalType(Kind.INSTANT, native=native[1]))
    columns = tuple(
        Column(name, type, own, nullable=False) for name, type, own in zip(("k", "at"), types, native, strict=True)
    )
    schema = TableSchema(TableId("public", "t"), columns, ("k",), dialect="postgresql")
    table = TargetTable(schema.id, change_table(schema.id), ("k", "at"), types, ("k",))
    release = Release.newest("mysql")
    made = create_table(schema.id, table.target, captured(schema, table, ValueRules(), release), release)
    assert "`k` longtext NULL" in made and "`at` timestamp(6) NULL DEFAULT NULL" in made, (
        "a key of theirs is no key here"
    )
    assert "PRIMARY KEY (`__$start_lsn`, `__$seqval`, `__$operation`)" in made and "`cdc`.`public_t_CT`" in made


def test_names_that_are_one_to_a_server() -> None:
    assert folded(TableId("cdc", "shop_Café_CT")) == folded(TableId("cdc", "shop_CAFE_CT"))
    assert folded(TableId("cdc", "shop_a_CT")) != folded(TableId("cdc", "shop_b_CT"))
    assert folded(TableId("cdc", "shop_straße_CT")) == folded(TableId("cdc", "shop_Strase_CT")), "ß is s there"
    assert is_too_long(TableId("cdc", "x" * 42 + "_CT")) and not is_too_long(TableId("cdc", "x" * 41 + "_CT"))


def test_a_name_that_differs_in_case_from_one_that_is_noted_is_refused() -> None:
    type_ = LogicalType(Kind.INT64, native="int")
    source = TableId("shop", "orders")
    wanted = (TableSchema(source, ()), TargetTable(source, table_of_instance("Orders"), ("id",), (type_,), ("id",)), [])
    _refuse_names([wanted], [Instance("orders_of_before", source, bytes(10), None)])
    with pytest.raises(TargetError, match="Orders and orders are one name to this server") as refused:
        _refuse_names([wanted], [Instance("orders", source, bytes(10), bytes(10))])
    assert "[[tables]] instances" in refused.value.hint


def test_columns_that_a_change_table_has_no_room_for() -> None:
    def refused(*names: str) -> str:
        types = (LogicalType(Kind.TEXT, native="text"),) * len(names)
        return refused_columns(TargetTable(TableId("s", "t"), TableId("cdc", "s_t_CT"), names, types, ()))

    assert refused("id", "__$Operation") == "a change table has columns of its own that are called __$Operation"
    most = [f"c{number}" for number in range(MOST)]
    assert not refused(*most) and refused("id", *most) == "it has 1012 columns, a change table has room for 1011"


def test_procedures_refuse_before_they_read_and_in_what_reads() -> None:
    made = dict(procedures.of_instance("s_t", "`cdc`.`s_t_CT`", COLUMNS, ("id",)))
    assert list(made) == ["fn_cdc_get_all_changes_s_t", "fn_cdc_get_net_changes_s_t"]
    for statement in made.values():
        assert statement.count("cdc.fn_cdc_refuse_arguments('s_t', ") == 2 and "`v``w`" in statement
        assert "SELECT cdc.fn_cdc_refuse_arguments(" in statement and "DO cdc." not in statement, (
            "DO locks what it reads"
        )
        assert "SQL SECURITY INVOKER" in statement and "LIMIT 1) AS asked STRAIGHT_JOIN" in statement
    assert len(dict(procedures.of_instance("s_t", "`cdc`.`s_t_CT`", COLUMNS, ()))) == 1, "no net changes without a key"


def test_keys_are_told_apart_by_their_bytes() -> None:
    columns = [
        MadeColumn("a", "a", "varchar(20)", True, "utf8mb4", "utf8mb4_general_ci"),
        MadeColumn("b", "b", "longtext", True),
        MadeColumn("c", "c", "varbinary(2000)", True),
        MadeColumn("d", "d", "float", True),
    ]
    made = dict(procedures.of_instance("s_t", "`cdc`.`s_t_CT`", [*COLUMNS, *columns], ("a", "b", "c", "d")))
    by = "CAST(c.`a` AS BINARY), CAST(c.`b` AS BINARY), SHA2(c.`b`, 256), c.`c`, SHA2(c.`c`, 256), c.`d`"
    assert f"GROUP BY {by})" in made["fn_cdc_get_net_changes_s_t"], "a float has more digits than it is written with"


def test_functions_tell_a_server_that_logs_what_they_do() -> None:
    for name, statement in functions.shared():
        assert f"cdc.{name}(" in statement and "SQL SECURITY INVOKER" in statement
        assert "READS SQL DATA" in statement or "DETERMINISTIC NO SQL" in statement
