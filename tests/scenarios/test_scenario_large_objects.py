"""Large objects of a PostgreSQL: their numbers are in rows, they themselves in no log. A job that would carry the numbers alone
says so, before the load and as soon as the first one comes by, until its user decides."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from anabranch.testing.servers import Server
from rigs.scenario import Running
from rigs.scenario_postgresql import FromPostgres

SCHEMA = (
    "CREATE DOMAIN lo AS oid",  # as the extension lo has it
    "CREATE DOMAIN picture AS oid",
    "CREATE TYPE page AS (number int, scan oid)",
    "CREATE TABLE image (id int PRIMARY KEY, name text, raster oid)",
    "CREATE TABLE doc (id int PRIMARY KEY, body lo)",
    "CREATE TABLE album (id int PRIMARY KEY, pictures picture[])",
    "CREATE TABLE relations (id int PRIMARY KEY, relation oid, kind regclass)",
    "CREATE TABLE book (id int PRIMARY KEY, page page)",
    "CREATE TABLE plain (id int PRIMARY KEY, v text)",
    "INSERT INTO image VALUES (1, 'none', NULL), (2, 'none', 0)",
    "INSERT INTO doc VALUES (1, NULL)",
    "INSERT INTO relations VALUES (1, 'pg_class'::regclass, 'pg_class')",
    "INSERT INTO plain VALUES (1, 'v')",
)
NUMBERS = '[types]\nlarge_objects = "numbers"\n'
NAMED = {"image", "doc", "album"}


@pytest.mark.quick
@pytest.mark.timeout(1200)
def test_large_objects_do_not_stay_behind_in_silence(
    logical_postgresql: Server, scenario: Callable[..., FromPostgres]
) -> None:
    made = scenario(logical_postgresql, *SCHEMA)
    found = made.cli("preflight").stdout
    assert (
        "column body (public.lo) names no large object now" in found
        and "raster" not in found
        and "relation (oid)" not in found
    )
    running = made.start("run")
    made.wait_streaming(running)
    objects_that_come_later_park_their_tables(made, running)
    a_load_of_them_is_refused_by_name(made)
    running.stop()
    the_users_word_lets_the_numbers_arrive(made)


def objects_that_come_later_park_their_tables(made: FromPostgres, running: Running) -> None:
    made.source.execute(
        "INSERT INTO relations VALUES (2, 'image'::regclass, 'image')",
        "INSERT INTO image VALUES (3, 'before', 4294967295)",
        "BEGIN",
        "INSERT INTO plain VALUES (2, 'in it')",
        "UPDATE image SET raster = lo_from_bytea(0, 'bytes') WHERE id = 1",
        "INSERT INTO image VALUES (4, 'behind', NULL)",
        "INSERT INTO doc VALUES (2, lo_from_bytea(0, 'text'))",
        "INSERT INTO album VALUES (1, ARRAY[0, lo_from_bytea(0, 'a')]::picture[])",
        "COMMIT",
        "INSERT INTO plain VALUES (3, 'goes on')",
    )
    made.sync(running)
    assert {name for name, state in made.states().items() if state == "parked"} == NAMED, made.states()
    assert "column raster (oid) names a large object" in made.reason("image")
    assert 'large_objects = "numbers"' in made.reason("doc") and "load JOB --table public.doc" in made.reason("doc")
    assert made.target_rows("image") == [("1", "none", None), ("2", "none", "0"), ("3", "before", "4294967295")]
    made.assert_identical("plain", "relations", "book")


def a_load_of_them_is_refused_by_name(made: FromPostgres) -> None:
    refused = made.cli("load", "--table", "public.image", code=3)
    assert "column raster (oid) names large objects in 1 values" in refused.stderr + refused.stdout


def the_users_word_lets_the_numbers_arrive(made: FromPostgres) -> None:
    made.write_job(NUMBERS)
    running = made.start("run")
    made.sync(running)
    for table in sorted(NAMED):
        made.cli("load", "--table", f"public.{table}")
    made.source.execute("INSERT INTO image VALUES (5, 'with', lo_from_bytea(0, 'more'))", "UPDATE doc SET body = NULL")
    made.wait_streaming(running)
    made.sync(running)
    assert set(made.states().values()) == {"streaming"}
    made.assert_identical()
    running.stop()
    made.write_job()
    refused = made.cli("run", "--until-caught-up", code=3)
    assert "column raster (oid) names large objects in 2 values" in refused.stdout + refused.stderr
    assert "columns.drop" in refused.stdout + refused.stderr


@pytest.mark.quick
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("streaming", ["true", pytest.param("false", marks=pytest.mark.long)])
def test_a_large_object_in_the_middle_of_a_large_transaction(
    logical_postgresql: Server, scenario: Callable[..., FromPostgres], streaming: str
) -> None:
    """It comes in pieces; what stands before it in the transaction is applied with the rest of it, or not at all."""
    made = scenario(
        logical_postgresql,
        "CREATE TABLE image (id int PRIMARY KEY, raster oid)",
        "CREATE TABLE plain (id int PRIMARY KEY, v text)",
    )
    made.source.execute(f"ALTER DATABASE {made.source.name} SET logical_decoding_work_mem = '64kB'")
    made.write_job(f"[capture]\nstreaming = {streaming}\n")
    running = made.start("run")
    made.wait_streaming(running)
    made.source.execute(
        "BEGIN",
        "INSERT INTO image SELECT g, 0 FROM generate_series(1, 30000) g",
        "INSERT INTO plain SELECT g, 'p' FROM generate_series(1, 30000) g",
        "SAVEPOINT a",
        "INSERT INTO image VALUES (40000, lo_from_bytea(0, 'taken back'))",
        "ROLLBACK TO a",
        "UPDATE image SET raster = lo_from_bytea(0, 'kept') WHERE id = 500",
        "INSERT INTO image SELECT g, 0 FROM generate_series(50001, 80000) g",
        "INSERT INTO plain SELECT g, 'p' FROM generate_series(50001, 80000) g",
        "COMMIT",
    )
    made.sync(running)
    assert made.states() == {"image": "parked", "plain": "streaming", "scenario_mark": "streaming"}
    made.assert_identical("plain")
    assert made.target.query("SELECT count(*), max(raster) FROM image") == [(30000, 0)]
    running.stop()
