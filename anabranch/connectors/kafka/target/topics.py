"""Topics of a cluster: the one with a job's state, and those that it writes, which are made once and then known by their id and
number of partitions.

What does not live here: names (names.py), noting topics with the job's state (beginning.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AclOperation,
    AdminClient,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from anabranch.brokers import codes
from anabranch.brokers.settings import patience
from anabranch.connectors.kafka import errors
from anabranch.connectors.kafka.connection import administrator, end_of
from anabranch.connectors.kafka.errors import translated, translated_error
from anabranch.connectors.kafka.target.names import WantedTopic
from anabranch.connectors.kafka.target.options import KafkaTargetOptions
from anabranch.connectors.kafka.target.state_forms import NotedTopic
from anabranch.errors import NOT_ADMITTED, TargetError, TargetUnavailable
from anabranch.model.endpoint import Endpoint

PAUSE_S = 0.02
ASKED_S = 5.0  # for what an error is about: where no broker answers, nobody waits long for that
BATCH_BYTES = 1_000_000  # of messages that travel together: fewer than a topic usually takes
STATE_BYTES = 12 << 20  # that a record of a job's state may have: definitions are the largest
STATE_CONFIG = {
    "cleanup.policy": "compact",
    "compression.type": "producer",
    "max.message.bytes": str(STATE_BYTES + 4096),
    "segment.bytes": str(16 << 20),  # only whole segments are compacted: all of it is read where a process begins
    "segment.ms": "600000",
    "min.cleanable.dirty.ratio": "0.1",
    "delete.retention.ms": "86400000",  # longer than records.py goes on without reading from the beginning
}
ALL_KEPT = {"cleanup.policy": "delete"}  # whatever the cluster's is: messages of one key are about several things there
SAFE_REPLICAS, SAFE_IN_SYNC = 3, 2  # one broker may be away, and another one be lost
IN_SYNC, UNCLEAN = "min.insync.replicas", "unclean.leader.election.enable"
AROUND = 4096  # bytes of a batch's head and a message's own lengths, beside key, value and headers


@dataclass(frozen=True, slots=True)
class FoundTopic:
    """A topic as it is. `largest`: the bytes that a message may have there, None where the user may not ask."""

    name: str
    id: str
    partitions: int
    largest: int | None = None
    replicas: int = 0
    settings: Mapping[str, str] = field(default_factory=dict)  # empty where the user may not ask


def make_state_topic(endpoint: Endpoint, options: KafkaTargetOptions, topic: str) -> None:
    """Make the topic of a job's state; one that is there is taken if it keeps what is written to it. Raises TargetError."""
    there = found_topics(endpoint, [topic])
    if not there:
        _create(endpoint, [_new(topic, 1, options, STATE_CONFIG | _in_sync(options))])
        there = found_topics(endpoint, [topic])
    for why in unfit_state(there.values()):
        raise TargetError(why, hint=STATE_HINT)


def unfit_state(topics: Iterable[FoundTopic]) -> Iterator[str]:
    """Yield why topics cannot have a job's state: what a broker removes by age or size is lost to the job."""
    for topic in topics:
        policy = topic.settings.get("cleanup.policy", "compact")
        if policy != "compact":
            yield f"topic {topic.name} has cleanup.policy = {policy}, a job's state is kept by compact alone"
        if topic.partitions != 1:
            yield f"topic {topic.name} has {topic.partitions} partitions, a job's state has one"


STATE_HINT = "nobody else makes topics named anabranch.*: delete it if nothing needs it, and the job makes its own"


def make_topics(endpoint: Endpoint, options: KafkaTargetOptions, wanted: Iterable[WantedTopic]) -> None:
    """Make topics of messages; those that are there stay as they are. Raises TargetError."""
    config = {"max.message.bytes": str(max(options.largest_message, BATCH_BYTES) + AROUND)} | _in_sync(options)
    _create(
        endpoint,
        [_new(one.name, one.partitions, options, config | (ALL_KEPT if one.table is None else {})) for one in wanted],
    )


