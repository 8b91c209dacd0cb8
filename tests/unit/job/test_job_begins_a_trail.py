"""The first part of a job makes the trail's place."""

from __future__ import annotations

from pathlib import Path

import pytest

from anabranch.errors import TrailError
from anabranch.job import ends


def test_whoever_comes_second_gets_the_uuid_of_the_first(tmp_path: Path) -> None:
    trail = tmp_path / "home" / "trail"
    first = ends._agreed_uuid(trail)
    assert ends._agreed_uuid(trail) == first
    assert [path.name for path in trail.iterdir()] == ["uuid"]


def test_a_place_where_no_trail_can_be_is_an_error_of_ours(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    for place in (tmp_path / "file", tmp_path / "file" / "trail"):
        with pytest.raises(TrailError) as refused:
            ends._agreed_uuid(place)
        assert str(place) in refused.value.message and refused.value.hint
