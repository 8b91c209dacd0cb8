"""Definitions behind an ALTER TABLE that adds columns: what the statement says and the catalogue has by now, or nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from anabranch.connectors.mysql.source.statements import MysqlDialect
from anabranch.connectors.mysql.source.typemap import NativeType, logical_type
from anabranch.connectors.mysql.source.widened import appends_labels, keeps_labels
from anabranch.contracts import AlteringDialect
from anabranch.model.column_changes import ColumnChange, Untold
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.schema import Check, Column, ForeignKey, Index, TableSchema
from anabranch.rows.log_items import StatementKind

INT, TEXT = LogicalType(Kind.INT32), LogicalType(Kind.TEXT)
ID = Column("id", INT, "int", nullable=False)
V = Column("v", TEXT, "varchar(20)", has_default=True, charset="utf8mb4")
THEN = TableSchema(TableId("shop", "item"), (ID, V), ("id",), version=3, engine="InnoDB")


def int_column(name: str, default: str | None = None, nullable: bool = True, native: str = "int") -> Column:
    return Column(name, INT, native, nullable, has_default=nullable or default is not None, default=default)


def typed(name: str, native: str) -> Column:
    """A nullable column of this type, as the catalogue has it."""
    kind, _, rest = native.split(" ")[0].partition("(")
    sizes = [int(size) for size in rest.split(")")[0].split(",") if size.isdigit()]
    precision, scale = [*sizes, 0, 0][:2]
    type = logical_type(NativeType(kind, native, "utf8mb4", length=precision or None, precision=precision, scale=scale))
    is_text = kind in ("char", "varchar", "enum", "set", "text", "longtext")
    return Column(name, type, native, has_default=True, charset="utf8mb4" if is_text else "")


N = int_column("n", "5", nullable=False)
NOTE = Column("note", TEXT, "text", has_default=True, charset="utf8mb4", comment="new")
NOW = replace(THEN, columns=(N, ID, NOTE, V, int_column("x")), version=1)


def behind(clauses: str, now: TableSchema = NOW) -> list[str] | None:
    dialect = MysqlDialect()
    assert isinstance(dialect, AlteringDialect)
    found = dialect.altered(f"ALTER TABLE shop.item {clauses}", "", THEN, now)
    assert found is None or (found.schema.version, found.schema.primary_key) == (THEN.version, THEN.primary_key)
    return [column.name for column in found.schema.columns] if found else None


@pytest.mark.parametrize(
    ("clauses", "columns"),
    [
        ("ADD COLUMN n INT NOT NULL DEFAULT 5", ["id", "v", "n"]),
        ("ADD `n` INTEGER(11) DEFAULT '5' NOT NULL", ["id", "v", "n"]),
        ("ADD COLUMN N int(9) signed NOT NULL DEFAULT +5 FIRST", ["n", "id", "v"]),
        ("ADD note TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL COMMENT 'a, (b' AFTER `ID`", ["id", "note", "v"]),
        ("ADD COLUMN x INT, ADD COLUMN n INT NOT NULL DEFAULT 5 AFTER x, ALGORITHM=INSTANT, LOCK = NONE",
         ["id", "v", "x", "n"]),
        ("ADD (x INT NULL DEFAULT NULL, n INT NOT NULL DEFAULT 5)", ["id", "v", "x", "n"]),
        ("/*!80000 ADD x INT */", ["id", "v", "x"]),
        ("ADD x INT;", ["id", "v", "x"]),
    ],
)  # fmt: skip
def test_columns_stand_where_the_statement_says(clauses: str, columns: list[str]) -> None:
    assert behind(clauses) == columns


@pytest.mark.parametrize(
    "clauses",
    [
        "ADD COLUMN gone INT",  # the catalogue has it no longer
        "ADD COLUMN v INT",  # it was there before: nothing the log could have
        "ADD COLUMN n INT NOT NULL",  # the catalogue has a default: another statement came
        "ADD COLUMN n INT DEFAULT 5",  # and here it said NULL
        "ADD COLUMN x INT DEFAULT 1",
        "ADD COLUMN x BIGINT",
        "ADD COLUMN x INT UNSIGNED",
        "ADD COLUMN x INT ZEROFILL",
        "ADD COLUMN n INT NOT NULL DEFAULT 6",
        "ADD COLUMN n INT NOT NULL DEFAULT 4.7",
        "ADD COLUMN n INT NOT NULL DEFAULT 0x5",
        "ADD COLUMN note TEXT CHARACTER SET latin1",
        "ADD COLUMN note VARCHAR(20)",
        "ADD COLUMN x INT COMMENT 'a\\', ADD COLUMN n INT COMMENT ''",
        "ADD COLUMN x INT DEFAULT (1)",
        "ADD COLUMN x INT DEFAULT CURRENT_TIMESTAMP",
        "ADD COLUMN x INT DEFAULT 1e3",
        "ADD COLUMN x INT UNIQUE",
        "ADD COLUMN x INT PRIMARY KEY",
        "ADD COLUMN x INT REFERENCES other (id)",
        "ADD COLUMN x INT GENERATED ALWAYS AS (id + 1)",
        "ADD COLUMN x INT AFTER nowhere",
        "ADD COLUMN x INT, ADD FULLTEXT INDEX (x)",
        "ADD COLUMN IF NOT EXISTS x INT",
        "ADD COLUMN x",
        "ADD",
        "ADD COLUMN x INT COMMENT",
        "ALGORITHM=INPLACE",
        "",
    ],
)
def test_what_is_not_certain_is_nothing(clauses: str) -> None:
    assert behind(clauses) is None


def test_what_rows_that_are_there_get_has_to_be_known() -> None:
    """Values that the server computes are its own."""
    for column in (
        replace(int_column("x"), auto_increment=True),
        replace(int_column("x"), default="now()", default_is_expression=True),
        replace(int_column("x"), generated=True),
        replace(int_column("x"), invisible=True),
        replace(int_column("x"), type=None, refusal="not known"),
    ):
        clause = "ADD x INT" + (" NOT NULL" if not column.nullable else "")
        assert behind(clause, replace(NOW, columns=(*THEN.columns, column))) is None


def test_a_table_that_keeps_its_history_goes_another_way() -> None:
    then = replace(THEN, row_end="row_end")
    assert MysqlDialect().altered("ALTER TABLE shop.item ADD x INT", "", then, NOW) is None
    assert MysqlDialect().altered("CREATE INDEX x ON shop.item (x)", "", THEN, NOW) is None
    assert MysqlDialect().altered("ALTER IGNORE TABLE shop.item ADD x INT", "", THEN, NOW) is None
    assert MysqlDialect().altered("ALTER ONLINE TABLE shop.item ADD x INT", "", THEN, NOW) is not None
    assert MysqlDialect().altered("ALTER ONLINE IGNORE TABLE shop.item ADD x INT", "", THEN, NOW) is None


@pytest.mark.parametrize(
    ("clause", "native", "default", "is_known"),
    [
        ("DECIMAL", "decimal(10,0)", None, True),
        ("DEC(7)", "decimal(7,0)", None, True),
        ("DECIMAL(7)", "decimal(7,2)", None, False),
        ("CHARACTER VARYING(9)", "varchar(9)", None, True),
        ("CHAR VARYING(9)", "varchar(8)", None, False),
        ("CHARACTER(9)", "varchar(9)", None, False),
        ("DOUBLE PRECISION", "double", None, True),
        ("DOUBLE PRECISION(7,2)", "double(7,2)", None, True),
        ("NUMERIC(9, 2) UNSIGNED DEFAULT 1.50", "decimal(9,2) unsigned", "1.50", True),
        ("DECIMAL(9,2) DEFAULT 1.5", "decimal(9,3)", "1.500", False),
        ("ENUM('a','b''c') DEFAULT 'a'", "enum('a','b''c')", "a", True),
        ("ENUM('b','a')", "enum('a','b')", None, False),
        ("CHAR DEFAULT ''", "char(1)", "", True),
        ("VARCHAR(20) DEFAULT 'x'", "varchar(20)", "x", True),
        ("VARCHAR(20) DEFAULT 'x'", "varchar(20)", "y", False),
        ("VARCHAR(20) CHARSET utf8mb4 COLLATE = utf8mb4_bin", "varchar(20)", None, True),
        ("BOOL DEFAULT TRUE", "tinyint(1)", "1", True),
        ("DATETIME(3)", "datetime", None, False),
        ("DATE DEFAULT '2024-2-29'", "date", "2024-02-29", False),
        ("YEAR DEFAULT 2024", "year", "2024", True),
        ("YEAR DEFAULT 2024", "year(4)", "2024", True),
        ("YEAR DEFAULT 70", "year", "1970", False),
        ("YEAR DEFAULT '0'", "year", "0", False),  # 2000
        ("ENUM('2','1') DEFAULT '1'", "enum('2','1')", "1", True),
        ("ENUM('2','1') DEFAULT 1", "enum('2','1')", "1", False),  # the first label
        ("BIGINT DEFAULT (uuid_short()) NULL", "bigint", None, False),
        ("BIGINT DEFAULT (1 + 1)", "bigint", "2", False),
        ("DECIMAL(9,2) DEFAULT 'abc'", "decimal(9,2)", "0.00", False),
        ("BIT(3)", "bit(3)", None, True),
        ("BIT(3) DEFAULT 5", "bit(3)", "000", False),  # b'000' has been set since
        ("TIMESTAMP DEFAULT '2024-01-01 00:00:00'", "timestamp", "2024-01-01 00:00:00.000000+00", False),
        ("DATETIME DEFAULT '2024-01-01 00:00:00'", "datetime", "2024-01-01 00:00:00.000000", True),
        ("VARCHAR(20) DEFAULT 'a\\b'", "varchar(20)", "a\\b", False),
        ("ENUM('a\\b')", "enum('a\\b')", None, False),
    ],
)
def test_types_and_defaults_are_those_of_the_catalogue(
    clause: str, native: str, default: str | None, is_known: bool
) -> None:
    column = replace(typed("x", native), default=default)
    found = behind(f"ADD x {clause}", replace(NOW, columns=(*THEN.columns, column)))
    assert found == (["id", "v", "x"] if is_known else None)


def test_a_text_without_a_character_set_is_known_by_the_others_of_its_table() -> None:
    then = replace(THEN, columns=(ID,))
    dialect = MysqlDialect()
    json = Column("j", LogicalType(Kind.TEXT), "longtext", has_default=True, charset="utf8mb4")
    now = replace(NOW, columns=(*NOW.columns, json))
    assert dialect.altered("ALTER TABLE shop.item ADD j JSON", "", then, now) is not None
    assert dialect.altered("ALTER TABLE shop.item ADD note TEXT", "", then, NOW) is None
    found = dialect.altered("ALTER TABLE shop.item ADD note TEXT CHARACTER SET utf8mb4", "", then, NOW)
    assert found is not None and found.schema.columns == (ID, NOTE)


A = int_column("a")
DROPPED = replace(
    THEN,
    columns=(ID, V, A, N, replace(int_column("twice"), generated=True, expression="n * 2", computed_from=("n",))),
    indexes=(Index("by_v", ("v",)), Index("by_n", ("id", "a"), prefixes=(None, None)), Index("u", ("n", "id"), True)),
    checks=(Check("small", "(`n` < 9)"),),
)


@pytest.mark.parametrize(
    ("clauses", "columns", "indexes"),
    [
        ("DROP COLUMN v", ["id", "a", "n", "twice"], [("by_n", ("id", "a")), ("u", ("n", "id"))]),
        ("DROP `A`, ALGORITHM=INSTANT", ["id", "v", "n", "twice"], [("by_v", ("v",)), ("by_n", ("id",)), ("u", ("n", "id"))]),
        ("DROP COLUMN v RESTRICT", ["id", "a", "n", "twice"], [("by_n", ("id", "a")), ("u", ("n", "id"))]),
        ("DROP v cascade", ["id", "a", "n", "twice"], [("by_n", ("id", "a")), ("u", ("n", "id"))]),
        ("DROP a, ADD COLUMN x INT AFTER id, DROP COLUMN v", ["id", "x", "n", "twice"],
         [("by_n", ("id",)), ("u", ("n", "id"))]),
    ],
)  # fmt: skip
def test_columns_that_are_dropped_need_no_catalogue(
    clauses: str, columns: list[str], indexes: list[tuple[str, tuple[str, ...]]]
) -> None:
    """It may have such a column again by now."""
    found = MysqlDialect().altered(f"ALTER TABLE item {clauses}", "shop", DROPPED, NOW)
    assert found is not None and [column.name for column in found.schema.columns] == columns
    assert [(index.name, index.columns) for index in found.schema.indexes] == indexes
    assert found.kinds == {ColumnChange.DROP} | ({ColumnChange.ADD} if "ADD" in clauses else set())


@pytest.mark.parametrize(
    "clauses",
    [
        "DROP COLUMN nowhere",
        "DROP COLUMN id",  # of the key
        "DROP COLUMN n",  # of a unique key, a check, a computed column
        "DROP COLUMN twice",  # computed
        "DROP COLUMN v, ADD COLUMN v INT",  # what stands at the target would not tell which of them it is
        "DROP COLUMN IF EXISTS v",
        "DROP COLUMN v CASCADE x",
        "DROP COLUMN v `cascade`",
        "DROP PRIMARY KEY",
        "DROP COLUMN v, RENAME TO other",
        "DROP COLUMN 'v'",
        "DROP COLUMN v, DROP COLUMN V",
        "DROP",
        "DROP COLUMN",
    ],
)
def test_a_column_on_which_something_depends_is_not_dropped_alone(clauses: str) -> None:
    assert MysqlDialect().altered(f"ALTER TABLE item {clauses}", "shop", DROPPED, NOW) is None


def test_foreign_keys_that_are_not_known_change_nothing_and_others_do() -> None:
    """One that comes is as the statement has it; where one is not read none comes, and those that go do so all the same."""
    other, dialect = TableId("shop", "other"), MysqlDialect()
    key = ForeignKey("k", ("v",), other, ("id",))
    then = replace(DROPPED, foreign_keys=(key,))

    def behind(clauses: str) -> tuple[ForeignKey, ...] | None:
        found = dialect.altered(f"ALTER TABLE item {clauses}", "shop", then, NOW)
        return found.schema.foreign_keys if found else None

    assert behind("DROP FOREIGN KEY nobody") == (key,) and behind("DROP CONSTRAINT IF EXISTS K") == ()
    made = replace(key, name="`l")
    assert behind("ADD CONSTRAINT ```l` FOREIGN KEY by_v (V) REFERENCES shop.other (id) ON DELETE NO ACTION") == (
        key,
        made,
    )
    for unread in (
        "ADD FOREIGN KEY (v) REFERENCES other (id)",  # the catalogue has no name for it
        "ADD CONSTRAINT l FOREIGN KEY IF NOT EXISTS (v) REFERENCES other (id)",
        "ADD CONSTRAINT l FOREIGN KEY (v) REFERENCES other (id) MATCH FULL",
        "ADD CONSTRAINT K FOREIGN KEY (v) REFERENCES other (id)",
        "ADD CONSTRAINT l FOREIGN KEY (nowhere) REFERENCES other (id)",
    ):
        assert behind(unread) is None, unread
        is_anew = "CONSTRAINT K" in unread  # under the name of the one that goes
        expected = (replace(key, name="K"),) if is_anew else ()
        assert behind(f"{unread}, DROP FOREIGN KEY k, ADD INDEX i (v)") == expected, unread
        assert behind(f"DROP FOREIGN KEY k, {unread}") == expected, unread


def test_a_parent_without_a_database_is_in_that_of_the_table() -> None:
    """Whatever the session's is; and a key that the catalogue has with another parent is not certain."""
    key = ForeignKey("l", ("v",), TableId("shop", "other"), ("id",))
    then = replace(DROPPED, foreign_keys=())

    def behind(sql: str, now: TableSchema = NOW) -> tuple[ForeignKey, ...] | None:
        found = MysqlDialect().altered(sql, "elsewhere", then, now)
        return found.schema.foreign_keys if found else None

    adds = "ALTER TABLE shop.item ADD CONSTRAINT l FOREIGN KEY (v) REFERENCES"
    assert behind(f"{adds} other (id)") == (key,)
    there = TableId("elsewhere", "other")
    assert behind(f"{adds} elsewhere.other (id)") == (replace(key, parent=there),)
    assert behind(f"SET STATEMENT lock_wait_timeout=5 FOR {adds} other (id)") == (key,)
    now = replace(NOW, foreign_keys=(replace(key, parent=there),))
    assert behind(f"{adds} other (id)", now) is None
    assert behind(f"{adds} other (id)", replace(NOW, foreign_keys=(key,))) == (key,)
    built = MysqlDialect().built(f"{adds} other (id)", "elsewhere", then, NOW)
    assert built is not None and built.schema.foreign_keys == (key,)


