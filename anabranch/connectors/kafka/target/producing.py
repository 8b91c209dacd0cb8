"""Producing messages: each to the partition of its key, none larger than its topic takes.

What does not live here: transactions (changing.py, appender.py), what a message is (`rows/messages/`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from confluent_kafka import KafkaException, Producer

from anabranch.connectors.kafka import errors
from anabranch.connectors.kafka.errors import translated_error
from anabranch.connectors.kafka.target.options import KafkaTargetOptions
from anabranch.connectors.kafka.target.state_forms import NotedTopic
from anabranch.connectors.kafka.target.topics import AROUND, BATCH_BYTES
from anabranch.errors import RowRefused, TargetError
from anabranch.rows.messages.format import EVERY, Header, Message, Messages

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
        self._failed: list[Any] = []  # KafkaErrors of messages of this epoch that were sent

    def begin(self) -> None:
        """Begin an epoch: what is heard of messages of another one counts no more."""
        self._failed = []

    def produce(self, producer: Producer, messages: Messages) -> None:
        """Hand messages to the producer, in their order; it sends them meanwhile. Raises RowRefused, KafkaException."""
        heard = partial(_delivered, self._failed)
        for message in messages.each():
            count = self._partitions.get(message.topic)
            if count is None:
                raise TargetError(f"topic {message.topic} is not one of the job's", hint="run anabranch preflight JOB")
            self._refuse_large(message)
            every = range(count) if message.hash == EVERY else (message.hash % count,)
            for partition in every:
                _produce(producer, message, partition, heard)
        producer.poll(0)
        if self._failed:
            raise KafkaException(self._failed[0])

    def refusal(self) -> RowRefused | None:
        """Return the refusal of a message that a broker has found too large, if that is why a commit failed."""
        found = next((error for error in self._failed if error.code() in errors.TOO_LARGE), None)
        told = None if found is None else translated_error(found, "write messages")
        return told if isinstance(told, RowRefused) else None

    def _refuse_large(self, message: Message) -> None:
        size = len(message.value or b"") + len(message.key or b"") + _size(message.headers)
        limit = self._limits.get(message.topic)
        if limit is not None and size > limit:
            what = f"a message of {size} bytes for topic {message.topic}, which takes {limit}; its key: {_shown(message.key)}"
            table = str(message.table.source) if message.table else None
            raise RowRefused(what, table=table, hint=TOO_LARGE)


def _produce(producer: Producer, message: Message, partition: int, heard: Callable[[Any, Any], None]) -> None:
    headers = list(message.headers)
    while True:
        try:
            producer.produce(message.topic, message.value, message.key, partition, heard, headers=headers)
            return
        except BufferError:
            producer.poll(WAIT_S)


def _delivered(failed: list[Any], error: Any, message: Any) -> None:
    if error is not None:
        failed.append(error)


def _size(headers: tuple[Header, ...]) -> int:
    return sum(len(name) + len(value) + EACH for name, value in headers)


def _shown(key: bytes | None) -> str:
    text = (key or b"").decode(errors="replace")
    return text if len(text) <= 200 else f"{text[:200]}…"
