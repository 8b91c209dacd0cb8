"""Rows that go with a partition of a MySQL or MariaDB, which no log has: they stay at the target where the job file says so,
wait for a person, or park the table."""

from __future__ import annotations

import pytest

from anabranch import failpoints
from anabranch.errors import ConfigError, StoppedByChange
from anabranch.job import verifying
from anabranch.lifecycle import repairing
from anabranch.model.ddl_changes import DdlChange, DdlRule, Outcome
from anabranch.model.ids import TableId
from anabranch.testing.databases import Database
from rigs.job_here import JobHere
from rigs.streams import Streams

PAIRS = [("mariadb", "postgresql"), ("mysql", "mariadb"), pytest.param(("mysql", "postgresql"), marks=pytest.mark.long)]
KEEP = '[ddl]\npartitions = "keep"\n'
PARTS = ", ".join(f"PARTITION p{n} VALUES LESS THAN ({n}0)" for n in range(1, 9))
TABLES = (
    f"CREATE TABLE item (id INT PRIMARY KEY, v VARCHAR(20)) PARTITION BY RANGE (id) ({PARTS})",
    "CREATE TABLE aside (id INT PRIMARY KEY, v VARCHAR(20))",
    *(f"INSERT INTO item VALUES ({n}5, 'at first')" for n in range(8)),
)


@pytest.fixture(params=PAIRS, ids=" to ".join)
def here(request: pytest.FixtureRequest, streams: Streams) -> JobHere:
    """A job that streams a partitioned table and keeps rows that go with its partitions."""
    return streams(request.param, TABLES, KEEP)


def _ids(database: Database, schema: str = "") -> list[object]:
    prefix = f"{schema}." if schema else ""
    return [one for (one,) in database.query(f"SELECT id FROM {prefix}item ORDER BY id")]


def _there(here: JobHere) -> list[object]:
    return _ids(here.made.target, here.made.there)


def _noted(here: JobHere) -> list[DdlChange]:
    return here.job.ddl_changes(f"{here.made.schema}.item")


def _state(here: JobHere) -> str:
    return here.made.states()["item"]


