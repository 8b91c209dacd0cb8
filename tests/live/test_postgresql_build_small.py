"""Many small tables are built at once at a real PostgreSQL: the same as one by one, and in nobody's way."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest

from anabranch.connectors.postgresql.target import small_tables as small
from anabranch.connectors.postgresql.target.catalog import read_tables
from anabranch.connectors.postgresql.target.load import PostgresLoader
from anabranch.model.schema import Check, Index
from anabranch.model.term import Term
from rigs.postgresql_load import CUSTOMER, CUSTOMERS, EXPECTED, JOB, ORDER, ORDERS, TABLES, built, loaded

PATIENCE = 180.0  # seconds: the lock is held for good
BOTH = [(CUSTOMERS, CUSTOMER), (ORDERS, ORDER)]


def test_postgresql_small_tables_are_built_at_once_and_once(loader: PostgresLoader, target_database: Any) -> None:
    loaded(loader)
    nothing: list[str] = []
    for _ in range(2):
        done = loader.build_small(JOB, BOTH, TABLES.get)
        for schema, table in BOTH:  # what stands there already is compared by the other way
            assert done.get(table.source, nothing) == loader.build(JOB, schema, table, TABLES.get) == []
        assert built(target_database) == EXPECTED
    loaded_rows = "SELECT reltuples FROM pg_class WHERE oid = 'dest.customers'::regclass"
    assert target_database.query(loaded_rows) == [(2,)]
    insert = "INSERT INTO dest.customers (name) VALUES ('new') RETURNING id"
    assert target_database.query(insert) == [(3,)]


def test_postgresql_one_script_makes_all_of_a_small_table(loader: PostgresLoader, target_database: Any) -> None:
    loaded(loader)
    assert loader.build_small(JOB, BOTH, TABLES.get) == {CUSTOMERS.id: [], ORDERS.id: []}
    assert built(target_database) == EXPECTED


def test_rule_29_what_rows_break_is_left_to_the_way_that_tells_it(loader: PostgresLoader, target_database: Any) -> None:
    limit = Term("<", (Term("column", text="id"), Term("number", text="2")))
    broken = replace(CUSTOMERS, checks=(Check("low", "`id` < 2", limit),))
    loaded(loader, b"10\t1\n11\t99\n")
    before = built(target_database)
    assert loader.build_small(JOB, [(broken, CUSTOMER), (ORDERS, ORDER)], TABLES.get) == {}
    assert built(target_database) == before, "half of a script stayed"
    assert "rows break it" in loader.build(JOB, broken, CUSTOMER, TABLES.get)[0]
    assert loader.build_small(JOB, [(ORDERS, ORDER)], TABLES.get) == {}
    assert "NOT VALID" in loader.build(JOB, ORDERS, ORDER, TABLES.get)[0]


def test_postgresql_a_table_that_somebody_is_at_is_left_at_once(loader: PostgresLoader, target_database: Any) -> None:
    loaded(loader)
    with target_database.connect(autocommit=False) as holder:
        holder.execute("UPDATE dest.orders SET customer = 2 WHERE id = 10")
        begin = time.monotonic()
        assert loader.build_small(JOB, BOTH, TABLES.get) == {CUSTOMERS.id: []}
        assert time.monotonic() - begin < PATIENCE
        holder.rollback()
    assert loader.build_small(JOB, [(ORDERS, ORDER)], TABLES.get) == {ORDERS.id: []}
    assert built(target_database) == EXPECTED


def test_postgresql_large_tables_and_used_names_are_not_built_at_once(
    loader: PostgresLoader, target_database: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded(loader)
    target_database.execute("CREATE TABLE dest.customers_by_born (id int)")
    assert loader.build_small(JOB, BOTH[:1], TABLES.get) == {CUSTOMERS.id: []}
    names = [name for name, _, _ in built(target_database)]
    assert len(names) == 2 and any(n.startswith("dest.customers_by_born_") for n in names), "the name had a table"
    monkeypatch.setattr(small, "SMALL_BYTES", 0)
    assert loader.build_small(JOB, BOTH[1:], TABLES.get) == {}


def test_postgresql_two_tables_of_one_batch_never_take_one_name(loader: PostgresLoader, target_database: Any) -> None:
    loaded(loader)
    names = "SELECT count(*) FROM pg_class WHERE relkind = 'i' AND relname LIKE 'customers%born%'"
    two = (Index("by_born", ("born",)), Index("by_born_", ("name", "born")))
    both = replace(CUSTOMERS, indexes=two)
    other = replace(ORDER, target=replace(ORDER.target, name="customers_by"))
    target_database.execute("CREATE TABLE dest.customers_by (id bigint PRIMARY KEY, customer int)")
    alike = replace(ORDERS, indexes=(Index("born", ("customer",)),), foreign_keys=())
    assert len(loader.build_small(JOB, [(both, CUSTOMER), (alike, other)], TABLES.get)) == 2
    assert target_database.query(names) == [(3,)]


def test_postgresql_reads_keys_of_both_ends_by_what_depends_on_a_table(
    loader: PostgresLoader, target_database: Any
) -> None:
    """Also of a partitioned parent, of a table that refers to itself, and of several columns; partitions' own parts not."""
    target_database.execute(
        "CREATE SCHEMA dest",
        "CREATE TABLE dest.whole (a int, b int, PRIMARY KEY (a, b)) PARTITION BY LIST (a)",
        "CREATE TABLE dest.part PARTITION OF dest.whole FOR VALUES IN (1)",
        "CREATE TABLE dest.tree (id int PRIMARY KEY, up int CONSTRAINT self REFERENCES dest.tree)",
        "CREATE TABLE dest.child (a int, b int, up int CONSTRAINT to_tree REFERENCES dest.tree,"
        " CONSTRAINT to_whole FOREIGN KEY (a, b) REFERENCES dest.whole)",
    )
    ids = [replace(CUSTOMER.target, name=name) for name in ("whole", "part", "tree", "child")]
    with target_database.connect() as connection:
        found = read_tables(connection, ids)
    own = {t.id.name: [key.name for key in t.foreign_keys] for t in found.values()}
    referred = {t.id.name: [key.name for key in t.referenced_by] for t in found.values()}
    assert own == {"whole": [], "part": [], "tree": ["self"], "child": ["to_tree", "to_whole"]}
    assert referred == {"whole": ["to_whole"], "part": [], "tree": ["self", "to_tree"], "child": []}
