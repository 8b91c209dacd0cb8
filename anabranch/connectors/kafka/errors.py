"""Errors of librdkafka and of brokers as ours: the one table.

https://kafka.apache.org/protocol#protocol_error_codes lists a broker's codes, librdkafka's own begin with an underscore.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from anabranch.brokers.codes import ABSENT, AWAY, FENCED, LOGIN, REPLICAS, TOO_LARGE, of
from anabranch.errors import NOT_ADMITTED, ConfigError, RowRefused, TargetError, TargetUnavailable

_E = KafkaError
RIGHTS = {
    _E.TOPIC_AUTHORIZATION_FAILED: "the job's user may not do this with a topic",
    _E.CLUSTER_AUTHORIZATION_FAILED: "the job's user may not do this at the cluster",
    _E.GROUP_AUTHORIZATION_FAILED: "the job's user may not read as group anabranch",
    _E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "the job's user may not use transactional ids that begin with anabranch.",
}
_GIVE = "kafka-acls.sh --bootstrap-server BROKER --add --allow-principal User:NAME"
_BEGINS = "--resource-pattern-type prefixed"
_TOPICS = "--operation Write --operation Describe --operation DescribeConfigs --operation Create --topic"
# What gives each of the rights; https://kafka.apache.org/43/documentation.html#security_authz
GIVEN_BY = {
    _E.TOPIC_AUTHORIZATION_FAILED: (
        f"{_GIVE} {_TOPICS} BEGINNING {_BEGINS} for the job's topics, "
        f"{_GIVE} --operation All --topic anabranch. {_BEGINS} for its state"
    ),
    _E.CLUSTER_AUTHORIZATION_FAILED: f"{_GIVE} --operation Create --topic BEGINNING {_BEGINS}, so that topics may be made",
    _E.GROUP_AUTHORIZATION_FAILED: f"{_GIVE} --operation Read --group anabranch",
    _E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: (
        f"{_GIVE} --operation Write --operation Describe --transactional-id anabranch. {_BEGINS}"
    ),
}
_BY_HAND = 'make the topic as the cluster wants it, and say [target.options] topics = "existing"'
_NOT_THERE = (
    "anabranch preflight JOB says which topic it is; begin again where it is gone: anabranch drop JOB --execute"
)
# What a cluster refuses until somebody changes something, and what that is.
REFUSES = {
    _E.INVALID_CONFIG: _BY_HAND,
    _E.POLICY_VIOLATION: _BY_HAND,
    _E.INVALID_PARTITIONS: "change [target.options] partitions: a topic never gets fewer than it has",
    _E.INVALID_REPLICATION_FACTOR: "[target.options] replication: at most as many replicas as there are brokers",
    _E.TOPIC_EXCEPTION: "[target.options] topic, or [[rules]] target, gives the topic another name",
    _E.UNSUPPORTED_VERSION: "let the brokers have a release that docs/howto/kafka.md names: 2.8 or later",
    _E.UNSUPPORTED_FOR_MESSAGE_FORMAT: "raise message.format.version of the topic, or of the brokers",
    _E.UNSUPPORTED_COMPRESSION_TYPE: "take another [target.options] compression: the brokers do not know this one",
    _E.INVALID_TRANSACTION_TIMEOUT: (
        "lower [target.options] transaction_timeout_s, or raise transaction.max.timeout.ms of the brokers"
    ),
} | dict.fromkeys(ABSENT, _NOT_THERE)
IN_SYNC_HINT = "bring the brokers of its replicas back; min.insync.replicas of the topic says how many there have to be"
BROKERS = (
    "start the brokers, or look at [target] url; clients also have to reach the addresses that brokers tell them "
    "(advertised.listeners)"
)


def translated_error(error: Any, doing: str) -> TargetError | ConfigError:
    """Return our error for a KafkaError. `doing`: what was tried, as in "create topics"."""
    code, text = error.code(), f"cannot {doing}: {error.str()}"
    if code in RIGHTS:
        return _not_admitted(f"{text} ({RIGHTS[code]})", f"{GIVEN_BY[code]}; docs/howto/kafka.md has all of them")
    if code in LOGIN:
        hint = "check user, password, sasl_mechanism and ssl_mode of the URL against the listener at that port"
        return _not_admitted(text, hint)
    if code in TOO_LARGE:
        hint = "raise max.message.bytes of the topic and [target.options] largest_message, or leave the row out"
        return RowRefused(text, hint=hint)
    if code == _E.INVALID_RECORD:
        hint = (
            "a compacted topic takes no message without a key (of a table without one, or of TRUNCATE): set its cleanup.policy "
            "to delete, or leave the transaction out: anabranch skip add JOB POSITION --execute"
        )
        return RowRefused(text, hint=hint)
    if code in REPLICAS:
        return TargetUnavailable(f"{text} (not enough in-sync replicas)", hint=IN_SYNC_HINT)
    if code in FENCED:
        hint = "it is looked up, and tried again; [target.options] transaction_timeout_s is what one may take"
        what = "another process has written for the job, or the transaction took too long"
        return TargetUnavailable(f"{text} ({what})", hint=hint)
    if code == _E.CONCURRENT_TRANSACTIONS:
        hint = (
            "the cluster still ends the job's last transaction: it can where the replicas of all its topics are in sync"
        )
        return TargetUnavailable(text, hint=hint)
    if code in AWAY:
        return TargetUnavailable(text, hint=BROKERS)
    if code == _E._INVALID_ARG:
        return ConfigError(text, hint="check the URL and [target.options]")
    return TargetError(text, hint=REFUSES[code]) if code in REFUSES else TargetUnavailable(text)


def _not_admitted(text: str, hint: str) -> TargetError:
    error = TargetError(text, hint=hint)
    error.code = NOT_ADMITTED
    return error


@contextmanager
def translated(doing: str) -> Iterator[None]:
    """Raise errors of Kafka inside the block as ours."""
    try:
        yield
    except KafkaException as error:
        raise translated_error(of(error), doing) from error
