"""Definitions rendered for MySQL and MariaDB, without a server: lengths that keys need, what indexes have room for, conditions
and defaults in PostgreSQL's words."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from anabranch.connectors.mysql.target import clauses, ddl, other_words
from anabranch.connectors.mysql.target.columns import made_columns
from anabranch.connectors.mysql.target.indexes import plan_indexes
from anabranch.connectors.mysql.target.names import NotMade, fits, shortened
from anabranch.connectors.mysql.target.release import Release
from anabranch.contracts import ValueRules
from anabranch.errors import TargetError
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.schema import Action, Column, ForeignKey, Index, TableSchema
from anabranch.rows.net import TargetTable

RULES = ValueRules()
NEWEST = Release.newest("mysql")
OLD = replace(NEWEST, version=(5, 6, 14), collations=frozenset({"utf8mb4_bin"}), explicit=False)
TEXT = LogicalType(Kind.TEXT, native="text")
TYPES = {
    "text": TEXT,
    "varchar(40)": LogicalType(Kind.TEXT, length=40, native="character varying(40)"),
    "varchar(2000)": LogicalType(Kind.TEXT, length=2000, native="character varying(2000)"),
    "bytea": LogicalType(Kind.BINARY, native="bytea"),
    "int": LogicalType(Kind.INT32, native="integer"),
    "date": LogicalType(Kind.DATE, native="date"),
    "numeric": LogicalType(Kind.DECIMAL, precision=10, scale=2, native="numeric(10,2)"),
}


def table(key: tuple[str, ...] = ("id",), indexes: tuple[Index, ...] = (), **columns: str) -> TableSchema:
    made = [Column(name, TYPES[type], type, nullable=name not in key) for name, type in columns.items()]
    return TableSchema(TableId("public", "t"), tuple(made), key, indexes, dialect="postgresql")


def at_target(schema: TableSchema) -> TargetTable:
    names = tuple(column.name for column in schema.columns)
    types = tuple(column.type for column in schema.columns if column.type)
    return TargetTable(schema.id, TableId("dest", "t"), names, types, schema.primary_key, names)


def natives(schema: TableSchema, release: Release = NEWEST) -> dict[str, str]:
    return {column.name: column.native for column in made_columns(schema, at_target(schema), RULES, release)}


def test_keys_give_texts_a_length() -> None:
    by_b = (Index("by_b", ("b",), True),)
    assert natives(table(("id",), id="text", b="text")) == {"id": "varchar(768)", "b": "longtext"}
    assert natives(table(("id",), by_b, id="text", b="text")) == {"id": "varchar(768)", "b": "varchar(768)"}
    assert natives(table(("id", "b"), id="text", b="bytea")) == {"id": "varchar(384)", "b": "varbinary(1536)"}
    assert natives(table(("id", "b"), id="int", b="text"))["b"] == "varchar(767)"
    assert natives(table(("id",), id="varchar(2000)"))["id"] == "varchar(768)"
    assert natives(table(("id",), by_b, id="int", b="varchar(2000)"))["b"] == "varchar(2000)"
    assert natives(table(("id",), id="text"), OLD)["id"] == "varchar(191)"
    key = ForeignKey("of", ("b",), TableId("public", "parents"), ("id",), Action.CASCADE)
    child = replace(table(("id",), id="int", b="text"), foreign_keys=(key,))
    assert natives(child)["b"] == "varchar(768)"
    (said,) = ddl.narrowed(child, at_target(child), RULES, NEWEST)
    assert said == "b becomes varchar(768), which foreign key of needs: a longer value stops the job"


# index, its parts or why it is not made, columns
INDEXES: list[tuple[Index, str, dict[str, str]]] = [
    (Index("i", ("a",)), "`a`", {"a": "varchar(40)"}),
    (Index("i", ("a", "b"), descending=(False, True)), "`a`, `b` DESC", {"a": "int", "b": "int"}),
    (Index("i", ("a",)), "`a`(768)", {"a": "text"}),
    (Index("i", ("a", "b")), "`a`, `b`(767)", {"a": "int", "b": "text"}),
    (Index("i", ("a", "b")), "`a`(384), `b`(384)", {"a": "text", "b": "text"}),
    (Index("i", ("a",), prefixes=(10,)), "`a`(10)", {"a": "varchar(40)"}),
    (Index("i", ("a",), prefixes=(40,)), "`a`", {"a": "varchar(40)"}),
    (Index("i", ("a",)), "`a`(768)", {"a": "varchar(2000)"}),
    (Index("i", ("a",), True), "3,072 bytes", {"a": "varchar(2000)"}),
    (Index("i", ("a",), kind="gin", definition="USING gin (a)"), "of kind gin", {"a": "text"}),
    (Index("i", ("a",), True, definition="USING btree (a) WHERE (a > 1)"), "condition (WHERE)", {"a": "int"}),
    (Index("i", ("a",), definition="USING btree (a) INCLUDE (b)"), "not indexed", {"a": "int", "b": "int"}),
    (Index("i", ("a",), definition="USING btree (lower(a))"), "over expressions", {"a": "text"}),
    (Index("i", ("a",), constraint="EXCLUDE USING gist (a WITH =)"), "exclusion", {"a": "int"}),
]


@pytest.mark.parametrize(("index", "expected", "columns"), INDEXES, ids=str)
def test_indexes(index: Index, expected: str, columns: dict[str, str]) -> None:
    schema = table(("id",), (index,), id="int", **columns)
    made = made_columns(schema, at_target(schema), RULES, NEWEST)
    ((_, planned),) = plan_indexes(schema, at_target(schema), made, NEWEST)
    if isinstance(planned, NotMade):
        assert expected in str(planned)
    else:
        assert planned.parts == expected


CONDITIONS: list[tuple[str, str | None]] = [
    ("(a > 0)", "`a` > 0"),
    ("((a >= 0) AND (a < 10))", "(`a` >= 0) AND (`a` < 10)"),
    ("(s = ANY (ARRAY['x'::text, 'it''s'::text]))", "`s` IN ('x', 'it''s')"),
    ("((v)::text = ANY ((ARRAY['x'::character varying])::text[]))", "`v` IN ('x')"),
    ("((v)::text <> 'x'::text)", "`v` <> 'x'"),
    ("(d >= '2020-01-31'::date)", "`d` >= '2020-01-31'"),
    ("((n > (0)::numeric) OR (n IS NULL))", "(`n` > 0) OR (`n` IS NULL)"),
    ("(NOT (a IS NULL))", "NOT (`a` IS NULL)"),
    ("(char_length(s) <= 5)", "CHAR_LENGTH(`s`) <= 5"),
    ("((a + 1) <> a)", "(`a` + 1) <> `a`"),
    ("(s < 'x'::text)", None),  # an order that depends on the collation
    ("(s ~ 'x'::text)", None),
    ("((a / 2) > 1)", None),  # another quotient here
    ("(is_odd(a))", None),
]


@pytest.mark.parametrize(("text", "expected"), CONDITIONS, ids=str)
def test_conditions_in_the_words_of_postgresql(text: str, expected: str | None) -> None:
    schema = table(("id",), id="int", a="int", s="text", v="varchar(40)", d="date", n="numeric")
    names = {column.name: f"`{column.name}`" for column in schema.columns}
    if expected is None:
        with pytest.raises(NotMade):
            other_words.check(f"CHECK ({text})", schema)
    else:
        term, is_asked = other_words.check(f"CHECK ({text}) NOT VALID", schema)
        assert clauses.condition(term, names) == expected and not is_asked


DEFAULTS: list[tuple[str, LogicalType, str | None]] = [
    ("5", LogicalType(Kind.INT32), "5"),
    ("(-1)", LogicalType(Kind.INT32), "-1"),
    ("'-1'::integer", LogicalType(Kind.INT32), "-1"),
    ("1.50", TYPES["numeric"], "1.50"),
    ("false", LogicalType(Kind.BOOLEAN), "0"),
    ("'it''s'::character varying", TYPES["varchar(40)"], "'it''s'"),
    ("'a'::text", TEXT, "('a')"),
    ("now()", LogicalType(Kind.TIMESTAMP, fraction=6), "CURRENT_TIMESTAMP(6)"),
    ("CURRENT_TIMESTAMP", LogicalType(Kind.INSTANT, fraction=0), "CURRENT_TIMESTAMP"),
    ("CURRENT_DATE", TYPES["date"], "(CURRENT_DATE)"),
    ("nextval('s'::regclass)", LogicalType(Kind.INT32), None),
    ("lower('X'::text)", TEXT, None),
]


@pytest.mark.parametrize(("told", "type", "expected"), DEFAULTS, ids=str)
def test_defaults_in_the_words_of_postgresql(told: str, type: LogicalType, expected: str | None) -> None:
    column = Column("c", type, "c", has_default=True, default=told, default_is_expression=True)
    schema = replace(table(("id",), id="int"), columns=(Column("id", TYPES["int"], "integer", False), column))
    made = {c.name: c for c in made_columns(schema, at_target(schema), RULES, NEWEST)}
    assert made["c"].default == expected
    lost = list(ddl.left_out(schema, at_target(schema), RULES, NEWEST))
    assert lost == ([] if expected else [f"default of c: {told}"])


def test_pitfall_50_a_timestamp_says_its_default_where_the_server_would_give_one() -> None:
    column = Column("at", LogicalType(Kind.INSTANT, fraction=0), "timestamp", nullable=False)
    schema = replace(table(("id",), id="int"), columns=(Column("id", TYPES["int"], "integer", False), column))
    assert "`at` timestamp NOT NULL DEFAULT '1970-01-01 00:00:01'" in ddl.create_table(
        schema, at_target(schema), RULES, OLD
    )
    assert ddl.complete_table(schema, at_target(schema), RULES, OLD) == []  # its ALTER TABLE would take ON UPDATE then
    assert ddl.complete_table(schema, at_target(schema), RULES, replace(OLD, family="mariadb")) == [
        "ALTER TABLE `dest`.`t` ALTER `at` DROP DEFAULT"
    ]
    assert "DEFAULT '" not in ddl.create_table(schema, at_target(schema), RULES, NEWEST)


def test_pitfall_39_names_that_are_too_long_or_not_known() -> None:
    assert all(map(fits, ("a", "x" * 64, "ä`b"))) and not any(map(fits, ("", "x" * 65, "a ", "😀", "a\0")))
    assert shortened("by_name") == "by_name" and shortened("PRIMARY") != "PRIMARY"
    assert shortened("x" * 65) != shortened("x" * 66) and fits(shortened("😀" * 70))
    schema: Any = table(("id",), id="int")
    bad = replace(at_target(schema), target=TableId("dest", "x" * 65))
    with pytest.raises(TargetError, match="longer than 64 characters"):
        ddl.create_table(schema, bad, RULES, NEWEST)
