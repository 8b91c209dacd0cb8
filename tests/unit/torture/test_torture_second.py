"""Jobs with two targets: how they are drawn, what a fault meets, what is held back, and that each is judged by itself."""

from __future__ import annotations

import signal
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from anabranch.failpoints import POINTS, VARIABLE
from anabranch.testing.databases import Database
from anabranch.testing.servers import Server
from anabranch.testing.torture import parts as of_parts
from anabranch.testing.torture import second, worst
from anabranch.testing.torture.check import BACK, FINAL, MODEL, TORN, WRONG
from anabranch.testing.torture.contract import SECOND, Fault
from anabranch.testing.torture.emptying import POINT, draw_emptying, emptying_faults
from anabranch.testing.torture.explain import explains
from anabranch.testing.torture.faults_plan import draw_faults
from anabranch.testing.torture.ground import Ground
from anabranch.testing.torture.history import Statement, Transaction
from anabranch.testing.torture.local import Small
from anabranch.testing.torture.parts import OF_TWO, Ended, Parts
from anabranch.testing.torture.pipeline import LocalPipeline
from anabranch.testing.torture.place import Place
from anabranch.testing.torture.run import losses
from anabranch.testing.torture.second import (
    APPLY,
    LOAD,
    SHARE,
    Hold,
    Holding,
    draw_hold,
    draw_sizes,
    has_second,
    spread,
)
from anabranch.testing.torture.tables import LEDGER
from anabranch.testing.torture.targets import empties_at_once
from anabranch.testing.torture.verdict import Seen, verdict
from rigs.torture_history import HISTORY, LAST, ORDER, Contents, checker, seen, state, with_lines

# --- the draw -------------------------------------------------------------------------------------------------------------


def test_a_sixth_of_the_histories_has_two_targets_and_every_way_to_hold_one_back() -> None:
    drawn = [seed for seed in range(3000) if has_second(seed)]
    assert abs(len(drawn) / 3000 - SHARE) < 0.03 and 0.1 < SHARE < 0.25
    holds = [draw_hold(seed) for seed in drawn]
    assert holds == [draw_hold(seed) for seed in drawn]
    assert Counter(hold and (hold.parts, hold.after < 0) for hold in holds).keys() == {
        None,
        ((APPLY,), False),
        ((APPLY,), True),
        ((LOAD, APPLY), True),
    }
    assert not any((hold := draw_hold(seed, keeps=True)) and hold.after < 0 for seed in drawn)


def test_half_of_the_jobs_drop_what_both_are_past() -> None:
    drawn = [draw_sizes(seed, Small(chunk_rows=4)) for seed in range(400)]
    dropping = [small for small, more in drawn if more == "retain_hours = 0\n"]
    assert 0.4 < len(dropping) / 400 < 0.6 and {small.segment_bytes for small in dropping} == {2_000, 8_000}
    assert {small.segment_bytes for small, more in drawn if not more} == {0}
    assert {small.chunk_rows for small, _ in drawn} == {4} and len({small.epoch_rows for small, _ in drawn}) == 4
    for seed in range(400):
        assert draw_sizes(seed, Small(50_000))[1] == "" == draw_sizes(seed, Small(), keeps=True)[1]


def test_faults_of_one_target_meet_the_one_or_the_other() -> None:
    drawn = [(fault, seed) for seed in range(2000) for fault in spread(draw_faults(seed, with_servers=True), seed)]
    assert [one for one, seed in drawn if one not in spread(draw_faults(seed, with_servers=True), seed)] == []
    met = Counter((fault.kind, fault.where, fault.at) for fault, _ in drawn)
    for kind in ("kill", "freeze", "second"):
        assert met[kind, "apply", ""] and met[kind, "apply", SECOND] and met[kind, "load", SECOND]
        assert met[kind, "capture", ""] and not met[kind, "capture", SECOND]
    for kind in ("cut", "stall", "refuse"):
        assert met[kind, "target", ""] and met[kind, "target", SECOND] and not met[kind, "source", SECOND]
    ends = {at for (kind, where, at) in met if kind == "exit" and where.startswith("apply.")}
    assert ends == {"", SECOND}, "one point alone is met too rarely to ask for it"
    assert met["lose", "target", ""] and not met["lose", "target", SECOND]


