"""What is noted of a job's life, and its way to the targets."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import pytest
import structlog

from anabranch import log, pace
from anabranch.cli import main as shell
from anabranch.cli.trace import line
from anabranch.config import load_job
from anabranch.connectors.memory.database import forget
from anabranch.connectors.memory.target.store import MemoryStore
from anabranch.errors import SourceUnavailable, StateError, TargetUnavailable
from anabranch.job import Job, shipping
from anabranch.job.shipping import Shipper
from anabranch.job.watching import part
from anabranch.model.condition import STATES
from anabranch.pace import Pace
from anabranch.state.trace import Trace, entries
from anabranch.testing.in_time import until
from anabranch.view.opened import target_of


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Job]:
    monkeypatch.setenv("ANABRANCH_HOME", str(tmp_path))
    file = tmp_path / "job.toml"
    targets = "".join(f'[[targets]]\nname = "{name}"\nurl = "memory:///trace-{name}"\n' for name in ("north", "south"))
    file.write_text(f'name = "shop"\n[source]\nurl = "memory:///s"\n{targets}[[rules]]\ninclude = ["shop.*"]\n')
    made = Job(load_job(file), file)
    made.config.home.mkdir()
    yield made
    forget()
    structlog.reset_defaults()


def events(job: Job) -> list[tuple[str, str]]:
    return [(entry["task"], entry["event"]) for entry in entries(job.config.home)]


def known(job: Job, *names: str) -> None:
    for name in names:
        store = target_of(job.on(name)).store()
        store.prepare()
        store.save_job("shop", {"uuid": "u"})


def sent(job: Job, name: str) -> list[str]:
    return [entry["event"] for entry in target_of(job.on(name)).store().trace("shop")]


def test_the_life_of_a_part_with_its_states_warnings_and_error(job: Job) -> None:
    log.configure("error", json=True)
    with pytest.raises(SourceUnavailable), part(job, "capture") as state:
        state.phase("streaming")
        state.phase("streaming", "the same")
        state.phase("waiting", "source lost", "source", {"code": "source_unavailable", "side": "source"})
        log.get().warning("part_restarts", part="apply", code=-9)
        log.get().info("capture_follows")
        log.get(table="shop.a").info("table_forgotten", why="dropped at the source")
        log.get().warning("waiting_for_others", waits_for="a lock")
        raise SourceUnavailable("no line")
    found = list(entries(job.config.home))
    assert [entry["event"] for entry in found] == [
        "part_started",
        "state",
        "state",
        "part_restarts",
        "table_forgotten",
        "waiting_for_others",
        "part_failed",
    ]
    assert {entry["task"] for entry in found} == {"shop/capture"}
    told = [(entry["state"], entry["sub_state"]) for entry in found if "state" in entry]
    assert told == [
        ("starting", "parts"),
        ("streaming", "working"),
        ("waiting", "source"),
        ("waiting", "others"),
        ("failed", "source"),
    ]
    assert all(sub_state in STATES[state] for state, sub_state in told)
    assert found[2]["code"] == found[6]["code"] == "source_unavailable" and "no line" in found[6]["message"]


def test_details_are_noted_while_somebody_wants_them_and_never_shown(
    job: Job, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a start in between; also where nothing but errors is shown. The thread that brings the trace to a target
    notes nothing of its own work: each batch would make the next one."""
    log.configure("error", json=True)
    monkeypatch.setattr(pace, "current", Pace(part_beat=0.0))

    def wait_for(level: bool, times: int) -> None:
        """The level is another one before that is noted, and the part's end does not wait for its thread without a BEAT."""
        until(lambda: events(job).count(("shop/capture", "trace_level")) == times, "the level is noted")
        assert log.is_detailed() is level

    with part(job, "capture"):
        log.get().debug("before")
        job.record("debug")
        assert job.recorded() == "debug"
        wait_for(True, 1)
        for _ in range(3):
            log.get().debug("statement", sql="SELECT …")
        quiet = threading.Thread(target=lambda: log.get().debug("statement", sql="INSERT"), name="anabranch-trace-x")
        quiet.start()
        quiet.join()
        job.record("info")
        wait_for(False, 2)
        log.get().debug("after")
    found = list(entries(job.config.home))
    assert [e["facts"]["sql"] for e in found if e["event"] == "statement"] == ["SELECT …"] * 3
    assert {e["level"] for e in found if e["event"] == "statement"} == {"debug"}
    told = [e["event"] for e in found if e["event"] not in ("statement", "part_started", "part_ended", "state")]
    assert told == ["command", "trace_level", "command", "trace_level"]
    assert "SELECT" not in capsys.readouterr().err


