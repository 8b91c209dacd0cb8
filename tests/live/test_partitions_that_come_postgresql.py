"""Partitions of a PostgreSQL that come after the load and go again: their rows went without the log as those of any other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import pytest

from anabranch import failpoints
from anabranch.connectors.postgresql.source import partitions
from anabranch.connectors.postgresql.source.statement_notes import SET_UP
from anabranch.contracts import Undecided, drift_of
from anabranch.errors import NotCaughtUp
from anabranch.job import caughtup
from anabranch.job.caughtup import CaughtUp, Progress
from anabranch.model.ddl_changes import DdlChange, DdlRule, Outcome
from anabranch.model.endpoint import EndLimits
from anabranch.model.ids import TableId
from anabranch.model.schema import TableSchema
from anabranch.testing.in_time import until
from anabranch.trail.reader import TrailReader
from anabranch.view.identity import trail_uuid
from anabranch.view.opened import source_of
from anabranch.view.options import log_options
from rigs.altered_postgresql import Make, jobs_with
from rigs.job_here import JobHere

KEEP = '[ddl]\npartitions = "keep"\n'
ITEM = TableId("public", "item")
TABLES = (
    "CREATE TABLE item (id int PRIMARY KEY, v varchar(20)) PARTITION BY RANGE (id)",
    "CREATE TABLE item_0 PARTITION OF item FOR VALUES FROM (0) TO (10)",
    "INSERT INTO item VALUES (5, 'at first')",
)
COMES = ("CREATE TABLE item_1 PARTITION OF item FOR VALUES FROM (10) TO (20)", "INSERT INTO item VALUES (15, 'came')")
SUBS = (
    "CREATE TABLE item_s PARTITION OF item FOR VALUES FROM (50) TO (90) PARTITION BY RANGE (id)",
    "CREATE TABLE item_s5 PARTITION OF item_s FOR VALUES FROM (50) TO (60)",
    "INSERT INTO item VALUES (55, 'sub')",
)
WENT = "was detached or dropped"


make = jobs_with(KEEP)


def _ids(here: JobHere) -> list[object]:
    return [one for (one,) in here.made.target.query(f"SELECT id FROM {here.made.there}.item ORDER BY id")]


def _noted(here: JobHere) -> list[DdlChange]:
    return here.job.ddl_changes("public.item")


def _known(here: JobHere) -> TableSchema:
    with TrailReader(here.job.trail) as trail:
        return trail.history.in_force()[ITEM]


def _looker(here: JobHere, limits: EndLimits | None = None) -> Callable[[], Any]:
    """Return what takes a look at the tables each time that it is called, as capture does."""
    job = here.job
    source, options = source_of(job), log_options(job, trail_uuid(job) or "")
    if limits is not None:
        source = replace(cast(Any, source), endpoint=replace(cast(Any, source).endpoint, limits=limits))
    with TrailReader(job.trail) as trail:
        known = trail.history.in_force()
    return lambda: drift_of(source, options, job.config.followed_changes, known)


def _looks(here: JobHere, number: int) -> None:
    """Run until so many changes are noted."""
    here.looks = True
    with here.running():
        until(lambda: len(_noted(here)) == number, f"{number} changes are noted: {_noted(here)}")


def _knows(here: JobHere, *names: str) -> None:
    """Run until the trail knows these partitions, as the catalogue has them."""
    here.looks = True
    with here.running():
        until(
            lambda: {part.table.name for part in _known(here).partitions if part.table and part.joined} == {*names},
            f"the partitions are known: {_known(here).partitions}",
        )


@pytest.mark.parametrize("notes", [(), SET_UP], ids=["no notes", "event trigger"])
@pytest.mark.parametrize("goes", ["DROP TABLE item_1", "ALTER TABLE item DETACH PARTITION item_1"])
@pytest.mark.since(14)
def test_rule_17_a_partition_that_came_behind_the_load_is_missed_once_it_goes(
    make: Make, goes: str, notes: tuple[str, ...]
) -> None:
    here = make("postgresql", *TABLES, *notes)
    source = here.made.source
    source.execute(*COMES)
    _knows(here, "item_0", "item_1")
    source.execute(goes, "INSERT INTO item VALUES (6, 'behind')")
    _looks(here, 1)
    here.stream()
    assert here.made.states()["item"] == "streaming" and _ids(here) == [5, 6, 15]
    (noted,) = _noted(here)
    assert (noted.outcome, noted.rule) == (Outcome.IGNORED, DdlRule("[ddl] partitions", "keep"))
    _knows(here, "item_0")
    assert len(_noted(here)) == 1


@pytest.mark.since(13)
def test_rule_17_it_is_missed_where_nobody_has_looked_while_it_was_there(make: Make) -> None:
    """The log names the partitions that rows are in, also to a capture that was away all the time."""
    here = make("postgresql", *TABLES)
    source = here.made.source
    source.execute(*COMES, *SUBS, "DROP TABLE item_1, item_s5", "UPDATE item SET id = 4 WHERE id = 5")
    _looks(here, 1)
    here.stream()
    assert here.made.states()["item"] == "streaming" and _ids(here) == [4, 15, 55], here.made.reason("item")
    _knows(here, "item_0", "item_s")
    source.execute(
        "CREATE TABLE item_1 PARTITION OF item FOR VALUES FROM (10) TO (20)", "INSERT INTO item VALUES (16, 'b')"
    )
    here.looks = False
    here.capture()
    assert any(part.told_by for part in _known(here).partitions)  # before anybody looks
    source.execute("DROP TABLE item_1")
    here.made.write_job("")
    here.looks = True
    with here.running():
        until(lambda: here.made.states()["item"] == "parked", "the table is parked")
    assert f"item_1 {WENT}" in here.made.reason("item")
    here.load(ITEM)
    here.stream()
    here.made.assert_identical("item")
    assert [part.table.name for part in _known(here).partitions if part.table] == ["item_0", "item_s"]


@pytest.mark.since(13)
def test_rule_17_a_table_that_is_emptied_together_with_a_divided_one_is_no_partition_of_it(make: Make) -> None:
    here = make("postgresql", *TABLES, "CREATE TABLE other (id int PRIMARY KEY)", "CREATE TABLE third (id int)")
    here.made.source.execute("TRUNCATE item, other, third", "INSERT INTO item VALUES (1, 'behind')")
    _knows(here, "item_0")
    here.stream()
    assert not any(part.told_by for part in _known(here).partitions) and _noted(here) == []
    assert here.made.states()["item"] == "streaming", here.made.reason("item")
    here.made.assert_identical("item", "other")


@pytest.mark.since(13)
def test_rule_17_a_partition_that_has_another_name_or_another_of_its_name(make: Make) -> None:
    here = make("postgresql", *TABLES, *COMES)
    source = here.made.source
    source.execute("ALTER TABLE item_0 RENAME TO other", "INSERT INTO item VALUES (1, 'renamed')")
    _knows(here, "other", "item_1")
    assert _noted(here) == []
    source.execute("DROP TABLE item_1", COMES[0], "INSERT INTO item VALUES (16, 'anew')")
    _looks(here, 1)
    here.stream()
    assert here.made.states()["item"] == "streaming" and _ids(here) == [1, 5, 15, 16]
    source.execute(
        "ALTER TABLE item DETACH PARTITION other",
        "INSERT INTO other VALUES (2, 'alone')",
        "ALTER TABLE item ATTACH PARTITION other FOR VALUES FROM (0) TO (10)",
    )
    with here.running():
        until(lambda: here.made.states()["item"] == "parked", "the table is parked")
    assert "other was detached and attached again" in here.made.reason("item")


ATTACHED = {
    "with rows": ("INSERT INTO came VALUES (25, 'before')", "attached as a partition"),
    "moved": (
        "WITH moved AS (DELETE FROM item WHERE id >= 20 RETURNING *) INSERT INTO came SELECT * FROM moved",
        "attached as a partition with rows",
    ),
    "empty": ("", ""),
}


@pytest.mark.parametrize("how", ATTACHED)
@pytest.mark.since(13)
def test_rule_17_a_table_that_is_made_and_attached_at_once_brings_its_rows_unseen(make: Make, how: str) -> None:
    """As who splits a DEFAULT partition does. One that is empty parks nothing."""
    here = make(
        "postgresql", *TABLES, "CREATE TABLE item_d PARTITION OF item DEFAULT", "INSERT INTO item VALUES (22, 'd')"
    )
    fill, why = ATTACHED[how]
    frees = "DELETE FROM item WHERE id >= 20;" if how != "moved" else ""
    here.made.source.execute(
        f"BEGIN; CREATE TABLE came (LIKE item INCLUDING ALL); {frees} {fill};"
        " ALTER TABLE item ATTACH PARTITION came FOR VALUES FROM (20) TO (30);"
        " INSERT INTO item VALUES (27, 'within'); COMMIT",
        "INSERT INTO item VALUES (28, 'behind')",
    )
    if not why:
        _knows(here, "item_0", "item_d", "came")
        here.stream()
        here.made.assert_identical("item")
        return
    here.looks = True
    with here.running():
        until(lambda: here.made.states()["item"] == "parked", "the table is parked")
    assert why in here.made.reason("item")


ALONE = "CREATE TABLE item (id int PRIMARY KEY, v varchar(20)) PARTITION BY RANGE (id)"


@pytest.mark.parametrize("fill", ["INSERT INTO came VALUES (25, 'before');", ""], ids=["with rows", "empty"])
@pytest.mark.since(13)
def test_rule_17_a_default_partition_that_is_attached_alone_has_no_bound(make: Make, fill: str) -> None:
    here = make("postgresql", ALONE)
    here.made.source.execute(
        f"BEGIN; CREATE TABLE came (LIKE item INCLUDING ALL); {fill} ALTER TABLE item ATTACH PARTITION came DEFAULT;"
        " INSERT INTO item VALUES (27, 'within'); COMMIT",
    )
    if not fill:
        _knows(here, "came")
        here.stream()
        here.made.assert_identical("item")
        return
    here.looks = True
    with here.running():
        until(lambda: here.made.states()["item"] == "parked", "the table is parked")
    assert "came was attached as a partition with rows" in here.made.reason("item")


@pytest.mark.since(14)
def test_rule_17_rows_of_a_first_partition_are_not_lost_behind_a_statement_that_a_note_tells(make: Make) -> None:
    """Nobody has looked before: the statement parks the table, so that its next load brings them."""
    here = make("postgresql", ALONE, *SET_UP, ddl=KEEP + 'rename_column = "apply"\n')
    here.made.source.execute(
        "CREATE TABLE came (LIKE item INCLUDING ALL)",
        "INSERT INTO came VALUES (25, 'before')",
        "ALTER TABLE item ATTACH PARTITION came FOR VALUES FROM (20) TO (30)",
        "ALTER TABLE item RENAME v TO w",
    )
    here.stream()
    assert here.made.states()["item"] == "parked" and "its rows are in partitions" in here.made.reason("item")
    here.load(ITEM, recreate=True)
    here.stream()
    here.made.assert_identical("item")


@pytest.mark.parametrize("is_open", [True, False], ids=["partition", "whole"])
@pytest.mark.parametrize("has_rows", [True, False], ids=["with rows", "empty"])
@pytest.mark.since(14)
def test_rule_17_a_large_partition_is_read_in_slices_over_several_looks(
    make: Make, monkeypatch: pytest.MonkeyPatch, has_rows: bool, is_open: bool
) -> None:
    """Read a large partition in slices, also as a user who may read the whole table alone. Until that is through, nobody says
    that the table fits."""
    monkeypatch.setattr(partitions, "SLICE", 1)
    monkeypatch.setattr(partitions, "SECONDS", 0.0)
    if not is_open:
        closed = partitions._HOW_READ.replace("has_schema_privilege", "false AND has_schema_privilege")
        monkeypatch.setattr(partitions, "_HOW_READ", closed)
    here = make("postgresql", *TABLES)
    many, last = "SELECT n, 'x' FROM generate_series({}, {}) AS n", ""
    if has_rows:  # the first ones are gone again, which the log tells of
        last = f"INSERT INTO came {many.format(100, 999)};"
    here.made.source.execute(
        f"BEGIN; CREATE TABLE came (LIKE item INCLUDING ALL); {last}"
        " ALTER TABLE item ATTACH PARTITION came FOR VALUES FROM (20) TO (9000);"
        f" INSERT INTO item {many.format(1000, 2000)}; COMMIT",
        "DELETE FROM item WHERE id BETWEEN 20 AND 950",
    )
    look, found = _looker(here), list[Any]()
    while not found or isinstance(found[-1], Undecided):
        found.append(look()[ITEM])
    assert len(found) > 2 and "came is read up to page 1 of" in found[0].reason
    if has_rows:
        assert "attached as a partition with rows" in found[-1]
    else:
        assert [part.name for part in found[-1].schema.partitions] == ["public.item_0", "public.came"]


@pytest.mark.since(14)
def test_rule_17_a_partition_that_cannot_be_read_is_named_and_others_are_looked_at(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once it can be read, it is told."""
    here = make("postgresql", *TABLES, "CREATE TABLE other (id int PRIMARY KEY)")
    here.made.source.execute(
        "BEGIN; CREATE TABLE came (LIKE item INCLUDING ALL); INSERT INTO came VALUES (25, 'before');"
        " ALTER TABLE item ATTACH PARTITION came FOR VALUES FROM (20) TO (30); COMMIT",
        "DROP TABLE other",
    )
    look = _looker(here, EndLimits(statement=2.0))
    with monkeypatch.context() as patched:
        patched.setattr(partitions, "_PAGES", "SELECT pg_catalog.pg_sleep(600), %s::oid")
        found = look()
    assert "it is gone at the source" in found[TableId("public", "other")]
    assert "came cannot be looked at: canceling statement due to" in found[ITEM].reason
    assert "attached as a partition with rows" in look()[ITEM]