def test_where_each_target_has_a_server_its_faults_meet_one() -> None:
    faults = [(fault, seed) for seed in range(2000) for fault in draw_faults(seed, with_servers=True)]
    met = Counter((f.kind, f.where, f.at) for one, seed in faults for f in spread((one,), seed, apart=True))
    for kind in ("restart", "lose"):
        assert met[kind, "target", ""] and met[kind, "target", SECOND] and not met[kind, "source", SECOND]
    here, there = Fault("lose", "target"), Fault("lose", "target", at=SECOND)
    server, other = (
        Server(name, "1", "127.0.0.1", port, "a", "b") for port, name in enumerate(("mysql", "postgresql"))
    )
    first, second = Database(server, ""), Database(other, "b")
    assert losses((here, there, there), (first, second)) == [1, 2] and losses((here,), (first,)) == [1]
    assert losses((here, here), (Database(server, "a"), first)) == [2, 2]
    for its, fault in (("apply", here), (APPLY, there)):
        for part in ("apply", APPLY):
            assert explains(fault, Ended(part, 7, 6, 0.0, "TargetUnavailable", ""), 7, apart=True) == (its == part)
        assert explains(fault, Ended("capture", 7, 6, 0.0, "TargetUnavailable", ""), 7, apart=True)


def test_a_truncate_is_seen_early_where_it_is_one() -> None:
    here, there = (Database(Server(name, "1", "127.0.0.1", 1, "a", "b"), "") for name in ("mysql", "postgresql"))
    asked = {
        how: [empties_at_once(one, source, how) for one in (here, there) for source in ("mysql", "postgresql")]
        for how in ("", "truncate", "delete")
    }
    assert asked == {"": [False, False, True, True], "truncate": [True, False, True, True], "delete": [False] * 4}
    drawn = Counter(draw_emptying(seed, here) for seed in range(300))
    assert set(drawn) == {"", "truncate"} and {draw_emptying(seed, there) for seed in range(300)} == {""}
    emptied = Transaction(1, 0, (Statement("truncate", "parent"),))
    histories = [replace(HISTORY, seed=seed, before=(), during=(), after=(emptied,)) for seed in range(60)]
    faults = {(draw_emptying(one.seed, here), emptying_faults(one, here)) for one in histories}
    assert faults == {("", ()), ("truncate", ()), ("truncate", (Fault("exit", POINT),))} and POINT in POINTS
    before = [replace(one, before=(emptied,), after=()) for one in histories]
    assert {*(emptying_faults(one, here) for one in before), *(emptying_faults(one, there) for one in histories)} == {
        ()
    }


def test_the_ground_says_which_database_is_the_second(tmp_path: Path) -> None:
    server = Server("postgresql", "18", "127.0.0.1", 1, "a", "b")
    names = ("first", "plain", "second", "plain_second")
    first, *more = (Database(server, name) for name in names)
    ground = Ground([server], first, True, *more)
    again = Ground.from_json(ground.to_json())
    for one in (ground, again):
        found = {(one.target_of(n).name, second.name) for n in range(300) if (second := one.second_of(n))}
        assert found == {("first", "second"), ("plain", "plain_second")}
    assert [n for n in range(300) if Ground([server], first).second_of(n)] == []
    assert ground.targets == [server] and Ground([server], first).targets == [server]
    other = Server("mysql", "8", "127.0.0.1", 2, "a", "c")
    apart = Ground([server], Database(other, ""), True, second=first)
    assert apart.targets == [other, server]
    whole = Database(other, "")
    pairs = {(apart.target_of(n), apart.second_of(n)) for n in range(300)}
    assert pairs == {(whole, None), (whole, first), (first, whole)}
    for n in range(300):  # who restarts a server calls the ground's target so, not the job's first
        assert apart.holding_of(n) == whole
        ends = [apart.named(where, n) for where in ("source", "target", "target of second")]
        turned = ["target of second", "target"]
        assert ends == ["source", *(turned if apart.target_of(n) == first else reversed(turned))]
    apart.turns = False
    assert {(apart.target_of(n), apart.second_of(n)) for n in range(300)} == {(whole, None), (whole, first)}


def test_a_part_of_the_jobs_comes_with_the_worst_settings_where_the_servers_are_the_kit_s() -> None:
    server = Server("postgresql", "18", "127.0.0.1", 1, "a", "b")
    ground = Ground([server], Database(server, "first"), True, Database(server, "plain"))
    drawn = [(ground.users_of(seed), ground.target_of(seed).name) for seed in range(600)]
    come = [(users, target) for users, target in drawn if worst.USER in users.values()]
    assert abs(len(come) / 600 - worst.SHARE) < 0.06
    assert {(tuple(sorted(users)), target) for users, target in come} == {
        (("source", "target"), "first"),
        (("source",), "plain"),
    }
    assert not any(Ground([server], ground.target).users_of(seed) for seed in range(600))


