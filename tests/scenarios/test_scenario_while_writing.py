"""The whole way while the source is in use: load, window, stream, stop, go on, as processes and as a Python object; both
ends identical by our own SQL. One long story, because every start of Spark takes seconds."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from anabranch.testing import faults
from anabranch.testing.servers import Server
from anabranch.testing.workload import SCHEMA, TABLES, Writer, fill
from anabranch.trail import retention
from rigs.scenario import Running, Scenario, wait_until

Make = Callable[..., Scenario]
PYTHON = "import sys, anabranch; anabranch.Job.from_file(sys.argv[1]).run(until_caught_up=True)"


@pytest.mark.long
def test_pitfall_27_load_while_writing_on_mysql(mysql: Server, scenario: Make) -> None:
    made = scenario(mysql, *SCHEMA, *fill(5))
    it_runs_while_somebody_writes(made)
    made.run_until_caught_up()
    made.assert_identical()


def it_runs_while_somebody_writes(made: Scenario) -> None:
    with Writer(made.source, seed=1, rate=40) as writer:
        running = made.start("run")
        made.wait_streaming(running, seconds=200)
        assert_no_secret_in_processes(made, running)
        assert_status_of_running_job(made)
        made.sync(running)
        made.source.execute("UPDATE account SET note = 'while it streams'")
        wait_until(
            lambda: '"event": "streaming"' in running.stderr, 60, "it says that it streams", running.tail, running
        )
        wait_until(lambda: writer.committed > 50, 60, "somebody has written meanwhile", running.tail, running)
        running.stop()
    assert faults.descendants(running.pid) == []


def test_pitfall_27_load_while_writing_then_stream_and_stop_and_go_on(mariadb: Server, scenario: Make) -> None:
    made = scenario(mariadb, *SCHEMA, *fill(5))
    it_runs_while_somebody_writes(made)
    rule_31_state_and_sparks_checkpoint_are_disposable(made)
    python_api_goes_on(made)
    made.assert_identical()
    assert set(made.states().values()) == {"streaming"}
    assert_indexes_and_keys_stand(made)
    assert_trail_verbs(made)
    made.target.execute("UPDATE public.account SET balance = balance + 0.01 WHERE id = (SELECT min(id) FROM account)")
    made.is_quick = True  # with Spark, as a command: test_demo.py; what it finds then: test_verify_mysql_family.py
    verified = made.cli("verify", "--json", code=4, seconds=200).json
    found = {one["source"].partition(".")[2]: one["identical"] for one in verified["tables"]}
    assert not verified["identical"] and found == dict.fromkeys((*TABLES, "scenario_mark"), True) | {"account": False}
    assert_no_secret_in_files(made)
    assert_drop(made)


def rule_31_state_and_sparks_checkpoint_are_disposable(made: Scenario) -> None:
    assert (made.home / "state.db").exists() and (made.home / "spark" / "checkpoint").is_dir()
    rule_31_nothing_is_lost_with_them(made)
    assert made.status()["targets"][0]["tables"]


def rule_31_nothing_is_lost_with_them(made: Scenario) -> None:
    """Also while parts run: a killed load has left them, apply waits, both were killed."""
    for file in made.home.glob("state.db*"):
        file.unlink(missing_ok=True)
    shutil.rmtree(made.home / "spark", ignore_errors=True)


def python_api_goes_on(made: Scenario) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PYTHON, str(made.job_file)],
        env=made.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr[-3000:]


def assert_status_of_running_job(made: Scenario) -> None:
    status = made.status()
    assert status["version"] == 1 and status["job"] == "shop"
    assert {"run", "capture", "apply"} <= {part["name"] for part in status["parts"]}
    assert all(faults.is_alive(part["pid"]) for part in status["parts"])
    target = status["targets"][0]
    assert {table["source"].split(".")[1] for table in target["tables"]} == {*TABLES, "scenario_mark"}
    assert all(table["state"] == "streaming" for table in target["tables"]), target["tables"]
    assert sum(table["rows_loaded"] for table in target["tables"]) > 5000
    assert status["positions"]["written"]["text"].split("@")[0].isdigit()
    assert status["positions"]["source_end"]["text"] and target["applied"]["text"]
    assert "streaming" in made.cli("status").stdout


def assert_indexes_and_keys_stand(made: Scenario) -> None:
    found = made.target.query(
        "SELECT contype, conrelid::regclass::text, convalidated FROM pg_constraint"
        " WHERE connamespace = 'public'::regnamespace AND contype IN ('f', 'u', 'p') ORDER BY 1, 2"
    )
    assert [(k, t) for k, t, _ in found if k == "f"] == [("f", "entry"), ("f", "remark")]
    assert all(valid for *_, valid in found)
    unique = made.target.query("SELECT count(*) FROM pg_indexes WHERE tablename = 'account' AND indexdef ~ 'UNIQUE'")
    assert unique[0][0] == 2


def assert_trail_verbs(made: Scenario) -> None:
    segments = made.cli("trail", "ls", "--json").json["segments"]
    assert segments and sum(one["rows"] for one in segments) > 0
    table = f"{made.source.name}.scenario_mark"
    shown = made.cli("trail", "show", "--table", table, "--json").stdout.splitlines()
    assert [json.loads(line)["table"] for line in shown] == [table]
    report = made.cli("trail", "check", "--json").json
    assert report["problems"] == [] and report["rows"] > 0


def assert_no_secret_in_processes(made: Scenario, running: Running) -> None:
    """Neither in arguments nor in what Spark's processes are told."""
    family = [running.pid, *faults.descendants(running.pid)]
    assert len(family) > 4
    for secret in secrets(made):
        assert not [pid for pid in family if secret in faults.command_line(pid)]


