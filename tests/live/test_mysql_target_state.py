"""State of jobs at a MySQL target: made once by many, versioned, taken up where a start ended on the way, and dropped without
a trace of ours or a loss of theirs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial

import pytest

from anabranch.connectors.mysql.target.migrate import pending, shipped
from anabranch.connectors.mysql.target.removal import ALL
from anabranch.connectors.mysql.target.session import ask, connect, job_digest, run, transaction
from anabranch.connectors.mysql.target.state_facts import drop_fact
from anabranch.connectors.mysql.target.state_session import LOCK
from anabranch.connectors.mysql.target.store import MysqlStore
from anabranch.connectors.sql.migrations import Migration, newest, parsed
from anabranch.errors import StateError, TargetBusy, TargetError, TargetUnavailable
from anabranch.model.ids import TableId
from anabranch.model.position import Position
from anabranch.model.table_facts import Facts
from anabranch.model.table_life import heard_of
from anabranch.testing.conformance.store import heard, schema
from anabranch.testing.in_time import until
from anabranch.testing.servers import Server
from rigs.mysql_administrator import administer, endpoint_at
from rigs.waiting import Doing

OTHERS = [pytest.param(name, marks=pytest.mark.servers) for name in ("mysql56", "mysql9")]
COLUMNS = """
SELECT TABLE_NAME, COLUMN_NAME, COLUMN_TYPE, IS_NULLABLE, COLUMN_KEY FROM information_schema.COLUMNS
 WHERE TABLE_SCHEMA = 'anabranch' ORDER BY TABLE_NAME, ORDINAL_POSITION
