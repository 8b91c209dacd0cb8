"""What a log has of work that was rolled back: rows of tables without transactions stay, the others never happened."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import pymysql
import pytest

from anabranch.connectors.mysql.source import endings
from anabranch.errors import UnknownLogEvent
from anabranch.rows.chunk import Chunk, Part
from anabranch.rows.log_items import LogAbandoned
from anabranch.testing.databases import Database
from anabranch.testing.servers import Server

Make = Callable[[Server], Database]
TABLES = ("t", "plain", "k", "copy")


@pytest.fixture(params=["mariadb", "mysql_without_gtids", "mysql"])
def server(request: pytest.FixtureRequest) -> Server:
    return request.getfixturevalue(request.param)


def mixed(database: Database) -> None:
    """`t`, `k` keep to transactions, `plain` and `copy` do not; each row of `k` is copied there."""
    database.execute(
        "CREATE TABLE t (id int PRIMARY KEY, v varchar(20))",
        "CREATE TABLE plain (id int PRIMARY KEY) ENGINE=MyISAM",
        "CREATE TABLE k (id int PRIMARY KEY)",
        "CREATE TABLE copy (id int PRIMARY KEY) ENGINE=MyISAM",
        "CREATE TRIGGER copies AFTER INSERT ON k FOR EACH ROW INSERT INTO copy VALUES (NEW.id)",
    )


def work(database: Database, *statements: str) -> None:
    """In one transaction; what a server refuses is left out (MySQL with GTIDs: engines in one transaction)."""
    with closing(database.connect(autocommit=False)) as connection, closing(connection.cursor()) as cursor:
        for statement in statements:
            try:
                cursor.execute(statement)
            except pymysql.err.MySQLError as error:
                assert error.args[0] in (1062, 1305, 1785), error


def t(*ids: int) -> str:
    return "INSERT INTO t VALUES " + ", ".join(f"({id}, 'x')" for id in ids)


@pytest.mark.parametrize("direct", ["OFF", "ON"])
@pytest.mark.one_case(
    "native-mysql-ON",
    "python-mysql-OFF",
    "native-mariadb-OFF",
    "python-mariadb-ON",
    "native-mysql_without_gtids-ON",
    "python-mysql_without_gtids-OFF",
)
def test_pitfall_18_19_mixed_engines_and_savepoints_come_as_they_stay(
    server: Server, source_database: Make, follow: Callable, direct: str
) -> None:
    database = source_database(server)
    mixed(database)
    follower = follow(database)
    follower.begin()
    how = f"SET SESSION binlog_direct_non_transactional_updates = {direct}"
    plain = "INSERT INTO plain VALUES ({})".format
    work(database, how, t(1), plain(1), "COMMIT")
    work(database, how, t(2), plain(2), t(3), "ROLLBACK")
    work(
        database, how, t(4), "SAVEPOINT a", t(5), plain(4), "SAVEPOINT `B ``b`", t(6, 7), "UPDATE t SET v = 'u' WHERE id = 5",
        "ROLLBACK TO SAVEPOINT `b ``B`", t(8), "SAVEPOINT c", "DELETE FROM t WHERE id = 4", "ROLLBACK TO A", t(9),
        "RELEASE SAVEPOINT a", "COMMIT",
    )  # fmt: skip
    work(
        database,
        how,
        t(10),
        "INSERT INTO k VALUES (10)",
        "SAVEPOINT a",
        "INSERT INTO k VALUES (11)",
        "ROLLBACK TO a",
        "COMMIT",
    )
    work(database, how, t(12), "INSERT INTO k VALUES (12)", "ROLLBACK")
    work(database, how, "UPDATE t, plain SET t.v = 'z', plain.id = plain.id + 1000 WHERE t.id = plain.id", "ROLLBACK")
    work(database, how, t(13), "INSERT INTO plain VALUES (13), (13)", "COMMIT")
    work(database, how, plain(14), t(14, 14), t(15), "COMMIT")
    work(
        database, how, t(16), "CREATE TEMPORARY TABLE other (id int) ENGINE=MyISAM", "INSERT INTO other VALUES (1)", t(17),
        "DROP TEMPORARY TABLE other", "ROLLBACK",
    )  # fmt: skip
    database.execute(t(18))
    follower.take()
    for table in TABLES:
        assert follower.told(table) == follower.read(table), table
    assert len(follower.read("t")) >= 6 and (server.name == "mysql" or len(follower.read("copy")) == 3)
    counts = [t["rows"] for chunk in follower.chunks() for t in chunk.transactions.to_pylist()]
    assert sum(counts) == sum(chunk.row_count for chunk in follower.chunks()) and 0 not in counts
    for chunk in follower.chunks():
        assert chunk.resume


def test_pitfall_18_19_what_is_taken_back_of_a_large_transaction(
    mariadb: Server, source_database: Make, follow: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fragments that have left are abandoned where all of it is rolled back; a part of them cannot be."""
    monkeypatch.setattr(endings, "FULL_IMAGES", 10)
    database = source_database(mariadb)
    mixed(database)
    follower = follow(database)
    follower.tables = {k: v for k, v in follower.definitions().items() if k.name == "t"}
    follower.begin()
    temporary = ("CREATE TEMPORARY TABLE other (id int) ENGINE=MyISAM", "INSERT INTO other VALUES (1)")
    many = [t(*range(100 * n, 100 * n + 8)) for n in range(1, 6)]
    work(database, t(1), *temporary, *many, "ROLLBACK")
    work(database, t(2), *many, "SAVEPOINT a", *temporary, t(3), "ROLLBACK TO a", t(5), "COMMIT")
    items = follower.take()
    kinds = [item.part if isinstance(item, Chunk) else type(item) for item in items]
    fragments = kinds.index(LogAbandoned)
    assert fragments == 2 and kinds[:fragments] == [Part.FRAGMENT] * fragments
    rest = items[fragments + 1 :]
    assert [image["id"] for image in follower.images("t", rest) if image["id"] < 100] == [2, 5]
    again = follow(database)
    again.tables = follower.tables
    again.begin(items[fragments].mark)
    assert [image["id"] for image in again.images("t", again.take()) if image["id"] < 100] == [2, 5]
    others = [t(*range(1000 * n, 1000 * n + 8)) for n in range(1, 6)]
    work(database, t(6), "SAVEPOINT a", *temporary, *others, "ROLLBACK TO a", "COMMIT")
    with pytest.raises(UnknownLogEvent, match="have left already") as stopped:
        for _ in range(3):
            follower.take()
    assert stopped.value.position and "InnoDB" in stopped.value.hint