def test_rule_17_rows_that_go_with_a_partition_stay_at_the_target(
    here: JobHere, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows come and go around the statements, and what is no row changes nothing. The repair of verify takes the rest away."""
    made, source = here.made, here.made.source
    planned = {
        one: here.job.plan_ddl(f"ALTER TABLE item {one}") for one in ("DROP PARTITION p1", "COALESCE PARTITION 1")
    }
    assert [(one.outcome, one.exit_code) for one in planned.values()] == [(Outcome.IGNORED, 0)] * 2
    assert planned["DROP PARTITION p1"].why == '[ddl] partitions = "keep"'
    source.execute(
        "UPDATE item SET v = 'last' WHERE id = 5",
        "ALTER TABLE item DROP PARTITION p1",
        "INSERT INTO item VALUES (11, 'behind'), (6, 'moved down')",
        "ALTER TABLE item ALGORITHM=INPLACE, LOCK=DEFAULT, DROP PARTITION p3, p4"
        if made.source.server.name == "mysql"
        else "ALTER TABLE item DROP PARTITION IF EXISTS p3, p4",
        "ALTER TABLE item ADD PARTITION (PARTITION last VALUES LESS THAN MAXVALUE)",
        "INSERT INTO item VALUES (1000, 'far')",
        "ALTER TABLE item REORGANIZE PARTITION last INTO (PARTITION p9 VALUES LESS THAN (2000), PARTITION p10 VALUES LESS THAN"
        " MAXVALUE)",
        "ALTER TABLE item TRUNCATE PARTITION p10",
        "ALTER TABLE item ADD n INT",
        "UPDATE item SET n = 1 WHERE id = 11",
        "DELETE FROM item WHERE id = 45",
    )
    here.stream()
    assert _state(here) == "streaming", made.reason("item")
    assert _there(here) == [5, 6, 11, 15, 25, 35, 55, 65, 75, 1000]
    assert sorted(set(_there(here)) - set(_ids(source))) == [5, 25, 35]
    assert made.target.query(f"SELECT v FROM {made.there}.item WHERE id = 5") == [("last",)]
    noted = _noted(here)
    assert [one.outcome for one in noted] == [Outcome.IGNORED] * 5 + [Outcome.ALTERED]
    kept = [one for one in noted if one.rule == DdlRule("[ddl] partitions", "keep")]
    assert len(kept) == 3 and all("are kept here" in one.why for one in kept)
    assert not here.verify().identical
    with monkeypatch.context() as patched, here.running():
        for module in (repairing, verifying):
            patched.setattr(module, "require_apply", lambda _: None)  # it runs in this process
        here.verify(repairs=True)
    here.stream()
    made.assert_identical("item")


def test_rule_17_wherever_the_job_dies_it_goes_on_once(here: JobHere) -> None:
    met, places = (
        [],
        ("capture.statement.noted", "capture.appended", "apply.altered", "apply.ddl.noted", "apply.committed"),
    )
    for number, place in enumerate(places, 1):
        here.made.source.execute(
            f"UPDATE item SET v = 'last' WHERE id = {number - 1}5",
            f"ALTER TABLE item DROP PARTITION p{number}",
            f"INSERT INTO item VALUES (7{number - 1}, 'behind')" if number != 6 else "DO 0",
        )
        failpoints.arm({failpoints.VARIABLE: f"{place}=raise"})
        try:
            here.stream()
        except failpoints.FailpointReached:
            met.append(place)
        finally:
            failpoints.arm({})
        here.stream()
        assert _state(here) == "streaming", here.made.reason("item")
    assert met == list(places)
    assert _there(here) == [5, 15, 25, 35, 45, 55, 65, 70, 71, 72, 73, 74, 75]
    assert [one.outcome for one in _noted(here)] == [Outcome.IGNORED] * len(places)


@pytest.mark.one_case("mysql to mariadb")
def test_a_person_decides_what_becomes_of_rows_that_went(here: JobHere) -> None:
    """Skip keeps them, replace goes on without those that were deleted, and nothing else is possible."""
    made = here.made
    made.write_job(KEEP.replace("keep", "ask"))
    made.source.execute("ALTER TABLE item DROP PARTITION p1", "UPDATE item SET v = 'behind' WHERE id = 15")
    here.stream()
    assert _state(here) == "parked" and "waits for a decision" in made.reason("item")
    (first,) = _noted(here)
    assert [one.outcome for one in here.job.plan_ddl_backlog()] == [Outcome.WAITING]
    with pytest.raises(ConfigError, match="in no log") as refused:
        here.job.decide_ddl(first.number)
    assert "ddl skip JOB" in refused.value.hint and "replace" in refused.value.hint
    here.job.decide_ddl(first.number, "skip")
    here.stream()
    assert _state(here) == "streaming" and 5 in _there(here)
    (first,) = _noted(here)
    assert first.outcome is Outcome.IGNORED and "skip, decided by" in first.why
    made.source.execute("ALTER TABLE item TRUNCATE PARTITION p2", "INSERT INTO item VALUES (15, 'anew')")
    here.stream()
    second = _noted(here)[-1]
    here.job.decide_ddl(second.number, "replace", [f"DELETE FROM {made.there}.item WHERE id < 20"])
    here.stream()
    assert _state(here) == "streaming", made.reason("item")
    made.assert_identical("item")
    assert _noted(here)[-1].outcome is Outcome.ALTERED and "replace, decided by" in _noted(here)[-1].why


@pytest.mark.one_case("mariadb to postgresql")
def test_the_file_of_the_moment_counts_and_the_table_goes_on_from_there(here: JobHere) -> None:
    """Read under another word, it stops or parks in front of the place, and goes on from it once the file keeps rows."""
    made = here.made
    made.source.execute("ALTER TABLE item DROP PARTITION p1", "UPDATE item SET v = 'behind' WHERE id = 15")
    here.capture()
    made.write_job(KEEP.replace("keep", "stop"))
    for _ in range(2):
        with pytest.raises(StoppedByChange, match="rows went with a partition") as stopped:
            here.apply()
        assert 'write "keep"' in stopped.value.hint
    made.write_job("")
    here.apply()
    assert _state(here) == "parked" and 'partitions = "park"' in made.reason("item")
    assert "--keep-rows lets it go on from here" in made.reason("item")
    here.job.keep_rows(f"{made.schema}.item")
    here.stream()
    assert _state(here) == "streaming" and 5 in _there(here), made.reason("item")
    assert _noted(here)[-1].outcome is Outcome.IGNORED


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("EXCHANGE PARTITION p1 WITH TABLE aside", "rows came or went with it"),
        ("DROP PARTITION p1", "its rows went without the log"),
    ],
    ids=["exchange", "not-kept"],
)
@pytest.mark.one_case("mariadb to postgresql-*", "mysql to mariadb-exchange")
def test_rows_that_may_have_come_park_the_table_and_so_does_a_file_that_says_nothing(
    here: JobHere, statement: str, says: str
) -> None:
    made = here.made
    if statement.startswith("DROP"):
        made.write_job("")
    else:
        made.source.execute("INSERT INTO aside VALUES (1, 'comes')")
    planned = here.job.plan_ddl(f"ALTER TABLE item {statement}")
    assert (planned.outcome, planned.exit_code) == (Outcome.PARKED, 3)
    made.source.execute(f"ALTER TABLE item {statement}", "UPDATE item SET v = 'behind' WHERE id = 15")
    here.stream()
    assert _state(here) == "parked" and says in made.reason("item") and "anabranch load" in made.reason("item")
    for table in [name for name, state in made.states().items() if state == "parked"]:
        here.load(TableId(made.schema, table))
    here.stream()
    made.assert_identical("item", "aside")
