"""The connection that would empty or write asks itself whether it leads to the job's source, whatever preflight said; and
preflight sees it by a lock, without any right."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace

import pyarrow as pa
import pytest

from anabranch.connectors.postgresql.connection import connect
from anabranch.connectors.postgresql.source import connector as source
from anabranch.connectors.postgresql.target import connector as target
from anabranch.connectors.postgresql.target.own_source import sees
from anabranch.contracts import Bounds, Loader, PreflightContext, Writer
from anabranch.errors import TargetError
from anabranch.model.checks import CheckResult
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId
from anabranch.model.position import Position
from anabranch.model.schema import Column, TableSchema
from anabranch.model.state import Checkpoint
from anabranch.model.table_life import TableState
from anabranch.model.writers import SourceWriter
from anabranch.rows.net import TableNet, TargetTable
from anabranch.testing.databases import Database
from anabranch.testing.in_time import until
from anabranch.testing.servers import Server
from rigs.endpoints import endpoint_of
from rigs.postgresql_load import RULES

ORDERS = TableId("public", "orders")
INT = LogicalType(Kind.INT32)
TABLE = TargetTable(ORDERS, ORDERS, ("id",), (INT,), ("id",))
SCHEMA = TableSchema(ORDERS, (Column("id", INT, "int", nullable=False),), ("id",))
UUID = "0badcafe-0000-4000-8000-000000000000"
SLOT = "anabranch_shop_0badcafe"
TARGETS = 12  # the first release that may be one
REFUSED = r"public\.orders is a table that the job reads"
Make = Callable[[Server], Database]


@contextmanager
def begun(database: Database, name: str = "shop", table: TargetTable = TABLE) -> Iterator[Endpoint]:
    """A job whose state is in the database, as it is before its first load."""
    end = target(endpoint_of(database))
    with closing(end.store()) as store:
        store.prepare()
        store.save_job(name, {"uuid": UUID, "source_identity": "", "definition": "{}"})
        store.save_table(name, TableState(table.source, table.target, "pending"), None)
        store.create_checkpoint(name, Position(1, ""), 0)
    yield endpoint_of(database)


def with_slot(database: Database) -> None:
    database.execute(f"SELECT pg_create_logical_replication_slot('{SLOT}', 'pgoutput')")


@pytest.mark.since(TARGETS)
def test_postgresql_connections_that_write_refuse_the_source(postgresql_source: Server, source_database: Make) -> None:
    database, elsewhere = source_database(postgresql_source), source_database(postgresql_source)
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


@pytest.mark.since(TARGETS)
def test_postgresql_each_connection_of_a_load_asks_anew(postgresql_source: Server, source_database: Make) -> None:
    """Of Spark's tasks each has its own, and may lead elsewhere than the one that began."""
    database = source_database(postgresql_source)
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


# What somebody makes of a target, and takes back: its rows are those of a table that the job reads from there on.
BECOMES = {
    "a partition": ("ALTER TABLE whole ATTACH PARTITION copy DEFAULT", "ALTER TABLE whole DETACH PARTITION copy"),
    "a parent": ("ALTER TABLE whole ATTACH PARTITION orders DEFAULT", "ALTER TABLE whole DETACH PARTITION orders"),
    "a child": ("ALTER TABLE copy INHERIT orders", "ALTER TABLE copy NO INHERIT orders"),
    "what others inherit from": ("ALTER TABLE orders INHERIT copy", "ALTER TABLE orders NO INHERIT copy"),
}
PAIRS = {"a partition": ("whole", "copy"), "a parent": ("orders", "whole")}


@pytest.mark.since(TARGETS)
def test_postgresql_a_target_that_becomes_what_the_job_reads_is_written_no_more(
    postgresql_source: Server, source_database: Make
) -> None:
    """Each way to write asks again: a connection that is open already, behind each epoch's changes."""
    database = source_database(postgresql_source)
    for name in ("orders", "copy"):
        database.execute(f"CREATE TABLE {name} (id int PRIMARY KEY)", f"INSERT INTO {name} VALUES (1)")
    database.execute("CREATE TABLE whole (id int PRIMARY KEY) PARTITION BY RANGE (id)")
    with_slot(database)
    for case, (made, undone) in BECOMES.items():
        read, written = (TableId("public", name) for name in PAIRS.get(case, ("orders", "copy")))
        table = replace(TABLE, source=read, target=written)
        with begun(database, case, table) as end, closing(target(end).writer(RULES, False)) as writer:
            now = writer.claim(case, "me")
            with epoch(writer, now, TableNet(table, deletes=keys(99), checked=False)):
                writer.commit()
            now = then(now)
            database.execute(made)
            words = rf"{re.escape(str(written))} shares its rows with {re.escape(str(read))}, which the job reads"
            with (
                epoch(writer, now, TableNet(table, deletes=keys(1), checked=False)),
                pytest.raises(TargetError, match=words),
            ):
                writer.commit()
            with pytest.raises(TargetError, match=words):
                writer.one_by_one(now, [])
            with closing(target(end).loader(RULES)) as loader:
                loader.create_table(SCHEMA, table, RULES, False)
                for way in ways(loader, case, table):
                    with pytest.raises(TargetError, match=words):
                        way()
            database.execute(undone)
            with epoch(writer, now, TableNet(table, deletes=keys(99), checked=False)):
                writer.commit()
        assert [database.query(f"TABLE {name}") for name in ("orders", "copy")] == [[(1,)], [(1,)]], case


