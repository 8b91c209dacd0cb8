"""Tables made and built at a real MySQL and MariaDB: what the source has stands there, what has no counterpart is named, and
whatever a process that died has left is gone on from."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from anabranch import connectors
from anabranch.connectors.mysql.source.catalog import MysqlCatalog
from anabranch.connectors.mysql.target import attempts
from anabranch.connectors.mysql.target.catalog import MysqlTargetCatalog
from anabranch.connectors.mysql.target.session import connect, run
from anabranch.connectors.mysql.target.store import MysqlStore
from anabranch.connectors.mysql.target.structures import read_table
from anabranch.connectors.mysql.target.tables import MysqlTables
from anabranch.contracts import Enforced, ValueRules
from anabranch.errors import TargetError, TargetUnavailable
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.schema import Action, Check, Column, ForeignKey, Index, TableSchema
from anabranch.rows.net import TargetTable
from anabranch.testing.databases import Database, drop_database
from anabranch.testing.features import knows
from anabranch.testing.in_time import until
from anabranch.testing.servers import Server
from rigs.endpoints import endpoint_of
from rigs.waiting import Doing

pytestmark = pytest.mark.every_server("fractions")
RULES = ValueRules()
NUMBER = LogicalType(Kind.INT32)
TEXT, WORD = LogicalType(Kind.TEXT, native="text"), LogicalType(Kind.TEXT, length=40)


class Place:
    """An empty database at a target, and tables of ours in it."""

    def __init__(self, database: Database) -> None:
        self.database, self.job = database, database.name
        self.endpoint = replace(endpoint_of(database), database="")
        self.tables = MysqlTables(self.endpoint, RULES, database.server.name)
        with closing(MysqlStore(self.endpoint)) as store:
            store.prepare()

    def table(self, schema: TableSchema, **more: Any) -> TargetTable:
        columns = [column for column in schema.columns if column.type]
        names = tuple(column.name for column in columns)
        types = tuple(column.type for column in columns if column.type)
        target = TableId(self.database.name, schema.id.name)
        return replace(TargetTable(schema.id, target, names, types, schema.primary_key, names), **more)

    def create(self, *schemas: TableSchema) -> None:
        for schema in schemas:
            self.tables.create_table(schema, self.table(schema), RULES, False)

    def build(self, *schemas: TableSchema) -> list[str]:
        made = {schema.id: self.table(schema) for schema in schemas}
        return [p for s in schemas for p in self.tables.build(self.job, s, made[s.id], made.get)]

    def existing(self, name: str) -> Any:
        with closing(connect(self.endpoint, "test", autocommit=True)) as connection:
            return read_table(connection, TableId(self.database.name, name))

    def shown(self, name: str) -> str:
        return str(self.database.query(f"SHOW CREATE TABLE `{name}`")[0][1])

    def close(self) -> None:
        self.tables.close()
        with closing(MysqlStore(self.endpoint)) as store:
            store.jobs.drop(self.job)


@pytest.fixture
def place(mysql_family: Server, source_database: Callable[[Server], Database]) -> Iterator[Place]:
    found = Place(source_database(mysql_family))
    yield found
    found.close()


def table(name: str, *columns: Column, key: Sequence[str] = ("id",), **more: Any) -> TableSchema:
    return TableSchema(TableId("shop", name), columns, tuple(key), **more)


def number(name: str = "id", **more: Any) -> Column:
    return Column(name, NUMBER, "int", **{"nullable": False, **more})


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


POSTGRESQL: list[tuple[LogicalType, str, Any]] = [
    (LogicalType(Kind.INT32), "42", "42"),
    (LogicalType(Kind.BOOLEAN), "true", "1"),
    (WORD, "'it''s \\ new'::character varying", "it's \\ new"),
    (LogicalType(Kind.DATE), "'2020-02-29'::date", "2020-02-29"),
    (WORD, "some_function()", None),
]


def test_postgresql_defaults_at_mysql_and_mariadb(place: Place) -> None:
    columns = [
        Column(f"c{n}", type, "x", has_default=True, default=told, default_is_expression=True)
        for n, (type, told, _) in enumerate(POSTGRESQL)
    ]
    schema = table("given", number(), *columns, dialect="postgresql")
    place.create(schema)
    place.database.execute("INSERT INTO given (id) VALUES (1)")
    (row,) = place.database.query("SELECT * FROM given")
    assert [None if value is None else str(value) for value in row[1:]] == [want for _, _, want in POSTGRESQL]
    notes = [step.note for step in place.tables.script([(schema, place.table(schema))])]
    assert "default of c4: some_function()" in notes


@pytest.mark.every_server("utf8mb4_0900_bin")
def test_postgresql_text_keys_get_a_length_at_mysql_and_mariadb(place: Place) -> None:
    """Compared byte by byte, blanks at the end included; a longer value is refused, never cut."""
    text = Column("word", TEXT, "text", nullable=False)
    other = Column("code", TEXT, "text")
    schema = table(
        "words", text, other, key=("word",), dialect="postgresql", indexes=(Index("by_code", ("code",), True),)
    )
    place.create(schema)
    assert place.build(schema) == []
    assert place.existing("words").column("word").type.startswith("varchar(")
    for word in ("a", "A", "a ", "ä", "a\u0308"):
        place.database.query("INSERT INTO words (word, code) VALUES (%s, %s)", [word, word])
    assert place.database.query("SELECT COUNT(*) FROM words WHERE word = 'a '") == [(1,)]
    notes = [step.note for step in place.tables.script([(schema, place.table(schema))])]
    assert any("a longer value stops the job" in note for note in notes)


@pytest.mark.every_server("checks")
def test_postgresql_checks_and_computed_columns_at_mysql_and_mariadb(place: Place) -> None:
    checks = (
        Check("state_known", "CHECK ((state = ANY (ARRAY['new'::text, 'done'::text])))"),
        Check("price_positive", "CHECK (((price >= 0) AND (price < 1000000)))"),
        Check("odd", "CHECK (is_odd(price))"),
    )
    total = Column("total", None, "integer", generated=True, expression="(price * 2)", computed_from=("price",))
    state = Column("state", TEXT, "text", nullable=False)
    schema = table("items", number(), number("price"), state, total, checks=checks, dialect="postgresql")
    with_total = place.table(schema, computed=(("total", "total"),))
    place.tables.create_table(schema, with_total, RULES, False)
    (problem,) = place.tables.build(place.job, schema, with_total, lambda _: None)
    assert "check odd" in problem
    place.database.execute("INSERT INTO items (id, price, state) VALUES (1, 21, 'new')")
    assert place.database.query("SELECT total FROM items") == [(42,)]
    for row in ("(2, -1, 'new')", "(3, 1, 'NEW')"):
        with pytest.raises(Exception, match=r"(?i)constraint"):
            place.database.execute(f"INSERT INTO items (id, price, state) VALUES {row}")


# --- keys and indexes -------------------------------------------------------------------------------------------------


def test_pitfall_64_indexes_without_a_counterpart_are_named(place: Place) -> None:
    indexes = (
        Index("live", ("word",), True, definition="USING btree (word) WHERE (id > 0)"),
        Index("lowered", ("word",), definition="USING btree (lower(word))"),
        Index("found", ("word",), kind="gin", definition="USING gin (word)"),
        Index("apart", ("word",), True, constraint="EXCLUDE USING gist (word WITH =)", kind="gist"),
        Index("plain", ("word",)),
    )
    schema = table("strange", number(), Column("word", TEXT, "text"), indexes=indexes, dialect="postgresql")
    place.create(schema)
    problems = place.build(schema)
    assert [problem.split(" ")[1] for problem in problems] == ["live", "lowered", "found", "apart"]
    assert {index.name for index in place.existing("strange").indexes} == {"PRIMARY", "plain"}


def test_mysql_and_mariadb_names_of_65_characters_are_shortened_or_refused(place: Place) -> None:
    long = "x" * 65
    schema = table("named", number(), Column("word", WORD, "varchar(40)"), indexes=(Index(long, ("word",)),))
    place.create(schema)
    for _ in range(2):
        assert place.build(schema) == []
    (made,) = [index.name for index in place.existing("named").indexes if index.name != "PRIMARY"]
    assert len(made) == 64 and made.startswith("x" * 50)
    with pytest.raises(TargetError, match=r"longer than 64 characters.*rename"):
        place.create(table(long, number()))


@pytest.mark.every_server("checks")
def test_mysql_and_mariadb_a_check_that_rows_break_is_told_and_not_kept(place: Place) -> None:
    text = "(`n` > 0)"
    schema = table("checked", number(), number("n"), checks=(Check("low", text, refusal="x"),), engine="InnoDB")
    place.create(schema)
    place.database.execute("INSERT INTO checked VALUES (1, 5), (2, -5)")
    for _ in range(2):
        assert place.build(schema) == [
            f"check low of {place.database.name}.checked is not built: rows break it, as at the source"
        ]
        assert not place.existing("checked").checks
    place.database.execute("DELETE FROM checked WHERE id = 2")
    for _ in range(2):
        assert place.build(schema) == []
    assert list(place.existing("checked").checks) == ["low"]


@pytest.mark.every_server("checks")
def test_mysql_and_mariadb_a_check_that_a_dead_process_added_is_asked(place: Place) -> None:
    """MariaDB adds it first: who died then has left one that rows break. Another check of that name, which they keep, stays."""
    schema = table("checked", number(), number("n"), checks=(Check("low", "(`n` > 0)", refusal="x"),), engine="InnoDB")
    place.create(schema)
    place.database.execute("INSERT INTO checked VALUES (1, 5), (2, -5)")
    if place.database.server.name == "mariadb":
        with closing(connect(place.endpoint, "died", autocommit=True)) as died:
            run(died, "SET SESSION check_constraint_checks = 0")
            run(died, f"ALTER TABLE {place.database.name}.checked ADD CONSTRAINT low CHECK (n > 0)")
    said = f"check low of {place.database.name}.checked is not built: rows break it, as at the source"
    for _ in range(2):
        assert place.build(schema) == [said]
        assert not place.existing("checked").checks
    place.database.execute("ALTER TABLE checked ADD CONSTRAINT low CHECK (n > -10)")
    assert place.build(schema) == []
    assert list(place.existing("checked").checks) == ["low"]


CUSTOMERS = table(
    "customers", number(), Column("name", WORD, "varchar(40)"), indexes=(Index("by_name", ("name",), True),)
)
ORDERS = table(
    "orders",
    number(),
    number("customer", nullable=True),
    indexes=(Index("by_customer", ("customer",)),),
    foreign_keys=(ForeignKey("customer_of", ("customer",), CUSTOMERS.id, ("id",), Action.SET_NULL),),
)


def test_rule_29_orphans_are_counted_and_the_key_stands_unvalidated(place: Place) -> None:
    place.create(CUSTOMERS, ORDERS)
    place.database.execute("INSERT INTO orders VALUES (1, 99), (2, 98), (3, NULL)")
    key = f"foreign key customer_of of {place.database.name}.orders"
    said = f"{key} stands unvalidated: 2 rows without a parent, as at the source"
    for _ in range(2):
        assert place.build(CUSTOMERS, ORDERS) == [said]
    with pytest.raises(Exception, match="customer_of"):
        place.database.execute("INSERT INTO orders VALUES (4, 97)")


def test_mysql_and_mariadb_a_key_that_the_source_has_not_validated_is_told(place: Place) -> None:
    """NOT VALID, in PostgreSQL's words: its old rows may have no parent, which is asked for all the same."""
    (key,) = ORDERS.foreign_keys
    orders = replace(ORDERS, foreign_keys=(replace(key, options="ON DELETE SET NULL NOT VALID"),))
    place.create(CUSTOMERS, orders)
    said = f"foreign key customer_of of {place.database.name}.orders stands unvalidated"
    assert place.build(CUSTOMERS, orders) == [f"{said}, as at the source"]
    place.database.execute("SET foreign_key_checks = 0", "INSERT INTO orders VALUES (1, 99)")
    for _ in range(2):
        assert place.build(CUSTOMERS, orders) == [f"{said}: 1 row without a parent, as at the source"]


