"""Tables made at a real MySQL and MariaDB: those of a MySQL or MariaDB stand there as they are at the source, columns do
nothing by themselves, and texts compare by their bytes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from struct import pack, unpack

import pytest

from anabranch.connectors.mysql.source.catalog import MysqlCatalog
from anabranch.connectors.mysql.target.catalog import MysqlTargetCatalog
from anabranch.contracts import Enforced
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.schema import Column, Index, TableSchema
from anabranch.rows.keys import UniqueKey
from anabranch.testing.databases import Database, drop_database
from anabranch.testing.features import knows
from anabranch.testing.servers import Server
from rigs.endpoints import endpoint_of
from rigs.mysql_tables import RULES, TEXT, WORD, Place, number, table

pytestmark = pytest.mark.every_server("fractions")


# --- of the same family -----------------------------------------------------------------------------------------------

SHOP = (
    """CREATE TABLE customers (
      id INT UNSIGNED NOT NULL AUTO_INCREMENT, code CHAR(5) CHARACTER SET latin1 COLLATE latin1_german1_ci NOT NULL,
      name VARCHAR(100) CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci NOT NULL DEFAULT 'it''s \\\\ new',
      rate DECIMAL(12,4) NOT NULL DEFAULT 1.5, small TINYINT(1) DEFAULT 0, big BIGINT UNSIGNED DEFAULT 18446744073709551615,
      flags SET('a','b','it''s') DEFAULT 'a', kind ENUM('x','y') NOT NULL DEFAULT 'y', bits BIT(10) DEFAULT b'101',
      born DATE DEFAULT '2000-01-31', seen TIMESTAMP(3) NULL DEFAULT NULL, since DATETIME(6) DEFAULT CURRENT_TIMESTAMP(6),
      raw VARBINARY(20), fixed BINARY(4) DEFAULT 'ab', body MEDIUMTEXT, blobs TINYBLOB, y YEAR,
      took TIME(2) DEFAULT '-10:00:00.5',
      d DOUBLE DEFAULT 0.5, f FLOAT,
      PRIMARY KEY (id), UNIQUE KEY by_code (code), KEY by_name (name(10), born), KEY by_body (body(20)),
      KEY by_rate (rate), FULLTEXT KEY by_words (body)
    ) ENGINE=InnoDB COMMENT='who \\\\ buys''s'""",
    """CREATE TABLE orders (
      id BIGINT NOT NULL, customer INT UNSIGNED NOT NULL, amount INT COMMENT 'in cents', parent BIGINT,
      PRIMARY KEY (id), KEY by_customer (customer), KEY by_parent (parent),
      CONSTRAINT customer_of FOREIGN KEY (customer) REFERENCES customers (id) ON DELETE CASCADE ON UPDATE CASCADE,
      CONSTRAINT parent_of FOREIGN KEY (parent) REFERENCES orders (id) ON DELETE SET NULL,
      CONSTRAINT positive CHECK (amount >= 0 AND amount <> 13)
    )""",
)


def schemas_of(database: Database) -> list[TableSchema]:
    with closing(MysqlCatalog(endpoint_of(database))) as catalog:
        return list(catalog.tables(lambda one: one.schema == database.name).values())


def in_one_schema(schema: TableSchema) -> TableSchema:
    keys = tuple(replace(key, parent=TableId("", key.parent.name)) for key in schema.foreign_keys)
    return replace(schema, id=TableId("", schema.id.name), foreign_keys=keys)


def test_mysql_and_mariadb_tables_stand_as_they_are_at_a_source_of_their_kind(
    place: Place, source_database: Callable[[Server], Database]
) -> None:
    source = source_database(place.database.server)
    source.execute(*SHOP)
    schemas = schemas_of(source)
    place.create(*schemas)
    for _ in range(2):
        assert place.build(*schemas) == []
    found = {schema.id.name: in_one_schema(schema) for schema in schemas_of(place.database)}
    for schema in map(in_one_schema, schemas):
        there = found[schema.id.name]
        assert there.columns == schema.columns, (there.columns, schema.columns)
        assert [c.comment for c in there.columns] == [c.comment for c in schema.columns]
        assert (there.primary_key, there.comment) == (schema.primary_key, schema.comment)
        assert sorted(there.indexes, key=str) == sorted(schema.indexes, key=str)
        assert there.foreign_keys == schema.foreign_keys
        assert [c.term for c in there.checks] == [c.term for c in schema.checks]


def test_a_default_whose_shortest_digits_are_out_of_range_stands(
    place: Place, source_database: Callable[[Server], Database]
) -> None:
    source = source_database(place.database.server)
    source.execute(
        "CREATE TABLE f (id INT PRIMARY KEY, low FLOAT DEFAULT -3.4028234e38, high FLOAT DEFAULT 3.4028234e38)"
    )
    place.create(*schemas_of(source))
    for database in (source, place.database):
        database.execute("INSERT INTO f (id) VALUES (1)")
    greatest = "SELECT CAST(low + 0e0 AS CHAR), CAST(high + 0e0 AS CHAR) FROM f"
    assert place.database.query(greatest) == source.query(greatest)


@pytest.mark.every_server("checks")
def test_pitfall_58_mysql_tables_at_a_mariadb_and_the_other_way_round(
    place: Place, mysql: Server, mariadb: Server, source_database: Callable[[Server], Database]
) -> None:
    """Types, keys, indexes, checks and constant defaults are the same; a collation that is not there has a stand-in."""
    other = mariadb if place.database.server.name == "mysql" else mysql
    source = source_database(other)
    source.execute(*SHOP)
    schemas = schemas_of(source)
    place.create(*schemas)
    for _ in range(2):
        assert place.build(*schemas) == []
    found = {schema.id.name: in_one_schema(schema) for schema in schemas_of(place.database)}
    for schema in map(in_one_schema, schemas):
        there = found[schema.id.name]
        assert [(c.name, c.type, c.nullable) for c in there.columns] == [
            (c.name, c.type, c.nullable) for c in schema.columns
        ]
        told = [[c.default_term or c.default for c in one.columns] for one in (there, schema)]
        assert told[0] == told[1]
        assert sorted(there.indexes, key=str) == sorted(schema.indexes, key=str)
        assert there.foreign_keys == schema.foreign_keys
        assert [c.term for c in there.checks] == [c.term for c in schema.checks]


GIVEN = """CREATE TABLE given (
  id INT PRIMARY KEY, n INT DEFAULT (1 + 2), t VARCHAR(20) DEFAULT (CONCAT('a', 'b''c\\\\')), d DATE DEFAULT (CURRENT_DATE),
  u VARCHAR(36) NOT NULL DEFAULT (UUID()), body TEXT DEFAULT ('x'), s INT GENERATED ALWAYS AS (n + 1) STORED
)"""


@pytest.mark.every_server("expression defaults")
@pytest.mark.parametrize("end", ["same", "other"])
def test_mysql_and_mariadb_default_expressions_in_their_own_words(
    place: Place, mysql: Server, mariadb: Server, source_database: Callable[[Server], Database], end: str
) -> None:
    """A computed column holds what the source computed: it is a plain one."""
    here = place.database.server
    source = source_database(here if end == "same" else mariadb if here.name == "mysql" else mysql)
    source.execute(GIVEN)
    schemas = schemas_of(source)
    place.create(*schemas)
    for _ in range(2):
        assert place.build(*schemas) == []
    place.database.execute("INSERT INTO given (id, s) VALUES (1, 77)")
    told = "SELECT n, t, d IS NOT NULL, LENGTH(u), body, s FROM given"
    assert place.database.query(told) == [(3, "ab'c\\", 1, 36, "x", 77)]


@pytest.mark.every_server("expression defaults")
@pytest.mark.parametrize("end", ["same", "other"])
def test_mysql_and_mariadb_defaults_of_a_float_in_all_of_their_digits(
    place: Place, mysql: Server, mariadb: Server, source_database: Callable[[Server], Database], end: str
) -> None:
    """The greatest is out of range in its shortest digits, and any ALTER TABLE makes six of more than six digits."""
    here = place.database.server
    source = source_database(here if end == "same" else mariadb if here.name == "mysql" else mysql)
    source.execute(
        "CREATE TABLE given (id INT PRIMARY KEY, n INT, v4 FLOAT DEFAULT 3.4028234e38, least FLOAT DEFAULT -3.4028234e38,"
        " half FLOAT DEFAULT 7.038531e-26, digits FLOAT NOT NULL DEFAULT 1.2345678, few FLOAT NOT NULL DEFAULT 0.1)",
        "INSERT INTO given (id) VALUES (1)",
    )
    schemas = schemas_of(source)
    place.create(*schemas)
    for _ in range(2):
        assert place.build(*schemas) == []
    place.database.execute("ALTER TABLE given FORCE", "INSERT INTO given (id) VALUES (1)")
    source.execute("DELETE FROM given", "INSERT INTO given (id) VALUES (1)")
    told = "SELECT v4*1e0, least*1e0, half*1e0, digits*1e0, few*1e0 FROM given"
    assert place.database.query(told) == source.query(told)


def test_mysql_and_mariadb_digits_of_a_float_outlive_the_building(place: Place) -> None:
    """A release that takes no expression as a default has its constants set again behind the indexes. Others' stay."""
    single = LogicalType(Kind.FLOAT32)
    told = {"digits": "1.2345678", "least": "-3.4028234e38", "few": "0.1", "theirs": "8.7654321"}
    columns = [Column(name, single, "float", has_default=True, default=text) for name, text in told.items()]
    schema = table("given", number(), number("n"), *columns, indexes=(Index("by_n", ("n",)),))
    place.create(schema)
    place.database.execute("ALTER TABLE given ALTER theirs SET DEFAULT 2.5")
    for _ in range(2):
        assert place.build(schema) == []
    place.database.execute("INSERT INTO given (id, n) VALUES (1, 1)")
    found = place.database.query("SELECT digits*1e0, least*1e0, few*1e0, theirs*1e0 FROM given")
    assert found == [tuple(unpack("f", pack("f", float(text)))[0] for text in (*list(told.values())[:3], "2.5"))]


