"""What is built at a real PostgreSQL after the load: indexes, keys, checks, sequences, and what its names meet."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from random import Random
from typing import Any

import pytest

from anabranch.connectors.postgresql.target.load import PostgresLoader
from anabranch.contracts import Bounds, ValueRules
from anabranch.errors import RowRefused, TargetBusy, TargetError, TargetUnavailable
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.schema import Check, Column, Index, TableSchema
from anabranch.model.term import Term
from anabranch.rows.net import TargetTable
from anabranch.testing.in_time import until
from rigs.postgresql_load import (
    CUSTOMER,
    CUSTOMERS,
    EXPECTED,
    JOB,
    ORDER,
    ORDERS,
    RULES,
    TABLES,
    begin,
    built,
    load,
    loaded,
    mapped,
)
from rigs.waiting import Doing


def test_postgresql_build_twice_makes_each_thing_once(loader: PostgresLoader, target_database: Any) -> None:
    loaded(loader)
    for _ in range(2):
        for schema in (ORDERS, CUSTOMERS):
            assert loader.build(JOB, schema, TABLES[schema.id], TABLES.get) == []
        assert built(target_database) == EXPECTED
    assert target_database.query("SELECT reltuples FROM pg_class WHERE oid = 'dest.customers'::regclass") == [(2,)]


def test_rule_29_orphans_leave_the_key_not_valid(loader: PostgresLoader, target_database: Any) -> None:
    loaded(loader, b"10\t1\n11\t99\n")
    (problem,) = loader.build(JOB, ORDERS, ORDER, TABLES.get)
    assert "fk_customer" in problem and "NOT VALID" in problem
    assert ("fk_customer", True, False) in built(target_database)
    target_database.execute("DELETE FROM dest.orders WHERE id = 11")
    assert loader.build(JOB, ORDERS, ORDER, TABLES.get) == []
    assert ("fk_customer", True, True) in built(target_database)


def test_postgresql_build_makes_checks_and_raises_sequences(loader: PostgresLoader, target_database: Any) -> None:
    column, limit = Term("column", text="id"), Term("number", text="2")
    checks = (Check("low", "`id` < 2", Term("<", (column, limit))), Check("odd", "f(`id`)", refusal="f is not known"))
    checked = replace(
        CUSTOMERS, checks=(*checks, Check("all", "`id` >= 0", Term(">=", (column, Term("number", text="0")))))
    )
    loaded(loader)
    for _ in range(2):
        assert loader.build(JOB, checked, CUSTOMER, TABLES.get) == [
            "check low of dest.customers is not built: rows break it, as at the source",
            "check odd of shop.customers is not built: f is not known",
        ]
    stand = (
        "SELECT conname, convalidated FROM pg_constraint WHERE contype = 'c' AND conrelid = 'dest.customers'::regclass"
    )
    assert target_database.query(stand) == [("all", True)]
    begin(loader, checked, generation=2, empty=True)
    with pytest.raises(RowRefused, match=r'check constraint "all".*; key id=-7.*DROP CONSTRAINT'):
        load(loader, CUSTOMER, b"-7\tEve\t\\N\t\\N\n", generation=2)
    load(loader, CUSTOMER, b"7\tEve\t\\N\t\\N\n", generation=2)
    assert loader.raise_sequences([CUSTOMER, ORDER]) == []
    insert = "INSERT INTO dest.customers (name) VALUES ('new') RETURNING id"
    assert target_database.query(insert) == [(8,)]
    target_database.execute("DELETE FROM dest.customers WHERE id = 8")
    assert loader.raise_sequences([CUSTOMER]) == [] and target_database.query(insert) == [(9,)]


# kind, chosen type, the source's default, as the target has it
DEFAULTS: list[tuple[LogicalType, str | None, object]] = [
    (LogicalType(Kind.INT8, target="boolean"), "-1", None),
    (LogicalType(Kind.INT8, target="boolean"), "1", True),
    (LogicalType(Kind.UINT64, target="bigint"), str(2**64 - 1), None),
    (LogicalType(Kind.UINT64, target="bigint"), str(2**63 - 1), 2**63 - 1),
    (LogicalType(Kind.DECIMAL, precision=9, scale=2, target="double precision"), "-1.50", -1.5),
    (LogicalType(Kind.FLOAT32, target="numeric"), "1e-38", Decimal("1e-38")),
    (LogicalType(Kind.BIT, 4, target="varbit"), "0101", "0101"),
    (LogicalType(Kind.TEXT, 9, target="uuid"), "x", None),
    (LogicalType(Kind.TEXT, 9, target="json"), "x", None),
    (LogicalType(Kind.DATE, target="timestamp"), "2020-02-03", datetime(2020, 2, 3)),
    (LogicalType(Kind.TIMESTAMP, target="timestamptz"), "2020-01-01 00:00:00.000000", datetime(2020, 1, 1, tzinfo=UTC)),
    (LogicalType(Kind.DURATION, target="time"), "-01:00:00.000000", None),
]


def test_postgresql_takes_every_default_that_is_kept_of_a_chosen_type(
    loader: PostgresLoader, target_database: Any
) -> None:
    types = tuple(type for type, _, _ in DEFAULTS)
    columns = tuple(
        Column(f"c{place}", type, "as it is", has_default=True, default=default)
        for place, (type, default, _) in enumerate(DEFAULTS)
    )
    schema = TableSchema(TableId("shop", "told"), columns)
    names = tuple(column.name for column in columns)
    table = TargetTable(schema.id, TableId("public", "told"), names, types, (), names)
    loader.create_table(schema, table, ValueRules(), False)
    (row,) = target_database.query("INSERT INTO public.told DEFAULT VALUES RETURNING *")
    assert list(row) == [expected for _, _, expected in DEFAULTS]


def test_postgresql_build_goes_on_where_a_sequence_is_too_small(loader: PostgresLoader, target_database: Any) -> None:
    target_database.execute(
        "CREATE SCHEMA dest",
        "CREATE TABLE dest.customers (id serial PRIMARY KEY, name varchar(20), born date, extra jsonb)",
        "ALTER TABLE dest.customers ALTER id TYPE bigint",
    )
    loaded(loader)
    target_database.execute("UPDATE dest.customers SET id = 3000000000 WHERE id = 2")
    for problems in (loader.build(JOB, CUSTOMERS, CUSTOMER, TABLES.get), loader.raise_sequences([CUSTOMER])):
        (problem,) = problems
        assert "dest.customers_id_seq of dest.customers could not be set" in problem and "AS bigint" in problem
    assert set(EXPECTED[:2]) <= set(built(target_database))


def test_postgresql_the_highest_of_texts_sets_no_sequence(loader: PostgresLoader, target_database: Any) -> None:
    """A sequence of somebody's own; the job makes none for a counter that it stores as text."""
    target_database.execute(
        "CREATE TABLE public.worded (id text PRIMARY KEY)",
        "CREATE SEQUENCE public.counts OWNED BY public.worded.id",
        "ALTER TABLE public.worded ALTER id SET DEFAULT nextval('public.counts')",
        "INSERT INTO public.worded VALUES ('9'), ('10')",
    )
    kinds = (LogicalType(Kind.UINT64, target="text"),)
    table = TargetTable(TableId("shop", "worded"), TableId("public", "worded"), ("id",), kinds, ("id",))
    assert loader.raise_sequences([table]) == []
    assert target_database.query("SELECT last_value, is_called FROM public.counts") == [(1, False)]


