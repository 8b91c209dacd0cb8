"""The server that a source is, as the trail at another site tells it."""

from __future__ import annotations

from pathlib import Path

from anabranch.config import load_job
from anabranch.job import Job
from anabranch.job.verifying_elsewhere import server_there
from anabranch.trail.writer import TrailWriter


def test_a_server_that_took_over_is_known_where_its_trail_has_come(tmp_path: Path) -> None:
    file = tmp_path / "job.toml"
    both = '[source]\nurl = "mariadb://u:p@127.0.0.1:9"\n[target]\nurl = "memory:///b"\n'
    file.write_text(f'name = "shop"\n{both}[[rules]]\ninclude = ["shop.*"]\n')
    job = Job(load_job(file, {"ANABRANCH_HOME": str(tmp_path)}), file)
    assert server_there(job) == ""
    with TrailWriter.open(job.trail, job="shop", job_uuid="u", source_identity="s", pack=False) as trail:
        assert server_there(job) == ""
        for name in ("another", "one more"):
            trail.adopt_identity(name)
            assert server_there(job) == name
