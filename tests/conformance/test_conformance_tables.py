"""Conformance of a target's tables and catalogue: on the twin, PostgreSQL, MySQL and MariaDB."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from anabranch import connectors
from anabranch.connectors.memory.database import database, forget
from anabranch.connectors.mysql.target.catalog import MysqlTargetCatalog
from anabranch.connectors.mysql.target.store import MysqlStore
from anabranch.connectors.mysql.target.tables import MysqlTables
from anabranch.contracts import RowTarget, TargetCatalog, TargetStore, TargetTables
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId
from anabranch.testing.conformance import tables
from anabranch.testing.conformance.tables import RULES, Texts
from anabranch.testing.databases import Database, create_database, drop_database
from conformance.conftest import endpoint

TWIN = "tables"


class _Connected:
    """A ground at a connector, with the state prepared."""

    has_keys = True

    def __init__(self, connector: RowTarget, job: str, schema: str) -> None:
        self.connector, self.job, self.schema = connector, job, schema
        with closing(self.store()) as store:
            store.prepare()

    def tables(self) -> TargetTables:
        return self.connector.tables(RULES)

    def catalog(self) -> TargetCatalog:
        return self.connector.catalog()

    def store(self) -> TargetStore:
        return self.connector.store()


class PostgresGround(_Connected):
    quote = '"'

    def __init__(self, made: Database) -> None:
        self.made = made
        super().__init__(connectors.target(endpoint(made.url)), made.name, "dest")

    def insert(self, table: TableId, values: Texts) -> None:
        _insert(self.made, self.quote, table, values)

    def delete(self, table: TableId, id: str) -> None:
        self.made.execute(f"DELETE FROM {_name(self.quote, table)} WHERE id = {id}")

    def ids(self, table: TableId) -> list[int]:
        return [row[0] for row in self.made.query(f"SELECT id FROM {_name(self.quote, table)} ORDER BY id")]

    def close(self) -> None:
        drop_database(self.made)


class MysqlGround(PostgresGround):
    quote = "`"

    def __init__(self, made: Database) -> None:
        self.made, self.job, self.schema = made, made.name, made.name
        self.endpoint = replace(endpoint(made.url), database="")
        with closing(self.store()) as store:
            store.prepare()

    def tables(self) -> TargetTables:
        return MysqlTables(self.endpoint, RULES, self.made.server.name)

    def catalog(self) -> TargetCatalog:
        return MysqlTargetCatalog(self.endpoint)

    def store(self) -> TargetStore:
        return MysqlStore(self.endpoint)

    def close(self) -> None:
        with closing(self.store()) as store:
            store.jobs.drop(self.job)
        drop_database(self.made)


class MemoryGround(_Connected):
    has_keys = False

    def __init__(self) -> None:
        super().__init__(connectors.target(Endpoint("memory", "", 0, "", "", TWIN)), "conformance", "dest")

    def insert(self, table: TableId, values: Texts) -> None:
        relation = database(TWIN).table(table)
        relation.put(relation.row(values))

    def delete(self, table: TableId, id: str) -> None:
        raise AssertionError("no suite deletes there")

    def ids(self, table: TableId) -> list[int]:
        return sorted(int(row[0] or 0) for row in database(TWIN).table(table).rows.values())

    def close(self) -> None:
        forget()


def _name(quote: str, table: TableId) -> str:
    return ".".join(f"{quote}{name}{quote}" for name in (table.schema, table.name))


def _insert(made: Database, quote: str, table: TableId, values: Texts) -> None:
    marks = ", ".join(["%s"] * len(values))
    with closing(made.connect()) as connection, closing(connection.cursor()) as cursor:
        statement = f"INSERT INTO {_name(quote, table)} ({', '.join(values)}) VALUES ({marks})"
        cursor.execute(statement, list(values.values()))


OTHERS = [pytest.param(name, marks=pytest.mark.servers) for name in ("mysql56", "mysql9")]


@pytest.fixture(params=["memory", "postgresql", "mysql", "mariadb", *OTHERS])
def ground(request: pytest.FixtureRequest) -> Iterator[Any]:
    if request.param == "memory":
        made: Any = MemoryGround()
    else:
        server = request.getfixturevalue(request.param)
        kind = PostgresGround if request.param == "postgresql" else MysqlGround
        made = kind(create_database(server, request.node.name))
    yield made
    made.close()


@pytest.mark.parametrize("check", tables.CHECKS, ids=lambda check: check.__name__)
def test_tables(check: Callable[[tables.Ground], None], ground: tables.Ground) -> None:
    check(ground)
