"""Staging by executors at a real MySQL and MariaDB: what was staged is proved before it is merged (K10)."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace

import pyarrow as pa
import pytest

from anabranch.connectors.mysql.target import stage_sweep
from anabranch.connectors.mysql.target.session import connect, job_digest, run
from anabranch.connectors.mysql.target.stage import MysqlStager
from anabranch.connectors.mysql.target.stage_sweep import lock_name, stage_prefix
from anabranch.contracts import Conflict, ValueRules
from anabranch.errors import TargetBusy
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.rows.arrow import arrow_type
from anabranch.rows.net import StagedNet, TableNet, TargetTable, Updates
from anabranch.testing.databases import Database
from anabranch.testing.in_time import until
from anabranch.testing.servers import Server
from rigs.mysql_epoch import Epoch, epoch_at, in_database

pytestmark = pytest.mark.every_server("fractions")
INT, TEXT = LogicalType(Kind.INT32), LogicalType(Kind.TEXT, 20)
TABLE = TargetTable(TableId("s", "t"), TableId("public", "t"), ("id", "v"), (INT, TEXT), ("id",))
BAG = TargetTable(TableId("s", "bag"), TableId("public", "bag"), ("v",), (TEXT,), ())
STAGES = (
    "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'anabranch' AND TABLE_NAME LIKE 'stage%'"
)


@pytest.fixture
def at(mysql_family: Server, source_database: Callable[[Server], Database]) -> Iterator[Epoch]:
    database = source_database(mysql_family)
    old = ", ".join(f"({number}, 'old')" for number in range(1, 101))
    database.execute(
        "CREATE TABLE t (id int PRIMARY KEY, v varchar(20))",
        f"INSERT INTO t VALUES {old}",
        "CREATE TABLE bag (v varchar(20))",
        "INSERT INTO bag VALUES ('x'), ('x'), ('x'), ('x'), ('x')",
    )
    with epoch_at(database) as made:
        yield made


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server's own threads hold a table for a moment, too. Here nothing is left to the next sweep for that."""
    monkeypatch.setattr(stage_sweep, "SWEEP_WAIT_S", 120)


@pytest.fixture
def stager(at: Epoch) -> Iterator[MysqlStager]:
    made = MysqlStager(at.endpoint, ValueRules())
    yield made
    made.close()


def ids(*values: int) -> pa.Table:
    return pa.table({"id": pa.array(values, pa.int32())})


def full(*values: int) -> pa.Table:
    return pa.table({"id": pa.array(values, pa.int32()), "v": pa.array([f"new{i}" for i in values])})


def net(at: Epoch, checked: bool = True) -> TableNet:
    note = Updates(ids(3, 4), pa.table({"v": pa.array(["u3", "u4"])}))
    return TableNet(at.table(TABLE), ids(1, 2), (note,), full(200, 201, 202), checked=checked)


def bag(at: Epoch) -> TableNet:
    return TableNet(at.table(BAG), multiset=pa.table({"v": ["x", "y"], "_delta": pa.array([-2, 3], pa.int64())}))


def stages(at: Epoch) -> list[str]:
    return [name for (name,) in at.database.query(STAGES) if name.startswith(stage_prefix(at.job))]


def test_rule_10_staged_changes_merge_and_leave_nothing(at: Epoch, stager: MysqlStager) -> None:
    staged = pickle.loads(pickle.dumps(stager.stage(at.job, [net(at), bag(at)])))
    assert [one.table.target.name for one in staged] == ["t", "bag"] and sum(staged[0].counts.values()) == 7
    assert len(stages(at)) == 4
    assert all(at.writer.merge_staged(one) == [] for one in staged)
    assert len(stages(at)) == 4  # a DROP would have committed
    at.commit()
    assert at.database.query("SELECT count(*), CAST(sum(v <> 'old') AS SIGNED) FROM t") == [(101, 5)]
    assert sorted(at.database.query("SELECT v, count(*) FROM bag GROUP BY v")) == [("x", 3), ("y", 3)]
    assert stages(at) == []


