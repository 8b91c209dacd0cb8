"""Appliers of a PostgreSQL: how many statements one keeps prepared, and a libpq without pipelines. Nothing connects."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from psycopg.pq import ExecStatus

from anabranch.connectors.postgresql.target import pipelined
from anabranch.connectors.postgresql.target.apply import PostgresWriter
from anabranch.connectors.postgresql.target.known_columns import KnownTable
from anabranch.connectors.postgresql.target.pipelined import Pipeline
from anabranch.contracts import ValueRules
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId
from anabranch.rows.net import INSERT, ChangeShape, TargetTable


def shape(number: int) -> ChangeShape:
    table = TableId("shop", f"t{number}")
    return ChangeShape(
        TargetTable(table, table, ("id",), (LogicalType(Kind.INT64),), ("id",), ("id",)), INSERT, ("id",)
    )


class Known:
    forgotten = 0

    def of(self, table: TableId) -> KnownTable:
        return KnownTable(types={"id": 20})

    def forget(self) -> None:
        self.forgotten += 1


class Line:
    """A connection of libpq that keeps prepared statements."""

    def __init__(self) -> None:
        self.prepared = set[bytes]()

    def prepare(self, name: bytes, query: bytes, types: Sequence[int]) -> Any:
        assert name not in self.prepared
        self.prepared.add(name)
        return SimpleNamespace(status=ExecStatus.COMMAND_OK)

    def exec_(self, statement: bytes) -> Any:
        for one in statement.split(b"; "):
            self.prepared.remove(one.removeprefix(b"DEALLOCATE "))
        return SimpleNamespace(status=ExecStatus.COMMAND_OK)


def test_an_applier_keeps_no_more_statements_prepared_than_one_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipelined, "MOST_PREPARED", 10)
    monkeypatch.setattr(pipelined, "_in_pipeline", lambda pgconn, sent: True)
    line, known, most = Line(), Known(), 0
    connection: Any = SimpleNamespace(pgconn=line, adapters=psycopg.adapters, connection=None)
    any_known: Any = known
    made = Pipeline(connection, any_known, "shop", "me")
    for number in range(40):
        assert made.begin([(shape(number), [b"1"])], "me.0")
        most = max(most, len(line.prepared))
    assert most == 11 + 3 and known.forgotten == 3, "with those that move the checkpoint and mark a transaction"


def test_without_pipelines_in_libpq_one_session_applies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psycopg.Pipeline, "is_supported", staticmethod(lambda: False))
    writer = PostgresWriter(Endpoint("postgresql", "127.0.0.1", 1, "me", ""), ValueRules())
    assert writer.appliers(4, [shape(1).table]) == ()