def test_postgresql_build_replaces_an_invalid_index(loader: PostgresLoader, target_database: Any) -> None:
    loaded(loader)
    target_database.execute(
        "CREATE INDEX customers_by_name ON dest.customers (name)",
        "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'dest.customers_by_name'::regclass",
    )
    assert loader.build(JOB, CUSTOMERS, CUSTOMER, TABLES.get) == []
    assert EXPECTED[1] in built(target_database)


def test_torture_seed_232_somebody_else_changes_the_invalid_index(loader: PostgresLoader, target_database: Any) -> None:
    """The server calls it an internal error; it is over when it is tried again."""
    loaded(loader)
    invalid = "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'dest.customers_by_name'::regclass"
    target_database.execute("CREATE INDEX customers_by_name ON dest.customers (name)", invalid)
    with target_database.connect(autocommit=False) as other:
        other.execute(invalid)
        waits = (
            "SELECT 1 FROM pg_locks JOIN pg_stat_activity USING (pid)"
            " WHERE NOT granted AND locktype = 'transactionid' AND datname = current_database()"
        )

        def commit() -> None:
            until(lambda: target_database.query(waits), "it does not wait")
            other.commit()

        committing = Doing(commit)
        with pytest.raises(TargetBusy, match="tuple concurrently updated"):
            loader.build(JOB, CUSTOMERS, CUSTOMER, TABLES.get)
        committing.done()
    assert loader.build(JOB, CUSTOMERS, CUSTOMER, TABLES.get) == []
    assert EXPECTED[1] in built(target_database)


def test_postgresql_build_reports_a_unique_index_with_duplicates(loader: PostgresLoader, target_database: Any) -> None:
    begin(loader, CUSTOMERS)
    load(loader, CUSTOMER, b"1\tAnn\t\\N\t\\N\n2\tAnn\t\\N\t\\N\n")
    (problem,) = loader.build(JOB, CUSTOMERS, CUSTOMER, TABLES.get)
    assert "customers_by_name" in problem and "Ann" not in problem
    names = target_database.query("SELECT indexrelid::regclass::text FROM pg_index WHERE NOT indisvalid")
    assert names == []


