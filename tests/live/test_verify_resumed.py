"""A verification that ended early goes on: killed, out of time; what was found equal is not compared again, unless something
has come that makes the result worthless, and nothing that was not compared is told to be equal. Without Spark."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from anabranch.errors import ConfigError
from anabranch.job import in_rounds, parts, verifying
from anabranch.job.in_rounds import SWITCHED, server_of, verify_in_rounds
from anabranch.job.keep_verifying import Watch
from anabranch.job.resuming import OTHER_SERVER, resumed
from anabranch.job.signals import Stop
from anabranch.job.verifying import states_of, tables_of
from anabranch.job.watched import Turn
from anabranch.lifecycle import repairing
from anabranch.model.cutover import CutoverNote, Phase, Step
from anabranch.model.ids import TableId
from anabranch.model.state import Skipped
from anabranch.model.table_life import TableState
from anabranch.model.verified import Verified
from anabranch.testing.databases import create_database, drop_database, unique_name
from anabranch.testing.in_time import until
from anabranch.verify.report import LATE, NO_TIME, Verification
from anabranch.verify.wanted import Sample, Wanted
from anabranch.view.opened import store_of
from rigs.job_here import JobHere, without_spark
from rigs.scenario import Scenario
from rigs.scenario_mysql_target import PostgresToMysql

NAMES = ("a", "b", "c", "d")
TABLES = (
    *(f"CREATE TABLE {name} (id INT PRIMARY KEY, n INT, word VARCHAR(20))" for name in NAMES),
    *(f"INSERT INTO {name} VALUES (1, 1, 'one'), (2, 2, 'two')" for name in NAMES),
)
ALL = {*NAMES, "scenario_mark"}


@pytest.fixture(params=[("mariadb", "postgresql"), ("logical_postgresql", "mysql")], ids=" to ".join)
def here(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[JobHere]:
    there, to = (request.getfixturevalue(name) for name in request.param)
    source, target = create_database(there, "resumed"), create_database(to, "resumed")
    source.execute(*TABLES)
    kind = PostgresToMysql if there.name == "postgresql" else Scenario
    made = JobHere(kind(source, target, tmp_path, name=unique_name("job"), is_quick=True))
    made.load()
    made.stream()
    yield made
    made.made.close()
    made.job.drop(execute=True)
    drop_database(source)
    drop_database(target)


def kept(here: JobHere) -> dict[str, Verified]:
    with store_of(here.job) as store:
        return {one.source.name: one for one in store.verifications.verified(here.job.config.name)}


def earlier(tables: Sequence[Mapping[str, Any]]) -> set[str]:
    """Return the tables that were not compared by this call."""
    return {name_of(one) for one in tables if one["compared"] and one["compared"]["earlier"]}


def name_of(table: Mapping[str, Any]) -> str:
    return str(table["source"]).partition(".")[2]


def test_rule_25_a_killed_verification_goes_on(here: JobHere, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed behind the second table, it compares the others alone. A bit that flips in one of these is found; in a table
    that was compared before, only a verification that begins anew finds it, and the line says as of when it was equal."""
    with here.running():
        told = killed_behind_two_tables(here, monkeypatch)
        left = min({*NAMES} - told)
        place = here.made.checkpoint()[1]
        here.made.source.execute("INSERT INTO a VALUES (3, 3, 'three')")
        until(lambda: here.made.checkpoint()[1] > place, "the job has gone on")
        was_equal = min(told & {*NAMES})
        flip(here, was_equal, 2)
        flip(here, left, 2)
        found = here.made.cli("verify", "--resume", "--json", code=4).json
        assert earlier(found["tables"]) == told and found["kept"]["earlier"] == 2 and found["kept"]["left"] == 1
        by_name = {name_of(one): one for one in found["tables"]}
        assert {name for name, one in by_name.items() if not one["identical"]} == {left} and set(by_name) == ALL
        assert by_name[left]["different"] == 1 and not by_name[left]["compared"]["earlier"]
        first, last = by_name[was_equal]["compared"]["positions"]
        assert int(first.partition("@")[0]) <= int(last.partition("@")[0]) <= place
        assert by_name[was_equal]["rows_source"] == by_name[was_equal]["rows_target"] == 2
        flip(here, left, -2)
        shown = here.made.cli("verify", "--resume").stdout
        assert shown.count("; compared 20") == len(ALL) - 1 and "no table is left" in shown, shown
        assert f"{left} -> " in next(line for line in shown.splitlines() if "; compared 20" not in line)
        anew = here.made.cli("verify", "--resume", "--json", code=4).json
        assert earlier(anew["tables"]) == set() and anew["kept"]["began"] >= found["kept"]["began"]
        assert [name_of(one) for one in anew["tables"] if not one["identical"]] == [was_equal]


