"""A database where nothing happens, beside one in which much does: its place moves on, and the server lets its log go."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from anabranch.connectors.postgresql.source import PostgresSource
from anabranch.connectors.postgresql.source import connector as source
from anabranch.connectors.postgresql.source.decoders import DECODERS, NEVER
from anabranch.connectors.postgresql.source.heartbeat import GROWN, Heartbeat
from anabranch.connectors.postgresql.source.options import PostgresSourceOptions
from anabranch.contracts import LogOptions
from anabranch.model.position import LogMark
from anabranch.rows.log_items import LogIdle
from anabranch.testing.databases import Database
from anabranch.testing.in_time import PATIENCE, in_time, until
from anabranch.testing.servers import Server
from rigs.endpoints import endpoint_of
from rigs.postgresql_load import RULES
from rigs.postgresql_sessions import drop_slots

GROWS = "INSERT INTO big SELECT repeat(md5(random()::text), 30) FROM generate_series(1, 4000)"  # about 4 MB
LITTLE = 1 << 20


class Following:
    """A reader of an idle database beside a busy one."""

    def __init__(self, idle: Database, busy: Database, decoder: str, every: int) -> None:
        self.idle, self.busy = idle, busy
        self.options = LogOptions(1, 0.05, RULES, f"anabranch_{decoder}_{idle.name[-10:]}")
        self.connector: PostgresSource = source(  # type: ignore[assignment]  # it is this one
            endpoint_of(idle), PostgresSourceOptions(decoder=decoder, heartbeat_interval_s=every)
        )
        with closing(self.connector.catalog()) as catalog:
            tables = catalog.tables(lambda table: True)
            self.connector.run(self.connector.steps(self.options, tables, begins=True), 240)
            begin = catalog.mark()
        self.reader = self.connector.log(self.options)
        self.reader.start(begin, tables.get)

    def until_idle_at(self, after: float, confirms: bool = False, seconds: float = 240) -> LogMark | None:
        """The first mark that is so late by its time; None if there is none within so many seconds."""
        give_up = time.monotonic() + seconds
        while time.monotonic() < give_up:
            item = self.reader.read(0.1)
            if item is not None:
                assert isinstance(item, LogIdle)
                if confirms:
                    self.reader.confirm(item.mark)
                if item.mark.commit_time > after * 1e6:
                    return item.mark
        return None

    def held(self) -> int:
        with closing(self.connector.catalog()) as catalog:
            found = catalog.held(self.options.name)
        assert found is not None
        return found.bytes

    def close(self) -> None:
        self.reader.close()
        self.connector.remains(self.options.name, remove=True)


@pytest.fixture
def following(source_database: Callable[[Server], Database]) -> Iterator[Callable[..., Following]]:
    made: list[Following] = []

    def make(server: Server, decoder: str, every: float) -> Following:
        idle, busy = source_database(server), source_database(server)
        idle.execute("CREATE TABLE item (id int PRIMARY KEY)")
        busy.execute("CREATE TABLE big (v text)")
        made.append(Following(idle, busy, decoder, every))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.mark.servers
@pytest.mark.parametrize("decoder", list(DECODERS))
def test_no_decoder_holds_log(decoder: str, postgresql15: Server, following: Callable[..., Following]) -> None:
    """Also by keepalives alone, which is all that decoderbufs has."""
    holds_no_log(following(postgresql15, decoder, 0.2), decoder)


def test_an_idle_database_holds_no_log(logical_postgresql: Server, following: Callable[..., Following]) -> None:
    holds_no_log(following(logical_postgresql, "pgoutput", 0.2), "pgoutput")


def holds_no_log(made: Following, decoder: str) -> None:
    begin, is_shown = time.time(), DECODERS[decoder].messages < NEVER
    for _ in range(3):
        made.busy.execute(GROWS)
        moved = made.until_idle_at(begin, confirms=True) if is_shown else None
        assert (moved is not None) is is_shown
        begin = time.time()
    give_up = time.monotonic() + 180
    while made.held() > LITTLE:  # what it keeps goes on from where the server has noted who runs
        in_time(give_up, made.held())
        made.busy.execute("CHECKPOINT")
        if (item := made.reader.read(0.2)) is not None:
            assert isinstance(item, LogIdle)
            made.reader.confirm(item.mark)


def test_a_heartbeat_is_in_no_trail_of_another_and_wakes_nobody(
    logical_postgresql: Server, following: Callable[..., Following]
) -> None:
    made = following(logical_postgresql, "pgoutput", 0.2)
    other = following(logical_postgresql, "pgoutput", 0.0)
    begin = time.time()
    made.busy.execute(GROWS)
    assert made.until_idle_at(begin) is not None
    assert other.until_idle_at(begin, seconds=3) is None  # nor does it write any itself


def test_a_server_on_which_nothing_happens_stays_as_it_is(
    logical_postgresql: Server, following: Callable[..., Following]
) -> None:
    made = following(logical_postgresql, "pgoutput", 0.1)
    other, options = f"{made.options.name}_2", "'proto_version', '1', 'publication_names', 'none', 'messages', 'true'"
    made.idle.execute(f"SELECT pg_create_logical_replication_slot('{other}', 'pgoutput')")
    written = f"SELECT count(*) FROM pg_logical_slot_peek_binary_changes('{other}', NULL, NULL, {options})"
    end, late = "SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint", time.monotonic() + PATIENCE

    def stays_as_it_is() -> bool:
        """Return whether nothing happened for so long. A shared server clears away what tests before have left."""
        before, sent = made.idle.query(end)[0][0], made.idle.query(written)
        made.reader.end()
        moved = made.until_idle_at(time.time(), seconds=3)
        made.reader.end()
        if made.idle.query(end)[0][0] - before >= GROWN:
            in_time(late, "the server does not come to rest")
            return False
        assert moved is None and made.idle.query(written) == sent
        return True

    try:
        while not stays_as_it_is():
            pass
        made.busy.execute(GROWS)
        assert made.until_idle_at(time.time() - 1) is not None
        assert made.idle.query(written) >= [(1,)]
    finally:
        drop_slots(made.idle, other)


@pytest.mark.since(14)
def test_the_last_of_the_log_comes_also_where_the_server_would_keep_it_in_memory(
    postgresql_source: Server, following: Callable[..., Following]
) -> None:
    """The server writes down each 15 seconds what a session has written that rolled back and had no transaction id. It may
    just have done so, and then no message is needed: so that is tried again."""
    made = following(postgresql_source, "pgoutput", 3600)
    in_memory = "BEGIN; SELECT pg_logical_emit_message(false, 'somebody', 'at all'); ROLLBACK"

    def comes() -> bool:
        made.idle.execute(in_memory)
        end, mark = made.reader.end(), made.until_idle_at(0.0, seconds=2)
        return mark is not None and made.connector.order.includes(mark, end.native, None)

    until(comes, "a message of ours comes, and all that was before it")


def test_one_that_is_refused_is_told_of_once(
    logical_postgresql: Server, source_database: Callable[[Server], Database]
) -> None:
    made = source_database(logical_postgresql)
    poor = f"{made.name}_poor"
    function = "FUNCTION pg_catalog.pg_logical_emit_message(boolean, text, text, boolean)"
    made.execute(f"CREATE ROLE {poor} LOGIN PASSWORD 'poor'", f"REVOKE EXECUTE ON {function} FROM PUBLIC")
    try:
        heartbeat = Heartbeat(endpoint_of(made, poor, "poor"), "anabranch_beats", 1.0)
        heartbeat.begin(0.0, 0)
        with capture_logs() as told:
            for second in range(2, 10):
                heartbeat.beat(float(second), second * GROWN)
        assert [one["event"] for one in told] == ["heartbeat_refused"]
        assert "permission denied" in told[0]["why"] and "poor'" not in told[0]["why"]
    finally:
        made.execute(f"DROP ROLE {poor}")


def test_one_that_does_not_come_through_is_tried_again(
    logical_postgresql: Server, source_database: Callable[[Server], Database]
) -> None:
    made = source_database(logical_postgresql)
    heartbeat = Heartbeat(replace(endpoint_of(made), port=1), "anabranch_beats", 1.0)
    heartbeat.begin(0.0, 0)
    with capture_logs() as told:
        heartbeat.beat(2.0, GROWN)
        heartbeat.beat(4.0, 2 * GROWN)
    assert told == []