def test_a_column_that_counts_or_belongs_to_a_foreign_key_is_not_dropped_alone() -> None:
    key = ForeignKey("k", ("a",), TableId("shop", "other"), ("id",))
    for then in (
        replace(DROPPED, foreign_keys=(key,)),
        replace(DROPPED, columns=(ID, V, replace(A, auto_increment=True))),
        replace(DROPPED, columns=(ID, V, replace(A, set_by_server=True))),
        replace(DROPPED, partition_key="hash (`a`)"),
    ):
        assert MysqlDialect().altered("ALTER TABLE item DROP a", "shop", then, NOW) is None


@pytest.mark.parametrize(
    ("clause", "native", "fill"),
    [
        ("INT", "int", "0"),
        ("BIGINT UNSIGNED", "bigint(20) unsigned", "0"),
        ("DECIMAL(9,2)", "decimal(9,2)", "0.00"),
        ("DOUBLE", "double", "0"),
        ("VARCHAR(20)", "varchar(20)", ""),
        ("TEXT", "text", ""),
        ("BLOB", "blob", "\\x"),
        ("BINARY(2)", "binary(2)", "\\x0000"),
        ("VARBINARY(2)", "varbinary(2)", "\\x"),
        ("BIT(3)", "bit(3)", "000"),
        ("ENUM('b','a')", "enum('b','a')", "b"),
        ("SET('b','a')", "set('b','a')", ""),
        ("DATE", "date", None),
        ("DATETIME", "datetime", None),
        ("TIMESTAMP", "timestamp", None),
        ("TIME", "time", None),
        ("YEAR", "year(4)", None),
        ("JSON", "json", None),
        ("JSON", "longtext", None),
        ("POINT", "point", None),
        ("UUID", "uuid", None),
    ],
)
def test_what_rows_get_in_a_column_that_is_not_null_and_has_no_default(
    clause: str, native: str, fill: str | None
) -> None:
    column = replace(typed("x", native), nullable=False, has_default=False)
    now = replace(NOW, columns=(*THEN.columns, column))
    found = MysqlDialect().altered(f"ALTER TABLE item ADD x {clause} NOT NULL", "shop", THEN, now)
    assert found is None if fill is None else found is not None and found.untold == Untold(filled=(("x", fill),))


