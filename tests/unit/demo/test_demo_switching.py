"""The cut-over's demo: what it prints, how its application is led, and what it writes where a job has made the tables."""

from __future__ import annotations

import subprocess
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from anabranch.demo.application import Way
from anabranch.demo.pipeline import Pipeline
from anabranch.demo.run import run_demo
from anabranch.demo.shop import End
from anabranch.demo.switching import NEW, OLD, SwitchSummary, form_for
from anabranch.demo.words import words_at_target
from anabranch.demo.writer import Totals
from anabranch.errors import ConfigError
from anabranch.testing.databases import Database
from anabranch.testing.servers import Server

EQUAL: dict[str, Any] = {"identical": True, "rows_source": 30_000, "pending": 2}
SWITCHED: dict[str, Any] = {"state": "finished", "downtime_seconds": 1.24, "alarms": []}


def summary() -> SwitchSummary:
    compared = {"identical": True, "tables": [EQUAL, EQUAL], "parked": []}
    written, lost = {OLD: 4_000, NEW: 900}, {OLD: 0, NEW: 0}
    return SwitchSummary(SWITCHED, SWITCHED, compared, compared, Totals(4_900, 0, 0), [2.0, 3.0], 70, written, lost)


def test_the_summary_of_a_good_way_there_and_back() -> None:
    good = summary()
    assert good.exit_code == 0
    assert good.lines() == [
        "beside it   2 of 2 tables compared and equal while the application wrote, 4 rows pending",
        "there       finished, downtime 1.2 s; 2.0 s between two commits of the application; alarms: 0",
        "back        finished, downtime 1.2 s; 3.0 s between two commits of the application; alarms: 0",
        "the writer  4,000 transactions committed at the old side, 900 at the new one; 70 tries refused by a fence",
        "lost        0 at the old side, 0 at the new one",
        "identical:  2 of 2 tables (60,000 rows compared)",
    ]


@pytest.mark.parametrize(
    "bad",
    [
        {"lost": {OLD: 0, NEW: 1}},
        {"there": SWITCHED | {"alarms": [{"table": "orders"}]}},
        {"back": SWITCHED | {"state": "aborted"}},
        {"at_end": {"identical": False, "tables": [EQUAL | {"identical": False}], "parked": []}},
        {"at_end": {"identical": True, "tables": [], "parked": []}},
    ],
)
def test_what_is_lost_alarmed_taken_back_or_not_equal_is_a_failure(bad: dict[str, Any]) -> None:
    assert replace(summary(), **bad).exit_code == 4


def test_the_flip_command_leads_the_application_and_may_be_run_twice(tmp_path: Path) -> None:
    way = Way(tmp_path, OLD)
    for side in (NEW, NEW, OLD):
        subprocess.run(way.flip(side), check=True)
        assert way.side() == side


@pytest.mark.parametrize(
    ("target", "options"), [("postgresql", {"json": "json"}), ("mysql", {"json": "text"}), ("mariadb", None)]
)
def test_the_job_leaves_out_its_way_back_and_the_table_without_a_key(
    target: str, options: dict[str, str] | None, tmp_path: Path
) -> None:
    source, end = (
        End(Database(Server(one, "1", "127.0.0.1", 1, "root", ""), "shop"), "secret") for one in ("mariadb", target)
    )
    made = Pipeline.write(tmp_path, source, end, {}, form_for(end))
    job = tomllib.loads(made.job_file.read_text())
    assert job["source"]["leave_out"] == ["anabranch:shop-reverse"]
    assert job["rules"][0]["exclude"] == ["shop.event_log"]
    assert job["target"].get("options") == options
    assert "secret" not in made.job_file.read_text()


def test_words_for_tables_that_a_job_has_made_of_a_mariadbs() -> None:
    words = words_at_target("postgresql")
    assert (words.interests(0), words.interests(5), words.flags(6)) == ("", "garden,sport", "00000110")
    assert words_at_target("mysql").interests(5) == 5


def test_a_shop_that_does_not_come_back_from_everywhere_is_refused() -> None:
    with pytest.raises(ConfigError, match="arrays and ranges") as refused:
        run_demo(source="postgresql", scenario="cutover")
    assert refused.value.hint == "anabranch demo --scenario cutover --source mariadb"
