"""A trail in a private Kafka: its URL, uploads that are cut in half, and what stands in its topics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from anabranch.stores.kafka import KafkaStore
from anabranch.stores.kafka_session import KafkaSession, Message
from anabranch.testing.servers import Server


def kafka_url(server: Server, name: str, port: int | None = None, options: str = "") -> str:
    return f"trail+kafka://{server.host}:{port or server.port}/{name}{options}"


class Killed(Exception):
    """The process died here."""


def cut_in_half(store: KafkaStore, name: str, content: bytes, *, writes: int = 1) -> None:
    """Let a writer die behind so many of its writes: pieces, the name, what removes a former object."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(KafkaSession, "write", dying(writes))
        with pytest.raises(Killed):
            store.replace(name, content)


def dying(writes: int) -> Callable[..., list[int]]:
    """Return a `write` that works so many times."""
    write, left = KafkaSession.write, [writes]

    def write_or_die(session: KafkaSession, *messages: Message) -> list[int]:
        if not left[0]:
            raise Killed
        left[0] -= 1
        return write(session, *messages)

    return write_or_die


def left_in(server: Server, topic: str) -> dict[bytes, bytes]:
    """Return what compaction leaves of a topic: the last value of each key."""
    place = f"{server.host}:{server.port}"
    consumer = Consumer({"bootstrap.servers": place, "group.id": "test", "auto.offset.reset": "earliest"})
    found: dict[bytes, bytes] = {}
    _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=60)
    consumer.assign([TopicPartition(topic, 0, 0)])
    at = 0
    while at < end:
        message: Any = consumer.poll(1.0)
        if message is None or message.error() is not None:
            continue
        at = message.offset() + 1
        if message.value() is None:
            found.pop(message.key(), None)
        else:
            found[message.key()] = message.value()
    consumer.close()
    return found