@pytest.mark.parametrize(
    ("clauses", "columns", "indexes"),
    [
        ("RENAME COLUMN v TO w", ["id", "w", "a", "n", "twice"], [("w",), ("id", "a"), ("n", "id")]),
        ("RENAME COLUMN `a` TO `b`, LOCK=NONE", ["id", "v", "b", "n", "twice"], [("v",), ("id", "b"), ("n", "id")]),
        ("CHANGE a x INT(11) NULL", ["id", "v", "x", "n", "twice"], [("v",), ("id", "x"), ("n", "id")]),
        ("CHANGE COLUMN v note VARCHAR(20) DEFAULT NULL COMMENT 'other'", ["id", "note", "a", "n", "twice"],
         [("note",), ("id", "a"), ("n", "id")]),
        ("DROP COLUMN v, RENAME COLUMN a TO b, ADD x INT AFTER b", ["id", "b", "x", "n", "twice"], [("id", "b"), ("n", "id")]),
    ],
)  # fmt: skip
def test_columns_that_are_renamed_keep_their_place(
    clauses: str, columns: list[str], indexes: list[tuple[str, ...]]
) -> None:
    now = replace(NOW, columns=(*NOW.columns, replace(V, name="note")))
    now = replace(now, columns=tuple(column for column in now.columns if column is not NOTE))
    found = MysqlDialect().altered(f"ALTER TABLE item {clauses}", "shop", DROPPED, now)
    assert found is not None and [column.name for column in found.schema.columns] == columns
    assert [index.columns for index in found.schema.indexes] == indexes
    assert ColumnChange.RENAME in found.kinds and len(found.untold.renamed) == 1


