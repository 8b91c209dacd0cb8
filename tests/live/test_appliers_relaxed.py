"""`[apply] commit_order = "relaxed"` at a real PostgreSQL, MySQL and MariaDB: commits in any order, and what becomes of them
when something dies."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest

from anabranch import connectors, failpoints
from anabranch.apply.life.taking_out import let_leave
from anabranch.apply.merge_carrier import MergeCarrier
from anabranch.apply.progress import Progress
from anabranch.apply.relaxed import Relaxed
from anabranch.connectors.mysql.target.appliers import MysqlApplier
from anabranch.connectors.postgresql.target.appliers import PostgresApplier
from anabranch.contracts import PlacedReader, ValueRules
from anabranch.cutover.following import Following
from anabranch.errors import Fenced, Redefined, RowRefused, StateError, TargetBusy, TargetError, TargetUnavailable
from anabranch.model.schema import Index
from anabranch.model.state import Checkpoint
from anabranch.rows.net import DELETE, INSERT, ChangeShape
from anabranch.testing.databases import Database, create_database, unique_name
from anabranch.testing.in_time import until
from anabranch.testing.servers import Server, start_postgresql
from anabranch.trail import retention
from rigs.an_applier import an_applier
from rigs.chunks import ITEMS
from rigs.drawn import drawn
from rigs.dying_applier import killed_at
from rigs.mysql_applier import Carried
from rigs.one_by_one import ITEMS as ROWS
from rigs.one_by_one import insert, item
from rigs.postgresql_applier import JOB, TABLES, Applied, ShortPauses

RELAXED = {"per_transaction": True, "appliers": 5, "is_relaxed": True}
WAYS = {
    "relaxed": RELAXED,
    "kept": {"per_transaction": True, "appliers": 4},
    "one": {"per_transaction": True},
    "epoch": {},
}
POINTS = [
    "apply.relaxed.carried",
    "apply.out.of.turn",
    "apply.relaxed.ended",
    "apply.begun",
    "apply.commit",
    "apply.committed",
]


@pytest.fixture
def one(target_database: Database, tmp_path: Path) -> Iterator[Applied]:
    target_database.execute(*TABLES, "ALTER TABLE shop.items ADD UNIQUE (a)")
    with closing(Applied(target_database, tmp_path / "trail", options=RELAXED, unique=("a",))) as made:
        yield made
    failpoints.arm({})


@pytest.fixture
def carried(mysql_family: Server, source_database: Callable[[Server], Database], tmp_path: Path) -> Iterator[Carried]:
    database = source_database(mysql_family)
    database.execute("CREATE TABLE items (id bigint PRIMARY KEY, a bigint UNIQUE, b text)")
    with closing(Carried(database, tmp_path / "trail", [with_key()], unique=frozenset({"a"}), options=RELAXED)) as made:
        yield made
    failpoints.arm({})


def with_key() -> Any:
    return replace(ITEMS, indexes=(Index("a", ("a",), True),))


def again(one: Applied, owner: str = "next", leaving: Callable[[], None] = lambda: None, **options: Any) -> None:
    """Another apply process of the job, which claims it."""
    one.applier.progress.writer.close()
    one.applier.progress.store.close()
    target, known = connectors.target(one.endpoint), one.context
    writer, store = target.writer(ValueRules(), False), target.store()
    one.applier = an_applier(
        JOB, one.reader, writer, store, lambda states: known, owner=owner, patience=ShortPauses(), **options
    )
    one.applier.leaving = leaving
    writer.claim(JOB, owner)
    one.applier.progress.look()


def noted(database: Database) -> list[int]:
    return [n for (n,) in database.query("SELECT sequence FROM anabranch.applied ORDER BY sequence")]


def at(database: Database) -> int:
    [(found,)] = database.query("SELECT sequence FROM anabranch.checkpoint")
    return int(found)


def holding(one: Applied, database: Database, upto: int, value: int = 1) -> psycopg.Connection:
    """A foreign session that has the row which the first transaction changes."""
    foreign = psycopg.connect(database.url)
    foreign.execute("SELECT FROM shop.items WHERE id = %s FOR UPDATE", [value])
    return foreign


# --- without faults ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_gg_30_a_postgresql_ends_as_by_one_session_in_any_order(
    one: Applied, target_database: Database, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    transactions, rows = drawn(seed, 250)
    runs = relaxed_runs(monkeypatch)
    one.applier.apply(one.append(transactions))
    assert target_database.query(ROWS) == rows and runs
    assert at(target_database) == 250 and noted(target_database) == []
    [changes] = target_database.query(
        "SELECT changes_applied FROM anabranch.table_state WHERE source_table = 'shop.items'"
    )
    assert changes == (sum(map(len, transactions)),)


@pytest.mark.parametrize("seed", [4, 5])
def test_gg_30_a_mysql_ends_as_by_one_session_in_any_order(
    carried: Carried, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    transactions, rows = drawn(seed, 120)
    runs = relaxed_runs(monkeypatch)
    carried.apply(*transactions)
    assert list(carried.database.query("SELECT id, a, b FROM items ORDER BY id")) == rows
    assert carried.checkpoint == 120 and carried.store.jobs.applied(carried.job) == {} and runs


def test_a_part_of_a_cluster_is_refused(carried: Carried, monkeypatch: pytest.MonkeyPatch) -> None:
    """A claim at another node is certified against rows that were written, and no lock. The server says it is one."""
    as_cluster = "SELECT 'wsrep_on', 'ON'"
    monkeypatch.setattr("anabranch.connectors.mysql.target.jobs.CLUSTERED", as_cluster)
    with pytest.raises(TargetError, match="Galera"):
        carried.apply(*([insert(item(n, n))] for n in range(20)))
    assert carried.checkpoint == 0 and list(carried.database.query("SELECT count(*) FROM items")) == [(0,)]


def relaxed_runs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    found: list[int] = []
    send = Relaxed.one_by_one

    def told(way: Relaxed, now: Checkpoint, transactions: Any) -> Checkpoint:
        then = send(way, now, transactions)
        if not way.moves:
            found.append(len(transactions))
        return then

    monkeypatch.setattr(Relaxed, "one_by_one", told)
    return found


def test_later_ones_are_committed_while_an_early_one_waits(one: Applied, target_database: Database) -> None:
    """A position of the job is only told up to the low mark; who reads rows with it waits for a barrier."""
    target_database.execute("INSERT INTO shop.items VALUES (1, 1, 'held')")
    upto = one.append(
        [[("items", "u", item(1, 1, "held"), item(1, 1, "mine"))], *([insert(item(n, n))] for n in range(2, 30))]
    )
    reader = connectors.target(one.endpoint).reader(ValueRules())
    with closing(reader):
        assert isinstance(reader, PlacedReader)
        with holding(one, target_database, upto) as foreign:
            thread = threading.Thread(target=one.applier.apply, args=[upto])
            thread.start()
            until(lambda: len(noted(target_database)) == 28, "all others are committed")
            assert at(target_database) == 0
            foreign.rollback()
            found = reader.place(JOB, ITEMS.id)
            thread.join()
        assert found is not None and found[0].position.sequence == upto
    assert target_database.query("SELECT count(*), max(b) FROM shop.items WHERE id = 1") == [(1, "mine")]
    assert at(target_database) == upto and noted(target_database) == []


def test_what_the_target_refuses_stops_the_job_and_a_start_goes_on_from_there(
    one: Applied, target_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    carry_out = PostgresApplier.carry_out

    def late(session: PostgresApplier, changes: Any) -> bool:
        if changes[0][0].operation == DELETE and at(target_database) == 0:
            until(lambda: len(noted(target_database)) == 20, "all others are committed")
        return carry_out(session, changes)

    monkeypatch.setattr(PostgresApplier, "carry_out", late)
    one.append([[insert(item(n, n))] for n in range(5)] + [[("items", "d", item(99, 99))]])
    upto = one.append([[insert(item(n, n))] for n in range(5, 20)])
    with pytest.raises(RowRefused):
        one.applier.apply(upto)
    assert at(target_database) == 5 and noted(target_database) == list(range(7, 22))
    settled: list[list[int]] = []
    settle = Progress.settle
    monkeypatch.setattr(Progress, "settle", lambda progress: settled.append(noted(target_database)) or settle(progress))
    with pytest.raises(RowRefused):  # it is looked at again, and nothing is done twice
        again(one, **RELAXED)
    assert settled == [list(range(7, 22))], "notes count behind a commit with the target's disk"
    reader = connectors.target(one.endpoint).reader(ValueRules())
    with closing(reader), pytest.raises(TargetBusy, match="beyond the checkpoint"):
        assert isinstance(reader, PlacedReader)
        reader.place(JOB, ITEMS.id)
    target_database.execute("INSERT INTO shop.items VALUES (99, 99, 'new')")
    again(one, "third", **RELAXED)
    one.applier.apply(upto)
    assert target_database.query("SELECT id FROM shop.items ORDER BY id") == [(n,) for n in range(20)]
    assert at(target_database) == upto and noted(target_database) == []


def test_a_last_one_that_is_applied_already_is_passed(one: Applied, target_database: Database) -> None:
    """Too few for a run: the checkpoint moves over it all the same."""
    upto = one.append([[insert(item(n, n))] for n in range(1, 4)])
    note(target_database, 3)
    target_database.execute("INSERT INTO shop.items VALUES (3, 3, 'new')")
    again(one, **RELAXED)
    assert at(target_database) == upto and noted(target_database) == []
    assert target_database.query("SELECT id FROM shop.items ORDER BY id") == [(1,), (2,), (3,)]


def note(database: Database, sequence: int) -> None:
    """Note a transaction as applied, as a session does."""
    database.execute(f"INSERT INTO anabranch.applied VALUES ('{JOB}', 'target', {sequence}, 'log.1:{sequence - 1}')")


@pytest.mark.parametrize("way", WAYS)
def test_a_table_that_the_source_has_redefined_leaves_in_the_catch_up(
    one: Applied, target_database: Database, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """It would stop each start: it is parked to be loaded again, and all others are caught up with."""
    carry_out = MergeCarrier.carry_out

    def asks(carrier: MergeCarrier, feed: Any) -> None:
        if ITEMS.id in carrier.progress.context.tables:
            raise Redefined("the source defines it otherwise", table=str(ITEMS.id))
        carry_out(carrier, feed)

    upto = one.append([[("heap", "i", {"a": n, "b": "x"})] for n in range(1, 8)] + [[insert(item(1, 1))]])
    one.trail.park(ITEMS.id, "altered")
    one.trail.flush()
    note(target_database, 7)
    target_database.execute("INSERT INTO shop.heap VALUES (7, 'x')")
    monkeypatch.setattr(MergeCarrier, "carry_out", asks)
    again(one, **WAYS[way])
    assert at(target_database) == 7 and noted(target_database) == []
    one.applier.apply(upto)
    assert target_database.query("SELECT a FROM shop.heap ORDER BY a") == [(n,) for n in range(1, 8)]
    state = one.applier.progress.states[ITEMS.id]
    assert state.is_parked and state.facts.resumes is None and at(target_database) == upto


def test_a_table_that_a_load_asks_for_leaves_before_the_catch_up(one: Applied, target_database: Database) -> None:
    """The row that stops each start is the reason for which it is loaded again."""
    upto = one.append([[("items", "d", item(99, 99))], *([("heap", "i", {"a": n, "b": "x"})] for n in range(1, 8))])
    note(target_database, 8)
    target_database.execute("INSERT INTO shop.heap VALUES (7, 'x')")
    with pytest.raises(RowRefused):
        again(one, **RELAXED)
    names = one.applier.progress.settings.names
    retention.register(one.directory, names.leave(ITEMS.id), 0)

    def leaving() -> None:
        let_leave(one.applier.progress, lambda state: None)

    again(one, "third", leaving=leaving, **RELAXED)
    assert at(target_database) == upto and noted(target_database) == []
    assert target_database.query("SELECT a FROM shop.heap ORDER BY a") == [(n,) for n in range(1, 8)]
    assert one.applier.progress.states[ITEMS.id].is_taken_out


def test_a_cut_over_waits_for_what_is_missing(one: Applied, target_database: Database) -> None:
    """The checkpoint alone would say that it is there."""
    with closing(connectors.target(one.endpoint).store()) as store:
        following = Following(SimpleNamespace(config=SimpleNamespace(name=JOB), label=JOB), store, one.reader, None)  # type: ignore[arg-type]  # neither asks an end
        assert not following._is_between()
        target_database.execute(f"INSERT INTO anabranch.applied VALUES ('{JOB}', 'target', 7, 'log.1:7')")
        assert following._is_between()
        with pytest.raises(StateError, match="1 transactions are applied beyond"):
            progress = one.applier.progress
            progress.catch_up = None
            progress.ask_again()
            progress.look()


# --- something dies ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("point", "time"),
    [(point, time) for point in POINTS[:2] for time in (1, 60, 140)] + [(point, 1) for point in POINTS[2:]],
)
def test_rule_09_a_postgresql_has_each_once_whatever_dies(
    one: Applied, target_database: Database, point: str, time: int, way: str
) -> None:
    """The next process may keep the order, or merge epochs: first it carries out what is missing."""
    transactions, rows = drawn(7, 200)
    upto = one.append(transactions)
    failpoints.arm({failpoints.VARIABLE: f"{point}=raise@{time}"})
    with pytest.raises(failpoints.FailpointReached):
        one.applier.apply(upto)
    failpoints.arm({})
    again(one, **WAYS[way])
    assert noted(target_database) == []
    one.applier.apply(upto)
    assert target_database.query(ROWS) == rows and at(target_database) == upto


@pytest.mark.parametrize(
    ("point", "time"), [("apply.relaxed.carried", 50), ("apply.out.of.turn", 50), ("apply.relaxed.ended", 1)]
)
@pytest.mark.parametrize("way", WAYS)
def test_rule_09_a_mysql_has_each_once_whatever_dies(carried: Carried, point: str, time: int, way: str) -> None:
    transactions, rows = drawn(8, 100)
    upto = carried.append(transactions)
    failpoints.arm({failpoints.VARIABLE: f"{point}=raise@{time}"})
    with pytest.raises(failpoints.FailpointReached):
        carried.applier.apply(upto)
    failpoints.arm({})
    carried.options = WAYS[way]
    carried.applier.progress.writer.close()
    with closing(carried.applier.progress.store):
        carried.applier = carried.begin("next")
    carried.applier.apply(upto)
    assert list(carried.database.query("SELECT id, a, b FROM items ORDER BY id")) == rows
    assert carried.checkpoint == upto and carried.store.jobs.applied(carried.job) == {}


KILLS = [
    "apply.relaxed.carried=exit@70",
    "apply.out.of.turn=exit@90",
    "apply.relaxed.ended=exit@1",
    "apply.commit=exit@2",
]


@pytest.mark.parametrize("point", KILLS)
def test_rule_09_a_job_of_a_postgresql_that_is_killed(one: Applied, target_database: Database, point: str) -> None:
    transactions, rows = drawn(11, 200)
    upto = one.append(transactions)
    assert killed_at(point, JOB, one.endpoint, one.directory, one.context, upto, RELAXED) == failpoints.EXIT_CODE
    again(one, **RELAXED)
    assert noted(target_database) == []
    one.applier.apply(upto)
    assert target_database.query(ROWS) == rows and at(target_database) == upto


@pytest.mark.parametrize("point", KILLS[:3])
def test_rule_09_a_job_of_a_mysql_that_is_killed(carried: Carried, point: str) -> None:
    transactions, rows = drawn(12, 120)
    upto, context = carried.append(transactions), carried.applier.progress.context_of({})
    found = killed_at(point, carried.job, carried.endpoint, carried.directory, context, upto, RELAXED)
    assert found == failpoints.EXIT_CODE
    carried.applier.progress.writer.close()
    with closing(carried.applier.progress.store):
        carried.applier = carried.begin("next")
    carried.applier.apply(upto)
    assert list(carried.database.query("SELECT id, a, b FROM items ORDER BY id")) == rows
    assert carried.checkpoint == upto and carried.store.jobs.applied(carried.job) == {}


def test_rule_09_a_target_that_is_killed(
    servers_directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commits that it has not written down are lost with their notes."""
    with start_postgresql(servers_directory / unique_name("relaxed"), options=("--wal-writer-delay=10s",)) as server:
        database = create_database(server, "target")
        database.execute(*TABLES, "ALTER TABLE shop.items ADD UNIQUE (a)")
        with closing(Applied(database, tmp_path / "trail", options=RELAXED, unique=("a",))) as one:
            commit, lock, seen = PostgresApplier.commit_ahead, threading.Lock(), list[int]()

            def crashes(session: PostgresApplier, now: Any, at: Any) -> bool:
                with lock:
                    seen.append(at.sequence)
                    if len(seen) in (60, 140):
                        server.stop(immediate=True)
                        server.start()
                return commit(session, now, at)

            monkeypatch.setattr(PostgresApplier, "commit_ahead", crashes)
            transactions, rows = drawn(13, 200)
            one.applier.apply(one.append(transactions))
            assert len(seen) > 140 and database.query(ROWS) == rows and noted(database) == []


