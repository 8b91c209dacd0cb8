"""Rows that go with a partition of a PostgreSQL, of which its log has nothing: capture looks for them, and the job file says
whether they stay at the target."""

from __future__ import annotations

import pytest

from anabranch import failpoints
from anabranch.errors import StoppedByChange
from anabranch.model.ddl_changes import DdlChange, DdlRule, Outcome
from anabranch.model.ids import TableId
from anabranch.testing.in_time import until
from rigs.altered_postgresql import Make, jobs_with
from rigs.job_here import JobHere

KEEP = '[ddl]\npartitions = "keep"\n'
TARGETS = ["postgresql", pytest.param("mariadb", marks=pytest.mark.long)]
TABLES = (
    "CREATE TABLE item (id int PRIMARY KEY, v varchar(20)) PARTITION BY RANGE (id)",
    *(f"CREATE TABLE item_{n} PARTITION OF item FOR VALUES FROM ({n}0) TO ({n + 1}0)" for n in range(8)),
    *(f"INSERT INTO item VALUES ({n}5, 'at first')" for n in range(8)),
)


make = jobs_with(KEEP)


def _ids(here: JobHere) -> list[object]:
    return [one for (one,) in here.made.target.query(f"SELECT id FROM {here.made.there}.item ORDER BY id")]


def _noted(here: JobHere) -> list[DdlChange]:
    return here.job.ddl_changes("public.item")


def _looks(here: JobHere, number: int) -> None:
    """Run until so many changes are noted."""
    here.looks = True
    with here.running():
        until(lambda: len(_noted(here)) == number, f"{number} changes are noted")


@pytest.mark.parametrize("to", TARGETS)
@pytest.mark.since(13)
def test_rule_17_rows_of_partitions_that_are_detached_or_dropped_stay_at_the_target(make: Make, to: str) -> None:
    """A partition that comes changes nothing; a table that is attached brings rows, and parks."""
    here = make(to, *TABLES)
    made, source = here.made, here.made.source
    source.execute(
        "UPDATE item SET v = 'last' WHERE id = 5",
        "ALTER TABLE item DETACH PARTITION item_0",
        "DROP TABLE item_1",
        "CREATE TABLE item_0b PARTITION OF item FOR VALUES FROM (0) TO (20)",
        "INSERT INTO item VALUES (1, 'behind')",
        "UPDATE item_0 SET v = 'on its own'",
    )
    _looks(here, 1)
    source.execute("UPDATE item SET v = 'behind' WHERE id = 25", "DELETE FROM item WHERE id = 35")
    here.stream()
    assert made.states()["item"] == "streaming", made.reason("item")
    assert _ids(here) == [1, 5, 15, 25, 45, 55, 65, 75]
    assert made.target.query(f"SELECT v FROM {made.there}.item WHERE id = 5") == [("last",)]
    (noted,) = _noted(here)
    assert (noted.outcome, noted.rule) == (Outcome.IGNORED, DdlRule("[ddl] partitions", "keep"))
    source.execute(
        "CREATE TABLE item_9 (LIKE item INCLUDING ALL)",
        "INSERT INTO item_9 VALUES (95, 'attached')",
        "DROP TABLE item_4",
        "ALTER TABLE item ATTACH PARTITION item_9 FOR VALUES FROM (90) TO (100)",
    )
    _looks(here, 2)
    assert made.states()["item"] == "parked" and "attached as a partition" in made.reason("item")
    here.load(TableId("public", "item"))
    here.stream()
    made.assert_identical("item")


@pytest.mark.since(13)
def test_rule_17_wherever_the_job_dies_it_goes_on_once(make: Make) -> None:
    here = make("postgresql", *TABLES)
    here.looks = True
    for number, place in enumerate(("capture.appended", "apply.altered", "apply.ddl.noted", "apply.committed")):
        here.made.source.execute(f"DROP TABLE item_{number}")
        failpoints.arm({failpoints.VARIABLE: f"{place}=raise"})
        with pytest.raises(failpoints.FailpointReached), here.running() as ends:
            until(lambda: any(end.part.done() for end in ends), "one of them has died")
        failpoints.arm({})
        _looks(here, number + 1)
        here.made.source.execute(f"UPDATE item SET v = 'behind {number}' WHERE id > {number}9")
        here.stream()
        assert here.made.states()["item"] == "streaming", here.made.reason("item")
    assert _ids(here) == [5, 15, 25, 35, 45, 55, 65, 75]


@pytest.mark.since(13)
def test_it_stops_or_parks_where_the_file_says_so(make: Make) -> None:
    """Behind what came to the partition before, however late capture asks."""
    here = make("postgresql", *TABLES)
    here.made.write_job(KEEP.replace("keep", "stop"))
    here.made.source.execute(
        "INSERT INTO item VALUES (2, 'in front')",
        "UPDATE item SET v = 'in front' WHERE id = 5",
        "ALTER TABLE item DETACH PARTITION item_0",
    )
    here.looks = True
    with pytest.raises(StoppedByChange, match="rows went with a partition"), here.running() as ends:
        until(ends[1].part.done, "apply has ended")
    first = f"SELECT v FROM {here.made.there}.item WHERE id < 10 ORDER BY id"
    assert here.made.target.query(first) == [("in front",)] * 2
    here.made.write_job(KEEP)
    here.stream()
    assert here.made.states()["item"] == "streaming" and _ids(here)[:2] == [2, 5]
    here.made.write_job("")
    here.made.source.execute("DROP TABLE item_1")
    _looks(here, 2)
    assert here.made.states()["item"] == "parked" and "item_1 was detached or dropped" in here.made.reason("item")