def why_unsafe(topic: FoundTopic) -> str:
    """Return what lets a topic lose what it has confirmed where a broker is lost, "" if nothing does."""
    found = [f"replication {topic.replicas}"] if topic.replicas < SAFE_REPLICAS else []
    in_sync = int(topic.settings.get(IN_SYNC, SAFE_IN_SYNC))
    found += [f"{IN_SYNC} = {in_sync}"] if in_sync < SAFE_IN_SYNC else []
    return ", ".join(found + ([f"{UNCLEAN} = true"] if topic.settings.get(UNCLEAN) == "true" else []))


def add_partitions(endpoint: Endpoint, topics: Mapping[str, int]) -> None:
    """Give topics as many partitions."""
    made = [NewPartitions(topic, count) for topic, count in topics.items()]
    client = administrator(endpoint)
    with translated("add partitions"):
        for one in client.create_partitions(made, request_timeout=patience(endpoint)).values():
            one.result()


def remove_topic(endpoint: Endpoint, topic: str) -> None:
    """Remove a topic, and wait until nobody is told of it any more."""
    client = administrator(endpoint)
    with translated(f"remove topic {topic}"):
        try:
            client.delete_topics([topic], operation_timeout=patience(endpoint))[topic].result()
        except KafkaException as error:
            if codes.of(error).code() not in codes.ABSENT:
                raise
    _comes(lambda: not found_topics(endpoint, [topic]), patience(endpoint))


def found_topics(endpoint: Endpoint, names: Iterable[str]) -> dict[str, FoundTopic]:
    """Return those of the topics that are there."""
    wanted, found = list(names), dict[str, FoundTopic]()
    if not wanted:
        return found
    client, limit = administrator(endpoint), patience(endpoint)
    with translated("look for topics"):
        for name, one in client.describe_topics(TopicCollection(wanted), request_timeout=limit).items():
            try:
                told: Any = one.result()
            except KafkaException as error:
                if codes.of(error).code() not in codes.ABSENT:
                    raise
                continue
            replicas = min((len(one.replicas) for one in told.partitions), default=0)
            found[name] = FoundTopic(name, str(told.topic_id), len(told.partitions), replicas=replicas)
    return {name: _measured(client, topic, limit) for name, topic in found.items()}


def _measured(client: AdminClient, topic: FoundTopic, limit: float) -> FoundTopic:
    resource = ConfigResource(ResourceType.TOPIC, topic.name)
    try:
        (told,) = client.describe_configs([resource], request_timeout=limit).values()
        settings = {name: str(one.value) for name, one in told.result().items()}
        return replace(topic, largest=int(settings["max.message.bytes"]), settings=settings)
    except KafkaException as error:
        if codes.of(error).code() not in errors.RIGHTS:
            raise
        return topic  # a message that is too large is then refused by the broker


def with_messages(endpoint: Endpoint, topics: Iterable[FoundTopic]) -> list[str]:
    """Return the names of topics that have, or have had, messages."""
    return sorted({name for (name, _), end in ends_of(endpoint, topics).items() if end > 0})


def ends_of(endpoint: Endpoint, topics: Iterable[FoundTopic]) -> dict[tuple[str, int], int]:
    """Return the offset at which each partition of topics ends."""
    places = [TopicPartition(one.name, number) for one in topics for number in range(one.partitions)]
    if not places:
        return {}
    client, limit = administrator(endpoint), patience(endpoint)
    with translated("look where topics end"):
        asked = client.list_offsets(dict.fromkeys(places, OffsetSpec.latest()), request_timeout=limit)
        return {
            (place.topic, place.partition): end_of(told.result(), place.topic, place.partition)
            for place, told in asked.items()
        }


def not_writable(endpoint: Endpoint, names: Iterable[str]) -> list[str]:
    """Return those of the topics that the job's user may not write to, as far as the cluster says so."""
    client = administrator(endpoint)  # which has to be there until the answers are
    asked = client.describe_topics(
        TopicCollection(list(names)),
        include_authorized_operations=True,
        request_timeout=min(ASKED_S, patience(endpoint)),
    )
    found = []
    for name, one in asked.items():
        try:
            operations = one.result().authorized_operations
        except KafkaException as error:
            operations = [] if codes.of(error).code() in errors.RIGHTS else None
        if operations is not None and AclOperation.WRITE not in operations:
            found.append(name)
    return sorted(found)


