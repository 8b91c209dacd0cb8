"""Small tables that share a task: one connection to each end for all, and a snapshot and a commit for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import pytest

from anabranch import connectors
from anabranch.config.url import parse_url
from anabranch.connectors.mysql.source import load as mysql_load
from anabranch.connectors.postgresql.source import snapshot as postgresql_snapshot
from anabranch.connectors.postgresql.target import load as target_load
from anabranch.contracts import ValueRules
from anabranch.errors import TargetError
from anabranch.load.copy import ChunkWork
from anabranch.load.plan import LoadPiece, LoadTable, plan
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId
from anabranch.rows.net import TargetTable
from anabranch.spark.work import Outcome, do_all
from anabranch.testing.databases import Database
from anabranch.testing.servers import Server

JOB, RULES, TABLES = "shop", ValueRules(), 5
Make = Callable[[Server], Database]


def endpoint(url: str) -> Endpoint:
    found, problems = parse_url(url, {}, needs_database=True)
    assert found is not None, problems
    return found


@dataclass
class Rig:
    """Tables t0, t1, … with a row each, their loads begun."""

    source: Database
    target: Database
    opened: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        for n in range(TABLES):
            self.source.execute(f"CREATE TABLE t{n} (id INT PRIMARY KEY, v INT)", f"INSERT INTO t{n} VALUES (1, {n})")
        source, target = (connectors.source(endpoint(self.source.url)), connectors.target(endpoint(self.target.url)))
        with closing(target.store()) as store:
            store.prepare()
        schema = "public" if self.source.server.name == "postgresql" else self.source.name
        with closing(source.catalog()) as catalog:
            found = catalog.tables(lambda table: table.schema == schema)
        tables = [LoadTable(schema, _target_table(schema)) for _, schema in sorted(found.items())]
        planned = plan(JOB, source, target, tables, rules=RULES, expected_identity="")
        self.pieces = sorted((piece for one in planned for piece in one.pieces), key=lambda p: str(p.load.schema.id))
        self.work = ChunkWork(JOB, source, target, RULES)

    def count(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Each connection that is opened from here on stands in `opened`."""
        for end, module, name in (
            ("target", target_load, "connect"),
            ("source", mysql_load, "connect"),
            ("source", postgresql_snapshot, "open_session"),
        ):
            monkeypatch.setattr(module, name, self._counted(end, getattr(module, name)))

    def _counted(self, end: str, connect: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any, **options: Any) -> Any:
            self.opened.append(end)
            return connect(*arguments, **options)

        return counted

    def rows(self, n: int) -> list[tuple[Any, ...]]:
        return self.target.query(f"SELECT id, v FROM copies.t{n} ORDER BY id")


def _target_table(schema: Any) -> TargetTable:
    names = tuple(column.name for column in schema.columns)
    types = tuple(column.type for column in schema.columns)
    return TargetTable(schema.id, TableId("copies", schema.id.name), names, types, schema.primary_key, names)


def taken(outcomes: Iterator[Outcome]) -> list[Any]:
    found = list(outcomes)
    assert not [one.failure for one in found if one.failure]
    return [one.value for one in found]


def assert_small_tables_share_connections(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    rig.count(monkeypatch)
    each_has_a_snapshot_and_a_commit_of_its_own(rig)
    assert sorted(rig.opened) == ["source", "target"]
    what_is_done_is_left_and_takes_nothing_from_the_next(rig)
    one_that_fails_leaves_the_others(rig)


def each_has_a_snapshot_and_a_commit_of_its_own(rig: Rig) -> None:
    outcomes = do_all(rig.work, rig.pieces[:3])
    assert next(outcomes).value == (1,) and rig.rows(0) == [(1, 0)]
    rig.source.execute("INSERT INTO t1 VALUES (2, 22)")  # behind the first one's snapshot
    assert taken(outcomes) == [(2,), (1,)]
    assert rig.rows(1) == [(1, 1), (2, 22)]
    marks = rig.target.query("SELECT low, high FROM anabranch.load_chunk WHERE rows IS NOT NULL ORDER BY source_table")
    assert len(marks) == 3 and marks[0] != marks[1]


def what_is_done_is_left_and_takes_nothing_from_the_next(rig: Rig) -> None:
    rig.source.execute("INSERT INTO t0 VALUES (3, 33)")
    assert taken(do_all(rig.work, [rig.pieces[0], rig.pieces[3]])) == [(1,), (1,)]
    assert rig.rows(0) == [(1, 0)] and rig.rows(3) == [(1, 3)]


def one_that_fails_leaves_the_others(rig: Rig) -> None:
    rig.target.execute("DELETE FROM anabranch.load_chunk", "TRUNCATE copies.t0, copies.t1, copies.t3, copies.t4")
    rig.target.execute("DROP TABLE copies.t2")
    again: list[LoadPiece] = rig.pieces
    for piece in again:
        chunk = "INSERT INTO anabranch.load_chunk (job, source_table, generation, number) VALUES ('{}', '{}', 1, 0)"
        rig.target.execute(chunk.format(JOB, piece.load.schema.id))
    found = list(do_all(rig.work, again))
    failures = [str(one.piece.load.schema.id.name) for one in found if one.failure]
    assert failures == ["t2"] and isinstance(found[2].failure.error(), TargetError)  # type: ignore[union-attr]  # it has one
    assert [rig.rows(n) for n in (0, 1, 3, 4)] == [[(1, 0), (3, 33)], [(1, 1), (2, 22)], [(1, 3)], [(1, 4)]]


def test_small_tables_of_a_task_share_connections(
    mysql_family: Server, source_database: Make, target_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert_small_tables_share_connections(Rig(source_database(mysql_family), target_database), monkeypatch)


def test_small_tables_of_a_postgresql_share_connections(
    postgresql_source: Server, source_database: Make, target_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert_small_tables_share_connections(Rig(source_database(postgresql_source), target_database), monkeypatch)
