"""Loads of more tables than begin at once, killed in the middle, with a table among them that the target refuses."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from anabranch.failpoints import EXIT_CODE, VARIABLE
from anabranch.load.plan import AT_ONCE
from anabranch.testing.servers import Server
from rigs.scenario import Scenario

Make = Callable[..., Scenario]
TABLES = AT_ONCE + 6
REFUSED = "t010"  # among the first that begin at once


@pytest.mark.quick
def test_rule_29_new_tables_survive_kills_and_one_that_is_refused(
    mariadb: Server, scenario: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = scenario(mariadb)
    for n in range(TABLES):
        made.source.execute(
            f"CREATE TABLE t{n:03} (id INT PRIMARY KEY, v INT, KEY (v))",
            f"INSERT INTO t{n:03} VALUES (1, {n}), (2, {n})",
        )
    made.target.execute(f"CREATE DOMAIN public.{REFUSED} AS int")  # a table of the name has a type of it

    def killed_at(point: str) -> None:
        with monkeypatch.context() as patch:
            patch.setenv(VARIABLE, f"{point}=exit")
            made.cli("load", code=EXIT_CODE)

    capture = made.capture()
    killed_at("load.generations.written")
    rule_29_nothing_of_a_transaction_that_was_killed_is_there(made)
    killed_at("load.generation")
    rule_29_the_others_have_begun(made)
    the_refused_table_is_named(made)
    made.target.execute(f"DROP DOMAIN public.{REFUSED}")
    killed_at("load.handed.over")
    capture.stop()
    made.run_until_caught_up()
    assert set(made.states().values()) == {"streaming"}
    values = " UNION ALL ".join(f"SELECT {n} AS n, id, v FROM t{n:03}" for n in range(TABLES))
    assert made.target.query(f"{values} ORDER BY 1, 2") == [(n, i, n) for n in range(TABLES) for i in (1, 2)]
    assert made.target.query("SELECT count(*) FROM pg_indexes WHERE indexname ~ '^t[0-9]{3}_v$'") == [(TABLES,)]


def rule_29_nothing_of_a_transaction_that_was_killed_is_there(made: Scenario) -> None:
    assert set(made.states().values()) == {"pending"}
    assert made.target.query("SELECT count(*) FROM anabranch.load_chunk") == [(0,)]
    assert made.target.query("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'") == [(0,)]


def rule_29_the_others_have_begun(made: Scenario) -> None:
    begun = [table for table, state in made.states().items() if state == "loading"]
    assert len(begun) == AT_ONCE - 1 and REFUSED not in begun


def the_refused_table_is_named(made: Scenario) -> None:
    result = made.cli("load", code=None)
    assert result.code != 0 and f"public.{REFUSED}" in result.stderr
    assert set(made.states().values()) == {"loading", "pending"}, "nothing parks"
