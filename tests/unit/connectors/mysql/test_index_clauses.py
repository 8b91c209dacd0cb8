"""Indexes and unique keys behind statements that make, drop and rename them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from anabranch.connectors.mysql.source.statements import MysqlDialect
from anabranch.contracts import AlteringDialect
from anabranch.model.column_changes import ColumnChange
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.schema import Column, Index, TableSchema
from anabranch.rows.log_items import StatementKind

INT, TEXT = LogicalType(Kind.INT32), LogicalType(Kind.TEXT)
COLUMNS = (
    Column("id", INT, "int", nullable=False),
    Column("v", TEXT, "varchar(20)", has_default=True, charset="utf8mb4"),
    Column("n", INT, "int", has_default=True),
)
KNOWN = (
    Index("by_v", ("v",), prefixes=(None,)),
    Index("one", ("v",), True, prefixes=(None,)),
    Index("low", (), kind="functional", parts=("(lower(`v`))",)),
)
THEN = TableSchema(TableId("shop", "item"), COLUMNS, ("id",), KNOWN, engine="InnoDB")


OF_INDEXES = {ColumnChange.INDEXES, ColumnChange.UNIQUE_KEYS}


def behind(sql: str, now: TableSchema = THEN, then: TableSchema = THEN) -> list[str] | None:
    """Return the indexes behind a statement, `name(columns)`, with - before what is descending, ! behind what is unique, and
    -one where that has gone; None where that is not certain, or none of these goes or comes."""
    dialect = MysqlDialect()
    assert isinstance(dialect, AlteringDialect)
    found = dialect.altered(sql, "shop", then, now)
    if found is None:
        return None
    assert bool(found.kinds & OF_INDEXES) is (found.schema.indexes != then.indexes)
    shown = [index for index in found.schema.indexes if index not in KNOWN[1:]]
    named = [f"{index.name}({_parts(index)}){'!' * index.unique}" for index in shown]
    return named + ["-one"] * (KNOWN[1] not in found.schema.indexes)


def _parts(index: Index) -> str:
    descending = index.descending or (False,) * len(index.columns)
    parts = zip(index.columns, index.prefixes, descending, strict=True)
    return ",".join(f"{'-' * down}{name}{prefix or ''}" for name, prefix, down in parts)


@pytest.mark.parametrize(
    ("sql", "indexes"),
    [
        ("CREATE INDEX i ON item (n)", "by_v(v) i(n)"),
        ("CREATE INDEX `i` USING BTREE ON shop.item (V(3) DESC, N ASC) COMMENT 'x, (y' ALGORITHM=INPLACE;",
         "by_v(v) i(-v3,n)"),
        ("CREATE OR REPLACE INDEX i ON item (n)", "by_v(v) i(n)"),
        ("CREATE OR REPLACE INDEX by_v ON item (n)", "by_v(n)"),
        ("CREATE OR REPLACE INDEX by_v USING BTREE ON item (v)", "by_v(v)"),
        ("CREATE INDEX IF NOT EXISTS by_v ON item (n)", "by_v(v)"),
        ("ALTER TABLE item ADD INDEX i (n) USING BTREE, ADD KEY (v), ADD KEY (v(2)), LOCK=NONE",
         "by_v(v) i(n) v(v) v_2(v2)"),
        ("ALTER TABLE item ADD INDEX IF NOT EXISTS i (n), COMMENT = 'x', ADD UNIQUE u (n)",
         "by_v(v) i(n) u(n)!"),
        ("DROP INDEX BY_V ON item", ""),
        ("DROP INDEX IF EXISTS by_v ON item", ""),
        ("ALTER TABLE item DROP KEY by_v, ADD INDEX by_v (v, n)", "by_v(v,n)"),
        ("ALTER TABLE item RENAME INDEX by_v TO w", "w(v)"),
        ("DROP INDEX one ON item", "by_v(v) -one"),
        ("ALTER TABLE item DROP INDEX never, RENAME KEY one TO two", "by_v(v) two(v)! -one"),
        ("ALTER TABLE item DROP CONSTRAINT One", "by_v(v) -one"),
        ("ALTER TABLE item DROP CONSTRAINT by_v", "by_v(v)"),  # an index is no constraint
        ("ALTER TABLE item ADD UNIQUE KEY w (n, v(3)), ADD UNIQUE INDEX u USING BTREE (v DESC)",
         "by_v(v) w(n,v3)! u(-v)!"),
        ("ALTER TABLE item ADD CONSTRAINT c UNIQUE (n), ADD CONSTRAINT d UNIQUE KEY e (n, v)", "by_v(v) c(n)! e(n,v)!"),
        ("ALTER TABLE item RENAME INDEX by_v TO one, DROP INDEX one", "one(v) -one"),
        ("ALTER TABLE item DROP INDEX one, RENAME INDEX by_v TO one", "one(v) -one"),
        ("ALTER TABLE item RENAME INDEX by_v TO one, RENAME INDEX one TO by_v", "one(v) by_v(v)! -one"),
        ("ALTER TABLE item RENAME INDEX one TO by_v, RENAME INDEX by_v TO one", "one(v) by_v(v)! -one"),
        ("ALTER TABLE item RENAME INDEX by_v TO w, RENAME INDEX one TO by_v", "w(v) by_v(v)! -one"),
        ("ALTER TABLE item RENAME INDEX one TO w, ADD UNIQUE one (n)", "by_v(v) w(v)! one(n)! -one"),
        ("ALTER TABLE item ADD UNIQUE one (n), DROP INDEX one", "by_v(v) one(n)! -one"),
        ("ALTER TABLE item ADD UNIQUE IF NOT EXISTS one (n), DROP INDEX one", "by_v(v) -one"),  # decided by what was before
        ('ALTER TABLE item DROP INDEX "one"', "by_v(v) -one"),  # ANSI_QUOTES
        ("SET STATEMENT lock_wait_timeout=5 FOR ALTER TABLE item DROP INDEX one", "by_v(v) -one"),
        ("SET STATEMENT lock_wait_timeout=5 FOR DROP INDEX one ON item", "by_v(v) -one"),
        ("ALTER TABLE item ADD UNIQUE one (n)", "by_v(v) one(n)! -one"),  # the job's one is of before: it was ignored then
        ("ALTER TABLE item ADD UNIQUE by_v (v)", "by_v(v)!"),
        ("ALTER TABLE item ADD UNIQUE one (v)", "by_v(v)"),
        ("ALTER TABLE item ADD UNIQUE low (n)", "by_v(v) low(n)!"),
        ("ALTER TABLE item DROP INDEX one, COMMENT 'it\\'s'", None),  # where a text ends is not certain
        ("ALTER TABLE item ADD CONSTRAINT c CHECK (n > 0), ADD CONSTRAINT d FOREIGN KEY (n) REFERENCES t (id)", "by_v(v)"),
        ("ALTER TABLE item ADD UNIQUE u (id, n WITHOUT OVERLAPS)", "by_v(v)"),
        ("CREATE OR REPLACE UNIQUE INDEX by_v ON item (n)", "by_v(n)!"),
        ("CREATE OR REPLACE UNIQUE INDEX one ON item (n)", "by_v(v) one(n)! -one"),
        ("CREATE OR REPLACE INDEX one ON item (n)", "by_v(v) one(n) -one"),
        ("CREATE INDEX i ON item ((lower(v)))", "by_v(v)"),
        ("CREATE UNIQUE INDEX i ON item (v)", "by_v(v) i(v)!"),
        ("CREATE FULLTEXT INDEX i ON item (v)", None),
        ("ALTER TABLE item ADD FULLTEXT KEY i (v)", None),
        ("ALTER TABLE item ALTER n SET DEFAULT 5, ADD INDEX i (n)", None),  # the catalogue has another default
        ("CREATE INDEX i ON item (later)", None),  # a definition of before
        ("ALTER TABLE item DROP COLUMN n, DROP INDEX by_v", ""),
        ("ALTER TABLE item DROP COLUMN n, DROP INDEX one", "by_v(v) -one"),
        ("ALTER TABLE item DROP COLUMN n, ADD INDEX i ((lower(v)))", None),
        ("ALTER TABLE item DROP COLUMN n, ADD UNIQUE INDEX i (v)", "by_v(v) i(v)!"),
        ("ALTER TABLE item DROP COLUMN v", None),  # a unique key is over it
        ("ALTER TABLE item DROP COLUMN n, DROP CONSTRAINT by_v", None),
        ("ALTER TABLE item DROP COLUMN n, ADD INDEX i (n)", None),
    ],
)  # fmt: skip
def test_what_a_statement_makes_of_indexes(sql: str, indexes: str | None) -> None:
    assert behind(sql) == (None if indexes is None else indexes.split())


@pytest.mark.parametrize(
    ("sql", "is_certain"),
    [
        ("CREATE INDEX i ON item (n)", True),
        ("ALTER TABLE item DROP KEY by_v, ADD INDEX i (n), COMMENT = 'x'", True),
        ("ALTER TABLE item DROP INDEX One, ADD INDEX i (n)", False),
        ("ALTER TABLE item ADD INDEX i (n), RENAME KEY `one` TO two", False),
        ("ALTER TABLE item ADD INDEX i (n), ADD UNIQUE w (n)", False),
        ("ALTER TABLE item ADD CONSTRAINT w UNIQUE (n), ADD INDEX i (n)", False),
        ("ALTER TABLE item DROP CONSTRAINT one, ADD INDEX i (n)", False),
        ("DROP INDEX one ON item", False),
        ("CREATE UNIQUE INDEX w ON item (n)", False),
        ("ALTER TABLE item DROP COLUMN n, ADD UNIQUE w (v)", False),
        ("CREATE OR REPLACE INDEX one ON item (n)", False),
    ],
)
def test_a_unique_key_of_a_table_without_a_primary_one_is_compared_as_ever(sql: str, is_certain: bool) -> None:
    """It tells rows apart: the table would go on by a key that the source has no more."""
    keyless = replace(THEN, primary_key=())
    assert (behind(sql, keyless, keyless) is not None) is is_certain
    assert behind(sql) is not None, "with a primary key it tells no row apart"


def test_the_catalogue_knows_what_the_statement_does_not_say() -> None:
    """A server may take the beginning of a column, or another name; what it has made of the index since is not its affair."""
    now = replace(THEN, indexes=(*KNOWN, Index("n_3", ("n",), prefixes=(None,)), Index("i", ("v",), prefixes=(7,))))
    assert behind("ALTER TABLE item ADD KEY (n), ADD INDEX i (v)", now) == ["by_v(v)", "n_3(n)", "i(v7)"]
    other = replace(THEN, indexes=(*KNOWN, Index("i", ("v",), prefixes=(7,))))
    assert behind("CREATE INDEX i ON item (n)", other) == ["by_v(v)", "i(n)"]


@pytest.mark.parametrize(
    ("sql", "kind", "indexes"),
    [
        ("CREATE INDEX i ON t (n)", StatementKind.ALTER, True),
        ("DROP INDEX i ON t", StatementKind.ALTER, True),
        ("CREATE UNIQUE INDEX i ON t (n)", StatementKind.ALTER, True),
        ("DROP INDEX `PRIMARY` ON t", StatementKind.COLUMNS, False),
        ("ALTER TABLE t ADD KEY (n)", StatementKind.ALTER, True),
        ("ALTER TABLE t COMMENT = 'x', RENAME KEY a TO b", StatementKind.ALTER, True),
        ("ALTER TABLE t ADD UNIQUE KEY (n)", StatementKind.ALTER, True),
        ("ALTER TABLE t ADD KEY (n), DROP PRIMARY KEY", StatementKind.COLUMNS, False),
        ("SET STATEMENT max_statement_time = 5 FOR CREATE INDEX i ON t (n)", StatementKind.ALTER, True),
        ("SET STATEMENT max_statement_time = 5 FOR DROP TABLE t", StatementKind.DROP, False),
    ],
)
def test_statements_about_indexes_are_told_apart(sql: str, kind: StatementKind, indexes: bool) -> None:
    found = MysqlDialect().facts(sql, "shop")
    assert (found.kind, found.indexes) == (kind, indexes)


@pytest.mark.parametrize(
    ("sql", "shown", "indexes"),
    [
        ("ADD UNIQUE (n)", [Index("n", ("n",), True)], "by_v(v) n(n)!"),
        ("ADD UNIQUE (n)", [Index("n", ("n",)), Index("n_2", ("n",), True)], "by_v(v)"),
        ("ADD UNIQUE (n)", [Index("other", ("n",), True)], "by_v(v)"),  # n has gone by now, and a later one is there
        ("ADD UNIQUE (n)", [Index("n", ("n", "v"), True)], "by_v(v)"),
        ("ADD UNIQUE (n)", [], None),  # the catalogue may be late
        ("ADD UNIQUE (v(5))", [Index("v", ("v",), True, prefixes=(3,))], "by_v(v)"),
        ("ADD UNIQUE u (v)", [Index("u", ("v",), True, prefixes=(3,))], "by_v(v) u(v)!"),
        ("ADD CONSTRAINT UNIQUE (n), ADD UNIQUE (n, v(3))",
         [Index("n", ("n",), True), Index("n_2", ("n", "v"), True, prefixes=(None, 3))], "by_v(v) n(n)! n_2(n,v3)!"),
        ("RENAME INDEX by_v TO n, ADD UNIQUE (n)", [Index("n", ("v",)), Index("n_2", ("n",), True)], "n(v) n_2(n)!"),
        ("DROP INDEX one, ADD UNIQUE (n)", [Index("x", ("n",), True)], "by_v(v) -one"),
        ("ADD UNIQUE IF NOT EXISTS d (n)", [Index("d", ("n",))], "by_v(v)"),  # it was there, and the job has not followed it
        ("ADD UNIQUE IF NOT EXISTS d (n)", [Index("d", ("n",), True)], "by_v(v) d(n)!"),
    ],
)  # fmt: skip
def test_a_unique_key_has_the_name_that_it_got_from_the_statement(
    sql: str, shown: list[Index], indexes: str | None
) -> None:
    """One that the job knew by another name, or that never was there, would refuse rows when it has long gone."""
    known = [index for index in KNOWN if index.name not in [one.name for one in shown]]
    made = [replace(one, prefixes=one.prefixes or (None,) * len(one.columns)) for one in shown]
    now = replace(THEN, indexes=(*known, *made))
    assert behind(f"ALTER TABLE item {sql}", now) == (None if indexes is None else indexes.split())


@pytest.mark.parametrize(
    ("sql", "gone"),
    [
        ("ALTER TABLE t DROP INDEX u, RENAME KEY a TO b, ADD UNIQUE c (n), DROP CONSTRAINT IF EXISTS d", "u a d"),
        ("DROP INDEX IF EXISTS u ON t", "u"),
        ("CREATE OR REPLACE UNIQUE INDEX u ON t (n)", "u"),
        ("CREATE UNIQUE INDEX u ON t (n) COMMENT 'it\\'s'", ""),
        ("SET STATEMENT lock_wait_timeout=5 FOR ALTER TABLE t DROP KEY u", "u"),
        ("ALTER TABLE t COMMENT 'it\\', DROP INDEX u, COMMENT ''", "u"),  # NO_BACKSLASH_ESCAPES
        ("ALTER TABLE t COMMENT 'drop it\\'s index u'", ""),
    ],
)
def test_names_of_indexes_that_a_statement_takes_away(sql: str, gone: str) -> None:
    assert MysqlDialect().facts(sql, "shop").gone_indexes == tuple(gone.split())