def test_postgresql_build_takes_another_name_when_it_is_used(loader: PostgresLoader, target_database: Any) -> None:
    loaded(loader)
    target_database.execute("CREATE TABLE dest.customers_by_name (x int)")
    for _ in range(2):
        assert loader.build(JOB, CUSTOMERS, CUSTOMER, TABLES.get) == []
    unique = [name for name, is_unique, _ in built(target_database) if is_unique]
    assert len(unique) == 1 and unique[0].startswith("dest.customers_by_name_")


def test_postgresql_build_goes_on_beside_a_writer(loader: PostgresLoader, target_database: Any) -> None:
    loaded(loader)
    stop, failures = threading.Event(), []

    def write() -> None:
        connection = target_database.connect(autocommit=False)
        number = 1000
        while not stop.is_set():
            number += 1
            connection.execute("INSERT INTO dest.orders VALUES (%s, 1)", [number])
            connection.execute("UPDATE dest.customers SET born = current_date WHERE id = 1")
            time.sleep(0.02)
            connection.commit()
        connection.close()

    writer = threading.Thread(target=lambda: failures.append(None) if write() else None)
    writer.start()
    try:
        for schema in (CUSTOMERS, ORDERS):
            assert loader.build(JOB, schema, TABLES[schema.id], TABLES.get) == []
    finally:
        stop.set()
        writer.join(120)
    assert built(target_database) == EXPECTED and not failures