@pytest.mark.parametrize(
    "clauses",
    [
        "RENAME COLUMN nowhere TO x",
        "RENAME COLUMN id TO x",
        "RENAME COLUMN n TO x",
        "RENAME COLUMN a TO v",
        "RENAME COLUMN a TO A",
        "RENAME COLUMN a TO v, RENAME COLUMN v TO a",  # what stands at the target would not tell
        "RENAME COLUMN a TO b, ADD COLUMN a INT",
        "RENAME COLUMN a TO b, DROP COLUMN a",
        "RENAME COLUMN a TO b, RENAME TO other",
        "RENAME a TO b",
        "RENAME other",
        "CHANGE a x BIGINT",  # the catalogue has an int
        "CHANGE a x INT DEFAULT 1",
        "CHANGE a x INT NOT NULL",
        "CHANGE a x INT FIRST",
        "CHANGE a x INT AFTER id",
        "CHANGE a gone INT",  # the catalogue has it no longer
        "CHANGE v x INT",
        "CHANGE a x",
        "CHANGE a",
        "CHANGE IF EXISTS a x INT",
    ],
)
def test_another_name_that_is_not_all_of_it_is_nothing(clauses: str) -> None:
    assert MysqlDialect().altered(f"ALTER TABLE item {clauses}", "shop", DROPPED, NOW) is None


