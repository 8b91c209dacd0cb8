"""Checks behind statements that make, drop and enforce them, where statement and catalogue say the same."""

from __future__ import annotations

from dataclasses import replace

import pytest

from anabranch.capture.beside import check_that_goes
from anabranch.connectors.mysql.source.check_clauses import NOT_KNOWN, NOT_SHOWN, OTHERWISE
from anabranch.connectors.mysql.source.conditions import of_mariadb
from anabranch.connectors.mysql.source.statements import MysqlDialect
from anabranch.contracts import AlteringDialect, ForeseeingDialect
from anabranch.model.check_changes import NOT_ENFORCED
from anabranch.model.column_changes import Altered, ColumnChange
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.schema import Check, Column, Index, TableSchema

INT = LogicalType(Kind.INT32)
COLUMNS = (Column("id", INT, "int", nullable=False), Column("n", INT, "int"))


def check(name: str, text: str) -> Check:
    return of_mariadb(name, text, {column.name: column for column in COLUMNS})


OLD = check("old", "(`n` < 5)")
THEN = TableSchema(TableId("shop", "item"), COLUMNS, ("id",), engine="InnoDB", checks=(OLD,))


def altered(sql: str, *shown: Check, then: TableSchema = THEN) -> Altered | None:
    dialect = MysqlDialect()
    assert isinstance(dialect, AlteringDialect)
    return dialect.altered(f"ALTER TABLE item {sql}", "shop", then, replace(then, checks=shown))


@pytest.mark.parametrize(
    ("sql", "shown"),
    [
        ("ADD CONSTRAINT c CHECK (n > 0)", check("c", "(`n` > 0)")),
        ("ADD CONSTRAINT `C` CHECK (n>-1 AND n<=7) ENFORCED", check("c", "((`n` > -(1)) and (`n` <= 7))")),
        ("ADD CHECK (n > 0)", check("item_chk_1", "(`n` > 0)")),
        ("ADD CONSTRAINT CHECK ((n IS NULL))", check("CONSTRAINT_1", "`n` is null")),
        ("ADD CONSTRAINT IF NOT EXISTS c CHECK (n > 0), COMMENT='x'", check("c", "`n` > 0")),
        ("ADD CONSTRAINT `check` CHECK (n > 0)", check("check", "`n` > 0")),
    ],
)
def test_a_check_comes_that_statement_and_catalogue_say(sql: str, shown: Check) -> None:
    found = altered(sql, OLD, shown)
    assert found is not None and found.schema.checks == (OLD, shown)
    assert ColumnChange.CHECKS in found.kinds


def test_a_check_that_is_not_enforced_refuses_nothing() -> None:
    found = altered("ADD CONSTRAINT c CHECK (SQRT(n) > 0) NOT ENFORCED", OLD, Check("c", "…", refusal=NOT_ENFORCED))
    assert found is not None and found.schema.checks[1] == Check("c", "…", refusal=NOT_ENFORCED) and not found.kinds


def test_a_check_that_is_enforced_later_is_known_by_then() -> None:
    enforced, other = check("c", "(`n` > 0)"), check("c", "(`n` > 7)")
    unasked = replace(enforced, term=None, refusal=NOT_ENFORCED)
    for shown in (unasked, enforced):  # the catalogue may be ahead of the log
        added = altered("ADD CONSTRAINT c CHECK (n > 0) NOT ENFORCED", OLD, shown)
        assert added is not None and added.schema.checks == (OLD, unasked) and not added.kinds
        later = altered("ALTER CHECK c ENFORCED", OLD, enforced, then=added.schema)
        assert later is not None and later.schema.checks == (OLD, enforced) and later.kinds == {ColumnChange.CHECKS}
    ahead = altered("ADD CONSTRAINT c CHECK (n > 0)", OLD, unasked)
    assert ahead is not None and ahead.schema.checks == (OLD, enforced)
    added = altered("ADD CONSTRAINT c CHECK (n > 0) NOT ENFORCED", OLD, other)
    assert added is not None and added.schema.checks[1].refusal == NOT_ENFORCED and not added.kinds
    assert altered("ALTER CHECK c ENFORCED", OLD, other, then=added.schema) is None, "a later one has the name"


