"""A URL that names servers of MySQL's family: every connection is one to the server that can be written, also after they have
changed places, and under the fence of a cut-over; what is tried and why it does not fit is said in one message."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pymysql
import pytest

from anabranch.config.url import parse_url
from anabranch.connectors.mysql.connection import connect
from anabranch.connectors.mysql.target import session
from anabranch.errors import SourceError, SourceUnavailable, TargetError, TargetUnavailable
from anabranch.model.endpoint import EndLimits, Endpoint
from anabranch.testing.servers import Server, free_port
from rigs.promoted import administered as on
from rigs.promoted import await_replica, promote, with_replica

SECRET = "PASSWORD"


@pytest.fixture(params=["mariadb", "mysql"])
def pair(request: pytest.FixtureRequest, servers_directory: Path) -> Iterator[tuple[Server, Server]]:
    with with_replica(request.param, servers_directory) as servers:
        yield servers


def of(*servers: Server | int, user: str = "", password: str = "") -> Endpoint:
    addresses = ",".join(f"127.0.0.1:{one if isinstance(one, int) else one.port}" for one in servers)
    known = next(one for one in servers if isinstance(one, Server))
    text = f"{known.name}://{user or known.user}:${{{SECRET}}}@{addresses}"
    endpoint, problems = parse_url(text, {SECRET: password or known.password}, needs_database=False)
    assert endpoint is not None, problems
    return replace(endpoint, limits=EndLimits(connect=2.0))


def port_of(connection: pymysql.Connection) -> int:
    with closing(connection):
        return int(connection.port)


def lock(server: Server, on_or_off: str) -> None:
    on(server).execute(f"SET GLOBAL read_only = {on_or_off}")


@pytest.mark.long
@pytest.mark.timeout(600)
def test_every_connection_finds_the_server_that_can_be_written(pair: tuple[Server, Server]) -> None:
    first, second = pair
    lock(second, "ON")
    away = free_port()
    every = of(away, second, first)
    assert port_of(connect(every)) == first.port
    assert port_of(session.connect(every, "test")) == first.port
    kinds = (
        (SourceUnavailable, lambda one: connect(one)),
        (TargetUnavailable, lambda one: session.connect(one, "test")),
    )
    for kind, opened in kinds:
        with pytest.raises(kind) as none:
            opened(of(away, second))
        told = none.value.message
        assert (
            f"127.0.0.1:{away}: " in told and f"127.0.0.1:{second.port}: it is read-only, and follows another" in told
        )
        assert second.password not in str(none.value)
        with pytest.raises(SourceError if kind is SourceUnavailable else TargetError) as wrong:
            opened(of(first, second, password="wrong"))
        assert not isinstance(wrong.value, kind) and f"127.0.0.1:{first.port}: Access denied" in wrong.value.message
    await_replica(first, second)
    first.kill()
    with pytest.raises(SourceUnavailable, match="read-only"):
        connect(every)
    promote(second)
    with pytest.raises(SourceUnavailable, match="read-only"):
        connect(every)  # it follows nobody any more, but who knows of the one that does not answer
    lock(second, "OFF")
    assert port_of(connect(every)) == second.port
    first.start()  # two that can be written now: who was right last stays right
    assert port_of(connect(every)) == second.port


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_primary_behind_the_fence_of_a_cut_over_is_still_found(pair: tuple[Server, Server]) -> None:
    first, second = pair
    for server in pair:
        lock(server, "ON")
    assert port_of(connect(of(second, first))) == first.port
    with pytest.raises(SourceUnavailable):
        connect(of(second, first, free_port()))
    on(first).execute("CREATE USER blind IDENTIFIED BY 'pw'")
    await_replica(first, second)
    with pytest.raises(SourceUnavailable, match="GRANT REPLICATION CLIENT"):
        connect(of(second, first, user="blind", password="pw"))
    promote(second)
    with pytest.raises(SourceUnavailable, match="read-only"):
        connect(of(second, first))  # neither follows the other: which is the one?
