"""`[pair]` of the job file: what two jobs between the same tables may say, and what a pair cannot have."""

from __future__ import annotations

from pathlib import Path

import pytest

from anabranch.config import JobConfig, load_job
from anabranch.errors import ConfigError
from anabranch.model.column_changes import APPLY, PARK, STOP, THERE, ColumnChange
from anabranch.model.ids import TableId

TABLE = TableId("public", "orders")
PAIR = '[pair]\nsite = "berlin"\nother = "paris"\nwinner = "berlin"\ntwin = "back"\nnewest_by = "changed_at"\n'
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


def load(tmp_path: Path, text: str) -> JobConfig:
    (tmp_path / "job.toml").write_text(text)
    return load_job(tmp_path / "job.toml", {})


def test_rule_23_a_pair_names_two_sites_and_its_twin(tmp_path: Path) -> None:
    pair = load(tmp_path, JOB + PAIR).pair
    assert pair is not None
    assert (pair.site, pair.other, pair.winner, pair.twin) == ("berlin", "paris", "berlin", "back")
    assert pair.deletes == "newest" and load(tmp_path, JOB).pair is None


MISFITS = {
    "winner is neither": (PAIR.replace('winner = "berlin"', 'winner = "rome"'), "'rome' is neither site nor other"),
    "one site": (PAIR.replace('other = "paris"', 'other = "berlin"'), "site and other are both"),
    "deletes": (PAIR + 'deletes = "always"\n', "deletes"),
    "itself": (PAIR.replace('twin = "back"', 'twin = "shop"'), "twin is the job itself"),
    "left out": (PAIR.replace('twin = "back"', 'twin = "other"'), 'leave_out = ["anabranch:other"]'),
    "no column": (PAIR.replace('newest_by = "changed_at"\n', ""), "newest_by"),
    "policy": (PAIR + '[apply]\non_conflict = "source_wins"\n', "on_conflict beside"),
    "triggers": (PAIR + '[apply]\ntriggers = "fire"\n', "triggers"),
    "aside": (PAIR + '[apply]\non_error = "set_aside"\n', "set_aside"),
    "appliers": (PAIR + '[apply]\nmode = "transaction"\nappliers = 2\n', "appliers beside [pair]"),
    "empty": (PAIR + '[load]\nexisting = "empty"\n', "existing"),
    "keep": (PAIR + '[load]\nexisting = "keep"\n', "existing"),
    "policy of a table": (PAIR + '[[tables]]\nname = "public.t"\non_conflict = "target_wins"\n', "of public.t"),
    "policy by site": (PAIR + '[[tables]]\nname = "public.t"\non_conflict = "source_wins"\n', 'wins = "SITE" in both'),
    "no site": (PAIR + '[[tables]]\nname = "public.t"\nwins = "rome"\n', 'wins = "rome" of public.t is no site'),
    "a sum": (PAIR + '[[tables]]\nname = "public.t"\nwins = "paris"\ndelta = ["n"]\n', "wins and delta of public.t"),
    "filter": (PAIR + '[[tables]]\nname = "public.t"\nwhere = "id > 1"\n', "where of public.t"),
    "no site of changes": (PAIR + 'ddl_from = "rome"\n', "ddl_from 'rome' is neither site nor other"),
    "columns without a site": (PAIR + '[ddl]\nadd_column = "apply"\n', 'or [pair] ddl_from = "SITE"'),
    "ask": (PAIR + 'ddl_from = "paris"\n[ddl]\nadd_column = "ask"\n', 'add_column = "ask" beside [pair]'),
    "other kinds": (PAIR + 'ddl_from = "paris"\n[ddl]\ndrop_column = "keep"\n', 'drop_column = "keep" beside [pair]'),
    "drop": (PAIR + '[[tables]]\nname = "public.t"\ncolumns.drop = ["v"]\n', "columns.drop of public.t"),
}


@pytest.mark.parametrize(("text", "words"), MISFITS.values(), ids=MISFITS)
def test_rule_23_what_cannot_be_shown_to_become_equal_is_refused(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load(tmp_path, JOB + text)
    assert words in "; ".join(map(str, refused.value.problems))


def test_rule_23_a_site_wins_in_a_pair_only(tmp_path: Path) -> None:
    table = '[[tables]]\nname = "public.t"\nwins = "paris"\n'
    assert load(tmp_path, JOB + PAIR + table).tables[0].wins == "paris"
    with pytest.raises(ConfigError) as refused:
        load(tmp_path, JOB + table)
    assert "wins of public.t without [pair]" in str(refused.value.problems[0])


def test_rule_23_columns_are_added_up_in_a_pair_only(tmp_path: Path) -> None:
    table = '[[tables]]\nname = "public.t"\ndelta = ["stock"]\n'
    config = load(tmp_path, JOB + PAIR + table)
    assert config.tables[0].delta == ["stock"]
    with pytest.raises(ConfigError) as refused:
        load(tmp_path, JOB + table)
    assert "delta of public.t without [pair]" in str(refused.value.problems[0])


def test_rule_23_columns_come_from_the_declared_site_alone(tmp_path: Path) -> None:
    """Each job follows them: one makes them, and the other looks for them. Nothing else is followed."""
    found = {}
    for site in ("berlin", "paris"):
        config = load(tmp_path, f'{JOB}{PAIR}ddl_from = "{site}"\n')
        actions = config.column_actions(TABLE)
        assert config.followed_changes(TABLE) == config.followed_anywhere == {ColumnChange.ADD}
        found[site] = actions.of(ColumnChange.ADD)
        assert actions.of(ColumnChange.TYPE) == PARK
    assert found == {"berlin": APPLY, "paris": THERE}
    stops = load(tmp_path, f'{JOB}{PAIR}ddl_from = "paris"\n[ddl]\nadd_column = "stop"\n').column_actions(TABLE)
    assert stops.of(ColumnChange.ADD) == STOP
    assert not load(tmp_path, JOB + PAIR).followed_changes(TABLE)
