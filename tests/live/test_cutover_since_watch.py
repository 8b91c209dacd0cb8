"""A cut-over that compares at its fence what has changed since `verify --watch` found tables equal: what differs there is
found, and every table of which the trail does not tell all is compared whole."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from anabranch.errors import DifferencesFound, PreflightFailed
from anabranch.failpoints import EXIT_CODE
from anabranch.job import at_fence, verifying
from anabranch.job.at_fence import ANEW, CUT_OVER, LEAVES_OUT, NO_RESULT, OTHER_TABLE, AtFence, chosen
from anabranch.job.keep_verifying import Watch
from anabranch.job.signals import Stop
from anabranch.lifecycle import repairing
from anabranch.model.cutover import Phase, Step, Verifies
from anabranch.model.ids import TableId
from anabranch.model.table_life import park
from anabranch.model.verified import Verified
from anabranch.testing.in_time import until
from anabranch.trail import retention
from anabranch.trail.reader import TrailReader
from anabranch.verify.again import LATE, Again
from anabranch.verify.plan import VerifyTable
from anabranch.verify.report import TableResult
from anabranch.verify.since import WHOLE, verify_since
from anabranch.view.opened import store_of
from rigs.cutover import WAITING, Cut, job, running
from rigs.job_here import without_spark

SINCE = Verifies.SINCE_WATCH
PAIRS = [
    ("postgresql", "mysql"),
    ("mariadb", "postgresql"),
    pytest.param("mysql", "postgresql", marks=pytest.mark.long),  # by GTIDs of its own kind
]


@dataclass
class Ends:
    """A job at whose ends nobody writes."""

    cut: Cut

    def compared(self, verifies: Verifies = Verifies.SINCE_WATCH) -> dict[str, str]:
        """Return the verdict on each table while row 1 of both is wrong at the target: "" for an equal one; or that it
        differs, and why it was compared whole."""
        with self._wrong(), self._as_kept(), without_spark() as spark:
            differing, facts = AtFence(self.cut.here.job, spark).at_fence(verifies)
        assert bool(differing) == any(name in differing for name in ("item", "draft")), differing
        found = {TableId.parse(one["source"]).name: one.get("why", "") for one in facts["tables"]}
        del found["scenario_mark"]
        return {name: self._said(name, why, differing) for name, why in found.items()}

    def _said(self, name: str, why: str, differing: str) -> str:
        is_named = re.search(rf"\b{name}\b", differing) is not None
        assert is_named or not why, f"{name} was compared whole, and its wrong row is not named: {differing}"
        return "" if not is_named else f"differs: {why}" if why else "differs"

    @contextmanager
    def _as_kept(self) -> Iterator[None]:
        """Keep results of tables that are found to differ: they do so for a moment."""
        name = self.cut.here.job.config.name
        with store_of(self.cut.here.job) as store:
            before = store.verifications.verified(name)
            yield
            left = {one.source for one in store.verifications.verified(name)}
            for one in before:
                assert one.source in left or store.verifications.note_verified(name, one)

    @contextmanager
    def _wrong(self) -> Iterator[None]:
        for sign in "+-":
            for table in ("item", "draft"):
                self.cut.made.target.execute(f"UPDATE {self.cut.there(table)} SET v = v {sign} 1000 WHERE id = 1")
            if sign == "+":
                yield


def watched(cut: Cut, *names: str, sample: float | None = None) -> dict[str, Verified]:
    """Let `verify --watch` have a turn at each of these tables. Returns what is kept of all."""
    stop, told = Stop(), list[str]()

    def tell(line: str) -> None:
        told.append(line)
        if sum(" -> " in one for one in told) >= len(names):
            stop.ask()

    with without_spark() as spark:
        patterns = [f"{cut.made.schema}.{name}" for name in names]
        Watch(cut.here.job, spark, patterns, False, 1.0, stop, tell, sample).run()
    with store_of(cut.here.job) as store:
        return {one.source.name: one for one in store.verifications.verified(cut.here.job.config.name)}


def how(cut: Cut) -> dict[str, Mapping[str, Any]]:
    """Return the facts that the last cut-over has noted of each table that it compared."""
    tables = cut.here.job.cutover_status().cutover.facts(Step.VERIFY).get("tables", ())
    return {TableId.parse(one["source"]).name: one for one in tables}


def planned(cut: Cut) -> dict[str, str]:
    found = cut.here.job.plan_cutover(verify=SINCE).results
    return {TableId.parse(one.table).name: one.message for one in found if one.check == "cutover.verify"}


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_rule_24_25_at_the_fence_what_changed_since_the_watch_is_compared(
    source: str, target: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bit that flips in a row which changed since is found; a table without a result is compared whole; killed in the step,
    the cut-over goes on and compares again."""
    with job(request, source, target, tmp_path / "job") as cut, running(cut):
        result = watched(cut, "item")["item"]
        place = result.place
        assert place is not None, "the place is known"
        is_bound(cut)
        cut.made.source.execute("UPDATE item SET v = 20 WHERE id = 2", "DELETE FROM item WHERE id = 3")
        cut.made.source.execute("INSERT INTO item (v) VALUES (40), (50)")
        until(lambda: {20, 40, 50} <= set(cut.at_target()), "the changes are at the target")
        item = cut.there("item")
        cut.made.target.execute(f"UPDATE {item} SET v = 21 WHERE v = 20")
        with pytest.raises(DifferencesFound, match=r"before the fence: .*1 different of the 4 rows") as before:
            cut.run_verified(verifies=SINCE)
        assert not cut.here.job.cutover_status().cutover.has(Step.FENCE, Phase.BEGINS) and cut.admits()
        puts_back(cut, result)
        cut.made.target.execute(f"UPDATE {item} SET v = 20 WHERE v = 21")
        cut.wait_equal()

        def during(line: str) -> None:
            if line.startswith("lag:"):  # what has changed by then was compared
                cut.made.source.execute("UPDATE item SET v = 22 WHERE id = 2")
                until(lambda: 22 in cut.at_target(), "the change is at the target")
                cut.made.target.execute(f"UPDATE {item} SET v = 23 WHERE id = 2")

        with pytest.raises(DifferencesFound, match=r"at the fence: .*1 different of the 1 rows") as at:
            cut.run_verified(during, SINCE)
        assert not any("id=" in str(one.value) for one in (before, at)), "no key is told: it may be a name"
        assert cut.here.job.cutover_status().state == "aborted" and cut.admits() and not cut.flips.exists()
        puts_back(cut, result)
        cut.made.target.execute(f"UPDATE {item} SET v = 22 WHERE v = 23")
        cut.wait_equal()

        plan = planned(cut)
        assert plan["item"].endswith(f"by what changed since {place.position}: 6 keys up to now"), plan
        assert plan["draft"].endswith("is compared whole: verify --watch has not found it equal yet")
        monkeypatch.setenv("ANABRANCH_FAILPOINTS", "cutover.carried.out=exit@5")  # compared, and that is not noted
        assert cut.made.cli("cutover", "--since-watch", *WAITING, code=None).code == EXIT_CODE
        monkeypatch.delenv("ANABRANCH_FAILPOINTS")
        assert cut.here.job.cutover_status().cutover.next == Step.VERIFY and how(cut) == {}
        assert cut.run_verified(verifies=False).state == "finished", "what was asked for when it began is still"
        found = how(cut)
        assert (found["item"]["since"], found["item"]["keys"]) == (place.position, 6)
        assert (
            found["draft"]["why"] == "verify --watch has not found it equal yet" and found["draft"]["rows_source"] == 3
        )
        assert found["draft"]["digest_source"] == found["draft"]["digest_target"] != "", "the same rows at both ends"
        cut.made.assert_identical("item", "draft")
        assert chosen(cut.here.job).whole[TableId(cut.made.schema, "item")] == CUT_OVER, (
            "it is of no use for another one"
        )
        shown = next(cut.made.home.glob("cutover-*.md")).read_text()
        assert f"| 6 rows that changed since {place.position} |" in shown and "| whole, 3 rows: verify --watch" in shown


