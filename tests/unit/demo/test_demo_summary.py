"""What the demo prints at its end, and the exit code that goes with it."""

from __future__ import annotations

from typing import Any

import pytest

from anabranch.demo.following import Streamed
from anabranch.demo.latency import Distribution, LatencyWatch
from anabranch.demo.summary import Summary
from anabranch.demo.writer import Totals
from anabranch.testing.databases import Database
from anabranch.testing.servers import Server

ORDERS: dict[str, Any] = {"source": "shop.orders", "identical": True, "rows_source": 30_000, "missing": 0, "extra": 0}
ORDERS |= {"different": 0, "sample": []}
STOCK = ORDERS | {"source": "shop.stock", "rows_source": 500}
BROKEN = STOCK | {
    "identical": False,
    "missing": 2,
    "sample": [{"kind": "missing", "key": {"id": "7"}, "copies": [0, 0]}],
}


def summary(
    *tables: dict[str, Any], parked: tuple[dict[str, str], ...] = (), latencies: tuple[float, ...] = ()
) -> Summary:
    before, found = Distribution(), Distribution()
    before.add((41.2, 3.0))
    found.add(latencies)
    caught_up, steady = (3.2, 5.2) if latencies else (None, None)
    status = {"targets": [{"tables": [{"rows_loaded": 100_000, "changes_applied": 2_500}] * len(tables)}]}
    identical = all(table["identical"] for table in tables)
    verification = {"identical": identical, "tables": list(tables), "parked": list(parked)}
    streamed = Streamed(Totals(2_000, 30, 4), before, found, caught_up, steady, 21.4, 60.2, 2_010)
    return Summary(status, verification, streamed)


def test_real_numbers_of_a_good_run() -> None:
    good = summary(ORDERS, STOCK, latencies=(0.05, 0.06, 0.07, 0.9))
    assert good.exit_code == 0
    text = "\n".join(good.lines())
    assert "loaded      200,000 rows of 2 tables" in text
    assert "applied     2,010 transactions, 5,000 changes" in text
    assert "caught up   within a second of the writer after 3 s of streaming: 2 transactions" in text
    assert "the oldest 41 s before it was visible" in text
    assert "streamed    for 55 s from then on" in text and "p50 60 ms, p99 900 ms" in text
    assert "2,000 committed, 30 rolled back, 4 refused" in text
    assert good.lines()[-1] == "identical:  2 of 2 tables (30,500 rows compared)"


def test_a_difference_is_shown_and_is_a_failure() -> None:
    bad = summary(ORDERS, BROKEN)
    assert bad.exit_code == 4
    assert "DIFFERENT   shop.stock: 2 missing" in bad.lines()
    assert "            missing {'id': '7'}" in bad.lines()
    assert bad.lines()[-1].startswith("identical:  1 of 2 tables")


def test_a_parked_table_counts_and_is_a_failure() -> None:
    parked = summary(ORDERS, parked=({"source": "shop.stock", "reason": "ALTER TABLE stock"},))
    assert parked.exit_code == 8
    assert "PARKED      shop.stock: ALTER TABLE stock" in parked.lines()
    assert parked.lines()[-1].startswith("identical:  1 of 2 tables")


def test_a_stream_that_never_caught_up_has_no_latency() -> None:
    lines = summary(ORDERS).lines()
    assert "caught up   not within a second of the writer" in lines
    assert "streamed    for 60 s, never steadily: latency not measured" in lines


def test_nothing_compared_is_no_success() -> None:
    assert summary().exit_code != 0


def test_latency_counts_from_when_the_job_is_steady() -> None:
    """Whoever says so before the stream has caught up is not heard."""
    watch = LatencyWatch(Database(Server("postgresql", "18", "127.0.0.1", 1, "postgres", ""), "shop"), 2)
    watch._saw([40.0, 30.0])
    watch.begin_steady()
    watch._saw([20.0, 0.4])
    assert watch.caught_up_after is not None and watch.steady_after is None
    watch._saw([0.9])  # indexes are still being built
    watch.begin_steady()
    watch._saw([0.1, 0.2])
    assert watch.catching_up.total == 5 and watch.catching_up.percentile(1.0) == 40_000
    assert watch.latencies.total == 2 and watch.latencies.percentile(1.0) == 200


@pytest.mark.parametrize(
    ("values", "share", "expected"),
    [
        ((), 0.5, None),
        ((0.004,), 0.99, 4),
        (tuple(ms / 1000 for ms in range(1, 101)), 0.5, 50),
        (tuple(ms / 1000 for ms in range(1, 101)), 0.99, 99),
        ((-0.001, 9_999.0), 0.5, 0),
        ((-0.001, 9_999.0), 1.0, Distribution.LONGEST),
    ],
)
def test_percentiles(values: tuple[float, ...], share: float, expected: int | None) -> None:
    found = Distribution()
    found.add(values)
    assert found.percentile(share) == expected
