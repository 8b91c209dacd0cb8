"""What the trail of a running capture holds, keeps and lets go (K11, K12, K18, K30, K31). Without Spark."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from anabranch import connectors
from anabranch.contracts import TargetStore
from anabranch.errors import TrailError
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId
from anabranch.model.position import Position
from anabranch.model.table_life import TableState
from anabranch.testing.databases import Database, connect, unique_name
from anabranch.testing.faults import Proxy, frozen
from anabranch.testing.servers import Server, start_mariadb
from anabranch.testing.workload import SCHEMA, Writer, fill
from anabranch.trail import retention
from anabranch.trail.reader import TrailReader
from rigs.scenario import MARKS, Running, Scenario, wait_until

Make = Callable[..., Scenario]
ITEM = "CREATE TABLE item (id INT AUTO_INCREMENT PRIMARY KEY, words VARCHAR(2000) NOT NULL)"
SINGLES, CLIENTS = 800, 8
APART = 24
BULKY = "INSERT INTO item (words) VALUES " + ",".join(["(HEX(RANDOM_BYTES(400)))"] * 400)  # 160 kB in the trail


@pytest.mark.one_family
def test_rule_11_pitfall_24_a_killed_capture_takes_nothing_back(mysql_family: Server, scenario: Make) -> None:
    """What a reader has seen before a SIGKILL is there after it; each committed transaction comes once."""
    made = scenario(mysql_family, *SCHEMA, *fill(1))
    made.write_job("[capture]\nsegment_mb = 1\n")
    dice, seen = random.Random(11), list[str]()
    capture = made.capture()
    with Writer(made.source, seed=3, workers=3, rate=300):
        for _ in range(3):
            some_ticks_come(made, capture)
            time.sleep(dice.uniform(0.0, 0.2))
            capture.kill()
            shown = [str(row) for row in made.trail_rows("tick")]
            assert shown[: len(seen)] == seen
            seen, capture = shown, made.capture()
    made.captured(capture)
    ticks = [(row.values["worker"], row.values["number"]) for row in made.trail_rows("tick")]
    assert sorted(ticks) == sorted((str(w), str(n)) for w, n in made.source.query("SELECT worker, number FROM tick"))
    assert made.cli("trail", "check", "--json").json["problems"] == []
    capture.stop()


def some_ticks_come(made: Scenario, capture: Running) -> None:
    there = len(made.trail_rows("tick"))
    wait_until(lambda: len(made.trail_rows("tick")) > there + 20, 20, "more ticks", capture.tail, capture)


def test_rule_12_and_30_segments_are_packed_and_go_when_readers_are_past(mariadb: Server, scenario: Make) -> None:
    made = scenario(mariadb, ITEM)
    made.write_job("[capture]\nsegment_mb = 1\nretain_hours = 0\n")
    capture = made.capture()
    rule_30_one_flush_takes_many_transactions(made, capture)
    for _ in range(APART):  # each a frame of its own: segments of few frames are not packed
        there = end(made)
        made.source.execute("INSERT INTO item (words) VALUES ('one apart')")
        wait_until(lambda there=there: end(made) > there, 60, "it is in the trail", capture.tail, capture)
    made.source.execute(*[BULKY] * 20)
    made.captured(capture)
    assert first(made) == 1 and len(made.trail_rows("item")) == 20 * 400 + SINGLES + APART, "nobody is registered"
    wait_until(lambda: "packed" in states(made), 120, "a segment is packed", lambda: str(states(made)), capture)
    with TrailReader(made.trail) as reader:
        retention.register(made.trail, "held", 1)
        retention.register(made.trail, "gone on", reader.end().position.sequence)
        before = [str(row) for row in made.trail_rows("item")]
        made.source.execute(*[BULKY] * 10)
        made.captured(capture)
        assert first(made) == 1 and [str(row) for row in made.trail_rows("item")][: len(before)] == before
        retention.advance(made.trail, "held", reader.end().position.sequence)
    made.source.execute(*[BULKY] * 10)
    made.captured(capture)
    gone = "what is behind all of them goes"
    wait_until(lambda: 1 < first(made) < last(made), 60, gone, lambda: str(states(made)), capture)
    with pytest.raises(TrailError, match="trail starts at"):
        retention.register(made.trail, "late", 1)
    assert made.cli("trail", "check", "--json").json["problems"] == []
    capture.stop()
    rule_31_a_trail_that_is_gone_or_another_one_is_refused(made)


def end(made: Scenario) -> int:
    with TrailReader(made.trail) as reader:
        return reader.end().position.sequence


def rule_30_one_flush_takes_many_transactions(made: Scenario, capture: Running) -> None:
    """As many as came in during the last one: by far fewer frames than transactions. A flush takes long here: else it is a
    matter of the machine how many come in."""

    def insert(number: int) -> None:
        with closing(made.source.connect()) as connection, closing(connection.cursor()) as cursor:
            for _ in range(SINGLES // CLIENTS):
                cursor.execute("INSERT INTO item (words) VALUES ('a single one')")

    with frozen(capture.pid), ThreadPoolExecutor(CLIENTS) as clients:
        list(clients.map(insert, range(CLIENTS)))
    made.captured(capture)
    report = made.cli("trail", "check", "--json").json
    assert report["transactions"] == SINGLES + 1 and report["frames"] < SINGLES / 2, report


def first(made: Scenario) -> int:
    with TrailReader(made.trail) as reader:
        return reader.first()


def last(made: Scenario) -> int:
    with TrailReader(made.trail) as reader:
        return reader.end().position.sequence


def states(made: Scenario) -> list[str]:
    with TrailReader(made.trail) as reader:
        return [segment.state for segment in reader.segments()]


def rule_31_a_trail_that_is_gone_or_another_one_is_refused(made: Scenario) -> None:
    """Under a target that has followed it."""
    with target_store(made) as store:
        store.save_job(made.name, {"uuid": "of-another-job", "source_identity": "", "definition": "{}"})
        store.create_checkpoint(made.name, Position(5, "log:5"), 0)
    assert "of-another-job" in made.cli("load", code=7).stderr
    shutil.rmtree(made.trail)
    refused = made.cli("capture", code=7).stderr
    assert "is gone" in refused and "5@log:5" in refused


@contextmanager
def target_store(made: Scenario) -> Iterator[TargetStore]:
    server = made.target.server
    end = Endpoint(server.name, server.host, server.port, server.user, server.password, made.target.name)
    with closing(connectors.target(end).store()) as store:
        store.prepare()
        yield store


@pytest.fixture
def two_servers(servers_directory: Path) -> Iterator[tuple[Server, Server]]:
    """A MariaDB and one that took its place; both with the account of the job."""
    servers = [start_mariadb(servers_directory / unique_name(name)) for name in ("former", "promoted")]
    for server in servers:
        with closing(connect(server)) as connection, closing(connection.cursor()) as cursor:
            cursor.execute("GRANT ALL ON *.* TO repl@'%' IDENTIFIED BY 'of both'")
    yield servers[0], servers[1]
    for server in servers:
        server.stop(immediate=True)


def test_rule_18_another_server_that_has_everything_is_followed(
    two_servers: tuple[Server, Server], scenario: Make
) -> None:
    former, promoted = two_servers
    with Proxy(former.host, former.port) as line:
        made = scenario(former, ITEM, source_at=("127.0.0.1", line.port), user=("repl", "of both"))
        capture = made.capture()
        made.source.execute("INSERT INTO item VALUES (1, 'of the former')")
        made.captured(capture)
        capture.stop()
        promote(made, promoted)
        line.target_port = promoted.port
        with a_table_that_loads(made):
            refused = made.cli("capture", code=5)
            assert f"{made.source.name}.item" in refused.stderr and "load" in refused.stderr
        capture = made.capture()
        made.source = Database(promoted, made.source.name)
        made.source.execute("INSERT INTO item VALUES (2, 'of the promoted')")
        made.captured(capture)
        assert "source_switched" in capture.stop().stderr
        rows = [row.values["words"] for row in made.trail_rows("item")]
        assert rows == ["of the former", "of the promoted"]
        line.target_port = former.port
        assert "does not contain" in made.cli("capture", code=5).stderr, "the former lacks what came since"


def promote(made: Scenario, promoted: Server) -> None:
    """It has the former's tables, rows and GTIDs, as a replica would."""
    contained = made.source.query("SELECT @@GLOBAL.gtid_binlog_pos")[0][0]
    with closing(connect(promoted)) as connection, closing(connection.cursor()) as cursor:
        cursor.execute(f"CREATE DATABASE {made.source.name} CHARACTER SET utf8mb4")
        for statement in (f"USE {made.source.name}", ITEM, MARKS, "RESET MASTER"):
            cursor.execute(statement)
        cursor.execute(f"SET GLOBAL gtid_binlog_state = '{contained}'")


@contextmanager
def a_table_that_loads(made: Scenario) -> Iterator[None]:
    """The target says that a load has begun."""
    item = TableId(made.source.name, "item")
    with target_store(made) as store:
        streams = TableState(item, TableId("public", "item"), "streaming")
        loads = replace(streams, state="loading")
        store.save_table(made.name, loads, store.table(made.name, item))
        yield
        store.save_table(made.name, streams, loads)
