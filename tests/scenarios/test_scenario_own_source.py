"""A job whose target is the database that it reads: refused where it would write to what it reads, whatever the URLs say."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from anabranch.testing.databases import Database
from anabranch.testing.servers import Server
from rigs.scenario import SOURCE_SECRET, wait_until
from rigs.scenario_postgresql import FromPostgres

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
    "the state": (rule("orders", "anabranch.job"), "in which jobs keep their state"),
    "a partition": (rule("orders", "public.part") + rule("whole", "copy.whole"), "public.part shares its rows with"),
}


TARGETS, PARTITIONED = 12, 13  # the first releases that may be targets, and whose partitioned tables are followed


@pytest.fixture
def made(logical_postgresql: Server, source_database: Callable[[Server], Database], tmp_path: Path) -> FromPostgres:
    return on(source_database(logical_postgresql), tmp_path)


def on(database: Database, home: Path) -> FromPostgres:
    """A job whose two ends are this database, by two names of its server."""
    database.execute(*FILL)
    return FromPostgres(database, database, home, target_at=("localhost", database.server.port), is_quick=True)


@pytest.mark.quick
def test_a_job_that_would_write_to_what_it_reads_is_refused(
    postgresql_source: Server, source_database: Callable[[Server], Database], tmp_path: Path
) -> None:
    made = on(source_database(postgresql_source), tmp_path)
    release = int(postgresql_source.version.partition(".")[0])
    for case, (rules, words) in REFUSED.items():
        if case == "a partition" and release < PARTITIONED:
            continue
        words = words if release >= TARGETS else "is too old"
        for load in (EMPTY, "") if case == "the same" else ("",):
            made.write_job(load, rules=rules)
            said = made.cli("preflight", code=3)
            assert words in said.stdout + said.stderr, said.stdout
            assert 'existing = "empty"' not in said.stdout + said.stderr  # which the advice to TRUNCATE names
    made.write_job(EMPTY, rules=REFUSED["the same"][0])
    made.run_until_caught_up(code=3)
    assert made.source.query("SELECT count(*) FROM orders") == [(ROWS,)]
    assert made.source.query("SELECT * FROM whole") == [(7, "kept")]


@pytest.mark.quick
def test_one_of_several_targets_that_is_the_source_is_refused(made: FromPostgres, target_database: Database) -> None:
    made.target, at = target_database, made.target
    server = at.server
    url = f"postgresql://{server.user}:${{{SOURCE_SECRET}}}@localhost:{server.port}/{at.name}"
    made.target_at = None
    made.write_job(f'{EMPTY}\n[[targets]]\nname = "mirror"\nurl = "{url}"\n', rules=REFUSED["the same"][0])
    said = made.cli("run", "--until-caught-up", code=3)
    assert REFUSED["the same"][1] in said.stdout + said.stderr
    assert at.query("SELECT count(*) FROM orders") == [(ROWS,)]


@pytest.mark.quick
def test_the_same_database_under_other_names_is_replicated(made: FromPostgres) -> None:
    made.write_job(EMPTY, rules=rule("*", "copy.{table}"))
    for change in ("SELECT 1", "UPDATE orders SET note = 'later' WHERE id % 2 = 0"):
        made.source.execute(change)
        made.run_until_caught_up()
        assert made.source.query("TABLE orders EXCEPT TABLE copy.orders") == []
        assert made.source.query("SELECT count(*) FROM copy.orders") == [(ROWS,)]


@pytest.mark.quick
def test_a_pattern_that_takes_in_its_own_targets_is_replicated(made: FromPostgres) -> None:
    """`copy_orders` is in the schema that the job reads, and is its own target: it is not new, not parked, and has no copy."""
    made.write_job(EMPTY, rules=PATTERN)
    made.source.execute("DROP TABLE whole")
    made.run_until_caught_up()
    assert set(made.states()) == {"orders", "other", "scenario_mark"}
    it_streams_and_a_new_table_joins(made)
    made.cli("verify")
    assert "copy_copy" not in str(made.source.query("SELECT relname FROM pg_class"))
    a_table_that_is_in_the_way_is_refused(made)


PATTERN = rule("*", "public.copy_{table}")


def is_copied(made: FromPostgres, table: str) -> None:
    assert made.source.query(f"TABLE {table} EXCEPT TABLE copy_{table}") == []
    assert made.source.query(f"SELECT count(*) FROM copy_{table}") == made.source.query(f"SELECT count(*) FROM {table}")


def it_streams_and_a_new_table_joins(made: FromPostgres) -> None:
    running = made.start("run")
    made.source.execute("CREATE TABLE fresh (id int PRIMARY KEY)", "INSERT INTO fresh VALUES (1)")
    wait_until(lambda: made.states().get("fresh") == "parked", 90, "the new table is noticed", running.tail, running)
    made.cli("load", "--table", "public.fresh")
    said = made.cli("load", "--table", "public.copy_fresh", code=2).stderr
    assert "public.copy_fresh is the job's own target" in said
    made.source.execute("INSERT INTO fresh VALUES (2)", "DELETE FROM orders WHERE id % 3 = 0")
    made.source.execute("UPDATE orders SET note = 'later' WHERE id % 2 = 0")
    wait_until(lambda: len(made.source.query("TABLE copy_fresh")) == 2, 90, "it streams", running.tail, running)
    running.stop()
    made.run_until_caught_up()
    for table in ("orders", "fresh"):
        is_copied(made, table)
    assert set(made.states()) == {"orders", "other", "scenario_mark", "fresh"}


def a_table_that_is_in_the_way_is_refused(made: FromPostgres) -> None:
    """It has the name of a target and is the user's."""
    made.source.execute(
        "CREATE TABLE late (id int PRIMARY KEY)",
        "CREATE TABLE copy_late (id int PRIMARY KEY)",
        "INSERT INTO copy_late VALUES (1)",
    )
    said = made.cli("load", "--table", "public.late", "--recreate", code=2).stderr
    assert "public.copy_late is a table that the job reads" in said
    assert made.source.query("TABLE copy_late") == [(1,)]