def puts_back(cut: Cut, result: Verified) -> None:
    """Keep a result once more that a difference has removed: it differed for a moment."""
    job = cut.here.job
    with store_of(job) as store:
        kept = {one.source for one in store.verifications.verified(job.config.name)}
        assert result.source not in kept, "what differs is said to be equal by no earlier result"
        assert store.verifications.note_verified(job.config.name, result)


def is_bound(cut: Cut) -> None:
    """A job that wants its tables found equal lately is not cut over without, unless it is compared at the fence."""
    text = cut.made.job_file.read_text()
    assert said(cut, False)[0] == ("warning", True)
    cut.made.job_file.write_text(text.replace("[cutover]\n", "[cutover]\nverified_within_hours = 1\n"))
    assert said(cut, False) == [("failed", True), ("ok", False)]
    with pytest.raises(PreflightFailed, match=r"no result of `verify --watch` that says they are equal: .*draft"):
        cut.run()
    assert said(cut, True) == [("ok", False)]
    cut.made.job_file.write_text(text)


def said(cut: Cut, verify: bool) -> list[tuple[str, bool]]:
    """Return each verdict on how lately tables were found equal, and whether it names the one that never was."""
    found = [one for one in cut.here.job.plan_cutover(verify=verify).results if one.check == "cutover.verified"]
    return [(str(one.verdict), f"{cut.made.schema}.draft" in one.names) for one in found]


