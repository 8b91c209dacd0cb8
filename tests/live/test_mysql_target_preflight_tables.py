"""Preflight of a MySQL or MariaDB target with tables: what is right, and what is wrong in one thing, with the statement that
mends it."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

import pytest

from anabranch.connectors.mysql.target.own_source import own_identity
from anabranch.connectors.mysql.target.session import connect as connect_target
from anabranch.contracts import PreflightContext
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.schema import Check, Column, ForeignKey
from anabranch.testing.databases import Database
from anabranch.testing.features import knows
from anabranch.testing.servers import Server
from rigs.endpoints import endpoint_of
from rigs.preflight_mysql import (
    BINARY,
    ID,
    NAME,
    WORD,
    Make,
    by_check,
    checked,
    one,
    table,
    target_of,
    wrong,
)

pytestmark = pytest.mark.every_server("fractions")


@pytest.fixture
def database(mysql_family: Server, source_database: Make) -> Database:
    return source_database(mysql_family)


TABLE = "CREATE TABLE orders (id int PRIMARY KEY, name varchar(40) COLLATE utf8mb4_bin)"
EXISTING = [  # statements, check, verdict, part of message, part of hint, choices
    ([TABLE, "INSERT INTO orders VALUES (1, 'x')"], "existing", "failed", "holds rows", "TRUNCATE TABLE", {}),
    ([TABLE, "INSERT INTO orders VALUES (1, 'x')"], "existing", "warning", "stay", "", {"load__existing": "keep"}),
    (["CREATE VIEW orders AS SELECT 1 AS id, 'x' AS name"], "existing", "failed", "is a view", "another target", {}),
    (
        ["CREATE TABLE orders (id int PRIMARY KEY, name varchar(40)) ENGINE = MyISAM"],
        "engine",
        "failed",
        "MyISAM",
        "ENGINE = InnoDB",
        {},
    ),
    (
        ["CREATE TABLE orders (id int PRIMARY KEY)"],
        "columns",
        "failed",
        "name is missing",
        "ADD `name` varchar(40)",
        {},
    ),
    (
        ["CREATE TABLE orders (id smallint PRIMARY KEY, name varchar(40))"],
        "columns",
        "failed",
        "id is smallint",
        "MODIFY `id` int",
        {},
    ),
    (
        ["CREATE TABLE orders (id int PRIMARY KEY, name varchar(39))"],
        "columns",
        "failed",
        "varchar(39)",
        "MODIFY `name` varchar(40)",
        {},
    ),
    (
        [TABLE, "ALTER TABLE orders ADD more int NOT NULL"],
        "columns",
        "failed",
        "extra column more",
        "MODIFY `more` int",
        {},
    ),
    (
        ["CREATE TABLE orders (id int PRIMARY KEY, name varchar(40) AS ('x') STORED)"],
        "columns",
        "failed",
        "generated",
        "MODIFY `name`",
        {},
    ),
    (
        ["CREATE TABLE orders (id int PRIMARY KEY, name varchar(40) NOT NULL)"],
        "columns",
        "failed",
        "NOT NULL",
        "varchar(40) NULL",
        {},
    ),
    (
        ["CREATE TABLE orders (id int, name varchar(40))"],
        "key",
        "failed",
        "primary key is ()",
        "ADD PRIMARY KEY (`id`)",
        {},
    ),
    (
        ["CREATE TABLE orders (id int, name varchar(40), PRIMARY KEY (id, name))"],
        "key",
        "failed",
        "(id, name)",
        "DROP PRIMARY KEY",
        {},
    ),
    (
        [TABLE, "CREATE UNIQUE INDEX u ON orders (name)"],
        "constraints",
        "failed",
        "unique index u",
        "defer_constraints",
        {},
    ),
    (
        [TABLE, "CREATE UNIQUE INDEX u ON orders (name)"],
        "constraints",
        "warning",
        "unique index u",
        "",
        {"load__defer_constraints": "true"},
    ),
    (
        ["CREATE TABLE orders (id int PRIMARY KEY, name varchar(40) CHARACTER SET latin1)"],
        "collations",
        "warning",
        "latin1",
        "CHARACTER SET utf8mb4",
        {},
    ),
]


def test_mysql_target_tables_that_are_there(database: Database) -> None:
    for statements, check, verdict, message, hint, choices in EXISTING:
        if "STORED" in statements[0] and not knows(database.server, "generated columns"):
            continue
        database.execute(*statements)
        result = next(r for r in checked(database, **choices).get(check, []) if message in r.message)
        assert result.verdict == verdict and hint in result.hint, statements
        assert result.table == "shop.orders"
        database.execute("DROP VIEW orders" if "VIEW" in statements[0] else "DROP TABLE orders")


def test_mysql_target_year_as_every_server_shows_it(database: Database) -> None:
    """`year(4)` on MariaDB and on MySQL before 8.0, where the job has made a `year`."""
    database.execute("CREATE TABLE orders (id int PRIMARY KEY, y year)")
    found = checked(database, table(ID, Column("y", LogicalType(Kind.YEAR), "year")))
    assert "columns" not in found


def test_mysql_target_hints_mend_tables(database: Database) -> None:
    """Statements of the findings, carried out: no finding is left."""
    database.execute(
        "CREATE TABLE orders (id smallint, more int NOT NULL) ENGINE = MyISAM",
    )
    for _ in range(3):
        found = [r for r in wrong(checked(database)) if r.check.split(".")[1] in ("columns", "key", "engine")]
        for result in found:
            database.execute(result.hint)
    assert [r for r in wrong(checked(database)) if r.table] == []


@pytest.mark.every_server("utf8mb4_0900_bin")
def test_pitfall_58_mysql_target_key_that_takes_other_texts_for_equal(database: Database) -> None:
    exact = Column("name", WORD, "varchar(40)", nullable=False, charset="utf8mb4", collation=BINARY)
    schema = table(exact, key=("name",))
    database.execute("CREATE TABLE orders (name varchar(40) COLLATE utf8mb4_general_ci PRIMARY KEY)")
    result = one(checked(database, schema), "collations")
    assert result.verdict == "warning" and "COLLATE utf8mb4_" in result.hint
    database.execute(result.hint + " NOT NULL")
    assert "collations" not in checked(database, schema)
    loose = replace(exact, collation="utf8mb4_general_ci")
    assert "collations" not in checked(database, table(loose, key=("name",)))


def test_rule_07_mysql_triggers_cannot_be_switched_off(database: Database) -> None:
    database.execute(
        TABLE,
        "CREATE TABLE seen (n int)",
        "CREATE TRIGGER noisy AFTER INSERT ON orders FOR EACH ROW INSERT INTO seen VALUES (1)",
    )
    result = one(checked(database), "triggers")
    assert result.verdict == "failed" and result.names == ("noisy (AFTER INSERT)",)
    assert f"DROP TRIGGER `{database.name}`.`noisy`" in result.hint and "@anabranch_applies" in result.hint
    assert one(checked(database, apply__triggers="fire"), "triggers").verdict == "warning"
    database.execute(
        "DROP TRIGGER noisy",
        "CREATE TRIGGER quiet AFTER INSERT ON orders FOR EACH ROW BEGIN IF @anabranch_applies IS NULL THEN"
        " INSERT INTO seen VALUES (1); END IF; END",
    )
    assert one(checked(database), "triggers").verdict == "ok"


def test_mysql_target_is_the_source(database: Database) -> None:
    database.execute(TABLE)
    with closing(connect_target(endpoint_of(database), "anabranch-test")) as connection:
        identity = own_identity(connection)
    schema = replace(table(), id=TableId(database.name, "orders"))
    targets = {schema.id: target_of(schema, database.name)}
    context = PreflightContext("job", {}, {schema.id: schema}, targets, source_identity=identity)
    result = one(by_check(database, context), "own_source")
    assert result.verdict == "failed" and "same server" in result.message
    assert "own_source" not in by_check(database, replace(context, source_identity="another"))


def test_mysql_target_in_the_database_of_jobs(database: Database) -> None:
    found = checked(database, place="anabranch")
    assert one(found, "own_source").verdict == "failed"


def test_mysql_target_key_that_takes_more_than_the_source_s(database: Database) -> None:
    """MATCH FULL of PostgreSQL refuses a row of which only some columns are NULL."""
    columns = ID, replace(ID, name="a", nullable=True), replace(ID, name="b")
    key = ForeignKey("f", ("a", "b"), TableId("shop", "orders"), ("id", "b"), options=" MATCH FULL")
    not_null = replace(key, name="g", columns=("b", "id"))
    schema = table(
        *columns, foreign_keys=(key, not_null, replace(key, name="h", columns=("a",), parent_columns=("id",)))
    )
    told = one(checked(database, schema), "foreign_keys")
    assert told.verdict == "warning" and told.message.startswith("foreign key f is built otherwise: MATCH FULL has no")
    elsewhere = replace(schema, foreign_keys=(replace(key, parent=TableId("shop", "gone")),))
    assert "will not be built" in one(checked(database, elsewhere), "foreign_keys").message


def test_mysql_target_lacks_functions_that_the_source_has(database: Database) -> None:
    check = Check("k", "regexp_like(`name`,_utf8mb4'^regexp_like(')", refusal="it calls regexp_like")
    number = replace(ID, name="n", nullable=True, has_default=True, default="nextval(`s`)", default_is_expression=True)
    found = checked(database, table(ID, NAME, number, checks=(check,)))
    (said,) = [result.message for result in found["definition"] if " n: " in result.message]
    if database.server.name == "mariadb":
        assert one(found, "checks").message == "check k will not be built: MariaDB has no function regexp_like"
        assert said == "not carried over: sequence of n: the default nextval(`s`) is made only where it is there"
    else:
        assert "checks" not in found or not knows(database.server, "checks")
        assert said == "not carried over: default of n: nextval(`s`)"