def test_rule_10_unchecked_updates_report_keys(at: Epoch, stager: MysqlStager) -> None:
    note = Updates(ids(3, 400), pa.table({"v": pa.array(["u3", "u4"])}))
    (staged,) = stager.stage(at.job, [TableNet(at.table(TABLE), updates=(note,), checked=False)])
    assert at.writer.merge_staged(staged) == [{"id": "400"}]


def test_rule_10_a_rollback_keeps_what_was_staged(at: Epoch, stager: MysqlStager) -> None:
    (staged,) = stager.stage(at.job, [net(at)])
    at.writer.merge_staged(staged)
    at.again()
    at.run(lambda writer: writer.merge_staged(staged))
    assert at.database.query("SELECT count(*) FROM t") == [(101,)]


def test_rule_10_rule_08_staged_rows_that_contend_leave_before_any_arrives(at: Epoch, stager: MysqlStager) -> None:
    at.database.execute("UPDATE t SET v = id", "ALTER TABLE t ADD UNIQUE (v)")
    swap = Updates(ids(1, 2), pa.table({"v": pa.array(["2", "1"])}), contends=True)
    (staged,) = stager.stage(at.job, [TableNet(at.table(TABLE), updates=(swap,))])
    at.run(lambda writer: writer.merge_staged(staged))
    assert at.database.query("SELECT id, v FROM t WHERE id < 3 ORDER BY id") == [(1, "2"), (2, "1")]


def test_labels_that_have_moved_since_rows_were_staged_let_them_be_staged_again(at: Epoch, stager: MysqlStager) -> None:
    at.database.execute("CREATE TABLE moods (v enum('a', 'b'))", "INSERT INTO moods VALUES ('a'), ('b'), ('b')")
    moods = at.table(replace(BAG, target=TableId("public", "moods")))

    def staged() -> StagedNet:
        rows = pa.table({"v": ["a", "b"], "_delta": pa.array([1, -1], pa.int64())})
        return stager.stage(at.job, [TableNet(moods, multiset=rows)])[0]

    before = staged()
    at.database.execute("ALTER TABLE moods MODIFY v enum('a', 'new', 'b')", "INSERT INTO moods VALUES ('new'), ('new')")
    with pytest.raises(TargetBusy, match="labels of v have changed since"):
        at.writer.merge_staged(before)
    at.again()
    at.run(lambda writer: writer.merge_staged(staged()))
    counted = "SELECT CAST(v AS CHAR), count(*) FROM moods GROUP BY v ORDER BY v"
    assert at.database.query(counted) == [("a", 2), ("new", 2), ("b", 1)]


@pytest.mark.parametrize("contends", [False, True], ids=["alone", "contending"])
def test_a_staged_null_is_not_made_the_time_of_day(at: Epoch, stager: MysqlStager, contends: bool) -> None:
    at.database.execute("CREATE TABLE m (id int PRIMARY KEY, b timestamp NOT NULL DEFAULT '2001-01-01 00:00:00')")
    at.database.execute("INSERT INTO m (id) VALUES (1), (2)")
    moment = LogicalType(Kind.TIMESTAMP)
    table = TargetTable(TableId("s", "m"), TableId("public", "m"), ("id", "b"), (INT, moment), ("id",))
    nulls = Updates(ids(1, 2), pa.table({"b": pa.nulls(2, arrow_type(moment))}), contends=contends)
    (staged,) = stager.stage(at.job, [TableNet(at.table(table), updates=(nulls,))])
    with pytest.raises(Conflict):
        at.run(lambda writer: writer.merge_staged(staged))
    at.again()
    assert at.database.query("SELECT COUNT(*) FROM m WHERE b = '2001-01-01'") == [(2,)]


