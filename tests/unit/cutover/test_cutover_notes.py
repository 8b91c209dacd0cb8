"""A cut-over by its notes: who writes, what comes next, what may be taken back."""

from __future__ import annotations

from typing import Any

import pytest

from anabranch.cutover.report import CutoverReport
from anabranch.model.cutover import STEPS, Cutover, CutoverNote, Phase, Step

WHO = {"user": "ann", "host": "db1", "pid": 1, "release": "0.1.0"}


def noted(*steps: tuple[Step, Phase] | tuple[Step, Phase, dict[str, Any]]) -> Cutover:
    return Cutover.of(
        [
            CutoverNote(n, one[0], one[1], n * 1_000_000, one[2] if len(one) > 2 else WHO)
            for n, one in enumerate(steps, 1)
        ]
    )


def through(last: Step) -> list[tuple[Step, Phase]]:
    found = [(Step.BEGIN, Phase.BEGINS)]
    for step in STEPS[: STEPS.index(last) + 1]:
        found += [(step, Phase.BEGINS), (step, Phase.DONE)]
    return found


def test_without_notes_nothing_has_begun() -> None:
    found = Cutover.of([])
    assert not found.is_under_way and not found.holds_apply and found.next is None and found.last == 0
    assert CutoverReport("shop", found).to_json()["state"] == "not begun"


@pytest.mark.parametrize("last", STEPS[:-1])
def test_pitfall_74_each_step_says_who_writes(last: Step) -> None:
    found = noted(*through(last))
    words = found.who_writes()
    is_fenced, is_flipped = STEPS.index(last) >= STEPS.index(Step.FENCE), STEPS.index(last) >= STEPS.index(Step.FLIP)
    assert words.startswith("the target takes writes") == is_flipped
    assert words.startswith("nobody writes") == (is_fenced and not is_flipped)
    assert words.startswith("the source takes writes") == (not is_fenced)
    assert found.is_fenced == is_fenced and found.holds_apply == (STEPS.index(last) >= STEPS.index(Step.HOLD))
    assert found.next == STEPS[STEPS.index(last) + 1]


def test_pitfall_74_a_fence_that_may_have_been_raised_counts_as_one() -> None:
    assert noted(*through(Step.LAG), (Step.FENCE, Phase.BEGINS)).is_fenced


def test_pitfall_74_a_flip_whose_end_nobody_knows_is_neither() -> None:
    found = noted(*through(Step.REVERSE), (Step.FLIP, Phase.BEGINS))
    assert found.is_flip_unknown and not found.is_flipped and "nobody knows how it ended" in found.who_writes()
    failed = noted(*through(Step.REVERSE), (Step.FLIP, Phase.BEGINS), (Step.FLIP, Phase.FAILED))
    assert not failed.is_flip_unknown and failed.is_fenced and failed.next == Step.FLIP


def test_what_was_taken_back_holds_nothing_and_the_next_one_counts_on() -> None:
    aborted = noted(*through(Step.HOLD), (Step.ABORT, Phase.BEGINS), (Step.ABORT, Phase.DONE))
    assert aborted.is_aborted and not aborted.is_fenced and not aborted.holds_apply and aborted.next is None
    half = noted(*through(Step.HOLD), (Step.ABORT, Phase.BEGINS))
    assert half.is_to_be_taken_back and half.is_fenced and half.holds_apply
    again = noted(*through(Step.HOLD), (Step.ABORT, Phase.BEGINS), (Step.ABORT, Phase.DONE), *through(Step.LAG))
    assert again.is_under_way and again.next == Step.FENCE and again.last == 14


def test_the_report_has_times_downtime_and_alarms() -> None:
    row = {"table": "shop.item", "operation": "insert", "key": {"id": "1"}, "position": "7@x", "commit_time": 0}
    steps: list[Any] = [*through(Step.FLIP), (Step.GRACE, Phase.BEGINS), (Step.GRACE, Phase.ALARM, row)]
    steps += [(Step.GRACE, Phase.DONE, {"alarms": 1}), (Step.REPORT, Phase.DONE)]
    report = CutoverReport("shop", noted(*steps))
    found = report.to_json()
    assert (found["state"], found["downtime_seconds"], found["alarms"]) == ("finished", 15.0, [row])
    assert [one["step"] for one in found["steps"]] == [*STEPS]
    text = report.to_markdown()
    assert (
        "**15.000 s**" in text and "insert shop.item {'id': '1'} at 7@x" in text and "Asked for by ann on db1" in text
    )


def test_a_report_tells_where_the_fence_is_open() -> None:
    report = CutoverReport("shop", noted(*through(Step.DRAIN)), ("read_only is OFF at the source",))
    assert report.to_json()["gaps"] == ["read_only is OFF at the source"]
    assert "**The fence is not known to hold**: read_only is OFF at the source." in report.to_markdown()


def test_the_report_names_what_does_not_act_at_the_target_apart() -> None:
    """Notes of a release that did not look say nothing of it."""
    facts = {
        "not_built": [],
        "triggers_lacking": [{"table": "public.item", "source": "shop.item", "trigger": name} for name in ("a", "b")],
        "triggers_off": [{"table": "public.item", "trigger": name, "do": "ALTER 1"} for name in ("c", "c", "e")],
        "unproven": [{"table": "public.item", "what": "check d is NOT VALID", "do": "ALTER 2"}],
        "unseen": [{"end": "source", "table": "shop.log", "why": "no right", "do": "GRANT 3"}],
    }
    steps = through(Step.COUNTERS)
    text = CutoverReport("shop", noted(*steps, (Step.CONSTRAINTS, Phase.DONE, facts))).to_markdown()
    apart = "What does not act at the target as at the source:"
    row, lines = next(line for line in text.splitlines() if "| constraints" in line), text.split(apart)[1].splitlines()
    assert row.endswith("| not_built: [] |")
    assert [line.split(": ")[0] for line in lines if line.startswith("- ")] == [
        "- public.item has no triggers a, b of the name, which shop.item has at the source",
        "- an application does not fire triggers c, e of public.item",
        "- check d is NOT VALID, of public.item",
        "- triggers of shop.log at the source are not known",
    ]
    before = CutoverReport("shop", noted(*steps, (Step.CONSTRAINTS, Phase.DONE, {"not_built": []})))
    assert apart not in before.to_markdown()
