"""MySQL and MariaDB: definitions as information_schema has them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from anabranch import connectors
from anabranch.connectors.mysql.source.positions import place_of
from anabranch.contracts import NamingCatalog
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId
from anabranch.model.schema import Action, Column, TableSchema
from anabranch.testing.databases import Database
from anabranch.testing.features import knows, takes
from anabranch.testing.servers import Server

pytestmark = pytest.mark.every_server
Make = Callable[[Server], Database]


def endpoint_of(server: Server) -> Endpoint:
    return Endpoint(server.name, server.host, server.port, server.user, server.password)


def tables_of(*databases: Database) -> dict[TableId, TableSchema]:
    names = [database.name for database in databases]
    with closing(connectors.source(endpoint_of(databases[0].server)).catalog()) as catalog:
        found = catalog.tables(lambda table: table.schema in names)
        assert isinstance(catalog, NamingCatalog) and catalog.named(found) == found
        return found


def table_of(database: Database, name: str = "t") -> TableSchema:
    return tables_of(database)[TableId(database.name, name)]


def test_tables_are_read_by_just_their_names(mysql_family: Server, source_database: Make) -> None:
    """Not those of other names that the server takes for equal, nor views, nor the server's own."""
    database = source_database(mysql_family)
    database.execute("CREATE TABLE t (id int)", "CREATE TABLE other (id int)", "CREATE VIEW v AS SELECT id FROM t")
    others = [TableId(database.name, name) for name in ("T", "v", "gone")]
    with closing(connectors.source(endpoint_of(mysql_family)).catalog()) as catalog:
        assert isinstance(catalog, NamingCatalog)
        assert set(catalog.named((TableId(database.name, "t"), *others))) == {TableId(database.name, "t")}
        assert catalog.named((TableId("mysql", "user"), TableId("nowhere", "t"))) == {} == catalog.named(())


# column type, DEFAULT clause -> the default in text form; None = NULL, ... = an expression
DEFAULTS: list[tuple[str, str, object]] = [
    ("int NOT NULL", "7", "7"),
    ("int", "-5", "-5"),
    ("int(5) unsigned zerofill", "3", "3"),
    ("bigint unsigned", "18446744073709551615", "18446744073709551615"),
    ("decimal(10,2)", "1.5", "1.50"),
    ("decimal(10,0)", "0", "0"),
    ("double", "0.5", "0.5"),
    ("varchar(20)", "'it''s \\\\ x'", "it's \\ x"),
    ("varchar(20) NOT NULL", "'NULL'", "NULL"),
    ("varchar(20)", "''", ""),
    ("varchar(30)", "'current_timestamp()'", "current_timestamp()"),
    ("varchar(9)", "'a\\nb'", "a\nb"),
    ("varchar(9) CHARACTER SET latin1", "'ä'", "ä"),
    ("varchar(9)", "NULL", None),
    ("enum('a','b\\\\c')", "'b\\\\c'", "b\\c"),
    ("set('p','q','r')", "'p,r'", "p,r"),
    ("date", "'2020-02-03'", "2020-02-03"),
    ("datetime", "'2020-01-01'", "2020-01-01 00:00:00.000000"),
    ("datetime(3)", "'2020-01-01 10:00:00.5'", "2020-01-01 10:00:00.500000"),
    ("timestamp NULL", "'2021-05-05 05:05:05'", "2021-05-05 02:05:05.000000+00"),
    ("timestamp NOT NULL", "'2021-05-05 05:05:05'", "2021-05-05 02:05:05.000000+00"),
    ("time(2)", "'-838:59:59'", "-838:59:59.000000"),
    ("year", "2020", "2020"),
    ("bit(5)", "b'101'", "00101"),
    ("binary(4)", "'ab'", "\\x61620000"),
    ("varbinary(10) NOT NULL", "'ab'", "\\x6162"),
    ("datetime", "CURRENT_TIMESTAMP", ...),
    ("timestamp(3) NOT NULL", "CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3)", ...),
    ("varchar(36)", "(uuid())", ...),
    ("int", "(1 + 1)", ...),
]


