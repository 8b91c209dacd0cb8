"""Comments behind statements that change them, of the table and of columns."""

from __future__ import annotations

from dataclasses import replace

import pytest

from anabranch.connectors.mysql.source.statements import MysqlDialect
from anabranch.connectors.mysql.target.altered_comments import with_comment
from anabranch.contracts import AlteringDialect, ForeseeingDialect
from anabranch.model.column_changes import Altered, ColumnChange
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.schema import Column, Index, TableSchema

INT = LogicalType(Kind.INT32)
ID, N = Column("id", INT, "int", nullable=False), Column("n", INT, "int", has_default=True, comment="old")
THEN = TableSchema(TableId("shop", "item"), (ID, N), ("id",), engine="InnoDB", comment="items")


def altered(sql: str, now: TableSchema = THEN) -> Altered | None:
    dialect = MysqlDialect()
    assert isinstance(dialect, AlteringDialect)
    return dialect.altered(f"ALTER TABLE item {sql}", "shop", THEN, now)


@pytest.mark.parametrize(
    ("sql", "comment"),
    [
        ("COMMENT='x'", "x"),
        ("COMMENT 'it''s'", "it's"),
        ('COMMENT = ""', ""),
        ("COMMENT='a', COMMENT='b'", "b"),
        ("ROW_FORMAT=DYNAMIC COMMENT='x' STATS_PERSISTENT=1", "x"),
        ("ADD INDEX i (n) COMMENT 'of the index', COMMENT='x'", "x"),
        ("ADD CONSTRAINT c CHECK (n > 0), COMMENT='x'", "x"),
        ("COMMENT='a \\\\ b'", "of now"),  # what it means depends on the sql_mode
        ("COMMENT='\u00e9'", "of now"),
    ],
)
def test_the_tables_comment_is_as_the_statement_says(sql: str, comment: str) -> None:
    found = altered(sql, replace(THEN, comment="of now"))
    assert found is not None and found.schema.comment == comment and ColumnChange.COMMENTS in found.kinds


def test_a_statement_that_changes_no_comment_changes_nothing() -> None:
    same = altered("COMMENT='items'")
    assert same is not None and same.schema is THEN and not same.kinds
    assert altered("ROW_FORMAT=DYNAMIC") is None
    assert altered("COMMENT='\u00e9'") is None, "the catalogue may not show it yet"


@pytest.mark.parametrize("comment", ["donn\u00e9es", "a \\\\ b"])
def test_indexes_and_keys_are_followed_beside_a_comment_that_the_catalogue_may_not_show_yet(comment: str) -> None:
    """It may be the one of before, said again: then the catalogue never shows another one."""
    keyed = replace(THEN, indexes=(Index("uk", ("n",), unique=True),), comment="of before")
    dialect = MysqlDialect()
    for sql, indexes, kind in (
        (f"DROP INDEX uk, COMMENT='{comment}'", (), ColumnChange.UNIQUE_KEYS),
        (f"COMMENT='{comment}', DROP INDEX uk", (), ColumnChange.UNIQUE_KEYS),
        (f"ADD INDEX i (n), COMMENT='{comment}'", ("uk", "i"), ColumnChange.INDEXES),
    ):
        found = dialect.altered(f"ALTER TABLE item {sql}", "shop", keyed, keyed)
        assert found is not None and found.kinds == {kind} and found.schema.comment == "of before"
        assert tuple(index.name for index in found.schema.indexes) == indexes


def test_a_columns_comment_is_as_the_statement_says_and_not_as_a_later_one() -> None:
    now = replace(THEN, columns=(ID, replace(N, comment="later")), comment="later")
    found = altered("MODIFY n INT COMMENT 'new', COMMENT='orders'", now)
    assert found is not None and found.kinds == {ColumnChange.COMMENTS}
    assert (found.schema.column("n").comment, found.schema.comment) == ("new", "orders")
    gone = altered("MODIFY n INT", now)
    assert gone is not None and gone.schema.column("n").comment == "" and gone.schema.comment == "items"
    given = altered("ALTER n SET DEFAULT 5", replace(now, columns=(ID, replace(N, default="5", comment="later"))))
    assert given is not None and given.schema.column("n").comment == "old" and given.kinds == {ColumnChange.DEFAULT}


def test_a_column_that_comes_and_gets_another_comment_is_followed_where_both_statements_are_read_late() -> None:
    now = replace(THEN, columns=(ID, N, Column("c", INT, "int", has_default=True, comment="later")))
    dialect = MysqlDialect()
    come = dialect.altered("ALTER TABLE item ADD c INT COMMENT 'first'", "shop", THEN, now)
    assert come is not None and come.schema.column("c").comment == "first"
    then = dialect.altered("ALTER TABLE item MODIFY c INT COMMENT 'later'", "shop", come.schema, now)
    assert then is not None and then.kinds == {ColumnChange.COMMENTS} and then.schema == now
    unsaid = dialect.altered("ALTER TABLE item ADD c INT COMMENT '\u00e9'", "shop", THEN, now)
    assert unsaid is not None and unsaid.schema.column("c").comment == "later"


def test_a_statement_that_nobody_has_run_has_its_comment() -> None:
    dialect = MysqlDialect()
    assert isinstance(dialect, ForeseeingDialect)
    found = dialect.foreseen("ALTER TABLE item ADD c INT, COMMENT='\u00e9'", "shop", THEN)
    assert found is not None and found.comment == "\u00e9" and found.columns[-1].name == "c"
    alone = dialect.foreseen("ALTER TABLE item COMMENT='x'", "shop", THEN)
    assert alone is not None and alone.comment == "x"


@pytest.mark.parametrize(
    ("line", "behind"),
    [
        ("`n` int DEFAULT NULL", "`n` int DEFAULT NULL COMMENT 'it''s'"),
        ("`n` int DEFAULT NULL COMMENT 'a '' b \\' COMMENT'", "`n` int DEFAULT NULL COMMENT 'it''s'"),
        (
            "`a``b` enum(' COMMENT ''x''') DEFAULT NULL COMMENT 'x' /*!80023 INVISIBLE */",
            "`a``b` enum(' COMMENT ''x''') DEFAULT NULL /*!80023 INVISIBLE */ COMMENT 'it''s'",
        ),
        (
            "`j` longtext DEFAULT ' CHECK (' COMMENT 'x' CHECK (json_valid(`j`))",
            "`j` longtext DEFAULT ' CHECK (' COMMENT 'it''s' CHECK (json_valid(`j`))",
        ),
    ],
)
def test_a_printed_definition_gets_another_comment_and_stays_as_it_is_else(line: str, behind: str) -> None:
    assert with_comment(line, "it's") == behind
    assert with_comment(line, "") == behind.replace(" COMMENT 'it''s'", "")
