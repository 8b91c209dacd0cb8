"""Say what brokers of Kafka, and librdkafka, refuse: one table, by their codes. Their texts are not repeated."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from anabranch.brokers.codes import ABSENT, AWAY, LOGIN, REPLICAS, TOO_LARGE, of
from anabranch.errors import AnabranchError
from anabranch.stores.failures import RIGHTS, Failures

_E = KafkaError
IN_SYNC = "bring the brokers of its replicas back; min.insync.replicas of the topics says how many there have to be"
_ACL = "kafka-acls.sh --bootstrap-server BROKER --add --allow-principal User:NAME"
_OPERATIONS = "--operation Read --operation Write --operation Describe --operation DescribeConfigs --operation Create"
_GIVE = {
    _E.TOPIC_AUTHORIZATION_FAILED: (
        "the user may not do this with the topics",
        f"{_ACL} {_OPERATIONS} --topic NAME. --resource-pattern-type prefixed; {RIGHTS}",
    ),
    _E.CLUSTER_AUTHORIZATION_FAILED: (
        "the user may not make topics, or write at all",
        f"make NAME.names and NAME.objects beforehand; before Kafka 3.0 also {_ACL} --operation IdempotentWrite --cluster",
    ),
    _E.GROUP_AUTHORIZATION_FAILED: (
        "the user may not read as group anabranch",
        f"{_ACL} --operation Read --group anabranch",
    ),
}
_MADE = "make both topics by hand, as docs/reference/stores.md says"
_WRONG = {
    _E.INVALID_CONFIG: ("it does not take the settings of the topics", _MADE),
    _E.POLICY_VIOLATION: ("its policy does not let us make the topics", _MADE),
    _E.INVALID_REPLICATION_FACTOR: ("it has fewer brokers than replicas are asked for", "lower the option replication"),
    _E.UNSUPPORTED_VERSION: ("its release is too old", "2.8 or later"),
    _E._INVALID_ARG: ("librdkafka does not take an option", "look at the options of the URL, and at their files"),
}
_DISK = "look at the broker's log and its disks"
_THERE = "start the brokers; clients also have to reach the addresses that brokers tell (advertised.listeners)"


@contextmanager
def translated(failures: Failures) -> Iterator[None]:
    """Make errors of the library those of the project."""
    try:
        yield
    except KafkaException as error:
        raise told(failures, of(error)) from None


def told(failures: Failures, error: Any) -> AnabranchError:
    """Return our error for a KafkaError."""
    code, name = error.code(), error.name()
    if code in _GIVE or code in _WRONG:
        why, hint = (_GIVE | _WRONG)[code]
        return failures.wrong(f"{why} ({name})", hint)
    if code in LOGIN:
        hint = "check user, password, sasl_mechanism, ssl_mode and ssl_ca of the URL against the listener at that port"
        return failures.wrong(f"the brokers do not let us in, or are not trusted ({name})", hint)
    if code in TOO_LARGE:
        return failures.wrong(
            f"a message is too large ({name})", "raise max.message.bytes of the topics to 65536 or more"
        )
    if code in (*ABSENT, _E._NOENT):
        return failures.wrong(
            f"a topic is not there any more ({name})", "begin under another NAME, or restore the topics"
        )
    if code in REPLICAS:
        return failures.away(f"not enough in-sync replicas ({name})", IN_SYNC)
    if code == _E.KAFKA_STORAGE_ERROR:
        return failures.away(f"a broker cannot use its disk ({name})", _DISK)
    if code in AWAY:
        return failures.away(f"no broker answers ({name})", _THERE)
    return failures.away(f"it answers {name}")