def test_mysql_and_mariadb_keys_of_one_name_in_two_tables(place: Place) -> None:
    other = replace(ORDERS, id=TableId("shop", "former"))
    place.create(CUSTOMERS, ORDERS, other)
    for _ in range(2):
        assert place.build(CUSTOMERS, ORDERS, other) == []
    assert len(place.existing("customers").referenced_by) == 2


def test_mysql_and_mariadb_what_a_dead_process_left_is_gone_on_from(place: Place) -> None:
    """It died between the note and the DROP, or between the key and the note's end."""
    place.create(CUSTOMERS, ORDERS)
    assert place.build(CUSTOMERS, ORDERS) == []
    place.tables.take_off_keys(place.job, place.table(CUSTOMERS))
    assert not place.existing("customers").has_actions
    name = place.database.name
    place.database.execute("ALTER TABLE customers ADD UNIQUE KEY by_name (name)")
    place.tables.take_off_keys(place.job, place.table(CUSTOMERS))
    assert not place.existing("customers").secondary_unique
    place.database.execute(
        "ALTER TABLE orders ADD CONSTRAINT customer_of FOREIGN KEY (customer) REFERENCES customers (id) ON DELETE SET NULL"
    )
    assert place.build(CUSTOMERS, ORDERS) == []
    assert [key.on_delete for key in place.existing("customers").referenced_by] == ["SET NULL"]
    kept = f"SELECT COUNT(*) FROM anabranch.taken_off WHERE table_schema = '{name}'"
    assert place.database.query(kept) == [(0,)]


