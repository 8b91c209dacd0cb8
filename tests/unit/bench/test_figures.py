"""Lines that scripts read, and what is kept of a run."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[3]))  # bench is no part of the package

from bench.figures import Figure, Side, compared, distribution, table
from bench.processes import Cost, Use


def side(name: str, *seconds: float) -> Side:
    each = {"capture": Use(0.5, 90.0)}
    return Side(name, f"what {name} does", 1000, [Cost(one, 0.5, 100.0, each) for one in seconds])


@pytest.mark.parametrize(
    ("value", "goal", "is_most", "verdict"),
    [
        (0.5, 0.5, False, "ok"),
        (0.49, 0.5, False, "short"),
        (80.0, 80.0, True, "ok"),
        (81.0, 80.0, True, "short"),
        (1.0, None, False, "shown"),
    ],
)
def test_a_line_ends_its_verdict_with_one_word(value: float, goal: float | None, is_most: bool, verdict: str) -> None:
    figure = Figure("W2 capture", "mysql", "ratio", value, goal, is_most)
    assert str(figure).split()[4:6] == [f"goal={'-' if goal is None else format(goal, 'g')}", verdict]
    assert figure.is_kept is (verdict != "short")


def test_a_ratio_is_of_the_medians_its_extremes_of_runs_side_by_side() -> None:
    figure = compared("W2 capture", "mysql", side("anabranch", 2.0, 4.0, 2.5), side("ceiling", 1.0, 1.0, 2.0), 0.5)
    assert (figure.value, figure.facts) == (0.4, {"ratio_min": 0.25, "ratio_max": 0.8})
    assert str(figure) == (
        "W2 capture mysql ratio=0.4 goal=0.5 short ratio_min=0.25 ratio_max=0.8 rows_per_s=400 cpu_s=0.5 rss_mb=100"
        " ceiling_rows_per_s=1000 ceiling_cpu_s=0.5 ceiling_rss_mb=100"
    )
    assert [line.split()[0] for line in table(figure)[1:]] == ["anabranch", "capture", "ceiling", "capture"]


def test_facts_of_several_words_stay_one_field() -> None:
    assert (
        str(Figure("W6 conflicts", "mysql", "slow", 1.0, facts={"last": "two words"})).split()[-1] == "last=two_words"
    )


def test_what_is_kept_is_json_that_a_page_can_be_made_of() -> None:
    figure = compared(
        "W2 capture", "mysql", side("anabranch", 2.0), side("ceiling", 1.0), 0.5, facts={"log_mb": 1.23456}
    )
    found = json.loads(json.dumps(figure.to_json()))
    assert found["facts"]["log_mb"] == 1.2346 and found["verdict"] == "ok"
    assert found["sides"][0]["processes"] == {"capture": {"cpu_s": 0.5, "rss_mb": 90.0}}


def test_a_distribution_is_fine_where_the_tail_is() -> None:
    points = dict(distribution([float(number) for number in range(10_000)]))
    assert (points[0], points[50], points[99.99]) == (0.0, 5000.0, 9998.0)