# --- columns ----------------------------------------------------------------------------------------------------------


def test_pitfall_50_no_column_changes_by_itself(place: Place) -> None:
    """The first `timestamp` of a table neither, on servers that give it a default and ON UPDATE unasked."""
    instant = LogicalType(Kind.INSTANT, fraction=0)
    columns = (number(), Column("at", instant, "timestamp", nullable=False), Column("seen", instant, "timestamp"))
    place.create(table("clocks", *columns, engine="InnoDB"))
    existing = place.existing("clocks")
    assert not any(column.changes_itself for column in existing.columns)
    of_56 = None if knows(place.database.server, "JSON") else "1970-01-01 00:00:01"  # it takes its own for it again
    assert [column.default for column in existing.columns] == [None, of_56, None]
    assert [column.nullable for column in existing.columns] == [False, False, True]


def test_pitfall_42_49_counters_are_raised_behind_what_was_moved(place: Place) -> None:
    schema = table("counted", number(auto_increment=True), Column("word", WORD, "varchar(40)"))
    place.create(schema)
    place.database.execute("INSERT INTO counted VALUES (7, 'a')", "UPDATE counted SET id = 500")
    assert place.tables.raise_sequences([place.table(schema)]) == []
    place.database.execute("INSERT INTO counted (word) VALUES ('b')")
    assert place.database.query("SELECT id FROM counted WHERE word = 'b'") == [(501,)]