def ways(loader: Loader, job: str, table: TargetTable) -> list[Callable[[], object]]:
    """By which a loader changes a table or what belongs to it."""
    return [
        lambda: loader.take_off_keys(job, table),
        lambda: loader.begin_generation(job, table, 1, [], empty=True),
        lambda: loader.create_table(SCHEMA, table, RULES, recreate=True, load=(job, 1)),
        lambda: loader.build(job, replace(SCHEMA, id=table.source), table, lambda _: None),
        lambda: loader.build_small(job, [(replace(SCHEMA, id=table.source), table)], lambda _: None),
    ]


@contextmanager
def epoch(writer: Writer, now: Checkpoint, net: TableNet) -> Iterator[None]:
    """Open, with the changes merged."""
    assert writer.begin(now, then(now)) == "open"
    writer.merge(net)
    yield
    writer.rollback()


def then(now: Checkpoint) -> Checkpoint:
    return replace(now, epoch=now.epoch + 1, position=Position(now.position.sequence + 1, ""))


def keys(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int32())})


def test_postgresql_a_lock_tells_whether_two_connections_lead_to_one_database(
    postgresql_source: Server, postgresql: Server, source_database: Make
) -> None:
    here, beside, away = (source_database(one) for one in (postgresql_source, postgresql_source, postgresql))
    with source(endpoint_of(here)).witness() as key:
        assert [seen(one, key) for one in (here, beside, away)] == [True, False, False]
    until(lambda: not seen(here, key), "the lock of who is gone is still there")


def seen(database: Database, key: str) -> bool:
    with connect(endpoint_of(database), "test", autocommit=True) as connection:
        return sees(connection, key)


@pytest.mark.since(TARGETS)
def test_postgresql_a_target_user_without_rights_sees_that_it_is_the_source(
    postgresql_source: Server, source_database: Make
) -> None:
    database = source_database(postgresql_source)
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


def checked(end: Endpoint, key: str = "", writers: tuple[SourceWriter, ...] = ()) -> list[CheckResult]:
    tables, targets = {ORDERS: SCHEMA}, {ORDERS: TABLE}
    context = PreflightContext("shop", {"load.existing": "empty"}, tables, targets, source_name=SLOT, writers=writers)
    context = replace(context, witness=key)
    with closing(target(end).checks()) as checks:
        return checks.run(context)


def test_postgresql_changes_that_come_round_to_their_source_are_a_loop(target_database: Database) -> None:
    """The job's own, passed on over other databases, of which this one is none."""
    for pairs, is_loop in (((ORDERS, ORDERS), True), ((ORDERS, TableId("public", "other")), False)):
        passed_on = SourceWriter("the job shop", UUID, (pairs,), "the job back")
        found = [
            r.message for r in checked(endpoint_of(target_database), writers=(passed_on,)) if r.check == "target.loop"
        ]
        said = (
            "the job shop, over the job back, brings back what is written here to public.orders, which this job reads"
        )
        assert found == [said] * is_loop


def test_postgresql_a_source_user_who_may_not_see_what_jobs_write_is_told_the_grant(
    postgresql_source: Server, source_database: Make
) -> None:
    database = source_database(postgresql_source)
    user = f"{database.name[:50]}_blind"
    database.execute(f"CREATE ROLE {user} LOGIN REPLICATION PASSWORD 'blind'")
    end = endpoint_of(database, user, "blind")
    try:
        assert (registered(end), written(end)) == ([], []) and sees_writers(end)
        with begun(database):
            (hint,) = registered(end)
            assert written(end) == [] and not sees_writers(end), "none is seen, and there may be one"
            database.execute(*hint.split("; "))
            assert (registered(end), written(end)) == ([], [SourceWriter("the job shop", UUID, ((ORDERS, ORDERS),))])
            assert sees_writers(end)
    finally:
        database.execute(f"DROP OWNED BY {user}", f"DROP ROLE {user}")


def registered(end: Endpoint) -> list[str]:
    with closing(source(end).checks()) as checks:
        found = checks.run(PreflightContext("other", {}, {}, {}))
    return [result.hint for result in found if result.check == "source.registered"]


def written(end: Endpoint) -> list[SourceWriter]:
    with closing(source(end).catalog()) as catalog:
        return catalog.writers()


def sees_writers(end: Endpoint) -> bool:
    with closing(source(end).catalog()) as catalog:
        return catalog.sees_writers()
