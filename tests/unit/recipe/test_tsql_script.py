"""The deployment script for a SQL Server, held against a parser of T-SQL: a contract, since no such server is at hand."""

from __future__ import annotations

import logging

import pytest
import sqlglot
from sqlglot import exp

from anabranch.model.attunity_options import OPTIONS
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.recipe.tsql_script import GO, Mirror, MirrorColumn, TsqlInstance, problems_of, script_of
from anabranch.recipe.tsql_types import bytes_of, type_of

INT, TEXT = LogicalType(Kind.INT32), LogicalType(Kind.TEXT, 40)


def mirror(
    name: str = "hr.employees", instances: tuple[TsqlInstance, ...] = (), key: tuple[str, ...] = ("id",)
) -> Mirror:
    columns = (MirrorColumn("id", INT, False), MirrorColumn("o'[br]ien", TEXT, True))
    named = instances or (TsqlInstance("hr_employees", ("id", "o'[br]ien")),)
    return Mirror(TableId.parse(name), columns, key, named)


def batches(*mirrors: Mirror) -> list[str]:
    found, lines = list[str](), list[str]()
    for line in script_of("orcl_hr", "CONTOSO\\svc", mirrors):
        if line == GO:
            found.append("\n".join(lines))
            lines = []
        else:
            lines.append(line)
    assert not lines, "the last batch ends, too"
    return found


def parsed(batch: str) -> list[exp.Expression]:
    """Parse a batch. The parser has no DENY, whose words are those of a GRANT."""
    text = batch.replace("DENY INSERT", "GRANT INSERT")
    return [one for one in sqlglot.parse(text, dialect="tsql") if one is not None]


def created(*mirrors: Mirror) -> dict[str, exp.Create]:
    """Return the tables that the script makes, by their names."""
    found = [one for batch in batches(*mirrors) for one in parsed(batch) if isinstance(one, exp.Create)]
    return {f"[{one.this.this.db}].[{one.this.this.name}]": one for one in found if one.kind == "TABLE"}


def test_every_statement_is_t_sql(caplog: pytest.LogCaptureFixture) -> None:
    roles = (TsqlInstance("all_of_it", ("id", "o'[br]ien"), "auditors"), TsqlInstance("ids", ("id",)))
    with caplog.at_level(logging.WARNING):
        every = [one for batch in batches(mirror(instances=roles)) for one in parsed(batch)]
    assert every
    tables = created(mirror())
    assert list(tables) == [
        "[hr].[employees]",
        "[cdc].[xdbcdc_config]",
        "[cdc].[xdbcdc_state]",
        "[cdc].[xdbcdc_trace]",
        "[cdc].[xdbcdc_staged_transactions]",
    ]
    columns = [one.name for one in tables["[hr].[employees]"].find_all(exp.ColumnDef)]
    assert columns == ["id", "o'[br]ien"]


def test_the_script_makes_the_four_groups_in_order() -> None:
    text = "\n".join(batches(mirror(instances=(TsqlInstance("hr_employees", ("id",), "auditors"),))))
    order = [
        "CREATE DATABASE [orcl_hr]",
        "USE [orcl_hr]",
        "EXEC sys.sp_cdc_enable_db",
        "CREATE USER [cdc_service] FOR LOGIN [CONTOSO\\svc]",
        "ALTER ROLE [db_ddladmin] ADD MEMBER [cdc_service]",
        "CREATE SCHEMA [hr] AUTHORIZATION [dbo]",
        "CREATE TABLE [hr].[employees]",
        "PRIMARY KEY CLUSTERED ([id])",
        "DENY INSERT, UPDATE, DELETE ON [hr].[employees] TO [public]",
        "CREATE ROLE [auditors]",
        "GRANT SELECT ON [hr].[employees] ([id]) TO [auditors]",
        "EXEC sys.sp_cdc_enable_table",
        "@role_name = N'auditors'",
        "@supports_net_changes = 1",
        "EXEC sys.sp_cdc_drop_job @job_type = N'capture'",
        "CREATE TABLE [cdc].[xdbcdc_config]",
    ]
    places = [text.index(words) for words in order]
    assert places == sorted(places)


@pytest.mark.parametrize("schema", ["dbo", "DBO", "Dbo"])
def test_the_schema_that_each_database_has_is_not_made(schema: str) -> None:
    assert "CREATE SCHEMA" not in "\n".join(batches(mirror(f"{schema}.t")))


