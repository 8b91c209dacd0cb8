"""Topics of a job at a Kafka: which are taken, which are refused, how they are made."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from anabranch.connectors.kafka.connection import reader
from anabranch.connectors.kafka.target import KafkaTarget
from anabranch.connectors.kafka.target import records as kafka_records
from anabranch.connectors.kafka.target import state_forms as forms
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
