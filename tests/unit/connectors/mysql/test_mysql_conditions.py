"""CHECK clauses, as both servers print them, and what they mean elsewhere: only what is the same everywhere is taken."""

from __future__ import annotations

import pytest

from anabranch.connectors.mysql.source import conditions
from anabranch.connectors.postgresql.target.terms import condition
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.schema import Check, Column, TableSchema
from anabranch.model.term import Term


def text(name: str, collation: str, charset: str = "utf8mb4", native: str = "varchar(20)") -> Column:
    return Column(name, LogicalType(Kind.TEXT, 20), native, charset=charset, collation=collation)


COLUMNS = {
    column.name: column
    for column in (
        Column("a", LogicalType(Kind.UINT32), "int unsigned"),
        Column("b", LogicalType(Kind.DECIMAL, precision=10, scale=2), "decimal(10,2)"),
        Column("f", LogicalType(Kind.FLOAT32), "float"),
        Column("y", LogicalType(Kind.YEAR), "year"),
        text("s", "utf8mb4_0900_bin"),
        text("ci", "utf8mb4_0900_ai_ci"),
        text("padded", "utf8mb4_bin"),
        text("fixed", "utf8mb4_bin", native="char(20)"),
        text("western", "latin1_bin", "latin1", "char(5)"),
        Column("e", LogicalType(Kind.ENUM, values=("x", "y'z")), "enum", collation="utf8mb4_general_ci"),
        Column("d", LogicalType(Kind.DATE), "date"),
        Column("dt", LogicalType(Kind.TIMESTAMP), "datetime"),
        Column("ts", LogicalType(Kind.INSTANT), "timestamp"),
        Column("ts2", LogicalType(Kind.INSTANT), "timestamp"),
        Column("j", LogicalType(Kind.JSON), "json"),
    )
}

TAKEN = {
    "(`a` > 3)": "a > 3",
    "((`a` + 1) > `b`)": "(a::numeric + 1::numeric) > b",
    "`a` - 1 >= 0 and `a` * 2 < 9": "((a::numeric - 1::numeric) >= 0) AND ((a::numeric * 2::numeric) < 9)",
    "((`a` % 2) = 0)": "(a::numeric % 2::numeric) = 0",
    "`a` MOD 10 <> 1": "(a::numeric % 10::numeric) <> 1",
    "(`b` <> -(1.5))": "b <> (-1.5)",
    "`f` <= 1.5 and `f` < `b`": "(f <= 1.5) AND (f < b)",
    "(`a` <=> 3)": "a IS NOT DISTINCT FROM 3",
    "(not((`a` = 1)))": "NOT (a = 1)",
    "`a` is not null or `s` is null": "(NOT (a IS NULL)) OR (s IS NULL)",
    "(`a` in (1,2))": "a IN (1, 2)",
    "`a` not in (1,2)": "NOT (a IN (1, 2))",
    "`a` between 1 and `b` and `a` > 0": "(a BETWEEN 1 AND b) AND (a > 0)",
    "(`e` in (_utf8mb4'x',_utf8mb4'y\\'z'))": "e IN ('x', 'y''z')",
    "`e` <> 'x'": "e <> 'x'",
    "(`s` = _utf8mb4'back\\\\sl%')": "s = 'back\\sl%'",
    "`s` <> ''": "s <> ''",
    "`s` like 'a_%'": "s LIKE 'a_%'",
    "(char_length(`s`) > 2)": "char_length(s) > 2",
    "(length(`s`) < 20)": "octet_length(s) < 20",
    "octet_length(`s`) < `a`": "octet_length(s) < a",
    "char_length(`ci`) > 0": "char_length(ci) > 0",
    "`fixed` = 'ab'": "fixed = 'ab'",
    "`d` between '2000-01-01' and DATE'2030-01-01'": "d BETWEEN '2000-01-01' AND '2030-01-01'",
    "(`dt` >= TIMESTAMP'2000-01-01 10:00:00.5')": None,  # as a constant of a time zone it is read: told
    "`dt` >= '2000-01-01 10:00:00.5'": "dt >= '2000-01-01 10:00:00.5'",
    "`ts` < `ts2`": "ts < ts2",
    "1 = 1": "1 = 1",
}
REFUSED = [
    "`a`", "not `a`", "`a` / 2 > 1", "`a` DIV 2 = 1", "`b` * 2 > 1", "`b` % 2 = 1", "`a` % 0 = 1", "`a` % `a` = 1",
    "`f` + 1 > 2", "`y` > 70", "`a` & 1 = 1", "`a` xor `b`", "(`a` = 1) = 1", "`a` = '1'", "`s` = 1",
    "`ci` = 'x'", "`padded` <> ''", "`s` = 'x '", "`s` > 'a'", "`ci` like 'a%'", "`s` like 'a\\\\_'", "`s` = `e`",
    "`e` = 'X'", "`e` = ''", "`e` > 'x'", "char_length(`western`) > 1", "length(`d`) > 1", "`s` regexp 'a'",
    "`d` > '2000-1-1'", "`d` > '2000-02-30'", "`d` > 20000101", "`d` > `dt`", "`ts` > '2000-01-01'",
    "`d` > cast(`s` as date)", "case when `a` > 1 then `b` else 2 end = 1", "json_valid(`j`)", "`j` = 'x'",
    "coalesce(`a`,0) > 0", "`a` in (select 1)", "`t`.`a` > 1", "`gone` > 1", "`s` collate utf8mb4_bin = 'x'", "`a` >",
    "", "`a` > 1e3", "lower(`s`) = 'x'", "`d` > curdate()", "`a` is true",
]  # fmt: skip


