"""Tables of a real PostgreSQL that two jobs write to: what one of them may not do there."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from anabranch.connectors.postgresql.quoting import qualified
from anabranch.connectors.postgresql.target.apply import PostgresWriter
from anabranch.connectors.postgresql.target.load import PostgresLoader
from anabranch.connectors.postgresql.target.shared_tables import whole_of
from anabranch.connectors.postgresql.target.store import PostgresStore
from anabranch.contracts import Bounds, Conflict
from anabranch.errors import TargetError
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId
from anabranch.model.position import Position
from anabranch.model.state import Checkpoint
from anabranch.model.table_facts import Facts
from anabranch.model.table_life import TableState
from rigs.postgresql_load import CUSTOMER, CUSTOMERS, JOB, MARKS, RULES, begin, load

OTHER = "bern"
ANN, BOB = b"1\tAnn\t\\N\t\\N\n", b"2\tBob\t\\N\t\\N\n"


@pytest.fixture
def other(loader: PostgresLoader, endpoint: Endpoint) -> Iterator[PostgresStore]:
    """One job has loaded Ann; a state of the other's stands beside it."""
    begin(loader, CUSTOMERS)
    load(loader, CUSTOMER, ANN)
    with closing(PostgresStore(endpoint)) as store:
        store.save_table(OTHER, TableState(CUSTOMER.source, CUSTOMER.target, "pending"), None)
        yield store


def streams(store: PostgresStore, job: str, **facts: str) -> None:
    store.save_table(
        job,
        TableState(CUSTOMER.source, CUSTOMER.target, "streaming", 1, facts=Facts.read(facts)),
        store.table(job, CUSTOMER.source),
    )


def again(loader: PostgresLoader, job: str = JOB, **options: bool) -> None:
    loader.begin_generation(job, CUSTOMER, 2, [Bounds()], **{"empty": False} | options)


def test_rule_29_a_load_neither_empties_nor_drops_what_is_another_jobs(
    loader: PostgresLoader, other: PostgresStore, target_database: Any
) -> None:
    refused: list[Callable[[], None]] = [
        lambda: again(loader, empty=True),
        lambda: loader.create_table(CUSTOMERS, CUSTOMER, RULES, True, (), (JOB, 2)),
    ]
    streams(other, OTHER, built="yes")
    for attempt in refused:
        with pytest.raises(TargetError, match=r"dest\.customers has rows of other jobs \(bern\): it is not emptied"):
            attempt()
    with pytest.raises(TargetError, match="holds rows"):
        again(loader)
    assert target_database.query("SELECT id, name FROM dest.customers") == [(1, "Ann")]


def test_a_load_begins_when_the_other_jobs_load_is_through(
    loader: PostgresLoader, other: PostgresStore, target_database: Any
) -> None:
    for facts in ({}, {"loaded": "yes"}):
        with pytest.raises(TargetError, match=r"bern has not ended its load of dest\.customers"):
            again(loader, keep=True)
        streams(other, OTHER, **facts)
    streams(other, OTHER, built="yes")
    again(loader, keep=True)
    loader.load_chunk(JOB, CUSTOMER, 2, 0, MARKS, [BOB])
    assert target_database.query("SELECT id FROM dest.customers ORDER BY id") == [(1,), (2,)]


def test_of_two_loads_that_begin_at_once_one_gets_in(
    loader: PostgresLoader, endpoint: Endpoint, other: PostgresStore
) -> None:
    """Each has said that it is there before it asks for others; the second time it is the other one's turn."""
    other.save_table("basel", TableState(CUSTOMER.source, CUSTOMER.target, "pending"), None)
    streams(other, JOB, built="yes")
    began: list[str] = []

    def enter(job: str) -> None:
        with closing(PostgresLoader(endpoint, RULES)) as mine:
            try:
                mine.begin_generation(job, CUSTOMER, 1, [Bounds()], False, True)
            except TargetError:
                return
            began.append(job)

    def enter_both() -> list[str]:
        threads = [threading.Thread(target=enter, args=(job,)) for job in (OTHER, "basel")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return began

    assert enter_both() == ["basel"]
    streams(other, "basel", built="yes")
    began.clear()
    assert sorted(enter_both()) == ["basel", OTHER]  # what has begun is left as it is


@pytest.mark.parametrize("how", ["truncate", "delete"])
@pytest.mark.parametrize("beside", ["another job", "rows that were there"])
def test_rule_16_a_truncate_takes_nothing_that_is_not_the_sources(
    loader: PostgresLoader, endpoint: Endpoint, other: PostgresStore, target_database: Any, how: str, beside: str
) -> None:
    if beside == "rows that were there":
        other.drop(OTHER)
        streams(other, JOB, built="yes", kept="yes")
    other.create_checkpoint(JOB, Position(0), 0)
    with closing(PostgresWriter(endpoint, RULES)) as writer:
        writer.claim(JOB, "me")
        now = Checkpoint("me", 0, Position(0))
        assert writer.begin(now, Checkpoint("me", 1, Position(1))) == "open"
        with pytest.raises(Conflict, match=r"was truncated, and dest\.customers has rows"):
            writer.truncate([CUSTOMER], how)
        writer.rollback()
        assert target_database.query("SELECT id FROM dest.customers") == [(1,)]
        other.drop(OTHER)
        streams(other, JOB, built="yes")
        assert writer.begin(now, Checkpoint("me", 1, Position(1))) == "open"
        writer.truncate([CUSTOMER], how)
        writer.commit()
    assert target_database.query("SELECT id FROM dest.customers") == []


def test_a_table_without_rows_is_kept_for_nobody(
    loader: PostgresLoader, other: PostgresStore, target_database: Any
) -> None:
    """`existing = "keep"` is said of all tables of a job: those that are its own are emptied as ever."""
    other.drop(OTHER)
    for generation, rows in ((2, True), (3, False)):
        pending = TableState(CUSTOMER.source, CUSTOMER.target, "pending", 1, facts=Facts(kept=True))
        other.save_table(JOB, pending, other.table(JOB, CUSTOMER.source))
        loader.begin_generation(JOB, CUSTOMER, generation, [Bounds()], False, True)
        found = other.table(JOB, CUSTOMER.source)
        assert found is not None and found.facts.kept == rows
        target_database.execute("DELETE FROM dest.customers")


def test_drop_leaves_the_other_job_all_that_it_has(other: PostgresStore) -> None:
    other.create_checkpoint(OTHER, Position(7), 0)
    other.save_job(OTHER, {"uuid": "u"})
    assert other.others(JOB) == {CUSTOMER.target} == other.others("nobody")
    other.drop(JOB)
    found = other.checkpoint(OTHER)
    assert found is not None and found.position.sequence == 7 and other.job(OTHER) and other.tables(JOB) == {}
    assert set(other.tables(OTHER)) == {CUSTOMER.source} and other.others(OTHER) == frozenset()


def test_a_partition_of_a_table_with_an_odd_name_is_known_as_one(target_database: Any, other: PostgresStore) -> None:
    """Names that messages quote stand quoted in the state as well."""
    whole, part = TableId("public", 'Whole, and"more'), TableId("public", "its part")
    target_database.execute(
        f"CREATE TABLE {qualified(whole)} (id int) PARTITION BY RANGE (id)",
        f"CREATE TABLE {qualified(part)} PARTITION OF {qualified(whole)} DEFAULT",
    )
    with target_database.connect() as connection:
        assert whole_of(connection, part) == ""
        other.save_table("other", TableState(whole, whole, "streaming"), None)
        assert [whole_of(connection, table) for table in (part, whole)] == [str(whole), ""]
