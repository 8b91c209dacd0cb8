"""A job as Attunity's tables show it: its states in their words, and what their configuration says in place of the job file."""

from __future__ import annotations

from pathlib import Path

import pytest

from anabranch.config import load_job
from anabranch.errors import ConfigError
from anabranch.job.attunity_state import condition_of
from anabranch.job.children import Child
from anabranch.model.condition import STATES
from anabranch.model.status import StateStatus
from anabranch.view.attunity import Noted, batched, overlaid

JOB = """
name = "shop"
[source]
url = "postgresql://a@127.0.0.1/shop"
[target]
url = "postgresql://b@127.0.0.1/changes"
form = "change_tables"
[[rules]]
include = ["shop.*"]
target = "public.{table}"
[compat]
attunity = true
"""
WORDS = {
    ("streaming", "idle"): ("RUNNING", "IDLE", True, False),
    ("streaming", "working"): ("RUNNING", "PROCESSING", True, False),
    ("starting", "parts"): ("RUNNING", "PROCESSING", True, False),
    ("waiting", "source"): ("SUSPENDED", "DISCONNECTED", True, True),
    ("waiting", "room"): ("SUSPENDED", "STORAGE", True, True),
    ("waiting", "part"): ("SUSPENDED", "LOGGER", True, True),
    ("waiting", "capture"): ("RUNNING", "PROCESSING", True, False),
    ("stopped", "in_order"): ("STOPPED", "", False, False),
    ("died", "gone"): ("ABORTED", "", False, True),
    ("failed", "job"): ("ERROR", "MISCONFIGURED", False, True),
    ("failed", "source"): ("ERROR", "MISCONFIGURED", False, True),
}


def state(name: str, sub: str, detail: str = "") -> StateStatus:
    return StateStatus(name, sub, detail, None, True, None)


@pytest.mark.parametrize(("ours", "theirs"), WORDS.items(), ids=lambda one: "-".join(map(str, one)))
def test_states_have_attunitys_words(ours: tuple[str, str], theirs: tuple[str, str, bool, bool]) -> None:
    found = condition_of(state(*ours))
    assert (found.status, found.sub_status, found.active, found.error) == theirs


def test_every_state_has_one_and_a_refused_login_has_its_own() -> None:
    for name, subs in STATES.items():
        for sub in subs:
            assert condition_of(state(name, sub)).status
    told = 'cannot connect: password authentication failed for user "repl"'
    assert condition_of(state("failed", "source", told)).sub_status == "PASSWORD-REQUIRED"
    assert condition_of(state("failed", "job", told)).sub_status == "MISCONFIGURED"


def test_what_the_row_says_is_in_place_of_the_job_file(tmp_path: Path) -> None:
    file = tmp_path / "shop.toml"
    file.write_text(JOB)
    config = load_job(str(file), {}, lambda text: None)
    options: dict[str, int | bool | str] = {
        "sql_reconnect_limit": 3,
        "source_reconnect_interval": 7,
        "source_connection_timeout": 9,
        "target_command_timeout": 60,
        "cdc_restart_limit": -1,
        "target_idle_lsn_update_interval": 5,
        "CDC_stop_on_breaking_schema_changes": True,
        "target_max_batched_transactions": 4,
    }
    seen = Noted("digest", 2, 0, 77, 33, options)
    found = overlaid(config, seen)
    assert (found.capture.memory_limit_mb, found.capture.transaction_staging_timeout_s) == (77, 33)
    assert (found.retry.target.limit, found.retry.target.statement_s) == (3, 60)
    assert (found.retry.source.interval_s, found.retry.source.connect_s) == (7, 9)
    assert found.retry.restarts_per_hour == -1 and found.ddl.action == "stop"
    assert vars(found.target_options())["heartbeat_s"] == 5
    assert batched(seen) == 4
    assert config.retry.target.limit == -1 and vars(config.target_options())["heartbeat_s"] == 300
    assert overlaid(config, Noted("d", 1, 0, 50, 120)) == config, "what is not said is of the job file"
    assert overlaid(config, Noted("d", 1, 0, -1, 0)) == config, "nor what a former release has noted unchecked"


def test_the_tables_need_change_tables(tmp_path: Path) -> None:
    file = tmp_path / "shop.toml"
    file.write_text(JOB.replace('form = "change_tables"\n', ""))
    with pytest.raises(ConfigError, match="attunity"):
        load_job(str(file), {}, lambda text: None)


def test_a_part_that_is_renewed_starts_again_and_has_not_died() -> None:
    child = Child("apply", ["/bin/sleep", "600"])
    child.poll(0.0)
    first = child.process
    assert first is not None
    child.renew(9)
    first.wait()
    child.poll(0.0)
    try:
        assert child.process is not None and child.process.pid != first.pid
        assert (child.restarted, len(child.restarts), child.restarts_per_hour) == (0, 0, 9)
    finally:
        child.stop()
        child.end(0.0)
