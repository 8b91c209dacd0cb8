"""The slice of `make torture` that every run does: histories with faults, on servers of their own, two at a time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from anabranch.failpoints import POINTS
from anabranch.testing.databases import Database
from anabranch.testing.torture import bound, policies
from anabranch.testing.torture.campaign import Campaign
from anabranch.testing.torture.computed import computes_over_keys
from anabranch.testing.torture.ground import Ground
from anabranch.testing.torture.one import One
from anabranch.testing.torture.report import Tally, summary
from anabranch.testing.torture.worst import USER
from rigs.torture_seeds import various

# The six that `make test` runs behind the tests (BEHIND in Makefile) meet what these do not.
HISTORIES, DRAWN_FROM = 14, range(1, 20_001)
# Targets of histories keep rows, nobody alters them by hand, and their trails stay where they are and are not encrypted: these
# failpoints have tests of their own.
ELSEWHERE = {"apply.appended", "ddl.replaced"}
ELSEWHERE_ALL = (
    *("attunity.", "changes.", "load.rows.", "manager.", "parcel.", "pump.", "store."),
    *("trail.check.", "trail.load.", "trail.rekey", "trail.replica.", "verify."),
)
MEETABLE = [point for point in POINTS if point not in ELSEWHERE and not point.startswith(ELSEWHERE_ALL)]
WITH_SPARK, FIRST_WITH_SPARK = 1, 9_001


def run(ground: Ground, directory: Path, seeds: Sequence[int], *, kills: int = 0) -> Tally:
    """Run the histories; with Spark, whose epochs merge most of a history, until so many kills have come, one at a time: what a
    second one has begun by then would be thrown away."""
    tally, begun, with_spark = Tally(), time.monotonic(), kills > 0
    campaign = Campaign(ground, directory, 1 if with_spark else 2, with_spark)
    with closing(campaign.run(seeds)) as results:
        for told in results:
            spark = " --spark" if with_spark else ""
            assert not told.failure, f"{told.failure}\nanabranch torture --seed {told.seed} --histories 1{spark}"
            tally.add(told)
            if with_spark and tally.kinds["kill"] >= kills:
                break
    print("\n".join(summary(tally, time.monotonic() - begun)))
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


def test_tables_of_whom_policies_do_not_concern_hide_their_rows_from_others(torture_ground: Ground) -> None:
    target = torture_ground.target
    of_the_job = Database(replace(target.server, user=policies.USER), target.name)
    target.execute("CREATE SCHEMA torture_0", "CREATE ROLE torture_other", "GRANT USAGE ON SCHEMA torture_0 TO PUBLIC")
    try:
        of_the_job.execute("CREATE TABLE torture_0.t AS SELECT 1 AS n", "GRANT SELECT ON torture_0.t TO PUBLIC")
        assert of_the_job.query("SELECT n FROM torture_0.t") == [(1,)]
        with closing(target.connect()) as other:
            other.execute("SET ROLE torture_other")
            assert other.execute("SELECT n FROM torture_0.t").fetchall() == []
        assert of_the_job.query("SHOW is_superuser") == [("off",)]
    finally:
        target.execute("DROP SCHEMA torture_0 CASCADE", "DROP ROLE torture_other")


@pytest.mark.timeout(1800)
def test_histories_with_faults(torture_ground: Ground, torture_directory: Path) -> None:
    """Run the histories of the first twenty thousand seeds that meet most; `make torture` runs as many as it is asked for."""
    tally = run(torture_ground, torture_directory, various(torture_ground, DRAWN_FROM, HISTORIES))
    assert tally.counted > 0.5 * HISTORIES, tally  # whether a fault comes about is a matter of time
    histories = [One(torture_ground, torture_directory).drawn(seed)[0] for seed in tally.seeds]
    assert sum(computes_over_keys(history.schema) for history in histories) > 0.2 * HISTORIES
    users = {user for seed in tally.seeds for user in torture_ground.users_of(seed).values()}
    assert users == {USER, policies.USER, bound.USER}
    assert set(tally.sources) == {"mariadb", "mysql"}
    assert len(tally.hits) > 0.55 * len(MEETABLE), tally.not_hit


@pytest.mark.timeout(1200)
def test_histories_through_spark_with_kills(torture_ground: Ground, torture_directory: Path) -> None:
    seeds = range(FIRST_WITH_SPARK, FIRST_WITH_SPARK + 4 * WITH_SPARK)
    tally = run(torture_ground, torture_directory, seeds, kills=WITH_SPARK)
    assert tally.kinds["kill"] >= WITH_SPARK