"""
ALL_NOTED = [(one.number, one.stage) for one in shipped()]
# The next release: a column, and a table that only older releases need.
ADDS = parsed(
    "0101_more.before.sql", "-- makes: anabranch.job.more\nALTER TABLE `anabranch`.`job` ADD COLUMN `more` TEXT;\n"
)
TAKES = parsed("0101_more.after.sql", "-- drops: anabranch.trace\nDROP TABLE `anabranch`.`trace`;\n")
NEXT = (*shipped(), ADDS, TAKES)
ORDERS = TableId("shop", "orders")


@pytest.fixture(params=["mysql", "mariadb", *OTHERS])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    found: Server = request.getfixturevalue(request.param)
    administer(found, "DROP DATABASE IF EXISTS anabranch")  # other tests leave their jobs' state at the server
    yield found
    administer(found, "DROP DATABASE IF EXISTS anabranch")


@pytest.fixture
def store(server: Server) -> Iterator[MysqlStore]:
    with closing(MysqlStore(endpoint_at(server))) as made:
        yield made


def prepared(server: Server, known: tuple[Migration, ...] = (), job: str = "") -> None:
    with closing(MysqlStore(endpoint_at(server), known)) as store:
        store.prepare()
        if job:
            store.jobs.save_job(job, {"uuid": "u"})


def noted(server: Server) -> list[tuple[int, str]]:
    ((text,),) = administer(server, "SELECT migrations FROM anabranch.meta")
    return [(note["number"], note["stage"]) for note in json.loads(text)]


def version(server: Server) -> int:
    return int(administer(server, "SELECT version FROM anabranch.meta")[0][0])


# --- migrations -------------------------------------------------------------------------------------------------------


def test_a_new_state_has_each_migration_noted_once(server: Server) -> None:
    prepared(server)
    made = administer(server, COLUMNS)
    prepared(server)
    assert noted(server) == ALL_NOTED and administer(server, COLUMNS) == made and version(server) == 1
    tables = (
        "SELECT TABLE_NAME, ENGINE, TABLE_COLLATION FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'anabranch'"
    )
    assert sorted(administer(server, tables)) == sorted((name, "InnoDB", "utf8mb4_bin") for name in ALL)


@pytest.mark.parametrize("done", range(1, len(shipped()[0].statements) + 1))
def test_a_start_that_ended_on_the_way_is_taken_up(server: Server, done: int) -> None:
    """The server commits with each statement, and what is half made is no state."""
    administer(server, *shipped()[0].statements[:done])
    with closing(MysqlStore(endpoint_at(server))) as store:
        assert store.exists() is (done == len(shipped()[0].statements))
        assert store.jobs.job("shop") is None and store.states.tables("shop") == {}
        store.prepare()
        store.jobs.save_job("shop", {"uuid": "u"})
        assert store.jobs.job("shop") == {"uuid": "u"}
    assert noted(server) == ALL_NOTED and version(server) == 1


def test_what_a_release_adds_and_takes_is_done_once_also_where_it_was_not_noted(server: Server) -> None:
    prepared(server)
    administer(server, *ADDS.statements)
    prepared(server, NEXT)
    assert noted(server) == [*ALL_NOTED, (101, "before"), (101, "after")] and version(server) == 101
    administer(server, "UPDATE anabranch.meta SET version = 1, migrations = '[]'")
    administer(server, *shipped()[0].statements, "DROP TABLE anabranch.trace")
    prepared(server, NEXT)
    assert noted(server) == [*ALL_NOTED, (101, "before"), (101, "after")] and version(server) == 101


def test_a_newer_version_is_refused_and_says_which_release_made_it(server: Server) -> None:
    prepared(server, NEXT, "shop")
    prepared(server, NEXT)
    ((text,),) = administer(server, "SELECT migrations FROM anabranch.meta")
    notes = json.loads(text)
    notes[-1]["release"] = "9.1"
    administer(server, f"UPDATE anabranch.meta SET migrations = '{json.dumps(notes)}'")
    with pytest.raises(StateError, match=r"version 101, this release knows 6") as refused:
        prepared(server)
    assert refused.value.hint == "use anabranch 9.1 or a newer one"


def test_what_only_older_releases_need_stays_until_none_is_left(server: Server) -> None:
    prepared(server, job="older")
    prepared(server, NEXT, "newer")
    prepared(server, NEXT)
    columns = {(table, column) for table, column, *_ in administer(server, COLUMNS)}
    assert ("job", "more") in columns and ("trace", "event") in columns and version(server) == 1
    prepared(server, job="older")  # it goes on, beside what it does not know
    prepared(server, NEXT, "older")
    prepared(server, NEXT)
    assert ("trace", "event") not in {(table, column) for table, column, *_ in administer(server, COLUMNS)}
    assert version(server) == 101
    with closing(MysqlStore(endpoint_at(server), NEXT)) as store:
        assert store.jobs.job("older") == {"uuid": "u"}, "what a release knows is no fact of the job"
    facts = [json.loads(text) for (text,) in administer(server, "SELECT facts FROM anabranch.job")]
    assert facts == [{"knows": str(newest(NEXT))}] * 2


def test_who_makes_it_waits_for_who_makes_it_already(server: Server, store: MysqlStore) -> None:
    with closing(connect(endpoint_at(server), "a test", autocommit=True)) as holder:
        assert ask(holder, "SELECT GET_LOCK(%s, 0)", LOCK) == [(1,)]
        waiting = Doing(lambda: until(partial(_prepared, store)))
        asks = "SELECT 1 FROM information_schema.PROCESSLIST WHERE STATE LIKE 'User lock%'"
        until(lambda: administer(server, asks), "it does not wait")
        assert not administer(server, "SELECT 1 FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = 'anabranch'")
    waiting.done()
    assert store.exists() and noted(server) == ALL_NOTED


def _prepared(store: MysqlStore) -> bool:
    """Who waits for longer than half a minute is to try again."""
    try:
        store.prepare()
    except TargetBusy:
        return False
    return True


def test_without_a_right_the_grant_is_named_and_enough(server: Server) -> None:
    poor = endpoint_at(server, "state_poor", "p")
    administer(server, "CREATE USER state_poor IDENTIFIED BY 'p'")
    try:
        with closing(MysqlStore(poor)) as store:
            assert not store.exists() and store.jobs.job("shop") is None
            with pytest.raises(StateError, match="denied") as refused:
                store.prepare()
            administer(server, refused.value.hint)
            store.close()
            store.prepare()
            store.jobs.save_job("shop", {"uuid": "u"})
            with closing(connect(poor, "a test", autocommit=True)) as connection:
                assert [one.number for one in pending(connection, NEXT)] == [101]
            store.jobs.drop("shop")
            assert not store.exists()
        prepared(server)
        administer(server, "REVOKE ALL PRIVILEGES, GRANT OPTION FROM state_poor")
        administer(server, "GRANT SELECT, INSERT, UPDATE, DELETE ON anabranch.* TO state_poor")
        with closing(MysqlStore(poor, NEXT)) as store, pytest.raises(StateError, match="denied") as refused:
            store.prepare()
        administer(server, refused.value.hint)
        with closing(MysqlStore(poor, NEXT)) as store:
            store.prepare()
        assert noted(server) == [*ALL_NOTED, (101, "before"), (101, "after")]
    finally:
        administer(server, "DROP USER state_poor")


# --- dropping ---------------------------------------------------------------------------------------------------------


def test_drop_takes_the_database_with_the_last_job(server: Server, store: MysqlStore) -> None:
    store.prepare()
    for job in ("one", "two"):
        store.jobs.save_job(job, {"uuid": job})
        store.jobs.create_checkpoint(job, Position(0), 0)
        administer(server, f"CREATE TABLE anabranch.stage_{job_digest(job)}_1 (id INT)")
    store.jobs.drop("one")
    assert store.jobs.job("one") is None and store.jobs.job("two") is not None
    tables = (
        "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'anabranch' AND TABLE_NAME LIKE 'stage%'"
    )
    assert administer(server, tables) == [(f"stage_{job_digest('two')}_1",)]
    store.jobs.drop("two")
    assert administer(server, "SELECT 1 FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = 'anabranch'") == []
    store.prepare()


@pytest.mark.parametrize(
    "theirs",
    [
        "CREATE TABLE anabranch.orders (id INT)",
        "CREATE VIEW anabranch.orders AS SELECT 1 AS id",
        "CREATE PROCEDURE anabranch.orders() SELECT 1",
    ],
)
def test_drop_never_takes_what_is_not_its_own(server: Server, store: MysqlStore, theirs: str) -> None:
    store.prepare()
    store.jobs.save_job("one", {"uuid": "1"})
    administer(server, theirs)
    store.jobs.drop("one")
    assert not store.exists()
    there = f"SHOW CREATE {theirs.split()[1]} anabranch.orders"
    assert len(administer(server, there)) == 1
    left = (
        "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'anabranch' AND TABLE_NAME <> 'orders'"
    )
    assert administer(server, left) == []


# --- lines, locks -----------------------------------------------------------------------------------------------------


def test_a_lost_line_is_opened_again(server: Server, store: MysqlStore) -> None:
    store.prepare()
    session = store._session._open
    assert session is not None
    administer(server, f"KILL {session.thread_id()}")
    with pytest.raises(TargetUnavailable):
        store.jobs.save_job("shop", {"uuid": "u"})
    store.jobs.save_job("shop", {"uuid": "u"})
    assert store.jobs.job("shop") == {"uuid": "u"}


def test_nobody_waits_for_a_trace(server: Server, store: MysqlStore) -> None:
    store.prepare()
    store.jobs.save_job("shop", {"uuid": "u"})
    entry = {
        "id": "1",
        "at": "2026-01-02T03:04:05.000001Z",
        "level": "info",
        "event": "e",
        "task": "t",
        "host": "h",
        "pid": 1,
    }
    with closing(connect(endpoint_at(server), "a test", autocommit=True)) as holder:
        run(holder, "LOCK TABLES anabranch.trace WRITE")
        connection = store._session._open
        assert connection is not None
        run(connection, "SET SESSION lock_wait_timeout = 3000, innodb_lock_wait_timeout = 3000")  # as others wait
        with pytest.raises(TargetBusy):
            store.journal.add_trace("shop", [entry], "")
        run(holder, "UNLOCK TABLES")
    assert store._session._open is connection
    assert ask(connection, "SELECT @@lock_wait_timeout, @@innodb_lock_wait_timeout") == [(3000, 3000)]
    assert store.journal.add_trace("shop", [entry], "")
    assert store.journal.trace("shop") == [entry]


def test_a_name_that_the_state_does_not_hold_is_refused_not_cut(store: MysqlStore) -> None:
    store.prepare()
    long = heard_of(TableId("s" * 100, "t" * 100), TableId("public", "t"))
    with pytest.raises(TargetError, match="too long"):
        store.states.save_table("shop", long, None)
    fits = heard_of(TableId("s" * 95, "é" * 95), TableId("p" * 64, "t" * 64))
    store.states.save_table("shop", fits, None)
    assert store.states.tables("shop") == {fits.source: fits}


def test_one_fact_goes_and_the_others_stay(server: Server, store: MysqlStore) -> None:
    store.prepare()
    facts = Facts(kept=True, set_aside=3, others={"later": "ä"})
    state = replace(heard_of(ORDERS, TableId("public", "orders")), facts=facts)
    store.states.save_table("shop", state, None)
    store.asides.forget_aside("shop", ORDERS)
    with closing(connect(endpoint_at(server), "a test")) as connection, transaction(connection):
        drop_fact(connection, "shop", ORDERS, "kept")
        drop_fact(connection, "shop", ORDERS, "kept")
    found = store.states.table("shop", ORDERS)
    assert found is not None and found.facts == Facts(others={"later": "ä"})


def test_definitions_that_are_known_are_not_read_again(server: Server, store: MysqlStore) -> None:
    store.prepare()
    states = [heard(f"t{number}", schema=schema(ORDERS, f"c{number}")) for number in range(5)]
    store.states.save_tables("shop", [(state, None) for state in states])
    first = store.states.tables("shop")
    session = store._session._open
    assert session is not None
    again = store.states.tables("shop")
    assert again == first and all(again[table] is first[table] for table in first)
    assert [row[-1] for row in session._result.rows] == [None] * 5
