"""A MySQL or MariaDB as a target of a test: an endpoint without a database, and what is left behind taken away."""

from __future__ import annotations

from contextlib import closing
from typing import Any

from anabranch.model.endpoint import Endpoint
from anabranch.testing.databases import connect
from anabranch.testing.servers import Server


def endpoint_at(server: Server, user: str = "", password: str = "") -> Endpoint:
    family = "mariadb" if server.name == "mariadb" else "mysql"
    account = (user, password) if user else (server.user, server.password)
    return Endpoint(family, server.host, server.port, *account)


def administer(server: Server, *statements: str) -> list[tuple[Any, ...]]:
    """Carry out statements as the administrator, and return the rows of the last."""
    with closing(connect(server)) as connection, closing(connection.cursor()) as cursor:
        for statement in statements:
            cursor.execute(statement)
        return list(cursor.fetchall())
