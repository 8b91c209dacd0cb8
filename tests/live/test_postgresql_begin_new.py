"""Loads of tables that a real PostgreSQL does not have yet are begun at once; whatever is not new is left alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from anabranch.connectors.postgresql.target.load import PostgresLoader
from anabranch.connectors.postgresql.target.store import PostgresStore
from anabranch.contracts import Bounds, LoadedChunk, NewLoad
from anabranch.errors import Fenced, TargetError
from anabranch.failpoints import VARIABLE, FailpointReached, arm
from anabranch.model.ids import TableId
from anabranch.model.schema import Column, TableSchema
from anabranch.model.table_life import TableState
from anabranch.rows.net import TargetTable
from rigs.endpoints import endpoint_of
from rigs.postgresql_load import CUSTOMER, CUSTOMERS, JOB, ORDER, ORDERS, RULES

CHUNKS = (Bounds(None, ("5",)), Bounds(("5",), None))


@pytest.fixture
def store(target_database: Any, loader: PostgresLoader) -> Iterator[PostgresStore]:
    with closing(PostgresStore(endpoint_of(target_database))) as store:
        store.prepare()
        yield store


def new(schema: TableSchema, table: TargetTable, before: TableState | None = None) -> NewLoad:
    state = TableState(table.source, table.target, "loading", 1, schema=schema)
    return NewLoad(schema, table, state, before, CHUNKS)


def with_type(schema: TableSchema, type_: str) -> TableSchema:
    bad = Column("id", schema.columns[0].type, type_, nullable=False, comment="x")
    return replace(schema, columns=(bad, *schema.columns[1:]), dialect="postgresql")


def pending(table: TargetTable) -> TableState:
    return TableState(table.source, table.target, "pending")


def test_postgresql_new_tables_are_begun_at_once(
    loader: PostgresLoader, store: PostgresStore, target_database: Any
) -> None:
    waits = pending(CUSTOMER)
    store.save_tables(JOB, [(waits, None), (pending(ORDER), None)])
    loads = [new(CUSTOMERS, CUSTOMER, waits), new(ORDERS, ORDER, pending(ORDER))]
    assert loader.begin_new(JOB, loads, RULES, ()) == {CUSTOMERS.id, ORDERS.id}
    assert store.tables(JOB) == {one.table.source: one.state for one in loads}
    ledger = [LoadedChunk(number, bounds) for number, bounds in enumerate(CHUNKS)]
    assert loader.ledgers(JOB, {CUSTOMERS.id: 1, ORDERS.id: 1}) == {CUSTOMERS.id: ledger, ORDERS.id: ledger}
    assert loader.ledgers(JOB, {CUSTOMERS.id: 2}) == {CUSTOMERS.id: []}
    assert loader.load_chunk(JOB, CUSTOMER, 1, 1, ("a", "b"), [b"7\tAnn\t\\N\t\\N\n"]) == 1
    made = "SELECT attname, attnotnull FROM pg_attribute WHERE attrelid = 'dest.customers'::regclass AND attnum > 0"
    assert target_database.query(made)[:2] == [("id", True), ("name", True)]
    assert loader.begin_new(JOB, loads, RULES, ()) == frozenset(), "a load that has begun is begun once"
    assert loader.ledgers(JOB, {CUSTOMERS.id: 1})[CUSTOMERS.id][1].rows == 1


def test_rule_29_what_is_not_new_is_as_it_was(
    loader: PostgresLoader, store: PostgresStore, target_database: Any
) -> None:
    """A table that is there, one that another job writes to, a state that somebody changed, a key's name that is used,
    definitions that the server refuses or cannot read: the others are begun."""
    target_database.execute(
        "CREATE SCHEMA dest", "CREATE TABLE dest.customers (id int)", "CREATE TABLE dest.used (id int)"
    )
    names = ("theirs", "changed", "keyed", "refused", "garbled", "fine")
    tables = {name: replace(ORDER, source=TableId("shop", name), target=TableId("dest", name)) for name in names}
    schemas = {name: replace(ORDERS, id=table.source, foreign_keys=()) for name, table in tables.items()}
    schemas["keyed"] = replace(schemas["keyed"], key_name="used")
    schemas["refused"] = with_type(schemas["refused"], "no_such_type")
    schemas["garbled"] = with_type(schemas["garbled"], "no (such type")
    store.save_table("other", pending(tables["theirs"]), None)
    store.save_table(JOB, replace(pending(tables["changed"]), state="parked"), None)
    loads = [new(CUSTOMERS, CUSTOMER), *(new(schemas[name], tables[name]) for name in names)]
    begun = loader.begin_new(JOB, loads, RULES, ())
    assert begun == {tables["fine"].source}
    assert set(store.tables(JOB)) == {tables["changed"].source, *begun}
    found = "SELECT relname FROM pg_class WHERE relnamespace = 'dest'::regnamespace AND relkind = 'r' ORDER BY 1"
    assert target_database.query(found) == sorted([("customers",), ("used",), *((table.name,) for table in begun)])


def test_rule_29_a_crash_in_the_middle_leaves_nothing_of_them(
    loader: PostgresLoader, store: PostgresStore, target_database: Any
) -> None:
    loads = [new(CUSTOMERS, CUSTOMER), new(ORDERS, ORDER)]
    arm({VARIABLE: "load.generations.written=raise"})
    try:
        with pytest.raises(FailpointReached):
            loader.begin_new(JOB, loads, RULES, ())
    finally:
        arm({})
    assert store.tables(JOB) == {}
    assert target_database.query("SELECT count(*) FROM anabranch.load_chunk") == [(0,)]
    assert target_database.query("SELECT to_regclass('dest.customers'), to_regnamespace('dest')") == [(None, None)]
    assert len(loader.begin_new(JOB, loads, RULES, ())) == 2


def test_tables_of_a_schema_that_cannot_be_made_are_left_to_be_told(target_database: Any, store: PostgresStore) -> None:
    target_database.execute(
        "DROP ROLE IF EXISTS begins",
        "CREATE ROLE begins LOGIN PASSWORD 'begins'",
        "CREATE SCHEMA dest AUTHORIZATION begins",
    )
    target_database.execute(
        "GRANT USAGE ON SCHEMA anabranch TO begins", "GRANT ALL ON ALL TABLES IN SCHEMA anabranch TO begins"
    )
    elsewhere = replace(ORDER, target=TableId("missing", "orders"))
    try:
        with closing(PostgresLoader(endpoint_of(target_database, "begins", "begins"), RULES)) as loader:
            loads = [new(replace(ORDERS, foreign_keys=()), elsewhere), new(CUSTOMERS, CUSTOMER)]
            assert loader.begin_new(JOB, loads, RULES, ()) == {CUSTOMERS.id}
            with pytest.raises(TargetError, match=r"missing\.orders"):
                loader.create_table(ORDERS, elsewhere, RULES, False)
    finally:
        target_database.execute("DROP OWNED BY begins CASCADE", "DROP ROLE begins")
    assert set(store.tables(JOB)) == {CUSTOMERS.id}


def test_rule_29_states_of_several_tables_are_saved_together_or_not(store: PostgresStore) -> None:
    one, two = pending(CUSTOMER), pending(ORDER)
    store.save_tables(JOB, [(one, None)])
    with pytest.raises(Fenced):
        store.save_tables(JOB, [(two, None), (replace(one, reason="late"), None)])
    assert set(store.tables(JOB)) == {one.source}
    store.save_tables(JOB, [(two, None), (replace(one, state="loading"), one)])
    with pytest.raises(Fenced):
        store.save_tables(JOB, [(replace(two, state="parked"), two), (replace(one, state="parked"), one)])
    assert {state.state for state in store.tables(JOB).values()} == {"pending", "loading"}
