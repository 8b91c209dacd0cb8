"""The slice of `make torture` that every run does: histories with faults, on servers of their own, two at a time."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from anabranch.failpoints import POINTS
from anabranch.testing.databases import Database
from anabranch.testing.torture.campaign import Campaign
from anabranch.testing.torture.computed import computes_over_keys
from anabranch.testing.torture.ground import Ground
from anabranch.testing.torture.one import One
from anabranch.testing.torture.report import Tally, summary
from anabranch.testing.torture.worst import USER

HISTORIES, WITH_SPARK = 100, 4
FIRST_WITH_SPARK = 9_001


def run(ground: Ground, directory: Path, seeds: range, *, wanted: int, with_spark: bool = False) -> Tally:
    """Histories until so many count; with Spark, whose epochs merge most of a history, until so many kills have come."""
    tally, begun = Tally(), time.monotonic()
    campaign = Campaign(ground, directory, 2, with_spark)
    with closing(campaign.run(seeds)) as results:
        for told in results:
            spark = " --spark" if with_spark else ""
            assert not told.failure, f"{told.failure}\nanabranch torture --seed {told.seed} --histories 1{spark}"
            tally.add(told)
            if (tally.kinds["kill"] if with_spark else tally.counted) >= wanted:
                break
    print("\n".join(summary(tally, time.monotonic() - begun)))
    assert with_spark or tally.counted >= wanted, tally
    return tally


def test_the_user_with_the_worst_settings_has_them(torture_ground: Ground) -> None:
    for source in torture_ground.sources:
        asked = Database(replace(source, user=USER), "").query(
            "SELECT @@SESSION.sql_select_limit, @@GLOBAL.sql_select_limit > 3"
        )
        assert asked == [(3, 1)], source
    target = torture_ground.target
    assert Database(replace(target.server, user=USER), target.name).query("SHOW array_nulls") == [("off",)]
    assert target.query("SHOW array_nulls") == [("on",)]


@pytest.mark.timeout(1800)
def test_histories_with_faults(torture_ground: Ground, torture_directory: Path) -> None:
    tally = run(torture_ground, torture_directory, range(1, 2 * HISTORIES), wanted=HISTORIES)
    histories = [One(torture_ground, torture_directory).drawn(seed)[0] for seed in tally.seeds]
    assert sum(computes_over_keys(history.schema) for history in histories) > 0.2 * HISTORIES
    assert set(tally.sources) == {"mariadb", "mysql"}
    assert len(tally.hits) > 0.8 * len(POINTS), tally.not_hit


@pytest.mark.timeout(1200)
def test_histories_through_spark_with_kills(torture_ground: Ground, torture_directory: Path) -> None:
    seeds = range(FIRST_WITH_SPARK, FIRST_WITH_SPARK + 2 * WITH_SPARK)
    tally = run(torture_ground, torture_directory, seeds, wanted=WITH_SPARK, with_spark=True)
    assert tally.kinds["kill"] >= WITH_SPARK
