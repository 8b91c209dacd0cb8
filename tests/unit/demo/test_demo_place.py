"""The demo's directory: made afresh, never taken from somebody else, one demo at a time."""

from __future__ import annotations

from pathlib import Path

import pytest

from anabranch.demo import place
from anabranch.errors import ConfigError


def test_an_earlier_demos_directory_is_made_afresh(tmp_path: Path) -> None:
    with place.demo_directory(tmp_path) as directory:
        assert directory == tmp_path / ".anabranch" / "demo"
        (directory / "mariadb" / "data").mkdir(parents=True)
        (directory / "shop.toml").write_text("name = 'shop'")
        (directory / "link").symlink_to(tmp_path)
    with place.demo_directory(tmp_path) as directory:
        assert [entry.name for entry in directory.iterdir()] == [place.MARK]
    assert (tmp_path / ".anabranch").is_dir()


def test_the_home_of_a_job_called_demo_is_left_alone(tmp_path: Path) -> None:
    trail = tmp_path / ".anabranch" / "demo" / "trail"
    trail.mkdir(parents=True)
    with pytest.raises(ConfigError, match="was not made by the demo"), place.demo_directory(tmp_path):
        pass
    assert trail.is_dir()


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    elsewhere = place.make_afresh(tmp_path / "elsewhere")
    (tmp_path / ".anabranch").mkdir()
    (tmp_path / ".anabranch" / "demo").symlink_to(elsewhere)
    with pytest.raises(ConfigError, match="was not made by the demo"), place.demo_directory(tmp_path):
        pass
    assert (elsewhere / place.MARK).exists()


def test_a_second_demo_in_the_same_place_is_refused(tmp_path: Path) -> None:
    with place.demo_directory(tmp_path) as directory:
        (directory / "running").touch()
        with pytest.raises(ConfigError, match="another demo runs"), place.demo_directory(tmp_path):
            pass
        assert (directory / "running").exists()


def test_it_can_be_removed_when_it_is_over(tmp_path: Path) -> None:
    with place.demo_directory(tmp_path) as directory:
        place.remove_own(directory)
        assert not directory.exists()
