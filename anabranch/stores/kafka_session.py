"""Read and write two topics of a Kafka: records up to where a topic ends, messages at known places, writes that are confirmed.

A write is confirmed when all replicas in sync have it (`acks=all`), and can be read from then on. What does not live here: what
the records mean (`kafka_index.py`), topics (`kafka_topics.py`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from anabranch.brokers.codes import ABSENT, AWAY, REPLICAS, of
from anabranch.brokers.entering import enter, knowing
from anabranch.brokers.settings import SILENT, settings
from anabranch.config.store_urls import StoreUrl
from anabranch.errors import AnabranchError
from anabranch.model.endpoint import EndLimits, Endpoint
from anabranch.stores.failures import Failures
from anabranch.stores.kafka_errors import IN_SYNC, told, translated
from anabranch.stores.kafka_topics import Topics, TopicsOf

ANSWER_S = 20.0  # for one answer, and for a message to be confirmed
PIECE = 900_000  # bytes of a message, where the topic takes as many
AHEAD = 16  # messages that are read over rather than asking anew
ROUND_S = 0.1
RESTORE = "restore the topics from a backup, or begin anew under another NAME"
TRY_S = 3.0  # of these, for one try to find out where a topic ends
UNKNOWN_S = 2.0  # that one broker may not know of a topic that another one has told of
SURE_S = 0.5  # between two questions whether topics are there
_SOON = {"reconnect.backoff.max.ms": 1000}  # a broker that is back is asked again soon
PASSING = (  # while another broker becomes the leader, or may not say yet what can be read
    KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.NETWORK_EXCEPTION,
)
_READING = {
    "group.id": "anabranch",  # which the client asks for; nothing is committed under it, and nobody joins it
    "isolation.level": "read_uncommitted",  # there are no transactions; what is confirmed is there
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "check.crcs": True,
}
Made = TypeVar("Made")


@dataclass(frozen=True, slots=True)
class Message:
    """A message to be written; `value` None removes what its key has."""

    topic: str
    key: bytes
    value: bytes | None


class Gone(Exception):
    """A message does not stand any more where it stood."""


class KafkaSession:
    """The way to a cluster, for one trail. Clients are made when they are needed."""

    def __init__(self, url: StoreUrl, failures: Failures) -> None:
        limits = EndLimits(statement=ANSWER_S)
        self._endpoint = Endpoint(
            "kafka", url.host, url.port, url.user, url.password, options=url.options, limits=limits
        )
        self._failures = failures
        self.topics = TopicsOf(url, failures, ANSWER_S)
        self._told = settings(self._endpoint) | _SOON
        self._admin: AdminClient | None = None
        self._producer: Producer | None = None
        self._names: Consumer | None = None
        self._objects: Consumer | None = None
        self._next = -1  # offset of the message of objects that comes next
        self._found: Topics | None = None
        self._is_missed = False  # the topics, by two answers in a row

    # --- topics -------------------------------------------------------------------------------------------------------

    def find(self) -> bool:
        """Return whether the topics are there. That they are not is asked twice: a broker that has just started may not know
        them yet, and they would be taken for a trail that is gone."""
        with self.asking():
            if self._found is None:
                self._found = self.topics.found(self._administrator())
            if self._found is None and not self._is_missed:
                time.sleep(SURE_S)
                self._found = self.topics.found(self._administrator())
        self._is_missed = self._found is None
        if self._found is None and len(self.topics.lacking) == 1:
            raise self._failures.away(f"topic {self.topics.lacking[0]} is not there, the trail's other one is", RESTORE)
        return self._found is not None

    def make(self) -> None:
        """Make the topics unless they are there."""
        if not self.find():
            with self.asking():
                self._found = self.topics.make(self._administrator())

    @property
    def piece(self) -> int:
        """Return the bytes that a piece may have. The topics are there."""
        assert self._found is not None, "the topics were found"
        return min(PIECE, self._found.piece)

    # --- names --------------------------------------------------------------------------------------------------------

    def end(self, topic: str) -> int:
        """Return where a topic ends, by its leader: all that was confirmed before stands before it. A broker that was killed
        and is back is found by another client, whose view of the cluster is not that of before."""
        began = time.monotonic()
        with self.asking():
            while True:
                try:
                    return self._told_end(TopicPartition(topic, 0), min(TRY_S, ANSWER_S))
                except KafkaException as error:
                    self._refuse(of(error), time.monotonic() - began)
                self._admin = None
                time.sleep(ROUND_S)

    def _refuse(self, error: Any, waited: float) -> None:
        """Raise our error where another try says nothing else. Where a broker was killed the client takes topics for absent
        that are there; a topic that is gone is so by another question, too."""
        is_absent = error.code() in (*ABSENT, KafkaError._NOENT)
        if is_absent and waited > UNKNOWN_S and not self._is_there():
            raise told(self._failures, error)
        if not is_absent and error.code() not in (*AWAY, *PASSING):
            raise told(self._failures, error)
        if waited > ANSWER_S:
            raise self._why(KafkaError(KafkaError._TIMED_OUT) if is_absent else error)

    def _told_end(self, place: TopicPartition, limit: float) -> int:
        asked = self._administrator().list_offsets(
            {place: OffsetSpec.latest()}, isolation_level=IsolationLevel.READ_UNCOMMITTED, request_timeout=limit
        )
        found: Any = asked[place].result(limit + 1)
        if found.offset < 0:  # the line ended meanwhile
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))
        return int(found.offset)

    def records(self, begin: int, end: int, *, anew: bool) -> Iterator[tuple[int, Any]]:
        """Yield the records of names from `begin` up to `end`, each with the offset behind it; a message of None says that
        there is none up to that offset. `anew`: go there first, else it goes on where it was."""
        if self._names is None:
            self._names, anew = self._made(Consumer, _READING | {"auto.offset.reset": "earliest"}), True
        at, until = begin, time.monotonic() + ANSWER_S
        with self.asking():
            if anew:
                self._names.assign([TopicPartition(self.topics.names, 0, begin)])
            while at < end:
                message = self._polled(self._names, until)
                if message is None:
                    continue
                until = time.monotonic() + ANSWER_S
                is_end = message.error() is not None
                at = max(at, message.offset() + (not is_end))
                yield at, None if is_end else message

    # --- objects ------------------------------------------------------------------------------------------------------

    def messages(self, places: Sequence[int]) -> list[Any]:
        """Return the messages of objects at these offsets, in their order. Raises Gone."""
        wanted, found = iter(places), list[Any]()
        at = next(wanted, None)
        if at is None:
            return found
        if self._objects is None:
            more = {"auto.offset.reset": "error", "fetch.wait.max.ms": 20, "queued.max.messages.kbytes": 16384}
            self._objects, self._next = self._made(Consumer, _READING | more), -1
        until = time.monotonic() + ANSWER_S
        with self.asking():
            if self._next < 0 or not 0 <= at - self._next <= AHEAD:
                self._objects.assign([TopicPartition(self.topics.objects, 0, at)])
            self._next = -1  # until all is read
            while at is not None:
                message = self._polled(self._objects, until)
                if message is None:
                    continue
                until = time.monotonic() + ANSWER_S
                if message.error() is not None:  # an end of before, or it is shorter than it was
                    if message.offset() <= at and self.end(self.topics.objects) <= at:
                        raise Gone
                    continue
                if message.offset() > at:
                    raise Gone
                if message.offset() == at:
                    found.append(message)
                    at, self._next = next(wanted, None), message.offset() + 1
            self._rest(self._objects)
        return found

    def _rest(self, objects: Consumer) -> None:
        """Let go of a place behind which nothing is known to stand: a consumer that is at an end would ask again and again."""
        _, end = objects.get_watermark_offsets(TopicPartition(self.topics.objects, 0), cached=True)
        if end <= self._next:
            objects.unassign()
            self._next = -1

    def _polled(self, consumer: Consumer, until: float) -> Any:
        """Return a message, the end of the topic, or None for nothing yet. Raises KafkaException where nothing comes in
        time."""
        message = consumer.poll(ROUND_S)
        if message is not None and (error := message.error()) is not None:
            if error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
                raise Gone
            is_passing = error.code() in AWAY or (error.code() in ABSENT and self._is_there())
            if error.code() != KafkaError._PARTITION_EOF and not is_passing:
                raise KafkaException(error)
            if is_passing:
                message = None
        if message is None and time.monotonic() > until:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        return message

    def _is_there(self) -> bool:
        """Return whether the topics are there, of which a client says that they are absent."""
        return self.topics.found(self._administrator()) is not None

    # --- writing ------------------------------------------------------------------------------------------------------

    def write(self, *messages: Message) -> list[int]:
        """Write messages, and return their offsets once all are confirmed. Where that fails, some of them may be there, or come
        there yet: of each topic none without those before it."""
        failed, offsets = list[Any](), dict[int, int]()
        with self.asking():
            producer = self._producing()
            try:
                for number, one in enumerate(messages):
                    heard = partial(_heard, number, offsets, failed)
                    _produce(producer, (one.topic, one.value, one.key, 0), heard)
                producer.flush(ANSWER_S + 1)
                if failed or len(offsets) < len(messages):
                    raise KafkaException(failed[0] if failed else KafkaError(KafkaError._MSG_TIMED_OUT))
            except KafkaException as error:
                raise self._why(of(error)) from None
            finally:
                if len(offsets) < len(messages):  # nothing of it is tried again behind our back
                    producer.purge()
                    self._producer = None
        return [offsets[number] for number in range(len(messages))]

    def _why(self, error: Any) -> AnabranchError:
        """Return our error. Where replicas are missing the client tries until the time is over, and says no more than that; nor
        does a new leader then say what can be read."""
        is_waited_for = error.code() in (*AWAY, *REPLICAS, KafkaError.OFFSET_NOT_AVAILABLE)
        if is_waited_for and (why := self.topics.out_of_sync(self._administrator())):
            return self._failures.away(f"not enough in-sync replicas: {why}", IN_SYNC)
        return told(self._failures, error)

    def _producing(self) -> Producer:
        if self._producer is None:
            assert self._found is not None, "the topics were found"
            own = {
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 0,
                "message.timeout.ms": int(ANSWER_S * 1000),
                "message.max.bytes": max(1_000_000, self._found.piece),
                "batch.size": min(PIECE, self._found.batch),
            }
            self._producer = self._made(Producer, own)
        return self._producer

    # --- clients ------------------------------------------------------------------------------------------------------

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Translate what brokers refuse. A client that failed is not asked again: its view of the cluster may be of before."""
        try:
            with translated(self._failures):
                yield
        except AnabranchError:
            self._admin, self._found = None, None
            raise

    def close(self) -> None:
        for consumer in (self._names, self._objects):
            if consumer is not None:
                consumer.close()
        self._names = self._objects = self._admin = self._producer = None

    def _administrator(self) -> AdminClient:
        if self._admin is None:
            self._admin = knowing(self._made(AdminClient, {}))
        return self._admin

    def _made(self, kind: Callable[..., Made], own: dict[str, Any]) -> Made:
        with translated(self._failures):
            enter(self._told, SILENT, self._endpoint.limits.connect)
            return kind(self._told | own, logger=SILENT)


def _produce(producer: Producer, message: tuple[Any, ...], heard: Callable[[Any, Any], None]) -> None:
    while True:
        try:
            producer.produce(*message, on_delivery=heard)
            return
        except BufferError:
            producer.poll(ROUND_S)


def _heard(number: int, offsets: dict[int, int], failed: list[Any], error: Any, message: Any) -> None:
    if error is not None:
        failed.append(error)
    else:
        offsets[number] = message.offset()
