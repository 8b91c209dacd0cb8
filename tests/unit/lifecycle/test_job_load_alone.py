"""`load` alone says at its end which tables it leaves parked; under `run` that is `run`'s to say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from anabranch.config import load_job
from anabranch.connectors.memory.database import database, forget
from anabranch.connectors.memory.target.store import MemoryStore
from anabranch.errors import TablesParked
from anabranch.job import Job
from anabranch.job.signals import SUPERVISED
from anabranch.lifecycle.beginning import begin_trail_if_none, open_trail, prepare_target
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.schema import Column, TableSchema
from anabranch.model.table_life import TableState
from anabranch.trail.identity import load as identity
from anabranch.trail.storage import LocalStorage

A = TableId("shop", "a")


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    """Its one table was parked by capture before its load was through."""
    file = tmp_path / "job.toml"
    both = '[source]\nurl = "memory:///load_alone"\n[target]\nurl = "memory:///loaded_alone"\n'
    file.write_text(f'name = "shop"\n{both}[[rules]]\ninclude = ["shop.*"]\n')
    made, source = Job(load_job(file, {"ANABRANCH_HOME": str(tmp_path)}), file), database("load_alone")
    source.create(TableSchema(A, (Column("id", LogicalType(Kind.INT64), "bigint", nullable=False),), ("id",)))
    begin_trail_if_none(made)
    found = identity(LocalStorage(made.trail))
    assert found
    with open_trail(made, found.source_identity, found.job_uuid) as trail:
        trail.park(A, "its columns were altered at the source")
        trail.flush()
    store = MemoryStore(database("loaded_alone"))
    prepare_target(made, store)
    store.save_table("shop", TableState(A, A, "pending"), None)
    yield made
    forget()


def state() -> str:
    return MemoryStore(database("loaded_alone")).tables("shop")[A].state


def test_load_alone_ends_with_8_where_tables_are_parked(job: Job) -> None:
    with pytest.raises(TablesParked, match=r"1 tables are parked: shop\.a") as told:
        job.load()
    assert told.value.exit_code == 8 and told.value.hint and state() == "parked"


def test_under_run_the_load_is_done(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SUPERVISED, "1")
    monkeypatch.setattr("anabranch.job.signals.Stop._watch_supervisor", lambda stop: None)
    job.load()
    assert state() == "parked"
