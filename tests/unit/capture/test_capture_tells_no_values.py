"""What capture says of statements in the log: logs, errors, the trail and reasons of parked tables hold no values."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from anabranch import connectors
from anabranch.capture.definitions import DefinitionKeeper
from anabranch.errors import UnknownLogEvent
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId
from anabranch.model.position import LogMark
from anabranch.model.schema import Column, TableSchema
from anabranch.rows.log_items import LogStatement
from anabranch.trail.writer import TrailWriter

SECRET = "S3cret"
HERE = LogMark("bin.000001:400", "bin.000001:400")
ORDERS = TableSchema(TableId("shop", "orders"), (Column("id", LogicalType(Kind.INT32), "int"),), ("id",))


@pytest.fixture
def keeper(tmp_path: Path) -> Iterator[DefinitionKeeper]:
    source = connectors.source(Endpoint("mysql", "203.0.113.1", 1, "u", "p"))
    with TrailWriter.open(tmp_path, job="j", job_uuid="u", source_identity="s", pack=False) as trail:
        trail.schema(ORDERS)
        yield DefinitionKeeper(source, trail, lambda table: True, lambda: None)


def test_of_a_change_logged_as_a_statement(keeper: DefinitionKeeper) -> None:
    statement = LogStatement(f"INSERT INTO orders VALUES (4711, '{SECRET}')", "shop", HERE)
    with pytest.raises(UnknownLogEvent) as refused:
        keeper.on_statement(statement)
    assert "INSERT INTO orders VALUES (…, '…')" in str(refused.value)
    assert "4711" not in str(refused.value)


def test_of_a_statement_that_parks(keeper: DefinitionKeeper, tmp_path: Path) -> None:
    sql = f"ALTER TABLE orders DROP COLUMN n, COMMENT '{SECRET}', CONNECTION='mysql://u:{SECRET}@h/d' /* {SECRET} */"
    with capture_logs() as logs:
        chunk = keeper.on_statement(LogStatement(sql, "shop", HERE))
    assert chunk is not None and chunk.barriers and SECRET not in repr(chunk)
    assert "ALTER TABLE orders DROP COLUMN n" in repr(chunk) and SECRET not in repr(logs)
    assert all(SECRET.encode() not in file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