def test_rule_20_defaults(mysql_family: Server, source_database: Make) -> None:
    database = source_database(mysql_family)
    known = [(type, value, text) for type, value, text in DEFAULTS if takes(mysql_family, f"{type} DEFAULT {value}")]
    if not knows(mysql_family, "fractions"):  # and no DATETIME that begins with now
        known = [(type, value, text) for type, value, text in known if (type, text) != ("datetime", ...)]
    columns = ", ".join(f"c{i} {type} DEFAULT {value}" for i, (type, value, _) in enumerate(known))
    with closing(database.connect()) as connection, closing(connection.cursor()) as cursor:
        cursor.execute("SET time_zone = '+03:00', sql_mode = ''")
        cursor.execute(f"CREATE TABLE t (none int NOT NULL, {columns})")
    none, *found = table_of(database).columns
    assert not none.has_default
    for column, (type, value, expected) in zip(found, known, strict=True):
        assert column.has_default, (type, value)
        assert column.default_is_expression is (expected is ...), (type, value, column.default)
        if expected is not ...:
            assert column.default == expected, (type, value)


def test_torture_seed_120_defaults_of_characters_that_the_catalogue_does_not_have(
    mysql_family: Server, source_database: Make
) -> None:
    """information_schema is in utf8mb3: it shows a question mark."""
    database = source_database(mysql_family)
    mb4 = "varchar(9) CHARACTER SET utf8mb4"
    database.execute(
        f"CREATE TABLE t (a {mb4} DEFAULT '😀?', `b``%s` {mb4} DEFAULT '?', c int DEFAULT 1,"
        f" d {mb4} NOT NULL DEFAULT 'it''s 😀')"
    )
    unknown = table_of(database).columns[3]
    assert unknown.has_default and unknown.default_is_expression  # an empty table does not tell it
    database.execute("INSERT INTO t VALUES ('', '', 1, ''), ('', '', 1, '')")
    assert [column.default for column in table_of(database).columns] == ["😀?", "?", "1", "it's 😀"]


def test_torture_seed_1007_defaults_of_floats_with_all_their_digits(
    mysql_family: Server, source_database: Make
) -> None:
    """information_schema shows six of them."""
    database = source_database(mysql_family)
    database.execute(
        "CREATE TABLE t (a float DEFAULT 3.4028234e38, b float NOT NULL DEFAULT 16777215, c float NOT NULL DEFAULT 1.5)"
    )
    a, b, c = table_of(database).columns
    assert float(a.default) == pytest.approx(3.4028234663852886e38, rel=1e-8)
    assert b.default_is_expression and c.default == "1.5"  # an empty table does not tell it
    database.execute("INSERT INTO t VALUES (1, 1, 1)")
    assert [float(column.default) for column in table_of(database).columns][1:] == [16777215, 1.5]


def test_torture_seed_1065_defaults_of_bytes_behind_a_zero(mysql_family: Server, source_database: Make) -> None:
    """MySQL's information_schema shows none of them."""
    database = source_database(mysql_family)
    database.execute(
        "CREATE TABLE t (a varbinary(9) DEFAULT x'610062', b varbinary(9) DEFAULT '', c binary(3) DEFAULT x'0001')"
    )
    assert [column.default for column in table_of(database).columns] == ["\\x610062", "\\x", "\\x000100"]


def test_rule_20_binary_default_that_mariadb_does_not_tell(mariadb: Server, source_database: Make) -> None:
    database = source_database(mariadb)
    database.execute("CREATE TABLE t (b varbinary(10) DEFAULT x'01ff')")
    assert table_of(database).columns[0].default_is_expression


def test_rule_20_binary_default_of_mysql(mysql: Server, source_database: Make) -> None:
    database = source_database(mysql)
    database.execute("CREATE TABLE t (b varbinary(10) DEFAULT x'01ff')")
    assert table_of(database).columns[0].default == "\\x01ff"


