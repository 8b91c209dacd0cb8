"""The two topics of a trail in a Kafka: make them, and refuse such as would lose what is in them.

What does not live here: what is in them (`kafka_index.py`, `kafka.py`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, OffsetSpec, ResourceType

from anabranch.brokers.codes import ABSENT, of
from anabranch.config.store_urls import StoreUrl
from anabranch.stores.failures import Failures

PAUSE_S = 0.02
ASKED_S = 5.0  # for what an error is about
AROUND = 4096  # bytes of a batch's head and a message's own lengths
FORGETS_MS = 2 * 3600 * 1000  # tombstones have to stay so long: who reads on knows of all within half of it
_SAFE_REPLICAS, _SAFE_IN_SYNC = 3, 2  # one broker may be away, and another one be lost
_SETTINGS = {
    "cleanup.policy": "compact",
    "compression.type": "producer",
    "message.timestamp.type": "LogAppendTime",  # what is old is so by the brokers' clock
    "delete.retention.ms": "86400000",
    "segment.ms": "3600000",  # only whole segments are compacted
}
_BYTES = {"names": str(16 << 20), "objects": str(128 << 20)}
_FIT = "delete it if nothing needs it, so that it is made as it has to be, or take another NAME"


@dataclass(frozen=True, slots=True)
class Topics:
    """The topics as they are. `piece`: bytes that a message may have; `batch`: that messages may have together."""

    piece: int
    batch: int


class TopicsOf:
    """Looks after the topics of one trail."""

    def __init__(self, url: StoreUrl, failures: Failures, patience: float) -> None:
        self.names, self.objects = f"{url.path}.names", f"{url.path}.objects"
        self._url, self._failures, self._patience = url, failures, patience
        self.lacking: list[str] = []  # topics that were not there at the last look
        self._replication = self._number("replication")
        self._in_sync = self._number("min_insync_replicas")

    def found(self, client: AdminClient) -> Topics | None:
        """Return the topics, None where one of them is not there. Raises ConfigError for such as would lose a trail."""
        limits = self._limits(client)
        self.lacking = [name for name in (self.names, self.objects) if name not in limits]
        if self.lacking:
            return None
        piece, names = limits[self.objects], limits[self.names]
        return Topics(piece, min(piece, names))

    def _limits(self, client: AdminClient) -> dict[str, int]:
        """Return the bytes that a message of each topic may have, but of one that is not there, or that one of the brokers does
        not know yet. Raises KafkaException; ConfigError for one that forgets."""
        wanted, limits = TopicCollection([self.names, self.objects]), dict[str, int]()
        for name, one in client.describe_topics(wanted, request_timeout=self._patience).items():
            try:
                told: Any = one.result()
                if len(told.partitions) != 1:
                    raise self._unfit(name, f"it has {len(told.partitions)} partitions, where the order of one decides")
                limits[name] = self._limit(client, name)
            except KafkaException as error:
                if of(error).code() not in ABSENT:
                    raise
        return limits

    def make(self, client: AdminClient) -> Topics:
        """Make what is not there. Raises ConfigError, KafkaException."""
        in_sync = self._in_sync or (_SAFE_IN_SYNC if (self._replication or 0) >= _SAFE_REPLICAS else None)
        more = {"min.insync.replicas": str(in_sync)} if in_sync else {}
        wanted = [
            NewTopic(
                name,
                num_partitions=1,
                replication_factor=self._replication or -1,
                config=_SETTINGS | more | {"segment.bytes": _BYTES[name.rpartition(".")[2]]},
            )
            for name in (self.names, self.objects)
        ]
        made = client.create_topics(wanted, operation_timeout=self._patience, request_timeout=self._patience + 1)
        for one in made.values():
            try:
                one.result()
            except KafkaException as error:
                if of(error).code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise
        found: list[Topics] = []
        if not _comes(lambda: self._are_led(client, found), self._patience):
            raise self._failures.away("its topics were made, and are not there yet")
        return found[0]

    def out_of_sync(self, client: AdminClient) -> str:
        """Return why the topics take no messages for now, "" where nothing is known that would be a reason."""
        with suppress(KafkaException):  # then the error that is asked about stands as it is
            asked = client.describe_topics(TopicCollection([self.names, self.objects]), request_timeout=ASKED_S)
            for name, one in asked.items():
                told: Any = one.result()
                wanted = int(self._settings(client, name, ASKED_S).get("min.insync.replicas", 1))
                for part in told.partitions:
                    there, needed = len(part.isr), min(wanted, len(part.replicas))
                    if part.leader is None or there < needed:
                        return f"topic {name} has {there} in-sync replicas of {needed}"
        return ""

    def _are_led(self, client: AdminClient, found: list[Topics]) -> bool:
        """Note the topics once both are there, and each has a broker that leads it and knows that."""
        there = self.found(client)
        if there is None:
            return False
        places = (TopicPartition(self.names, 0), TopicPartition(self.objects, 0))
        asked = client.list_offsets(dict.fromkeys(places, OffsetSpec.latest()), request_timeout=self._patience)
        try:
            is_led = all(one.result().offset >= 0 for one in asked.values())
        except KafkaException:
            return False
        found[:] = [there]
        return is_led

    def _limit(self, client: AdminClient, name: str) -> int:
        """Return the bytes that a message may have. Raises ConfigError for a topic that forgets."""
        settings = self._settings(client, name, self._patience)
        if (policy := settings["cleanup.policy"]) != "compact":
            raise self._unfit(name, f"it has cleanup.policy = {policy}, a trail is kept by compact alone")
        if name == self.names and (clock := settings["message.timestamp.type"]) != "LogAppendTime":
            raise self._unfit(
                name, f"it has message.timestamp.type = {clock}, what is old is told by LogAppendTime alone"
            )
        if int(settings["delete.retention.ms"]) < FORGETS_MS:
            raise self._unfit(
                name, f"it has delete.retention.ms = {settings['delete.retention.ms']}, at least {FORGETS_MS}"
            )
        if settings.get("unclean.leader.election.enable") == "true":
            raise self._unfit(name, "it has unclean.leader.election.enable = true, which loses what was confirmed")
        largest = int(settings["max.message.bytes"])
        if largest < 65536:
            raise self._unfit(name, f"it has max.message.bytes = {largest}, at least 65536")
        return largest - AROUND

    def _settings(self, client: AdminClient, name: str, limit: float) -> dict[str, str]:
        asked: Iterable[Any] = client.describe_configs(
            [ConfigResource(ResourceType.TOPIC, name)], request_timeout=limit
        ).values()
        return {key: str(one.value) for told in asked for key, one in told.result().items()}

    def _unfit(self, topic: str, why: str) -> Exception:
        return self._failures.wrong(f"topic {topic} cannot have a trail: {why}", _FIT)

    def _number(self, option: str) -> int | None:
        given = self._url.option(option)
        if given and not (given.isdecimal() and 0 < int(given) < 1000):
            raise self._failures.wrong(f"the option {option} is no number of brokers", f"{option}=3")
        return int(given) if given else None


def _comes(true: Callable[[], bool], seconds: float) -> bool:
    end = time.monotonic() + seconds
    while not (is_true := true()) and time.monotonic() < end:
        time.sleep(PAUSE_S)
    return is_true
