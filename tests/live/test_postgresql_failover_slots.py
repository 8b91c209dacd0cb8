"""The slot that standbys keep: made so, changed where the job file says otherwise, and what preflight finds at a standby and
at the primary that keeps it from being there after a failover."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from anabranch.connectors.postgresql.source import connector, wal_stream
from anabranch.connectors.postgresql.source.options import PostgresSourceOptions
from anabranch.contracts import LogOptions, PreflightContext
from anabranch.errors import SourceUnavailable
from anabranch.model.checks import CheckResult
from anabranch.model.endpoint import Endpoint
from anabranch.testing.databases import Database
from anabranch.testing.in_time import until
from anabranch.testing.servers import Server, free_port
from rigs.endpoints import endpoint_of
from rigs.promoted import a_primary, a_standby, administered, asked, has_slot

SLOT = "anabranch_failover"
OFF = PostgresSourceOptions(failover=False)


@pytest.fixture(params=["", "17"], ids=["newest", "17"])
def pair(request: pytest.FixtureRequest, servers_directory: Path) -> Iterator[tuple[Server, Server]]:
    with (
        a_primary(servers_directory, request.param) as first,
        a_standby(first, servers_directory, request.param, keeps_slots=False) as second,
    ):
        yield first, second


def found(endpoint: Endpoint, options: PostgresSourceOptions) -> list[CheckResult]:
    context = PreflightContext("job", {}, {}, {}, {}, source_name=SLOT)
    with closing(connector(endpoint, options).checks()) as checks:
        return [one for one in checks.run(context) if one.check == "source.failover"]


def read_once(endpoint: Endpoint, options: PostgresSourceOptions, begins: bool) -> None:
    """Set up what is missing, and open the log as capture does."""
    source, log = connector(endpoint, options), LogOptions(1, 1.0, name=SLOT)
    source.run(source.steps(log, {}, begins), 30)
    reader = source.log(log)
    try:
        reader.start(reader.end(), lambda table: None)
    finally:
        reader.close()


def is_kept(server: Server) -> object:
    return asked(server, "SELECT failover FROM pg_replication_slots WHERE slot_name = %s", SLOT)[0][0]


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_slot_is_kept_by_standbys_as_the_job_says_and_preflight_names_what_is_missing(
    pair: tuple[Server, Server],
) -> None:
    first, second = pair
    one = endpoint_of(Database(first, "postgres"))
    both = replace(one, host=f"{first.host}:{first.port},{second.host}:{second.port}")
    usual = PostgresSourceOptions()
    assert found(one, usual) == []
    for options, begins, expected in (
        (OFF, True, False),
        (usual, False, True),
        (OFF, False, False),
        (usual, False, True),
    ):
        read_once(one, options, begins)
        until(lambda expected=expected: is_kept(first) is expected, "the slot is as the job says")
    read_once(one, OFF, False)
    (unkept, *_) = found(both, usual)
    assert unkept.verdict == "warning" and f"do not keep the slot {SLOT} yet" in unkept.message
    read_once(one, usual, False)
    (off,) = found(both, OFF)
    assert off.verdict == "warning" and "failover = true" in off.hint
    names = [(result.message, result.hint) for result in found(both, usual)]
    assert [
        ("sync_replication_slots = off" in message, "ALTER SYSTEM SET sync_repl" in hint) for message, hint in names
    ] == [
        (True, True),
        (False, False),
    ]
    assert "ALTER SYSTEM SET synchronized_standby_slots = 'standby'" in names[1][1]
    for server, statement in (
        (second, "ALTER SYSTEM SET sync_replication_slots = on"),
        (first, "ALTER SYSTEM SET synchronized_standby_slots = 'standby'"),
    ):
        administered(server).execute(statement, "SELECT pg_reload_conf()")
    until(lambda: "sync_replication_slots" not in str(found(both, usual)), "the settings are in force")

    def is_there() -> bool:
        administered(first).execute("SELECT pg_log_standby_snapshot()")
        read_once(one, usual, False)
        return has_slot(second, SLOT) and [one.verdict for one in found(both, usual)] == ["ok"]

    until(is_there, "the standby has the slot, and the primary has read its settings, too")
    (well,) = found(both, usual)
    assert well.verdict == "ok" and f"{second.port} keeps the slot" in well.message
    (away,) = found(replace(one, host=f"{first.host}:{first.port},{first.host}:{free_port()}"), usual)
    assert away.verdict == "warning" and "cannot be looked at" in away.message
    asked(second, "SELECT pg_promote()")
    until(lambda: asked(second, "SELECT pg_is_in_recovery()") == [(False,)], "it is promoted")
    (two,) = found(both, usual)
    assert two.verdict == "failed" and "can be written, too" in two.message


@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_slot_that_cannot_be_changed_is_read_all_the_same_and_changed_by_a_later_start(
    servers_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server would wait for another reader without end."""
    monkeypatch.setattr(wal_stream, "_PATIENCE", 0.5)
    log = LogOptions(1, 1.0, name=SLOT)
    with a_primary(servers_directory) as server:
        one = endpoint_of(Database(server, "postgres"))
        read_once(one, OFF, True)
        former, later = connector(one, OFF).log(log), connector(one).log(log)
        with closing(former), closing(later):
            former.start(former.end(), lambda table: None)
            with closing(wal_stream.WalStream(one)) as stream:
                assert stream.keep_at_standbys(SLOT, True) == "another process reads it"
                assert "does not exist" in stream.keep_at_standbys("gone", True)
                assert stream.history() == [], "the connection is as before"
            assert is_kept(server) is False
            with pytest.raises(SourceUnavailable, match="is active"):
                later.start(later.end(), lambda table: None)
            former.close()
            later.start(later.end(), lambda table: None)
            assert is_kept(server) is True
