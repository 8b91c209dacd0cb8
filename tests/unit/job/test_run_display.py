"""Test what is shown of a run: rows that a load has copied, how many in a second, and which of them are there."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console
from rich.progress import Progress

from anabranch.job.display import RATE_SECONDS, Rate, RowsPerSecond, bars_of_tables
from anabranch.job.status import rows_loaded
from anabranch.model.ids import TableId
from anabranch.model.table_life import Life, TableState, heard_of

TABLE = TableId("shop", "item")
HEARD = heard_of(TABLE, TABLE)


def snapshot(phase: str, done: int) -> dict[str, Any]:
    return {"phase": phase, "progress": {str(TABLE): {"done": done, "total": 100}}}


@pytest.mark.parametrize(
    ("state", "phase", "expected"),
    [
        (HEARD, "loading", 70),  # all of it is one transaction of the target, which has not ended
        (HEARD, "stopped", 0),
        (replace(HEARD, state=Life.LOADING, rows_loaded=50), "waiting", 70),
        (replace(HEARD, state=Life.STREAMING, rows_loaded=60), "loading", 60),
    ],
)
def test_rows_of_a_load_that_goes_on_are_shown(state: TableState, phase: str, expected: int) -> None:
    assert rows_loaded(state, snapshot(phase, 70)) == expected
    assert rows_loaded(state, {"phase": phase, "progress": {}}) == state.rows_loaded


def test_a_rate_is_that_of_the_last_seconds() -> None:
    rate = Rate()
    assert rate.told(100.0, 1_000) == 0
    assert rate.told(101.0, 1_500) == 500
    assert rate.told(101.0 + RATE_SECONDS, 2_500) == 200
    assert rate.told(102.0 + RATE_SECONDS, 0) == 0, "a load that has begun again"


def test_a_table_s_bar_has_its_rate() -> None:
    now = iter(range(100))
    bars = Progress(RowsPerSecond(), get_time=lambda: float(next(now)))
    bar = bars.add_task("item", total=9_000)
    assert str(RowsPerSecond().render(bars.tasks[0])) == ""
    bars.update(bar, completed=1_000)
    bars.update(bar, completed=4_000)
    assert str(RowsPerSecond().render(bars.tasks[0])).endswith(" rows/s")


@pytest.mark.parametrize("name", ["a[/b]", "star[red]", "[link=x]"])
def test_a_bar_has_the_name_of_its_table_as_it_is(name: str) -> None:
    """Rich takes such names for its markup: the first ended a run on a terminal with a MarkupError."""
    shown = io.StringIO()
    bars = bars_of_tables(console := Console(file=shown, force_terminal=True, color_system=None, width=120))
    bars.add_task(name, total=10)
    console.print(bars)
    assert shown.getvalue().startswith(name)