def test_a_level_outlasts_the_parts_and_wants_a_home(job: Job, capsys: pytest.CaptureFixture[str]) -> None:
    log.configure("error", json=True)
    assert shell.exit_code(["trace", str(job.path), "--record", "debug"]) == 0
    with part(job, "capture"):
        assert log.is_detailed()
    assert not log.is_detailed() and job.recorded() == "debug"
    assert shell.exit_code(["trace", str(job.path), "--record", "warning"]) == 2
    shutil.rmtree(job.config.home)
    assert shell.exit_code(["trace", str(job.path), "--record", "debug"]) == 7
    assert "there is no home" in capsys.readouterr().err and not job.config.home.exists()


def test_a_part_that_died_is_told_of_by_the_next_one(job: Job) -> None:
    import os
    import subprocess
    import sys

    from anabranch.state.store import StateStore

    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    StateStore(job.config.home).part("capture", dead.pid, os.uname().nodename)
    with part(job, "capture"):
        pass
    assert [event for _, event in events(job)] == ["part_died", "part_started", "part_ended"]
    died = next(entries(job.config.home))
    assert (died["state"], died["sub_state"], died["code"]) == ("died", "gone", "part_died")


def test_each_target_gets_what_is_its_own_and_of_the_job_once(job: Job) -> None:
    known(job, "north", "south")
    Trace(job.config.home, "shop/capture").note("info", "of_all")
    for name in ("north", "south"):
        Trace(job.config.home, f"shop/apply/{name}").note("info", f"of_{name}")
    for _ in range(2):
        for name in ("north", "south"):
            Shipper(job.on(name)).close()
    assert sent(job, "north") == ["of_all", "of_north"] and sent(job, "south") == ["of_all", "of_south"]
    Trace(job.config.home, "shop/capture").note("info", "later")
    Shipper(job.on("north")).close()
    assert sent(job, "north") == ["of_all", "of_north", "later"] and sent(job, "south") == ["of_all", "of_south"]


