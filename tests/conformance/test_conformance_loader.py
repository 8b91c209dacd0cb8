"""Conformance of a target's loader, and of what reads its rows, on the twin and on real servers: PostgreSQL, MySQL, MariaDB."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from anabranch import connectors
from anabranch.config.url import parse_url
from anabranch.connectors.memory.database import forget
from anabranch.model.endpoint import Endpoint
from anabranch.testing.conformance import loader, target_reader
from anabranch.testing.conformance.epochs import Target
from anabranch.testing.databases import create_database, drop_database
from rigs.mysql_writer import Roles

OTHERS = [pytest.param(name, marks=pytest.mark.servers) for name in ("mysql56", "mysql9")]


@pytest.fixture(params=["memory", "postgresql", "mysql", "mariadb", "mysql without local_infile", *OTHERS])
def load_target(request: pytest.FixtureRequest) -> Iterator[Target]:
    name, _, without = request.param.partition(" ")
    if name == "memory":
        yield from _prepared(connectors.target(Endpoint("memory", "", 0, "", "", "loader")))
        forget()
        return
    made = create_database(request.getfixturevalue(name), request.node.name)
    found, problems = parse_url(made.url, {}, needs_database=True)
    assert found is not None, problems
    if name == "postgresql":
        yield from _prepared(connectors.target(found))
    else:
        for database in ("public", "anabranch"):
            made.execute(f"DROP DATABASE IF EXISTS {database}")
        made.execute(f"SET GLOBAL local_infile = {int(not without)}")
        yield from _prepared(Roles(found))
        made.execute("SET GLOBAL local_infile = DEFAULT", "DROP DATABASE IF EXISTS public")
    drop_database(made)


def _prepared(connector: Any) -> Iterator[Target]:
    with closing(connector.store()) as store:
        store.prepare()
    yield Target(connector)


@pytest.mark.parametrize("check", loader.CHECKS, ids=lambda check: check.__name__)
def test_loader(check: Callable[[Any], None], load_target: Any) -> None:
    check(load_target)


@pytest.mark.parametrize("check", target_reader.CHECKS, ids=lambda check: check.__name__)
def test_target_reader(check: Callable[[Any], None], load_target: Any) -> None:
    check(load_target)
