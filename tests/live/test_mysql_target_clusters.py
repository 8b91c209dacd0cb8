"""Targets that are several servers: Galera and Group Replication, two nodes that take writes at either (make test-servers).

A lock of ours is of one node; a transaction meets those of the other nodes when it commits. What fences two writers there is
the checkpoint's compare-and-set, which the cluster judges as it judges every row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest

from anabranch.connectors.mysql.target.apply import MysqlWriter
from anabranch.connectors.mysql.target.preflight import MysqlTargetChecks
from anabranch.contracts import Begun, PreflightContext, ValueRules
from anabranch.errors import Fenced, TargetBusy, TargetError, TargetUnavailable
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.schema import Column, TableSchema
from anabranch.model.state import Checkpoint
from anabranch.rows.net import TableNet, TargetTable
from anabranch.testing.databases import Database, create_database, drop_database, unique_name
from anabranch.testing.in_time import until
from anabranch.testing.servers import Server
from anabranch.testing.workload import SCHEMA, Writer, fill
from rigs.endpoints import endpoint_of
from rigs.mysql_clusters import KINDS, everywhere, held_up, new_directory
from rigs.mysql_writer import Applying, rows, updates
from rigs.scenario_mysql_target import MysqlToMysql
from rigs.waiting import Doing

pytestmark = [pytest.mark.servers, pytest.mark.timeout(1200)]
LIMITS = {"galera": "wsrep_max_ws_size", "group": "group_replication_transaction_size_limit"}
SMALL = 1 << 20  # bytes
COLUMNS = {"id": LogicalType(Kind.INT64), "v": LogicalType(Kind.TEXT)}


class Nodes(NamedTuple):
    kind: str
    north: Server
    south: Server


class Place(NamedTuple):
    """One database, as either node has it."""

    kind: str
    north: Database
    south: Database

    def limit(self, size: int) -> int:
        """Set the size of a write set at the node that we write to, and return what it was."""
        ((before,),) = self.north.query(f"SELECT @@GLOBAL.{LIMITS[self.kind]}")
        self.north.execute(f"SET GLOBAL {LIMITS[self.kind]} = {size}")
        return int(before)

    def is_at_both(self, query: str, wanted: object) -> None:
        for database in (self.north, self.south):
            until(lambda database=database: database.query(query) == wanted, f"{query}: not {wanted}")


@pytest.fixture(scope="module", params=list(KINDS))
def nodes(request: pytest.FixtureRequest, servers_directory: Path, pytestconfig: pytest.Config) -> Iterator[Nodes]:
    with KINDS[request.param](new_directory(servers_directory)) as (north, south):
        yield Nodes(request.param, north, south)


@pytest.fixture
def place(nodes: Nodes) -> Iterator[Place]:
    north = create_database(nodes.north, "cluster")
    yield Place(nodes.kind, north, everywhere(north, nodes.south))
    drop_database(north)


@pytest.fixture
def at(place: Place) -> Iterator[Applying]:
    made = Applying(place.north, job=unique_name("job"))
    yield made
    made.writer.close()


@pytest.fixture
def items(at: Applying, place: Place) -> TargetTable:
    """A table of two rows, at both nodes."""
    of = at.create("t", "id bigint PRIMARY KEY, v longtext", COLUMNS)
    at.merge(TableNet(of, inserts=rows(of, ("id", "v"), (1, "a"), (2, "b"))))
    place.is_at_both("SELECT COUNT(*) FROM t", [(2,)])
    return of


def row(at: Applying, database: Database) -> tuple[object, ...]:
    sql = "SELECT owner, epoch, sequence FROM anabranch.checkpoint WHERE job = %s"
    return database.query(sql, [at.job])[0]


def told(now: Checkpoint) -> tuple[object, ...]:
    return now.owner, now.epoch, now.position.sequence


# --- preflight --------------------------------------------------------------------------------------------------------


def test_mysql_target_in_a_live_cluster(place: Place) -> None:
    """Keyless tables are refused, a small size of write sets is warned of, each with the statement that mends it."""
    id = Column("id", LogicalType(Kind.INT32), "int", nullable=False)
    keyed = TableSchema(TableId("shop", "keyed"), (id,), ("id",), engine="InnoDB")
    keyless = TableSchema(TableId("shop", "keyless"), (id,), (), engine="InnoDB")
    size = LIMITS[place.kind]
    assert found(place, keyed) == []
    assert [verdict for verdict, _ in found(place, keyless)] == ["failed"]
    before = place.limit(SMALL)
    try:
        ((verdict, hint),) = found(place, keyed)
        assert verdict == "warning" and hint.startswith(f"SET GLOBAL {size} = ")
        place.north.execute(hint)
        assert found(place, keyed) == []
    finally:
        place.limit(before)


def found(place: Place, schema: TableSchema) -> list[tuple[str, str]]:
    types = tuple(column.type for column in schema.columns if column.type)
    names = tuple(column.name for column in schema.columns)
    target = TargetTable(schema.id, TableId(place.north.name, schema.id.name), names, types, schema.primary_key, names)
    context = PreflightContext("job", {}, {schema.id: schema}, {schema.id: target})
    with closing(MysqlTargetChecks(endpoint_of(place.north), place.north.server.name)) as checks:
        results = checks.run(context)
    assert [str(one.verdict) for one in results if one.check == "target.node"] == ["warning"]
    return [(str(one.verdict), one.hint) for one in results if one.check == "target.cluster"]


# --- commits that the cluster refuses ---------------------------------------------------------------------------------


def test_rule_09_a_write_set_that_is_too_large_is_refused_whole(at: Applying, items: TargetTable, place: Place) -> None:
    """At the commit, and for the reason; as soon as the limit lets it, the same epoch passes."""
    large = TableNet(items, inserts=rows(items, ("id", "v"), *((n, "x" * 10_000) for n in range(10, 510))))
    before = place.limit(SMALL)
    try:
        with pytest.raises(TargetError, match=r"refuses the transaction|commit an epoch|merge into") as refused:
            at.merge(large)
        assert not isinstance(refused.value, TargetUnavailable), refused.value
        assert refused.value.hint and LIMITS[place.kind] in refused.value.hint
        at.writer.rollback()
        assert row(at, place.north) == told(at.now)
        assert place.north.query("SELECT COUNT(*) FROM t") == [(2,)]
        at.merge(TableNet(items, inserts=rows(items, ("id", "v"), (3, "c"))))
        place.is_at_both("SELECT COUNT(*) FROM t", [(3,)])
    finally:
        place.limit(before)
    at.merge(large)
    place.is_at_both("SELECT COUNT(*) FROM t", [(503,)])
    assert row(at, place.south) == told(at.now)


def test_rule_09_a_row_that_another_node_changed_meanwhile_is_the_same_epoch_again(
    at: Applying, items: TargetTable, place: Place
) -> None:
    """The other node's transaction comes first and ends ours where it holds the row."""
    net = TableNet(items, updates=(updates(items, [1], ("v",), ("ours",)),))
    writer = at.begin()
    writer.merge(net)
    place.south.execute("UPDATE t SET v = 'theirs' WHERE id = 1")
    until(lambda: place.north.query("SELECT v FROM t WHERE id = 1") == [("theirs",)], "it did not come over")
    not_committed(at, place, writer.commit)
    at.merge(net)
    place.is_at_both("SELECT v FROM t WHERE id = 1", [("ours",)])
    assert row(at, place.south) == told(at.now)