K = ColumnChange
WIDE = replace(
    DROPPED,
    columns=(
        ID,
        typed("s", "varchar(20)"),
        replace(typed("d", "decimal(5,2)"), default="1.50"),
        int_column("i", "5"),
        int_column("m", nullable=False),
        typed("t", "text"),
        typed("e", "enum('a','b')"),
        typed("b", "binary(2)"),
    ),
    indexes=(Index("by_s", ("s",)), Index("u", ("m", "id"), True)),
    checks=(),
)


def now_with(*columns: Column) -> TableSchema:
    """The table with some columns as they are by now."""
    named = {column.name: column for column in columns}
    return replace(WIDE, columns=tuple(named.get(column.name, column) for column in WIDE.columns))


@pytest.mark.parametrize(
    ("clauses", "column", "kinds"),
    [
        ("MODIFY s VARCHAR(20) COMMENT 'new'", replace(typed("s", "varchar(20)"), comment="new"), {K.COMMENTS}),
        ("MODIFY i INT(9) DEFAULT 5", int_column("i", "5", native="int(9)"), set()),
        ("MODIFY COLUMN s VARCHAR(40)", typed("s", "varchar(40)"), {K.TYPE}),
        ("MODIFY i BIGINT DEFAULT 5", replace(typed("i", "bigint"), default="5"), {K.TYPE}),
        ("MODIFY i BIGINT NOT NULL", replace(typed("i", "bigint"), nullable=False, has_default=False),
         {K.TYPE, K.NULLABILITY, K.DEFAULT}),
        ("MODIFY d DECIMAL(7,3) DEFAULT 1.5", replace(typed("d", "decimal(7,3)"), default="1.500"), {K.TYPE}),
        ("MODIFY d DECIMAL(7,3) DEFAULT 2", replace(typed("d", "decimal(7,3)"), default="2.000"), {K.TYPE, K.DEFAULT}),
        ("MODIFY t LONGTEXT", typed("t", "longtext"), {K.TYPE}),
        ("MODIFY e ENUM('a','b','c''d')", typed("e", "enum('a','b','c''d')"), {K.TYPE}),
        ("MODIFY i INT NOT NULL DEFAULT 5", int_column("i", "5", nullable=False), {K.NULLABILITY}),
        ("MODIFY s VARCHAR(20) NOT NULL", replace(typed("s", "varchar(20)"), nullable=False, has_default=False),
         {K.NULLABILITY}),
        ("MODIFY s VARCHAR(20) DEFAULT 'x'", replace(typed("s", "varchar(20)"), default="x"), {K.DEFAULT}),
        ("ALTER COLUMN i SET DEFAULT 6", int_column("i", "6"), {K.DEFAULT}),
        ("ALTER i SET DEFAULT NULL", int_column("i"), {K.DEFAULT}),
        ("ALTER i DROP DEFAULT", int_column("i"), {K.DEFAULT}),
        ("ALTER m SET DEFAULT -1", int_column("m", "-1", nullable=False), {K.DEFAULT}),
    ],
)  # fmt: skip
def test_columns_that_are_defined_anew_stay_in_their_place(clauses: str, column: Column, kinds: set[K]) -> None:
    now = now_with(column)
    found = MysqlDialect().altered(f"ALTER TABLE item {clauses}", "shop", WIDE, now)
    assert found is not None and found.kinds == kinds and not found.untold
    assert found.schema.columns == now.columns