@pytest.mark.since(14)
def test_rule_17_a_partition_of_a_transaction_that_is_rolled_back_is_not_missed(make: Make) -> None:
    """Let the table go on, also where rows of the partition came before it was known."""
    here = make("postgresql", *TABLES)
    many = "INSERT INTO item SELECT n, repeat('x', 20) FROM generate_series({}, {}) AS n"
    source = here.made.source
    source.execute(
        f"ALTER DATABASE \"{source.name}\" SET logical_decoding_work_mem = '64kB'",  # they come while they are open
        f"BEGIN; {COMES[0].replace('20)', '20000)')}; {many.format(10, 15000)}; ROLLBACK",
        "BEGIN; SAVEPOINT s; CREATE TABLE item_2 PARTITION OF item FOR VALUES FROM (20) TO (20000);"
        f" {many.format(20, 15000)}; ROLLBACK TO s; {COMES[0]}; {COMES[1]}; COMMIT",
    )
    _knows(here, "item_0", "item_1")
    here.stream()
    assert _noted(here) == []
    here.made.assert_identical("item")


@pytest.mark.since(13)
def test_rule_17_wherever_capture_dies_it_is_missed_once(make: Make) -> None:
    here = make("postgresql", *TABLES)
    here.looks = True
    for number, place in enumerate(
        ("trail.history.noted", "trail.history.synced", "capture.appended", "trail.published")
    ):
        low = (number + 1) * 10
        here.made.source.execute(
            f"CREATE TABLE part_{number} PARTITION OF item FOR VALUES FROM ({low}) TO ({low + 10})",
            f"INSERT INTO item VALUES ({low + 5}, 'came')",
        )
        failpoints.arm({failpoints.VARIABLE: f"{place}=raise"})
        with pytest.raises(failpoints.FailpointReached):
            here.capture()
        failpoints.arm({})
        here.made.source.execute(f"DROP TABLE part_{number}")
        _looks(here, number + 1)
    here.stream()
    assert here.made.states()["item"] == "streaming" and _ids(here) == [5, 15, 25, 35, 45]