LOST = 15  # the transaction that a target loses, with its note


def loses_one(monkeypatch: pytest.MonkeyPatch, database: Database, *statements: str) -> list[int]:
    """The target loses the end of what was committed while nothing is open, and nobody's line breaks. Returns when it was."""
    send, seen = Relaxed.one_by_one, list[int]()

    def loses(way: Relaxed, now: Checkpoint, transactions: Any) -> Checkpoint:
        then = send(way, now, transactions)
        if not seen:
            seen.append(then.position.sequence)
            database.execute(f"DELETE FROM anabranch.applied WHERE sequence = {LOST}", *statements)
        return then

    monkeypatch.setattr(Relaxed, "one_by_one", loses)
    return seen


def test_rule_09_notes_that_a_postgresql_loses_and_the_checkpoint_does_not(
    one: Applied, target_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The row of the checkpoint alone would say that nothing is missing."""
    seen = loses_one(monkeypatch, target_database, f"DELETE FROM shop.items WHERE id = {LOST}")
    upto = one.append([[insert(item(n, n))] for n in range(1, 31)])
    one.applier.apply(upto)
    assert seen == [30] and "has lost 1 transactions" in "".join(one.waits)
    assert target_database.query("SELECT count(*), sum(id) FROM shop.items") == [(30, 465)]
    assert at(target_database) == upto and noted(target_database) == []


def test_rule_09_notes_that_a_mysql_loses_and_the_checkpoint_does_not(
    carried: Carried, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = loses_one(monkeypatch, carried.database, f"DELETE FROM items WHERE id = {LOST}")
    carried.apply(*([insert(item(n, n))] for n in range(1, 31)))
    assert seen == [30] and list(carried.database.query("SELECT count(*), sum(id) FROM items")) == [(30, 465)]
    assert carried.checkpoint == 30 and carried.store.jobs.applied(carried.job) == {}


@pytest.mark.parametrize("is_committed", [True, False], ids=["committed", "not"])
def test_rule_09_a_lost_answer_to_a_commit_at_a_postgresql(
    one: Applied, target_database: Database, monkeypatch: pytest.MonkeyPatch, is_committed: bool
) -> None:
    lose_an_answer(monkeypatch, PostgresApplier, 70, is_committed)
    transactions, rows = drawn(9, 150)
    one.applier.apply(one.append(transactions))
    assert target_database.query(ROWS) == rows and noted(target_database) == []
    assert "lost" in "".join(one.waits)


@pytest.mark.parametrize("is_committed", [True, False], ids=["committed", "not"])
def test_rule_09_a_lost_answer_to_a_commit_at_a_mysql(
    carried: Carried, monkeypatch: pytest.MonkeyPatch, is_committed: bool
) -> None:
    lose_an_answer(monkeypatch, MysqlApplier, 40, is_committed)
    transactions, rows = drawn(10, 90)
    carried.apply(*transactions)
    assert list(carried.database.query("SELECT id, a, b FROM items ORDER BY id")) == rows
    assert carried.checkpoint == 90 and carried.store.jobs.applied(carried.job) == {}


def lose_an_answer(monkeypatch: pytest.MonkeyPatch, of: Any, number: int, is_committed: bool) -> None:
    commit, lock, seen = of.commit_ahead, threading.Lock(), list[int]()

    def loses(session: Any, now: Any, at: Any) -> bool:
        with lock:
            seen.append(at.sequence)
            is_lost = len(seen) == number
        if is_lost and not is_committed:
            session.close()
            raise TargetUnavailable("the answer is lost")
        found = commit(session, now, at)
        if is_lost:
            session.close()
            raise TargetUnavailable("the answer is lost")
        return bool(found)

    monkeypatch.setattr(of, "commit_ahead", loses)


def test_rule_09_a_session_of_a_postgresql_that_is_terminated(one: Applied, target_database: Database) -> None:
    target_database.execute("INSERT INTO shop.items VALUES (1, 1, 'held')")
    rows = [[insert(item(n, n))] for n in range(2, 40)]
    upto = one.append([[("items", "u", item(1, 1, "held"), item(1, 1, "mine"))], *rows])
    with holding(one, target_database, upto) as foreign:
        thread = threading.Thread(target=one.applier.apply, args=[upto])
        thread.start()
        terminate = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        terminate += " WHERE wait_event_type = 'Lock' AND datname = current_database()"
        until(lambda: bool(target_database.query(terminate)), "the one that waits is terminated")
        foreign.rollback()
        thread.join()
    assert target_database.query("SELECT count(*), count(*) FILTER (WHERE b = 'mine') FROM shop.items") == [(39, 1)]
    assert at(target_database) == upto and noted(target_database) == []


def test_rule_09_a_fenced_owner_commits_nothing_beyond(one: Applied, target_database: Database) -> None:
    """A session that has carried its changes out when another process claims the job, and is not found by it."""
    target_database.execute("INSERT INTO shop.items VALUES (1, 1, 'x')")
    one.applier.apply(one.append([[insert(item(n, n))] for n in range(10, 20)]))
    progress = one.applier.progress
    writer: Any = progress.writer
    [session, *_] = writer.appliers(2, [])
    changes = [(shape, values) for shape, values in made(one, insert(item(50, 50)))]
    assert session.carry_out(changes)
    target_database.execute("UPDATE anabranch.checkpoint SET owner = 'another'")
    assert not session.commit_ahead(progress.checkpoint, one.trail.end.position)
    session.rollback()
    with pytest.raises(Fenced):
        one.applier.apply(one.append([[insert(item(n, n))] for n in range(60, 80)]))
    assert noted(target_database) == [] and target_database.query("SELECT count(*) FROM shop.items") == [(11,)]


def made(one: Applied, change: tuple[Any, ...]) -> Any:
    table = one.applier.progress.context.tables[ITEMS.id].table
    row = change[2]
    return [(ChangeShape(table, INSERT, table.columns), [str(row[name]).encode() for name in table.columns])]


def test_rule_09_a_claim_waits_for_a_commit_that_is_under_way(one: Applied, target_database: Database) -> None:
    """The note holds the checkpoint as it is until its transaction has ended."""
    one.applier.apply(one.append([[insert(item(n, n))] for n in range(10, 20)]))
    progress = one.applier.progress
    now = progress.checkpoint
    with psycopg.connect(target_database.url) as zombie, psycopg.connect(target_database.url) as claims:
        note = "SELECT FROM anabranch.checkpoint WHERE job = %s AND owner = %s AND epoch = %s FOR SHARE"
        zombie.execute(note, [JOB, now.owner, now.epoch])
        claims.execute("SET lock_timeout = '300ms'")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            claims.execute("UPDATE anabranch.checkpoint SET owner = 'another' WHERE job = %s", [JOB])


def test_an_older_release_refuses_what_has_notes(one: Applied, target_database: Database) -> None:
    from anabranch.connectors.postgresql.target.migrate import shipped
    from anabranch.connectors.postgresql.target.store import PostgresStore

    before = [one for one in shipped() if one.name != "applied"]
    with closing(PostgresStore(one.endpoint, before)) as store:  # type: ignore[arg-type]  # it has one
        store.prepare()
    one.applier.apply(one.append([[insert(item(n, n))] for n in range(12)]))
    with closing(PostgresStore(one.endpoint, before)) as store, pytest.raises(StateError, match="version 13"):  # type: ignore[arg-type]  # it has one
        store.prepare()
    with closing(PostgresStore(one.endpoint)) as store:  # type: ignore[arg-type]  # it has one
        store.prepare()


@pytest.mark.parametrize(
    "options", [{"per_transaction": True, "appliers": 4}, {"per_transaction": True}], ids=["kept", "one"]
)
def test_a_release_that_does_not_relax_makes_no_notes(one: Applied, target_database: Database, options: Any) -> None:
    again(one, **options)
    one.applier.apply(one.append([[insert(item(n, n))] for n in range(12)]))
    assert target_database.query("SELECT version FROM anabranch.meta") == [(1,)] and noted(target_database) == []