@pytest.mark.parametrize(("source", "target"), [("postgresql", "postgresql"), ("mariadb", "mysql")])
def test_rule_24_25_a_table_of_which_the_trail_does_not_tell_all_is_compared_whole(
    source: str, target: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each time something else has happened since, and a row that the trail does not name is wrong at the target: it is found,
    with the reason. Where nothing has happened it is not, which is the price, and `--verify` finds it."""
    with job(request, source, target, tmp_path / "job") as cut:
        ends = Ends(cut)
        with running(cut):
            watched(cut, "item", "draft")
            assert ends.compared() == {"item": "", "draft": ""}
            assert ends.compared(Verifies.WHOLE) == {"item": "differs", "draft": "differs"}
            who_else_has_written_is_waited_for_once(cut)
            cut.made.source.execute("TRUNCATE TABLE draft", "INSERT INTO draft (id, v) VALUES (1, 1)")
            until(lambda: cut.made.target.query(f"SELECT v FROM {cut.there('draft')}") == [(1,)], "the rows are gone")
            assert ends.compared() == {"item": "", "draft": f"differs: {WHOLE}"}
            assert planned(cut)["draft"].endswith(WHOLE)

            watched(cut, "draft")
            assert ends.compared() == {"item": "", "draft": ""}
            if cut.is_mysql:
                cut.made.source.execute("ALTER TABLE draft ADD COLUMN w int", "INSERT INTO draft (v, w) VALUES (2, 2)")
                until(lambda: len(cut.made.target.query(f"SELECT v FROM {cut.there('draft')}")) == 2, "it is altered")
                assert ends.compared() == {"item": "", "draft": f"differs: {OTHER_TABLE}"}
                watched(cut, "draft")
            cut.made.target.execute(f"UPDATE {cut.there('draft')} SET v = 3 WHERE id = 1")
            with monkeypatch.context() as patched:
                for module in (repairing, verifying):
                    patched.setattr(module, "require_apply", lambda _: None)  # it runs in this process
                assert cut.here.verify(repairs=True).repaired[0].rows == 1
            assert ends.compared() == {"item": "", "draft": f"differs: {NO_RESULT}"}
            assert watched(cut, "draft", sample=0.5)["draft"].sample == "50%"
            assert ends.compared()["draft"] == "differs: verify --watch found it identical in a sample of 50%"
            watched(cut, "draft")
            one_that_uses_up_its_time(ends, monkeypatch)
        loaded_and_parked(ends)
        with running(cut):
            watched(cut, "item", "draft")
            assert ends.compared() == {"item": "", "draft": ""}
        what_the_trail_does_not_tell(ends)


def who_else_has_written_is_waited_for_once(cut: Cut) -> None:
    """Nobody waits inside the fence for a capture that was waited for in vain before it; an answer that is there is taken."""
    for later, why in ((None, at_fence.UNREAD), (frozenset[TableId](), "")):
        asked, answers = list[tuple[float, ...]](), [None, later]

        def strays(*patience: float, asked: Any = asked, answers: Any = answers) -> Any:
            asked.append(patience)
            return answers.pop(0)

        with without_spark() as spark:
            fence = AtFence(cut.here.job, spark, strays=strays)
            assert fence.before(SINCE) == ""
            differing, facts = fence.at_fence(SINCE)
        assert {one.get("why", "") for one in facts["tables"] if one["source"].endswith(".item")} == {
            why
        } and not differing
        assert asked == [(at_fence.LOOKS,), (0.0,)]


def one_that_uses_up_its_time(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table whose time is over before its rows are looked at is compared whole, and it alone."""
    cut, late = ends.cut, list[str]()
    cut.made.source.execute("UPDATE item SET v = v + 1 WHERE id = 2", "UPDATE draft SET v = v + 1 WHERE id = 2")

    def is_there(name: str) -> bool:
        there, here = (f"SELECT v FROM {table} WHERE id = 2" for table in (name, cut.there(name)))
        return bool(cut.made.source.query(there) == cut.made.target.query(here))

    until(lambda: is_there("item") and is_there("draft"), "the changes are at the target")

    def slow(again: Again, tables: Sequence[VerifyTable], after: int, limit_keys: int) -> list[TableResult]:
        if not late:
            late.append(tables[0].table.source.name)
            again.until(0.0)
        return verify_since(again, tables, after, limit_keys)

    with monkeypatch.context() as patched:
        patched.setattr(at_fence, "verify_since", slow)
        found = ends.compared()
    assert found == {"item": "", "draft": ""} | {late[0]: f"differs: {LATE}"}


def loaded_and_parked(ends: Ends) -> None:
    """A load, a park, and a job that goes back, while nothing runs."""
    cut = ends.cut
    assert ends.compared() == {"item": "", "draft": ""}, "a job that does not run is compared as well"
    cut.here.load(TableId(cut.made.schema, "draft"))
    cut.here.stream()
    assert ends.compared() == {"item": "", "draft": f"differs: {ANEW}"}
    with store_of(cut.here.job) as store:
        at = store.jobs.checkpoint(cut.made.name)
        assert at is not None
        state = store.states.tables(cut.made.name)[TableId(cut.made.schema, "item")]
        store.states.save_table(cut.made.name, park(state, "a row was refused", at.position.sequence), state)
    cut.here.job.resume(f"{cut.made.schema}.item")
    cut.here.stream()
    assert ends.compared()["item"] == f"differs: {NO_RESULT}"
    with cut.here.running():
        watched(cut, "item")
    cut.made.source.execute("UPDATE item SET v = v + 1 WHERE id = 2")
    cut.here.stream()
    assert ends.compared()["item"] == ""
    cut.here.job.rewind(str(at.position), execute=True)
    cut.here.stream()
    assert ends.compared()["item"] == f"differs: {NO_RESULT}"


def what_the_trail_does_not_tell(ends: Ends) -> None:
    """Another origin's writes, and what was removed from the trail."""
    cut = ends.cut
    text = cut.made.job_file.read_text()
    cut.made.job_file.write_text(text.replace("[target]\n", 'leave_out = ["server:77"]\n[target]\n', 1))
    assert ends.compared() == dict.fromkeys(("item", "draft"), f"differs: {LEAVES_OUT}")
    cut.made.job_file.write_text(text.replace("[target]\n", 'leave_out = ["anabranch:way-back"]\n[target]\n', 1))
    assert ends.compared() == {"item": "", "draft": ""}, "a way back that is not armed has written nothing"
    cut.made.job_file.write_text(f'{text}[types]\nnul = "strip"\n')
    assert ends.compared() == dict.fromkeys(("item", "draft"), f"differs: {OTHER_TABLE}")
    cut.made.job_file.write_text(text)
    assert ends.compared() == {"item": "", "draft": ""}
    for value in (5, 6):  # each capture has a segment of its own
        cut.made.source.execute(f"UPDATE item SET v = v + {value} WHERE id = 2")
        cut.here.stream()
    assert ends.compared()["item"] == ""
    trail_lost_meanwhile(ends)
    assert ends.compared()["item"].startswith("differs: the trail does not tell what changed since")


def trail_lost_meanwhile(ends: Ends) -> None:
    """Segments that are dropped between choosing and comparing have the table compared whole; nothing breaks off."""
    cut, choice = ends.cut, chosen(ends.cut.here.job)
    assert {one.one.table.source.name for one in choice.known} >= {"item", "draft"}
    with TrailReader(cut.here.job.trail) as trail:
        assert retention.drop_needed(cut.here.job.trail, trail.end().position.sequence)
    lost = "the trail does not tell any more what changed since"
    with pytest.MonkeyPatch.context() as patched, without_spark() as spark:
        patched.setattr(at_fence, "chosen", lambda _: choice)
        assert ends.compared()["item"].startswith(f"differs: {lost}")
        text = cut.made.job_file.read_text()
        cut.write_job(max_lag=1)  # nobody reads what the server has noted itself since, for which a plan waits so long
        assert f"is compared whole: {lost}" in planned(cut)["item"]
        cut.made.job_file.write_text(text)
        assert AtFence(cut.here.job, spark).before(SINCE) == ""
