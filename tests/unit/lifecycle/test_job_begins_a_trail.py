"""The first part of a job makes the trail's place."""

from __future__ import annotations

from pathlib import Path

import pytest

from anabranch.config import load_job
from anabranch.errors import SourceUnavailable, TrailError
from anabranch.job import Job
from anabranch.trail import identity
from anabranch.trail.storage import LocalStorage
from anabranch.trail.writer import TrailWriter
from anabranch.view.definitions import logs_cascades
from anabranch.view.identity import agreed_uuid
from anabranch.view.opened import source_of


def test_whoever_comes_second_gets_the_uuid_of_the_first(tmp_path: Path) -> None:
    trail = tmp_path / "home" / "trail"
    first = agreed_uuid(trail)
    assert agreed_uuid(trail) == first
    assert [path.name for path in trail.iterdir()] == ["uuid"]


def test_a_place_where_no_trail_can_be_is_an_error_of_ours(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    for place in (tmp_path / "file", tmp_path / "file" / "trail"):
        with pytest.raises(TrailError) as refused:
            agreed_uuid(place)
        assert str(place) in refused.value.message and refused.value.hint


def test_whether_the_source_logs_cascades_is_known_while_it_is_away(tmp_path: Path) -> None:
    """Apply needs it to start, and nothing else of the source."""
    file = tmp_path / "job.toml"
    both = '[source]\nurl = "mariadb://u:p@127.0.0.1:9"\n[target]\nurl = "memory:///b"\n'
    file.write_text(f'name = "shop"\n{both}[[rules]]\ninclude = ["shop.*"]\n')
    job = Job(load_job(file, {"ANABRANCH_HOME": str(tmp_path)}), file)
    source = source_of(job)
    with pytest.raises(SourceUnavailable):
        logs_cascades(job, source)
    with TrailWriter.open(job.trail, job="shop", job_uuid="u", source_identity="s", pack=False) as trail:
        with pytest.raises(SourceUnavailable):
            logs_cascades(job, source)
        for answer in (True, False):
            trail.note_cascades(answer)
            assert logs_cascades(job, source) is answer
        trail.adopt_identity("another")
    with TrailWriter.open(job.trail, job="shop", job_uuid="u", source_identity="another", pack=False):
        assert logs_cascades(job, source) is False
    found = identity.load(LocalStorage(job.trail))
    assert found and (found.source_identity, found.logs_cascades) == ("another", False)