def test_what_an_unknown_check_asks_is_not_certain() -> None:
    renamed = check("item2_chk_1", "(`n` < 5)")
    assert altered("ALTER CHECK item2_chk_1 NOT ENFORCED", renamed) is None
    passed = altered("ALTER CHECK other NOT ENFORCED", OLD)
    assert passed is not None and passed.schema is THEN, "all that the job knows is there"
    comes = altered("ALTER CHECK other ENFORCED", OLD, check("other", "(`n` > 0)"))
    assert comes is not None and comes.kinds == {ColumnChange.CHECKS}
    assert comes.schema.checks == (OLD, Check("other", "", refusal=NOT_KNOWN))


@pytest.mark.parametrize(
    ("condition", "shown"),
    [
        ("n < 0.5", "(`n` < 0.5)"),
        ("n - -1 > 0", "((`n` - -(1)) > 0)"),
        ("n--1>0", "((`n` - -(1)) > 0)"),
        ("n /* a, b */ > -12.25 # so", "(`n` > -(12.25))"),
        ("n>=0 AND`n`<>7", "((`n` >= 0) and (`n` <> 7))"),
        ("s IN ('it''s', \"a 'b'\", ',)')", "(`s` in ('it''s','a ''b''',',)'))"),
        ("s <> _utf8mb4'x--y'", "(`s` <> _utf8mb4'x--y')"),
        ("`a b`=1", "(`a b` = 1)"),
        (
            "n > 0 AND (n < 9 AND (n <> 5 OR (n = 5 OR id = 1)))",
            "`n` > 0 and `n` < 9 and (`n` <> 5 or `n` = 5 or `id` = 1)",
        ),
        ("n IN (7)", "(`n` = 7)"),
    ],
)
def test_a_condition_is_read_as_it_is_written(condition: str, shown: str) -> None:
    text = Column("s", LogicalType(Kind.TEXT), "varchar(9)", charset="utf8mb4", collation="utf8mb4_0900_bin")
    then = replace(THEN, columns=(*COLUMNS, text, Column("a b", INT, "int")), checks=())
    made = of_mariadb("c", shown, {column.name: column for column in then.columns})
    assert made.term is not None
    comment = "\n" if "#" in condition else ""
    found = altered(f"ADD CONSTRAINT c CHECK ({condition}{comment})", made, then=then)
    assert found is not None and found.schema.checks == (made,)


def test_one_that_is_not_certain_comes_without_a_meaning() -> None:
    for sql, shown, why in (
        ("CHECK (n > 0)", check("c", "(`n` > 1)"), OTHERWISE),
        ("CHECK (SQRT(n) > 0)", check("c", "(sqrt(`n`) > 0)"), "SQRT(`n`) is not known to mean the same elsewhere"),
    ):
        found = altered(f"ADD CONSTRAINT c {sql}", OLD, shown)
        assert found is not None and ColumnChange.CHECKS in found.kinds
        assert found.schema.checks[1].term is None and why in found.schema.checks[1].refusal


def test_what_the_catalogue_does_not_show_is_waited_for_or_has_gone_by_now() -> None:
    assert altered("ADD CONSTRAINT c CHECK (n > 0)", OLD) is None
    assert altered("ADD CHECK (n > 0)", OLD) is None
    assert altered("DROP CHECK old, ADD CONSTRAINT old CHECK (n < 9)", OLD) is None, "it shows the former one still"
    late = altered("ADD INDEX i (n), ADD CONSTRAINT c CHECK (n > 0)", OLD)
    assert late is not None and late.schema.checks[1].refusal == NOT_SHOWN and len(late.kinds) == 2
    gone = altered("ADD CONSTRAINT c CHECK (n > 0)", OLD, check("other", "(`n` > 3)"))
    assert gone is not None and gone.schema is THEN and not gone.kinds


