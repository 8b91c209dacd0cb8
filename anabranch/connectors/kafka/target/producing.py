"""Producing messages: each to the partition of its key, none larger than its topic takes.

What does not live here: transactions (changing.py, appender.py), what a message is (`rows/messages/`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from anabranch.connectors.kafka import errors
from anabranch.connectors.kafka.errors import translated_error
from anabranch.connectors.kafka.target.options import KafkaTargetOptions
from anabranch.connectors.kafka.target.state_forms import NotedTopic
from anabranch.connectors.kafka.target.topics import AROUND, BATCH_BYTES
from anabranch.errors import RowRefused, TargetError
from anabranch.rows.messages.format import EVERY, Header, Message, Messages
from anabranch.rows.net import TargetTable

WAIT_S = 0.05  # for room in the producer's queue
QUEUED_KB = 131072
EACH = 16  # bytes of a header beside its name and value
TOO_LARGE = (
    "raise [target.options] largest_message (and max.message.bytes of a topic that is there), or leave the transaction out: "
    "anabranch skip add JOB POSITION --execute"
)


def settings_of(options: KafkaTargetOptions) -> dict[str, Any]:
    """Return what a producer of messages is told beside its transactional id."""
    return {
        "compression.type": options.compression,
        "linger.ms": options.linger_ms,
        "batch.size": BATCH_BYTES,
        "message.max.bytes": options.largest_message + AROUND,
        "queue.buffering.max.kbytes": max(QUEUED_KB, 2 * options.largest_message >> 10),
        "transaction.timeout.ms": options.transaction_timeout_s * 1000,
    }


@dataclass(frozen=True, slots=True)
class Sent:
    """A message that was handed to the producer, as far as an error names it."""

    topic: str
    table: TargetTable | None
    key: bytes | None
    size: int


class Producing:
    """Sends messages to topics that are noted. `limits`: the bytes that a message of a topic may have, None: not known."""

    def __init__(
        self, options: KafkaTargetOptions, topics: Mapping[str, NotedTopic], limits: Mapping[str, int | None]
    ) -> None:
        self._partitions = {name: topic.partitions for name, topic in topics.items()}
        largest = options.largest_message
        self._limits = {
            name: largest if limit is None else min(largest, limit - AROUND) for name, limit in limits.items()
        }
        self._failed: list[tuple[Any, Sent]] = []  # messages of this epoch that were not delivered, and the KafkaError

    def begin(self) -> None:
        """Begin an epoch: what is heard of messages of another one counts no more."""
        self._failed = []

    def produce(self, producer: Producer, messages: Messages) -> None:
        """Hand messages to the producer, in their order; it sends them meanwhile. Raises RowRefused, KafkaException."""
        for message in messages.each():
            count = self._partitions.get(message.topic)
            if count is None:
                raise TargetError(f"topic {message.topic} is not one of the job's", hint="run anabranch preflight JOB")
            sent = Sent(message.topic, message.table, message.key, _size(message))
            self._refuse_large(sent)
            heard = partial(_delivered, self._failed, sent)
            every = range(count) if message.hash == EVERY else (message.hash % count,)
            for partition in every:
                _produce(producer, message, partition, heard)
        producer.poll(0)
        if self._failed:
            raise KafkaException(self._failed[0][0])

    def cause(self, producer: Producer, error: KafkaException) -> RowRefused | KafkaException:
        """Return what is behind an error of a transaction: the refusal of one of its messages, else what became of one where
        the error says no more than that the transaction has failed, else the error."""
        try:
            producer.poll(0 if self._failed else WAIT_S)  # a message that failed may not have been told of yet
        except KafkaException as fatal:
            error = fatal  # which says why the producer is at its end
        if (refused := self._refusal()) is not None:
            return refused
        says_nothing = self._failed and errors.of(error).code() in (KafkaError._STATE, KafkaError._FATAL)
        return KafkaException(self._failed[0][0]) if says_nothing else error

    def _refusal(self) -> RowRefused | None:
        """Return the refusal of a message. A broker refuses all that travel together: the one that it means is named."""
        refused = [(error, sent) for error, sent in self._failed if error.code() in errors.REFUSED]
        if not refused:
            return None
        is_large = refused[0][0].code() in errors.TOO_LARGE
        error, sent = max(refused, key=lambda one: one[1].size if is_large else one[1].key is None)
        told = translated_error(
            error, f"write a message of {sent.size} bytes to topic {sent.topic}; its key: {_shown(sent.key)}"
        )
        assert isinstance(told, RowRefused), "a message that a broker never takes"
        told.table = str(sent.table.source) if sent.table else None
        return told

    def _refuse_large(self, sent: Sent) -> None:
        limit = self._limits.get(sent.topic)
        if limit is not None and sent.size > limit:
            what = f"a message of {sent.size} bytes for topic {sent.topic}, which takes {limit}; its key: {_shown(sent.key)}"
            raise RowRefused(what, table=str(sent.table.source) if sent.table else None, hint=TOO_LARGE)


def _produce(producer: Producer, message: Message, partition: int, heard: Callable[[Any, Any], None]) -> None:
    headers = list(message.headers)
    while True:
        try:
            producer.produce(message.topic, message.value, message.key, partition, heard, headers=headers)
            return
        except BufferError:
            producer.poll(WAIT_S)


def _delivered(failed: list[tuple[Any, Sent]], sent: Sent, error: Any, message: Any) -> None:
    if error is not None and error.code() not in errors.PURGED:
        failed.append((error, sent))


def _size(message: Message) -> int:
    headers: tuple[Header, ...] = message.headers
    around = sum(len(name) + len(value) + EACH for name, value in headers)
    return len(message.value or b"") + len(message.key or b"") + around


def _shown(key: bytes | None) -> str:
    if key is None:
        return "none"
    text = key.decode(errors="replace")
    return text if len(text) <= 200 else f"{text[:200]}…"