def out_of_sync(endpoint: Endpoint, names: Iterable[str]) -> list[str]:
    """Return why partitions of these topics take no messages for now: what the cluster does not say is no reason."""
    client, limit, found = administrator(endpoint), min(ASKED_S, patience(endpoint)), list[str]()
    for name, one in client.describe_topics(TopicCollection(list(names)), request_timeout=limit).items():
        with suppress(KafkaException):  # of a topic that the cluster does not describe: no reason then
            told: Any = one.result()
            settings = _measured(client, FoundTopic(name, str(told.topic_id), len(told.partitions)), limit).settings
            wanted = int(settings.get(IN_SYNC, 1))
            for part in told.partitions:
                there, needed = len(part.isr), min(wanted, len(part.replicas))
                if part.leader is None or there < needed:
                    found.append(f"partition {part.id} of topic {name} has {there} in-sync replicas of {needed}")
    return found


def refuse_changed(noted: Mapping[str, NotedTopic], found: Mapping[str, FoundTopic]) -> None:
    """Raise TargetError for a topic that is gone, that somebody has made again, or that has fewer partitions: what readers were
    promised is not there any more."""
    for _, why in changed(noted, found):
        raise TargetError(why, hint=ANEW)


def changed(noted: Mapping[str, NotedTopic], found: Mapping[str, FoundTopic]) -> Iterator[tuple[str, str]]:
    """Yield the topics that are not what they were, each with why."""
    for name, topic in noted.items():
        there = found.get(name)
        if there is None:
            yield name, f"topic {name} is gone, and with it what it had"
        elif there.id != topic.id:
            yield name, f"topic {name} was removed and made again: it lacks what it had"
        elif there.partitions < topic.partitions:
            yield name, f"topic {name} has {there.partitions} partitions, the job writes to {topic.partitions}"


ANEW = "begin again: anabranch drop JOB --execute, then run the job"


def _in_sync(options: KafkaTargetOptions) -> dict[str, str]:
    return {IN_SYNC: str(SAFE_IN_SYNC)} if (options.replication or 0) >= SAFE_REPLICAS else {}


def _new(topic: str, partitions: int, options: KafkaTargetOptions, config: dict[str, str]) -> NewTopic:
    replication = -1 if options.replication is None else options.replication
    return NewTopic(topic, num_partitions=partitions, replication_factor=replication, config=config)


def _create(endpoint: Endpoint, topics: list[NewTopic]) -> None:
    if not topics:
        return
    client = administrator(endpoint)
    limit = patience(endpoint)
    for name, one in client.create_topics(topics, operation_timeout=limit, request_timeout=limit + 1).items():
        try:
            one.result()
        except KafkaException as error:
            if codes.of(error).code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise translated_error(codes.of(error), f"make topic {name}") from error
    names = {topic.topic for topic in topics}
    if not _comes(lambda: _are_led(endpoint, names), limit):
        raise TargetUnavailable(f"topics were made, and are not there yet: {', '.join(sorted(names))}")


def _are_led(endpoint: Endpoint, names: Iterable[str]) -> bool:
    """Return whether all topics are there, and each of their partitions has a broker that leads it and knows that: one that was
    just made has none for a moment."""
    found = found_topics(endpoint, names)
    if found.keys() != set(names):
        return False
    try:
        ends_of(endpoint, found.values())
    except (TargetError, TargetUnavailable) as error:
        if error.code == NOT_ADMITTED:
            raise
        return False
    return True


def _comes(true: Callable[[], bool], seconds: float) -> bool:
    """Wait until brokers tell of a change that the controller has made. Returns whether they do."""
    end = time.monotonic() + seconds
    while not (is_true := true()) and time.monotonic() < end:
        time.sleep(PAUSE_S)
    return is_true