def test_names_are_quoted_wherever_they_stand() -> None:
    text = "\n".join(batches(mirror()))
    assert "[o'[br]]ien] nvarchar(40) NULL" in text
    assert "@captured_column_list = N'[id], [o''[br]]ien]';" in text


@pytest.mark.parametrize("kind", Kind)
def test_every_type_has_one_that_the_parser_knows(kind: Kind) -> None:
    for type in (
        LogicalType(kind),
        LogicalType(kind, printed=True, native="x"),
        LogicalType(kind, 12, 12, 4, 3, ("a",)),
    ):
        native, _ = type_of(type)
        tree = sqlglot.parse_one(f"CREATE TABLE [t] ([c] {native} NULL)", dialect="tsql")
        assert isinstance(tree, exp.Create) and tree.find(exp.DataType) is not None
        size = bytes_of(native)
        assert (size is None) == native.endswith("(max)")


def test_types_are_those_that_hold_the_values() -> None:
    assert type_of(LogicalType(Kind.INT8))[0] == "smallint" and type_of(LogicalType(Kind.UINT64))[0] == "decimal(20, 0)"
    assert type_of(LogicalType(Kind.TEXT, 4001))[0] == "nvarchar(max)"
    assert type_of(LogicalType(Kind.DECIMAL, precision=39, scale=2))[0] == "nvarchar(max)"
    assert type_of(LogicalType(Kind.BIT, 9))[0] == "binary(2)"
    assert type_of(LogicalType(Kind.INSTANT, fraction=6))[0] == "datetimeoffset(6)"
    assert type_of(LogicalType(Kind.TIME))[1], "what is lost is said"


def test_a_key_that_is_too_long_is_none_and_has_no_net_changes() -> None:
    long = MirrorColumn("k", LogicalType(Kind.TEXT, 900), False)
    middle = MirrorColumn("k", LogicalType(Kind.TEXT, 600), False)
    for column, words in ((long, "no primary key, and no net changes"), (middle, "PRIMARY KEY NONCLUSTERED ([k])")):
        text = "\n".join(batches(Mirror(TableId("hr", "t"), (column,), ("k",), (TsqlInstance("hr_t", ("k",)),))))
        assert words in text
        assert f"@supports_net_changes = {int(column is middle)}" in text


@pytest.mark.parametrize(
    ("made", "words"),
    [
        ([mirror("CDC.t")], "is called cdc"),
        ([mirror(instances=(TsqlInstance("i" * 101, ("id",)),))], "longer than 100"),
        ([mirror(instances=tuple(TsqlInstance(f"i{n}", ("id",)) for n in range(3)))], "two capture instances"),
        ([mirror(), mirror("hr.other")], "has the name of one of hr.employees"),
        ([mirror("hr.a\nGO\nb")], "line break"),
        ([mirror(), mirror("HR.Employees", (TsqlInstance("other", ("id",)),))], "no case"),
        ([mirror("hr.a"), mirror("HR.b", (TsqlInstance("b", ("id",)),))], "its schema and hr are one name"),
        ([mirror("dbo.a"), mirror("DBO.b", (TsqlInstance("b", ("id",)),))], "its schema and dbo are one name"),
        (
            [Mirror(TableId("s", "t"), (MirrorColumn("__$SEQVAL", INT, True),), (), ())],
            "like one that a change table has",
        ),
        (
            [Mirror(TableId("s", "t"), (MirrorColumn("__$seqval", INT, True),), (), ())],
            "like one that a change table has",
        ),
        ([Mirror(TableId("s", "t"), tuple(MirrorColumn(n, INT, True) for n in "aA"), (), ())], "by case alone"),
    ],
)
def test_what_a_sql_server_cannot_capture_is_said(made: list[Mirror], words: str) -> None:
    assert any(words in why for _, why in problems_of(made))
    assert list(problems_of([mirror()])) == []


def test_attunitys_table_has_the_columns_of_the_ones_that_a_job_makes() -> None:
    from anabranch.connectors.postgresql.target.change_tables.attunity import TABLES

    there = created(mirror())
    for statement in TABLES:
        tree = sqlglot.parse_one(statement, dialect="postgres")
        if isinstance(tree, exp.Create) and tree.kind == "TABLE":
            name = tree.this.this.name
            columns = [one.name for one in tree.find_all(exp.ColumnDef)]
            assert [one.name for one in there[f"[cdc].[{name}]"].find_all(exp.ColumnDef)] == columns
    assert OPTIONS
