"""`[ddl]` of the job file: what becomes of changes that it says nothing of."""

from __future__ import annotations

from pathlib import Path

import pytest

from anabranch.config import JobConfig, load_job
from anabranch.errors import ConfigError
from anabranch.model.column_changes import APPLY, UNSAID, ColumnChange
from anabranch.model.ids import TableId

JOB = """\
name = "shop"
[source]
url = "postgresql://a@127.0.0.1/shop"
leave_out = ["anabranch:back"]
[target]
url = "mysql://b@127.0.0.1"
[[rules]]
include = ["public.*"]
"""
PAIR = '[pair]\nsite = "berlin"\nother = "paris"\nwinner = "berlin"\ntwin = "back"\nnewest_by = "changed_at"\n'
ITEM = TableId("public", "item")
ADDITIVE = {ColumnChange.ADD, ColumnChange.TYPE}


def load(tmp_path: Path, text: str = "") -> JobConfig:
    (tmp_path / "job.toml").write_text(JOB + text)
    return load_job(tmp_path / "job.toml", {})


def test_what_adds_to_a_table_is_applied_and_all_else_parks(tmp_path: Path) -> None:
    job = load(tmp_path)
    assert job.followed_changes(ITEM) == ADDITIVE == job.followed_anywhere
    assert job.column_actions(ITEM).actions == {**UNSAID, **dict.fromkeys(ADDITIVE, APPLY)}
    job = load(tmp_path, '[ddl]\nadd_column = "park"\ndrop_column = "keep"\n')
    assert job.followed_changes(ITEM) == {ColumnChange.DROP, ColumnChange.TYPE} == job.followed_anywhere
    assert (job.column_actions(ITEM).of(ColumnChange.ADD), job.column_actions(ITEM).of(ColumnChange.DROP)) == (
        "park",
        "keep",
    )


RULES = """
[ddl]
action = "stop"
add_column = "park"
drop_column = "keep"

[[ddl.rules]]
tables = ["public.audit_*"]
add_column = "apply_if_exact"

[[ddl.rules]]
tables = ["public.audit_all", "public.own"]
action = "apply"
nullability = "park"
"""


def test_the_first_rule_that_matches_a_table_decides_before_the_section(tmp_path: Path) -> None:
    job = load(tmp_path, RULES)

    def of(table: str) -> dict[str, str]:
        said = job.column_actions(TableId("public", table))
        return {str(kind): f"{said.of(kind)} by {said.said[kind]}" for kind in ColumnChange if kind in said.said}

    rest = dict.fromkeys(("rename_column", "nullability", "column_default", "change_type"), "stop by [ddl]")
    usual = {"add_column": "park by [ddl]", "drop_column": "keep by [ddl]", **rest}
    assert of("item") == usual
    assert of("audit_all") == of("audit_x") == usual | {"add_column": "apply_if_exact by [[ddl.rules]] 1"}
    assert of("own") == dict.fromkeys(usual, "apply by [[ddl.rules]] 2") | {"nullability": "park by [[ddl.rules]] 2"}
    assert ColumnChange.ADD in job.followed_anywhere and ColumnChange.ADD not in job.followed_changes(ITEM)


WRONG = {
    "a kind's own": ('add_column = "keep"', "line 10, [ddl] add_column", "apply_if_exact"),
    "rows that nobody knows": ('partitions = "apply"', "line 10, [ddl] partitions", "keep"),
    "no such action": ('action = "keep"', "line 10, [ddl] action", "park"),
    "rule without tables": ('[[ddl.rules]]\naction = "park"', "line 10, ", "tables"),
    "of a rule": ('[[ddl.rules]]\ntables = ["a.b"]\nnullability = "ignore"', "line 12, ", "stop"),
    "no glob": ('[[ddl.rules]]\ntables = ["item"]', "line 11, ", "two parts"),
}


@pytest.mark.parametrize(("text", "place", "expected"), WRONG.values(), ids=WRONG)
def test_what_a_kind_does_not_take_is_said_with_what_it_takes(
    tmp_path: Path, text: str, place: str, expected: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        load(tmp_path, f"[ddl]\n{text}\n")
    assert place in str(refused.value) and expected in str(refused.value)


def test_a_pair_parks_whatever_is_changed(tmp_path: Path) -> None:
    assert load(tmp_path, PAIR).column_actions(ITEM).actions == UNSAID
    assert not load(tmp_path, f'{PAIR}[ddl]\nadd_column = "park"\n').followed_changes(ITEM)
    for setting in (
        'add_column = "apply"',
        'indexes = "apply"',
        'unique_keys = "apply"',
        'drop_column = "keep"',
        'partitions = "keep"',
        'create_table = "apply"',
        'online_swap = "apply"',
    ):
        with pytest.raises(ConfigError) as refused:
            load(tmp_path, f"{PAIR}[ddl]\n{setting}\n")
        assert f"{setting} beside [pair]" in str(refused.value)
    with pytest.raises(ConfigError) as refused:
        load(tmp_path, f'{PAIR}[[ddl.rules]]\ntables = ["public.own"]\nadd_column = "apply"\n')
    assert '[[ddl.rules]] add_column = "apply" beside [pair]' in str(refused.value)


def test_a_kind_is_followed_everywhere_if_no_rule_says_otherwise(tmp_path: Path) -> None:
    """A source that tells whether columns take NULL tells it of all tables."""
    job = load(tmp_path, RULES)
    assert ColumnChange.NULLABILITY not in job.followed_everywhere and ColumnChange.DROP in job.followed_everywhere
    job = load(tmp_path, '[ddl]\nnullability = "apply"\n[[ddl.rules]]\ntables = ["public.own"]\nadd_column = "park"\n')
    assert job.followed_everywhere == {ColumnChange.NULLABILITY, ColumnChange.TYPE}


def test_a_way_back_parks_what_its_file_does_not_name(tmp_path: Path) -> None:
    """It would alter the tables that the application may return to. The job there goes on."""
    (tmp_path / "job.toml").write_text(
        JOB.replace('name = "shop"', 'name = "back-reverse"') + '[ddl]\ndrop_column = "keep"\n'
    )
    job = load_job(tmp_path / "job.toml", {})
    assert job.is_way_back and job.followed_changes(ITEM) == {ColumnChange.DROP} == job.followed_anywhere
    assert not load(tmp_path).is_way_back
