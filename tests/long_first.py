"""Long tests first: `make test` ends when the last worker does, and a test of five minutes must not begin last.

Each worker of pytest-xdist has an equal part of the collection to begin with, in its order, and takes from the end of others'
parts when its own is done (`--dist worksteal`). So the long ones are dealt out, and stand at the beginning of each part. Those
that speak to a Kafka stand together at the beginning of one part: every worker that has one of them starts a broker for it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import pytest

LONGEST = Path(__file__).with_name("longest.txt")
BROKER = "kafka"  # the fixture


def seconds_by_name(text: str) -> dict[str, float]:
    """A line for each: seconds beside the others, three workers on two processors, and `path::test`."""
    return {name: float(seconds) for seconds, name in (line.split() for line in text.splitlines() if line)}


def dealt(
    names: Sequence[str], seconds: Mapping[str, float], workers: int, together: Collection[int] = ()
) -> list[int]:
    """The order of these tests for so many workers, as places in `names`; those that are not known to be long keep theirs.
    The places `together` come first for the last worker, whose long tests are the shorter ones."""
    known = {
        place: seconds.get(name.partition("[")[0], 0.0) for place, name in enumerate(names) if place not in together
    }
    long = sorted((place for place in known if known[place]), key=lambda place: -known[place])
    others = [place for place in known if not known[place]]
    order: list[int] = []
    for number in range(workers):
        mine = [*(sorted(together) if number == workers - 1 else ()), *long[number::workers]]
        rest = (len(names) - len(order)) // (workers - number) - len(mine)
        order += mine + others[: max(0, rest)]
        del others[: max(0, rest)]
    return order


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """In each worker, all of which have the same order; without workers it is the files' own."""
    workers = getattr(config, "workerinput", {}).get("workercount", 1)
    if workers > 1:
        seconds = seconds_by_name(LONGEST.read_text())
        names = [item.nodeid for item in items]
        together = {place for place, item in enumerate(items) if BROKER in getattr(item, "fixturenames", ())}
        items[:] = [items[place] for place in dealt(names, seconds, workers, together)]