def test_rule_09_a_commit_that_fails_its_certification_is_the_same_epoch_again(
    at: Applying, items: TargetTable, place: Place
) -> None:
    """The other node has committed first, and this one has not heard of it when it commits."""
    place.north.execute("CREATE TABLE u (id bigint PRIMARY KEY)")
    place.is_at_both("SELECT COUNT(*) FROM u", [(0,)])
    net = TableNet(items, updates=(updates(items, [1], ("v",), ("ours",)),))
    writer = at.begin()
    writer.merge(net)
    with held_up(place.north, "u"):
        with closing(place.south.connect(autocommit=False)) as other, other.cursor() as cursor:
            cursor.execute("INSERT INTO u VALUES (1)")
            cursor.execute("UPDATE t SET v = 'theirs' WHERE id = 1")
            other.commit()
        committing = Doing(writer.commit)  # Galera says so when what came before is applied, a group at once
        waits = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO = 'COMMIT'"
        until(lambda: not committing.goes_on or place.north.query(waits) == [(1,)], "it is not committed")
    not_committed(at, place, committing.done)
    until(lambda: place.north.query("SELECT v FROM t WHERE id = 1") == [("theirs",)], "it did not come over")
    at.merge(net)
    place.is_at_both("SELECT v FROM t WHERE id = 1", [("ours",)])


