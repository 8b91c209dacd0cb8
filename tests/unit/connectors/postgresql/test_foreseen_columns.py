"""Foresee what a PostgreSQL's log would tell of an ALTER TABLE that nobody has run (no server)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from anabranch.connectors.postgresql.source.foreseen import foreseen
from anabranch.connectors.postgresql.source.foreseen_clauses import Unread, shown, table_of
from anabranch.model.column_changes import Altered
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.schema import Column, Index, TableSchema

INT, TEXT = LogicalType(Kind.INT32), LogicalType(Kind.TEXT)
COLUMNS = (
    Column("id", INT, "integer", nullable=False, number=1),
    Column("v", LogicalType(Kind.TEXT, length=20), "character varying(20)", number=2),
    Column("n", INT, "integer", nullable=False, has_default=True, default="5", default_is_expression=True, number=4),
    Column("u", INT, "integer", number=5),
)
THEN = TableSchema(
    TableId("public", "item"),
    COLUMNS,
    ("id",),
    indexes=(Index("item_u", ("u",), unique=True),),
    oid=70,
    numbers=5,
    file=70,
    version=4,
    dialect="postgresql",
)
BOTH = {
    "ADD c int": "add_column",
    "ADD COLUMN IF NOT EXISTS c varchar(9) DEFAULT 'x' NOT NULL": "add_column",
    "ADD c real DEFAULT 'nan', ADD d numeric(5,2) DEFAULT 0::numeric(5,2), ADD e varchar(9) DEFAULT 'x'::text": "add_column",
    "ADD IF NOT EXISTS v text": "nothing",
    "ADD c int CHECK (c > 0), ADD CONSTRAINT p CHECK (n > 0)": "add_column",
    "DROP COLUMN v": "drop_column",
    "DROP IF EXISTS none RESTRICT": "nothing",
    "RENAME v TO w": "rename_column",
    'RENAME COLUMN "v" TO "w";': "rename_column",
    "ALTER v TYPE varchar(40)": "change_type",
    "ALTER v SET DATA TYPE text, ADD c timestamptz(3)": "add_column, change_type",
    "ADD CONSTRAINT p CHECK (n > 0), SET (fillfactor = 70)": "nothing",
    "ADD c serial": "parked: a column that counts",
    "ADD c int UNIQUE": "parked: c is unique",
    "DROP u": "parked: u is part of a key",
    "ALTER n TYPE text USING 'x'": "parked: ",
    "ADD c int DEFAULT random()": "unread: what rows would have in c",
    "ADD c int4range": "unread: the type int4range",
    "DROP CONSTRAINT item_pkey": "unread: ",
    "ADD PRIMARY KEY (v)": "unread: ",
    "RENAME TO other": "unread: ",
    "SET SCHEMA other": "unread: ",
    "ALTER none SET DEFAULT 1": "unread: the table has no column none",
    "ADD v text": "unread: the table has a column v",
}
NOTED = BOTH | {
    "ALTER n TYPE bigint": "change_type",
    "ALTER u TYPE bigint": "parked: u is part of a key",
    "ALTER n TYPE numeric(12)": "change_type",
    "ALTER n TYPE numeric(12,2)": "parked: n was integer",
    "ALTER n DROP NOT NULL": "nullability",
    "ALTER v SET NOT NULL": "nullability",
    "ALTER n SET DEFAULT 6, ALTER v SET DEFAULT 'x'": "column_default",
    "ALTER n DROP DEFAULT": "column_default",
    "ALTER n SET DEFAULT 5": "",
    "ALTER v SET DEFAULT NULL": "",
    "DROP v, ADD c date": "add_column, drop_column",
}
PLAIN = BOTH | {
    "ALTER n TYPE bigint": "parked: ",
    "ALTER n DROP NOT NULL": "",
    "ALTER n SET DEFAULT 6": "",
    "DROP v, ADD c date": "parked: ",
}


def outcome(clauses: str, is_noted: bool) -> str:
    try:
        found = foreseen(f"ALTER TABLE IF EXISTS ONLY item {clauses}", THEN, is_noted, is_noted)
    except Unread as what:
        return f"unread: {what}"
    if isinstance(found, Altered):
        return ", ".join(sorted(found.kinds))
    return "nothing" if found is None else f"parked: {found}"


@pytest.mark.parametrize(("is_noted", "expected"), [(True, NOTED), (False, PLAIN)])
def test_what_the_log_would_tell(is_noted: bool, expected: dict[str, str]) -> None:
    found = {clauses: outcome(clauses, is_noted) for clauses in expected}
    assert {one: what for one, what in found.items() if not _is(what, expected[one])} == {}


def _is(found: str, expected: str) -> bool:
    return found.startswith(expected) if ":" in expected else found == expected


def test_columns_are_as_the_catalogue_would_show_them() -> None:
    sql = """ALTER TABLE item ADD a decimal(6,2) DEFAULT 7, ADD b char, ADD "C" timestamp(3), ADD d int[] DEFAULT '{1}',
             ADD e bool NOT NULL DEFAULT true -- why"""
    found = foreseen(sql, THEN, True, True)
    assert isinstance(found, Altered)
    come = found.schema.columns[4:]
    assert [(c.name, c.native, c.default, c.nullable, c.number) for c in come] == [
        ("a", "numeric(6,2)", "7.00", True, 6),
        ("b", "character(1)", None, True, 7),
        ("C", "timestamp(3) without time zone", None, True, 8),
        ("d", "integer[]", "{1}", True, 9),
        ("e", "boolean", "t", False, 10),
    ]
    found = foreseen("ALTER TABLE item ALTER v SET DEFAULT now(), ALTER n SET DEFAULT f(1)", THEN, True, True)
    assert isinstance(found, Altered)
    v, n = found.schema.column("v"), found.schema.column("n")
    assert (v.default, v.default_is_expression, n.default, n.default_is_expression) == ("now()", True, None, True)
    mood = Column("m", LogicalType(Kind.ENUM, values=("sad",)), "public.mood", number=6)
    found = foreseen("ALTER TABLE item ADD k mood", replace(THEN, columns=(*COLUMNS, mood), numbers=6), True, True)
    assert isinstance(found, Altered) and found.schema.column("k").native == "public.mood"


def test_which_table_is_named_and_what_people_may_see() -> None:
    for sql, table in (
        ("alter table Item add c int", TableId("", "item")),
        ('ALTER TABLE shop."Item" * ADD c int;', TableId("shop", "Item")),
        ("DROP TABLE item", None),
        ("ALTER TABLE item ADD c int; DROP TABLE item", None),
        ("ALTER TABLE", None),
    ):
        assert table_of(sql) == table, sql
    assert shown("ALTER TABLE item ADD c text DEFAULT 'it''s'") == "ALTER TABLE item ADD c text DEFAULT '…'"
