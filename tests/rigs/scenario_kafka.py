"""Jobs to a Kafka, and a program that reads what they commit there."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, IsolationLevel, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from anabranch.testing.in_time import in_time
from anabranch.testing.servers import Server
from rigs.scenario import PATIENCE, Scenario
from rigs.scenario_postgresql import FromPostgres

KAFKA_URL = re.compile(r'\[target\]\nurl = "[^"]*"\n')


def to_kafka(made: Scenario, kafka: Server, text: str = "", options: str = "") -> None:
    """Write the job file of a scenario with this cluster as its target."""
    made.write_job(text)
    target = f'[target]\nurl = "kafka://{kafka.host}:{kafka.port}"\n'
    options = f"[target.options]\n{options}\n" if options else ""
    made.job_file.write_text(KAFKA_URL.sub(target + options, made.job_file.read_text()))


def with_whole_rows(made: Scenario, *tables: str) -> list[str]:
    is_postgresql = isinstance(made, FromPostgres)
    return [f"ALTER TABLE {table} REPLICA IDENTITY FULL" for table in tables] if is_postgresql else []


@dataclass(frozen=True)
class Read:
    """A message as a consumer gets it. `position`: of its source transaction, in the source's order."""

    topic: str
    partition: int
    offset: int
    key: Any
    value: Any
    headers: dict[str, str]

    @property
    def sequence(self) -> int:
        return int(self.headers["anabranch.position"].partition("@")[0])


@dataclass
class Reader:
    """A program that reads topics with `read_committed`, and remembers how far it has read."""

    kafka: Server
    topics: Sequence[str]
    isolation: str = "read_committed"
    seen: list[Read] = field(default_factory=list)
    _places: dict[tuple[str, int], int] = field(default_factory=dict)

    def look(self) -> list[Read]:
        """Read on to what is committed now. Returns what came."""
        address = {"bootstrap.servers": f"{self.kafka.host}:{self.kafka.port}"}
        administrator = AdminClient(address)
        parts = [
            TopicPartition(topic, number)
            for topic in self.topics
            for number in administrator.list_topics(topic).topics[topic].partitions
        ]
        ends = _ends(administrator, parts)
        consumer = Consumer(
            address
            | {
                "group.id": "reader",
                "isolation.level": self.isolation,
                "enable.partition.eof": True,
                "enable.auto.commit": False,
            }
        )
        consumer.assign(
            [
                TopicPartition(p.topic, p.partition, self._places.get((p.topic, p.partition), OFFSET_BEGINNING))
                for p in parts
            ]
        )
        open_ = {place for place, end in ends.items() if end > self._places.get(place, 0)}
        found, until = list[Read](), time.monotonic() + PATIENCE
        while open_:
            in_time(until, f"{open_} could not be read")
            message = consumer.poll(1.0)
            if message is None:
                continue
            place = (message.topic(), message.partition())
            if message.error() is None:
                found.append(_read(message))
                self._places[place] = message.offset() + 1
            elif message.error().code() == KafkaError._PARTITION_EOF and message.offset() >= ends[place]:
                self._places[place] = message.offset()
                open_.discard(place)
        consumer.close()
        self.seen += found
        return found

    def by_transaction(self) -> list[tuple[int, list[Read]]]:
        """What was seen, by source transaction, in the source's order."""
        found: dict[int, list[Read]] = {}
        for one in self.seen:
            found.setdefault(one.sequence, []).append(one)
        return sorted(found.items())


def _ends(administrator: AdminClient, parts: Sequence[TopicPartition]) -> dict[tuple[str, int], int]:
    """Where what is committed ends: where the log does, once nothing is between two states."""
    until = time.monotonic() + 10.0
    while True:
        committed, written = (
            {(p.topic, p.partition): told.result().offset for p, told in asked.items()}
            for asked in (
                administrator.list_offsets(dict.fromkeys(parts, OffsetSpec.latest()), isolation_level=isolation)
                for isolation in (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED)
            )
        )
        if committed == written or time.monotonic() > until:
            return committed


def _read(message: Any) -> Read:
    key, value = message.key(), message.value()
    return Read(
        message.topic(),
        message.partition(),
        message.offset(),
        None if key is None else json.loads(key),
        None if value is None else json.loads(value),
        {name: text.decode() for name, text in message.headers() or ()},
    )


def topics_of(kafka: Server) -> Iterator[str]:
    yield from AdminClient({"bootstrap.servers": f"{kafka.host}:{kafka.port}"}).list_topics().topics
