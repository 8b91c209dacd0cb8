"""One job with several targets: one capture, one trail, and for each target a load, an apply and a state of its own."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from anabranch.testing.databases import create_database, drop_database, unique_name
from anabranch.testing.faults import Proxy
from anabranch.testing.servers import Server
from anabranch.trail import retention
from rigs.scenario import PARKS_ADDED, Running, Scenario, wait_until
from rigs.scenario_targets import SOON, Several

Make = Callable[..., Scenario]
Build = Callable[..., Several]
TABLES = (
    "CREATE TABLE parent (id INT PRIMARY KEY, v INT)",
    "CREATE TABLE child (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES parent (id) ON DELETE CASCADE)",
    "CREATE TABLE bag (v INT)",
    "INSERT INTO parent VALUES (1, 1), (2, 2), (3, 3)",
    "INSERT INTO child VALUES (10, 1), (20, 2)",
    "INSERT INTO bag VALUES (1), (1), (2)",
)
ALL = ("parent", "child", "bag")
pytestmark = pytest.mark.timeout(1200)  # many commands, each a process, on a machine that has other work
ASKS = '[[ddl.rules]]\ntables = ["*.child"]\nadd_column = "ask"\n'


@pytest.fixture
def several(postgresql: Server, scenario: Make) -> Iterator[Build]:
    """A job over these source statements, with further databases under these names."""
    with ExitStack() as stack:

        def build(source: Server, *names: str) -> Several:
            made = scenario(source, *TABLES)
            ends = {}
            for name in names:
                ends[name] = create_database(postgresql, unique_name("targets"))
                stack.callback(drop_database, ends[name])
            return Several(made, ends)

        yield build


@pytest.mark.long
def test_two_targets_with_spark(mariadb: Server, several: Build) -> None:
    made = several(mariadb, "north", "south")
    made.write_job("north", "south")
    made.made.run_until_caught_up()
    made.assert_identical(tables=ALL)
    made.ends["south"].execute("DELETE FROM public.bag")
    found = made.made.cli("verify", "--json", code=4, seconds=240).json
    assert [(one["name"], one["identical"]) for one in found["targets"]] == [("north", True), ("south", False)]


@pytest.mark.quick
def test_two_targets(mariadb: Server, several: Build) -> None:
    made = several(mariadb, "north", "south")
    made.write_job("north", "south")
    what_cannot_be_is_refused(made)
    both_are_loaded_and_followed(made)
    status_shows_each(made)


def what_cannot_be_is_refused(made: Several) -> None:
    told = made.made.cli("apply", code=2).stderr
    assert "the job has several targets: north, south" in told and "--target NAME" in told
    told = made.made.cli("load", "--target", "west", code=2).stderr
    assert "no target 'west'" in told and "north, south" in told


def both_are_loaded_and_followed(made: Several) -> None:
    job = made.made
    job.run_until_caught_up()
    made.assert_identical(tables=ALL)
    job.source.execute("INSERT INTO parent VALUES (60, 1)", "INSERT INTO child VALUES (60, 60)")
    job.source.execute("DELETE FROM parent WHERE id = 1", "DELETE FROM bag WHERE v = 1 LIMIT 1")
    job.run_until_caught_up()
    made.assert_identical(tables=ALL)
    assert set(retention.readers(job.trail)) == {"apply@north", "apply@south"}


def status_shows_each(made: Several) -> None:
    found = made.made.status()
    assert [one["name"] for one in found["targets"]] == ["north", "south"] and found["phase"] == "stopped"
    for one in found["targets"]:
        assert one["phase"] == "stopped" and one["applied"] and {t["state"] for t in one["tables"]} == {"streaming"}
        assert one["url"].endswith(made.ends[one["name"]].name)


@pytest.mark.quick
def test_one_of_them_is_down(mariadb: Server, postgresql: Server, several: Build) -> None:
    with Proxy(postgresql.host, postgresql.port) as line:
        made = several(mariadb, "north", "south")
        made.ports["south"] = line.port
        made.write_job("north", "south", text=f"{PARKS_ADDED}[retry.target]\ninterval_s = 1\n")
        line.refuse()
        run = made.made.start("run")
        the_other_begins_without_it(made, run)
        line.restore()
        it_is_loaded_once_it_can_be_reached(made, run)
        a_killed_apply_is_its_own_affair(made, run)
        line.refuse()
        the_other_goes_on_while_it_is_away(made, run)
        it_is_loaded_again_there_meanwhile(made, run)
        line.restore()
        rule_15_who_was_away_parks_it_where_it_was_altered(made, run)
        run.stop()
        made.assert_identical(tables=ALL)


def the_other_begins_without_it(made: Several, run: Running) -> None:
    made.wait_row("north", "parent", 3)
    made.made.source.execute("INSERT INTO parent VALUES (70, 1)")
    made.wait_row("north", "parent", 70)
    wait_until(lambda: made.phase("north") == "streaming", SOON, "north streams", run.tail, run)
    wait_until(lambda: '"target_away"' in run.stderr, SOON, "the other is said to be away", run.tail, run)
    assert made.states("south") == {} and run.is_alive
    found = made.made.status()
    north, south = found["targets"]
    assert north["phase"] == "streaming" and south["phase"] == "waiting" and found["phase"] == "waiting"
    assert "cannot connect" in found["unreachable"][0]
    assert {part["name"] for part in found["parts"] if part.get("target") == "north"} >= {"apply"}
    shown = made.made.cli("status").stdout
    assert "\ntarget      south  postgresql://" in shown and "apply of north (pid" in shown


def it_is_loaded_once_it_can_be_reached(made: Several, run: Running) -> None:
    made.wait_row("south", "parent", 70)
    wait_until(lambda: set(made.states("south").values()) == {"streaming"}, SOON, "south streams", run.tail, run)
    made.made.source.execute("INSERT INTO bag VALUES (70)", "UPDATE parent SET v = 7 WHERE id = 70")
    made.made.source.execute("INSERT INTO parent VALUES (71, 1)")
    for name in ("north", "south"):
        made.wait_row(name, "parent", 71)
    made.assert_identical(tables=ALL)


def a_killed_apply_is_its_own_affair(made: Several, run: Running) -> None:
    others = {name: run.part(name) for name in ("capture", "apply")}
    south = made.apply_of("south", run)
    north = made.apply_of("north", run)
    os.kill(south, signal.SIGKILL)
    made.made.source.execute("INSERT INTO parent VALUES (72, 1)", "DELETE FROM parent WHERE id = 2")
    for name in ("north", "south"):
        made.wait_row(name, "parent", 72)
    assert made.apply_of("north", run) == north and made.apply_of("south", run) != south
    assert run.part("capture") == others["capture"]
    made.assert_identical(tables=ALL)


def the_other_goes_on_while_it_is_away(made: Several, run: Running) -> None:
    before = made.sequence("south")
    made.made.source.execute("INSERT INTO parent VALUES (80, 1)")
    made.wait_row("north", "parent", 80)
    assert made.sequence("south") == before
    held = retention.readers(made.made.trail)
    assert held["apply@south"].sequence <= before
    wait_until(lambda: made.phase("south") == "waiting", SOON, "south waits", run.tail, run)
    assert made.phase("north") == "streaming"


def it_is_loaded_again_there_meanwhile(made: Several, run: Running) -> None:
    job = made.made
    job.source.execute("INSERT INTO bag VALUES (80)", "ALTER TABLE bag ADD COLUMN more INT")
    wait_until(lambda: made.states("north")["bag"] == "parked", SOON, "bag is parked", run.tail, run)
    job.cli("load", "--table", f"{job.source.name}.bag", "--recreate", "--target", "north")
    wait_until(lambda: made.states("north")["bag"] == "streaming", SOON, "bag streams", run.tail, run)
    job.source.execute("INSERT INTO bag VALUES (81, 1)", "INSERT INTO parent VALUES (81, 1)")
    made.wait_row("north", "parent", 81)


def rule_15_who_was_away_parks_it_where_it_was_altered(made: Several, run: Running) -> None:
    """The trail has rows of the newer definition by then."""
    job = made.made
    made.wait_row("south", "parent", 81, 180)
    assert made.states("south")["bag"] == "parked" and made.states("north")["bag"] == "streaming"
    job.cli("load", "--table", f"{job.source.name}.bag", "--recreate", "--target", "south")
    wait_until(lambda: made.states("south")["bag"] == "streaming", SOON, "bag streams", run.tail, run)
    assert made.joins(f"{job.source.name}.bag") == 1


@pytest.mark.quick
def test_tables_that_park_come_back_at_each_target_by_itself(mariadb: Server, several: Build) -> None:
    made = several(mariadb, "north", "south")
    made.write_job("north", "south", text=f'[apply]\non_error = "park"\n{PARKS_ADDED}{ASKS}')
    job = made.made
    job.run_until_caught_up()
    run = job.start("run")
    what_one_target_refuses_is_parked_there_only(made, run)
    a_change_is_decided_at_each(made, run)
    what_the_source_alters_is_parked_at_both(made, run)
    it_is_loaded_again_at_one_and_then_at_the_other(made, run)
    what_both_ask_for_at_once_comes_once(made, run)
    run.stop()
    made.assert_identical(tables=("parent", "child", "bag"))


def what_one_target_refuses_is_parked_there_only(made: Several, run: Running) -> None:
    job, south = made.made, made.ends["south"]
    south.execute("ALTER TABLE public.bag ADD CONSTRAINT small CHECK (v < 100) NOT VALID")
    job.source.execute("INSERT INTO bag VALUES (500)", "INSERT INTO parent VALUES (90, 1)")
    for name in ("north", "south"):
        made.wait_row(name, "parent", 90)
    assert made.states("north")["bag"] == "streaming" and made.states("south")["bag"] == "parked"
    bag = f"{job.source.name}.bag"
    assert "no table is parked" in job.cli("parked", "ls", "--target", "north").stdout
    listed = job.cli("parked", "ls", "--json").json["targets"]
    found = {end["name"]: [one["source"] for one in end["parked"]] for end in listed}
    assert (found["north"], found["south"]) == ([], [bag])
    assert f"load@south {bag}" in retention.readers(job.trail)
    south.execute("ALTER TABLE public.bag DROP CONSTRAINT small")
    job.cli("parked", "resume", "--target", "south")
    wait_until(lambda: made.states("south")["bag"] == "streaming", SOON, "bag streams at south", run.tail, run)
    wait_until(lambda: f"load@south {bag}" not in retention.readers(job.trail), SOON, "nothing is held", run.tail, run)
    made.assert_identical(tables=("bag",))


def a_change_is_decided_at_each(made: Several, run: Running) -> None:
    """Parent and child wait together, and at each target by itself."""
    job = made.made
    job.source.execute("ALTER TABLE child ADD COLUMN more INT", "UPDATE child SET more = 7")
    for name in ("north", "south"):
        wait_until(lambda at=name: made.states(at)["child"] == "parked", SOON, f"waits at {name}", run.tail, run)
        assert made.states(name)["parent"] == "parked"
    for name in ("north", "south"):
        assert made.states(name)["child"] == "parked"
        found = job.cli("ddl", "ls", "--json", "--target", name).json
        changes = next(
            (one["changes"] for one in found.get("targets", ()) if one["name"] == name), found.get("changes")
        )
        (number,) = (one["number"] for one in changes if one["outcome"] == "waiting")
        assert "child goes on" in job.cli("ddl", "approve", str(number), "--target", name).stdout
        wait_until(lambda at=name: made.states(at)["child"] == "streaming", SOON, f"streams at {name}", run.tail, run)
    made.assert_identical(tables=("parent", "child"))


def what_the_source_alters_is_parked_at_both(made: Several, run: Running) -> None:
    made.made.source.execute("ALTER TABLE bag ADD COLUMN more INT")
    for name in ("north", "south"):
        wait_until(lambda at=name: made.states(at)["bag"] == "parked", SOON, f"parked at {name}", run.tail, run)


def it_is_loaded_again_at_one_and_then_at_the_other(made: Several, run: Running) -> None:
    job = made.made
    bag = f"{job.source.name}.bag"
    job.cli("load", "--table", bag, "--recreate", "--target", "north")
    wait_until(lambda: made.states("north")["bag"] == "streaming", SOON, "bag streams at north", run.tail, run)
    assert made.states("south")["bag"] == "parked"
    job.source.execute("INSERT INTO bag VALUES (600, 6)")
    job.cli("load", "--table", bag, "--recreate", "--target", "south")
    wait_until(lambda: made.states("south")["bag"] == "streaming", SOON, "bag streams at south", run.tail, run)
    assert made.joins(bag) == 1  # the second load found it in the trail
    job.source.execute("DELETE FROM bag WHERE v = 1 LIMIT 1", "INSERT INTO parent VALUES (91, 1)")
    for name in ("north", "south"):
        made.wait_row(name, "parent", 91)
    made.assert_identical(tables=ALL)


def what_both_ask_for_at_once_comes_once(made: Several, run: Running) -> None:
    job = made.made
    bag = f"{job.source.name}.bag"
    job.source.execute("ALTER TABLE bag DROP COLUMN more")
    for name in ("north", "south"):
        wait_until(lambda at=name: made.states(at)["bag"] == "parked", SOON, f"parked at {name}", run.tail, run)
    loads = [job.start("load", "--table", bag, "--recreate", "--target", name) for name in ("north", "south")]
    job.source.execute("INSERT INTO bag VALUES (700), (700)")
    assert [load.wait().code for load in loads] == [0, 0], [load.tail() for load in loads]
    for name in ("north", "south"):
        wait_until(lambda at=name: made.states(at)["bag"] == "streaming", SOON, f"streams at {name}", run.tail, run)
    assert made.joins(bag) == 2
    job.source.execute("DELETE FROM bag WHERE v = 700 LIMIT 1", "INSERT INTO parent VALUES (92, 1)")
    for name in ("north", "south"):
        made.wait_row(name, "parent", 92)
    made.assert_identical(tables=ALL)


@pytest.mark.quick
def test_a_target_comes_and_goes(mariadb: Server, several: Build) -> None:
    """Beside the one in [target], whose names and places stay as they were."""
    made = several(mariadb, "south")
    job = made.made
    job.write_job(PARKS_ADDED)
    job.run_until_caught_up()
    job.source.execute("UPDATE parent SET v = 9 WHERE id = 1", "ALTER TABLE bag ADD COLUMN more INT")
    run = job.start("run")
    wait_until(lambda: job.states()["bag"] == "parked", SOON, "bag is parked", run.tail, run)
    job.cli("load", "--table", f"{job.source.name}.bag", "--recreate")  # the trail the other begins with has seen this
    wait_until(lambda: job.states()["bag"] == "streaming", SOON, "bag streams", run.tail, run)
    run.stop()
    it_is_loaded_while_the_other_streams(made)
    two_names_for_a_database_are_refused(made)
    it_is_dropped_and_the_other_goes_on(made)
    one_that_is_left_out_lets_go_by_a_word(made)


def it_is_loaded_while_the_other_streams(made: Several) -> None:
    made.write_job("south", named_only=False)
    job = made.made
    job.run_until_caught_up()
    made.assert_identical(tables=ALL)
    job.assert_identical("parent", "child", "bag")
    assert set(retention.readers(job.trail)) == {"apply", "apply@south"}
    assert [one["name"] for one in job.status()["targets"]] == ["target", "south"]


def two_names_for_a_database_are_refused(made: Several) -> None:
    made.ends["west"] = made.ends.pop("south")
    made.write_job("west", named_only=False)
    job = made.made
    assert "held for south, which the job file has no more" in job.cli("run", code=2).stderr
    told = job.cli("load", "--target", "west", code=7).stderr
    assert "this database is the target 'south' of the job, not 'west'" in told
    made.ends["south"] = made.ends.pop("west")
    made.write_job("south", named_only=False)


def it_is_dropped_and_the_other_goes_on(made: Several) -> None:
    job = made.made
    shown = job.cli("drop", "--target", "south").stdout
    assert "would remove: target south: state of job shop" in shown and "held of the trail for target south" in shown
    job.cli("drop", "--target", "south", "--execute")
    assert set(retention.readers(job.trail)) == {"apply"} and not (job.home / "targets" / "south").exists()
    assert made.states("south") == {} and len(made.rows("south", "parent")) == 3
    job.write_job()
    job.source.execute("INSERT INTO parent VALUES (99, 1)")
    job.run_until_caught_up()
    job.assert_identical("parent", "child", "bag")


def one_that_is_left_out_lets_go_by_a_word(made: Several) -> None:
    job = made.made
    made.write_job("south", named_only=False, text='[load]\nexisting = "empty"\ndefer_constraints = true\n')
    job.run_until_caught_up()
    made.assert_identical(tables=ALL)
    job.write_job()
    assert "anabranch plan JOB --execute" in job.cli("run", "--until-caught-up", code=2).stderr
    assert "target south  left out" in job.cli("plan").stdout and "apply@south" in retention.readers(job.trail)
    job.cli("plan", "--execute")
    assert set(retention.readers(job.trail)) == {"apply"}
    job.run_until_caught_up()
    lines = job.cli("drop", "--execute").stdout
    assert "removed: target: state of job shop" in lines and not job.home.exists()
    assert made.states("south")  # nobody could tell where it is