TYPES: dict[str, LogicalType | None] = {
    "tinyint(1)": LogicalType(Kind.INT8),
    "boolean": LogicalType(Kind.INT8),
    "int unsigned": LogicalType(Kind.UINT32),
    "mediumint": LogicalType(Kind.INT32),
    "decimal(65,30)": LogicalType(Kind.DECIMAL, precision=65, scale=30),
    "numeric": LogicalType(Kind.DECIMAL, precision=10, scale=0),
    "real": LogicalType(Kind.FLOAT64),
    "float(10)": LogicalType(Kind.FLOAT32),
    "nchar(5)": LogicalType(Kind.TEXT, length=5),
    "varchar(7)": LogicalType(Kind.TEXT, length=7),
    "long varchar": LogicalType(Kind.TEXT),
    "varchar(7) character set ascii": LogicalType(Kind.TEXT, length=7),
    "varchar(7) character set binary": LogicalType(Kind.BINARY, length=7),
    "binary(3)": LogicalType(Kind.BINARY, length=3),
    "blob": LogicalType(Kind.BINARY),
    "bit": LogicalType(Kind.BIT, length=1),
    "date": LogicalType(Kind.DATE),
    "datetime(3)": LogicalType(Kind.TIMESTAMP, fraction=3),
    "timestamp(6) null": LogicalType(Kind.INSTANT, fraction=6),
    "time": LogicalType(Kind.DURATION, fraction=0),
    "year": LogicalType(Kind.YEAR),
    "enum('a,b','c''d','e\\\\f','')": LogicalType(Kind.ENUM, values=("a,b", "c'd", "e\\f", "")),
    "set('x','ü')": LogicalType(Kind.SET, values=("x", "ü")),
    "json": LogicalType(Kind.JSON),
    "point": LogicalType(Kind.GEOMETRY),
    "geometrycollection": LogicalType(Kind.GEOMETRY),
    "varchar(5) character set gbk": LogicalType(Kind.TEXT, length=5),
    "text character set utf16": LogicalType(Kind.TEXT),
    "enum('ж') character set cp1251": LogicalType(Kind.ENUM, values=("ж",)),
    "enum('a') character set binary": None,
}


def test_types(mysql_family: Server, source_database: Make) -> None:
    database = source_database(mysql_family)
    known = {native: type for native, type in TYPES.items() if takes(mysql_family, native)}
    columns = ", ".join(f"c{i} {native}" for i, native in enumerate(known))
    database.execute(f"CREATE TABLE t ({columns})", "CREATE TABLE u (v serial)")
    for column, (native, expected) in zip(table_of(database).columns, known.items(), strict=True):
        assert column.type == expected, native
        assert bool(column.refusal) is (expected is None), native
    assert table_of(database, "u").columns[0].type == LogicalType(Kind.UINT64)


def test_json_of_mariadb_needs_its_check(mariadb: Server, source_database: Make) -> None:
    database = source_database(mariadb)
    database.execute(
        "CREATE TABLE t (a json, `b``c` json, d longtext CHECK (json_valid(a)), e longtext CHECK (json_valid(e) or e = ''))",
    )
    kinds = {column.name: (column.type.kind, column.native) for column in table_of(database).columns if column.type}
    assert kinds == {
        "a": (Kind.JSON, "longtext"),
        "b`c": (Kind.JSON, "longtext"),
        "d": (Kind.TEXT, "longtext"),
        "e": (Kind.TEXT, "longtext"),
    }


def test_types_of_mariadb_alone(mariadb: Server, source_database: Make) -> None:
    database = source_database(mariadb)
    database.execute(
        "CREATE TABLE t (id int primary key, u uuid, i inet6, f inet4, c varchar(500) COMPRESSED)",
        "CREATE TABLE v (id int primary key) WITH SYSTEM VERSIONING",
        "CREATE TABLE w (id int primary key, s bigint unsigned GENERATED ALWAYS AS ROW START,"
        " e bigint unsigned GENERATED ALWAYS AS ROW END, PERIOD FOR SYSTEM_TIME (s, e)) WITH SYSTEM VERSIONING",
    )
    found = {table.name: schema for table, schema in tables_of(database).items()}
    kinds = [column.type.kind for column in found["t"].columns if column.type]
    assert kinds == [Kind.INT32, Kind.UUID, Kind.INET, Kind.INET, Kind.TEXT]
    assert (found["t"].row_end, found["v"].row_end, found["w"].row_end) == ("", "row_end", "e")
    assert [schema.primary_key for schema in found.values()] == [("id",)] * 3
    assert [column.refusal for column in found["w"].columns][1:] == [
        "history by transactions is logged as statements"
    ] * 2


