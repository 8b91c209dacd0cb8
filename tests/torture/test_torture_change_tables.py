"""The slice of `anabranch torture --target postgresql-changes` and `mysql-changes` that every run does: every source, servers
of their own."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from anabranch.testing.databases import unique_name
from anabranch.testing.torture.campaign import Campaign
from anabranch.testing.torture.faults_plan import AT_CHANGE_TABLES, draw_faults, faults_of_changes
from anabranch.testing.torture.ground import Ground, private
from anabranch.testing.torture.one import One
from anabranch.testing.torture.report import Tally, summary
from anabranch.testing.torture.sources import NAMES
from anabranch.testing.torture.targets import ChangesDatabase, family_at

HISTORIES = 3  # of each: one from every source
DRAWN_FROM, STRUCK_FROM = range(1, 31), range(1, 301)


@pytest.fixture(scope="module", params=("postgresql-changes", "mysql-changes"))
def ground(request: pytest.FixtureRequest, quick_directory: Path) -> Iterator[Ground]:
    directory = quick_directory / unique_name("torture")
    directory.mkdir()
    directory.chmod(0o755)
    try:
        with private(directory, NAMES, target=request.param) as made:
            yield made
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def test_change_tables_are_drawn_whole_rows_and_nothing_that_needs_rows_there(ground: Ground) -> None:
    assert ground.second is None and not ground.targets[1:]
    assert Ground.from_json(ground.to_json()).family is ground.family
    one, met = One(ground, Path("unused")), set[str]()
    for seed in DRAWN_FROM:
        target = ground.target_of(seed)
        assert isinstance(target, ChangesDatabase) and family_at(target) is ground.family
        history, _ = one.drawn(seed)
        assert not any(history.images) and not history.grows and not history.passes
        assert not [
            statement
            for transaction in history.transactions
            for statement in transaction.statements
            if statement.do in ("truncate", "empty")
        ], "which stops such a job"
        assert "target" not in ground.users_of(seed) and one.second_of(seed) is None
    for seed in STRUCK_FROM:
        faults = faults_of_changes(seed, draw_faults(seed, with_servers=True), ground.family.form)
        met |= {fault.where if fault.kind in ("exit", "raise") else f"{fault.kind} {fault.where}" for fault in faults}
    assert {*AT_CHANGE_TABLES, "second apply", "kill apply", "restart target", "lose target", "cut target"} <= met


@pytest.mark.timeout(1800)
def test_histories_to_change_tables_with_faults(ground: Ground, tmp_path: Path) -> None:
    tally, begun, kind = Tally(), time.monotonic(), ground.family.name
    with closing(Campaign(ground, tmp_path, 2, False).run(range(1, HISTORIES + 1))) as results:
        for told in results:
            again = f"anabranch torture --source {told.source} --target {kind}"
            assert not told.failure, f"{told.failure}\n{again} --seed {told.seed} --histories 1"
            tally.add(told)
    print("\n".join(summary(tally, time.monotonic() - begun)))
    assert tally.counted and set(tally.sources) == set(NAMES), tally  # whether a fault comes about is a matter of time
    assert {"changes.known", "apply.appended", "apply.committed"} <= tally.hits.keys()