def test_postgresql_build_gives_up_on_locked_tables(
    loader: PostgresLoader, target_database: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from anabranch.connectors.postgresql.target import constraints

    loaded(loader)
    with target_database.connect(autocommit=False) as holder:
        holder.execute("UPDATE dest.customers SET name = 'x' WHERE id = 1")
        with monkeypatch.context() as short, pytest.raises(TargetUnavailable, match="locked"):
            short.setattr(constraints, "LOCK_WAIT_MS", 20)
            short.setattr(constraints, "LOCK_TRIES", 2)
            loader.build(JOB, ORDERS, ORDER, TABLES.get)
        holder.rollback()
    assert loader.build(JOB, ORDERS, ORDER, TABLES.get) == []


def of_texts(name: str, *lengths: int | None, **more: Any) -> tuple[TableSchema, TargetTable]:
    """A table of a key `id` and texts a, b, … of these lengths."""
    texts = [Column("abc"[i], LogicalType(Kind.TEXT, n), "varchar") for i, n in enumerate(lengths)]
    schema = TableSchema(TableId("shop", name), (ORDERS.columns[0], *texts), ("id",), **more)
    return schema, mapped(schema)


def made(loader: PostgresLoader, schema: TableSchema, table: TargetTable) -> None:
    loader.create_table(schema, table, RULES, False)
    loader.begin_generation(JOB, table, 1, [Bounds()], False)


def indexes_of(database: Any, table: str) -> dict[str, str]:
    found = database.query("SELECT indexname, indexdef FROM pg_indexes WHERE tablename = %s", (table,))
    return {name: definition.partition(" USING ")[2] for name, definition in found}


def checks_of(database: Any, table: str) -> list[str]:
    """Validated ones."""
    stand = "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = %s::regclass AND contype = 'c'"
    return [definition for (definition,) in database.query(stand + " AND convalidated", (f"dest.{table}",))]


def test_postgresql_build_makes_indexes_that_take_the_longest_row(loader: PostgresLoader, target_database: Any) -> None:
    """Beyond U+FFFF every character takes four bytes, and random ones do not compress."""
    indexes = (Index("ab", ("a", "b"), prefixes=(10, 10)), Index("c", ("c",)), Index("cb", ("c", "b"), True))
    schema, table = of_texts("long", 600, 600, 673, indexes=indexes)
    made(loader, schema, table)
    (problem,) = loader.build(JOB, schema, table, TABLES.get)
    assert problem.startswith("index cb of shop.long is not built: its values may be longer than the 2704 bytes")
    assert set(indexes_of(target_database, "long")) == {"long_pkey", "long_ab", "long_c"}
    random = Random(1)
    row = ["".join(chr(random.randrange(0x20000, 0x2A6D6)) for _ in range(n)) for n in (600, 600, 673)]
    with target_database.connect() as connection:
        connection.execute("INSERT INTO dest.long VALUES (1, %s, %s, %s)", row)
        connection.execute("ALTER TABLE dest.long ALTER c TYPE varchar(674)")
        with pytest.raises(Exception, match="exceeds btree version 4 maximum 2704"):
            connection.execute("INSERT INTO dest.long (id, c) VALUES (2, %s)", [row[2] + "\U00020000"])


def test_postgresql_builds_the_indexes_that_its_script_shows(loader: PostgresLoader, target_database: Any) -> None:
    indexes = (
        Index("one", ("a",)),
        Index("two", ("a",)),
        Index("down", ("a",), descending=(True,)),
        Index("key", ("id",), True),
        Index("cut", ("a",), prefixes=(3,), unique=True),
        Index("cut_again", ("a",), prefixes=(3,), unique=True),
    )
    schema, table = of_texts("same", 10, indexes=indexes)
    steps = list(loader.script([(schema, table)]))
    for index in (1, 2):
        if index == 1:
            made(loader, schema, table)
        assert loader.build(JOB, schema, table, TABLES.get) == []
        assert set(indexes_of(target_database, "same")) == {"same_pkey", "same_one", "same_down", "same_cut"}
    assert sum("INDEX" in step.sql for step in steps) == 3
    assert [step.note for step in steps if step.note] == [
        "index two: one serves the same",
        "index key: the primary key serves the same",
        "index cut_again: cut serves the same",
    ]


def test_postgresql_build_goes_by_definitions_not_by_names(loader: PostgresLoader, target_database: Any) -> None:
    """Names that PostgreSQL has given, and names that a user has given to something else."""
    column = Column("e", LogicalType(Kind.ENUM, values=("x", "y")), "enum")
    five = Term("<>", (Term("column", text="id"), Term("number", text="5")))
    checks = tuple(Check(name, "…", five) for name in ("named_e_check", "named_pkey", "theirs", "usual"))
    indexes = (Index("pkey", ("a",), True), Index("taken", ("a",), prefixes=(3,), unique=True), Index("b", ("e",)))
    schema, _ = of_texts("named", 10, indexes=indexes, checks=checks)
    schema = replace(schema, columns=(*schema.columns, column))
    table = mapped(schema)
    steps = [step.sql for step in loader.script([(schema, table)])]
    made(loader, schema, table)
    target_database.execute(
        'CREATE UNIQUE INDEX named_taken ON dest.named ("left"(a::text, 4))',
        "ALTER TABLE dest.named ADD CONSTRAINT theirs CHECK (id <> 6)",
    )
    for _ in range(2):
        assert loader.build(JOB, schema, table, TABLES.get) == []
        assert sorted(indexes_of(target_database, "named").values()) == [
            'btree ("left"((a)::text, 3))',
            'btree ("left"((a)::text, 4))',
            "btree (a)",
            "btree (e)",
            "btree (id)",
        ]
        checks_there = checks_of(target_database, "named")
        assert checks_there.count("CHECK ((id <> 5))") == 4 and len(checks_there) == 6
    target_database.execute("DROP TABLE dest.named", *steps)
    assert len(indexes_of(target_database, "named")) == 4


def test_postgresql_build_finds_the_checks_of_a_table_that_stands_already(
    loader: PostgresLoader, target_database: Any
) -> None:
    """The labels' check there may have the name of a source's check: an earlier release left the name to PostgreSQL."""
    five = Term("<>", (Term("column", text="id"), Term("number", text="5")))
    schema, table = of_texts("older", 10, checks=(Check("older_a_check", "…", five),))
    target_database.execute(
        "CREATE SCHEMA dest",
        "CREATE TABLE dest.older (id bigint PRIMARY KEY, a text CHECK (a IN ('x', 'y')))",
    )
    made(loader, schema, table)
    assert loader.build(JOB, schema, table, TABLES.get) == []
    assert "CHECK ((id <> 5))" in checks_of(target_database, "older") and len(checks_of(target_database, "older")) == 2


def test_postgresql_load_makes_tables_that_are_called_like_sequences_and_keys(
    loader: PostgresLoader, target_database: Any
) -> None:
    first, _ = of_texts("o", 10)
    first = replace(first, columns=(replace(first.columns[0], auto_increment=True), *first.columns[1:]))
    schemas = [first, of_texts("o_id_seq", 10)[0], of_texts("o_pkey", 10)[0]]
    tables = [mapped(schema) for schema in schemas]
    for schema, table in zip(schemas, tables, strict=True):
        loader.create_table(schema, table, RULES, False, {t.target for t in tables})
    kinds = "SELECT relname::text, relkind::text FROM pg_class WHERE relname LIKE 'o%%' AND relkind = 'r' ORDER BY 1"
    assert target_database.query(kinds) == [("o", "r"), ("o_id_seq", "r"), ("o_pkey", "r")]
    assert target_database.query("INSERT INTO dest.o (a) VALUES ('x') RETURNING id") == [(1,)]
    target_database.execute(
        "DROP SCHEMA dest CASCADE", *(s.sql for s in loader.script(list(zip(schemas, tables, strict=True))))
    )
    target_database.execute("CREATE SEQUENCE dest.q")
    with pytest.raises(TargetError, match=r"relation .*q.* already exists"):
        loader.create_table(*of_texts("q", 10), RULES, False)