def test_checks_go_by_their_name_or_it_is_not_certain_which() -> None:
    for sql in ("DROP CHECK old", "DROP CONSTRAINT OLD", "DROP CONSTRAINT IF EXISTS `old`", "DROP CHECK old, FORCE"):
        found = altered(sql)
        assert found is not None and found.schema.checks == () and found.kinds == {ColumnChange.CHECKS}, sql
    anew = altered("DROP CHECK old, ADD CONSTRAINT old CHECK (n < 9)", check("old", "(`n` < 9)"))
    assert anew is not None and anew.schema.checks == (check("old", "(`n` < 9)"),)
    unknown = altered("DROP CONSTRAINT other", OLD)
    assert unknown is not None and not unknown.kinds, "what the job knows is there"
    assert altered("DROP CONSTRAINT other") is None
    unasked = altered("ALTER CHECK old NOT ENFORCED", OLD)
    assert unasked is not None and unasked.schema.checks == (Check("old", OLD.text, None, NOT_ENFORCED),)


def test_checks_of_columns_that_come_are_those_of_the_statement() -> None:
    new = Column("c", INT, "int")
    shown = tuple(
        of_mariadb(name, text, {"c": new, "n": COLUMNS[1]}) for name, text in (("c", "`c` > 0"), ("d", "`n` < 9"))
    )
    now = replace(THEN, columns=(*COLUMNS, new), checks=(OLD, *shown))
    for sql in (
        "ADD c INT CHECK (c > 0), ADD CONSTRAINT d CHECK (n < 9)",
        "ADD COLUMN (c INT CONSTRAINT c CHECK (c > 0)), ADD CONSTRAINT `d` CHECK (n < 9) ENFORCED",
        "ADD c INT NULL CHECK (c > 0) COMMENT '', ADD CHECK (n < 9)",
    ):
        found = MysqlDialect().altered(f"ALTER TABLE item {sql}", "shop", THEN, now)
        assert found is not None and found.schema.checks == (OLD, *shown), sql
        assert found.kinds == {ColumnChange.ADD, ColumnChange.CHECKS}
    gone = MysqlDialect().altered("ALTER TABLE item DROP CONSTRAINT old, DROP COLUMN n", "shop", THEN, THEN)
    assert gone is not None and gone.kinds == {ColumnChange.DROP, ColumnChange.CHECKS}, "it names the column"
    assert MysqlDialect().altered("ALTER TABLE item DROP COLUMN n", "shop", THEN, THEN) is None


def test_names_of_checks_that_may_go_are_told() -> None:
    facts = MysqlDialect().facts(
        "ALTER TABLE item DROP CHECK a, DROP CONSTRAINT IF EXISTS b, ALTER CHECK c ENFORCED", ""
    )
    assert facts.gone_checks == ("a", "b", "c")


def test_an_index_of_the_name_is_no_answer_for_a_check() -> None:
    named = replace(THEN, indexes=(Index("old", ("n",)), Index("i", ("n",))))
    for sql, is_certain in (
        ("CHECK old", False),
        ("CONSTRAINT old", False),
        ("CHECK i", False),
        ("CONSTRAINT i", True),
    ):
        facts = MysqlDialect().facts(f"ALTER TABLE item DROP {sql}", "shop")
        assert (check_that_goes(facts, named) == "") is is_certain, sql


def test_a_plan_has_the_check_of_the_statement_alone() -> None:
    dialect, sql = MysqlDialect(), "ALTER TABLE item ADD CHECK (n > 0), DROP CHECK old"
    assert isinstance(dialect, ForeseeingDialect)
    foreseen = dialect.foreseen(sql, "shop", THEN)
    assert foreseen is not None and [one.name for one in foreseen.checks] == ["item_chk_1"]
    found = dialect.altered(sql, "shop", THEN, foreseen)
    assert found is not None and found.schema.checks == foreseen.checks
