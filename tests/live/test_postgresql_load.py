"""The initial load's target side on a real PostgreSQL: tables, ledger, chunks, refusals."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from anabranch.connectors.postgresql.target.copy_chunk import HELD_BYTES
from anabranch.connectors.postgresql.target.load import PostgresLoader
from anabranch.contracts import Bounds, ValueRules
from anabranch.errors import Fenced, RowRefused, SourceUnavailable, TargetError
from anabranch.model.endpoint import Endpoint
from anabranch.testing.in_time import PATIENCE
from rigs.endpoints import endpoint_of
from rigs.postgresql_load import (
    CUSTOMER,
    CUSTOMERS,
    EXPECTED,
    JOB,
    MARKS,
    ORDER,
    ORDERS,
    RULES,
    TABLES,
    begin,
    built,
    load,
    loaded,
)
from rigs.waiting import Doing


def test_postgresql_load_chunk_commits_rows_with_its_ledger_row(loader: PostgresLoader, target_database: Any) -> None:
    begin(loader, CUSTOMERS, 2)
    assert load(loader, CUSTOMER, b"1\tAnn\\t\\\\\t\\N\t{}\n2\tBob\t2000-01-02\t\\N\n", b"3\t\t\\N\t[1]\n") == 3
    assert target_database.query("SELECT id, name, born::text, extra::text FROM dest.customers ORDER BY 1") == [
        (1, "Ann\t\\", None, "{}"),
        (2, "Bob", "2000-01-02", None),
        (3, "", None, "[1]"),
    ]
    one, two = loader.chunks(JOB, CUSTOMERS.id, 1)
    assert (one.rows, one.low, one.high, one.bounds) == (3, "low", "high", Bounds(("0",), ("1",)))
    assert (two.rows, two.bounds) == (None, Bounds())


def test_torture_seed_214_two_loads_make_the_same_table_at_once(target_database: Any) -> None:
    """The one that was killed is still at it on the server, while the one that took its place looks for the table."""
    failures: list[BaseException] = []

    def create() -> None:
        one = PostgresLoader(endpoint_of(target_database), RULES)
        try:
            for schema in (CUSTOMERS, ORDERS):
                one.create_table(schema, TABLES[schema.id], RULES, False)
        except BaseException as error:  # noqa: BLE001 - reported by the assertion below
            failures.append(error)
        one.close()

    for _ in range(4):
        threads = [threading.Thread(target=create) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        target_database.execute("DROP SCHEMA dest CASCADE")
    assert failures == []


def test_postgresql_load_done_chunk_is_not_loaded_again(loader: PostgresLoader) -> None:
    begin(loader, CUSTOMERS)
    load(loader, CUSTOMER, b"1\tAnn\t\\N\t\\N\n")

    def never() -> Iterator[bytes]:
        raise AssertionError("a chunk that is done was read again")
        yield b""

    assert loader.load_chunk(JOB, CUSTOMER, 1, 0, MARKS, never()) == 1


def test_postgresql_load_empty_chunk_is_done(loader: PostgresLoader) -> None:
    begin(loader, CUSTOMERS)
    assert load(loader, CUSTOMER) == 0
    assert loader.chunks(JOB, CUSTOMERS.id, 1)[0].rows == 0


def test_postgresql_load_source_lost_in_copy_leaves_nothing(loader: PostgresLoader, target_database: Any) -> None:
    begin(loader, CUSTOMERS)

    def lines() -> Iterator[bytes]:
        yield b"1\tAnn\t\\N\t\\N\n"
        raise SourceUnavailable("line lost")

    with pytest.raises(SourceUnavailable):
        loader.load_chunk(JOB, CUSTOMER, 1, 0, MARKS, lines())
    assert target_database.query("SELECT count(*) FROM dest.customers") == [(0,)]
    assert load(loader, CUSTOMER, b"1\tAnn\t\\N\t\\N\n") == 1


def test_rule_29_zombie_loader_is_fenced(loader: PostgresLoader, endpoint: Endpoint, target_database: Any) -> None:
    begin(loader, CUSTOMERS)
    load(loader, CUSTOMER, b"1\tAnn\t\\N\t\\N\n")
    zombie = PostgresLoader(endpoint, RULES)
    begin(loader, CUSTOMERS, generation=2, empty=True)
    with pytest.raises(Fenced, match="load 1 of the table is over"):
        load(zombie, CUSTOMER, b"2\tBob\t\\N\t\\N\n")
    with pytest.raises(Fenced):
        zombie.begin_generation(JOB, CUSTOMER, 1, [Bounds()], True)
    zombie.close()
    assert target_database.query("SELECT count(*) FROM dest.customers") == [(0,)]


def test_a_table_from_which_others_inherit_is_not_emptied(loader: PostgresLoader, target_database: Any) -> None:
    begin(loader, CUSTOMERS)
    target_database.execute(
        "CREATE TABLE dest.heir () INHERITS (dest.customers)", "INSERT INTO dest.heir VALUES (1, 'x')"
    )
    with pytest.raises(TargetError, match=r"dest\.heir inherit from it") as refused:
        begin(loader, CUSTOMERS, generation=2, empty=True)
    assert target_database.query("SELECT count(*) FROM dest.heir") == [(1,)]
    target_database.execute(refused.value.hint.partition("; or")[0])
    begin(loader, CUSTOMERS, generation=2, empty=True)
    assert target_database.query("SELECT count(*) FROM dest.heir") == [(1,)]


def test_a_table_of_which_a_partition_is_another_server_s_is_not_emptied(
    loader: PostgresLoader, target_database: Any
) -> None:
    """It may be the source's own table."""
    loader.create_table(CUSTOMERS, CUSTOMER, RULES, False)
    target_database.execute(
        "DROP TABLE dest.customers CASCADE",
        "CREATE TABLE dest.customers (id int, name text) PARTITION BY RANGE (id)",
        "CREATE FOREIGN DATA WRAPPER nothing",
        "CREATE SERVER nowhere FOREIGN DATA WRAPPER nothing",
        "CREATE FOREIGN TABLE dest.far PARTITION OF dest.customers DEFAULT SERVER nowhere",
    )
    with pytest.raises(TargetError, match=r"dest\.far is a partition of it and a foreign table") as refused:
        loader.begin_generation(JOB, CUSTOMER, 1, [Bounds()], empty=True)
    target_database.execute(refused.value.hint.partition("; or")[0])
    loader.begin_generation(JOB, CUSTOMER, 1, [Bounds()], empty=True)


