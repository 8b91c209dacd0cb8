"""Producing messages: each to the partition of its key, none larger than its topic takes.

What does not live here: transactions (changing.py, appender.py), what a message is (`rows/messages/`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from confluent_kafka import KafkaError, KafkaException, Producer

from anabranch.brokers import codes
from anabranch.connectors.kafka.errors import translated_error
from anabranch.connectors.kafka.target.options import KafkaTargetOptions
from anabranch.connectors.kafka.target.sequences import Place
from anabranch.connectors.kafka.target.state_forms import NotedTopic
from anabranch.connectors.kafka.target.topics import AROUND, BATCH_BYTES, STATE_BYTES
from anabranch.errors import RowRefused, TargetError
from anabranch.rows.messages.format import EVERY, Header, Messages, lengths
from anabranch.rows.net import TargetTable

WAIT_S = 0.05  # for room in the producer's queue
QUEUED_KB = 131072
NO_LIMIT = 1 << 62
# Errors of a transaction whose messages say more: "1 message(s) failed delivery (see individual delivery reports)".
SAY_NOTHING = (KafkaError._STATE, KafkaError._FATAL, KafkaError._INCONSISTENT)
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
        "message.max.bytes": max(options.largest_message, STATE_BYTES) + AROUND,  # definitions, too
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
        self.places: set[Place] = set()  # partitions that have messages of this epoch

    def begin(self) -> None:
        """Begin an epoch: what is heard of messages of another one counts no more."""
        self._failed, self.places = [], set()

    def produce(self, producer: Producer, messages: Messages) -> None:
        """Hand messages to the producer, in their order; it sends them meanwhile. Raises RowRefused, KafkaException."""
        self._refuse_large(messages)
        counts = [self._count(topic) for topic in messages.topics]
        self._note_places(messages, counts)
        heard = [partial(_delivered, self._failed, table) for table in messages.tables]
        headers = [list(one) for one in messages.headers]
        for at, hash, transaction, key, value in messages.columns():
            topic, count = messages.topics[at], counts[at]
            every = range(count) if hash == EVERY else (hash % count,)
            for partition in every:
                _produce(producer, (topic, value, key, partition, heard[at]), headers[transaction])
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
        says_nothing = self._failed and codes.of(error).code() in SAY_NOTHING
        return KafkaException(self._failed[0][0]) if says_nothing else error

    def _refusal(self) -> RowRefused | None:
        """Return the refusal of a message. A broker refuses all that travel together: the one that it means is named."""
        refused = [(error, sent) for error, sent in self._failed if error.code() in codes.REFUSED]
        if not refused:
            return None
        is_large = refused[0][0].code() in codes.TOO_LARGE
        error, sent = max(refused, key=lambda one: one[1].size if is_large else one[1].key is None)
        told = translated_error(
            error, f"write a message of {sent.size} bytes to topic {sent.topic}; its key: {_shown(sent.key)}"
        )
        assert isinstance(told, RowRefused), "a message that a broker never takes"
        told.table = str(sent.table.source) if sent.table else None
        return told

    def _note_places(self, messages: Messages, counts: Sequence[int]) -> None:
        """Note the partitions of messages. `counts`: how many each of their topics has."""
        numbers = messages.hash % np.array(counts or [1])[messages.topic]
        numbers[messages.hash == EVERY] = EVERY
        for code in np.unique(messages.topic.astype(np.int64) << 32 | (numbers + 1)).tolist():
            at, number = code >> 32, (code & 0xFFFFFFFF) - 1
            every = range(counts[at]) if number == EVERY else (number,)
            self.places |= {(messages.topics[at], one) for one in every}

    def _count(self, topic: str) -> int:
        count = self._partitions.get(topic)
        if count is None:
            raise TargetError(f"topic {topic} is not one of the job's", hint="run anabranch preflight JOB")
        return count

    def _refuse_large(self, messages: Messages) -> None:
        if not len(messages):
            return
        limits = np.array([self._limits.get(topic) or NO_LIMIT for topic in messages.topics])
        around = np.array([_around(one) for one in messages.headers])
        sizes = lengths(messages.key) + lengths(messages.value) + around[messages.transaction]
        large = np.flatnonzero(sizes > limits[messages.topic])
        if len(large):
            size, at = sizes[large[0]], messages.topic[large[0]]
            topic, table, key = messages.topics[at], messages.tables[at], messages.key[int(large[0])].as_py()
            what = f"a message of {size} bytes for topic {topic}, which takes {limits[at]}; its key: {_shown(key)}"
            raise RowRefused(what, table=str(table.source) if table else None, hint=TOO_LARGE)


def _produce(producer: Producer, message: tuple[Any, ...], headers: list[Header]) -> None:
    """Hand over a message: topic, value, key, partition, and who hears what becomes of it."""
    while True:
        try:
            producer.produce(*message, headers=headers)
            return
        except BufferError:
            producer.poll(WAIT_S)


def _delivered(failed: list[tuple[Any, Sent]], table: TargetTable | None, error: Any, message: Any) -> None:
    """Keep what became of a message, if it was not delivered: only then somebody calls."""
    if error is not None and error.code() not in codes.PURGED:
        key, size = message.key(), len(message.value() or b"") + len(message.key() or b"")
        size += _around(message.headers() or ())
        failed.append((error, Sent(message.topic(), table, key, size)))


def _around(headers: Sequence[Header]) -> int:
    return sum(len(name) + len(value) + EACH for name, value in headers)


def _shown(key: bytes | None) -> str:
    if key is None:
        return "none"
    text = key.decode(errors="replace")
    return text if len(text) <= 200 else f"{text[:200]}…"
