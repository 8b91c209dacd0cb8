"""Pieces that share a task of verification: one connection to each end, whatever happens to one of them."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from anabranch import connectors
from anabranch.contracts import Bounds, ValueRules
from anabranch.model.ids import TableId
from anabranch.rows.net import TargetTable
from anabranch.spark.work import do_all
from anabranch.testing.databases import Database
from anabranch.testing.in_time import until
from anabranch.verify.digest import Summing
from anabranch.verify.fingerprints import Fingerprinting
from anabranch.verify.plan import VerifyPiece, VerifyTable
from rigs.endpoints import endpoint_of

NAMES = ("a", "gone", "b", "c")


@dataclass
class Opened:
    """An end that counts how often it is opened."""

    end: Any
    times: list[str] = field(default_factory=list)

    def reader(self, rules: ValueRules) -> Any:
        self.times.append("target")
        return self.end.reader(rules)

    def snapshot(self, expected: str = "") -> Any:
        self.times.append("source")
        return self.end.snapshot(expected)


def test_pieces_of_a_task_share_connections_and_a_failure_ends_only_its_own(target_database: Database) -> None:
    for name in NAMES:
        target_database.execute(f"CREATE TABLE {name} (id int PRIMARY KEY)", f"INSERT INTO {name} VALUES (1), (2)")
    end = endpoint_of(target_database)
    with closing(connectors.source(end).catalog()) as catalog:
        schemas = catalog.tables(lambda table: True)
    target_database.execute("DROP TABLE gone")
    pieces = [piece for name in NAMES for piece in pieces_of(schemas[TableId("public", name)])]
    for kind in (Summing, Fingerprinting):
        source, target = Opened(connectors.source(end)), Opened(connectors.target(end))
        work = kind(source, target, ValueRules())  # type: ignore[arg-type]  # what of an end is asked here
        found = {(o.piece.one.table.source.name, o.piece.is_source): o for o in do_all(work, pieces)}
        assert len(found) == 2 * len(NAMES)
        for name in ("a", "b", "c"):
            assert found[name, True].failure is found[name, False].failure is None
            rows = [found[name, side].value.rows for side in (True, False)]
            assert [int(getattr(one, "sum", lambda one=one: one)()) for one in rows] == [2, 2]
        if kind is Summing:
            assert found["gone", True].failure and found["gone", False].failure
        else:
            assert found["gone", True].value is found["gone", False].value is None
        most = 2 if kind is Summing else 1  # one more behind the failure
        assert len(source.times) == len(target.times) == most
        until(lambda: target_database.query(OURS) == [(0,)], "all are closed")


OURS = """
SELECT count(*) FROM pg_stat_activity
 WHERE datname = current_database() AND (application_name = 'anabranch-verify' OR application_name = 'anabranch')
"""


def pieces_of(schema: Any) -> list[VerifyPiece]:
    types = tuple(column.type for column in schema.columns)
    table = TargetTable(schema.id, schema.id, ("id",), types, ("id",), ("id",))
    one = VerifyTable(schema, table)
    return [VerifyPiece(one, bounds=Bounds()), VerifyPiece(one, place="true")]