def test_rule_29_new_generation_waits_for_a_chunk_in_flight(
    loader: PostgresLoader, endpoint: Endpoint, target_database: Any
) -> None:
    begin(loader, CUSTOMERS)
    inside, go_on = threading.Event(), threading.Event()

    def lines() -> Iterator[bytes]:
        yield b"1\tAnn\t\\N\t\\N\n"
        inside.set()
        go_on.wait(PATIENCE)

    slow = PostgresLoader(endpoint, RULES)
    chunk = Doing(lambda: slow.load_chunk(JOB, CUSTOMER, 1, 0, MARKS, lines()))
    assert inside.wait(PATIENCE)
    later = Doing(lambda: begin(loader, CUSTOMERS, generation=2, empty=True))
    time.sleep(0.5)
    assert later.goes_on
    go_on.set()
    chunk.done()
    later.done()
    slow.close()
    assert target_database.query("SELECT count(*) FROM dest.customers") == [(0,)]


def test_postgresql_load_chunks_of_a_table_run_side_by_side(loader: PostgresLoader, endpoint: Endpoint) -> None:
    begin(loader, CUSTOMERS, 2)
    other = PostgresLoader(endpoint, RULES)

    def lines() -> Iterator[bytes]:
        yield b"1\tAnn\t\\N\t\\N\n"
        assert load(other, CUSTOMER, b"2\tBob\t\\N\t\\N\n", number=1) == 1

    assert loader.load_chunk(JOB, CUSTOMER, 1, 0, MARKS, lines()) == 1
    other.close()


def test_postgresql_load_generation_that_began_is_kept(loader: PostgresLoader) -> None:
    begin(loader, CUSTOMERS)
    load(loader, CUSTOMER, b"1\tAnn\t\\N\t\\N\n")
    begin(loader, CUSTOMERS, empty=True)
    assert loader.chunks(JOB, CUSTOMERS.id, 1)[0].rows == 1


