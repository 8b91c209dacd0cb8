"""Staging by executors at a real PostgreSQL: what was staged is proved before it is merged (K10)."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pytest

from anabranch.connectors.postgresql.target import stage_sweep
from anabranch.connectors.postgresql.target.apply import PostgresWriter
from anabranch.connectors.postgresql.target.stage import PostgresStager
from anabranch.connectors.postgresql.target.store import PostgresStore
from anabranch.contracts import Conflict, ValueRules
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId
from anabranch.model.position import Position
from anabranch.model.state import Checkpoint
from anabranch.rows.net import StagedNet, TableNet, TargetTable, Updates

INT, TEXT = LogicalType(Kind.INT32), LogicalType(Kind.TEXT, 20)
TABLE = TargetTable(TableId("s", "t"), TableId("public", "t"), ("id", "v"), (INT, TEXT), ("id",))
BAG = TargetTable(TableId("s", "bag"), TableId("public", "bag"), ("v",), (TEXT,), ())
PATIENT = "SET LOCAL lock_timeout = '120s'"
STAGES = "SELECT tablename FROM pg_tables WHERE tablename LIKE 'stage%'"


@pytest.fixture
def endpoint(target_database: Any) -> Endpoint:
    url = urlsplit(target_database.url)
    user, password = unquote(url.username or ""), unquote(url.password or "")
    made = Endpoint("postgresql", url.hostname or "", url.port or 0, user, password, unquote(url.path[1:]))
    store = PostgresStore(made)
    store.prepare()
    store.create_checkpoint("shop", Position(0), 0)
    store.close()
    target_database.execute(
        "CREATE TABLE t (id int PRIMARY KEY, v varchar(20))",
        "INSERT INTO t SELECT i, 'old' FROM generate_series(1, 100) i",
        "CREATE TABLE bag (v varchar(20))",
        "INSERT INTO bag SELECT 'x' FROM generate_series(1, 5)",
    )
    return made


@pytest.fixture
def stager(endpoint: Endpoint) -> Iterator[PostgresStager]:
    made = PostgresStager(endpoint, ValueRules())
    yield made
    made.close()


@pytest.fixture
def writer(endpoint: Endpoint) -> Iterator[PostgresWriter]:
    made = PostgresWriter(endpoint, ValueRules())
    at = made.claim("shop", "me")
    assert made.begin(at, Checkpoint("me", 1, Position(1))) == "open"
    yield made
    made.close()


def ids(*values: int) -> pa.Table:
    return pa.table({"id": pa.array(values, pa.int32())})


def full(*values: int) -> pa.Table:
    return pa.table({"id": pa.array(values, pa.int32()), "v": pa.array([f"new{i}" for i in values])})


def net(checked: bool = True) -> TableNet:
    note = Updates(ids(3, 4), pa.table({"v": pa.array(["u3", "u4"])}))
    return TableNet(TABLE, ids(1, 2), (note,), full(200, 201, 202), checked=checked)


def bag() -> TableNet:
    return TableNet(BAG, multiset=pa.table({"v": ["x", "y"], "_delta": pa.array([-2, 3], pa.int64())}))


def test_rule_10_staged_changes_merge_and_leave_nothing(
    stager: PostgresStager, writer: PostgresWriter, target_database: Any
) -> None:
    staged = pickle.loads(pickle.dumps(stager.stage("shop", [net(), bag()])))
    assert [one.table for one in staged] == [TABLE, BAG]
    assert sum(staged[0].counts.values()) == 7
    assert len(target_database.query(STAGES)) == 4
    assert all(writer.merge_staged(one) == [] for one in staged)
    writer.commit()
    assert target_database.query("SELECT count(*), count(*) FILTER (WHERE v <> 'old') FROM t") == [(101, 5)]
    assert sorted(target_database.query("SELECT v, count(*) FROM bag GROUP BY v")) == [("x", 3), ("y", 3)]
    assert target_database.query(STAGES) == []


def test_rule_10_unchecked_updates_report_keys(stager: PostgresStager, writer: PostgresWriter) -> None:
    note = Updates(ids(3, 400), pa.table({"v": pa.array(["u3", "u4"])}))
    (staged,) = stager.stage("shop", [TableNet(TABLE, updates=(note,), checked=False)])
    assert writer.merge_staged(staged) == [{"id": "400"}]


def test_rule_10_a_rollback_keeps_what_was_staged(
    stager: PostgresStager, writer: PostgresWriter, target_database: Any
) -> None:
    (staged,) = stager.stage("shop", [net()])
    writer.merge_staged(staged)
    writer.rollback()
    assert writer.begin(Checkpoint("me", 0, Position(0)), Checkpoint("me", 1, Position(1))) == "open"
    writer.merge_staged(staged)
    writer.commit()
    assert target_database.query("SELECT count(*) FROM t") == [(101,)]


def inserts_of(staged: StagedNet) -> str:
    return next(f'anabranch."{name}"' for name, rows in staged.counts.items() if rows == 3)


TAMPERINGS = {
    "emptied by a crash": ("TRUNCATE {}", "expected 3 staged rows, found 0"),
    "a row missing": ("DELETE FROM {0} WHERE v0 = 201", "expected 3 staged rows, found 2"),
    "copied twice": ("INSERT INTO {0} SELECT * FROM {0}", "expected 3 staged rows, found 6"),
    "one missing, one doubled": (
        "WITH gone AS (DELETE FROM {0} WHERE v0 = 201) INSERT INTO {0} SELECT * FROM {0} WHERE v0 = 200",
        "not those that were staged",
    ),
}


@pytest.mark.parametrize("case", TAMPERINGS)
def test_rule_10_what_is_not_as_staged_is_refused(
    stager: PostgresStager, writer: PostgresWriter, target_database: Any, case: str
) -> None:
    statement, words = TAMPERINGS[case]
    (staged,) = stager.stage("shop", [net()])
    target_database.execute(statement.format(inserts_of(staged)))
    with pytest.raises(Conflict, match=words):
        writer.merge_staged(staged)
    writer.rollback()
    assert target_database.query("SELECT count(*), max(v) FROM t") == [(100, "old")]


def test_rule_10_a_stage_that_is_gone_is_refused(
    stager: PostgresStager, writer: PostgresWriter, target_database: Any
) -> None:
    (staged,) = stager.stage("shop", [net()])
    target_database.execute(f"DROP TABLE {inserts_of(staged)}")
    with pytest.raises(Conflict, match="gone"):
        writer.merge_staged(staged)


def test_rule_10_an_unlogged_stage_is_empty_after_a_crash(
    stager: PostgresStager, endpoint: Endpoint, target_database: Any
) -> None:
    (staged,) = stager.stage("shop", [net()])
    server = target_database.server
    if not server.can_restart:
        pytest.fail("this server cannot be restarted: leave ANABRANCH_TEST_POSTGRESQL_DSN unset")
    server.kill()
    server.start()
    again = PostgresWriter(endpoint, ValueRules())
    rows = target_database.query(f"SELECT count(*) FROM {inserts_of(staged)}")
    assert rows == [(0,)]
    at = again.claim("shop", "later")
    assert target_database.query(STAGES) == [], "claiming sweeps what no attempt holds"
    assert again.begin(at, Checkpoint("later", 1, Position(1))) == "open"
    with pytest.raises(Conflict, match="gone"):
        again.merge_staged(staged)
    again.close()


def test_rule_10_refused_values_leave_no_stage(stager: PostgresStager, target_database: Any) -> None:
    long = pa.table({"id": pa.array([5], pa.int32()), "v": ["a secret much too long for the column"]})
    with pytest.raises(Conflict, match="too long") as found:
        stager.stage("shop", [net(), TableNet(TABLE, inserts=long)])
    assert "secret" not in str(found.value)
    assert target_database.query(STAGES) == []


def test_rule_10_sweeping_leaves_other_jobs_and_running_attempts(
    stager: PostgresStager, endpoint: Endpoint, target_database: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, theirs = stager.stage("shop", [net()]), stager.stage("other", [bag()])
    writing = target_database.connect(autocommit=False)
    writing.execute(f"INSERT INTO {inserts_of(mine[0])} SELECT 1, 'x', 1")
    again = PostgresWriter(endpoint, ValueRules())
    again.claim("shop", "next")
    left = {row[0] for row in target_database.query(STAGES)}
    assert left == {*theirs[0].counts, inserts_of(mine[0]).split('"')[1]}
    writing.close()
    monkeypatch.setattr(stage_sweep, "SWEEP_WAIT", PATIENT)  # the server sees a session's end some moments later
    again.claim("shop", "one more")
    assert {row[0] for row in target_database.query(STAGES)} == set(theirs[0].counts)
    again.close()


def test_many_rows_are_analysed_where_they_are_staged(
    stager: PostgresStager, writer: PostgresWriter, target_database: Any
) -> None:
    (staged,) = stager.stage("shop", [TableNet(TABLE, inserts=full(*range(1000, 31_000)))])
    writer.merge_staged(staged)
    writer.commit()
    assert target_database.query("SELECT count(*) FROM t") == [(30_100,)]
