"""The connection that would empty or write asks itself whether it leads to the job's source, whatever preflight said; and
preflight sees it by a lock, without any right."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace

import pytest
from customers import RULES, endpoint_of

from anabranch.abc import Bounds, PreflightContext
from anabranch.connectors.postgresql import source, target
from anabranch.connectors.postgresql.connection import connect
from anabranch.connectors.postgresql.own_source import sees
from anabranch.errors import TargetError
from anabranch.model.checks import CheckResult
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId
from anabranch.model.position import Position
from anabranch.model.schema import Column, TableSchema
from anabranch.model.state import TableState
from anabranch.model.writers import SourceWriter
from anabranch.rows.net import TargetTable
from anabranch.testing.databases import Database
from anabranch.testing.servers import Server

ORDERS = TableId("public", "orders")
INT = LogicalType(Kind.INT32)
TABLE = TargetTable(ORDERS, ORDERS, ("id",), (INT,), ("id",))
SCHEMA = TableSchema(ORDERS, (Column("id", INT, "int", nullable=False),), ("id",))
UUID = "0badcafe-0000-4000-8000-000000000000"
SLOT = "anabranch_shop_0badcafe"
REFUSED = r"public\.orders is a table that the job reads"
Make = Callable[[Server], Database]


@contextmanager
def begun(database: Database, name: str = "shop") -> Iterator[Endpoint]:
    """A job whose state is in the database, as it is before its first load."""
    end = target(endpoint_of(database))
    with closing(end.store()) as store:
        store.prepare()
        store.save_job(name, {"uuid": UUID, "source_identity": "", "definition": "{}"})
        store.save_table(name, TableState(ORDERS, ORDERS, "pending"), None)
        store.create_checkpoint(name, Position(1, ""), 0)
    yield endpoint_of(database)


def with_slot(database: Database) -> None:
    database.execute(f"SELECT pg_create_logical_replication_slot('{SLOT}', 'pgoutput')")


def test_postgresql_connections_that_write_refuse_the_source(logical_postgresql: Server, source_database: Make) -> None:
    database, elsewhere = source_database(logical_postgresql), source_database(logical_postgresql)
    for one in (database, elsewhere):
        one.execute("CREATE TABLE orders (id int PRIMARY KEY)", "INSERT INTO orders VALUES (1), (2)")
    with_slot(database)
    with begun(database) as end:
        loaders_and_writers_refuse(end)
    assert database.query("SELECT count(*) FROM orders") == [(2,)]
    with begun(elsewhere) as end:  # the same server, where the slot is none of this database
        with closing(target(end).writer(RULES, False)) as writer:
            writer.claim("shop", "me")
        with closing(target(end).loader(RULES)) as loader:
            loader.begin_generation("shop", TABLE, 1, [], empty=True)
    assert elsewhere.query("SELECT count(*) FROM orders") == [(0,)]


def test_postgresql_each_connection_of_a_load_asks_anew(logical_postgresql: Server, source_database: Make) -> None:
    """Of Spark's tasks each has its own, and may lead elsewhere than the one that began."""
    database = source_database(logical_postgresql)
    database.execute("CREATE TABLE orders (id int PRIMARY KEY)", "INSERT INTO orders VALUES (1)")
    with begun(database) as end:
        with closing(target(end).loader(RULES)) as loader:
            loader.begin_generation("shop", TABLE, 1, [Bounds()], empty=False, keep=True)
        with_slot(database)
        with closing(target(end).loader(RULES)) as loader, pytest.raises(TargetError, match=REFUSED):
            loader.load_chunk("shop", TABLE, 1, 0, ("low", "high"), [b"7\n"])
        state = replace(TABLE, target=TableId("anabranch", "job"))
        with closing(target(end).loader(RULES)) as loader, pytest.raises(TargetError, match="keep their state"):
            loader.begin_generation("shop", state, 2, [], empty=True)
    assert database.query("TABLE orders") == [(1,)]


def loaders_and_writers_refuse(end: Endpoint) -> None:
    """Each way by which rows are emptied, dropped or written."""
    connector = target(end)
    for empty, keep in ((True, False), (False, True)):
        with closing(connector.loader(RULES)) as loader, pytest.raises(TargetError, match=REFUSED):
            loader.begin_generation("shop", TABLE, 1, [], empty=empty, keep=keep)
    with closing(connector.loader(RULES)) as loader, pytest.raises(TargetError, match=REFUSED) as refusal:
        loader.create_table(SCHEMA, TABLE, RULES, recreate=True, load=("shop", 1))
    assert f"pg_drop_replication_slot('{SLOT}')" in str(refusal.value)  # in a copy that has kept it
    with closing(connector.writer(RULES, False)) as writer, pytest.raises(TargetError, match=REFUSED):
        writer.claim("shop", "me")


def test_postgresql_a_lock_tells_whether_two_connections_lead_to_one_database(
    logical_postgresql: Server, postgresql: Server, source_database: Make
) -> None:
    here, beside, away = (source_database(one) for one in (logical_postgresql, logical_postgresql, postgresql))
    with source(endpoint_of(here)).witness() as key:
        assert [seen(one, key) for one in (here, beside, away)] == [True, False, False]
    assert not seen(here, key)


def seen(database: Database, key: str) -> bool:
    with connect(endpoint_of(database), "test", autocommit=True) as connection:
        return sees(connection, key)


def test_postgresql_a_target_user_without_rights_sees_that_it_is_the_source(
    logical_postgresql: Server, source_database: Make
) -> None:
    database = source_database(logical_postgresql)
    user = f"{database.name[:50]}_poor"
    database.execute(
        "CREATE TABLE orders (id int PRIMARY KEY)",
        f"CREATE ROLE {user} LOGIN PASSWORD 'poor'",
        "REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC",
    )
    try:
        with source(endpoint_of(database)).witness() as key:
            found = checked(endpoint_of(database, user, "poor"), key)
        assert [r.message for r in found if r.check == "target.own_source"] == [
            "source and target are the same database, and public.orders is a table that the job reads"
        ]
    finally:
        database.execute(f"DROP ROLE {user}")


def checked(end: Endpoint, key: str) -> list[CheckResult]:
    context = PreflightContext("shop", {"load.existing": "empty"}, {ORDERS: SCHEMA}, {ORDERS: TABLE}, witness=key)
    with closing(target(end).checks()) as checks:
        return checks.run(context)


def test_postgresql_a_source_user_who_may_not_see_what_jobs_write_is_told_the_grant(
    logical_postgresql: Server, source_database: Make
) -> None:
    database = source_database(logical_postgresql)
    user = f"{database.name[:50]}_blind"
    database.execute(f"CREATE ROLE {user} LOGIN REPLICATION PASSWORD 'blind'")
    end = endpoint_of(database, user, "blind")
    try:
        assert (registered(end), written(end)) == ([], [])
        with begun(database):
            (hint,) = registered(end)
            assert written(end) == []
            database.execute(*hint.split("; "))
            assert (registered(end), written(end)) == ([], [SourceWriter("the job shop", UUID, ((ORDERS, ORDERS),))])
    finally:
        database.execute(f"DROP OWNED BY {user}", f"DROP ROLE {user}")


def registered(end: Endpoint) -> list[str]:
    with closing(source(end).checks()) as checks:
        found = checks.run(PreflightContext("other", {"capture.decoder": "pgoutput"}, {}, {}))
    return [result.hint for result in found if result.check == "source.registered"]


def written(end: Endpoint) -> list[SourceWriter]:
    with closing(source(end).catalog()) as catalog:
        return catalog.writers()
