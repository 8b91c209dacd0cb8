"""A job whose tables stand begins without a load: at the source's place of now, by steps that may be repeated."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from anabranch import failpoints
from anabranch.cli.main import exit_code
from anabranch.config import load_job
from anabranch.connectors.memory.database import database, forget
from anabranch.errors import ConfigError, StateError
from anabranch.failpoints import VARIABLE, FailpointReached
from anabranch.job import Job
from anabranch.job.parts import run_load
from anabranch.lifecycle.arming import Armed, arm
from anabranch.lifecycle.beginning import open_trail
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.schema import Column, TableSchema
from anabranch.model.table_life import Life, TableState
from anabranch.trail import identity, retention
from anabranch.trail.storage import LocalStorage
from anabranch.view.opened import target_of
from anabranch.view.refusals import refuse_unarmed
from rigs.chunks import chunk_of

NUMBER = Column("id", LogicalType(Kind.INT64), "bigint", nullable=False)
ITEMS, OTHERS = (TableSchema(TableId("there", name), (NUMBER,), ("id",)) for name in ("items", "others"))
STANDING = '[load]\nexisting = "take_over"\n'


def job_of(directory: Path, more: str = STANDING) -> Job:
    file = directory / "back.toml"
    ends = '[source]\nurl = "memory:///new"\n[target]\nurl = "memory:///old"\n'
    rules = '[[rules]]\ninclude = ["there.*"]\ntarget = "here.{table}"\n'
    file.write_text(f'name = "shop-reverse"\n{ends}{rules}{more}')
    return Job(load_job(file, {"ANABRANCH_HOME": str(directory)}), file)


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    for schema in (ITEMS, OTHERS):
        database("new").create(schema)
    yield job_of(tmp_path)
    failpoints.arm({})
    forget()


def states(job: Job) -> dict[TableId, TableState]:
    with closing(target_of(job).store()) as store:
        return store.states.tables(job.config.name)


def is_whole(job: Job, armed: Armed) -> bool:
    found = states(job)
    with closing(target_of(job).store()) as store:
        checkpoint = store.jobs.checkpoint(job.config.name)
    assert checkpoint is not None and checkpoint.position == armed.position
    assert {table: state.target for table, state in found.items()} == {
        ITEMS.id: TableId("here", "items"),
        OTHERS.id: TableId("here", "others"),
    }
    held = retention.readers(job.trail)
    assert held.keys() == {job.names.apply} and held[job.names.apply].sequence == armed.position.sequence
    return all(state.state is Life.STREAMING and state.is_built and state.schema for state in found.values())


def test_its_tables_stream_from_the_place_of_now(job: Job) -> None:
    armed = arm(job)
    assert armed.tables == (ITEMS.id, OTHERS.id) and not armed.was_armed
    assert is_whole(job, armed)
    again = arm(job)
    assert again.was_armed and again.position == armed.position and is_whole(job, again)
    refuse_unarmed(job)


@pytest.mark.parametrize(
    "place", ["capture.begin.read", "capture.begin.noted", "trail.register", "trail.register=raise@2"]
)
def test_one_that_was_killed_goes_on_when_it_is_called_again(job: Job, place: str) -> None:
    """Before and behind the trail's first position, before its tables are recorded, behind its checkpoint."""
    failpoints.arm({VARIABLE: place if "=" in place else f"{place}=raise"})
    with pytest.raises(FailpointReached):
        arm(job)
    has_begun = place.endswith("@2")
    if not has_begun:
        with pytest.raises(StateError, match="not armed"):
            refuse_unarmed(job)
    armed = arm(job)
    assert armed.was_armed == has_begun and is_whole(job, armed)


def test_tables_that_stream_without_a_checkpoint_are_not_armed_yet(job: Job) -> None:
    """The last step of all is the checkpoint: whoever finds it finds the tables."""
    arm(job)
    with closing(target_of(job).store()) as store:
        database("old").job(job.config.name).checkpoint = None
        assert store.jobs.checkpoint(job.config.name) is None
    with pytest.raises(StateError, match="not armed"):
        refuse_unarmed(job)
    armed = arm(job)
    assert not armed.was_armed and is_whole(job, armed)


@pytest.mark.parametrize(
    ("change", "said"), [("alter", "there.items was altered"), ("park", "there.items is parked: dropped")]
)
def test_tables_that_changed_between_two_calls_are_refused(job: Job, change: str, said: str) -> None:
    """The rows of such a trail begin with the definition that the tables had at the first call."""
    failpoints.arm({VARIABLE: "trail.register=raise"})
    with pytest.raises(FailpointReached):
        arm(job)
    failpoints.arm({})
    known = identity.load(LocalStorage(job.trail))
    assert known is not None
    with open_trail(job, known.source_identity, known.job_uuid) as trail:
        trail.append(replace(chunk_of([[("items", "i", {"id": 1})]], (ITEMS,)), resume=trail.end.resume))
        if change == "park":
            trail.park(ITEMS.id, "dropped")
        else:
            trail.schema(ITEMS.with_version(2))
        trail.flush()
    with pytest.raises(StateError, match=said):
        arm(job)
    assert states(job) == {}


def test_only_a_job_of_standing_tables_is_armed_and_such_a_job_never_loads(job: Job, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="without a load"):
        arm(job_of(tmp_path, more=""))
    with pytest.raises(StateError, match="not armed"):
        run_load(job, [], recreate=False)
    with pytest.raises(ConfigError, match="never loads them") as refused:
        run_load(job, [ITEMS.id], recreate=False)
    assert "anabranch drop JOB --execute, and then anabranch reverse and anabranch arm" in refused.value.hint
    assert states(job) == {}


def test_the_command_says_from_where_and_whether_it_was_armed(
    job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ANABRANCH_HOME", str(tmp_path))
    assert exit_code(["arm", str(job.path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found == {"version": 1, "position": "0@0", "tables": ["there.items", "there.others"], "was_armed": False}
    assert exit_code(["arm", str(job.path)]) == 0
    assert "was armed already: changes behind 0@0 go to 2 tables" in capsys.readouterr().out
    job_of(tmp_path, more="")
    assert exit_code(["arm", str(job.path)]) == 2