def test_a_table_that_stores_its_uuids_as_before_mariadb_10_11_5_is_refused(
    mariadb: Server, source_database: Make
) -> None:
    """Made by 10.11.4, to the server: that is four bytes of the table's own file."""
    database = source_database(mariadb)
    database.execute("CREATE TABLE `o%d` (id int primary key, u uuid, `v``%s` uuid)", "FLUSH TABLES")
    ((datadir,),) = database.query("SELECT @@datadir")
    (file,) = (Path(str(datadir)) / database.name).glob("o*.frm")
    with file.open("r+b") as made:
        made.seek(51)
        assert int.from_bytes(made.read(4), "little") > 101104
        made.seek(51)
        made.write((101104).to_bytes(4, "little"))
    database.execute("FLUSH TABLES", "INSERT INTO `o%d` VALUES (1, '018f3a5c-7b2e-7c11-9d4e-1234567890ab', UUID())")
    old = table_of(database, "o%d")
    assert [column.type is None for column in old.columns] == [False, True, True]
    assert all("ALTER TABLE `" in column.refusal and "`o%d` FORCE" in column.refusal for column in old.columns[1:])
    database.execute("ALTER TABLE `o%d` FORCE")
    new = table_of(database, "o%d")
    assert [column.refusal for column in new.columns] == [""] * 3
    assert old.reads_like(new) and not new.reads_like(old)


@pytest.mark.every_server("generated columns", "full-text")
def test_keys_indexes_and_columns(mysql_family: Server, source_database: Make) -> None:
    database = source_database(mysql_family)
    database.execute(
        "CREATE TABLE t (a int NOT NULL, b varchar(20) NOT NULL, c int NOT NULL AUTO_INCREMENT, d text,"
        " v int AS (a + 1) VIRTUAL, s int AS (a + 2) STORED, PRIMARY KEY (b, a), KEY (c),"
        " UNIQUE KEY u (d(7), a), FULLTEXT KEY f (d), KEY dd (a, b))"
        " ENGINE=InnoDB COMMENT 'it''s a table'"
    )
    table = table_of(database)
    assert table.primary_key == ("b", "a")
    assert {index.name: (index.columns, index.unique, index.prefixes, index.kind) for index in table.indexes} == {
        "c": (("c",), False, (None,), "btree"),
        "u": (("d", "a"), True, (7, None), "btree"),
        "f": (("d",), False, (None,), "fulltext"),
        "dd": (("a", "b"), False, (None, None), "btree"),
    }
    assert [c.name for c in table.columns if c.generated] == ["v", "s"]
    assert [bool(c.expression) for c in table.columns] == [False, False, False, False, True, True]
    assert TableSchema.from_json(table.to_json()) == table
    assert [c.name for c in table.columns if c.auto_increment] == ["c"]
    assert [c.name for c in table.columns if not c.nullable] == ["a", "b", "c"]
    assert (table.engine, table.comment, table.version) == ("InnoDB", "it's a table", 1)
    assert table.column("b").charset == "utf8mb4"
    assert table.column("a").charset == ""


@pytest.mark.every_server("generated columns")
def test_rule_19_another_expression_of_a_computed_column_is_another_definition(
    mysql_family: Server, source_database: Make
) -> None:
    database = source_database(mysql_family)
    database.execute("CREATE TABLE t (id int PRIMARY KEY, v varchar(9) AS (concat('a', id)) STORED)")
    before = table_of(database)
    assert table_of(database).same_definition(before)
    database.execute("ALTER TABLE t MODIFY v varchar(9) AS (concat('b', id)) STORED")
    assert not table_of(database).same_definition(before)


def test_functional_index_of_mysql(mysql: Server, source_database: Make) -> None:
    database = source_database(mysql)
    database.execute("CREATE TABLE t (a int, b int, UNIQUE KEY u (a, (b + 1)))")
    (index,) = table_of(database).indexes
    assert (index.kind, index.columns, index.unique) == ("functional", ("a",), True)


