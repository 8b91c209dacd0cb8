"""Connections to a cluster: what librdkafka is told for an endpoint, and the clients that speak with it.

https://github.com/confluentinc/librdkafka/blob/v2.16.0/CONFIGURATION.md describes every setting. What does not live here:
errors (errors.py), what is read and written (`target/`).
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from anabranch.connectors.kafka.entering import answers, enter
from anabranch.connectors.kafka.errors import BROKERS, translated
from anabranch.errors import ConfigError, TargetUnavailable
from anabranch.model.endpoint import Endpoint

Client = TypeVar("Client")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
USUAL_MECHANISM = "SCRAM-SHA-512"  # which never shows the password, unlike PLAIN
LONGEST = 60.0  # seconds for an answer where the job file sets no limit
MEETS_S = 1.0  # that a new client may take to know the brokers, before it is used in any case
# What librdkafka would print comes as an error of a call as well; a line of its own would be beside our log.
SILENT = logging.getLogger("anabranch.librdkafka")
SILENT.addHandler(logging.NullHandler())
SILENT.propagate = False


def settings(endpoint: Endpoint) -> dict[str, Any]:
    """Return what every client is told: where the brokers are, who we are, how the line is protected. Raises ConfigError for
    an unknown mechanism."""
    mode = endpoint.option("ssl_mode") or ("verify-full" if endpoint.option("ssl_ca") else "disable")
    protocol = ("SASL_" if endpoint.user else "") + ("PLAINTEXT" if mode == "disable" else "SSL")
    made: dict[str, Any] = {
        "bootstrap.servers": brokers(endpoint),
        "client.id": "anabranch",
        "security.protocol": protocol,
        "socket.connection.setup.timeout.ms": max(1000, int(endpoint.limits.connect * 1000)),
        "socket.keepalive.enable": True,
        "allow.auto.create.topics": False,
        "log_level": 3,
    }
    if endpoint.user:
        made |= {
            "sasl.mechanism": _mechanism(endpoint),
            "sasl.username": endpoint.user,
            "sasl.password": endpoint.password,
        }
    if mode != "disable":
        made["enable.ssl.certificate.verification"] = mode != "require"
        made["ssl.endpoint.identification.algorithm"] = "https" if mode == "verify-full" else "none"
        files = {"ssl.ca.location": "ssl_ca", "ssl.certificate.location": "ssl_cert", "ssl.key.location": "ssl_key"}
        made |= {name: endpoint.option(option) for name, option in files.items() if endpoint.option(option)}
    return made


def brokers(endpoint: Endpoint) -> str:
    """Return the addresses that the URL names, `a:9092,b:9092`: any of them tells of the others."""
    return endpoint.place


def _mechanism(endpoint: Endpoint) -> str:
    given = endpoint.option("sasl_mechanism", USUAL_MECHANISM).upper().replace("_", "-")
    if given not in MECHANISMS:
        raise ConfigError(f"unknown sasl_mechanism {given!r} in the URL", hint=f"one of {', '.join(MECHANISMS)}")
    return given


def patience(endpoint: Endpoint) -> float:
    """Return the seconds that one answer may take."""
    return LONGEST if math.isinf(endpoint.limits.statement) else max(1.0, endpoint.limits.statement)


def administrator(endpoint: Endpoint) -> AdminClient:
    return knowing(_made(AdminClient, endpoint, {}))


def knowing(client: AdminClient) -> AdminClient:
    """Return a new client once it knows the brokers: as it learns of them its line to the address that it was given ends, and a
    look for leaders that went over it is sent again three seconds later. Where no broker answers its next call says so."""
    with suppress(KafkaException, TimeoutError):
        client.describe_cluster(request_timeout=MEETS_S).result(2 * MEETS_S)
    return client


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
    with suppress(KafkaException):
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
    with translated("set up a client"):
        enter(told, SILENT, seconds / 2)
        return answers(told, SILENT, until)


def _made(kind: Callable[..., Client], endpoint: Endpoint, own: dict[str, Any]) -> Client:
    """Return a client. Raises ConfigError for a setting that librdkafka does not take, a file that is not there among them, and
    TargetError where the cluster does not let us in."""
    told = settings(endpoint)
    with translated("set up a client"):
        enter(told, SILENT, max(1.0, endpoint.limits.connect))
        return kind(told | own, logger=SILENT)
