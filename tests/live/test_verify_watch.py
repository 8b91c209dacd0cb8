"""`verify --watch`: a table at a time, the one first that was looked at longest ago; lines that are lost, tables that do not
stream. Without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import click
import pytest

from anabranch.cli.status import lines
from anabranch.errors import ConfigError, Fenced, StateError
from anabranch.job import keep_verifying
from anabranch.job.keep_verifying import Watch, alone
from anabranch.job.signals import Stop
from anabranch.model.ids import TableId
from anabranch.model.table_life import Life
from anabranch.model.verified import Verified
from anabranch.spark import pieces
from anabranch.testing.databases import create_database, drop_database, unique_name
from anabranch.testing.in_time import PATIENCE, until
from anabranch.testing.torture import local_verify
from anabranch.verify import both_ends
from anabranch.verify.digest import Summing
from anabranch.view.opened import store_of
from rigs.job_here import JobHere
from rigs.scenario import Scenario

TABLES = (
    "CREATE TABLE a (id INT PRIMARY KEY, word VARCHAR(20))",
    "CREATE TABLE b (id INT PRIMARY KEY, word VARCHAR(20))",
    "CREATE TABLE c (id INT PRIMARY KEY, word VARCHAR(20))",
    "INSERT INTO a VALUES (1, 'one'), (2, 'two')",
    "INSERT INTO b VALUES (1, 'one'), (2, 'two')",
    "INSERT INTO c VALUES (1, 'one'), (2, 'two')",
)


@pytest.fixture
def here(mysql: Any, postgresql: Any, tmp_path: Path) -> Iterator[JobHere]:
    source, target = create_database(mysql, "watched"), create_database(postgresql, "watched")
    source.execute(*TABLES)
    made = JobHere(Scenario(source, target, tmp_path, name=unique_name("job")))
    made.load()
    made.stream()
    yield made
    made.job.drop(execute=True)
    drop_database(source)
    drop_database(target)


def test_rule_25_verification_that_goes_on_for_ever(here: JobHere, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "run", local_verify._run)
    monkeypatch.setattr(keep_verifying, "LOOK", 0.05)
    for module in (keep_verifying, both_ends):  # nothing is pending because this machine is slow
        monkeypatch.setattr(module, "PATIENCE", PATIENCE)
    assert watched(here, 1, ends="waits: no part of the job runs")[-1].endswith("waits: no part of the job runs")
    with here.running():
        all_are_looked_at_in_turn(here)
        a_new_process_goes_on_with_the_oldest_and_finds_what_differs(here)
        a_lost_line_is_outlasted(here, monkeypatch)
        a_table_that_is_parked_is_passed_over(here)
        with pytest.raises(ConfigError, match="fits no table"):
            watched(here, 1, patterns=("other.*",))
        with alone(here.job), pytest.raises(StateError, match="verified for ever by"), alone(here.job):
            pass


def watched(
    here: JobHere, results: int, patterns: tuple[str, ...] = (), ends: str = "\n", sample: float | None = None
) -> list[str]:
    """Watch until there are so many results, or a line ends so. Returns the lines."""
    stop, told = Stop(), list[str]()

    def tell(line: str) -> None:
        told.append(line)
        if sum(" -> " in one for one in told) >= results or line.endswith(ends):
            stop.ask()

    wanted = patterns or tuple(f"{here.made.schema}.{name}" for name in "abc")
    Watch(here.job, cast(Any, local_verify.LocalSpark), wanted, False, 1.0, stop, tell, sample).run()
    return told


def names(lines: list[str]) -> list[str]:
    return [line.partition(" -> ")[0].rpartition(".")[2] for line in lines if " -> " in line]


def kept(here: JobHere) -> dict[str, Verified]:
    with store_of(here.job) as store:
        return {one.source.name: one for one in store.verifications.verified(here.job.config.name)}


def all_are_looked_at_in_turn(here: JobHere) -> None:
    assert names(watched(here, 4)) == ["a", "b", "c", "a"]
    found = kept(here)
    assert {name: (one.result, one.rows, one.pending) for name, one in found.items()} == dict.fromkeys(
        "abc", ("identical", 2, 0)
    )
    assert all(one.began <= one.at and "@" in one.positions[0] for one in found.values())
    assert names(watched(here, 1, sample=0.05)) == ["b"]
    sampled = kept(here)
    assert (sampled["b"].sample, sampled["b"].result, sampled["a"].sample) == ("5%", "identical", None)
    assert "identical, 2 rows in a sample of 5%" in click.unstyle("\n".join(lines(here.job.status())))
    assert names(watched(here, 2)) == ["c", "a"]


def a_new_process_goes_on_with_the_oldest_and_finds_what_differs(here: JobHere) -> None:
    here.made.target.execute(f"UPDATE {here.made.there}.c SET word = 'other' WHERE id = 2")
    told = watched(here, 2)
    assert names(told) == ["b", "c"] and "DIFFERENT" in told[-1]
    found = {one["source"].rpartition(".")[2]: one for one in here.job.status()["targets"][0]["tables"]}
    assert (found["c"]["verified"]["result"], found["c"]["verified"]["differing"]) == ("different", 1)
    assert found["b"]["verified"]["result"] == "identical" and "verified" not in found["scenario_mark"]
    shown = click.unstyle("\n".join(lines(here.job.status())))
    assert "DIFFERENT, 2 rows, 1 differing" in shown and "identical, 2 rows" in shown
    here.made.target.execute(f"UPDATE {here.made.there}.c SET word = 'two' WHERE id = 2")
    assert names(watched(here, 3)) == ["a", "b", "c"] and kept(here)["c"].result == "identical"


def a_lost_line_is_outlasted(here: JobHere, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server ends the session while a piece of the target is read; the piece is read again."""
    cut = list[str]()
    read = Summing.read

    @contextmanager
    def cut_once(self: Summing, piece: Any) -> Iterator[Any]:
        with read(self, piece) as (header, blocks):
            if not piece.is_source and not cut:
                cut.append(str(piece.one.table.source))
                blocks = cut_before(here, blocks)
            yield header, blocks

    with monkeypatch.context() as patched:
        patched.setattr(Summing, "read", cut_once)
        here.made.target.execute(f"UPDATE {here.made.there}.a SET word = 'other' WHERE id = 2")
        told = watched(here, 1)
    assert cut and names(told) == ["a"] and "DIFFERENT" in told[-1] and len(told) == 1
    here.made.target.execute(f"UPDATE {here.made.there}.a SET word = 'two' WHERE id = 2")


def cut_before(here: JobHere, blocks: Iterator[bytes]) -> Iterator[bytes]:
    sessions = "FROM pg_stat_activity WHERE application_name = 'anabranch-verify' AND datname = current_database()"
    here.made.target.query(f"SELECT pg_terminate_backend(pid) {sessions}")
    until(lambda: not here.made.target.query(f"SELECT 1 {sessions}"), "the session has ended")
    yield from blocks


def a_table_that_is_parked_is_passed_over(here: JobHere) -> None:
    table = TableId(here.made.schema, "b")
    until(lambda: is_parked(here, table), "it is parked")
    told = watched(here, 2)
    assert "b: it is parked: for a test" in told[0] and names(told) == ["c", "a"]


def is_parked(here: JobHere, table: TableId) -> bool:
    """Return whether it is; else try to park it, which is refused where apply has just noted something of it."""
    with store_of(here.job) as store, closing(store):
        before = store.states.table(here.job.config.name, table)
        assert before is not None
        if not before.is_parked:
            with suppress(Fenced):
                store.states.save_table(
                    here.job.config.name, replace(before, state=Life.PARKED, reason="for a test"), before
                )
        return before.is_parked