@pytest.mark.quick
def test_a_target_that_becomes_what_the_job_reads_is_written_no_more(made: FromPostgres) -> None:
    """By nothing that writes there: apply with a repair, going back, a load, a start. What the job leaves takes no rows."""
    made.source.execute("DROP TABLE whole, other")
    made.write_job(rules=rule("*", "copy.{table}"))
    made.run_until_caught_up()
    before = made.checkpoint()[2]
    made.source.execute("INSERT INTO orders VALUES (-1, 'later')")
    running = made.start("run")
    arrived = "SELECT count(*) FROM copy.orders WHERE id = -1"
    wait_until(lambda: made.target.query(arrived) == [(1,)], 60, "the row arrives", running.tail, running)
    made.target.execute(
        "DELETE FROM copy.orders WHERE id IN (1, 2)", "UPDATE copy.orders SET note = 'wrong' WHERE id = 3"
    )
    made.source.execute("ALTER TABLE orders INHERIT copy.orders")
    kept = made.source.query("SELECT * FROM ONLY orders ORDER BY id")
    assert made.cli("verify", "--repair", code=None).code != 0
    assert IS_READ in running.wait().stderr
    for command in (
        ("run", "--until-caught-up"),
        ("apply",),
        ("rewind", "--to", str(before), "--execute"),
        ("load", "--table", "public.orders"),
        ("load", "--table", "public.orders", "--recreate"),
    ):
        capture = made.start("capture") if command[0] == "load" else None  # which brings the table in
        said = made.cli(*command, code=None)
        if capture:
            capture.stop()
        assert said.code != 0 and IS_READ in said.stdout + said.stderr, (command, said)
        assert made.source.query("SELECT * FROM ONLY orders ORDER BY id") == kept, command
    made.cli("drop", "--execute")
    assert made.source.query("SELECT * FROM ONLY orders ORDER BY id") == kept
    assert made.source.query("SELECT count(*) FROM ONLY copy.orders") == [(ROWS - 1,)]


IS_READ = "copy.orders shares its rows with public.orders, which the job reads"


@pytest.mark.quick
def test_two_jobs_that_write_to_each_others_sources_are_refused(
    logical_postgresql: Server, source_database: Callable[[Server], Database], tmp_path: Path
) -> None:
    """There and back is a loop as soon as the same tables are in both; others are not, nor a chain that goes on elsewhere."""
    one, two, three = (source_database(logical_postgresql) for _ in range(3))
    one.execute(*FILL)
    there = FromPostgres(one, two, tmp_path / "there", name="there", is_quick=True)
    there.write_job(rules=rule("orders", "public.copied"))
    there.run_until_caught_up()
    back = FromPostgres(two, one, tmp_path / "back", name="back", is_quick=True)
    back.write_job(EMPTY, rules=rule("copied", "public.orders"))
    said = back.cli("preflight", code=3)
    assert "the job there brings back what is written here to public.copied" in said.stdout + said.stderr
    back.run_until_caught_up(code=3)
    assert one.query("SELECT count(*) FROM orders") == [(ROWS,)]
    back.write_job(rules=rule("copied", "public.mirrored"))
    back.run_until_caught_up()
    assert one.query("TABLE orders EXCEPT TABLE mirrored") == []
    there.run_until_caught_up()
    onwards = FromPostgres(two, three, tmp_path / "onwards", name="onwards", is_quick=True)
    onwards.write_job(rules=rule("copied", "public.orders"))
    onwards.run_until_caught_up()
    assert three.query("SELECT count(*) FROM orders") == [(ROWS,)]


@pytest.mark.quick
def test_a_circle_over_three_databases_is_refused(
    logical_postgresql: Server, source_database: Callable[[Server], Database], tmp_path: Path
) -> None:
    """Each job notes where the rows come from that it passes on."""
    one, two, three = (source_database(logical_postgresql) for _ in range(3))
    one.execute("CREATE TABLE orders (id int PRIMARY KEY, note text)", "INSERT INTO orders VALUES (1, 'kept')")
    for name, source, target in (("there", one, two), ("on", two, three)):
        job = FromPostgres(source, target, tmp_path / name, name=name, is_quick=True)
        job.write_job(rules=rule("orders", "public.orders"))
        job.run_until_caught_up()
    back = FromPostgres(three, one, tmp_path / "back", name="back", is_quick=True)
    back.write_job(EMPTY, rules=rule("orders", "public.orders"))
    said = back.cli("preflight", code=3)
    assert (
        "the job there, over the job on, brings back what is written here to public.orders" in said.stdout + said.stderr
    )
    back.run_until_caught_up(code=3)
    assert one.query("TABLE orders") == [(1, "kept")]
    back.write_job(rules=rule("orders", "public.returned"))
    back.run_until_caught_up()
    assert one.query("TABLE returned") == [(1, "kept")]
