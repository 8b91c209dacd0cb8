"""[retry] at a PostgreSQL, on real lines: an address that swallows packets, a server that stops answering in the middle, a
statement that hangs without a lock. All but the first do nothing but wait, for half a minute: they wait side by side."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from anabranch.connectors.postgresql.connection import connect
from anabranch.connectors.postgresql.errors import translated
from anabranch.connectors.postgresql.source.connection import open_session
from anabranch.connectors.postgresql.source.errors import translated as translated_at_source
from anabranch.errors import SourceUnavailable, TargetBusy, TargetUnavailable
from anabranch.model.endpoint import EndLimits, Endpoint
from anabranch.testing.databases import Database
from anabranch.testing.faults import Proxy
from anabranch.testing.in_time import in_time
from rigs.endpoints import endpoint_of
from rigs.waiting import Doing, at_once

SOON = 240.0
ENOUGH = 10.0  # seconds that a second connection may take on a busy machine
SHORT = EndLimits(connect=ENOUGH, silence=12.0)  # of lines to the server itself: they are watched together


def by(proxy: Proxy, database: Database, limits: EndLimits) -> Endpoint:
    return replace(endpoint_of(database), host="127.0.0.1", port=proxy.port, limits=limits)


def until_asked(database: Database) -> None:
    asks = "SELECT count(*) FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(600)' AND state = 'active'"
    until = time.monotonic() + SOON
    while database.query(asks) == [(0,)]:
        in_time(until)
        time.sleep(0.05)


@pytest.mark.parametrize("open_it", [lambda end: connect(end, "anabranch:test"), open_session])
def test_an_address_that_swallows_packets(target_database: Database, open_it: Callable[[Endpoint], Any]) -> None:
    """Opening a connection ends after the job's time."""
    with Proxy(target_database.server.host, target_database.server.port) as proxy:
        usual, end = (by(proxy, target_database, limits) for limits in (EndLimits(), EndLimits(connect=2.0)))
        open_it(usual).close()
        proxy.stall()
        begun = time.monotonic()
        with pytest.raises((TargetUnavailable, SourceUnavailable)):
            open_it(end)
        assert 1.0 < time.monotonic() - begun < SOON
        proxy.restore()
        open_it(usual).close()


def test_limits_of_time_at_a_postgresql(target_database: Database) -> None:
    stories = (
        a_server_that_stops_answering_in_the_middle,
        a_server_that_answers_others_is_not_cut,
        a_statement_that_hangs_without_a_lock,
    )
    at_once(*(partial(story, target_database) for story in stories))


def a_server_that_stops_answering_in_the_middle(target_database: Database) -> None:
    """Nothing comes back, and the line looks as if it lived: it is cut, since a second connection is not answered either."""
    with Proxy(target_database.server.host, target_database.server.port) as proxy:
        end = by(proxy, target_database, EndLimits(connect=ENOUGH, silence=5.0))
        with closing(connect(end, "anabranch-load", autocommit=True)) as ours:

            def ask() -> None:
                with translated("ask"):
                    ours.execute("SELECT pg_sleep(600)")

            begun = time.monotonic()  # it may be silent from now on
            doing = Doing(ask)
            until_asked(target_database)
            proxy.stall()
            with pytest.raises(TargetUnavailable):
                doing.done(SOON)
            assert time.monotonic() - begun > 3.0
        proxy.restore()


def a_server_that_answers_others_is_not_cut(target_database: Database) -> None:
    """A long statement is no silence."""
    end = replace(endpoint_of(target_database), limits=SHORT)
    with closing(connect(end, "anabranch-load", autocommit=True)) as ours:
        assert ours.execute("SELECT 1 FROM pg_sleep(18)").fetchone() == (1,)


def a_statement_that_hangs_without_a_lock(target_database: Database) -> None:
    """Ended after the job's time, and the error is one that is tried again. What copies rows has no limit."""
    end = replace(endpoint_of(target_database), limits=replace(SHORT, statement=3.0))
    with (
        closing(connect(end, "anabranch:test", autocommit=True)) as apply,
        pytest.raises(TargetBusy),
        translated("ask"),
    ):
        apply.execute("SELECT pg_sleep(700)")
    with closing(open_session(end)) as source, pytest.raises(SourceUnavailable), translated_at_source("ask"):
        source.execute("SELECT pg_sleep(700)")
    for unlimited in (connect(end, "anabranch-load", autocommit=True), open_session(end, limited=False)):
        with closing(unlimited):
            unlimited.execute("SELECT pg_sleep(5)")
