"""The connection that would empty or write asks itself whether it leads to the job's source, whatever preflight said."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import pytest
from customers import RULES, endpoint_of

from anabranch.connectors.postgresql import target
from anabranch.connectors.postgresql.connection import connect
from anabranch.connectors.postgresql.source_connection import server
from anabranch.errors import TargetError
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.position import Position
from anabranch.model.state import TableState
from anabranch.rows.net import TargetTable
from anabranch.testing.databases import Database
from anabranch.testing.servers import Server

ORDERS = TableId("public", "orders")
TABLE = TargetTable(ORDERS, ORDERS, ("id",), (LogicalType(Kind.INT32),), ("id",))


def test_postgresql_connections_that_write_refuse_the_source(
    logical_postgresql: Server, source_database: Callable[[Server], Database]
) -> None:
    database = source_database(logical_postgresql)
    database.execute("CREATE TABLE orders (id int PRIMARY KEY)", "INSERT INTO orders VALUES (1), (2)")
    end = target(endpoint_of(database))
    with connect(endpoint_of(database), "test", autocommit=True) as connection:
        here = server(connection)
    with closing(end.store()) as store:
        store.prepare()
        store.save_job("shop", {"uuid": "u", "source_identity": here, "definition": "{}"})
        store.save_table("shop", TableState(ORDERS, ORDERS, "pending"), None)
        store.create_checkpoint("shop", Position(1, ""), 0)
        with closing(end.loader(RULES)) as loader, pytest.raises(TargetError, match=r"public\.orders is a table that"):
            loader.begin_generation("shop", TABLE, 1, [], empty=True)
        with closing(end.loader(RULES)) as loader, pytest.raises(TargetError, match=r"public\.orders is a table that"):
            loader.begin_generation("shop", TABLE, 1, [], empty=False, keep=True)
        with (
            closing(end.writer(RULES, False)) as writer,
            pytest.raises(TargetError, match=r"public\.orders is a table"),
        ):
            writer.claim("shop", "me")
        assert database.query("SELECT count(*) FROM orders") == [(2,)]
        other = here.replace(database.name, "elsewhere")
        store.save_job("shop", {"uuid": "u", "source_identity": other, "definition": "{}"})
    with closing(end.writer(RULES, False)) as writer:
        writer.claim("shop", "me")
    with closing(end.loader(RULES)) as loader:
        loader.begin_generation("shop", TABLE, 1, [], empty=True)
    assert database.query("SELECT count(*) FROM orders") == [(0,)]