def assert_no_secret_in_files(made: Scenario) -> None:
    """Output, logs, state.db, trail, Spark's checkpoint, state at the target."""
    files = [path for path in made.directory.rglob("*") if path.is_file()]
    assert any(path.name == "state.db" for path in files) and any("trail" in path.parts for path in files)
    held = [path for path in files for secret in secrets(made) if secret.encode() in path.read_bytes()]
    assert held == []
    for (table,) in made.target.query("SELECT tablename FROM pg_tables WHERE schemaname = 'anabranch'"):
        rows = made.target.query(f"SELECT t::text FROM anabranch.{table} AS t")
        assert not [row for row in rows for secret in secrets(made) if secret in row[0]]


def secrets(made: Scenario) -> Iterator[str]:
    yield made.source.server.password
    yield made.target.server.password


def assert_drop(made: Scenario) -> None:
    rows = made.target_rows("account")
    shown = made.cli("drop").stdout
    assert "would remove" in shown and made.home.exists()
    assert "removed" in made.cli("drop", "--execute").stdout
    assert not made.home.exists()
    assert made.target.query("SELECT to_regnamespace('anabranch') IS NULL") == [(True,)]
    assert made.target_rows("account") == rows
    assert "nothing" in made.cli("drop").stdout


@pytest.mark.quick
def test_the_parts_alone_in_any_order(mariadb: Server, scenario: Make, tmp_path: Path) -> None:
    """apply first, then load without capture, load killed, capture killed, apply killed: then all again."""
    made = scenario(mariadb, *SCHEMA, *fill(5))
    with Writer(made.source, seed=2, rate=40):
        apply = made.start("apply")
        load = made.start("load")
        wait_until(lambda: made.states(), 100, "the load has begun", load.tail, load)
        load.kill()
        rule_31_nothing_is_lost_with_them(made)
        assert apply.is_alive and '"phase": "streaming"' not in apply.stderr
        rule_12_the_trail_is_held_for_whoever_needs_it(made, {"hold"}, {"hold", "reader"})
        capture = made.start("capture")
        assert made.cli("load", seconds=200).code == 0
        rule_11_a_second_capture_is_refused(made, capture)
        made.wait_streaming(apply)
        rule_12_the_trail_is_held_for_whoever_needs_it(made, {"reader"})
        capture.kill()
        apply.kill()
        assert made.is_quick or (made.home / "spark" / "checkpoint").is_dir()
        rule_31_nothing_is_lost_with_them(made)
        capture, apply = made.start("capture"), made.start("apply")
        made.sync(apply, seconds=120)
    rule_09_a_second_apply_takes_over(made, apply)
    made.sync()
    made.assert_identical()
    capture.stop()


def rule_12_the_trail_is_held_for_whoever_needs_it(made: Scenario, *kinds: set[str]) -> None:
    """A load that began, also one that was killed, holds it at its lowest mark; apply is a reader from its start on."""
    assert {reader.kind for reader in retention.readers(made.trail).values()} in kinds


def rule_11_a_second_capture_is_refused(made: Scenario, first: Running) -> None:
    second = made.cli("capture", code=7, seconds=60)
    assert str(first.pid) in second.stderr and first.is_alive


def rule_09_a_second_apply_takes_over(made: Scenario, first: Running) -> None:
    """The first finds out within seconds, though nothing changes."""
    owner = made.checkpoint()[0]
    second = made.start("apply")
    wait_until(lambda: made.checkpoint()[0] != owner, 120, "the second owns the checkpoint", second.tail, second)
    assert first.wait(60).code == 6, first.tail()
    assert "owner" in first.stderr
    made.sync(second)
