"""What the target's table lacks of one that is to join."""

from __future__ import annotations

from pathlib import Path

from anabranch import connectors
from anabranch.config import load_job
from anabranch.job import Job
from anabranch.lifecycle.joining_target import AtTarget
from anabranch.model.ids import TableId
from anabranch.model.table_facts import Facts
from anabranch.model.table_life import TableState
from anabranch.view.opened import source_of

A = TableId("shop", "a")


def test_a_table_lacks_what_came_later_unless_the_job_leaves_it_out_by_now(tmp_path: Path) -> None:
    file = tmp_path / "job.toml"
    both = '[source]\nurl = "memory:///lacks"\n[target]\nurl = "memory:///lacks_there"\n'
    state = TableState(A, A, "streaming", facts=Facts(left_out=("note", "more")))
    for settings, lacks in (
        ("", ("note", "more")),
        ('[[tables]]\nname = "shop.a"\ncolumns = { drop = ["note"] }\n', ("more",)),
    ):
        file.write_text(f'name = "shop"\n{both}[[rules]]\ninclude = ["shop.*"]\n{settings}')
        job = Job(load_job(file, {"ANABRANCH_HOME": str(tmp_path)}), file)
        there = AtTarget(job, source_of(job), connectors.row_target(job.endpoint))
        assert there.lacks(A, state) == lacks and there.lacks(A, None) == ()
