"""Jobs to a Kafka, and a program that reads what they commit there."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec

from anabranch.brokers.entering import knowing
from anabranch.model.endpoint import Endpoint
from anabranch.testing.in_time import in_time, until
from anabranch.testing.servers import Server
from rigs.scenario import PATIENCE, Scenario
from rigs.scenario_postgresql import FromPostgres

OPEN = 30.0  # seconds, from which on a transaction is taken for one that somebody has left open
COMPLETE_ABORT = 5  # a state of a transaction: https://github.com/apache/kafka, TransactionState.java
Place = tuple[str, int]  # topic and partition
AT_ONCE = {"fetch.wait.max.ms": 10}  # a partition that has no more is told to be at its end
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


def committed(endpoint: Endpoint, topic: str) -> list[tuple[bytes | None, bytes | None]]:
    """Key and value of what is committed in the one partition."""
    place = TopicPartition(topic, 0, 0)  # for OFFSET_BEGINNING a new client waits for half a second
    told = {"bootstrap.servers": endpoint.place, "group.id": "reader", "enable.partition.eof": True} | AT_ONCE
    consumer = Consumer(told | {"isolation.level": "read_committed"})
    consumer.assign([place])
    found, late = [], time.monotonic() + PATIENCE
    while (one := consumer.poll(1.0)) is None or one.error() is None:
        in_time(late, f"the end of {topic} does not come")
        if one is not None:
            found.append((one.key(), one.value()))
    assert one.error().code() == KafkaError._PARTITION_EOF, one.error()
    consumer.close()
    return found


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
    _places: dict[Place, int] = field(default_factory=dict)

    def look(self) -> list[Read]:
        """Read on to what is committed now. Returns what came."""
        administrator = administrator_of(self.kafka)
        parts = [TopicPartition(topic, number) for topic in self.topics for number in _parts(administrator, topic)]
        ends = _ends(administrator, parts, self.isolation)
        behind = {place: end for place, end in ends.items() if end > self._places.get(place, 0)}
        every = [_read(one) for one in _messages(self.kafka, self._places, behind, self.isolation)]
        found = [
            one for one in every if one.key != [] or one.value is not None
        ]  # the others carry a marker, and say nothing
        self._places |= behind
        self.seen += found
        return found

    def by_transaction(self) -> list[tuple[int, list[Read]]]:
        """What was seen, by source transaction, in the source's order."""
        found: dict[int, list[Read]] = {}
        for one in self.seen:
            found.setdefault(one.sequence, []).append(one)
        return sorted(found.items())


def _parts(administrator: AdminClient, topic: str) -> list[int]:
    """Return the partitions of a topic, once the broker knows them: it learns of a topic behind who has made it."""
    return until(lambda: list(administrator.list_topics(topic).topics[topic].partitions), f"there is no topic {topic}")


def _ends(administrator: AdminClient, parts: Sequence[TopicPartition], isolation: str) -> dict[Place, int]:
    """Return the offset at which each partition ends, or up to which it is committed, once nothing is between two states."""
    begun = time.monotonic()
    while True:
        committed, written = _both_ends(administrator, parts, begun + PATIENCE)
        if isolation == "read_uncommitted":
            return written
        if committed == written or time.monotonic() > begun + OPEN:
            return committed


def _both_ends(
    administrator: AdminClient, parts: Sequence[TopicPartition], late: float
) -> tuple[dict[Place, int], dict[Place, int]]:
    """Return up to which offset each partition is committed now, and at which it ends."""
    while True:
        try:
            committed, written = (
                {(p.topic, p.partition): told.result().offset for p, told in asked.items()}
                for asked in (
                    administrator.list_offsets(dict.fromkeys(parts, OffsetSpec.latest()), isolation_level=level)
                    for level in (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED)
                )
            )
            return committed, written
        except KafkaException as error:  # a broker that has just started does not know yet that it leads
            in_time(late, f"the ends of {parts} could not be asked for: {error}")


def is_open(kafka: Server, read: Read) -> bool:
    """Whether the transaction of a message is open in its partition: it is there, and nobody has committed or aborted it."""
    administrator, place = administrator_of(kafka), TopicPartition(read.topic, read.partition)

    def ends() -> tuple[int, int]:
        committed, written = _both_ends(administrator, [place], time.monotonic() + PATIENCE)
        return committed[read.topic, read.partition], written[read.topic, read.partition]

    until(lambda: ends()[1] > read.offset, "the broker that has started has the partition whole")
    return ends()[0] <= read.offset


def _messages(kafka: Server, places: Mapping[Place, int], ends: Mapping[Place, int], isolation: str) -> list[Message]:
    """Messages of these partitions, from `places`, or the beginning, to `ends`."""
    settings = {"group.id": "reader", "enable.partition.eof": True, "enable.auto.commit": False} | AT_ONCE
    settings |= {"auto.offset.reset": "earliest"}  # where a partition begins behind 0
    address = {"bootstrap.servers": f"{kafka.host}:{kafka.port}", "isolation.level": isolation}
    consumer = Consumer(address | settings)
    consumer.assign([TopicPartition(*place, places.get(place, 0)) for place in ends])
    left, found, late = set(ends), list[Message](), time.monotonic() + PATIENCE
    while left:
        in_time(late, f"{left} could not be read")
        message = consumer.poll(1.0)
        if message is None:
            continue
        place = (message.topic(), message.partition())
        if message.error() is None and message.offset() >= ends[place]:  # committed since the ends were asked for
            left.discard(place)
        elif message.error() is None:
            found.append(message)
        elif message.error().code() == KafkaError._PARTITION_EOF and message.offset() >= ends[place]:
            left.discard(place)
    consumer.close()
    return found


def has_given_up(kafka: Server, transactional_id: str) -> bool:
    """Whether the coordinator has aborted the newest transaction of this id: its log, which has one partition here, has a
    record for each state (`TransactionLogValue.json` of Kafka says which byte that is)."""
    parts = [TopicPartition("__transaction_state", 0)]
    administrator = administrator_of(kafka)
    written = _messages(kafka, {}, _ends(administrator, parts, "read_uncommitted"), "read_uncommitted")
    states = [one.value()[16] for one in written if one.key()[4:].decode() == transactional_id and one.value()]
    return states[-1] == COMPLETE_ABORT


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


def administrator_of(kafka: Server) -> AdminClient:
    return knowing(AdminClient({"bootstrap.servers": f"{kafka.host}:{kafka.port}"}))


def topics_of(kafka: Server) -> Iterator[str]:
    yield from administrator_of(kafka).list_topics().topics
