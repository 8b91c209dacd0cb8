"""The slice of `anabranch torture --source postgresql` that every run does, on servers of its own, two at a time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from anabranch.testing.torture.campaign import Campaign
from anabranch.testing.torture.ground import Ground, private
from anabranch.testing.torture.report import Tally, summary

SEEDS = range(12, 26)  # 19: a TRUNCATE of several tables goes the slow way
COUNTED = 9


@pytest.fixture(scope="module")
def place(torture_directory: Path) -> Iterator[Path]:
    """Beside the servers of the other histories."""
    directory = torture_directory / "pg"
    directory.mkdir(mode=0o755)
    yield directory


@pytest.fixture(scope="module")
def ground(place: Path) -> Iterator[Ground]:
    with private(place, ("postgresql",)) as ground:
        yield ground


@pytest.mark.timeout(600)
def test_histories_with_faults_on_a_postgresql_source(ground: Ground, place: Path) -> None:
    tally, begun = Tally(), time.monotonic()
    with closing(Campaign(ground, place).run(SEEDS)) as results:
        for told in results:
            assert not told.failure, (
                f"{told.failure}\nanabranch torture --source postgresql --seed {told.seed} --histories 1"
            )
            tally.add(told)
    print("\n".join(summary(tally, time.monotonic() - begun)))
    assert set(tally.sources) == {"postgresql"} and tally.counted >= COUNTED, tally
