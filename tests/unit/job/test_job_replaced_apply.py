"""An apply whose trail is gone behind it says that another one took over, where that is why."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from anabranch import connectors
from anabranch.config import load_job
from anabranch.connectors.memory.database import database, forget
from anabranch.contracts import ValueRules
from anabranch.errors import Fenced, TrailError
from anabranch.job import Job, parts
from anabranch.model.ids import TableId
from anabranch.model.position import Position
from anabranch.model.table_life import TableState
from anabranch.spark.engine import Epochs
from anabranch.trail.writer import TrailWriter
from anabranch.view.opened import target_of

TABLE = TableId("shop", "a")


class Gone:
    """An engine whose trail was dropped while `before` happened."""

    def __init__(self, before: Callable[[], object]) -> None:
        self.before = before

    def warm_up(self) -> None: ...

    def follow(self, *_: Any) -> Epochs:
        self.before()
        raise TrailError("reader reader is at sequence 4, the trail starts at 8")


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    file = tmp_path / "job.toml"
    at = '[source]\nurl = "memory:///replaced_source"\n[target]\nurl = "memory:///replaced_target"\n'
    file.write_text(f'name = "shop"\n{at}[[rules]]\ninclude = ["shop.*"]\n')
    made = Job(load_job(file, {"ANABRANCH_HOME": str(tmp_path)}), file)
    identity = database("replaced_source").identity
    with TrailWriter.open(made.trail, job="shop", job_uuid="u", source_identity=identity, pack=False) as trail:
        trail.flush()
    store = target_of(made).store()
    store.prepare()
    store.save_table("shop", TableState(TABLE, TABLE, "parked"), None)
    store.create_checkpoint("shop", Position(0, ""), 0)
    yield made
    forget()


def test_who_was_replaced_says_so_and_not_what_it_misses(job: Job) -> None:
    def take_over() -> None:
        other = connectors.target(job.config.target.endpoint).writer(ValueRules(), False)
        other.claim("shop", "another")

    with pytest.raises(Fenced):
        parts.run_apply(job, Gone(take_over))


def test_a_trail_that_is_gone_for_who_was_not_replaced_is_told_as_it_is(job: Job) -> None:
    with pytest.raises(TrailError, match="the trail starts at 8"):
        parts.run_apply(job, Gone(lambda: None))
