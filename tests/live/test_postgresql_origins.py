"""Transactions that came to a PostgreSQL by replication: where from, in the trail, and readers that leave them out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from anabranch.connectors.postgresql.source import connector as source
from anabranch.connectors.postgresql.source.options import PostgresSourceOptions
from anabranch.connectors.postgresql.target import connector as target
from anabranch.contracts import LogOptions
from anabranch.errors import ConfigError, TargetError
from anabranch.rows.net import TableNet
from anabranch.testing.conformance.epochs import Epochs, Target, arrow, make, table
from anabranch.testing.databases import Database
from anabranch.testing.servers import Server
from anabranch.trail.reader import TrailReader, chunks
from anabranch.trail.show import show
from rigs.endpoints import endpoint_of
from rigs.postgresql_capture import FLUSH, Rig, small_memory
from rigs.postgresql_load import RULES
from rigs.postgresql_sessions import drop_origins, session_from

LARGE = 3000  # wide rows: more than a session may keep in memory while it decodes
ROWS = "INSERT INTO t SELECT n, repeat(md5(n::text), 20) FROM generate_series({}, {}) n"
TABLE = ("CREATE TABLE t (id int PRIMARY KEY, v text)", "CREATE TABLE empty (id int PRIMARY KEY)")
Make = Callable[[Server], Database]


@pytest.fixture
def north(source_database: Make, logical_postgresql: Server) -> Iterator[tuple[Database, str]]:
    """A database, and the name of an origin that is dropped in the end: names are the whole server's."""
    database = source_database(logical_postgresql)
    small_memory(database)
    database.execute(*TABLE)
    name = f"{database.name} é north"
    yield database, name
    drop_origins(database, name)


def told(rig: Rig) -> list[tuple[str | None, int]]:
    """Origin and rows of each transaction in its trail, which `trail show` tells, too."""
    found, rows = [], 0
    with TrailReader(rig.directory) as trail:
        assert trail.check().problems == []
        shown = {row.position.sequence: row.origin for row in show(trail, after=0)}
        for chunk in chunks(trail, 0):
            for number, one in enumerate(chunk.transactions.to_pylist()):
                rows += one["rows"]
                if one["native"]:
                    found.append((one["origin"], rows))
                    assert shown.get(chunk.first_sequence + number, one["origin"]) == one["origin"]
                    rows = 0
    return found


@pytest.mark.parametrize("streaming", [True, False], ids=["as they are made", "when they commit"])
@pytest.mark.one_case("native-as they are made", "python-when they commit")
def test_rule_21_small_and_large_transactions_of_an_origin(
    north: tuple[Database, str], tmp_path: Path, streaming: bool
) -> None:
    """Two follow: one takes all, the other leaves out what came from there, a TRUNCATE too. Savepoints are taken back."""
    database, origin = north
    endpoint = endpoint_of(database)
    every = Rig(database, endpoint, tmp_path / "every", streaming)
    rest = Rig(database, endpoint, tmp_path / "rest", streaming, leave_out=frozenset((origin, "nobody")))
    try:
        write(database, origin)
        for rig in (every, rest):
            rig.follow()
    finally:
        every.drop()
        rest.drop()
    here = [(None, 2), (None, LARGE), (None, 1)]
    assert told(every) == [(origin, 1), here[0], (origin, LARGE), (origin, 0), here[1], (origin, 3), here[2]]
    assert told(rest) == here
    assert bool(every.given) is streaming, "large ones come while they are open, or not"


def write(database: Database, origin: str) -> None:
    with session_from(database, origin) as there:
        there.execute(ROWS.format(1, 1))
        there.commit()
        database.execute(ROWS.format(2, 3))
        large(there, 10_000)
        there.execute("TRUNCATE empty")
        there.commit()
        with closing(database.connect(autocommit=False)) as here:
            large(here, 20_000)
        there.execute(ROWS.format(4, 6))
        there.commit()
    database.execute(ROWS.format(7, 7), FLUSH)