def killed_behind_two_tables(here: JobHere, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Kill `verify --budget` once two results are kept. Returns these tables."""
    monkeypatch.setenv("ANABRANCH_FAILPOINTS", "verify.kept=delay:600@2")
    running = here.made.start("verify", "--budget", "1h")
    until(lambda: len(kept(here)) == 2, "two results are kept")
    running.kill()
    monkeypatch.delenv("ANABRANCH_FAILPOINTS")
    found = kept(here)
    assert len(found) == 2 and {one.result for one in found.values()} == {"identical"}
    return set(found)


def flip(here: JobHere, name: str, by: int) -> None:
    here.made.target.execute(f"UPDATE {here.made.there}.{name} SET n = n + {by} WHERE id = 2")


@pytest.mark.one_case("logical_postgresql to mysql")
def test_what_the_budget_leaves_is_compared_by_the_next_call(here: JobHere, monkeypatch: pytest.MonkeyPatch) -> None:
    with here.running():
        monkeypatch.setattr(in_rounds, "TABLES", 1)
        compared = out_of_time_behind(monkeypatch, 2)
        found = verified(here, budget=600.0)
        reached = {one.source.partition(".")[2] for one in found.tables if one.identical}
        assert len(reached) == 2 == len(compared) and found.exit_code == 9 and found.kept and found.kept.left == 3
        assert {one.why for one in found.tables if not one.identical} == {NO_TIME}
        assert set(kept(here)) == reached, "of a table that was not reached nothing is kept"
        monkeypatch.undo()
        flip(here, min({*NAMES} - reached), 1)
        found = verified(here, budget=600.0, resumes=True)
        assert found.exit_code == 4 and found.kept and found.kept.earlier == 2
        assert {one.source.partition(".")[2] for one in found.tables} == ALL
        nothing = verified(here, budget=1e-9)
        assert {one.why for one in nothing.tables} == {NO_TIME} and nothing.kept and nothing.kept.earlier == 0
        assert hold(here) == set(), "every call without it begins anew, also one that keeps nothing"
        with pytest.raises(ConfigError, match="goes on comparing whole tables"):
            parts.run_verify(here.job, Wanted(resumes=True, sample=Sample(0.5, 1)))
        exact = verified(here, resumes=True, max_pause=20.0)
        assert {one.exact for one in exact.tables if one.compared and not one.compared.earlier} == {exact.exact} != {""}


def out_of_time_behind(monkeypatch: pytest.MonkeyPatch, rounds: int) -> list[int]:
    """Let the budget end in the round behind so many."""
    compare, done = in_rounds.compared_whole, list[int]()

    def compared(job: Any, spark: Any, tables: Any, wanted: Wanted, beside: Any) -> Verification:
        if len(done) == rounds:
            return compare(job, spark, tables, replace(wanted, budget=1e-9), beside)
        done.append(len(tables))
        return compare(job, spark, tables, wanted, beside)

    monkeypatch.setattr(in_rounds, "compared_whole", compared)
    return done


def verified(here: JobHere, budget: float = math.inf, **wanted: Any) -> Verification:
    with without_spark() as spark:
        return verify_in_rounds(here.job, cast(Any, spark), Wanted(budget=budget, **wanted))


def test_a_result_that_does_not_hold_any_more_is_made_again(here: JobHere, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each thing that may have made rows differ at the target, or changes what is compared, has its table compared anew."""
    with here.running():
        assert verified(here, resumes=True).identical
        flip(here, "d", 1)
        assert not verified(here).identical  # so that d is left, and there is something to go on with
        assert hold(here) == ALL - {"d"}
        assert hold(here, by_rows=True) == set()
        assert hold(here, server="another one") == set()
        a_switch_while_it_is_compared_tells_nothing_of_the_others(here, monkeypatch)
        a_turn_of_the_watch_that_cannot_tell_takes_nothing_away(here, monkeypatch)
        a_turn_of_the_watch_does_for_it(here)
        a_repair_forgets_it(here, monkeypatch)
        flip(here, "d", 1)
        found = verified(here, resumes=True)
        assert not found.identical and found.kept and found.kept.earlier == 0 and hold(here) == ALL - {"d"}
        a_skipped_transaction_is_not_at_the_target(here)
        rows_set_aside_are_not_at_the_target(here)
        # A PostgreSQL tells of it with the next row.
        here.made.source.execute("ALTER TABLE c ADD COLUMN more INT", "INSERT INTO c (id, n) VALUES (3, 3)")
        until(lambda: "c" not in hold(here), "its definition is another one")
        assert hold(here) == ALL - {"c", "d"}
    here.load(TableId(here.made.schema, "b"), recreate=True)
    here.stream()
    assert hold(here) == ALL - {"b", "c", "d"}
    note(here, 1, (Step.BEGIN, Phase.BEGINS), (Step.FLIP, Phase.BEGINS))
    assert hold(here) == set(), "the target may have been in use"
    flip(here, "d", 1)
    assert not verified(here).identical and hold(here) == set(), "it is in use while it is compared"
    note(here, 3, (Step.ABORT, Phase.BEGINS), (Step.ABORT, Phase.DONE))
    assert hold(here) == set(), "it was in use when it had been compared"
    assert not verified(here).identical and hold(here) == ALL - {"d"}


def note(here: JobHere, first: int, *notes: tuple[Step, Phase]) -> None:
    """Note steps of a cut-over."""
    with store_of(here.job) as store:
        for number, (step, phase) in enumerate(notes, first):
            store.cutovers.note_cutover(here.job.config.name, CutoverNote(number, step, phase, number, {}))


@pytest.mark.one_case("mariadb to postgresql")
def test_what_differs_takes_the_place_of_whatever_was_kept(here: JobHere, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of a result by a clock that is ahead; and of what is forgotten while a table is compared nothing is kept again."""
    with here.running():
        flip(here, "d", 1)
        verified(here)
        hour, name = 3_600_000_000, here.job.config.name
        with store_of(here.job) as store:
            one = kept(here)["a"]
            assert store.verifications.note_verified(name, replace(one, at=one.at + hour), one.at)
        assert hold(here) == ALL - {"d"}
        flip(here, "a", 1)
        verified(here, budget=600.0)
        found = kept(here)["a"]
        assert (found.result, found.at) > ("different", one.at + hour) and hold(here) == ALL - {"a", "d"}
        flip(here, "b", 1)
        assert not here.verify(patterns=(f"{here.made.schema}.b",)).identical
        assert "b" not in kept(here) and hold(here) == ALL - {"a", "b", "d"}, "a call that keeps nothing has found it"
        flip(here, "b", -1)
        compare = in_rounds.compared_whole

        def compared(job: Any, spark: Any, tables: Sequence[Any], *more: Any) -> Verification:
            found = compare(job, spark, tables, *more)
            with store_of(here.job) as store:
                store.verifications.forget_verified(name, TableId(here.made.schema, "c"))
            return found

        verified(here)
        monkeypatch.setattr(in_rounds, "compared_whole", compared)
        assert {one.source.partition(".")[2] for one in verified(here).tables if one.identical} == ALL - {"a", "d"}
        assert "c" not in kept(here) and hold(here) == ALL - {"a", "c", "d"}


@pytest.mark.one_case("mariadb to postgresql")
def test_what_a_job_that_ends_between_rounds_has_not_brought_is_no_difference(
    here: JobHere, monkeypatch: pytest.MonkeyPatch
) -> None:
    compare, ending = in_rounds.compared_whole, ExitStack()

    def compared(job: Any, spark: Any, tables: Any, *more: Any) -> Verification:
        found = compare(job, spark, tables, *more)
        ending.close()
        here.made.source.execute(*(f"UPDATE {name} SET n = n + 1" for name in NAMES))
        return found

    monkeypatch.setattr(in_rounds, "TABLES", 1)
    monkeypatch.setattr(in_rounds, "compared_whole", compared)
    monkeypatch.setattr(verifying, "PATIENCE", 1.0)
    with ending:
        ending.enter_context(here.running())
        found = verified(here)
    assert not any(one.differs for one in found.tables) and found.exit_code == 9, [*map(str, found.tables)]
    assert any(one.is_undecided for one in found.tables)


def hold(here: JobHere, by_rows: bool = False, server: str = "") -> set[str]:
    """Return the tables that a call would not compare now."""
    wanted = Wanted(resumes=True, by_rows=by_rows)
    states, others = states_of(here.job, ())
    found = resumed(here.job, wanted, tables_of(here.job, states, others), states, server or server_of(here.job))
    return {table.name for table in found.earlier}


def a_switch_while_it_is_compared_tells_nothing_of_the_others(here: JobHere, monkeypatch: pytest.MonkeyPatch) -> None:
    servers = [server_of(here.job), "another one"]
    with monkeypatch.context() as patched:
        patched.setattr(in_rounds, "server_of", lambda _: servers.pop(0))
        found = verified(here, resumes=True)
    assert {name_of({"source": one.source}) for one in found.tables if one.why == OTHER_SERVER} == ALL - {"d"}
    assert found.kept and found.kept.earlier == 0 and not any(one.identical for one in found.tables)
    assert "d" not in kept(here) and hold(here) == ALL - {"d"}
    servers = [one := server_of(here.job), one, one, "another one", "another one", "another one"]
    with monkeypatch.context() as patched:
        patched.setattr(in_rounds, "TABLES", 1)
        patched.setattr(in_rounds, "server_of", lambda _: servers.pop(0))
        found = verified(here)
    by_name = {one.source.partition(".")[2]: one for one in found.tables}
    of_before = {name for name, one in by_name.items() if one.why == SWITCHED}
    assert len(of_before | {"d"}) in (3, 4) and not servers and found.exit_code == 4 and by_name["d"].different == 1
    assert {name for name, one in by_name.items() if one.identical} == ALL - of_before - {"d"}
    assert all(by_name[name].pending and not by_name[name].compared for name in of_before)
    assert not verified(here).identical and hold(here) == ALL - {"d"}


def a_turn_of_the_watch_does_for_it(here: JobHere) -> None:
    pattern = f"{here.made.schema}.a"
    watched(here, "a")
    found = kept(here)["a"]
    assert found.place is not None and hold(here) == ALL - {"d"}
    assert verified(here, resumes=True, patterns=(pattern,)).identical
    assert kept(here)["a"].place == found.place, "a later look that finds it equal does not take its place away"


def a_turn_of_the_watch_that_cannot_tell_takes_nothing_away(here: JobHere, monkeypatch: pytest.MonkeyPatch) -> None:
    """Show it as pending, which is no table that is equal, and go on behind the result before it, also where the turn ended
    while that was made. A verification that begins anew goes on behind none of it."""
    assert not verified(here).identical and hold(here) == ALL - {"d"}
    before, look, why = kept(here)["a"], Watch._verified, LATE
    assert before.by is not None

    def pending(self: Watch, state: TableState, began: int) -> Turn | None:
        turn = look(self, state, began)
        assert turn is not None and turn.found.identical
        one = replace(turn.found.tables[0], identical=False, pending=1, why=why)
        return Turn(replace(turn.found, tables=(one,)))

    with monkeypatch.context() as patched:
        patched.setattr(Watch, "_verified", pending)
        for _ in range(2):
            watched(here, "a")
            found = kept(here)["a"]
            assert (found.result, found.place, found.by) == ("pending", None, None)
            assert hold(here) == ALL - {"d"} and found.earlier == before
        told = verified(here, resumes=True)
        assert {name_of({"source": one.source}): one.rows_source for one in told.tables if one.identical}["a"] == 2
        assert kept(here)["a"] == found
        compare = in_rounds.compared_whole

        def compared(*given: Any) -> Verification:
            made = compare(*given)
            watched(here, "a")
            return made

        patched.setattr(in_rounds, "compared_whole", compared)
        assert verified(here, patterns=(f"{here.made.schema}.a",)).identical
        assert kept(here)["a"].result == "pending" and hold(here) == set(), "of nothing that goes on it is left nothing"
        patched.setattr(in_rounds, "compared_whole", compare)
        assert not verified(here).identical and hold(here) == ALL - {"d"}
        patched.setattr(in_rounds, "compared_whole", compared)
        assert verified(here, resumes=True, by_rows=True).kept
        assert kept(here)["a"].result == "identical" and hold(here) == ALL - {"d"}
        patched.setattr(in_rounds, "compared_whole", compare)
        why = "it cannot be read"
        watched(here, "a")
        assert kept(here)["a"].earlier is None and hold(here) == ALL - {"a", "d"}, (
            "a look that failed is no lack of time"
        )
    assert not verified(here).identical and hold(here) == ALL - {"d"}


def watched(here: JobHere, name: str) -> None:
    """Let `verify --watch` have one turn."""
    stop = Stop()
    with without_spark() as spark:
        pattern = f"{here.made.schema}.{name}"
        Watch(here.job, cast(Any, spark), (pattern,), False, 1.0, stop, lambda line: stop.ask()).run()


def a_repair_forgets_it(here: JobHere, monkeypatch: pytest.MonkeyPatch) -> None:
    flip(here, "a", 1)
    with monkeypatch.context() as patched:
        for module in (repairing, verifying):
            patched.setattr(module, "require_apply", lambda _: None)  # it runs in this process
        found = here.verify(repairs=True, patterns=(f"{here.made.schema}.a",))
    assert found.repaired[0].rows == 1 and found.identical
    assert "a" not in kept(here) and hold(here) == set(), "the newest verification had this table alone"
    assert not verified(here).identical and hold(here) == ALL - {"d"}
    flip(here, "d", -1)
    assert verified(here, resumes=True).identical
    assert hold(here) == set(), "it came to its end, and another one begins"


def a_skipped_transaction_is_not_at_the_target(here: JobHere) -> None:
    name, at = here.job.config.name, int(kept(here)["a"].positions[0].partition("@")[0])
    with store_of(here.job) as store:
        store.journal.skip(name, Skipped(at, f"{at}@before", 1, {f"{here.made.schema}.a": 1}))
        assert "a" in hold(here)
        store.journal.skip(name, Skipped(at + 1_000_000, f"{at + 1_000_000}@behind", 1, {f"{here.made.schema}.a": 1}))
        assert hold(here) == ALL - {"a", "d"}
        assert store.journal.unskip(name, at + 1_000_000)


def rows_set_aside_are_not_at_the_target(here: JobHere) -> None:
    name, table = here.job.config.name, TableId(here.made.schema, "b")
    with store_of(here.job) as store, closing(store):
        for count in (1, -1):
            state = store.states.table(name, table)
            assert state is not None
            store.states.save_table(name, replace(state, facts=replace(state.facts, set_aside=max(count, 0))), state)
            assert ("b" in hold(here)) == (count < 0)