def test_a_target_that_is_away_or_unknown_gets_it_later_and_holds_up_nobody(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What happened while the answer to a batch was lost comes again, and is there once."""
    Trace(job.config.home, "shop/run").note("info", "first")
    Shipper(job.on("north")).close()
    assert sent(job, "north") == []
    known(job, "north")
    add, met = MemoryStore.add_trace, list[int]()

    def lost(store: MemoryStore, name: str, some: Sequence[Mapping[str, Any]], oldest: str) -> bool:
        met.append(len(some))
        add(store, name, some, oldest)
        raise TargetUnavailable("the answer was lost")

    with monkeypatch.context() as broken:
        broken.setattr(MemoryStore, "add_trace", lost)
        Shipper(job.on("north")).close()
    assert met == [1]
    Trace(job.config.home, "shop/run").note("info", "second")
    Shipper(job.on("north")).close()
    assert sent(job, "north") == ["first", "second"]


def test_a_trace_of_many_batches(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shipping, "LAST_S", 60.0)
    known(job, "north")
    made = Trace(job.config.home, "shop/run")
    for number in range(1200):
        made.note("info", f"e{number}")
    Shipper(job.on("north")).close()
    assert len(sent(job, "north")) == 1200


def test_what_is_too_old_goes_from_the_target(job: Job) -> None:
    known(job, "north")
    store = target_of(job.on("north")).store()
    assert store.add_trace("shop", [{"id": "00000000000000000001-1-1", "event": "old"}], "")
    Trace(job.config.home, "shop/run").note("info", "new")
    Shipper(job.on("north")).close()
    assert sent(job, "north") == ["new"]


def test_commands_that_change_something_are_noted_with_who_asked_also_those_that_fail(job: Job) -> None:
    job.reset_counters()
    with pytest.raises(StateError):
        job.on("north").rewind("7", execute=True)
    with pytest.raises(StateError):
        job.on("north").rewind("7")
    first, second = entries(job.config.home)
    assert (first["event"], first["message"]) == ("command", "status reset_counters") and first["facts"]["user"]
    assert (second["event"], second["code"], second["level"]) == ("command_failed", "state", "error")
    assert second["message"].startswith("rewind position=7 execute: ") and second["facts"]["target"] == "north"


def test_the_verb_shows_it(job: Job, capsys: pytest.CaptureFixture[str]) -> None:
    made = Trace(job.config.home, "shop/apply/north")
    made.note("info", "state", "", state="streaming", sub_state="working")
    made.note("error", "part_failed", "refused", code="row_refused", side="target", table="shop.a")

    def shown(*arguments: str) -> str:
        assert shell.exit_code(["trace", str(job.path), *arguments]) == 0
        return click.unstyle(capsys.readouterr().out)

    whole = shown().splitlines()
    assert len(whole) == 2 and whole[0].endswith("info     shop/apply/north  state  streaming/working")
    assert whole[1].endswith("part_failed  [row_refused] refused table=shop.a")
    assert shown("--level", "error").splitlines() == whole[1:] == shown("--limit", "1").splitlines()
    assert shown("--since", "1h").splitlines() == whole and shown("--since", "2100-01-01") == ""
    found = json.loads(shown("--json", "--level", "error"))
    assert (found["version"], found["job"]) == (1, "shop") and found["entries"][0]["code"] == "row_refused"
    assert shown("--at-target", "--target", "north") == ""
    assert shell.exit_code(["trace", str(job.path), "--since", "yesterday"]) == 2


def test_a_line_says_how_often_the_same_was_met() -> None:
    entry = {
        "at": "2026-01-01T00:00:00.000000Z",
        "level": "warning",
        "task": "shop/apply",
        "event": "target_lost",
        "message": "no\nline",
        "facts": {"repeated": 1200, "retry_in": 10},
    }
    shown = "2026-01-01T00:00:00.000000Z  warning  shop/apply        target_lost  no line retry_in=10"
    expected = f"{shown} (and 1,200 times before)"
    assert click.unstyle(line(entry)) == expected


def test_what_is_logged_changes_while_a_part_runs(
    job: Job, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """More or less than the part was told, and back; what the trace takes stays as it is."""
    log.configure("warning", json=True)
    monkeypatch.setattr(pace, "current", Pace(part_beat=0.0))

    def told() -> int:
        return [event for _, event in events(job)].count("log_level")

    with part(job, "capture"):
        log.get().info("hidden_before")
        job.show_log("debug")
        until(lambda: told() == 1, "the level is taken up")
        log.get().debug("seen_debug")
        assert log.is_detailed()
        job.show_log("error")
        until(lambda: told() == 2, "the level is taken up")
        log.get().warning("hidden_warning")
        job.show_log("")
        until(lambda: told() == 3, "the level is taken up")
        log.get().warning("seen_warning")
    shown = capsys.readouterr().err
    assert "seen_debug" in shown and "seen_warning" in shown and "hidden" not in shown
    assert "hidden_warning" in [event for _, event in events(job)]
    assert "seen_debug" not in [event for _, event in events(job)]
    assert shell.exit_code(["trace", str(job.path), "--log", "info"]) == 0
    assert "info and above, until --log usual" in capsys.readouterr().out
    with part(job, "capture"):  # one that starts later begins with it
        log.get().info("seen_info")
    assert "seen_info" in capsys.readouterr().err
    assert shell.exit_code(["trace", str(job.path), "--log", "usual"]) == 0
    assert not (job.config.home / "trace" / "shown").exists()
