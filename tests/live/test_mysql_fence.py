"""The fence of a MySQL or MariaDB: who is refused, whom the server lets through, the rights that it takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import replace

import pymysql
import pytest

from anabranch.connectors.mysql.source import connector
from anabranch.contracts import FencedSource, SourceFence
from anabranch.model.checks import CheckVerdict
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId
from anabranch.testing.databases import Database, connect
from anabranch.testing.servers import Server
from rigs.endpoints import endpoint_of

EVERY = pytest.mark.every_server("row images")
USER, APP = "fence_repl", "fence_app"


def fence_of(endpoint: Endpoint) -> SourceFence:
    source = connector(endpoint)
    assert isinstance(source, FencedSource)
    return source.fence("anabranch_shop_1")


@pytest.fixture
def database(mysql_family: Server, source_database: Callable[[Server], Database]) -> Iterator[Database]:
    made = source_database(mysql_family)
    made.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT) ENGINE=InnoDB", "INSERT INTO t VALUES (1, 1), (2, 2)")
    for user in (USER, APP):
        with suppress(pymysql.err.Error):  # before MySQL 5.7 there is no IF EXISTS
            made.execute(f"DROP USER {user}")
        made.execute(f"CREATE USER {user} IDENTIFIED BY 'secret'")
    made.execute(f"GRANT ALL ON `{made.name}`.* TO {APP}", f"GRANT REPLICATION CLIENT ON *.* TO {USER}")
    try:
        yield made
    finally:
        with suppress(pymysql.err.Error):
            made.execute("SET GLOBAL super_read_only = OFF")
        made.execute("SET GLOBAL read_only = OFF", f"DROP USER {USER}", f"DROP USER {APP}")


def settings(database: Database) -> dict[str, str]:
    names = "'read_only', 'super_read_only', 'event_scheduler'"
    return dict(database.query(f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({names})"))


def app(database: Database, **options: object) -> pymysql.Connection:
    return connect(database.server, database.name, user=APP, password="secret", **options)


@EVERY
def test_rule_24_pitfall_72_a_fence_with_the_rights_that_it_asks_for(database: Database) -> None:
    """The statements of its checks are enough; an older transaction is awaited, SUPER refused where the server can, and what
    was there before is there behind it."""
    tables, before_all = [TableId(database.name, "t")], settings(database)
    fence = fence_of(replace(endpoint_of(database), user=USER, password="secret", database=""))
    lacking = [one.hint for one in fence.checks(tables) if one.verdict == CheckVerdict.FAILED]
    assert lacking and all(hint.startswith("GRANT ") for hint in lacking), lacking
    database.execute(*lacking)
    assert [one for one in fence.checks(tables) if one.verdict == CheckVerdict.FAILED] == []

    before = fence.before(tables)
    assert fence.gaps(tables, before), "not raised yet"
    with closing(app(database, autocommit=False)) as older:
        older.cursor().execute("UPDATE t SET v = 9 WHERE id = 1")
        assert APP in "; ".join(fence.deny(tables, before))
        older.rollback()
    assert fence.deny(tables, before) == []
    mark = fence.mark(before)
    assert fence.gaps(tables, before) == [] and fence.deny(tables, before) == []
    with closing(app(database)) as writer, pytest.raises(pymysql.err.Error, match="read-only"):
        writer.cursor().execute("UPDATE t SET v = 8 WHERE id = 2")
    has_super = "super_read_only" in before_all
    if has_super:
        with pytest.raises(pymysql.err.Error, match="read-only"):
            database.execute("UPDATE t SET v = 7 WHERE id = 2")
    else:
        database.execute("UPDATE t SET v = 7 WHERE id = 2")  # the engine finds it, behind the mark
        source = connector(endpoint_of(database))
        with closing(source.catalog()) as catalog:
            assert not source.order.includes(mark, catalog.mark().native, None)

    assert fence.lift(tables, before) == [] and settings(database) == before_all
    assert fence.lift(tables, before) == []
    with closing(app(database)) as writer:
        writer.cursor().execute("UPDATE t SET v = 8 WHERE id = 2")
    assert database.query("SELECT v FROM t ORDER BY id") == [(1,), (8,)]


@EVERY
def test_rule_24_who_passes_read_only_is_named(database: Database) -> None:
    has_super = "super_read_only" in settings(database)
    database.execute(f"GRANT SUPER ON *.* TO {APP}")
    found = [one for one in fence_of(endpoint_of(database)).checks([]) if one.verdict == CheckVerdict.WARNING]
    assert bool(found) != has_super
    assert has_super or f"'{APP}'@'%'" in found[0].names


@EVERY
def test_rule_24_locked_tables_hold_the_fence_up_for_seconds_only(database: Database) -> None:
    tables, fence = [TableId(database.name, "t")], fence_of(endpoint_of(database))
    before = fence.before(tables)
    with closing(app(database)) as locking:
        locking.cursor().execute("LOCK TABLES t WRITE")
        locking.cursor().execute("UPDATE t SET v = 5 WHERE id = 1")
        assert fence.deny(tables, before) != [] or database.server.name == "mariadb"
        locking.cursor().execute("UNLOCK TABLES")
    assert fence.deny(tables, before) == []
    fence.lift(tables, before)
