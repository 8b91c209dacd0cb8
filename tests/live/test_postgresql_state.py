"""State of jobs at a real PostgreSQL: made once by many, versioned, dropped without a trace of ours or a loss of theirs."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from anabranch.connectors.postgresql.connection import connect, session_name
from anabranch.connectors.postgresql.target.migrate import shipped
from anabranch.connectors.postgresql.target.store import LOCK, PostgresStore
from anabranch.errors import ConfigError, Fenced, TargetError, TargetUnavailable
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId
from anabranch.model.position import Position
from anabranch.model.schema import Column, TableSchema
from anabranch.model.table_facts import Facts
from anabranch.model.table_life import TableState, park
from anabranch.testing.in_time import until
from rigs.endpoints import endpoint_of
from rigs.waiting import Doing

ORDERS = TableId("shop", 'odd "orders".x')


@pytest.fixture
def store(target_database: Any) -> Iterator[PostgresStore]:
    made = PostgresStore(endpoint_of(target_database))
    yield made
    made.close()


def test_nothing_is_there_before_it_is_prepared(store: PostgresStore) -> None:
    assert not store.exists()
    assert store.job("shop") is None
    assert store.checkpoint("shop") is None
    assert store.tables("shop") == {}
    store.drop("shop")
    store.prepare()
    assert store.exists()


def test_many_prepare_at_once(target_database: Any) -> None:
    failures: list[BaseException] = []

    def prepare() -> None:
        one = PostgresStore(endpoint_of(target_database))
        try:
            one.prepare()
            one.prepare()
        except BaseException as error:  # noqa: BLE001 - reported by the assertion below
            failures.append(error)
        one.close()

    threads = [threading.Thread(target=prepare) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert target_database.query("SELECT version FROM anabranch.meta") == [(1,)]


def test_torture_seed_201_another_makes_the_schema_while_this_one_waits_for_its_turn(
    target_database: Any, store: PostgresStore
) -> None:
    """`to_regclass` answered what this session had found before: nothing."""
    assert not store.exists()
    with target_database.connect(autocommit=False) as other:
        other.execute("SELECT pg_advisory_xact_lock(%s)", [LOCK])
        waiting = Doing(store.prepare)
        asks = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        until(lambda: target_database.query(asks) != [(0,)], "it does not wait")
        other.execute(shipped()[0].sql.encode())
    waiting.done()
    store.prepare()
    assert target_database.query("SELECT version FROM anabranch.meta") == [(1,)]


def test_a_job_reads_back_as_it_was_saved(store: PostgresStore) -> None:
    store.prepare()
    definition = json.dumps({"b": 1, "a": [1.0, "ä"]})
    facts = {"uuid": "u", "source_identity": "s", "definition": definition, "note": "n"}
    store.save_job("shop", facts)
    assert store.job("shop") == facts
    store.save_job("shop", {"uuid": "u2"})
    assert store.job("shop") == {"uuid": "u2"}
    assert store.job("other") is None


def test_the_first_checkpoint_stays(store: PostgresStore) -> None:
    store.prepare()
    store.create_checkpoint("shop", Position(7, "bin.1:4"), 123)
    store.create_checkpoint("shop", Position(9, "bin.1:9"), 456)
    found = store.checkpoint("shop")
    assert found is not None
    assert (found.owner, found.epoch, found.position, found.commit_time) == ("", 0, Position(7, "bin.1:4"), 123)


def test_table_states_read_back(store: PostgresStore) -> None:
    store.prepare()
    schema = TableSchema(ORDERS, (Column("id", LogicalType(Kind.INT32), "int", False),), ("id",))
    facts = Facts(loaded=True, others={"a": "b"})
    state = TableState(ORDERS, TableId("public", "orders"), "loading", 3, "l", "h", "why", 10, 20, schema, facts)
    store.save_table("shop", state, None)
    assert store.tables("shop", whole=False) == {ORDERS: replace(state, schema=None)}
    assert store.tables("shop") == {ORDERS: state}
    later = TableState(ORDERS, TableId("public", "orders"), "streaming", 3)
    store.save_table("shop", later, state)
    found = store.tables("shop")[ORDERS]
    assert (found.state, found.low, found.schema, found.facts) == ("streaming", "", schema, Facts())
    assert store.tables("other") == {}


def test_torture_seed_2146_who_comes_second_changes_no_table_state(store: PostgresStore, target_database: Any) -> None:
    """Two loads at once, because one stood still: the state that it had read is not the one that is there."""
    store.prepare()
    pending = TableState(ORDERS, TableId("public", "orders"), "pending")
    loading = replace(pending, state="loading", generation=1)
    store.save_table("shop", pending, None)
    store.save_table("shop", loading, pending)
    for before in (None, pending, replace(loading, generation=2)):
        with pytest.raises(Fenced, match="was changed meanwhile"):
            store.save_table("shop", replace(pending, reason="stale"), before)
    with pytest.raises(Fenced):
        store.save_table("other", loading, pending)
    assert store.tables("shop") == {ORDERS: loading} and store.tables("other") == {}


OLD = (  # state, reason, facts as the release before has stored them; what they are
    ("streaming", "", {"loaded": "yes", "built": "yes", "analyzed": "yes", "not_built": '["a"]'}, "is_built"),
    ("parked", "dropped at the source (at 7)", {"loaded": "yes"}, "is_dropped"),
    ("parked", "it is to be loaded again: anabranch load JOB --table shop.one", {"loaded": "yes"}, "is_taken_out"),
    ("parked", "refused (at 0)", {"resumes": "0", "set_aside": "2"}, "is_parked"),
    ("loading", "refused (at 0)", {"resumes": "0", "joins": "yes", "loaded": "yes"}, "is_resuming"),
    ("loading", "", {"loaded": "yes", "window": "0,9", "reread": '[{"id": "1"}]'}, "is_in_window_again"),
    ("loading", "", {"joins": "yes", "kept": "yes"}, "is_open"),
    ("pending", "", {"joins": "yes"}, "is_joining"),
)


@pytest.mark.parametrize(("state", "reason", "facts", "told"), OLD)
def test_a_state_of_the_release_before_is_changed_by_who_has_seen_it(
    store: PostgresStore, target_database: Any, state: str, reason: str, facts: dict[str, str], told: str
) -> None:
    store.prepare()
    insert = "INSERT INTO anabranch.table_state (job, source_table, target_table, generation, state, reason, facts)"
    target_database.execute(
        f"{insert} VALUES ('shop', 'shop.one', 'dest.one', 1, '{state}', '{reason}', '{json.dumps(facts)}')"
    )
    one = TableId("shop", "one")
    found = store.table("shop", one)
    assert found is not None and getattr(found, told) and found == store.tables("shop")[one]
    store.save_tables("shop", [(found, found)])
    stored = target_database.query("SELECT facts - 'parked_for' FROM anabranch.table_state")
    assert stored == [(facts,)] and store.table("shop", one) == found
    parked = park(found, "dropped at the source" if told != "is_dropped" else "altered")
    store.save_table("shop", parked, found)
    for stale in (lambda: store.save_table("shop", found, found), lambda: store.save_tables("shop", [(found, found)])):
        with pytest.raises(Fenced):
            stale()
    store.forget_table("shop", parked)


def test_drop_leaves_other_jobs_then_takes_the_schema(store: PostgresStore, target_database: Any) -> None:
    store.prepare()
    for job in ("one", "two"):
        store.save_job(job, {"uuid": job})
        store.create_checkpoint(job, Position(0), 0)
    store.drop("one")
    assert store.job("one") is None and store.checkpoint("one") is None and store.job("two") is not None
    store.drop("two")
    assert target_database.query("SELECT FROM pg_namespace WHERE nspname = 'anabranch'") == []
    store.prepare()


def test_drop_never_takes_replicated_tables(store: PostgresStore, target_database: Any) -> None:
    store.prepare()
    store.save_job("one", {"uuid": "1"})
    target_database.execute("CREATE TABLE anabranch.orders (id int)", "INSERT INTO anabranch.orders VALUES (1)")
    store.drop("one")
    assert target_database.query("SELECT id FROM anabranch.orders") == [(1,)]
    assert target_database.query("SELECT to_regclass('anabranch.meta')") == [(None,)]


def test_without_the_right_to_create_a_schema_the_grant_is_named(target_database: Any) -> None:
    target_database.execute("DROP ROLE IF EXISTS st_poor", "CREATE ROLE st_poor LOGIN PASSWORD 'p'")
    endpoint = endpoint_of(target_database)
    poor = Endpoint("postgresql", endpoint.host, endpoint.port, "st_poor", "p", endpoint.database)
    one = PostgresStore(poor)
    try:
        with pytest.raises(TargetError, match="permission denied"):
            one.prepare()
    finally:
        one.close()
        target_database.execute("DROP ROLE st_poor")


def test_a_lost_line_is_opened_again(store: PostgresStore, target_database: Any) -> None:
    store.prepare()
    target_database.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'anabranch-state'"
    )
    with pytest.raises(TargetUnavailable):
        store.save_job("shop", {"uuid": "u"})
    store.save_job("shop", {"uuid": "u"})
    assert store.job("shop") == {"uuid": "u"}


def test_connections_that_are_refused_say_why(target_database: Any) -> None:
    endpoint = endpoint_of(target_database)
    nobody = Endpoint("postgresql", endpoint.host, endpoint.port, endpoint.user, "", "no_such_database")
    with pytest.raises(TargetError, match="no_such_database") as refused:
        connect(nobody, "t")
    assert not isinstance(refused.value, TargetUnavailable)
    closed = Endpoint("postgresql", "127.0.0.1", 1, "u", "secret-word", "d")
    with pytest.raises(TargetUnavailable) as lost:
        connect(closed, "t")
    assert "secret-word" not in str(lost.value)
    with pytest.raises(ConfigError, match="ssl_mode"):
        connect(endpoint_of(target_database, ssl_mode="maybe"), "t")


def test_tls_demanded_is_tls_or_nothing(target_database: Any) -> None:
    with connect(endpoint_of(target_database, ssl_mode="disabled"), "t") as plain:
        assert plain.execute("SELECT 1").fetchone() == (1,)
    with pytest.raises(TargetError):
        connect(endpoint_of(target_database, ssl_mode="required"), "t")


def test_session_names_fit_what_the_server_keeps(target_database: Any) -> None:
    name = session_name("j" * 63, "0" * 32)
    with connect(endpoint_of(target_database), name) as connection:
        assert connection.execute("SHOW application_name").fetchone() == (name,)
    assert session_name("shop", "o") == "anabranch:shop:o"