@pytest.mark.since(13)
def test_rule_17_a_partition_of_which_every_look_fails_ends_the_wait_for_what_is_behind(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One look that fails is tried again; many end it by name, and nobody says that all is there."""
    here = make("postgresql", *TABLES)
    here.looks = True
    here.made.source.execute(
        "BEGIN; CREATE TABLE came (LIKE item INCLUDING ALL);"
        " ALTER TABLE item ATTACH PARTITION came FOR VALUES FROM (20) TO (30); COMMIT",
        "INSERT INTO item VALUES (6, 'behind')",
    )
    with monkeypatch.context() as patched:
        patched.setattr(partitions, "_PAGES", "SELECT 1 / (%s::bigint * 0)")
        patched.setattr(caughtup, "KNOWING", 0.0)
        patched.setattr(caughtup, "FAILED_SECONDS", 0.0)
        with here.running():
            waits, ended = _waits(here), list[NotCaughtUp]()
            until(lambda: _is_reached(waits, ended) or ended, "the wait for what is behind ends")
    assert ended[0].message.startswith(
        "nobody can tell whether public.item has all its rows: the partition public.came"
    )
    assert "division by zero" in ended[0].message and "load JOB --table public.item" in str(ended[0].hint)
    with here.running():
        waits, ended = _waits(here), []
        until(lambda: _is_reached(waits, ended), "the job is caught up")
    assert not ended
    here.made.assert_identical("item")


def _waits(here: JobHere) -> CaughtUp:
    return CaughtUp(Progress(here.job))


def _is_reached(waits: CaughtUp, ended: list[NotCaughtUp]) -> bool:
    waits.progress.refresh()
    try:
        return waits.is_reached()
    except NotCaughtUp as late:
        ended.append(late)
        return False