def large(connection: psycopg.Connection[Any], first: int) -> None:
    connection.execute(ROWS.format(first + 1, first + LARGE))
    connection.execute("SAVEPOINT s")
    connection.execute(ROWS.format(first + LARGE + 1, first + 2 * LARGE))
    connection.execute("ROLLBACK TO s")
    connection.commit()


def test_rule_21_an_origin_that_was_dropped_is_told(north: tuple[Database, str], tmp_path: Path) -> None:
    """The log has its number: its name is what it was when the transaction was written."""
    database, origin = north
    rig = Rig(database, endpoint_of(database), tmp_path / "trail")
    try:
        with session_from(database, origin) as there:
            there.execute(ROWS.format(1, 1))
            there.commit()
        drop_origins(database, origin)
        rig.follow()
    finally:
        rig.drop()
    assert told(rig) == [(origin, 1)]


def test_rule_21_what_a_writer_says_is_what_a_reader_leaves_out(north: tuple[Database, str], tmp_path: Path) -> None:
    """A job in the other direction: what the first wrote into its source is not taken back."""
    database, origin = north
    of, endpoint = table("ours"), endpoint_of(database)
    goal = Target(target(endpoint))
    with closing(goal.connector.store()) as store:
        store.prepare()
    make(goal, of)
    every = Rig(database, endpoint, tmp_path / "every", wanted=lambda one: one.schema == "public")
    rest = replace(every, directory=tmp_path / "rest", leave_out=frozenset((origin,)), given=[])
    try:
        with Epochs(goal) as epochs:
            for number, by in enumerate((origin, "", origin, origin), 1):
                net = TableNet(of, inserts=arrow((str(number), None, "ours")))
                epochs.do(lambda writer, net=net: writer.merge(net), by)
        database.execute("INSERT INTO ours VALUES (5, NULL, 'of a user')", FLUSH)
        for rig in (every, rest):
            rig.follow()
    finally:
        every.drop()
        rest.drop()
    assert told(every) == [(origin, 1), (None, 1), (origin, 1), (origin, 1), (None, 1)]
    assert told(rest) == [(None, 1), (None, 1)]


def test_who_may_not_say_where_it_comes_from_is_told_what_to_grant(north: tuple[Database, str]) -> None:
    """Without an origin nothing is asked for."""
    database, origin = north
    goal, user = Target(target(endpoint_of(database))), f"{database.name[-20:]}_poor"
    with closing(goal.connector.store()) as store:
        store.prepare()
    database.execute(f"CREATE ROLE {user} LOGIN PASSWORD 'p'", f"GRANT ALL ON SCHEMA anabranch TO {user}")
    database.execute(f"GRANT ALL ON ALL TABLES IN SCHEMA anabranch TO {user}")
    poor = Target(target(replace(endpoint_of(database), user=user, password="p")))
    try:
        with Epochs(goal):
            pass
        with Epochs(poor) as epochs:
            epochs.do(lambda writer: None)
            with pytest.raises(TargetError, match=f"write as {origin}") as refused:
                epochs.do(lambda writer: None, origin)
            database.execute(refused.value.hint.partition(" (")[0])
            epochs.do(lambda writer: None, origin)
    finally:
        database.execute(f"DROP OWNED BY {user}", f"DROP ROLE {user}")


@pytest.mark.parametrize("decoder", ["wal2json", "decoderbufs"])
def test_decoders_that_tell_no_origins_leave_nothing_out(decoder: str, north: tuple[Database, str]) -> None:
    options = LogOptions(1, 0.05, RULES, "anabranch_nobody", leave_out=frozenset(("north",)))
    with pytest.raises(ConfigError, match=f"{decoder} does not tell where a transaction was made"):
        source(endpoint_of(north[0]), PostgresSourceOptions(decoder=decoder)).log(options)