def test_foreign_keys(mysql_family: Server, source_database: Make) -> None:
    one, other = source_database(mysql_family), source_database(mysql_family)
    other.execute("CREATE TABLE p (x int, y int, PRIMARY KEY (x, y))")
    one.execute(
        "CREATE TABLE t (id int PRIMARY KEY, a int, b int, boss int,"
        f" CONSTRAINT k1 FOREIGN KEY (b, a) REFERENCES {other.name}.p (x, y) ON DELETE CASCADE ON UPDATE SET NULL,"
        " CONSTRAINT k2 FOREIGN KEY (boss) REFERENCES t (id) ON DELETE NO ACTION)"
    )
    k1, k2 = sorted(table_of(one).foreign_keys, key=lambda key: key.name)
    assert (k1.columns, k1.parent, k1.parent_columns) == (("b", "a"), TableId(other.name, "p"), ("x", "y"))
    assert (k1.on_delete, k1.on_update) == (Action.CASCADE, Action.SET_NULL)
    assert (k2.parent.name, k2.on_delete, k2.on_update) == ("t", Action.RESTRICT, Action.RESTRICT)


def test_only_what_is_wanted_and_never_system_schemas(mysql_family: Server, source_database: Make) -> None:
    database = source_database(mysql_family)
    database.execute(
        "CREATE TABLE t (a int)",
        "CREATE TABLE `odd.na``me` (`c d` int)",
        "CREATE VIEW v AS SELECT * FROM t",
        "CREATE TABLE u (a int)",
    )
    seen: list[TableId] = []
    with closing(connectors.source(endpoint_of(mysql_family)).catalog()) as catalog:
        found = catalog.tables(
            lambda table: seen.append(table) or (table.schema == database.name and table.name != "u")
        )
        assert {t.name for t in found} == {"t", "odd.na`me"}
        assert not {"mysql", "sys", "information_schema", "performance_schema"} & {t.schema for t in seen}
        assert not {"v"} & {t.name for t in seen}
        assert catalog.logs_cascades() is (mysql_family.version.startswith("9"))


def test_many_tables(mysql_family: Server, source_database: Make) -> None:
    """Beyond a few tables whole schemas are read: the result is the same."""
    database = source_database(mysql_family)
    database.execute(*(f"CREATE TABLE t{n} (id int primary key, v varchar(9) default 'x', key (v))" for n in range(30)))
    found = tables_of(database)
    assert len(found) == 30
    expected: tuple[Column, ...] = table_of(database, "t7").columns
    assert all(table.columns == expected and len(table.indexes) == 1 for table in found.values())


@pytest.mark.every_server("GTIDs")
def test_mark_is_the_end_with_what_is_executed(mysql_family: Server, source_database: Make) -> None:
    database = source_database(mysql_family)
    source = connectors.source(
        Endpoint(mysql_family.name, mysql_family.host, mysql_family.port, mysql_family.user, mysql_family.password)
    )
    with closing(source.catalog()) as catalog:
        before = catalog.mark()
        database.execute("CREATE TABLE t (a int)")
        after = catalog.mark()
    assert source.order.includes(after, before.native, None)
    assert not source.order.includes(before, after.native, None)
    assert place_of(after.resume).gtid
    assert place_of(after.resume).gtid != place_of(before.resume).gtid


def test_bytes_from_a_place_in_an_older_file_of_the_log(mysql_family: Server, source_database: Make) -> None:
    database = source_database(mysql_family)
    source = connectors.source(endpoint_of(mysql_family))
    with closing(source.catalog()) as catalog:
        before = catalog.mark()
        database.execute("FLUSH BINARY LOGS", "CREATE TABLE t (a int)", "FLUSH BINARY LOGS")
        after, sizes = catalog.mark(), catalog.log_sizes()
    (first, begin), (last, end) = (mark.native.split(":") for mark in (before, after))
    files = sorted(file for file in sizes if first <= file < last)
    assert len(files) == 2 and last in sizes
    expected = sum(sizes[file] for file in files) - int(begin) + int(end)
    assert source.order.bytes_between(before.native, after, sizes) == expected