# --- the job --------------------------------------------------------------------------------------------------------------


def place(directory: Path, second: Database | None) -> Place:
    source = Server("mysql", "8", "127.0.0.1", 1, "root", "")
    target = Database(Server("postgresql", "18", "127.0.0.1", 2, "a", "b"), "first")
    at = {"target of second": ("127.0.0.1", 77)}
    return Place("torture_1", source, target, directory, at=at, second=second)


def test_the_job_file_names_both_and_each_line_goes_its_own_way(tmp_path: Path) -> None:
    one = place(tmp_path, None)
    assert list(one.write().config.ends) == ["target"] and one.targets == (one.target,)
    two = place(tmp_path, Database(one.target.server, "other"))
    ends = two.write().config.ends  # past any proxy
    assert {name: (end.database, end.port) for name, end in ends.items()} == {
        "target": ("first", 2),
        SECOND: ("other", 2),
    }
    said = two.job_file.read_text()
    assert "127.0.0.1:2/first" in said and "127.0.0.1:77/other" in said


def test_a_target_on_another_server_is_entered_as_that_one_is(tmp_path: Path) -> None:
    other = Server("mysql", "8", "127.0.0.1", 3, "root", "c")
    two = place(tmp_path, Database(other, ""))
    end = two.write().config.ends[SECOND]
    assert (end.scheme, end.user, end.password, end.port) == ("mysql", "root", "c", 3)
    assert two.server_at("source") == two.source and two.server_at(f"target of {SECOND}") == other
    assert two.server_at("target") is two.target.server and place(tmp_path, None).server_at("target").port == 2


@dataclass
class Process:
    """Instead of a forked one."""

    pid: int
    environment: dict[str, str]
    ended: int | None = None
    sent: list[int] = field(default_factory=list)

    def code(self) -> int | None:
        return self.ended

    def send(self, number: signal.Signals) -> bool:
        self.sent.append(number)
        return True


@pytest.fixture
def parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Parts:
    """Of a job with two targets, with processes that only exist here."""
    pids = iter(range(1, 100))

    def fork(part: str, job_file: Path, environment: dict[str, str], *_: object) -> Process:
        return Process(next(pids), environment)

    monkeypatch.setattr(of_parts, "fork", fork)
    armed = {"": "apply.begin=exit", SECOND: "load.begun=exit"}
    return Parts(tmp_path, tmp_path / "job.toml", {VARIABLE: "all"}, names=OF_TWO, armed=armed)


def process(parts: Parts, part: str) -> Process:
    found = parts.running[part].process
    assert isinstance(found, Process)
    return found


def test_failpoints_of_one_target_are_armed_in_its_parts_and_in_capture(parts: Parts) -> None:
    parts.start()
    assert {part: process(parts, part).environment[VARIABLE] for part in OF_TWO} == {
        "capture": "all",
        "load": "apply.begin=exit",
        "apply": "apply.begin=exit",
        LOAD: "load.begun=exit",
        APPLY: "load.begun=exit",
    }


def test_a_fault_of_one_target_explains_nothing_of_the_other() -> None:
    def ended(part: str, error: str) -> Ended:
        return Ended(part, 17, 6, 0.0, error, "")

    for fault, other in ((Fault("cut", "target", at=SECOND), "apply"), (Fault("cut", "target"), APPLY)):
        its = "apply of second" if fault.at else "apply"
        assert explains(fault, ended(its, "TargetUnavailable"), 17)
        assert explains(fault, ended("capture", "TargetUnavailable"), 17)
        assert not explains(fault, ended(other, "TargetUnavailable"), 17)
    assert explains(Fault("second", "apply", at=SECOND), ended(APPLY, "Fenced"), 1)
    assert not explains(Fault("second", "apply", at=SECOND), ended("apply", "Fenced"), 1)
    assert explains(Fault("lose", "target"), ended(APPLY, "TargetUnavailable"), 1)


# --- what is held back ----------------------------------------------------------------------------------------------------


