"""The first things that a source has to do, on other releases of PostgreSQL: a slot is made, rows are captured, a snapshot
is read."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from anabranch.connectors.postgresql.source import connector as source
from anabranch.contracts import Bounds, LogOptions
from anabranch.model.ids import TableId
from anabranch.model.position import LogMark
from anabranch.rows.chunk import META, BarrierKind, Chunk, Op
from anabranch.testing.databases import Database
from anabranch.testing.in_time import NotInTime
from anabranch.testing.servers import Server
from rigs.endpoints import endpoint_of
from rigs.postgresql_load import RULES

pytestmark = pytest.mark.servers
TABLE = TableId("public", "one")
PATIENCE = 180.0


@pytest.mark.parametrize("release", ["11", "12", "15", "17"])
def test_a_slot_rows_and_a_snapshot(
    release: str, request: pytest.FixtureRequest, source_database: Callable[[Server], Database]
) -> None:
    database = source_database(request.getfixturevalue(f"postgresql{release}"))
    database.execute("CREATE TABLE one (id bigint PRIMARY KEY, v text, d double precision, n numeric, at timestamptz)")
    database.execute("INSERT INTO one VALUES (0, 'before', 0.5, 1.50, '2020-01-01 12:00+02')")
    connector, name = source(endpoint_of(database)), f"anabranch_{database.name}"
    with closing(connector.catalog()) as catalog:
        tables = catalog.tables(lambda table: True)
    connector.run(connector.steps(LogOptions(1, 0.05, RULES, name), tables, begins=True), PATIENCE)
    assert connector.steps(LogOptions(1, 0.05, RULES, name), tables, begins=True) == []
    try:
        found = _captured(connector, name, tables, database)
    finally:
        connector.remains(name, remove=True)
    assert found == [
        (Op.INSERT, {"id": 1, "v": "a\nb", "d": float("inf"), "n": "NaN", "at": "2020-01-01 10:00:00+00"}),
        (Op.BEFORE, {"id": 1, "v": None, "d": None, "n": None, "at": None}),
        (Op.AFTER, {"id": 1, "v": "ü", "d": float("inf"), "n": "NaN", "at": "2020-01-01 10:00:00+00"}),
        (BarrierKind.TRUNCATE, {}),
    ]


def _captured(connector: Any, name: str, tables: Any, database: Database) -> list[tuple[Any, dict[str, Any]]]:
    with closing(connector.log(LogOptions(1, 0.05, RULES, name))) as reader:
        after = reader.end()
        reader.start(after, tables.get)
        with closing(connector.snapshot(reader.identity())) as snapshot:
            low, high = snapshot.open(tables[TABLE], "none")
            columns = [column.name for column in tables[TABLE].columns]
            lines = b"".join(snapshot.lines(tables[TABLE], columns, Bounds(), RULES))
        assert lines == b"0\tbefore\t0.5\t1.50\t2020-01-01 10:00:00+00\n" and low == high
        database.execute(
            "INSERT INTO one VALUES (1, E'a\\nb', 'Infinity', 'NaN', '2020-01-01 12:00+02')",
            "UPDATE one SET v = 'ü' WHERE id = 1",
            "TRUNCATE one",
        )
        return _until(reader, connector, reader.end())


def _until(reader: Any, connector: Any, end: LogMark) -> list[tuple[Any, dict[str, Any]]]:
    found: list[tuple[Any, dict[str, Any]]] = []
    give_up = time.monotonic() + PATIENCE
    while time.monotonic() < give_up:
        item = reader.read(0.2)
        if item is None:
            continue
        if isinstance(item, Chunk):
            rows = (row for one in item.tables for row in one.batch.to_pylist())
            found += [(Op(row["_op"]), dict(list(row.items())[META:])) for row in rows]
            found += [(barrier.kind, {}) for barrier in item.barriers]
        here = connector.order.mark(item.resume if isinstance(item, Chunk) else item.mark.resume)
        if connector.order.includes(here, end.native, None):
            return found
    raise NotInTime("the reader did not come to the log's end")
