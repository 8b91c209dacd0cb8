"""System-versioned tables of MariaDB: what is replicated is what a plain SELECT shows."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import pytest

from anabranch import connectors
from anabranch.contracts import Bounds
from anabranch.errors import SourceError
from anabranch.rows.chunk import Op
from anabranch.testing.databases import Database
from anabranch.testing.servers import Server

HIDDEN = (
    "CREATE TABLE {} (id int primary key, a int, b varchar(20) default 'd', c text, key (a)) WITH SYSTEM VERSIONING"
)
DECLARED = (
    "CREATE TABLE {} (id int primary key, a int, rs timestamp(6) GENERATED ALWAYS AS ROW START, b varchar(20) default 'd',"
    " re timestamp(6) GENERATED ALWAYS AS ROW END INVISIBLE, c text, w int WITHOUT SYSTEM VERSIONING,"
    " PERIOD FOR SYSTEM_TIME(rs, re)) WITH SYSTEM VERSIONING"
)
KEYLESS = "CREATE TABLE {} (id int, a int, b varchar(20), c text) WITH SYSTEM VERSIONING"
CHANGES = (
    "INSERT INTO {0} (id, a) VALUES (1, 10), (2, 20), (3, 30), (4, 40)",
    "UPDATE {0} SET a = a + 1 WHERE id IN (1, 3)",
    "DELETE FROM {0} WHERE id = 2",
    "INSERT INTO {0} (id, a, b, c) VALUES (2, 21, NULL, 'again')",
    "REPLACE INTO {0} (id, a) VALUES (3, 33), (5, 55)",
    "INSERT INTO {0} (id, a) VALUES (1, 99) ON DUPLICATE KEY UPDATE a = 12",
    "UPDATE {0} SET id = 9, c = 'moved' WHERE id = 1",
    "DELETE HISTORY FROM {0}",
    "START TRANSACTION",
    "INSERT INTO {0} (id, a) VALUES (7, 1)",
    "UPDATE {0} SET a = 2 WHERE id = 7",
    "DELETE FROM {0} WHERE id = 7",
    "INSERT INTO {0} (id, a) VALUES (8, 1)",
    "COMMIT",
    "DELETE FROM {0} WHERE id > 8",
)


def test_mariadb_live_versioned_tables_are_their_rows_of_now(
    mariadb: Server, source_database: Callable[[Server], Database], follow: Callable
) -> None:
    database = source_database(mariadb)
    tables = {f"{name}_{image}": (image, made) for image in ("full", "minimal", "noblob")
              for name, made in (("hidden", HIDDEN), ("declared", DECLARED))}  # fmt: skip
    database.execute(*(made.format(table) for table, (_, made) in tables.items()))
    follower = follow(database)
    follower.begin()
    for table, (image, _) in tables.items():
        follower.run(f"SET binlog_row_image = '{image}'", *(change.format(table) for change in CHANGES))
    assert not [barrier for chunk in follower.chunks() for barrier in chunk.barriers]
    for table in tables:
        schema = follower.schema(table)
        assert schema.primary_key == ("id",)
        assert follower.told(table) == follower.read(table), table
        assert len(follower.read(table)) == 5, table
    assert [column.name for column in follower.schema("hidden_full").columns] == ["id", "a", "b", "c"]
    assert [column.name for column in follower.schema("declared_full").columns] == [
        "id",
        "a",
        "rs",
        "b",
        "re",
        "c",
        "w",
    ]
    deleted = [image for image in follower.images("hidden_minimal") if image["_op"] == Op.DELETE]
    assert [image["id"] for image in deleted] == [2, 3, 7, 9]
    for one in follower.chunks():
        assert sum(rows.batch.num_rows for rows in one.tables) == sum(one.transactions.column("rows").to_pylist())


def test_mariadb_live_versioned_without_a_key(
    mariadb: Server, source_database: Callable[[Server], Database], follow: Callable
) -> None:
    database = source_database(mariadb)
    database.execute(KEYLESS.format("t"))
    follower = follow(database)
    follower.begin()
    follower.run(*(change.format("t") for change in CHANGES if "REPLACE" not in change and "DUPLICATE" not in change))
    found: list[tuple[object, ...]] = []
    for image in follower.images("t"):
        row = tuple(image[name] for name in ("id", "a", "b", "c"))
        if image["_op"] in (Op.INSERT, Op.AFTER):
            found.append(row)
        else:
            found.remove(row)
    assert sorted(found) == sorted(database.query("SELECT id, a, b, c FROM t"))


def test_mariadb_live_versioned_tables_as_they_were_are_not_read(
    mariadb: Server, source_database: Callable[[Server], Database], follow: Callable
) -> None:
    database = source_database(mariadb)
    database.execute(HIDDEN.format("t"), "INSERT INTO t (id) VALUES (1)")
    follower = follow(database)
    follower.tables = follower.definitions()
    with (
        closing(connectors.source(follower.endpoint).snapshot()) as snapshot,
        closing(database.connect()) as connection,
    ):
        cursor = connection.cursor()
        cursor.execute("SET GLOBAL system_versioning_asof = '2001-01-01 00:00:00'")
        try:
            with pytest.raises(SourceError, match="as they were"):
                snapshot.lines(follower.schema("t"), ["id"], Bounds(), follower.rules)
        finally:
            cursor.execute("SET GLOBAL system_versioning_asof = DEFAULT")