def test_a_target_that_joins_late_is_begun_when_its_time_has_come(
    parts: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SimpleNamespace(monotonic=lambda: 100.0)
    monkeypatch.setattr(second, "time", clock)
    hold = Hold((LOAD, APPLY), -1, 0.05)
    holding = Holding(hold, parts, lambda ended: None)
    parts.start(hold.parts)
    assert set(parts.running) == {"capture", "load", "apply"} and not parts.is_alive(APPLY)
    holding.turn(-1)
    assert holding.holds(LOAD) and not holding.holds("load") and not holding.is_over
    clock.monotonic = lambda: 100.06
    holding.turn(-1)
    assert holding.is_over and set(parts.running) == set(OF_TWO) and not holding.holds(APPLY)


def test_an_apply_is_stopped_for_a_while_and_judged_only_where_a_fault_ended_it(parts: Parts) -> None:
    for code, judged in ((0, 0), (-signal.SIGTERM, 0), (1, 1)):
        ended = list[Ended]()
        holding = Holding(Hold((APPLY,), 5, 0.0), parts, ended.append)
        parts.start()
        holding.turn(4)
        assert not holding.holds(APPLY) and process(parts, APPLY).sent == []
        holding.turn(5)
        first = process(parts, APPLY)
        assert holding.holds(APPLY) and first.sent == [signal.SIGTERM] and process(parts, "apply").sent == []
        holding.turn(6)
        assert not holding.is_over  # it has not ended yet
        first.ended = code
        holding.turn(7)
        assert holding.is_over and process(parts, APPLY) is not first and len(ended) == judged


def test_a_fault_waits_for_a_part_that_is_held_back(parts: Parts, tmp_path: Path) -> None:
    """Standing still and replaced while it was about to end, it would end as nobody expects."""
    pipeline = LocalPipeline(place(tmp_path, Database(Server("postgresql", "18", "h", 2, "a", "b"), "other")))
    pipeline._parts, holding = parts, Holding(Hold((APPLY,), 5, 0.0), parts, lambda ended: None)
    pipeline._holding, its, other = holding, Fault("second", "apply", after=-1, at=SECOND), Fault("second", "apply")
    pipeline.committed(5)
    parts.start()
    assert pipeline._is_due(its) and pipeline._is_due(other)
    holding.turn(5)
    assert not pipeline._is_due(its) and pipeline._is_due(other) and not pipeline.is_calm()
    process(parts, APPLY).ended = 0
    holding.turn(6)
    assert pipeline._is_due(its)


# --- the verdict ----------------------------------------------------------------------------------------------------------


def judged(first: list[Contents], second: list[Contents], *, is_whole: bool = True) -> tuple[str, str]:
    """The kind of failure and its message, "" for none."""
    targets = [Seen(name, checker(), seen(*states)) for name, states in (("", first), (SECOND, second))]
    failure = verdict(targets, state(len(ORDER)), is_whole=is_whole)
    return (failure.kind, failure.message) if failure else ("", "")


RIGHT = [state(2), state(4), LAST]


def test_two_targets_need_not_be_at_one_place() -> None:
    assert judged(RIGHT, [state(1), state(1), LAST]) == ("", "")
    assert judged([LAST], RIGHT) == ("", "")
    assert judged(RIGHT, [], is_whole=False) == ("", "")  # of one that was not there in time nothing was seen


@pytest.mark.parametrize(
    ("kind", "states"),
    [
        # A row of another value, at the end or before; states out of order; a transaction before its turn; one for ever away.
        (WRONG, [state(2), with_lines(LAST, "parent", *LAST["parent"][:-1], b"9\t9\t9")]),
        (WRONG, [with_lines(state(2), "parent", *state(1)["parent"]), LAST]),
        (BACK, [state(4), state(3), LAST]),
        (TORN, [with_lines(state(3), LEDGER, b"1", b"4"), LAST]),
        (FINAL, [state(1), state(5)]),
    ],
)
def test_a_target_is_judged_by_itself(kind: str, states: list[Contents]) -> None:
    found, message = judged(RIGHT, states)
    assert found == kind and message.startswith("at the second target: ")
    found, message = judged(states, RIGHT)
    assert found == kind and not message.startswith("at the second target")


def test_a_mistake_of_the_kit_goes_before_that_of_a_target() -> None:
    targets = [Seen(name, checker(), seen(state(4), state(3))) for name in ("", SECOND)]
    failure = verdict(targets, with_lines(LAST, "parent"), is_whole=True)
    assert failure is not None and failure.kind == MODEL


def test_a_fault_is_kept_with_the_target_that_it_met() -> None:
    fault = Fault("kill", "apply", after=3)
    assert fault.place == "apply" and replace(fault, at=SECOND).place == APPLY
