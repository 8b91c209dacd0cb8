"""A job whose target is the database that it reads: refused where it would write to what it reads, whatever the URLs say."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from from_postgresql import FromPostgres

from anabranch.testing.databases import Database
from anabranch.testing.servers import Server

ROWS = 1000
FILL = (
    "CREATE TABLE orders (id int PRIMARY KEY, note text)",
    f"INSERT INTO orders SELECT g, 'n' || g FROM generate_series(1, {ROWS}) g",
    "CREATE TABLE other (LIKE orders INCLUDING ALL)",
    "CREATE TABLE whole (id int PRIMARY KEY, note text) PARTITION BY RANGE (id)",
    "CREATE TABLE part PARTITION OF whole FOR VALUES FROM (0) TO (100000)",
    "INSERT INTO whole VALUES (7, 'kept')",
)
EMPTY = '[load]\nexisting = "empty"'


def rule(include: str, target: str) -> str:
    return f'[[rules]]\ninclude = ["public.{include}"]\ntarget = "{target}"\n'


REFUSED = {
    "the same": (rule("*", "{schema}.{table}"), "public.orders is a table that the job reads"),
    "in part": (rule("whole", "copy.whole") + rule("orders", "public.orders"), "public.orders is a table"),
    "a chain": (rule("orders", "public.other") + rule("other", "public.orders"), "public.other is a table"),
    "a partition": (rule("orders", "public.part") + rule("whole", "copy.whole"), "public.part shares its rows with"),
}


@pytest.fixture
def made(logical_postgresql: Server, source_database: Callable[[Server], Database], tmp_path: Path) -> FromPostgres:
    database = source_database(logical_postgresql)
    database.execute(*FILL)
    return FromPostgres(database, database, tmp_path, target_at=("localhost", logical_postgresql.port), is_quick=True)


@pytest.mark.quick
def test_a_job_that_would_write_to_what_it_reads_is_refused(made: FromPostgres) -> None:
    for rules, words in REFUSED.values():
        for load in (EMPTY, ""):
            made.write_job(load, rules=rules)
            said = made.cli("preflight", code=3)
            assert words in said.stdout + said.stderr, said.stdout
            assert 'existing = "empty"' not in said.stdout + said.stderr  # which the advice to TRUNCATE names
    made.write_job(EMPTY, rules=REFUSED["the same"][0])
    made.run_until_caught_up(code=3)
    assert made.source.query("SELECT count(*) FROM orders") == [(ROWS,)]
    assert made.source.query("SELECT * FROM whole") == [(7, "kept")]


@pytest.mark.quick
def test_the_same_database_under_other_names_is_replicated(made: FromPostgres) -> None:
    made.write_job(EMPTY, rules=rule("*", "copy.{table}"))
    for change in ("SELECT 1", "UPDATE orders SET note = 'later' WHERE id % 2 = 0"):
        made.source.execute(change)
        made.run_until_caught_up()
        assert made.source.query("TABLE orders EXCEPT TABLE copy.orders") == []
        assert made.source.query("SELECT count(*) FROM copy.orders") == [(ROWS,)]
