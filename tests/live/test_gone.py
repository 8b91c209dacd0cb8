"""A table that is dropped, and one that is only hidden from the job's user: never one taken for the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from anabranch import connectors
from anabranch.errors import SourceError, SourceUnavailable
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId
from anabranch.testing.databases import Database, unique_name
from anabranch.testing.servers import Server

Make = Callable[[Server], Database]
TABLES = ("stays", "goes", "renamed", "viewed", "hidden", "hidden_and_gone")


def endpoint(database: Database, user: str, path: str = "") -> Endpoint:
    server = database.server
    return Endpoint(server.name, server.host, server.port, user, "p", path)


def gone(at: Endpoint, schema: str, *names: str) -> set[str]:
    with closing(connectors.source(at).catalog()) as catalog:
        return {table.name for table in catalog.gone([TableId(schema, name) for name in names])}


@pytest.fixture
def mysql_shop(mysql_family: Server, source_database: Make) -> Iterator[tuple[Database, str]]:
    """With a user who may read each of the tables."""
    shop, user = source_database(mysql_family), unique_name("repl")[-16:]  # the longest name of a user before MySQL 5.7
    shop.execute(
        f"CREATE USER {user}@'%' IDENTIFIED BY 'p'",
        f"GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO {user}@'%'",
        *(f"CREATE TABLE {name} (id INT PRIMARY KEY)" for name in TABLES),
        *(f"GRANT SELECT ON {shop.name}.{name} TO {user}@'%'" for name in TABLES),
    )
    yield shop, user
    shop.execute(f"DROP USER {user}@'%'")


@pytest.mark.every_server
def test_a_dropped_table_is_told_from_a_hidden_one_at_a_mysql(mysql_shop: tuple[Database, str]) -> None:
    shop, user = mysql_shop
    shop.execute(
        "DROP TABLE goes, viewed, hidden_and_gone",
        "RENAME TABLE renamed TO another",
        "CREATE VIEW viewed AS SELECT 1 AS id",
        *(f"REVOKE SELECT ON {shop.name}.{name} FROM {user}@'%'" for name in ("hidden", "hidden_and_gone")),
    )
    at, other = endpoint(shop, user), unique_name("other")
    with closing(connectors.source(at).catalog()) as catalog:
        assert TableId(shop.name, "hidden") not in catalog.names(), "else the test shows nothing"
    assert gone(at, shop.name, *TABLES, "never_made") == {"goes", "renamed", "viewed"}, "grants outlive tables"
    assert gone(at, other, "t") == set(), "nobody may look into it"
    shop.execute(f"GRANT SELECT ON {other}.* TO {user}@'%'")
    assert gone(at, other, "t") == {"t"}, "the database is gone, and the user would see it"
    shop.execute(f"REVOKE REPLICATION SLAVE, REPLICATION CLIENT ON *.* FROM {user}@'%'")
    shop.execute(*(f"REVOKE SELECT ON {shop.name}.{name} FROM {user}@'%'" for name in TABLES[:4]))
    assert gone(at, shop.name, *TABLES) == set()


def test_a_dropped_table_is_told_from_a_hidden_one_at_a_postgresql(
    postgresql_source: Server, source_database: Make
) -> None:
    shop, user = source_database(postgresql_source), unique_name("repl")
    shop.execute(
        f"CREATE ROLE {user} LOGIN PASSWORD 'p'",
        "CREATE SCHEMA vault",
        *(f"CREATE TABLE vault.{name} (id int PRIMARY KEY)" for name in TABLES),
        "DROP TABLE vault.goes, vault.viewed, vault.hidden_and_gone",
        "ALTER TABLE vault.renamed RENAME TO another",
        "CREATE VIEW vault.viewed AS SELECT 1 AS id",
        "CREATE TABLE vault.root (id int) PARTITION BY RANGE (id)",
        "ALTER TABLE vault.root ATTACH PARTITION vault.another FOR VALUES FROM (0) TO (9)",
    )
    try:
        at = endpoint(shop, user, shop.name)  # without USAGE on the schema, without SELECT on anything
        with closing(connectors.source(at).catalog()) as catalog:
            names = catalog.names().keys()
            found = catalog.gone([TableId("vault", name) for name in (*TABLES, "another", "root", 'q"t')])
        expected = dict.fromkeys(("goes", "renamed", "viewed", "hidden_and_gone", 'q"t'), "")
        if TableId("vault", "another") not in names:  # before 13 a partition is a table
            expected["another"] = "a partition of vault.root"
        assert {table.name: what for table, what in found.items()} == expected
        assert gone(at, "no_such_schema", "t") == {"t"}
    finally:
        shop.execute(f"DROP ROLE {user}")


@pytest.mark.parametrize("password", ["p", "wrong"])
def test_a_server_that_does_not_answer_says_nothing(mariadb: Server, password: str) -> None:
    """Nobody listens, or the login is refused: an error, never an answer."""
    port = mariadb.port if password == "wrong" else 1
    at = Endpoint("mariadb", "127.0.0.1", port, "nobody", password)
    with pytest.raises(SourceError) as refused:
        gone(at, "shop", "t")
    assert isinstance(refused.value, SourceUnavailable) is (password == "p")
