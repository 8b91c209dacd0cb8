"""The states that `status` names, as somebody sees them who starts, stops and kills the parts of a job."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from anabranch import failpoints
from anabranch.job import Job
from anabranch.model.condition import ACTIVE, STATES
from anabranch.state.store import StateStore
from anabranch.testing import faults
from anabranch.testing.databases import Database, create_database, drop_database
from anabranch.testing.faults import Proxy
from anabranch.testing.servers import Server
from rigs.scenario import Running, Scenario, wait_until
from rigs.scenario_mysql_target import job_at_mysql
from rigs.scenario_targets import Several

Make = Callable[..., Scenario]
ITEM = ("CREATE TABLE item (id INT PRIMARY KEY, name VARCHAR(40))", "INSERT INTO item VALUES (1, 'a')")


LOCK = {"postgresql": "LOCK TABLE {} IN ACCESS EXCLUSIVE MODE", "mysql": "LOCK TABLES {} WRITE"}
LINED = tuple[Scenario, Proxy]


@pytest.fixture(params=["postgresql", pytest.param("mysql", marks=pytest.mark.long)], ids="to a {}".format)
def lined(
    request: pytest.FixtureRequest, mariadb: Server, source_database: Callable[[Server], Database], tmp_path: Path
) -> Iterator[LINED]:
    """A job, and the line to its target."""
    target: Server = request.getfixturevalue(request.param)
    with ExitStack() as stack:
        line = stack.enter_context(Proxy(target.host, target.port))
        place = ("127.0.0.1", line.port)
        if request.param == "postgresql":
            yield request.getfixturevalue("scenario")(mariadb, *ITEM, target_at=place), line
            return
        source = source_database(mariadb)
        source.execute(*ITEM)
        is_quick = not request.config.getoption("--spark")
        job = job_at_mysql(source, target, tmp_path / "job", is_quick=is_quick, target_at=place)
        yield stack.enter_context(job), line


@contextmanager
def locked(made: Scenario, table: str) -> Iterator[None]:
    """Somebody at the target has the table for himself."""
    with closing(made.target.connect(autocommit=False)) as holder, closing(holder.cursor()) as cursor:
        cursor.execute(LOCK[made.target.server.name].format(table))
        yield


@pytest.mark.quick
@pytest.mark.timeout(1200)
def test_every_state_of_a_job(lined: LINED) -> None:
    made, to_target = lined
    made.write_job("[retry.target]\nconnect_s = 2\ninterval_s = 1\n")
    assert look(made)["sub_state"] == "never_started"
    run = made.start("run")
    made.wait_streaming(run, seconds=200)
    is_in(made, run, "streaming", "idle")
    what_it_counts(made, run)
    the_trace_is_switched_and_followed_while_it_runs(made, run)
    a_target_that_is_away_is_waited_for(made, run, to_target)
    a_part_that_is_killed_under_run_is_started_again(made, run)
    killed_with_all_it_died(made, run)
    stopped_in_order_it_is(made)
    a_part_alone_that_is_killed_has_died(made)
    what_cannot_go_on_has_failed_with_its_code(made)
    the_trace_tells_all_of_it(made)
    the_target_has_it_too_also_of_when_it_was_away(made)
    a_target_that_locks_its_trace_holds_up_nobody(made)
    drop_takes_it_away(made)


def look(made: Scenario) -> dict[str, Any]:
    """What `status --json` prints, without a process for each look."""
    with pytest.MonkeyPatch.context() as environment:
        for name, value in made.environment.items():
            environment.setenv(name, value)
        found = Job.from_file(made.job_file).status()
    assert found["sub_state"] in STATES[found["state"]] and found["active"] is (found["state"] in ACTIVE)
    assert found["since"] or found["sub_state"] == "never_started"
    return found


def is_in(made: Scenario, running: Running | None, state: str, sub_state: str) -> dict[str, Any]:
    last: dict[str, Any] = {}

    def there() -> bool:
        last.update(look(made))
        return (last["state"], last["sub_state"]) == (state, sub_state)

    wait_until(there, 120, f"{state}, {sub_state}", lambda: f"{last}\n{running.tail() if running else ''}", running)
    return last


def until_they_are(made: Scenario, running: Running | None, *states: str) -> dict[str, Any]:
    """Wait until the targets are in these states, one each."""

    def there() -> dict[str, Any] | None:
        found = look(made)
        return found if [one["state"] for one in found["targets"]] == list(states) else None

    found: dict[str, Any] = wait_until(
        there, 120, f"the targets are {states}", running.tail if running else str, running
    )
    return found


def what_it_counts(made: Scenario, run: Running) -> None:
    """Ten transactions of three rows are 10 and 30, at both ends; a reset sets back what is since then."""
    before = look(made)
    writes = [f"INSERT INTO item VALUES ({n}, 'x'), ({n + 1}, 'x'), ({n + 2}, 'x')" for n in range(100, 130, 3)]
    made.source.execute(*writes)
    made.sync(run)
    wait_until(lambda: read(made, before) == (11, 31), 60, "what capture has counted", run.tail, run)
    wait_until(lambda: applied(made, before) == (11, 31), 60, "what apply has counted", run.tail, run)
    assert look(made)["counters"]["since_start"]["bytes_written"] > 0
    made.cli("status", "--reset-counters")
    found = look(made)["counters"]
    assert found["since_reset"]["changes_read"] == 0 and found["since_start"]["changes_read"] >= 31
    assert found["since_reset"]["reset_at"] > before["at"] and found["open_transactions"] == 0
    made.source.execute("UPDATE item SET name = 'y' WHERE id = 100")
    wait_until(lambda: look(made)["counters"]["since_reset"]["changes_read"] == 1, 60, "one since", run.tail, run)
    assert "since its start" in made.cli("status").stdout
    kept = {"written", "log_end", "applied"}  # what an estimate of the lag's end is made of
    with closing(StateStore(made.home)) as state:
        wait_until(lambda: set(state.samples()) == kept, 60, "both ends of the trail are sampled", run.tail, run)


def read(made: Scenario, before: dict[str, Any]) -> tuple[int, int]:
    return counted_since(before, look(made), "transactions_completed", "changes_read")


def applied(made: Scenario, before: dict[str, Any]) -> tuple[int, int]:
    then, now = (found["targets"][0] for found in (before, look(made)))
    return counted_since(then, now, "transactions_applied", "changes_applied")


def counted_since(before: dict[str, Any], found: dict[str, Any], *names: str) -> tuple[int, int]:
    """Parts tell what they have counted every two seconds."""
    then, now = ((one["counters"] or {"since_start": {}})["since_start"] for one in (before, found))
    transactions, changes = (now.get(name, 0) - then.get(name, 0) for name in names)
    return transactions, changes


def a_target_that_is_away_is_waited_for(made: Scenario, run: Running, to_target: Proxy) -> None:
    to_target.refuse()
    made.source.execute("INSERT INTO item VALUES (2, 'b')")
    found = is_in(made, run, "waiting", "target")
    error = found["error"]
    assert (error["code"], error["side"], error["retried"]) == ("target_unavailable", "target", True)
    assert error["task"] == f"{made.name}/apply" and error["class"] and error["message"]
    assert '"code": "target_unavailable"' in run.stderr and "127.0.0.1" in found["unreachable"][0]
    to_target.restore()
    assert is_in(made, run, "streaming", "idle")["error"] is None


def a_part_that_is_killed_under_run_is_started_again(made: Scenario, run: Running) -> None:
    killed = run.part("apply")
    faults.kill_tree(killed)
    wait_until(lambda: run.part("apply") != killed, 60, "another one", run.tail, run)
    is_in(made, run, "streaming", "idle")


def killed_with_all_it_died(made: Scenario, run: Running) -> None:
    run.kill()
    wait_until(lambda: look(made)["parts"] == [], 60, "all are gone")
    found = look(made)
    assert (found["state"], found["sub_state"], found["phase"], found["active"]) == ("died", "gone", "stopped", False)
    error = found["error"]
    assert error["code"] == "part_died" and error["retried"] is False and f"(process {run.pid} on " in error["message"]
    assert "state       died, gone" in made.cli("status").stdout


def stopped_in_order_it_is(made: Scenario) -> None:
    run = made.start("run")
    lag = is_in(made, run, "streaming", "idle")["targets"][0]["lag"]
    assert lag["eta"]["seconds"] == 0 and lag["culprit"]["kind"] == "idle_source"
    with locked(made, f"{made.there}.item"):
        made.source.execute("INSERT INTO item VALUES (3, 'c')")
        is_in(made, run, "waiting", "others")
        its_lag_names_the_lock(made, run)
        run.signal(signal.SIGTERM)
        is_in(made, run, "stopping", "in_order")
    assert run.wait(90).code == 0, run.tail()
    found = is_in(made, None, "stopped", "in_order")
    assert found["error"] is None and found["software_version"] and found["at"] > found["since"]


def its_lag_names_the_lock(made: Scenario, run: Running) -> None:
    """By the table that is locked and the session that has it, with the time that it takes."""

    def lag() -> dict[str, Any] | None:
        found: dict[str, Any] = look(made)["targets"][0]["lag"]
        waits = next(one for one in found["stages"] if one["stage"] == "waiting_for_locks")
        return found if waits["seconds"] and waits["why"] else None

    found = wait_until(lag, 60, "the time is told that the lock takes", run.tail, run)
    culprit = found["culprit"]
    assert (culprit["kind"], culprit["part"]) == ("lock", "apply") and culprit["since"]
    assert "item" in str(culprit["table"]) and culprit["held_by"], culprit
    known = [one["seconds"] for one in found["stages"] if one["seconds"] is not None]
    assert round(sum(known), 3) == found["seconds"]
    assert found["eta"] is None, "nobody knows when the lock goes"
    assert "because     apply waits for" in made.cli("status").stdout


def a_part_alone_that_is_killed_has_died(made: Scenario) -> None:
    """Nobody starts it again, though capture goes on. A part that starts takes that back."""
    capture, apply = made.capture(), made.start("apply")
    is_in(made, apply, "streaming", "idle")
    apply.kill()
    found = is_in(made, capture, "died", "gone")
    assert [part["name"] for part in found["parts"]] == ["capture"] and f"process {apply.pid} " in found["state_detail"]
    culprit = found["targets"][0]["lag"]["culprit"]
    assert (culprit["kind"], culprit["state"]) == ("part", "died") and f"process {apply.pid} " in culprit["text"]
    apply = made.start("apply")
    is_in(made, apply, "streaming", "idle")
    apply.stop()
    found = is_in(made, capture, "waiting", "part")
    assert "apply" in found["state_detail"]
    capture.stop()
    is_in(made, None, "stopped", "in_order")


def what_cannot_go_on_has_failed_with_its_code(made: Scenario) -> None:
    """Its own message stands in `status`, not that of the `run` that ended with it; the same as JSON on stderr."""
    made.target.execute(f"ALTER TABLE {made.there}.item ADD CONSTRAINT short CHECK (length(name) < 20)")
    made.source.execute("INSERT INTO item VALUES (4, REPEAT('d', 30))")
    run = made.start("run")
    assert run.wait(120).code == 6, run.tail()
    found = is_in(made, None, "failed", "target")
    for error in (found["error"], found["last_error"]):
        assert (error["code"], error["side"], error["task"]) == ("row_refused", "target", f"{made.name}/apply")
        assert error["table"] == f"{made.schema}.item" and "short" in error["message"] and error["exit_code"] == 6
    assert found["error"]["retried"] is False
    lines = [json.loads(line) for line in run.stderr.splitlines() if line.startswith("{")]
    told = {line["code"]: line for line in lines if line["event"] == "error"}
    assert set(told) == {"row_refused", "part_failed"}
    assert told["row_refused"]["task"] == f"{made.name}/apply" and told["row_refused"]["side"] == "target"
    assert told["part_failed"]["task"] == f"{made.name}/run" and "dddd" not in run.stderr


def entries(made: Scenario, *options: str) -> list[dict[str, Any]]:
    found = made.cli("trace", "--json", "--limit", "0", *options).json
    assert (found["version"], found["job"]) == (1, made.name)
    return list(found["entries"])


def the_trace_is_switched_and_followed_while_it_runs(made: Scenario, run: Running) -> None:
    """Nothing is started again for it, sessions that are open already tell what they are asked. Values are in none of
    it. Whoever follows sees each entry once."""
    follower = made.start("trace", "--follow", "--json", "--level", "debug", "--since", "1d")
    made.cli("trace", "--record", "debug")
    taken_up(made, 1, run)
    made.source.execute("INSERT INTO item VALUES (200, 'dddd')")
    made.sync(run)
    wanted = {("statement", "apply"), ("epoch_committed", "apply"), ("chunk_written", "capture"), ("statement", "run")}
    wait_until(lambda: details(made) >= wanted, 120, "details", lambda: f"{details(made)}\n{run.tail()}", run)
    wait_until(lambda: details(made, "--at-target") >= wanted, 120, "details at the target", run.tail, run)
    assert '"event": "statement"' not in run.stderr and "until anabranch trace JOB" in made.cli("trace").stderr
    made.cli("trace", "--record", "info")
    taken_up(made, 2, run)
    made.sync(run)
    last = entries(made)[-1]["id"]
    made.source.execute("UPDATE item SET name = 'dddd2' WHERE id = 200")
    made.sync(run)
    assert [
        entry for entry in entries(made, "--level", "debug") if entry["level"] == "debug" and entry["id"] > last
    ] == []
    shown = followed(made, follower)
    follower.signal(signal.SIGINT)
    assert follower.wait(120).code == 130 and len(set(shown)) == len(shown)


def taken_up(made: Scenario, times: int, run: Running) -> None:
    """By each part that runs."""

    def all_of_them() -> bool:
        told = [entry["task"].partition("/")[2] for entry in entries(made) if entry["event"] == "trace_level"]
        return all(told.count(part) == times for part in ("run", "capture", "apply"))

    wait_until(all_of_them, 120, "the level is taken up", run.tail, run)


def details(made: Scenario, *options: str) -> set[tuple[str, str]]:
    found = [entry for entry in entries(made, "--level", "debug", *options) if entry["level"] == "debug"]
    assert "dddd" not in json.dumps(found)
    return {(entry["event"], entry["task"].partition("/")[2]) for entry in found}


def followed(made: Scenario, follower: Running) -> list[str]:
    """Ids of what it showed, once that is all there is; `trace` commands of this test are noted, too."""
    last = entries(made)[-1]["id"]
    shown: list[str] = []

    def all_of_it() -> bool:
        lines = follower.out.read_text().splitlines(keepends=True)
        shown[:] = [json.loads(line)["id"] for line in lines if line.endswith("\n")]
        return last in shown

    wait_until(all_of_it, 120, "what was noted is shown", follower.tail, follower)
    everything = {entry["id"] for entry in entries(made, "--level", "debug") if entry["id"] <= last}
    assert everything <= set(shown)
    return shown


def the_trace_tells_all_of_it(made: Scenario) -> None:
    """Each state with an entry of the same name; also what the log warned of, and the command."""
    found = entries(made)
    assert [entry["at"] for entry in found] == sorted(entry["at"] for entry in found)
    states = {(entry["state"], entry["sub_state"]) for entry in found if "state" in entry}
    assert {("starting", "preflight"), ("loading", "rows"), ("streaming", "working"), ("waiting", "target")} <= states
    assert {("stopping", "in_order"), ("stopped", "in_order"), ("failed", "target")} <= states
    assert all(sub_state in STATES[state] for state, sub_state in states if state != "died")
    seen = {(entry["event"], entry["task"].removeprefix(f"{made.name}/")) for entry in found}
    assert {("part_restarts", "run"), ("part_died", "run"), ("part_died", "apply"), ("command", "status")} <= seen
    assert ("target_lost", "apply") in seen or ("end_lost", "apply") in seen
    (refused,) = (entry for entry in found if entry.get("code") == "row_refused")
    assert refused["level"] == "error" and refused["side"] == "target" and refused["task"] == f"{made.name}/apply"
    text = json.dumps(found)
    assert "dddd" not in text and made.source.server.password not in text
    assert entries(made, "--level", "error") == [entry for entry in found if entry["level"] == "error"]
    assert entries(made, "--since", refused["at"])[0] == refused


def the_target_has_it_too_also_of_when_it_was_away(made: Scenario) -> None:
    """Each once, however often it was brought."""
    here = {entry["id"]: entry for entry in entries(made)}
    wait_until(lambda: {e["id"] for e in entries(made, "--at-target")} >= set(here), 60, "the target has it")
    there = {entry["id"]: entry for entry in entries(made, "--at-target")}
    assert all(there[name] == entry for name, entry in here.items())
    query = "SELECT count(*), count(DISTINCT id) FROM anabranch.trace WHERE job = %s AND state = 'waiting'"
    number, distinct = made.target.query(query, [made.name])[0]
    assert number == distinct > 0


def a_target_that_locks_its_trace_holds_up_nobody(made: Scenario) -> None:
    made.target.execute(f"ALTER TABLE {made.there}.item DROP CONSTRAINT short")
    with locked(made, "anabranch.trace"):
        run = made.start("run")
        made.sync(run, seconds=200)
        found = is_in(made, run, "streaming", "idle")
        assert found["waits"] == [] and [entry for entry in entries(made) if entry["pid"] == run.pid]
    last = entries(made)[-1]["id"]
    query = "SELECT count(*) FROM anabranch.trace WHERE id = %s"
    wait_until(lambda: made.target.query(query, [last])[0][0] == 1, 120, "it comes later", run.tail, run)
    run.stop()


def drop_takes_it_away(made: Scenario) -> None:
    made.cli("drop", "--execute")
    there = "SELECT count(*) FROM information_schema.tables WHERE table_schema = 'anabranch' AND table_name = 'trace'"
    if made.target.query(there)[0][0]:  # of other jobs at the server
        assert made.target.server.name != "postgresql"
        assert made.target.query("SELECT count(*) FROM anabranch.trace WHERE job = %s", [made.name]) == [(0,)]
    assert entries(made) == [] and not made.home.exists()


def counted(found: dict[str, Any]) -> list[bool]:
    counters = [one["counters"] for one in found["targets"]]
    return [bool(one and one["since_start"]["changes_applied"]) for one in counters]


@pytest.mark.quick
@pytest.mark.timeout(1200)
def test_each_of_two_targets_has_a_state(
    mariadb: Server, postgresql: Server, scenario: Make, target_database: Database, tmp_path: Path
) -> None:
    other = create_database(postgresql, "south")
    with Proxy(postgresql.host, postgresql.port) as line:
        made = Several(scenario(mariadb, *ITEM), {"north": target_database, "south": other}, {"south": line.port})
        made.write_job("north", "south", text="[retry.target]\nconnect_s = 2\ninterval_s = 1\n")
        run = made.made.start("run")
        for name in made.ends:
            made.wait_row(name, "item", 1)
        is_in(made.made, run, "streaming", "idle")
        line.refuse()
        made.made.source.execute("INSERT INTO item VALUES (2, 'b')")
        is_in(made.made, run, "waiting", "target")
        found = until_they_are(made.made, run, "streaming", "waiting")
        north, south = found["targets"]
        assert found["state_detail"].startswith("south: ")
        assert south["error"]["task"] == f"{made.made.name}/apply/south" and north["error"] is None
        line.restore()
        is_in(made.made, run, "streaming", "idle")
        wait_until(lambda: all(counted(look(made.made))), 60, "both have counted", run.tail, run)
        run.kill()
        is_in(made.made, None, "died", "gone")  # as one of them is; each ends when its own process does
        until_they_are(made.made, None, "died", "died")
    drop_database(other)


@pytest.mark.quick
@pytest.mark.timeout(600)
def test_a_backlog_in_the_first_epoch_is_streamed_not_waited_for(mysql: Server, scenario: Make) -> None:
    made = scenario(mysql, *ITEM)
    made.write_job('[apply]\nmode = "transaction"\n')
    made.run_until_caught_up()
    capture = made.capture()
    made.source.execute(*(f"INSERT INTO item VALUES ({number}, 'x')" for number in range(2, 60)))
    made.captured(capture)
    capture.stop()
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv(failpoints.VARIABLE, "apply.pipelined=delay:300")
        run = made.start("run")
    wait_until(lambda: look(made)["state"] == "streaming", 120, "long before that epoch is over", run.tail, run)
    run.kill()
    made.run_until_caught_up()
    made.assert_identical("item")
