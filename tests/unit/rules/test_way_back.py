"""The way back of a job, by definitions alone: what goes back and how, and every reason why something does not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from anabranch.config import load_job
from anabranch.connectors.mysql.source.typemap import spelled as mysql_spelled
from anabranch.connectors.mysql.target.typemap import MysqlTypes
from anabranch.connectors.postgresql.source.typemap import spelled as postgresql_spelled
from anabranch.connectors.postgresql.target.typemap import PostgresTypes
from anabranch.contracts import ValueRules
from anabranch.model.checks import CheckVerdict
from anabranch.model.datatype import Kind, LogicalType, Special
from anabranch.model.ids import TableId
from anabranch.model.schema import Column, ForeignKey, TableSchema
from anabranch.rules.rule_set import RuleSet
from anabranch.rules.standing_types import chosen
from anabranch.rules.way_back import Ends, WayBack, way_back

HEAD = 'name = "shop"\n[source]\nurl = "mysql://u:p@h"\n[target]\nurl = "postgresql://u:p@h/d"\n'
RULES = '[[rules]]\ninclude = ["shop.*"]\ntarget = "public.{table}"\n'
ID = Column("id", LogicalType(Kind.UINT32), "int(10) unsigned", nullable=False)
NAME = Column("name", LogicalType(Kind.TEXT, length=50), "varchar(50)", nullable=False)
NOTE = Column("note", LogicalType(Kind.TEXT, length=9), "varchar(9)")
ITEMS = TableSchema(TableId("shop", "items"), (ID, NAME, NOTE), primary_key=("id",))
BIGINT = LogicalType(Kind.INT64, native="bigint")
MADE = TableSchema(
    TableId("public", "items"),
    (
        Column("id", BIGINT, "bigint", nullable=False),
        Column("name", LogicalType(Kind.TEXT, length=50), "character varying(50)", nullable=False),
        Column("note", LogicalType(Kind.TEXT, length=9), "character varying(9)"),
    ),
    primary_key=("id",),
)


def turned(
    tmp_path: Path,
    *tables: TableSchema,
    text: str = "",
    rules: str = RULES,
    made: tuple[TableSchema, ...] = (),
    **more: object,
) -> WayBack:
    (tmp_path / "job.toml").write_text(HEAD + rules + text)
    config = load_job(tmp_path / "job.toml", {})
    there = PostgresTypes()
    ends = Ends({one.id: one for one in tables}, {one.id: one for one in made}, there, MysqlTypes(), **more)  # type: ignore[arg-type]  # by name
    return way_back(config, RuleSet(config, there), ends)


def refused(found: WayBack) -> Mapping[str, str]:
    assert all(one.hint for one in found.refused), "each says what to do"
    return {f"{one.check} {one.table}".strip(): one.message for one in found.refused}


def test_a_table_of_which_it_is_not_certain_what_is_left_out_does_not_go_back(tmp_path: Path) -> None:
    found = refused(turned(tmp_path, ITEMS, made=(MADE,), altered=frozenset((ITEMS.id,))))
    assert (
        list(found) == ["reverse.columns shop.items"]
        and "has not come there yet" in found["reverse.columns shop.items"]
    )
    assert not refused(turned(tmp_path, ITEMS, made=(MADE,)))


def entry(settings: str) -> str:
    return f'[[tables]]\nname = "shop.items"\n{settings}\n'


def test_names_are_turned_round_and_types_chosen_by_what_stands(tmp_path: Path) -> None:
    made = replace(
        MADE, columns=(*MADE.columns[:2], replace(MADE.columns[2], name="remark"), Column("seen", BIGINT, "bigint"))
    )
    found = turned(tmp_path, ITEMS, text=entry('columns.rename = { note = "remark" }'), made=(made,))
    (table,) = found.tables
    assert refused(found) == {}
    assert (table.read, table.written, table.is_made) == (made.id, ITEMS.id, True)
    assert table.rename == {"remark": "note"}
    assert table.types == {"id": "int unsigned"}
    assert table.drop == {"seen": "only the target has it"}
    assert [one.check for one in found.findings if "seen" in one.message] == ["reverse.columns"]


def test_a_column_left_out_needs_a_default_where_rows_come_back(tmp_path: Path) -> None:
    found = turned(tmp_path, ITEMS, text=entry('columns.drop = ["name", "note"]'))
    assert list(refused(found)) == ["reverse.columns shop.items"]
    assert "name is left out, and is NOT NULL without a default" in refused(found)["reverse.columns shop.items"]
    with_default = replace(ITEMS, columns=(ID, replace(NAME, has_default=True, default=""), NOTE))
    found = turned(tmp_path, with_default, text=entry('columns.drop = ["name", "note"]'))
    assert refused(found) == {}
    assert [one.message for one in found.findings if one.check == "reverse.columns"] == [
        "name, note: left out, so rows that are new at the target get the source's default"
    ]


def test_rows_that_cannot_be_told_apart_do_not_go_back(tmp_path: Path) -> None:
    found = turned(tmp_path, replace(ITEMS, primary_key=()), text=entry('where = "id > 5"'))
    assert {*refused(found)} == {"reverse.keys shop.items", "reverse.filters shop.items"}
    assert '[reverse] exclude = ["shop.items"]' in found.refused[0].hint
    found = turned(tmp_path, replace(ITEMS, primary_key=()), text='[reverse]\nexclude = ["shop.it*"]\n')
    assert refused(found) == {} and found.tables == ()
    assert found.left_out == {ITEMS.id: '[reverse] exclude has "shop.it*"'}
    quoted = turned(tmp_path, ITEMS, text='[reverse]\nexclude = ["\\"shop\\".items"]\n')
    assert quoted.left_out == {ITEMS.id: "[reverse] exclude has '\"shop\".items'"}


def test_types_that_lose_something_are_refused_and_wider_ones_told(tmp_path: Path) -> None:
    document = Column("doc", LogicalType(Kind.JSON), "json")
    found = turned(tmp_path, replace(ITEMS, columns=(*ITEMS.columns, document)))
    assert list(refused(found)) == ["reverse.types shop.items"]
    assert "column doc json loses something as jsonb" in refused(found)["reverse.types shop.items"]
    told = [one for one in found.findings if one.verdict is CheckVerdict.WARNING]
    assert [one.names for one in told] == [("shop.items.id",)]
    assert "a value that the source's type does not hold stops the way back" in told[0].message
    kept = turned(
        tmp_path, replace(ITEMS, columns=(*ITEMS.columns, document)), text='[target.options]\njson = "json"\n'
    )
    assert refused(kept) == {}
    accepted = turned(
        tmp_path, replace(ITEMS, columns=(*ITEMS.columns, document)), text='[reverse]\nlossy = "accept"\n'
    )
    assert refused(accepted) == {} and any("loses something" in one.message for one in accepted.findings)


def test_a_type_that_only_refuses_values_loses_none() -> None:
    """They stop the job on the way there, so none of them is at the target."""
    stops = LogicalType(Kind.TIMESTAMP, native="timestamp without time zone", printed=True)
    assert not MysqlTypes().fit(stops, ValueRules()).changes_values
    assert MysqlTypes().fit(LogicalType(Kind.JSON), ValueRules()).changes_values


def test_several_tables_of_one_target_and_several_targets_do_not_go_back(tmp_path: Path) -> None:
    other = replace(ITEMS, id=TableId("shop", "others"))
    found = turned(tmp_path, ITEMS, other, rules='[[rules]]\ninclude = ["shop.*"]\ntarget = "public.all"\n')
    assert refused(found) == {
        "reverse.tables": "shop.items, shop.others go into public.all: nobody can say from which of them a row there is"
    }
    found = turned(tmp_path, ITEMS, text='[[targets]]\nname = "b"\nurl = "postgresql://u:p@h/e"\n')
    assert list(refused(found)) == ["reverse.targets"]
    found = turned(tmp_path, ITEMS, shared={TableId("public", "items")})
    assert "other jobs write to public.items" in refused(found)["reverse.tables shop.items"]


def test_a_parked_table_stays_and_its_children_are_told(tmp_path: Path) -> None:
    key = ForeignKey("of_item", ("id",), ITEMS.id, ("id",))
    child = replace(ITEMS, id=TableId("shop", "parts"), foreign_keys=(key,))
    found = turned(tmp_path, ITEMS, child, parked={ITEMS.id})
    assert [str(one.written) for one in found.tables] == ["shop.parts"]
    assert "parked" in found.left_out[ITEMS.id]
    assert [one.table for one in found.findings if one.check == "reverse.foreign_keys"] == ["shop.parts"]


def test_what_the_source_computes_does_not_go_back(tmp_path: Path) -> None:
    total = Column("total", LogicalType(Kind.INT32), "int(11)", generated=True, expression="`id` + 1")
    made = replace(MADE, columns=(*MADE.columns, Column("total", LogicalType(Kind.INT32), "integer")))
    found = turned(tmp_path, replace(ITEMS, columns=(*ITEMS.columns, total)), made=(made,))
    assert found.tables[0].drop == {"total": "the source computes it itself"}
    assert refused(found) == {}
    keyed = replace(ITEMS, columns=(*ITEMS.columns, total), primary_key=("id", "total"))
    found = turned(tmp_path, keyed, made=(replace(made, primary_key=("id", "total")),))
    assert "column total of the primary key does not go back" in refused(found)["reverse.columns shop.items"]


def test_a_column_that_is_gone_at_the_target_is_refused(tmp_path: Path) -> None:
    found = turned(tmp_path, ITEMS, made=(replace(MADE, columns=MADE.columns[:2]),))
    assert refused(found) == {"reverse.columns shop.items": "the target's public.items has no column note"}


NUMERIC = LogicalType(
    Kind.DECIMAL, precision=20, native="numeric(20,0)", printed=True, specials=(Special.NAN,), scale=0
)
INTERVAL = LogicalType(Kind.INTERVAL, native="interval(0)", printed=True, fraction=0)
CLOCK = LogicalType(Kind.INSTANT, native="timestamp(0) with time zone", printed=True, fraction=0)


@pytest.mark.parametrize(
    ("type", "standing", "choice"),
    [
        (BIGINT, "bigint(20)", ""),
        (BIGINT, "int(10) unsigned", "int unsigned"),
        (LogicalType(Kind.INT16, native="smallint"), "tinyint(1)", "tinyint"),
        (LogicalType(Kind.INT32, native="integer"), "mediumint(9)", "mediumint"),
        (LogicalType(Kind.TEXT, native="text"), "mediumtext", "mediumtext"),
        (LogicalType(Kind.TEXT, native="text"), "tinytext", "varchar(63)"),
        (LogicalType(Kind.BINARY, native="bytea"), "varbinary(16)", "varbinary(16)"),
        (CLOCK, "timestamp", "timestamp"),
        (INTERVAL, "time", "time"),
        (INTERVAL, "time(3)", "time(3)"),
        (NUMERIC, "bigint(20) unsigned", "bigint unsigned"),
        (LogicalType(Kind.INT16, native="smallint"), "year(4)", "year"),
        (LogicalType(Kind.TEXT, length=10), "char(10)", "char(10)"),
        (LogicalType(Kind.TEXT, length=20), "char(10)", "char(10)"),
        (LogicalType(Kind.BINARY, native="bytea"), "binary(16)", "binary(16)"),
        (LogicalType(Kind.TEXT, native="text"), "enum('a','it''s')", "enum"),
        (LogicalType(Kind.TEXT, native="text"), "enum('0','1')", None),
        (LogicalType(Kind.TEXT, native="text"), "set('a','b')", "set"),
        (LogicalType(Kind.TEXT, native="text"), "geometry", None),
    ],
)
def test_types_into_columns_that_stand_at_a_mysql(type: LogicalType, standing: str, choice: str | None) -> None:
    found, why = chosen(MysqlTypes(), Column("c", type, type.native or str(type)), standing)
    assert found == choice, why
    assert found is not None or why


def test_what_is_lost_in_a_column_that_stands_is_told_and_keys_are_refused() -> None:
    text = Column("c", LogicalType(Kind.TEXT, length=10), "character varying(10)")
    assert chosen(MysqlTypes(), text, "char(10)") == ("char(10)", "blanks at the end are lost")
    assert chosen(MysqlTypes(), text, "enum('a')", is_keyed=True, is_key=True)[0] is None


@pytest.mark.parametrize(
    ("type", "standing", "choice"),
    [
        (LogicalType(Kind.INT8), "boolean", "boolean"),
        (LogicalType(Kind.TIMESTAMP), "timestamp with time zone", "timestamptz"),
        (LogicalType(Kind.DURATION), "time without time zone", "time"),
        (LogicalType(Kind.INT32), "bigint", ""),
        (LogicalType(Kind.JSON), "json", "json"),
        (LogicalType(Kind.TEXT), "mood", None),
    ],
)
def test_types_into_columns_that_stand_at_a_postgresql(type: LogicalType, standing: str, choice: str | None) -> None:
    found, why = chosen(PostgresTypes(), Column("c", type, str(type)), standing)
    assert found == choice, why
    assert found is not None or why


def test_types_that_will_not_go_back_are_refused_before_the_target_has_them(tmp_path: Path) -> None:
    """They are read as the target's statements spell them; what goes back is no finding, and nothing is chosen yet."""
    year, place = (
        Column("made", LogicalType(Kind.YEAR), "year(4)"),
        Column("place", LogicalType(Kind.GEOMETRY), "point"),
    )
    took = Column("took", LogicalType(Kind.DURATION, fraction=0), "time")
    found = turned(tmp_path, replace(ITEMS, columns=(*ITEMS.columns, year, took, place)), spelled=postgresql_spelled)
    assert refused(found) == {
        "reverse.types shop.items": "column place bytea of the target does not go into point of the source: "
        "point does not hold all that longblob does"
    }
    assert found.tables[0].types == {}


@pytest.mark.parametrize(
    "type", ["int unsigned", "decimal(20,2)", "datetime(3)", "varchar(9)", "enum('a','b9')", "bit(5)", "json"]
)
def test_a_type_of_a_mysql_is_read_as_it_is_spelled(type: str) -> None:
    found = mysql_spelled(type, "mysql")
    assert found is not None and MysqlTypes().fit(found, ValueRules()).native == type


def test_a_type_that_a_database_does_not_know_is_not_read() -> None:
    assert mysql_spelled("xmltype", "mariadb") is None
    assert str(postgresql_spelled("timestamptz(3)")) == "timestamp(3) with time zone"
    assert postgresql_spelled("varchar(7)") == LogicalType(Kind.TEXT, length=7)
