"""Job files with a trail at an end: what they say, and what they cannot say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from anabranch.config import load_job
from anabranch.config.hops import Hop
from anabranch.errors import ConfigError
from anabranch.job import Job

DATABASE = {"source": "mysql://u:p@127.0.0.1:3306", "target": "postgresql://u:p@127.0.0.1:5432/shop"}
RULES = '[[rules]]\ninclude = ["shop.*"]\n'


def written(path: Path, text: str = "", **ends: str) -> Path:
    urls = DATABASE | ends
    lines = [f'[{end}]\nurl = "{url}"' for end, url in urls.items()]
    path.write_text("\n".join(['name = "shop"', *lines, RULES, text]))
    return path


@pytest.mark.parametrize(("end", "hop"), [("target", Hop.CAPTURE), ("source", Hop.APPLY)])
def test_a_trail_at_an_end_makes_a_hop(end: str, hop: Hop, tmp_path: Path) -> None:
    job = Job.from_file(written(tmp_path / "shop.toml", **{end: "trail+file:///srv/trails/shop/"}))
    assert job.config.hop is hop
    assert job.trail == Path("/srv/trails/shop")
    assert (job.captures, job.applies) == (hop is Hop.CAPTURE, hop is Hop.APPLY)
    assert re.fullmatch("apply" if hop is Hop.CAPTURE else "apply@shop[.][0-9a-f]{8}", job.names.apply)


def test_a_job_between_databases_has_a_trail_of_its_own(tmp_path: Path) -> None:
    job = Job.from_file(written(tmp_path / "shop.toml"))
    assert job.config.hop is None and job.trail == job.config.home / "trail"
    assert job.streams_by == ("capture", "apply")


@pytest.mark.parametrize(
    "url", ["trail+file://host/x", "trail+file://", "trail+file:///", "trail+file:///a/../b", "trail+file:///a?x=1"]
)
def test_a_url_that_names_no_directory_is_refused(url: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        load_job(written(tmp_path / "shop.toml", target=url))
    assert "trail+file:///DIRECTORY/NAME" in str(refused.value.problems[0])


CAPTURE = {"target": "trail+file:///srv/t"}
APPLY = {"source": "trail+file:///srv/t"}


@pytest.mark.parametrize(
    ("ends", "text", "said"),
    [
        (CAPTURE, '[apply]\nmode = "transaction"', "[apply] mode"),
        (CAPTURE, '[types.map]\n"int" = "bigint"', "[types] map"),
        (CAPTURE, '[[tables]]\nname = "shop.t"\nwhere = "id > 1"', "[[tables]] where of shop.t"),
        (CAPTURE, '[[tables]]\nname = "shop.t"\ncolumns = { rename = { a = "b" } }', "[[tables]] rename of shop.t"),
        (CAPTURE, '[load]\nexisting = "empty"', '[load] existing = "empty"'),
        (APPLY, "[trail]\nload_limit_gb = 1", "[trail] load_limit_gb"),
        ({}, "[trail]\nload_limit_gb = 0.5", "[trail] load_limit_gb"),
        (APPLY, "[trail]\nload_retain_hours = 1", "[trail] load_retain_hours"),
        ({}, "[trail]\nload_retain_hours = 1", "[trail] load_retain_hours"),
        (CAPTURE, "[trail]\nload_retain_hours = 0", "load_retain_hours"),
        (CAPTURE, "[trail]\nload_limit_gb = 0", "load_limit_gb"),
        (CAPTURE, "[reverse]\nenabled = true", "[reverse] beside a trail"),
        (APPLY, "[capture]\nsegment_mb = 8", "[capture] segment_mb"),
        (APPLY, '[load]\nexisting = "take_over"', '[load] existing = "take_over"'),
        (APPLY | CAPTURE, "", "a [source] url that is a trail"),
        (APPLY | {"target": "kafka://127.0.0.1:9092"}, "", "a target that keeps changes"),
    ],
)
def test_what_belongs_to_the_other_job_is_refused(ends: dict[str, str], text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        load_job(written(tmp_path / "shop.toml", text, **ends))
    assert any(said in str(problem) for problem in refused.value.problems), refused.value.problems


def test_what_decides_about_values_and_columns_may_stand_where_is_captured(tmp_path: Path) -> None:
    text = '[types]\nnul = "strip"\n[[tables]]\nname = "shop.t"\ncolumns = { drop = ["x"] }'
    assert load_job(written(tmp_path / "shop.toml", text, **CAPTURE)).hop is Hop.CAPTURE
