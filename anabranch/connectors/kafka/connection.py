"""Connections to a cluster: the clients that speak with it, and what each is told.

https://github.com/confluentinc/librdkafka/blob/v2.16.0/CONFIGURATION.md describes every setting. What does not live here: what
all clients are told (`anabranch.brokers.settings`), errors (errors.py), what is read and written (`target/`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from anabranch.brokers.entering import MEETS_S, answers, enter, knowing
from anabranch.brokers.settings import SILENT, settings
from anabranch.connectors.kafka.errors import BROKERS, translated
from anabranch.errors import TargetUnavailable
from anabranch.model.endpoint import Endpoint

Client = TypeVar("Client")


def administrator(endpoint: Endpoint) -> AdminClient:
    return knowing(_made(AdminClient, endpoint, {}))


def reader(endpoint: Endpoint, isolation: str = "read_committed", begins: str = "earliest") -> Consumer:
    """Return a consumer that reads what is committed, from places that it is told, and tells when it is at an end.
    `isolation`: "read_uncommitted" for all that is written. `begins`: where it goes on if a place is gone, "error": nowhere."""
    own = {
        "group.id": "anabranch",  # which the client asks for; nothing is committed under it, and nobody joins it
        "isolation.level": isolation,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "enable.partition.eof": True,
        "auto.offset.reset": begins,
        "fetch.wait.max.ms": 5,  # until an end is told as such; whoever keeps a consumer that is at one unassigns it
    }
    return _made(Consumer, endpoint, own)


def transactional(endpoint: Endpoint, name: str, more: dict[str, Any]) -> Producer:
    """Return a producer whose transactions have this transactional id, which is a topic, too. `more`: settings of how messages
    travel."""
    own = {"transactional.id": name, "acks": "all", "delivery.report.only.error": True}
    return _with_a_line(_made(Producer, endpoint, more | own), name)


def plain(endpoint: Endpoint, topic: str) -> Producer:
    """Return a producer without transactions, for what nobody decides by."""
    return _with_a_line(_made(Producer, endpoint, {"enable.idempotence": True, "acks": "all"}), topic)


def _with_a_line(producer: Producer, topic: str) -> Producer:
    """Return a new producer once it has a line to a broker, if there is one: without any it looks for who numbers its messages
    half a second later. The first answer may come over a line that then ends, as with an administrator's."""
    with suppress(KafkaException):  # no broker answers: the next call says so
        for _ in range(2):
            producer.list_topics(topic, timeout=MEETS_S)
    return producer


def end_of(told: Any, topic: str, partition: int) -> int:
    """Return the offset that an answer has. Raises TargetUnavailable for one without: where a line to the leader ends meanwhile
    librdkafka answers with no error and no offset, and taken for a number that would be a topic in which nothing is."""
    if told.offset < 0:
        raise TargetUnavailable(f"no broker says where partition {partition} of topic {topic} ends", hint=BROKERS)
    return int(told.offset)


def unanswered(endpoint: Endpoint, seconds: float) -> str:
    """Return "" once a broker answers, else, after `seconds`, why none does. Raises TargetError where none lets us in."""
    told, until = settings(endpoint), time.monotonic() + seconds
    with translated(f"enter the cluster at {endpoint.place}"):
        enter(told, SILENT, seconds / 2)
    with translated("set up a client"):
        return answers(told, SILENT, until)


def _made(kind: Callable[..., Client], endpoint: Endpoint, own: dict[str, Any]) -> Client:
    """Return a client. Raises ConfigError for a setting that librdkafka does not take, a file that is not there among them, and
    TargetError where the cluster does not let us in."""
    told = settings(endpoint)
    with translated(f"enter the cluster at {endpoint.place}"):
        enter(told, SILENT, max(1.0, endpoint.limits.connect))
    with translated("set up a client"):
        return kind(told | own, logger=SILENT)