TAMPERINGS = {
    "emptied": (("TRUNCATE {0}",), "expected 3 staged rows, found 0"),
    "a row missing": (("DELETE FROM {0} WHERE v0 = 201",), "expected 3 staged rows, found 2"),
    "copied twice": (
        ("INSERT INTO {0} (v0, v1, proof) SELECT v0, v1, proof FROM {0}",),
        "expected 3 staged rows, found 6",
    ),
    "one missing, one doubled": (
        (
            "DELETE FROM {0} WHERE v0 = 201",
            "INSERT INTO {0} (v0, v1, proof) SELECT v0, v1, proof FROM {0} WHERE v0 = 200",
        ),
        "not those that were staged",
    ),
    "dropped": (("DROP TABLE {0}",), "what was staged is gone"),
}


@pytest.mark.parametrize("case", TAMPERINGS)
def test_rule_10_what_is_not_as_staged_is_refused(at: Epoch, stager: MysqlStager, case: str) -> None:
    statements, words = TAMPERINGS[case]
    (staged,) = stager.stage(at.job, [net(at)])
    at.database.execute(*(statement.format(_inserts_of(staged)) for statement in statements))
    with pytest.raises(Conflict, match=words):
        at.writer.merge_staged(staged)
    at.writer.rollback()
    assert at.database.query("SELECT count(*), max(v) FROM t") == [(100, "old")]


def _inserts_of(staged: StagedNet) -> str:
    return next(f"anabranch.`{name}`" for name, rows in staged.counts.items() if rows == 3)


def test_rule_10_what_no_epoch_took_is_swept_and_what_is_being_filled_is_not(at: Epoch, stager: MysqlStager) -> None:
    stager.stage(at.job, [net(at)])
    running = "f" * 32
    filled = f"{stage_prefix(at.job)}{running}_0_0"
    of_another = f"stage_{job_digest('another ' + at.job)}_{running}_0_0"
    with closing(connect(at.endpoint, "anabranch-stage", autocommit=True)) as attempt:
        run(attempt, "SELECT GET_LOCK(%s, 0)", lock_name(running))
        for name in (filled, of_another):
            run(attempt, f"CREATE TABLE anabranch.`{name}` (v0 int) ENGINE=InnoDB")
        at.writer.sweep()
        assert stages(at) == [filled]
    used = "SELECT IS_USED_LOCK(%s)"
    until(lambda: at.database.query(used, [lock_name(running)]) == [(None,)], "the server sees the session's end")
    at.writer.sweep()
    assert stages(at) == []
    assert (of_another,) in at.database.query(STAGES)
    at.database.execute(f"DROP TABLE anabranch.`{of_another}`")


def test_rule_10_a_stager_that_is_refused_goes_on_with_a_session_of_its_own(at: Epoch, stager: MysqlStager) -> None:
    gone = in_database(replace(TABLE, target=TableId("x", "gone")), at.database.name)
    with pytest.raises(Exception, match="gone"):
        stager.stage(at.job, [TableNet(gone, deletes=ids(1))])
    (staged,) = stager.stage(at.job, [net(at)])
    at.run(lambda writer: writer.merge_staged(staged))
    assert at.database.query("SELECT count(*) FROM t") == [(101,)]


def test_rule_10_many_rows_are_staged_and_merged(at: Epoch, stager: MysqlStager) -> None:
    many = range(1000, 51_000)
    rows = pa.table({"id": pa.array(many, pa.int32()), "v": pa.array([f"\t\\{i}'%s\0"[:20] for i in many])})
    (staged,) = stager.stage(at.job, [TableNet(at.table(TABLE), inserts=rows)])
    at.run(lambda writer: writer.merge_staged(staged))
    assert at.database.query("SELECT count(*) FROM t WHERE id >= 1000 AND v = concat('\t\\\\', id, '\\'%s\\0')") == [
        (50_000,)
    ]