def test_a_text_that_is_defined_anew_has_the_collation_of_all_others_or_says_it() -> None:
    s, t = (replace(typed(name, "varchar(9)"), collation="utf8mb4_bin") for name in "st")
    longer = replace(s, native="varchar(19)", type=typed("s", "varchar(19)").type)
    for then, clause, is_certain in (
        (replace(THEN, columns=(ID, s, t)), "MODIFY s VARCHAR(19)", True),
        (replace(THEN, columns=(ID, s, V)), "MODIFY s VARCHAR(19)", False),
        (replace(THEN, columns=(ID, s, V)), "MODIFY s VARCHAR(19) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", True),
        (
            replace(THEN, columns=(ID, s, V)),
            "MODIFY s VARCHAR(19) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci",
            False,
        ),
    ):
        now = replace(then, columns=(ID, longer, then.columns[2]))
        found = MysqlDialect().altered(f"ALTER TABLE item {clause}", "shop", then, now)
        assert found is None or found.kinds == {K.TYPE}
        assert (found is not None) is is_certain


def test_a_column_that_is_renamed_and_defined_anew_is_both() -> None:
    columns = tuple(replace(typed("x", "bigint"), default="5") if c.name == "i" else c for c in WIDE.columns)
    found = MysqlDialect().altered(
        "ALTER TABLE item CHANGE i x BIGINT DEFAULT 5", "shop", WIDE, replace(WIDE, columns=columns)
    )
    assert found is not None and found.kinds == {K.RENAME, K.TYPE} and found.schema.columns == columns
    assert found.untold.renamed == (("i", "x"),)


