"""The slice of `anabranch torture --source postgresql` that every run does, on servers of its own, two at a time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from anabranch.testing.torture.campaign import Campaign
from anabranch.testing.torture.ground import private
from anabranch.testing.torture.history import History
from anabranch.testing.torture.one import One
from anabranch.testing.torture.policies import has_policies
from anabranch.testing.torture.postgresql_source import DECODERS
from anabranch.testing.torture.postgresql_tables import SHAPES, is_late_unique, shape_of
from anabranch.testing.torture.report import Tally, summary

# Seven that meet more than the first ten: faults, deeds, users, shapes of tables (rigs/torture_seeds.py).
USUAL = (12, 261, 983, 1468)  # 12: a TRUNCATE of several tables goes the slow way
DECODED = (343, 1025, 1324)  # decoderbufs, pgoutput, wal2json
COUNTED = 3  # of both


@pytest.mark.timeout(1200)
def test_histories_with_faults_on_a_postgresql_source(torture_directory: Path) -> None:
    """pgoutput on the newest release; any decoder on the release that all are had for. Every family is among them."""
    tally, begun = Tally(), time.monotonic()
    decoders, shapes, late, drawn = set[str](), set[str](), 0, set[str]()
    for name, seeds, some in (("pg", USUAL, ("",)), ("pg15", DECODED, DECODERS)):
        place = torture_directory / name
        place.mkdir(mode=0o755)
        with private(place, ("postgresql",), some) as ground:
            for seed in seeds:
                history, _ = One(ground, place).drawn(seed)
                decoders.add(history.decoder)
                shapes |= {shape_of(table, history.decoder) for table in history.schema.tables}
                drawn |= beside_rows(history) if name == "pg" else set()
                late += sum(is_late_unique(t, unique) for t in history.schema.tables for unique in t.uniques)
            run(Campaign(ground, place), seeds, tally)
    print("\n".join(summary(tally, time.monotonic() - begun)))
    assert decoders == {"", *DECODERS} and len(shapes & {*SHAPES}) > 1 and late
    assert drawn == {"policies", "heirs", "label"}
    assert set(tally.sources) == {"postgresql"} and tally.counted >= COUNTED, tally


def beside_rows(history: History) -> set[str]:
    """Policies, tables that inherit, labels that are added while the job loads or streams."""
    found = {s.do for t in (*history.during, *history.after) for s in t.statements if s.do == "label"}
    found |= {"heirs"} if any(table.inherits for table in history.schema.tables) else set()
    return found | ({"policies"} if has_policies(history.seed) else set())


def run(campaign: Campaign, seeds: Sequence[int], tally: Tally) -> None:
    decoder = " --decoder drawn" if any(campaign.ground.decoders) else ""
    with closing(campaign.run(seeds)) as results:
        for told in results:
            again = f"anabranch torture --source postgresql{decoder} --seed {told.seed} --histories 1"
            assert not told.failure, f"{told.failure}\n{again}"
            tally.add(told)