BUILDS = """
import sys
from anabranch.model.endpoint import Endpoint
from test_mysql_target_tables import CUSTOMERS, ORDERS, Place
from anabranch.testing.databases import Database
from anabranch.testing.servers import server_from_dsn
place = Place(Database(server_from_dsn(sys.argv[1]), sys.argv[2]))
while True:
    place.create(CUSTOMERS, ORDERS)
    place.build(CUSTOMERS, ORDERS)
    place.tables.take_off_keys(place.job, place.table(CUSTOMERS))
"""


def sessions(place: Place) -> set[int]:
    """A server carries out a statement to its end, also when its client is gone."""
    asks = "SELECT ID FROM information_schema.PROCESSLIST WHERE USER = %s AND ID <> CONNECTION_ID()"
    return {int(id) for (id,) in place.database.query(asks, [place.database.server.user])}


def test_mysql_and_mariadb_tables_survive_a_kill_between_any_statements(place: Place) -> None:
    """Each kill is a moment later than the one before. What is there then is gone on from, with the same end."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
    command = [sys.executable, "-c", BUILDS, place.database.server.url(), place.database.name]
    for wait in range(6):
        before = sessions(place)
        with subprocess.Popen(command, env=environment) as process:
            until(lambda: place.database.query("SHOW TABLES LIKE 'orders'"), "the tables are not made")
            time.sleep(0.11 * wait)
            process.kill()
        until(lambda ours=before: sessions(place) <= ours, "what the process has asked for last is still done")
        place.create(CUSTOMERS, ORDERS)
        assert place.build(CUSTOMERS, ORDERS) == []
        assert [index.name for index in place.existing("customers").secondary_unique] == ["by_name"]
        (key,) = place.existing("customers").referenced_by
        assert (key.name, key.on_delete) == ("customer_of", "SET NULL")
        if wait < 5:
            place.database.execute("DROP TABLE orders", "DROP TABLE customers")


def test_mysql_and_mariadb_keys_to_a_table_that_is_made_anew_come_back(place: Place) -> None:
    place.create(CUSTOMERS, ORDERS)
    assert place.build(CUSTOMERS, ORDERS) == []
    place.tables.create_table(CUSTOMERS, place.table(CUSTOMERS), RULES, True, load=(place.job, 1))
    assert not place.existing("customers").referenced_by
    assert place.build(CUSTOMERS) == []
    assert [key.name for key in place.existing("customers").referenced_by] == ["customer_of"]


def test_mysql_and_mariadb_keys_come_back_to_a_table_that_could_not_be_dropped(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.create(CUSTOMERS)
    place.database.execute("ALTER TABLE customers ADD UNIQUE KEY mine (name)")
    customers = place.table(CUSTOMERS)
    place.tables.take_off_keys(place.job, customers)
    with closing(place.database.connect(autocommit=False)) as holder, closing(holder.cursor()) as cursor:
        cursor.execute("INSERT INTO customers VALUES (1, 'Ann')")
        with monkeypatch.context() as once, pytest.raises(TargetUnavailable, match="locked"):
            once.setattr(attempts, "LOCK_TRIES", 1)
            place.tables.create_table(CUSTOMERS, customers, RULES, True, load=(place.job, 1))
        holder.commit()
    assert place.build(CUSTOMERS) == []
    assert [index.name for index in place.existing("customers").secondary_unique] == ["mine"]


def test_mysql_and_mariadb_build_waits_for_who_is_at_the_table(place: Place) -> None:
    place.create(CUSTOMERS)
    found: list[Any] = []
    with closing(place.database.connect(autocommit=False)) as holder, closing(holder.cursor()) as cursor:
        cursor.execute("INSERT INTO customers VALUES (1, 'Ann')")
        building = Doing(lambda: found.append(place.build(CUSTOMERS)))
        waiting = "SELECT 1 FROM information_schema.PROCESSLIST WHERE STATE LIKE '%%metadata lock%%' AND INFO LIKE %s"
        until(lambda: place.database.query(waiting, [f"ALTER%{place.job}%"]), "ALTER TABLE does not wait")
        holder.commit()
        building.done()
    assert found == [[]]
    assert place.existing("customers").secondary_unique


# --- the catalogue ----------------------------------------------------------------------------------------------------


@pytest.mark.every_server("generated columns")
def test_rule_08_unique_keys_depend_on_what_their_generated_columns_are_computed_from(place: Place) -> None:
    place.database.execute(
        "CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT, c INT, s INT GENERATED ALWAYS AS (a + b) STORED, UNIQUE KEY (s))"
    )
    schema = table("t", number(), *(number(name) for name in "abc"))
    with closing(MysqlTargetCatalog(place.endpoint)) as catalog:
        assert catalog.unique_columns([place.table(schema)]) == {schema.id: frozenset("ab")}
        assert catalog.guards([place.table(schema)]) == Enforced(keys=False, triggers=False)
        place.database.execute("CREATE TRIGGER noted BEFORE INSERT ON t FOR EACH ROW SET NEW.c = 1")
        assert catalog.guards([place.table(schema)]) == Enforced(keys=False, triggers=True)


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


# --- from PostgreSQL --------------------------------------------------------------------------------------------------

STORE = (
    "CREATE TYPE mood AS ENUM ('sad', 'it''s ok', 'happy')",
    "CREATE DOMAIN positive AS integer CHECK (VALUE > 0)",
    """CREATE TABLE buyers (
      email text PRIMARY KEY, nick varchar(30) NOT NULL DEFAULT 'new'::varchar, mood mood NOT NULL DEFAULT 'sad',
      active boolean NOT NULL DEFAULT true, rate numeric(8,3) DEFAULT 1.5, born date DEFAULT '2000-01-31',
      made timestamptz NOT NULL DEFAULT now(), seen timestamp(3), tags text[], extra jsonb, token uuid, raw bytea,
      score double precision, small smallint DEFAULT '-3', address inet, took interval, level positive,
      CONSTRAINT rate_known CHECK (rate >= 0 AND rate < 1000),
      CONSTRAINT nick_known CHECK (nick IN ('new', 'it''s old', 'back\\slash')), CONSTRAINT odd CHECK (nick ~ '^n')
    )""",
    "COMMENT ON TABLE buyers IS 'who ''buys'''",
    "COMMENT ON COLUMN buyers.rate IS 'per cent'",
    "CREATE UNIQUE INDEX buyers_nick ON buyers (nick)",
    "CREATE UNIQUE INDEX buyers_active ON buyers (token) WHERE active",
    "CREATE INDEX buyers_lower ON buyers (lower(nick))",
    "CREATE INDEX buyers_tags ON buyers USING gin (tags)",
    "CREATE INDEX buyers_born ON buyers (born DESC, nick)",
    """CREATE TABLE sales (
      id bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, no serial NOT NULL,
      buyer text REFERENCES buyers ON DELETE CASCADE,
      amount integer NOT NULL, price integer NOT NULL, total integer GENERATED ALWAYS AS (amount * price) STORED,
      note text, UNIQUE (note), CONSTRAINT amounts CHECK (amount > 0 OR price IS NULL)
    )""",
    "CREATE INDEX sales_buyer ON sales (buyer)",
)


@pytest.mark.every_server("checks")
def test_postgresql_tables_at_mysql_and_mariadb(
    place: Place, logical_postgresql: Server, source_database: Callable[[Server], Database]
) -> None:
    """Make what has a counterpart at the target, and name what has none: nothing is left out in silence."""
    source = source_database(logical_postgresql)
    source.execute(*STORE)
    with closing(connectors.source(endpoint_of(source)).catalog()) as catalog:
        found = catalog.tables(lambda one: one.schema == "public")
    schemas = [found[TableId("public", name)] for name in ("buyers", "sales")]
    place.create(*schemas)
    for _ in range(2):
        problems = place.build(*schemas)
        assert sorted(problem.partition(" of ")[0] for problem in problems) == [
            "check odd",
            "index buyers_active",
            "index buyers_lower",
            "index buyers_tags",
        ], problems
    buyers, sales = place.existing("buyers"), place.existing("sales")
    assert (buyers.primary_key, sales.primary_key) == (("email",), ("id",))
    assert {index.name for index in buyers.indexes} == {"PRIMARY", "buyers_nick", "buyers_born"}
    assert sales.column("id").auto_increment and not sales.column("no").auto_increment
    assert [(key.columns, key.parent_columns, key.on_delete) for key in sales.foreign_keys] == [
        (("buyer",), ("email",), "CASCADE")
    ]
    assert {"rate_known", "nick_known"} <= set(buyers.checks) and "amounts" in sales.checks
    place.database.execute("INSERT INTO buyers (email) VALUES ('a@b')")
    place.database.execute("INSERT INTO sales (buyer, amount, price, no) VALUES ('a@b', 2, 21, 1)")
    told = "SELECT nick, mood, active, rate, CAST(born AS CHAR), small, made IS NOT NULL FROM buyers"
    (row,) = place.database.query(told)
    assert [str(value) for value in row] == ["new", "sad", "1", "1.500", "2000-01-31", "-3", "1"]
    pairs = [(schema, place.table(schema)) for schema in schemas]
    notes = [step.note for step in place.tables.script(pairs) if step.note]
    assert any(note.startswith("numbers of no:") for note in notes), notes
    assert "per cent" in place.shown("buyers") and "who ''buys''" in place.shown("buyers")
