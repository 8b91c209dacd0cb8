"""Types of a PostgreSQL that change while no row of theirs is logged. The target then shows other values than the source has:
the tables are parked, with the statement for the target, and come back equal. A label that is only added is
added at the target."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from anabranch.testing.servers import Server
from rigs.scenario import Running, wait_until
from rigs.scenario_postgresql import FromPostgres

RULES = '[[rules]]\ninclude = ["public.*"]\ntarget = "{schema}.{table}"\n'
KINDS = {
    "feels": "mood",
    "many": "mood[]",
    "wrapped": "feeling",
    "parts": "place",
    "sized": "small",
    "spans": "stretch",
    "calm": "other",
}
TYPES = (
    "CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy')",
    "CREATE TYPE other AS ENUM ('a', 'b')",
    "CREATE DOMAIN feeling AS mood",
    "CREATE TYPE place AS (town text, felt mood)",
    "CREATE DOMAIN small AS int CONSTRAINT little CHECK (VALUE < 10)",
    "CREATE TYPE stretch AS RANGE (SUBTYPE = mood)",
    *(f"CREATE TABLE {name} (id int PRIMARY KEY, v {type_})" for name, type_ in KINDS.items()),
    "ALTER TABLE calm ALTER v SET DEFAULT 'b'",
)
ROWS = {"feels": "'ok'", "many": "'{ok,sad}'", "wrapped": "'ok'", "parts": "'(x,ok)'", "sized": "5"}
ROWS |= {"spans": "'[ok,ok]'", "calm": "'a'"}
OF_MOOD = {"feels", "many", "wrapped", "parts", "spans"}


def rows(made: FromPostgres) -> list[str]:
    return [f"INSERT INTO {name} SELECT coalesce(max(id), 0) + 1, {v} FROM {name}" for name, v in ROWS.items()]


@pytest.mark.quick
@pytest.mark.timeout(1200)
def test_types_that_change_without_a_row(logical_postgresql: Server, scenario: Callable[..., FromPostgres]) -> None:
    made = scenario(logical_postgresql, *TYPES)
    made.source.execute(*rows(made))
    made.write_job(rules=RULES)
    made.run_until_caught_up()
    labels_that_were_renamed_while_it_stood_are_noticed_at_the_start(made)
    running = made.start("run")
    made.sync(running)
    a_domain_and_an_extended_enum_while_it_runs(made, running)
    they_come_back(made, running)
    a_row_with_a_renamed_label_comes_before_anybody_has_noticed(made, running)
    running.stop()
    labels_that_are_added_are_followed(made)


def labels_that_were_renamed_while_it_stood_are_noticed_at_the_start(made: FromPostgres) -> None:
    """Two labels change places: the enum has the same ones as before."""
    for old, new in (("ok", "tmp"), ("sad", "ok"), ("tmp", "sad")):
        made.source.execute(f"ALTER TYPE mood RENAME VALUE '{old}' TO '{new}'")
    made.run_until_caught_up(code=8)
    assert {name for name, state in made.states().items() if state == "parked"} == OF_MOOD, made.states()
    reason = made.reason("many")
    assert "labels of the enum public.mood were renamed" in reason and "load JOB --table public.many" in reason
    assert "ALTER TYPE public.mood RENAME VALUE 'sad' TO 'ok'" in reason, reason


def a_domain_and_an_extended_enum_while_it_runs(made: FromPostgres, running: Running) -> None:
    made.source.execute("ALTER TYPE other ADD VALUE 'between' BEFORE 'b'", "ALTER DOMAIN small DROP CONSTRAINT little")
    wait_until(lambda: made.states()["sized"] == "parked", 60, "sized is parked", running.tail, running)
    assert "domain public.small was altered at the source" in made.reason("sized"), made.reason("sized")
    made.source.execute("INSERT INTO calm VALUES (50, 'b')")
    made.sync(running)
    assert made.states()["calm"] == "streaming", "a label that is only added changes no row"


def they_come_back(made: FromPostgres, running: Running) -> None:
    """Of labels that changed places the first load tells the target."""
    made.target.execute(
        "ALTER DOMAIN public.small DROP CONSTRAINT little", "ALTER TYPE public.other ADD VALUE 'between' BEFORE 'b'"
    )
    for name in sorted(OF_MOOD | {"sized"}):
        made.cli("load", "--table", f"public.{name}")
    made.source.execute(*rows(made), "INSERT INTO sized VALUES (70, 5000)", "INSERT INTO calm VALUES (300, 'between')")
    made.wait_streaming(running)
    made.sync(running)
    assert set(made.states().values()) == {"streaming"}, made.states()
    for name in KINDS:
        query = f"SELECT id, v::text FROM public.{name} ORDER BY id"
        assert made.target.query(query) == made.source.query(query), name


def a_row_with_a_renamed_label_comes_before_anybody_has_noticed(made: FromPostgres, running: Running) -> None:
    """Its table parks before that row, the others go on; the command that the reason names brings it back, with the default."""
    made.source.execute(
        "ALTER TYPE other RENAME VALUE 'b' TO 'beta'",
        "INSERT INTO calm VALUES (310, 'beta'); INSERT INTO feels SELECT max(id) + 1, 'ok' FROM feels",
    )
    wait_until(lambda: made.states()["calm"] == "parked", 90, "calm is parked", running.tail, running)
    made.sync(running)
    assert "load JOB --table public.calm brings it in" in made.reason("calm"), made.reason("calm")
    assert {name for name, state in made.states().items() if state != "streaming"} == {"calm"}
    made.cli("load", "--table", "public.calm")
    made.wait_streaming(running)
    made.sync(running)
    shown = [
        "SELECT id, v::text FROM public.calm ORDER BY id",
        "SELECT id, v::text FROM public.feels ORDER BY id",
        "SELECT column_default FROM information_schema.columns WHERE table_name = 'calm' ORDER BY ordinal_position",
    ]
    for query in shown:
        assert made.target.query(query) == made.source.query(query)


def labels_that_are_added_are_followed(made: FromPostgres) -> None:
    running = made.start("run")
    made.sync(running)
    made.source.execute("ALTER TYPE other ADD VALUE 'last'", "ALTER TYPE other ADD VALUE 'first' BEFORE 'a'")
    made.source.execute(
        "INSERT INTO calm VALUES (400, 'last'), (401, 'first')", "UPDATE calm SET v = 'last' WHERE id = 50"
    )
    made.sync(running)
    assert made.states()["calm"] == "streaming"
    running.stop()
    for query in ("SELECT id, v::text FROM public.calm ORDER BY id", "SELECT enum_range(NULL::public.other)::text"):
        assert made.target.query(query) == made.source.query(query)
