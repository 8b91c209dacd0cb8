"""A URL that names servers of MySQL's family: every connection is one to the server that can be written, also after they have
changed places, and under the fence of a cut-over; what is tried and why it does not fit is said in one message."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pymysql
import pytest

from anabranch import connectors
from anabranch.config.url import parse_url
from anabranch.connectors.mysql.connection import connect
from anabranch.connectors.mysql.source import capture
from anabranch.connectors.mysql.target import session
from anabranch.connectors.mysql.target.state_session import StateSession
from anabranch.contracts import LogOptions, PreflightContext
from anabranch.errors import SourceError, SourceUnavailable, TargetError, TargetUnavailable
from anabranch.model.endpoint import EndLimits, Endpoint
from anabranch.testing.databases import unique_name
from anabranch.testing.servers import Server, free_port
from rigs.promoted import JOIN, START, await_replica, promote, with_replica
from rigs.promoted import administered as on

SECRET = "PASSWORD"


@pytest.fixture(params=["mariadb", "mysql"])
def pair(request: pytest.FixtureRequest, servers_directory: Path) -> Iterator[tuple[Server, Server]]:
    directory = servers_directory / unique_name("pair")  # for places of a log that no other test has left
    directory.mkdir()
    with with_replica(request.param, directory) as servers:
        yield servers
    shutil.rmtree(directory)


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


def follow(second: Server, first: Server) -> None:
    place = {name: getattr(second, name) for name in ("host", "port", "user", "password")}
    on(first).execute(JOIN[first.name].format(**place), "START SLAVE")


def switch_over(first: Server, second: Server) -> None:
    """Let the second server take over as an administrator plans it: nothing is lost, and no session ends."""
    lock(first, "ON")
    await_replica(first, second)
    promote(second)
    lock(second, "OFF")


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_session_commits_nothing_at_a_server_that_is_demoted(pair: tuple[Server, Server]) -> None:
    """The user passes `read_only`, so the server refuses nothing."""
    first, second = pair
    both, insert = of(first, second), "INSERT INTO kept.t VALUES (%s)"
    lock(second, "ON")
    on(first).execute("CREATE DATABASE kept", "CREATE TABLE kept.t (v int)", "INSERT INTO kept.t VALUES (0)")
    await_replica(first, second)
    alone = session.connect(of(first), "test")
    several = [session.connect(both, "test") for _ in range(3)]
    store = StateSession(both)
    assert store.run("write", insert, 1) == 1
    for one in several:
        session.run(one, insert, 2)
        one.commit()
    session.run(several[0], insert, 3)
    switch_over(first, second)
    with pytest.raises(pymysql.err.OperationalError, match="read-only now, and was the primary before"):
        several[0].commit()
    with pytest.raises(pymysql.err.Error):
        several[1].together([session.bound(several[1], insert, (4,)), *several[1].committing])
    with pytest.raises(pymysql.err.OperationalError, match="read-only"), session.transaction(several[2]):
        session.run(several[2], insert, 5)
    with pytest.raises(TargetUnavailable, match="read-only now"):
        store.run("write", insert, 6)
    assert not several[0].open and not several[2].open
    assert store.run("write", insert, 7) == 1  # at the one that took over
    several[1].rollback()
    session.run(alone, insert, 8)  # who names one server means that one
    alone.commit()
    assert sorted(on(first).query("SELECT v FROM kept.t")) == [(0,), (1,), (2,), (2,), (2,), (8,)]
    assert sorted(on(second).query("SELECT v FROM kept.t")) == [(0,), (1,), (2,), (2,), (2,), (7,)]


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_session_behind_a_fence_commits_until_its_server_follows_another_one(pair: tuple[Server, Server]) -> None:
    first, second = pair
    both = of(first, second)
    for server in pair:
        lock(server, "ON")
    fenced = session.connect(both, "test")
    session.run(fenced, "CREATE DATABASE behind_a_fence")
    fenced.commit()
    await_replica(first, second)
    promote(second)
    follow(second, first)
    with pytest.raises(pymysql.err.OperationalError, match="it is read-only, and follows another server now"):
        fenced.commit()


@pytest.mark.long
@pytest.mark.timeout(600)
def test_rule_18_the_log_of_a_server_that_is_demoted_is_left(
    pair: tuple[Server, Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its heartbeats go on, so nothing else tells that it is not the source any more."""
    monkeypatch.setattr(capture, "STILL", 0.1)
    first, second = pair
    lock(second, "ON")
    on(first).execute("CREATE DATABASE left_log", "CREATE TABLE left_log.t (v int)")
    await_replica(first, second)
    source = connectors.source(of(first, second))
    with closing(source.log(LogOptions(reader_id=77, flush_interval=0.1))) as log:
        log.start(log.end(), lambda table: True)
        switch_over(first, second)
        on(second).execute("INSERT INTO left_log.t VALUES (1)")
        with pytest.raises(SourceUnavailable, match=f"the primary is 127.0.0.1:{second.port} now"):
            while True:
                log.read(0.1)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_every_server_of_a_source_has_to_log_what_it_applies(
    pair: tuple[Server, Server], servers_directory: Path
) -> None:
    first, second = pair
    lock(second, "ON")
    start, option = START[first.name], "log-slave-updates" if first.name == "mariadb" else "log-replica-updates"
    with start(servers_directory / unique_name("silent"), options=(f"--{option}=OFF", "--server-id=3")) as silent:
        on(silent).execute("SET GLOBAL read_only = ON")
        endpoint = replace(of(first, second, silent), user=first.user, password=first.password)
        if silent.password != first.password:
            on(silent).execute(f"ALTER USER CURRENT_USER() IDENTIFIED BY '{first.password}'")
        with closing(connectors.source(endpoint).checks()) as checks:
            found = checks.run(PreflightContext("job", {}, {}, {}))
    told = {one.message: one.verdict for one in found if one.check == "source.log_slave_updates"}
    assert [str(verdict) for verdict in told.values()] == ["ok", "ok", "failed"]
    assert f"127.0.0.1:{silent.port} does not log what it applies" in list(told)[2]