def test_postgresql_load_refuses_a_table_with_rows(loader: PostgresLoader, target_database: Any) -> None:
    loader.create_table(CUSTOMERS, CUSTOMER, RULES, False)
    target_database.execute("INSERT INTO dest.customers (name) VALUES ('x')")
    with pytest.raises(TargetError, match="holds rows"):
        begin(loader, CUSTOMERS)
    begin(loader, CUSTOMERS, empty=True)
    assert target_database.query("SELECT count(*) FROM dest.customers") == [(0,)]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b"7\t" + b"x" * 21 + b"\t\\N\t\\N\n", "too long"),
        (b"7\ta\0b\t\\N\t\\N\n", 'nul = "strip"'),
        (b"7\tx\t0000-00-00\t\\N\n", 'zero_date = "null"'),
        (b'7\tx\t\\N\t{"a": "\\\\u0000"}\n', 'json = "json"'),
        (b"7\t\\N\t\\N\t\\N\n", "name"),
        (b"7\ta\xff\t\\N\t\\N\n", "invalid byte sequence"),
        (b"7\tone\t\\N\t\\N\n7\ttwo\t\\N\t\\N\n", "duplicate key"),
    ],
)
def test_postgresql_load_refused_row_names_its_key(loader: PostgresLoader, line: bytes, says: str) -> None:
    begin(loader, CUSTOMERS)
    good = b"".join(b"%d\tok%d\t\\N\t\\N\n" % (n, n) for n in range(100, 200))
    with pytest.raises(RowRefused) as caught:
        load(loader, CUSTOMER, good, line)
    assert says in str(caught.value)
    assert "key id=7" in str(caught.value)
    assert '"a"' not in str(caught.value) and "xxx" not in str(caught.value)  # no values but the key
    assert "json" not in says or "(column extra)" in str(caught.value)
    assert caught.value.table == "shop.customers" and caught.value.job == JOB


