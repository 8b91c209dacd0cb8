"""[retry] at a MySQL or MariaDB, on real lines: an address that swallows packets, a server that stops answering in the middle,
a statement that hangs without a lock. They do nothing but wait, for half a minute in all: they wait side by side."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from functools import partial

import pytest

from anabranch.connectors.mysql.connection import ask, connect
from anabranch.connectors.mysql.source.packets import SourceRows
from anabranch.errors import SourceUnavailable
from anabranch.model.endpoint import EndLimits
from anabranch.testing.databases import Database
from anabranch.testing.faults import Proxy
from anabranch.testing.in_time import in_time
from anabranch.testing.servers import Server
from rigs.endpoints import endpoint_of
from rigs.waiting import Doing, at_once

SOON = 240.0
ENOUGH = 10.0  # seconds that a second connection may take on a busy machine
SHORT = EndLimits(connect=ENOUGH, silence=12.0)  # of lines to the server itself: they are watched together


@pytest.fixture
def shops(mariadb: Server, mysql: Server, source_database: Callable[[Server], Database]) -> list[Database]:
    return [source_database(server) for server in (mariadb, mysql)]


def until_asked(shop: Database) -> None:
    until = time.monotonic() + SOON
    while not any("SLEEP(600)" in str(row) for row in shop.query("SHOW PROCESSLIST")):
        in_time(until)
        time.sleep(0.05)


def test_limits_of_time_at_a_mysql_and_a_mariadb(shops: list[Database]) -> None:
    stories = (
        an_address_that_swallows_packets,
        a_server_that_stops_answering_in_the_middle,
        a_server_that_falls_silent_in_the_middle_of_a_result,
        a_server_that_answers_others_is_not_cut,
        a_statement_that_hangs_without_a_lock,
    )
    at_once(*(partial(story, shop) for shop in shops for story in stories))


def an_address_that_swallows_packets(shop: Database) -> None:
    """Opening a connection ends after the job's time."""
    with Proxy(shop.server.host, shop.server.port) as proxy:
        usual = replace(endpoint_of(shop), host="127.0.0.1", port=proxy.port)
        end = replace(usual, limits=EndLimits(connect=2.0))
        connect(usual).close()
        proxy.stall()
        begun = time.monotonic()
        with pytest.raises(SourceUnavailable):
            connect(end)
        assert 1.0 < time.monotonic() - begun < SOON
        proxy.restore()
        connect(usual).close()


def a_server_that_stops_answering_in_the_middle(shop: Database) -> None:
    """Also while rows are read that have no limit of time."""
    with Proxy(shop.server.host, shop.server.port) as proxy:
        end = replace(
            endpoint_of(shop), host="127.0.0.1", port=proxy.port, limits=EndLimits(connect=ENOUGH, silence=5.0)
        )
        with closing(connect(end, read_timeout=None)) as ours:
            begun = time.monotonic()  # it may be silent from now on
            doing = Doing(lambda: ask(ours, "SELECT SLEEP(600)"))
            until_asked(shop)
            proxy.stall()
            with pytest.raises(SourceUnavailable):
                doing.done(SOON)
            assert time.monotonic() - begun > 3.0
        proxy.restore()


def a_server_that_falls_silent_in_the_middle_of_a_result(shop: Database) -> None:
    """Rows of a load have no limit of time: the first have come, and the next never do."""
    shop.execute(
        "CREATE TABLE n (v CHAR(200))", "INSERT INTO n VALUES ('a'), ('b'), ('c'), ('d'), ('e'), ('f'), ('g'), ('h')"
    )
    rows = f"SELECT CONCAT(a.v, REPEAT('x', 1000)) FROM {', '.join(f'n AS {name}' for name in 'abcdefgh')}"
    with Proxy(shop.server.host, shop.server.port) as proxy:
        end = replace(
            endpoint_of(shop), host="127.0.0.1", port=proxy.port, limits=EndLimits(connect=ENOUGH, silence=5.0)
        )
        with closing(connect(end, read_timeout=None)) as ours:
            coming = SourceRows(ours, rows).payloads()
            assert next(coming)
            doing = Doing(lambda: sum(len(some) for some in coming))
            proxy.stall()
            with pytest.raises(SourceUnavailable):
                doing.done(SOON)
        proxy.restore()


def a_server_that_answers_others_is_not_cut(shop: Database) -> None:
    end = replace(endpoint_of(shop), limits=SHORT)
    with closing(connect(end)) as ours:
        assert ask(ours, "SELECT SLEEP(18)") == [(0,)]


def a_statement_that_hangs_without_a_lock(shop: Database) -> None:
    """Given up after the job's time, with an error that is tried again. What copies rows has no limit."""
    end = replace(endpoint_of(shop), limits=replace(SHORT, statement=4.0))
    with closing(connect(end)) as ours, pytest.raises(SourceUnavailable):
        ask(ours, "SELECT SLEEP(700)")
    with closing(connect(end, read_timeout=None)) as ours:
        assert ask(ours, "SELECT SLEEP(6)") == [(0,)]
