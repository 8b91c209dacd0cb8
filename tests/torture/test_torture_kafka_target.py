"""The slice of `anabranch torture --target kafka` that every run does: every source, servers of their own, two histories at a
time; and that its judge finds what a topic must not have, at a real broker."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from anabranch.testing.databases import unique_name
from anabranch.testing.in_time import until
from anabranch.testing.torture.campaign import Campaign
from anabranch.testing.torture.faults_plan import AT_CHANGES
from anabranch.testing.torture.ground import Ground, private
from anabranch.testing.torture.kafka_snapshots import KafkaSnapshots
from anabranch.testing.torture.one import One
from anabranch.testing.torture.report import Tally, summary
from anabranch.testing.torture.sources import NAMES
from anabranch.testing.torture.tables import LEDGER, LEDGER_COLUMNS, Column

HISTORIES, DRAWN_FROM = 4, range(1, 61)
COLUMNS = {LEDGER: LEDGER_COLUMNS, "t": (Column("id", "int", nullable=False), Column("v", "exact text"))}
NAMESPACE = "torture_0"


@pytest.fixture(scope="module")
def ground(quick_directory: Path) -> Iterator[Ground]:
    directory = quick_directory / unique_name("torture")
    directory.mkdir()
    directory.chmod(0o755)
    try:
        with private(directory, NAMES, target="kafka") as made:
            yield made
    finally:
        shutil.rmtree(directory, ignore_errors=True)


class Topics:
    """Topics of a job that somebody else than the product writes: as they must be, or as they must not."""

    def __init__(self, ground: Ground) -> None:
        server = ground.target.server
        address = {"bootstrap.servers": f"{server.host}:{server.port}"}
        client = AdminClient(address)
        names = [f"anabranch.{NAMESPACE}", *(f"{NAMESPACE}.{table}" for table in COLUMNS)]
        for one in client.create_topics([NewTopic(name, 1 if name == names[0] else 2) for name in names]).values():
            one.result()
        until(lambda: set(names) <= client.list_topics().topics.keys(), "the topics are there")
        self.producer = Producer(address | {"transactional.id": f"anabranch.{NAMESPACE}"})
        self.producer.init_transactions()

    def state(self, **states: str) -> None:
        """Note the job's place behind transaction 1, and how its tables are."""
        self.producer.begin_transaction()
        tables: dict[tuple[str, ...], dict[str, Any]] = {
            ("table", f"{NAMESPACE}.{table}"): {"state": state} for table, state in states.items()
        }
        for key, value in ({("checkpoint",): {"sequence": 1}} | tables).items():
            self.producer.produce(f"anabranch.{NAMESPACE}", json.dumps(value), json.dumps(key))
        self.producer.commit_transaction()

    def transaction(self, sequence: int, *changes: tuple[int, str, Any, Any], commits: bool = True) -> None:
        """Write changes of the table t, each with its partition, and the transaction's number, as one transaction."""
        self.producer.begin_transaction()
        for number, (partition, op, before, after) in enumerate(changes):
            value = {"op": op, "ordinal": number, "before": before, "after": after}
            self._produce("t", sequence, partition, {"id": (before or after)["id"]}, value)
        ledger = {"op": "insert", "ordinal": len(changes), "before": None, "after": {"n": sequence}}
        self._produce(LEDGER, sequence, 0, {"n": sequence}, ledger)
        self.producer.flush()
        self.producer.commit_transaction() if commits else self.producer.abort_transaction()

    def _produce(self, table: str, sequence: int, partition: int, key: Any, value: Any) -> None:
        headers = [("anabranch.position", f"{sequence}@x".encode())]
        self.producer.produce(f"{NAMESPACE}.{table}", json.dumps(value), json.dumps(key), partition, headers=headers)


@pytest.fixture
def topics(ground: Ground) -> Iterator[Topics]:
    yield Topics(ground)
    ground.family.drop(ground.target, NAMESPACE)
    ground.family.forget(ground.target, NAMESPACE)


