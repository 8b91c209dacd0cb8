"""Workloads that cut over, and verify beside writers: how they judge what they see. No server runs here."""

from __future__ import annotations

import sys
from itertools import islice
from pathlib import Path
from typing import Any, cast

import pytest

sys.path.append(str(Path(__file__).parents[3]))  # bench is no part of the package

from bench import beside, changing, cutover, cutover_verified, fenced_writer
from bench.ledger import CONNECTIONS
from bench.processes import ProgramFailed


class Notes:
    """A connection that answers with the notes of a job."""

    def __init__(self, *notes: tuple[str, str, int]) -> None:
        self.notes = notes

    def ask(self, query: str, *parameters: object) -> list[tuple[str, str, int]]:
        return list(self.notes)


def test_times_are_of_the_latest_cut_over_alone() -> None:
    first = (("begin", "begins", 1), ("fence", "begins", 2), ("flip", "failed", 3), ("abort", "done", 4))
    looking = cast(Any, Notes(*first, ("begin", "begins", 11), ("fence", "begins", 12), ("flip", "done", 15)))
    job = cast(Any, type("Named", (), {"name": "shop"}))
    one = cutover.Switching(job, Path("flips"), looking, "", cast(Any, None), lambda: None)
    found = one.notes()
    assert found[cutover.FLIPPED] - found[cutover.FENCED] == 3
    assert cutover.REFUSED not in found


def test_figures_of_cut_overs_are_the_middle_and_the_worst_of_all() -> None:
    p50, most = cutover.figures("cutover downtime", "mysql-pg", [0.5, 0.6, 4.0], 3.0, {"rows": 7})
    assert (
        str(p50) == "cutover downtime mysql-pg p50_s=0.6 goal=3 ok cutovers=3 transactions_per_s=500 min_s=0.5 rows=7"
    )
    assert str(most) == "cutover downtime mysql-pg max_s=4 goal=3 short"


def test_every_other_transaction_changes_a_row_of_the_connections_own() -> None:
    rows = 1_000
    drawn = [list(islice(fenced_writer._keys(rows, one), 400)) for one in range(CONNECTIONS)]
    for one, keys in enumerate(drawn):
        assert keys[::2] == [None] * 200
        changed = [key for key in keys[1::2] if key is not None]
        assert len(changed) == 200 and all(1 <= key <= rows and (key - 1) % CONNECTIONS == one for key in changed)
        assert min(changed) < rows // 10 and max(changed) > rows - rows // 10, "they lie all over the table"
    assert set(islice(fenced_writer._keys(0, 1), 10)) == {None}


def test_a_table_that_was_compared_whole_is_no_figure() -> None:
    table = {"source": "shop.ledger", "since": "1@0", "keys": 12, "before_fence": {"keys": 340}}
    report = {"steps": [{"step": "lag"}, {"step": "verify", "tables": [table]}]}
    assert cutover_verified._compared(report) == {"keys_before_the_fence": 340.0, "keys_at_the_fence": 12.0}
    whole = {"steps": [{"step": "verify", "tables": [{"rows_source": 5, "why": "no result"}]}]}
    with pytest.raises(ProgramFailed, match="whole: no result"):
        cutover_verified._compared(whole)


@pytest.mark.parametrize(
    ("told", "stays", "outcome"),
    [
        ({"different": 1, "sample": [{"key": {"id": "7"}}]}, True, beside.FOUND),
        ({"different": 1, "sample": [{"key": {"id": "7"}}]}, False, beside.FOUND),
        ({}, False, beside.GONE),
        ({"pending": 1}, True, beside.PENDING),
        ({}, True, beside.MISSED),
    ],
)
def test_a_changed_row_that_is_written_is_found_or_gone(told: dict[str, Any], stays: bool, outcome: str) -> None:
    table = {"missing": 0, "extra": 0, "different": 0, "pending": 0, "sample": [], **told}
    assert beside.outcome(table, 7, stays) == outcome


def test_another_row_that_is_told_as_different_ends_the_run() -> None:
    table = {"missing": 1, "extra": 0, "different": 0, "pending": 0, "sample": [{"key": {"id": "8"}}]}
    with pytest.raises(ProgramFailed, match="told as different, and is not"):
        beside.outcome(table, 7, True)


def test_changed_rows_that_are_written_are_hot_ones_and_others() -> None:
    keys = list(beside._written_keys())
    assert len(keys) == beside.FLIPS == len(set(keys))
    assert sum(key < changing.HOT for key in keys) == beside.FLIPS // 2 and max(keys) < changing.ROWS
