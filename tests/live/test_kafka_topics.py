"""Topics of a job at a Kafka: which are taken, which are refused, how they are made."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from anabranch.brokers import entering
from anabranch.connectors.kafka import connection
from anabranch.connectors.kafka.connection import reader
from anabranch.connectors.kafka.target import KafkaTarget
from anabranch.connectors.kafka.target import elsewhere as kafka_elsewhere
from anabranch.connectors.kafka.target import records as kafka_records
from anabranch.connectors.kafka.target import state_forms as forms
from anabranch.connectors.kafka.target.changing import Changing
from anabranch.connectors.kafka.target.elsewhere import noted_elsewhere
from anabranch.connectors.kafka.target.forgotten import ends_at
from anabranch.connectors.kafka.target.options import KafkaTargetOptions
from anabranch.connectors.kafka.target.records import Records, topic_of
from anabranch.errors import StateError, TargetError
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.endpoint import EndLimits, Endpoint
from anabranch.model.schema import Column, TableSchema
from anabranch.testing.conformance.appender import RULES, table
from anabranch.testing.databases import unique_name
from anabranch.testing.in_time import until
from anabranch.testing.servers import Server

TABLE = table("a")
SCHEMA = TableSchema(TABLE.source, (Column("id", LogicalType(Kind.INT64), "bigint"),))


class Jobs:
    """Jobs at a cluster that write to one topic."""

    def __init__(self, kafka: Server) -> None:
        self.endpoint = Endpoint("kafka", kafka.host, kafka.port, "", "")
        self.administrator = AdminClient({"bootstrap.servers": f"{kafka.host}:{kafka.port}"})
        self.topic, self._begun = unique_name("topic"), set[str]()

    def begin(self, job: str, **options: object) -> None:
        target = KafkaTarget(self.endpoint, KafkaTargetOptions(topic=self.topic, **options))  # type: ignore[arg-type]  # fields by name
        self._begun.add(job)
        with closing(target.store()) as store:
            store.jobs.save_job(job, {"uuid": job})
        with closing(target.change_tables(RULES)) as topics:
            topics.begin(job, job, [(SCHEMA, TABLE)], 0, 0)

    def noted(self, job: str) -> dict[str, int]:
        with closing(Records(self.endpoint, job)) as records:
            records.refresh()
            return {name: one.partitions for name, one in forms.topics_of(records.there).items()}

    def drop(self, job: str) -> None:
        with closing(KafkaTarget(self.endpoint).store()) as store:
            store.jobs.drop(job)
        self._begun.discard(job)

    def make(self, partitions: int, name: str = "", **config: str) -> None:
        topic = name or self.topic
        self.administrator.create_topics([NewTopic(topic, partitions, 1, config=config)])[topic].result()
        until(lambda: topic in self.administrator.list_topics().topics, f"{topic} is there")

    def config(self, topic: str) -> dict[str, str]:
        (told,) = self.administrator.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]).values()
        return {name: one.value for name, one in told.result().items()}

    def close(self) -> None:
        for job in list(self._begun):
            self.drop(job)


@pytest.fixture
def jobs(kafka: Server) -> Iterator[Jobs]:
    with closing(Jobs(kafka)) as made:
        yield made


def test_a_topic_that_is_there_is_written_in_as_many_partitions_as_the_job_file_says(jobs: Jobs) -> None:
    job = unique_name("job")
    jobs.make(5)
    with pytest.raises(TargetError, match=r"has 5 partitions, the job file says 6"):
        jobs.begin(job, topics="existing", partitions=6)
    assert jobs.noted(job) == {}
    jobs.begin(job, topics="existing", partitions=3)
    assert jobs.noted(job) == {jobs.topic: 3}, "where an earlier beginning put its keys"


def test_a_topic_has_one_job(jobs: Jobs) -> None:
    first, second = unique_name("job"), unique_name("job")
    jobs.begin(first)
    jobs.begin(first)  # again, after a death
    for topics in ("create", "existing"):
        with pytest.raises(StateError, match=f"job {first} writes to topic {jobs.topic}"):
            jobs.begin(second, topics=topics)
    assert jobs.noted(second) == {}
    jobs.drop(first)
    jobs.begin(second, topics="existing")
    assert jobs.noted(second) == {jobs.topic: 1}


def test_states_of_all_other_jobs_are_read_by_one_client(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    readers, make = list[object](), connection._made

    def counted(kind: Any, *more: Any) -> Any:
        readers.extend([kind] if kind is Consumer else [])
        return make(kind, *more)

    monkeypatch.setattr(connection, "_made", counted)
    names, job, counts = [unique_name("topic") for _ in range(3)], unique_name("job"), []
    for name in names:
        jobs.topic = name
        jobs.begin(f"job-of-{name}")
        readers.clear()
        jobs.topic = f"{job}.own"
        jobs.begin(job)
        counts.append(len(readers))
    assert counts[1] == counts[2], counts
    jobs.make(1, topic_of(stranger := unique_name("stranger")))
    producer = Producer({"bootstrap.servers": jobs.endpoint.place})
    for key in (json.dumps(["topic", names[0]]), "no JSON", json.dumps(["topic", names[1]])):
        producer.produce(topic_of(stranger), "{}", key)
    producer.flush()
    jobs.drop(f"job-of-{names[1]}")
    jobs.topic = names[2]
    with pytest.raises(StateError, match=f"job job-of-{names[2]} writes to topic {names[2]}"):
        jobs.begin(job, topics="existing")
    jobs.topic = names[1]
    jobs.begin(job, topics="existing")
    found = noted_elsewhere(jobs.endpoint, job, [*names, "nobody's"])
    assert found == {name: f"job-of-{name}" for name in (names[0], names[2])}
    jobs.administrator.delete_topics([topic_of(stranger)])[topic_of(stranger)].result()


def test_a_state_that_is_removed_while_states_are_read_is_left_out(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    other, gone = unique_name("job"), unique_name("job")
    jobs.begin(other)
    first, jobs.topic = jobs.topic, unique_name("topic")
    jobs.begin(gone)

    def removed_first(*asked: Any) -> object:
        jobs.drop(gone)
        until(lambda: topic_of(gone) not in jobs.administrator.list_topics().topics, "its topic is gone")
        return reader(*asked)

    monkeypatch.setattr(kafka_elsewhere, "reader", removed_first)
    assert noted_elsewhere(jobs.endpoint, unique_name("job"), [first, jobs.topic]) == {first: other}


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], list[str]]:
    """`told("eos")` returns what clients write of such a matter from then on."""

    def told(about: str) -> list[str]:
        lines: list[str] = []
        log, settings = logging.Logger("of a client", logging.DEBUG), connection.settings
        log.addFilter(lambda record: lines.append(record.getMessage()) is not None)
        monkeypatch.setattr(connection, "SILENT", log)
        for module in (connection, entering):  # a broker that is slow is waited for
            monkeypatch.setattr(module, "MEETS_S", 30.0)
        more = {"debug": about, "log_level": 7}
        monkeypatch.setattr(connection, "settings", lambda endpoint: settings(endpoint) | more)
        return lines

    return told


def test_a_producer_begins_once_it_has_a_line_to_a_broker(jobs: Jobs, told: Callable[[str], list[str]]) -> None:
    """`init_transactions` without one looks again half a second later."""
    job, lines = unique_name("job"), told("eos")
    jobs.begin(job)
    for _ in range(10):
        with closing(Changing(jobs.endpoint, job)) as changing:
            changing.begin().poll(0)
    assert sum("Querying for transaction coordinator" in one for one in lines) >= 10
    assert not [one for one in lines if "Unable to query for transaction coordinator" in one]


def test_a_producer_without_transactions_knows_its_topic(jobs: Jobs, told: Callable[[str], list[str]]) -> None:
    """The first message waited for half a second until it did."""
    jobs.make(2)
    lines = told("metadata")
    connection.plain(jobs.endpoint, jobs.topic).poll(0)
    assert [one for one in lines if f"Topic {jobs.topic} with 2 partitions" in one], lines


def test_an_administrator_asks_once_it_knows_the_brokers(jobs: Jobs, told: Callable[[str], list[str]]) -> None:
    """A look for leaders that is lost with the line to the address that was given is sent again three seconds later."""
    jobs.make(1)
    times, lines = list[int](), told("metadata")
    for _ in range(50):
        lines.clear()
        client = connection.administrator(jobs.endpoint)
        assert ends_at(client, [(jobs.topic, 0)], True, 30.0) == {(jobs.topic, 0): 0}
        client.poll(0)
        times.append(sum("query partition leaders" in one and "Requesting metadata" in one for one in lines))
    assert max(times) == 1, times


def test_a_state_topic_keeps_what_is_written_to_it(jobs: Jobs) -> None:
    job, removing, wide = unique_name("job"), unique_name("job"), unique_name("job")
    jobs.make(1, topic_of(removing), **{"cleanup.policy": "delete"})
    jobs.make(2, topic_of(wide), **{"cleanup.policy": "compact"})
    with pytest.raises(TargetError, match=r"cleanup.policy = delete"):
        jobs.begin(removing)
    with pytest.raises(TargetError, match="has 2 partitions"):
        jobs.begin(wide)
    jobs.begin(job)
    config = jobs.config(topic_of(job))
    assert (config["cleanup.policy"], config["segment.ms"]) == ("compact", "600000")
    with closing(KafkaTarget(jobs.endpoint).store()) as store:
        store.jobs.save_job(job, {"uuid": job, "definition": "x" * 3_000_000})  # more than a message usually has
        assert len((store.jobs.job(job) or {})["definition"]) == 3_000_000


def test_records_that_were_not_read_for_long_are_read_from_the_beginning(
    jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = unique_name("job")
    jobs.begin(job)
    with closing(Records(jobs.endpoint, job)) as records:
        records.refresh()
        assert records._consumer is not None and records._consumer.assignment() == [], "at rest nobody asks for more"
        records.there["skipped", 7] = {}  # as if its removal were compacted away
        records.refresh()
        assert ("skipped", 7) in records.there
        monkeypatch.setattr(kafka_records, "READ_ANEW_S", -1.0)
        records.refresh()
        assert ("skipped", 7) not in records.there and ("job",) in records.there


def test_a_state_that_is_removed_while_it_is_read_is_not_waited_for(
    jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = unique_name("job")
    jobs.begin(job)

    def removed_first(*asked: object) -> object:
        monkeypatch.undo()
        jobs.drop(job)
        until(lambda: topic_of(job) not in jobs.administrator.list_topics().topics, "its topic is gone")
        return reader(*asked)  # type: ignore[arg-type]  # what it was asked with

    monkeypatch.setattr(kafka_records, "reader", removed_first)
    endpoint = replace(jobs.endpoint, limits=EndLimits(statement=600.0))
    with closing(Records(endpoint, job)) as records:
        records.refresh()
        assert not records.is_there and not records.there
