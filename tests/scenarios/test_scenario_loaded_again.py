"""Tables that are loaded again while they stream: healthy, damaged, lost at the target; somebody writes all the time."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from anabranch import failpoints
from anabranch.testing.servers import Server
from rigs.scenario import Scenario, wait_until
from rigs.scenario_busy import busy

Make = Callable[..., Scenario]
TABLES = (
    "CREATE TABLE parent (id INT PRIMARY KEY, v INT)",
    "CREATE TABLE child (id INT PRIMARY KEY, p INT, v INT, FOREIGN KEY (p) REFERENCES parent (id) ON DELETE CASCADE)",
    "CREATE TABLE note (id INT PRIMARY KEY AUTO_INCREMENT, v INT, UNIQUE KEY (v))",
    "CREATE TABLE lost (id INT PRIMARY KEY, v VARCHAR(20))",
    *(f"INSERT INTO parent VALUES ({n}, 0)" for n in range(20)),
    *(f"INSERT INTO child VALUES ({n}, {n % 20}, 0)" for n in range(60)),
    *(f"INSERT INTO note (v) VALUES ({n})" for n in range(100)),
    "INSERT INTO lost VALUES (1, 'one'), (2, 'two')",
)


def changes(n: int) -> list[str]:
    """Changes of every table, one after the other."""
    return [
        f"INSERT INTO parent VALUES ({n}, {n})",
        f"INSERT INTO child VALUES ({n}, {n}, 0), ({n + 100_000}, {n % 20}, 0)",
        f"UPDATE child SET v = v + 1 WHERE p = {n % 20}",
        f"DELETE FROM parent WHERE id = {n - 2}",
        f"INSERT INTO note (v) VALUES ({n})",
        f"UPDATE note SET v = -v WHERE v = {n - 5}",
        f"REPLACE INTO lost VALUES ({n % 7}, '{n}')",
    ]


def generation(made: Scenario, table: str) -> int:
    query = "SELECT generation FROM anabranch.table_state WHERE source_table = %s"
    return int(made.target.query(query, [f"{made.source.name}.{table}"])[0][0])


@pytest.mark.quick
def test_tables_that_stream_are_loaded_again(mariadb: Server, scenario: Make) -> None:
    made = scenario(mariadb, *TABLES)
    made.run_until_caught_up()
    names = {name: f"{made.source.name}.{name}" for name in ("parent", "child", "note", "lost")}
    run = made.start("run")
    made.sync(run)
    with busy(made, changes):
        a_healthy_one(made, names)
        a_parent_goes_with_its_children(made, names)
        what_was_killed_goes_on(made, names)
    made.wait_streaming(run)
    made.sync(run)
    made.assert_identical()


@pytest.mark.quick
def test_a_table_that_is_lost_at_the_target_is_loaded_again(mariadb: Server, scenario: Make) -> None:
    """Apply would end at the first row of it. While none runs the load takes the table out, and waits for capture."""
    made = scenario(mariadb, *TABLES)
    made.run_until_caught_up()
    made.target.execute("DROP TABLE public.lost")
    made.source.execute("UPDATE lost SET v = 'again'")
    for is_let_go in (True, False):
        load = made.start("load", "--table", f"{made.source.name}.lost")
        wait_until(lambda: "waiting_for_capture" in load.stderr, 60, "the load waits for capture", load.tail, load)  # noqa: B023  # called before the loop goes on
        assert "and none runs; start anabranch run JOB" in load.stderr
        assert made.states()["lost"] == "parked" and "load JOB --table" in made.reason("lost")
        assert list((made.trail / "readers").glob("lo*lost*"))
        if is_let_go:
            load.stop(code=None)
            assert not list((made.trail / "readers").glob("lo*lost*"))
    run = made.start("run")
    load.wait()
    made.wait_streaming(run)
    made.sync(run)
    made.assert_identical()


def a_healthy_one(made: Scenario, names: dict[str, str]) -> None:
    made.target.execute("DELETE FROM public.note WHERE id < 20")  # nobody has noticed yet
    before = generation(made, "note")
    loaded = made.cli("load", "--table", names["note"])
    assert "waiting_for_apply" in loaded.stderr
    assert generation(made, "note") == before + 1
    made.wait_streaming()
    wait_until(lambda: not list((made.trail / "readers").glob("lo*note*")), 30, "the trail is let go")


def a_parent_goes_with_its_children(made: Scenario, names: dict[str, str]) -> None:
    refused = made.cli("load", "--table", names["parent"], code=2)
    assert f"change rows of {names['child']}" in refused.stderr and "--with-children" in refused.stderr
    assert set(made.states().values()) == {"streaming"}
    before = generation(made, "child")
    made.cli("load", "--table", names["parent"], "--with-children")
    assert generation(made, "child") == before + 1
    made.wait_streaming()


def what_was_killed_goes_on(made: Scenario, names: dict[str, str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(failpoints.VARIABLE, "load.generation=delay:3600")  # it may be over before it is seen
        load = made.start("load", "--table", names["child"])
    wait_until(lambda: made.states()["child"] != "streaming", 60, "it is taken out", load.tail, load)
    load.kill()
    made.cli("load", "--table", names["child"])
    made.wait_streaming()
