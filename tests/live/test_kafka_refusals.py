"""Checks that a job to a Kafka says where it was stopped and what mends it: made on purpose at brokers of its own.

What does not live here: who may enter (test_kafka_secured.py), messages that a broker refuses (test_kafka_appender.py), a
registry (unit/connectors/test_kafka_registry_contract.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from anabranch.connectors.kafka.target import KafkaTarget, changing
from anabranch.connectors.kafka.target.options import KafkaTargetOptions
from anabranch.contracts import Begun
from anabranch.errors import TargetError, TargetUnavailable
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.endpoint import USUAL, EndLimits, Endpoint
from anabranch.model.schema import Column, TableSchema
from anabranch.rows.appended import ChangeBatch
from anabranch.rows.chunk import Op
from anabranch.testing.conformance.appender import RULES, AppendSubject, Epochs, changes, table, transaction
from anabranch.testing.databases import unique_name
from anabranch.testing.in_time import until
from anabranch.testing.kafka import start_kafka
from anabranch.testing.servers import Server

TABLE = table("a")
COLUMNS = (Column("id", LogicalType(Kind.INT64), "bigint"), Column("word", LogicalType(Kind.TEXT), "text"))
QUICK = {"broker.session.timeout.ms": "2000", "broker.heartbeat.interval.ms": "500"}  # a dead broker is known as such
LIMITS = EndLimits(connect=1.0, statement=4.0)  # of who waits in vain
JOB = "conformance"  # as the epochs have it


@dataclass(frozen=True)
class TwoBrokers:
    """A cluster whose first broker has what every job needs, so that the second one may go."""

    first: Server
    second: Server

    def target(self, **options: Any) -> KafkaTarget:
        endpoint = Endpoint("kafka", self.first.host, self.first.port, "", "", "", (), LIMITS)
        return KafkaTarget(endpoint, KafkaTargetOptions(transaction_timeout_s=10, **options))

    def make(self, topic: str, *replicas: int, **settings: str) -> None:
        """Make a topic of one partition on these brokers, and wait until it is there."""
        made = NewTopic(topic, 1, replica_assignment=[list(replicas)], config=_dotted(settings))
        client = _administrator(self.first)
        client.create_topics([made])[topic].result()
        until(lambda: topic in client.list_topics().topics, f"{topic} is there")


def _dotted(settings: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "."): value for name, value in settings.items()}


def _administrator(kafka: Server) -> AdminClient:
    return AdminClient({"bootstrap.servers": f"{kafka.host}:{kafka.port}"})


@pytest.fixture
def two(servers_directory: Path) -> Iterator[TwoBrokers]:
    directory = servers_directory / unique_name("two")
    first = start_kafka(directory / "first", settings=QUICK)
    target = KafkaTarget(Endpoint("kafka", first.host, first.port, "", ""))
    with closing(target.store()) as store:  # so that what transactions need is on the first broker
        store.jobs.save_job("somebody", {"uuid": "1"})
    second = start_kafka(directory / "second", settings=QUICK, joins=directory / "first")
    client = _administrator(first)
    until(lambda: len(client.list_topics().brokers) == 2, "there are two brokers")
    yield TwoBrokers(first, second)
    second.stop(immediate=True)
    first.stop(immediate=True)


def _begin(target: KafkaTarget, job: str = JOB) -> None:
    with closing(target.store()) as store:
        store.jobs.save_job(job, {"uuid": "1"})
        with closing(target.change_tables(RULES)) as topics:
            topics.begin(job, "1", [(TableSchema(TABLE.source, COLUMNS), TABLE)], 0, 0)


def _batch(number: int) -> ChangeBatch:
    return ChangeBatch([transaction(number)], [changes(TABLE, (Op.INSERT, number, 0, number, "ä"))])


def test_replicas_that_are_not_in_sync_are_named_and_the_job_goes_on_with_them(
    two: TwoBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    two.make(f"anabranch.{JOB}", 1, cleanup_policy="compact")
    two.make("t.a", 1, 2, min_insync_replicas="2")
    hasty = two.target(topic="t.{table}", topics="existing")
    target = replace(hasty, endpoint=replace(hasty.endpoint, limits=USUAL))
    _begin(target)
    epochs = Epochs(AppendSubject(target, list))
    epochs.do(_batch(1))
    two.second.stop(immediate=True)
    client = _administrator(two.first)
    until(lambda: client.list_topics("t.a").topics["t.a"].partitions[0].isrs == [1], "it is known to be away")
    assert epochs.appender.begin(epochs.now, epochs.next(_batch(2))) is Begun.OPEN
    epochs.appender.append(_batch(2))
    words = r"partition 0 of topic t\.a has 1 in-sync replicas of 2"
    with monkeypatch.context() as patched, pytest.raises(TargetUnavailable, match=words) as refused:
        patched.setattr(changing, "patience", lambda endpoint: 1.0)
        epochs.appender.commit()
    assert "bring the brokers of its replicas back" in refused.value.hint
    epochs.appender.rollback()
    two.second.start()

    def is_done() -> bool:
        try:
            epochs.do(_batch(2))
        except TargetUnavailable:
            epochs.appender.rollback()
            return False
        return True

    until(is_done, "the epoch is written")
    epochs.appender.close()


def test_a_state_whose_broker_is_away_is_waited_for_and_not_gone(two: TwoBrokers) -> None:
    two.make(f"anabranch.{JOB}", 2, cleanup_policy="compact")
    two.make("t.a", 1)
    target = two.target(topic="t.{table}", topics="existing")
    _begin(replace(target, endpoint=replace(target.endpoint, limits=USUAL)))
    epochs = Epochs(AppendSubject(target, list))
    epochs.do(_batch(1))
    epochs.appender.close()
    two.second.stop(immediate=True)
    with closing(target.store()) as store, pytest.raises(TargetUnavailable):
        store.jobs.checkpoint(JOB)
    with pytest.raises(TargetUnavailable) as refused:
        epochs.do(_batch(2))
    assert refused.value.hint


def test_what_a_cluster_refuses_comes_with_what_mends_it(kafka: Server) -> None:
    there = KafkaTarget(
        Endpoint("kafka", kafka.host, kafka.port, "", ""),
        KafkaTargetOptions(topic=unique_name("topic") + ".{table}"),
    )
    options, job = there.options, unique_name("job")
    with pytest.raises(TargetError, match=rf"cannot make topic anabranch\.{job}.* only 1 broker") as refused:
        _begin(replace(there, options=replace(options, replication=3)), job)
    assert "replication: at most as many replicas as there are brokers" in refused.value.hint
    _begin(there, job)
    long = replace(there, options=replace(options, transaction_timeout_s=3600))
    with pytest.raises(TargetError, match="larger than the maximum value") as refused:
        long.appender(RULES).claim(job, "owner")
    assert "lower [target.options] transaction_timeout_s" in refused.value.hint
    with closing(there.store()) as store:
        store.jobs.drop(job)


def test_no_broker_is_told_with_what_to_look_at() -> None:
    limits = EndLimits(connect=1.0, statement=1.0)
    away = KafkaTarget(Endpoint("kafka", "127.0.0.1", 1, "", "", "", (), limits))
    with closing(away.store()) as store, pytest.raises(TargetUnavailable) as refused:
        store.jobs.job("shop")
    assert "look at [target] url" in refused.value.hint and "advertised.listeners" in refused.value.hint
