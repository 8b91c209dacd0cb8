"""A URL that names a PostgreSQL's primary and its standby: every connection is one to the primary, also after they have changed
places; what is tried and why it does not fit is said in one message."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from anabranch.config.url import parse_url
from anabranch.connectors.postgresql.connection import connect
from anabranch.connectors.postgresql.source.connection import open_session
from anabranch.connectors.postgresql.source.wal_stream import WalStream
from anabranch.connectors.sql.servers import current
from anabranch.errors import SourceError, SourceUnavailable, TargetError, TargetUnavailable
from anabranch.manager.store_postgresql import PostgresKeeper
from anabranch.model.endpoint import EndLimits, Endpoint
from anabranch.testing.servers import Server, free_port
from rigs.promoted import a_primary, a_standby, promote

SECRET = "PASSWORD"


@pytest.fixture(scope="module")
def primary(servers_directory: Path) -> Iterator[Server]:
    with a_primary(servers_directory) as server:
        yield server


@pytest.fixture(scope="module")
def standby(primary: Server, servers_directory: Path) -> Iterator[Server]:
    with a_standby(primary, servers_directory) as server:
        yield server


def of(*servers: Server | int, query: str = "", password: str = "") -> Endpoint:
    addresses = ",".join(f"127.0.0.1:{one if isinstance(one, int) else one.port}" for one in servers)
    known = next(one for one in servers if isinstance(one, Server))
    text = f"postgresql://{known.user}:${{{SECRET}}}@{addresses}/postgres{query}"
    endpoint, problems = parse_url(text, {SECRET: password or known.password}, needs_database=True)
    assert endpoint is not None, problems
    return replace(endpoint, limits=EndLimits(connect=2.0))


def port_of(connection: psycopg.Connection[object]) -> int:
    with closing(connection):
        return connection.info.port


@pytest.mark.long
def test_every_connection_finds_the_primary_and_the_one_that_takes_over(primary: Server, standby: Server) -> None:
    away = free_port()
    both = of(away, standby, primary)
    assert port_of(connect(both, "test")) == primary.port and current(both).port == primary.port
    assert port_of(open_session(both)) == primary.port
    with closing(WalStream(both)) as stream:
        assert stream.timeline == 1
    with closing(PostgresKeeper(both)) as keeper:
        assert keeper.place == str(both)
    alone = of(standby, query="?target_session_attrs=primary")
    with pytest.raises(TargetUnavailable, match="hot standby"):
        connect(alone, "test")
    none = of(away, standby)
    for kind, opened in (
        (TargetUnavailable, lambda: connect(none, "test")),
        (SourceUnavailable, lambda: open_session(none)),
    ):
        with pytest.raises(kind) as refused:
            opened()
        told = refused.value.message
        assert f"127.0.0.1:{away}: " in told and f"127.0.0.1:{standby.port}: " in told
        assert "refused" in told and "hot standby" in told and standby.password not in str(refused.value)
    for refusing, kind in ((connect, TargetError), (open_session, SourceError)):
        with pytest.raises(kind) as wrong:
            refusing(of(primary, standby, password="wrong"), "test")
        assert not isinstance(wrong.value, TargetUnavailable | SourceUnavailable), "another one would refuse it, too"
        assert str(primary.port) in wrong.value.message
    primary.kill()
    with pytest.raises(SourceUnavailable, match="hot standby"):
        open_session(both)
    promote(standby)
    assert port_of(open_session(both)) == standby.port
    primary.start()  # two that can be written now: who was right last stays right
    assert port_of(open_session(of(primary, standby))) == primary.port
    assert port_of(open_session(both)) == standby.port
