"""Tell what a changed job file takes before it holds: the next command, the next start of parts, a decision, another job."""

from __future__ import annotations

from pathlib import Path

import pytest

from anabranch.config import JobConfig, parse_job
from anabranch.config.effects import EVERY, READ_BY, Effect, When, effects

JOB = """\
name = "shop"
[source]
url = "mysql://a:one@127.0.0.1/shop"
[target]
url = "postgresql://b@127.0.0.1/shop"
[[rules]]
include = ["shop.*"]
[[tables]]
name = "shop.orders"
where = "id > 7"
[[tables]]
name = "shop.lines"
on_conflict = "stop"
[apply]
on_conflict = "stop"
"""
TABLES = ("load", "apply")


def _effects(after: str, before: str = JOB) -> list[Effect]:
    old, new = ((text, parse_job(text, Path("job.toml"), {})) for text in (before, after))
    return effects(old, new)


def test_every_section_of_a_job_has_its_readers() -> None:
    assert set(READ_BY) | {"name", "rules"} == set(JobConfig.model_fields)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ('[apply]\non_conflict = "stop"', "[apply]", Effect("[apply] on_conflict", When.NEXT_START, TABLES)),
        ("[apply]", "[capture]\nretain_hours = 3\n[apply]", Effect("[capture] retain_hours", When.NEXT_START, ("capture",))),
        ("[apply]", "[cutover]\nmax_lag = 3\n[apply]", Effect("[cutover] max_lag", When.NEXT_COMMAND)),
        (":one@", ":two@", Effect("[source] url", When.NEXT_START, EVERY)),
        ("127.0.0.1/shop\"\n[target]", "127.0.0.2/shop\"\n[target]", Effect("source", When.ANOTHER_JOB)),
        ('"shop"\n[source]', '"sale"\n[source]', Effect("name", When.ANOTHER_JOB)),
        ('["shop.*"]', '["shop.*", "old.*"]', Effect("rule 1 include", When.DECISION)),
        ("id > 7", "id > 8", Effect("table shop.orders where", When.DECISION)),
        ('"shop.lines"', '"shop.lines"\nwhere = "id = 1"', Effect("table shop.lines where", When.DECISION)),
        ('lines"\non_conflict = "stop"', 'lines"', Effect("table shop.lines on_conflict", When.NEXT_START, TABLES)),
        ("[[rules]]", '[target.options]\njson = "json"\n[[rules]]', Effect("[target.options] json", When.DECISION)),
        ("[apply]", '[types.map]\n"*.*.j" = "text"\n[apply]', Effect("[types] map", When.DECISION)),
        ("[apply]", '[types]\nnul = "strip"\n[apply]', Effect("[types] nul", When.NEXT_START, EVERY)),
        ("[apply]", '[types]\njson = "json"\n[apply]', Effect("[target.options] json", When.DECISION)),
        ("[apply]", '[apply]\non_error = "park"', Effect("[apply] on_error", When.NEXT_START, EVERY)),
        ("[apply]", '[load]\nlock = "table"\n[apply]', Effect("[load] lock", When.NEXT_START, TABLES)),
        ("127.0.0.1/shop\"\n[[rules]]", "127.0.0.2/shop\"\n[[rules]]", Effect("[target] url", When.ANOTHER_TARGET)),
        ("b@127", "c@127", Effect("[target] url", When.NEXT_START, EVERY)),
        ("id > 7\"", "id > 7\"\n[tables.columns.zero_date]\ntype = \"null\"", Effect(
            "table shop.orders columns zero_date type", When.NEXT_START, EVERY)),
    ],
)  # fmt: skip
def test_what_one_change_takes(before: str, after: str, expected: Effect) -> None:
    assert before in JOB
    changed = JOB.replace(before, after, 1)
    assert _effects(changed) == [expected]
    assert [one.when for one in _effects(JOB, changed)] == [expected.when], "the same the other way round"


def test_an_option_that_moves_to_the_place_of_today_takes_nothing() -> None:
    former = JOB.replace("[apply]", '[types]\njson = "json"\n[apply]')
    assert _effects(JOB.replace("[[rules]]", '[target.options]\njson = "json"\n[[rules]]'), former) == []


def test_what_is_made_once_is_another_job() -> None:
    """Objects at the source, and the form of the messages in a topic."""
    there = JOB.replace("mysql:", "postgresql:", 1)
    decoder = there.replace("[target]", '[source.options]\ndecoder = "wal2json"\n[target]')
    assert _effects(decoder, there) == [Effect("[source.options] decoder", When.ANOTHER_JOB)]
    kafka = JOB.replace("postgresql://b@127.0.0.1/shop", "kafka://127.0.0.1").replace(
        '[apply]\non_conflict = "stop"\n', ""
    )
    kafka = kafka.replace('where = "id > 7"\n', "").replace('on_conflict = "stop"\n', "")
    said = kafka.replace("[[rules]]", "[target.options]\npartitions = 7\n[[rules]]", 1)
    assert _effects(said, kafka) == [Effect("[target.options] partitions", When.ANOTHER_JOB)]


def test_a_target_among_several_that_goes_is_let_go_by_plan() -> None:
    one, other = (
        '[[targets]]\nname = "a"\nurl = "postgresql://b@h/a"\n',
        '[[targets]]\nname = "b"\nurl = "postgresql://b@h/b"\n',
    )
    base = JOB.replace('[target]\nurl = "postgresql://b@127.0.0.1/shop"\n', one)
    both = base.replace(one, one + other)
    assert {one.when for one in _effects(both, base)} == {When.NEXT_START}
    assert _effects(base, both) == [Effect("[[targets]] b", When.DECISION)]
    options = base.replace(one, one + '[targets.options]\njson = "json"\n')
    assert _effects(options, base) == [Effect("[target.options] json", When.DECISION)]


def test_what_has_only_moved_takes_nothing() -> None:
    orders, lines = (
        '[[tables]]\nname = "shop.orders"\nwhere = "id > 7"\n',
        '[[tables]]\nname = "shop.lines"\non_conflict = "stop"\n',
    )
    assert orders + lines in JOB
    assert _effects(JOB.replace(orders + lines, lines + orders) + "# a remark\n") == []


def test_what_is_said_names_no_value_and_says_what_to_do() -> None:
    (told,) = _effects(JOB.replace("a:one@", "a:secret@"))
    assert str(told) == "[source] url: holds when capture, load and apply start again"
    (told,) = _effects(JOB.replace("id > 7", "id > 8"))
    assert "anabranch plan JOB --execute" in str(told) and "8" not in str(told)