def test_postgresql_load_finds_the_key_after_many_blocks(loader: PostgresLoader, target_database: Any) -> None:
    begin(loader, ORDERS)
    rows = 40_000
    blocks = (
        b"".join(b"%030d\t\\N\n" % n for n in range(start, start + rows))
        for start in range(0, HELD_BYTES // 33 + 3 * rows, rows)
    )

    def lines() -> Iterator[bytes]:
        yield from blocks
        yield b"5\t\\N\n"

    with pytest.raises(RowRefused, match="key id=5"):
        loader.load_chunk(JOB, ORDER, 1, 0, MARKS, lines())
    assert target_database.query("SELECT count(*) FROM dest.orders") == [(0,)]


def test_postgresql_load_triggers_and_foreign_keys_do_not_act(loader: PostgresLoader, target_database: Any) -> None:
    for schema in (CUSTOMERS, ORDERS):
        loader.create_table(schema, TABLES[schema.id], RULES, False)
    target_database.execute(
        "CREATE FUNCTION dest.no() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'fired'; END $$",
        "CREATE TRIGGER t BEFORE INSERT ON dest.customers EXECUTE FUNCTION dest.no()",
    )
    begin(loader, CUSTOMERS)
    assert load(loader, CUSTOMER, b"1\tAnn\t\\N\t\\N\n") == 1


def test_postgresql_load_recreate_drops_what_refers_to_the_table(loader: PostgresLoader, target_database: Any) -> None:
    for schema in (CUSTOMERS, ORDERS):
        begin(loader, schema)
    for schema in (CUSTOMERS, ORDERS):
        assert loader.build(JOB, schema, TABLES[schema.id], TABLES.get) == []
    loader.create_table(CUSTOMERS, CUSTOMER, ValueRules(json="text"), True)
    types = target_database.query(
        "SELECT format_type(atttypid, atttypmod) FROM pg_attribute "
        "WHERE attrelid = 'dest.customers'::regclass AND attname = 'extra'"
    )
    assert types == [("text",)]
    assert loader.build(JOB, ORDERS, ORDER, TABLES.get) == []


# --- constraints that the target had before ---------------------------------------------------------------------------


def test_rule_29_existing_keys_are_taken_off_and_put_back(loader: PostgresLoader, target_database: Any) -> None:
    for schema in (CUSTOMERS, ORDERS):
        loader.create_table(schema, TABLES[schema.id], RULES, False)
    target_database.execute(
        "ALTER TABLE dest.customers ADD CONSTRAINT one_name UNIQUE (name)",
        "CREATE UNIQUE INDEX lower_name ON dest.customers (lower(name)) WHERE id > 0",
        "ALTER TABLE dest.orders ADD CONSTRAINT to_name"
        " FOREIGN KEY (customer) REFERENCES dest.customers ON DELETE SET NULL",
    )
    begin(loader, CUSTOMERS)
    begin(loader, ORDERS)
    assert built(target_database) == []
    load(loader, CUSTOMER, b"1\tAnn\t\\N\t\\N\n2\tAnn\t\\N\t\\N\n")
    load(loader, ORDER, b"10\t7\n")
    problems = loader.build(JOB, CUSTOMERS, CUSTOMER, TABLES.get)
    assert len(problems) == 4  # two unique keys with duplicates, the source's own index, the orphan
    target_database.execute("UPDATE dest.customers SET name = 'Bob', id = 7 WHERE id = 2")
    for schema in (CUSTOMERS, ORDERS):
        assert loader.build(JOB, schema, TABLES[schema.id], TABLES.get) == []
    names = {name for name, *_ in built(target_database)}
    assert names >= {"dest.one_name", "dest.lower_name", "to_name"}
    assert all(valid for *_, valid in built(target_database))
    constraints = target_database.query(
        "SELECT conname FROM pg_constraint WHERE contype = 'u' AND conrelid = 'dest.customers'::regclass"
    )
    assert constraints == [("one_name",)]
    assert target_database.query("SELECT count(*) FROM anabranch.taken_off") == [(0,)]


def test_postgresql_load_again_takes_off_what_the_first_load_built(
    loader: PostgresLoader, target_database: Any
) -> None:
    loaded(loader)
    for schema in (CUSTOMERS, ORDERS):
        assert loader.build(JOB, schema, TABLES[schema.id], TABLES.get) == []
    begin(loader, CUSTOMERS, generation=2, empty=True)
    load(loader, CUSTOMER, b"1\tAnn\t\\N\t\\N\n2\tAnn\t\\N\t\\N\n", generation=2)
    target_database.execute("UPDATE dest.customers SET name = 'Bob' WHERE id = 2")
    assert loader.build(JOB, CUSTOMERS, CUSTOMER, TABLES.get) == []
    assert built(target_database) == EXPECTED


# --- without rights ---------------------------------------------------------------------------------------------------


def test_rule_07_postgresql_load_without_the_right_to_bypass(target_database: Any, endpoint: Endpoint) -> None:
    """Triggers fire. Keys are taken off, and can wait when they are built; a table that others refer to is emptied."""
    user = "app_" + target_database.name[-12:]
    target_database.execute(
        f"CREATE ROLE {user} LOGIN PASSWORD 'p'",
        f"GRANT ALL ON SCHEMA anabranch TO {user}",
        f"GRANT ALL ON ALL TABLES IN SCHEMA anabranch TO {user}",
        f"CREATE SCHEMA dest AUTHORIZATION {user}",
    )
    try:
        loader = PostgresLoader(endpoint_of(target_database, user, "p"), RULES)
        loader.create_table(ORDERS, ORDER, RULES, False)
        target_database.execute(
            "CREATE FUNCTION dest.no() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'fired'; END $$",
            "CREATE TRIGGER t BEFORE INSERT ON dest.orders EXECUTE FUNCTION dest.no()",
        )
        begin(loader, ORDERS)
        with pytest.raises(TargetError, match="trigger"):
            load(loader, ORDER, b"1\t\\N\n")
        target_database.execute("DROP TRIGGER t ON dest.orders")
        loader.create_table(CUSTOMERS, CUSTOMER, RULES, False)
        begin(loader, CUSTOMERS)
        load(loader, CUSTOMER, b"1\tAnn\t\\N\t\\N\n")
        assert load(loader, ORDER, b"1\t1\n") == 1
        for schema in (CUSTOMERS, ORDERS):
            assert loader.build(JOB, schema, TABLES[schema.id], TABLES.get) == []
        deferrable = "SELECT conname, condeferrable, condeferred FROM pg_constraint WHERE contype = 'f'"
        assert {row[1:] for row in target_database.query(deferrable)} == {(True, False)}
        begin(loader, CUSTOMERS, generation=2, empty=True)
        load(loader, CUSTOMER, b"1\tAnn\t\\N\t\\N\n", generation=2)
        assert loader.build(JOB, CUSTOMERS, CUSTOMER, TABLES.get) == []
        assert {row[1:] for row in target_database.query(deferrable)} == {(True, False)}
        loader.close()
    finally:
        target_database.execute(f"DROP OWNED BY {user} CASCADE", f"DROP ROLE {user}")