def test_mysql_and_mariadb_count_by_an_index_that_is_made_with_the_table(place: Place) -> None:
    counting = number("n", auto_increment=True)
    schema = table("lines", number(), counting, indexes=(Index("by_n", ("n",), True),))
    place.create(schema)
    assert place.existing("lines").column("n").auto_increment
    assert place.build(schema) == []
    assert any(index.unique and index.columns == ("n",) for index in place.existing("lines").secondary_unique)
    place.create(table("others", number(), counting))  # without an index there is none, and that is told
    assert not place.existing("others").column("n").auto_increment
    steps = place.tables.script([(schema := table("others", number(), counting), place.table(schema))])
    assert any("numbers of n" in step.note for step in steps)


# --- the catalogue ----------------------------------------------------------------------------------------------------


@pytest.mark.every_server("generated columns")
def test_rule_08_unique_keys_depend_on_what_their_generated_columns_are_computed_from(place: Place) -> None:
    place.database.execute(
        "CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT, c INT, s INT GENERATED ALWAYS AS (a + b) STORED, UNIQUE KEY (s))"
    )
    schema = table("t", number(), *(number(name) for name in "abc"))
    with closing(MysqlTargetCatalog(place.endpoint)) as catalog:
        assert catalog.unique_keys([place.table(schema)]) == {
            schema.id: frozenset({UniqueKey(frozenset("ab"), is_plain=False)})
        }
        assert catalog.guards([place.table(schema)]) == Enforced(keys=False, triggers=False)
        place.database.execute("CREATE TRIGGER noted BEFORE INSERT ON t FOR EACH ROW SET NEW.c = 1")
        assert catalog.guards([place.table(schema)]) == Enforced(keys=False, triggers=True)


def test_rule_08_of_a_unique_key_of_a_mysql_it_is_known_whether_its_values_tell_all(place: Place) -> None:
    """Rows meet in a beginning of a value, or in what a function makes of it, though their values differ."""
    functional = ", UNIQUE KEY ((abs(c)))" if place.database.server.name == "mysql" else ""
    place.database.execute(
        "CREATE TABLE t (id INT PRIMARY KEY, A INT, b VARCHAR(20), c INT, d INT, UNIQUE KEY (b, A DESC), UNIQUE KEY (b(3)),"
        f" UNIQUE KEY (d, c){functional})"
    )
    schema = table("t", number(), *(number(name) for name in "abc"))
    with closing(MysqlTargetCatalog(place.endpoint)) as catalog:
        found = catalog.unique_keys([place.table(schema)])[schema.id]
    special = {UniqueKey(frozenset("b"), False), UniqueKey(frozenset("c"), False)}  # d is not replicated
    assert found == {UniqueKey(frozenset("ab")), *special}


@pytest.mark.every_server("utf8mb4_0900_bin")
def test_mysql_and_mariadb_make_a_database_in_which_texts_compare_by_their_bytes(place: Place) -> None:
    made = Database(place.database.server, f"{place.database.name[:50]}_made")
    schema = table("t", number(), Column("word", TEXT, "text"))
    try:
        target = replace(place.table(schema), target=TableId(made.name, "t"))
        for _ in range(2):
            place.tables.create_table(schema, target, RULES, False)
        (collation,) = made.query("SELECT @@collation_database")[0]
        assert collation in ("utf8mb4_0900_bin", "utf8mb4_nopad_bin")
    finally:
        drop_database(made)