@pytest.mark.parametrize(
    ("clauses", "column"),
    [
        ("MODIFY s VARCHAR(10)", typed("s", "varchar(10)")),
        ("MODIFY s TEXT", typed("s", "text")),
        ("MODIFY s CHAR(40)", typed("s", "char(40)")),
        ("MODIFY s VARCHAR(40) CHARACTER SET latin1", replace(typed("s", "varchar(40)"), charset="latin1")),
        ("MODIFY s VARCHAR(20) COLLATE utf8mb4_bin", replace(typed("s", "varchar(20)"), collation="utf8mb4_bin")),
        (
            "MODIFY s VARCHAR(20)",
            typed("s", "varchar(20)"),
        ),  # the catalogue may be late, and its table's collation another
        ("MODIFY i INT DEFAULT 5", int_column("i", "5")),
        ("MODIFY s VARCHAR(40) BINARY", typed("s", "varchar(40)")),
        ("MODIFY s VARCHAR(40) COLLATE utf8mb4_bin", typed("s", "varchar(40)")),
        ("MODIFY s VARCHAR(40) FIRST", typed("s", "varchar(40)")),
        ("MODIFY s VARCHAR(40) AFTER d", typed("s", "varchar(40)")),
        ("MODIFY i INT UNSIGNED DEFAULT 5", replace(typed("i", "int unsigned"), default="5")),
        ("MODIFY i SMALLINT DEFAULT 5", replace(typed("i", "smallint"), default="5")),
        ("MODIFY i DECIMAL(20,0) DEFAULT 5", replace(typed("i", "decimal(20,0)"), default="5")),
        ("MODIFY d DECIMAL(6,3) DEFAULT 1.5", replace(typed("d", "decimal(5,3)"), default="1.500")),
        ("MODIFY d DECIMAL(7,1) DEFAULT 1.5", replace(typed("d", "decimal(7,1)"), default="1.5")),
        ("MODIFY d DOUBLE DEFAULT 1.5", replace(typed("d", "double"), default="1.5")),
        ("MODIFY e ENUM('b','a','c')", typed("e", "enum('b','a','c')")),
        ("MODIFY e ENUM('a','x','b')", typed("e", "enum('a','x','b')")),
        ("MODIFY e ENUM('a','x','c')", typed("e", "enum('a','x','c')")),
        ("MODIFY e ENUM('a')", typed("e", "enum('a')")),
        ("MODIFY e SET('a','b','c')", typed("e", "set('a','b','c')")),
        ("MODIFY e ENUM('a','b','c')", typed("e", "enum('a','b','c','d')")),  # the catalogue has more by now
        ("MODIFY b BINARY(4)", typed("b", "binary(4)")),
        ("MODIFY id BIGINT NOT NULL", replace(typed("id", "bigint"), nullable=False, has_default=False)),
        ("MODIFY m INT", int_column("m")),  # of a unique key
        ("MODIFY m BIGINT NOT NULL", replace(typed("m", "bigint"), nullable=False, has_default=False)),
        ("MODIFY i INT AUTO_INCREMENT", replace(int_column("i"), auto_increment=True)),
        ("MODIFY i INT GENERATED ALWAYS AS (id)", replace(int_column("i"), generated=True)),
        ("MODIFY i INT DEFAULT 7", int_column("i", "8")),  # a later statement has changed it again
        ("MODIFY nowhere INT", int_column("i")),
        ("MODIFY i", int_column("i")),
        ("MODIFY IF EXISTS i INT", int_column("i")),
        ("ALTER i SET DEFAULT 7", int_column("i", "8")),
        ("ALTER i SET DEFAULT 7", replace(typed("i", "bigint"), default="7")),
        ("ALTER i SET DEFAULT (7)", int_column("i", "7")),
        ("ALTER i SET DEFAULT 7 + 1", int_column("i", "7")),
        ("ALTER i SET INVISIBLE", replace(int_column("i", "5"), invisible=True)),
        ("ALTER nowhere SET DEFAULT 7", int_column("i", "7")),
        ("ALTER INDEX by_s INVISIBLE", int_column("i")),
        ("ALTER i DROP DEFAULT, ALTER i SET DEFAULT 1", int_column("i", "1")),
    ],
)
def test_what_is_no_widening_and_no_null_or_default_is_nothing(clauses: str, column: Column) -> None:
    assert MysqlDialect().altered(f"ALTER TABLE item {clauses}", "shop", WIDE, now_with(column)) is None


