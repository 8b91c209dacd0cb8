"""What capture asks every ten seconds: the names of all tables, for which no server opens one."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import pytest

from anabranch import connectors
from anabranch.connectors.mysql.source.table_names import table_names
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId
from anabranch.testing.databases import Database, connect
from anabranch.testing.servers import Server

pytestmark = pytest.mark.every_server
TABLES = 60
Make = Callable[[Server], Database]


def names_at(server: Server, user: str = "", password: str = "") -> set[TableId]:
    at = Endpoint(server.name, server.host, server.port, user or server.user, password or server.password)
    with closing(connectors.source(at).catalog()) as catalog:
        return set(catalog.names())


def test_no_table_is_opened_for_its_name(mysql_family: Server, source_database: Make) -> None:
    """Two thousand tables took 3 s of a 5.6 every ten seconds, and threw all others out of its caches."""
    database = source_database(mysql_family)
    database.execute(
        *(f"CREATE TABLE t{number} (id INT PRIMARY KEY)" for number in range(TABLES)), "CREATE VIEW v AS SELECT 1"
    )
    with closing(connect(mysql_family)) as connection, closing(connection.cursor()) as cursor:

        def opened() -> int:
            cursor.execute("SHOW SESSION STATUS WHERE Variable_name IN ('Opened_tables', 'Opened_table_definitions')")
            return sum(int(value) for _, value in cursor.fetchall())

        cursor.execute("FLUSH TABLES")
        table_names(connection)  # a server with a dictionary opens that the first time
        before = opened()
        found = [table.name for table in table_names(connection) if table.schema == database.name]
        assert opened() - before < TABLES / 10
        assert sorted(found) == sorted(f"t{number}" for number in range(TABLES))


def test_names_are_of_tables_that_the_user_may_see(mysql_family: Server, source_database: Make) -> None:
    """Also of odd names and schemas; not of views, nor of schemas in which it may do nothing. Nothing waits for a lock."""
    shop, other = source_database(mysql_family), source_database(mysql_family)
    user = shop.name[-16:]
    shop.execute(
        "CREATE TABLE `o%dd ``name` (id INT PRIMARY KEY)",
        "CREATE TABLE hidden (id INT PRIMARY KEY)",
        "CREATE VIEW viewed AS SELECT 1 AS id",
        f"CREATE USER {user}@'%' IDENTIFIED BY 'pw'",
        f"GRANT SHOW DATABASES, REPLICATION CLIENT ON *.* TO {user}@'%'",
        f"GRANT SELECT ON {shop.name}.`o%dd ``name` TO {user}@'%'",
        f"GRANT SELECT ON {shop.name}.viewed TO {user}@'%'",
    )
    other.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    odd = TableId(shop.name, "o%dd `name")
    try:
        assert names_at(mysql_family, user, "pw") == {odd}
        with closing(shop.connect(autocommit=False)) as holder, closing(holder.cursor()) as cursor:
            cursor.execute("LOCK TABLES hidden WRITE")
            whole = {table for table in names_at(mysql_family) if table.schema in (shop.name, other.name)}
        assert whole == {odd, TableId(shop.name, "hidden"), TableId(other.name, "t")}
    finally:
        shop.execute(f"DROP USER {user}@'%'")
