"""Conformance of the state that a target keeps of jobs: on the twin, PostgreSQL, MySQL and MariaDB."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from anabranch import connectors
from anabranch.connectors.memory.database import forget
from anabranch.connectors.mysql.target.store import MysqlStore
from anabranch.model.endpoint import Endpoint
from anabranch.testing.conformance import store
from anabranch.testing.databases import connect, create_database, drop_database
from anabranch.testing.servers import Server
from rigs.endpoints import endpoint_of

OTHERS = [pytest.param(name, marks=pytest.mark.servers) for name in ("mysql56", "mysql9")]


@pytest.fixture(params=["memory", "postgresql", "mysql", "mariadb", *OTHERS])
def stores(request: pytest.FixtureRequest) -> Iterator[store.Stores]:
    """The state of an empty target; of a MySQL there is one a server."""
    if request.param == "memory":
        yield connectors.target(Endpoint("memory", "", 0, "", "", "conformance")).store
        forget()
        return
    server = request.getfixturevalue(request.param)
    if request.param == "postgresql":
        made = create_database(server, request.node.name)
        yield connectors.target(endpoint_of(made)).store
        drop_database(made)
        return
    place = Endpoint("mysql", server.host, server.port, server.user, server.password)
    forget_all(server)  # other tests leave their jobs' state at the server
    yield lambda: MysqlStore(place)
    forget_all(server)


def forget_all(server: Server) -> None:
    with closing(connect(server)) as connection, closing(connection.cursor()) as cursor:
        cursor.execute("DROP DATABASE IF EXISTS anabranch")


@pytest.mark.parametrize("check", store.CHECKS, ids=lambda check: check.__name__)
def test_store(check: Callable[[store.Stores], None], stores: store.Stores) -> None:
    check(stores)