@pytest.mark.parametrize(
    ("labels", "collation", "is_certain"),
    [
        (("new", "paid"), "utf8mb4_general_ci", True),
        (("neu", "bezahlt", "größer", "früher"), "utf8mb4_general_ci", False),  # ß is s, or ss
        (("früher", "später"), "utf8mb4_0900_ai_ci", True),
        (("новый", "оплачен", "新しい", "支払済み"), "utf8mb4_unicode_ci", False),  # one kana may be another
        (("новый", "оплачен", "新", "支払"), "utf8mb4_unicode_ci", True),
        (("x", "X"), "latin1_swedish_ci", False),
        (("x", "X"), "latin1_bin", True),
        (("x", "X"), "binary", True),
        (("e", "\u00e9"), "", False),
        (("M\u00fcller", "Mueller"), "latin1_german2_ci", False),
        (("\u00fc", "y"), "latin1_swedish_ci", False),
        (("\u00e5", "aa"), "utf8mb4_danish_ci", False),
        (("\u00e5", "aa"), "utf8mb4_da_0900_ai_ci", False),
        (("u\u0308", "y"), "utf8mb4_swedish_ci", False),
        (("i", "j"), "utf8mb4_roman_ci", False),
        (("new", "paid"), "latin1_swedish_ci", True),
        (("\u00e5", "aa"), "utf8mb4_uca1400_ai_ci", True),
        (("\u00e5", "aa"), "utf8mb4_unicode_520_ci", True),
        (("\U0001f600", "x"), "utf8mb4_general_ci", False),
        (("a\x01", "a"), "utf8mb4_unicode_ci", False),
    ],
)
def test_labels_that_a_collation_may_take_for_equal_are_not_copied(
    labels: tuple[str, ...], collation: str, is_certain: bool
) -> None:
    """A server that copies its rows for more labels gives them the first of two that it takes for equal."""
    for name, kind in (("enum", Kind.ENUM), ("set", Kind.SET)):
        native = f"{name}({','.join(map(repr, labels))})"
        former = Column("e", LogicalType(kind, values=labels), native, charset="utf8mb4", collation=collation)
        longer = replace(former, type=LogicalType(kind, values=(*labels, "q")))
        assert appends_labels(former, longer) is is_certain
        assert not appends_labels(longer, former) and not appends_labels(former, former)
    assert not keeps_labels(("", "a"), "utf8mb4_bin", is_set=True) and keeps_labels(("", "a"), "", is_set=False)


def test_a_default_that_is_set_is_a_change_of_columns() -> None:
    """Alone and beside what leaves columns as they are: else the table would go on with the former one."""
    facts = MysqlDialect().facts
    for clauses in ("ALTER i SET DEFAULT 5", "ALTER COLUMN i DROP DEFAULT", "ADD INDEX x (i), ALTER `i` SET DEFAULT 5"):
        assert facts(f"ALTER TABLE item {clauses}", "shop").kind is StatementKind.COLUMNS, clauses
    for clauses in ("ALTER INDEX by_s INVISIBLE", "ALTER CHECK c NOT ENFORCED", "ADD INDEX x (i)"):
        assert facts(f"ALTER TABLE item {clauses}", "shop").kind is StatementKind.ALTER, clauses


def test_no_statement_of_a_log_raises() -> None:
    """A TIME as a number, and labels that look like sizes."""
    time = replace(typed("h", "time"), nullable=False, default="00:00:00.000000")
    for former, clause, now in (
        (time, "MODIFY h DECIMAL(10,2) NOT NULL DEFAULT 0", replace(typed("h", "decimal(10,2)"), default="0.00")),
        (typed("h", "enum('2','²')"), "MODIFY h ENUM('2','²','b')", typed("h", "enum('2','²','b')")),
        (replace(typed("h", "double"), default="1e300"), "MODIFY h DECIMAL(9,2)", typed("h", "decimal(9,2)")),
    ):
        then = replace(THEN, columns=(ID, former))
        assert (
            MysqlDialect().altered(f"ALTER TABLE item {clause}", "shop", then, replace(then, columns=(ID, now))) is None
        )


def test_a_column_that_a_check_names_is_not_defined_anew() -> None:
    """A MariaDB drops a check that was written with the column."""
    for checks, found in (((), True), ((Check("c", "(`i` > 0)"),), False)):
        then = replace(THEN, columns=(ID, int_column("i")), checks=checks)
        now = replace(then, columns=(ID, int_column("i", "5")))
        altered = MysqlDialect().altered("ALTER TABLE item MODIFY i INT DEFAULT 5", "shop", then, now)
        assert (altered is not None) is found