@pytest.mark.parametrize(("clause", "expected"), TAKEN.items())
def test_a_clause_that_means_the_same(clause: str, expected: str | None) -> None:
    check = conditions.of_mariadb("c", clause, COLUMNS)
    if expected is None:
        assert check.term is None and check.refusal
        return
    assert check.term is not None, check.refusal
    assert condition(check.term, {name: name for name in COLUMNS}) == expected


@pytest.mark.parametrize("clause", REFUSED)
def test_a_clause_that_might_mean_something_else(clause: str) -> None:
    check = conditions.of_mariadb("c", clause, COLUMNS)
    assert check.term is None and check.refusal and check.text == clause


def test_mysql_prints_a_clause_as_the_text_of_a_string() -> None:
    told = r"((`s` = _utf8mb4\'it\\\'s\') or (`s` = _utf8mb4\'b\\\\s\'))"
    check = conditions.of_mysql("c", told, COLUMNS)
    assert check.term and [term.of[1].text for term in check.term.of] == ["it's", "b\\s"]


def test_defaults_that_a_target_can_give() -> None:
    instant, date, words = (LogicalType(kind) for kind in (Kind.INSTANT, Kind.DATE, Kind.TEXT))
    found = [
        conditions.default_term(*one)
        for one in (
            ("CURRENT_TIMESTAMP(3)", instant),
            ("current_timestamp()", LogicalType(Kind.TIMESTAMP)),
            ("now()", date),
            ("curdate()", date),
            ("uuid()", words),
            ("uuid()", LogicalType(Kind.BINARY)),
            ("json_array()", LogicalType(Kind.JSON)),
            ("rand()", LogicalType(Kind.FLOAT64)),
            ("uuid()", None),
        )
    ]
    expected = [Term("now", text="3"), Term("now", text="0"), None, Term("today"), Term("uuid"), None]
    assert found == [*expected, Term("text", text="[]"), None, None]


def test_terms_survive_the_trail_and_are_none_of_the_definition() -> None:
    plain = TableSchema(TableId("s", "t"), tuple(COLUMNS.values()))
    check = conditions.of_mariadb("c", "`a` > 3 and `e` in ('x')", COLUMNS)
    first = Column("a", LogicalType(Kind.DATE), "date", default_term=Term("today"), comment="that day")
    full = TableSchema(plain.id, (first, *plain.columns), checks=(check, Check("d", "x", refusal="no")), comment="c")
    again = TableSchema.from_json(full.to_json())
    assert (again.checks, again.columns[0].default_term, again.columns[0].comment) == (
        full.checks,
        Term("today"),
        "that day",
    )
    old = plain.to_json()
    del old["checks"], old["columns"][0]["comment"], old["columns"][0]["default_term"]
    assert TableSchema.from_json(old).same_definition(plain)
    bare = TableSchema(plain.id, (Column("a", LogicalType(Kind.DATE), "date"), *plain.columns))
    assert full.same_definition(bare)


def test_a_term_has_the_operands_of_its_operator() -> None:
    with pytest.raises(ValueError, match="between with 1"):
        Term("between", (Term("today"),))