def not_committed(at: Applying, place: Place, commit: Callable[[], None]) -> None:
    """The open epoch is not committed; nothing of it is there, and the row says so."""
    with pytest.raises(TargetBusy):
        commit()
    at.writer.rollback()
    assert row(at, place.north) == told(at.now)


# --- two writers ------------------------------------------------------------------------------------------------------


def test_rule_09_of_writers_at_two_nodes_the_one_that_came_last_commits(
    at: Applying, items: TargetTable, place: Place
) -> None:
    """Neither sees the other's lock. The epoch that was open at the first is not committed, and it begins no other."""
    net = TableNet(items, inserts=rows(items, ("id", "v"), (3, "c")))
    writer = at.begin()
    writer.merge(net)
    other = MysqlWriter(endpoint_of(place.south), ValueRules(), True)
    with closing(other):
        claimed = other.claim(at.job, "another")
        assert (claimed.epoch, claimed.owner) == (at.now.epoch, "another")
        until(lambda: row(at, place.north)[0] == "another", "the claim did not come over")
        with pytest.raises((TargetBusy, Fenced)):
            writer.commit()
        writer.rollback()
        with pytest.raises(Fenced):
            writer.begin(at.now, at.next)
        assert place.north.query("SELECT COUNT(*) FROM t") == [(2,)]
        mine, at.now = at.now, claimed
        assert other.begin(claimed, at.next) is Begun.OPEN
        other.merge(net)
        other.commit()
        place.is_at_both("SELECT COUNT(*) FROM t", [(3,)])
        with pytest.raises(Fenced):
            writer.begin(mine, at.next)


# --- a job ------------------------------------------------------------------------------------------------------------


@pytest.mark.quick
def test_load_and_follow_into_a_cluster(
    nodes: Nodes, mysql: Server, source_database: Callable[[Server], Database], tmp_path: Path
) -> None:
    """A kill in the middle; a transaction beyond the limit stops the job and says why, and nothing of it is there."""
    database, there = source_database(mysql), create_database(nodes.north, "there")
    database.execute(*SCHEMA, *fill(1), "CREATE TABLE big (id int PRIMARY KEY, v longtext)")
    made = MysqlToMysql(database, there, tmp_path / "job", name=unique_name("job"), is_quick=True)
    rule = f'[[rules]]\ninclude = ["{database.name}.*"]\ntarget = "{there.name}.{{table}}"\n'
    made.write_job()
    assert "takes no changes of tables without a key" in made.cli("preflight", code=3).stdout
    made.write_job(rules=rule.replace("target", f'exclude = ["{database.name}.visit"]\ntarget', 1))
    made.cli("preflight")
    place = Place(nodes.kind, there, everywhere(there, nodes.south))
    before = place.limit(0)
    place.limit(before)
    try:
        running = made.start("run")
        made.wait_streaming(running)
        with Writer(database, seed=5, rate=30):
            made.sync(running)
            running.kill()
            running = made.start("run")
            made.sync(running)
        made.sync(running)
        made.assert_identical(without=["visit"])
        place.limit(SMALL)
        database.execute("INSERT INTO big SELECT id, REPEAT('x', 100000) FROM account ORDER BY id LIMIT 40")
        ended = running.wait()
        assert ended.code == 6 and LIMITS[nodes.kind] in ended.stderr, ended.stderr[-2000:]
        assert there.query("SELECT COUNT(*) FROM big") == [(0,)]
        place.limit(before)
        made.run_until_caught_up()
        made.assert_identical(without=["visit"])
        mark = "SELECT COUNT(*) FROM big"
        place.is_at_both(mark, [(40,)])
        assert made.cli("verify", "--json", seconds=200).json["identical"] is True
    finally:
        place.limit(before)
        made.close()
        made.cli("drop", "--execute", code=None)
        drop_database(there)
