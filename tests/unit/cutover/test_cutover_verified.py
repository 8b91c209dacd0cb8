"""The check whether tables were found equal lately, and sums of both ends in a cut-over's report."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, cast

import pytest

from anabranch.cutover.report import report_of
from anabranch.cutover.terms import Terms
from anabranch.cutover.verified import CHECK, HOUR, verified
from anabranch.job.at_fence import told
from anabranch.model.checks import CheckResult, CheckVerdict
from anabranch.model.cutover import Cutover, CutoverNote, Phase, Step, Verifies, given_back
from anabranch.model.ids import TableId
from anabranch.model.table_life import TableState
from anabranch.model.verified import Verified, VerifiedBy, VerifiedPlace
from anabranch.verify.report import TableResult, Verification

ITEM, DRAFT = TableId("shop", "item"), TableId("shop", "draft")
NOW = 1_000 * HOUR
EQUAL = Verified(ITEM, NOW, NOW - 2 * HOUR, "identical", 1, ("", ""), 3, 0, 0, is_complete=True)
OK, WARNING, FAILED = CheckVerdict.OK, CheckVerdict.WARNING, CheckVerdict.FAILED


def looked(
    *results: Verified, within: int = 0, verifies: Verifies = Verifies.NOT, flip: CutoverNote | None = None
) -> list[CheckResult]:
    """Return what is said of two tables that stream and one that is parked."""
    nobody = cast(Any, None)
    terms = Terms([], 0, 0, 0, 0, nobody, verifies, False, nobody, False, nobody, within)
    states = {
        table: cast(TableState, State(is_streaming))
        for table, is_streaming in ((ITEM, True), (DRAFT, True), (TableId("shop", "parked"), False))
    }
    found = list(verified(terms, states, results, flip, NOW))
    assert {one.check for one in found} == {CHECK}
    return found


class State:
    """The two facts of a table that are asked for."""

    generation = 1

    def __init__(self, is_streaming: bool) -> None:
        self.is_streaming = is_streaming


def test_the_oldest_result_is_a_warning_without_a_bound() -> None:
    (found,) = looked(EQUAL, replace(EQUAL, source=DRAFT, began=NOW - 30 * HOUR))
    assert found.verdict is WARNING and found.message.endswith("the oldest result is 30.0 hours old: shop.draft")


def test_an_older_result_than_the_bound_fails_by_name_and_a_younger_one_is_ok() -> None:
    results = EQUAL, replace(EQUAL, source=DRAFT, began=NOW - 30 * HOUR)
    (found,) = looked(*results, within=24)
    assert found.verdict is FAILED and found.names == ("shop.draft",) and "longer ago than 24 hours" in found.message
    (found,) = looked(*results, within=31)
    assert found.verdict is OK and "30.0 hours old" in found.message


@pytest.mark.parametrize(
    "no_result",
    [
        {"result": "different"},
        {"result": "pending"},
        {"generation": 0},
        {"sample": "5%"},
        {"is_complete": False},
        {"source": ITEM},
    ],
    ids=str,
)
@pytest.mark.parametrize(("within", "verdict"), [(0, WARNING), (24, FAILED)])
def test_a_table_without_a_result_that_holds_is_named(
    no_result: dict[str, Any], within: int, verdict: CheckVerdict
) -> None:
    found = looked(EQUAL, replace(EQUAL, **{"source": DRAFT, **no_result}), within=within)
    assert [one.verdict for one in found if one.names] == [verdict] and found[0].names == ("shop.draft",)
    assert "--watch" in found[0].hint


@pytest.mark.parametrize("began", [EQUAL.began, NOW + HOUR // 8], ids=["a clock", "a clock that is ahead"])
def test_a_result_of_a_verification_that_can_go_on_counts_by_the_notes_that_it_knew(began: int) -> None:
    by = VerifiedBy(1, "digest", "server", 6)
    results = [replace(EQUAL, source=table, began=began, by=by) for table in (ITEM, DRAFT)]
    for number, verdict in ((6, OK), (7, FAILED)):
        (found,) = looked(*results, within=24, flip=CutoverNote(number, Step.FLIP, Phase.BEGINS, NOW - 1))
        assert found.verdict is verdict


def test_the_target_is_the_jobs_alone_behind_the_end_of_an_abort() -> None:
    steps = [
        (Step.BEGIN, Phase.BEGINS),
        (Step.FLIP, Phase.BEGINS),
        (Step.ABORT, Phase.BEGINS),
        (Step.ABORT, Phase.DONE),
    ]
    notes = [CutoverNote(number, step, phase, number) for number, (step, phase) in enumerate(steps, 1)]
    assert [given_back(notes[:length]) for length in range(5)] == [None, None, None, None, notes[3]]
    begun = CutoverNote(3, Step.BEGIN, Phase.BEGINS, 3)
    assert given_back([*notes[:2], begun]) == begun and given_back([notes[0], notes[3]]) is None


@pytest.mark.parametrize("place", [None, VerifiedPlace("5@x", "trail", "digest", 6)], ids=["no place", "a place"])
def test_a_result_from_before_a_flip_says_nothing_of_the_target_behind_it(place: VerifiedPlace | None) -> None:
    """Also of a flip that was taken back: the application may have written at the target."""
    results = [replace(EQUAL, source=table, place=place) for table in (ITEM, DRAFT)]
    flip = CutoverNote(7, Step.FLIP, Phase.BEGINS, EQUAL.began + 1)
    (found,) = looked(*results, within=24, flip=flip)
    assert found.verdict is FAILED and found.names == ("shop.draft", "shop.item")
    later = replace(flip, number=6, at=EQUAL.began - 1)
    (found,) = looked(*results, within=24, flip=later)
    assert found.verdict is OK


def test_a_result_by_a_clock_that_is_ahead_does_not_pass_for_a_new_one() -> None:
    results = replace(EQUAL, began=NOW + 72 * HOUR), replace(EQUAL, source=DRAFT)
    (found,) = looked(*results, within=24)
    assert found.verdict is FAILED and found.names == ("shop.item",) and "a clock that is ahead" in found.message


@pytest.mark.parametrize("verifies", [Verifies.SINCE_WATCH, Verifies.WHOLE])
def test_a_cut_over_that_compares_at_the_fence_needs_no_result(verifies: Verifies) -> None:
    (found,) = looked(within=24, verifies=verifies)
    assert found.verdict is OK


def test_the_sums_of_both_ends_are_in_the_note_and_in_both_forms_of_the_report() -> None:
    sums = "blake2b:00aa", "blake2b:00ab"
    result = TableResult("shop.item", "shop.item", 3, 4, True, others=1, digests=sums)
    _, facts = told("job", [], Verification((result, replace(result, source="shop.draft", digests=()))), {})
    assert facts["tables"] == [
        {
            "source": "shop.item",
            "rows_source": 3,
            "rows_target": 4,
            "digest_source": sums[0],
            "digest_target": sums[1],
        },
        {"source": "shop.draft", "rows_source": 3, "rows_target": 4},
    ]
    who = {"user": "someone", "host": "here", "release": "1"}
    begun = CutoverNote(1, Step.BEGIN, Phase.BEGINS, 1, who)
    compared = CutoverNote(2, Step.VERIFY, Phase.DONE, 2, json.loads(json.dumps(facts)))
    report = report_of("job", Cutover.of([begun, compared]))
    assert "| shop.item | whole, 3 rows | blake2b:00aa | blake2b:00ab |" in report.to_markdown()
    assert "| shop.draft | whole, 3 rows |  |  |" in report.to_markdown()
    (step,) = (one for one in report.to_json()["steps"] if one["step"] == Step.VERIFY)
    assert step["tables"] == facts["tables"]
