"""Test what a drill says before it makes anything: its exit code, its text, its options, and how it gives way to others."""

from __future__ import annotations

import io
import threading
import tomllib

import pytest

from anabranch.connectors.sql.giving_way import giving_way
from anabranch.errors import SourceUnavailable
from anabranch.job.drill_plan import DrillPlan, room_of
from anabranch.model.checks import CheckResult, CheckVerdict
from anabranch.model.ids import TableId
from anabranch.rules.reverse_file import drill_file
from anabranch.rules.way_back import TableBack, WayBack
from anabranch.testing.in_time import until

COPIES = (("shop.a", "anabranch_drill_shop.a"),)


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 bytes"), (999, "999 bytes"), (1500, "1.5 kB"), (2 * 10**15, "2000.0 TB")]
)
def test_room_is_told_for_people(size: int, text: str) -> None:
    assert room_of(size) == text


@pytest.mark.parametrize(("verdict", "code"), [(CheckVerdict.WARNING, 0), (CheckVerdict.FAILED, 3)])
def test_a_plan_names_copies_room_and_what_is_found(verdict: CheckVerdict, code: int) -> None:
    found = CheckResult("drill.log", verdict, "it stands in the log", "--logged takes that")
    plan, text = DrillPlan("shop", "anabranch_drill_shop", COPIES, 1500, (found,)), io.StringIO()
    plan.write(text)
    assert plan.exit_code == code and ("1.5 kB" in text.getvalue()) is (code == 0)
    assert found.message in text.getvalue() and found.hint in text.getvalue() and COPIES[0][1] in text.getvalue()
    assert plan.to_json()["tables"] == [{"source": "shop.a", "shadow": "anabranch_drill_shop.a"}]


def test_the_file_of_a_drill_has_the_options_that_its_shadow_needs() -> None:
    raw = {"name": "shop", "source": {"url": "mysql://u:p@a"}, "target": {"url": "mysql://u:p@b"}}
    back = WayBack((TableBack(TableId("x", "a"), TableId("y", "a"), is_made=True),), {}, ())
    made = tomllib.loads(drill_file(raw, back, "written", {"sql_log_bin": False}))
    assert made["target"] == {"url": "mysql://u:p@a", "options": {"sql_log_bin": False}}
    assert "options" not in tomllib.loads(drill_file(raw, back, "written"))["target"]


def test_a_statement_ends_for_somebody_who_waits_and_for_nobody_else() -> None:
    ended = threading.Event()
    with giving_way(lambda: True, ended.set) as has_given_way:
        until(ended.is_set, "it is ended")
    assert has_given_way.is_set()
    asked, is_awaited = threading.Event(), iter([True, True, False, True, True, False])

    def in_passing() -> bool:
        try:
            return next(is_awaited)
        except StopIteration:
            asked.set()
            return False

    with giving_way(in_passing, ended.clear) as has_given_way:
        until(asked.is_set, "it has looked often")
    assert ended.is_set() and not has_given_way.is_set()


def test_nobody_is_given_way_to_where_the_server_does_not_say_who_waits() -> None:
    asked = threading.Event()

    def refuses() -> bool:
        asked.set()
        raise SourceUnavailable("no right")

    with giving_way(refuses, lambda: None) as has_given_way:
        until(asked.is_set, "it was asked")
    assert not has_given_way.is_set()