def _states(snapshots: KafkaSnapshots) -> list[tuple[bytes, bytes]]:
    """Return what looks show one after the other, until there is no more."""
    found = []
    while snapshots.has_more:
        seen = snapshots.read()
        found.append((seen.tables[LEDGER], seen.tables["t"]))
    return found


def test_a_reader_of_topics_sees_each_transaction_by_itself_and_what_contradicts(
    ground: Ground, topics: Topics
) -> None:
    with closing(ground.family.tables(ground.target, NAMESPACE).snapshots(COLUMNS)) as snapshots:
        assert isinstance(snapshots, KafkaSnapshots)
        assert snapshots.read().away == frozenset(COLUMNS) and not snapshots.streams(), "no job has begun"
        topics.state(t="streaming", ledger="window")
        topics.transaction(1, (0, "insert", None, {"id": 1, "v": "a"}))
        assert snapshots.read().away == frozenset(COLUMNS), "a table does not stream"
        topics.state(ledger="streaming")
        until(snapshots.streams, "all tables stream")
        assert snapshots.read().away == frozenset()
        topics.transaction(
            2, (0, "update", {"id": 1, "v": "a"}, {"id": 1, "v": "b"}), (1, "insert", None, {"id": 2, "v": None})
        )
        topics.transaction(3, (1, "update", {"id": 2, "v": None}, {"id": 2, "v": "c"}), commits=False)
        topics.transaction(3, (1, "update", {"id": 2, "v": None}, {"id": 2, "v": "d"}))
        snapshots.close()  # as if the line were lost
        assert _states(snapshots) == [(b"1\n2\n", b"1\tb\n2\t\\N\n"), (b"1\n2\n3\n", b"1\tb\n2\td\n")]
        topics.transaction(3, (1, "update", {"id": 2, "v": None}, {"id": 2, "v": "d"}))
        assert b"it comes behind transaction 3" in snapshots.read().tables["t"], "a transaction that is there twice"
        assert not snapshots.has_more and b"it comes behind" in snapshots.read().tables["t"], "it stays so"


def test_a_kafka_is_drawn_whole_rows_and_nothing_that_needs_rows_there(ground: Ground) -> None:
    assert ground.second is None and not ground.targets[1:]
    one, met = One(ground, Path("unused")), set[str]()
    for seed in DRAWN_FROM:
        history, faults = one.drawn(seed)
        assert not any(history.images) and not history.grows and not history.passes
        keys = [key for table in history.schema.tables for key in table.foreign_keys]
        assert all(key.on_delete == key.on_update == "RESTRICT" for key in keys), "the log would not tell what they do"
        assert not [fault for fault in faults if fault.kind == "cut" and fault.where == "target"]
        assert "target" not in ground.users_of(seed) and one.second_of(seed) is None
        met |= {fault.where if fault.kind in ("exit", "raise") else f"{fault.kind} {fault.where}" for fault in faults}
    assert {*AT_CHANGES, "second apply", "kill apply", "restart target", "lose target"} <= met


@pytest.mark.timeout(1800)
def test_histories_to_a_kafka_with_faults(ground: Ground, tmp_path: Path) -> None:
    tally, begun = Tally(), time.monotonic()
    with closing(Campaign(ground, tmp_path, 2, False).run(range(1, HISTORIES + 1))) as results:
        for told in results:
            again = f"anabranch torture --source {told.source} --target kafka"
            assert not told.failure, f"{told.failure}\n{again} --seed {told.seed} --histories 1"
            tally.add(told)
    print("\n".join(summary(tally, time.monotonic() - begun)))
    assert tally.counted and set(tally.sources) == set(NAMES), tally  # whether a fault comes about is a matter of time
    assert {"changes.known", "first.committed", "apply.appended"} <= tally.hits.keys()
