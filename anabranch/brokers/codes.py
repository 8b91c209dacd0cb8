"""Codes of brokers and of librdkafka, by what they mean for whoever meets them.

https://kafka.apache.org/protocol#protocol_error_codes lists a broker's codes, librdkafka's own begin with an underscore.
"""

from __future__ import annotations

from typing import Any

from confluent_kafka import KafkaError, KafkaException

_E = KafkaError
LOGIN = (
    _E._AUTHENTICATION,
    _E.SASL_AUTHENTICATION_FAILED,
    _E.ILLEGAL_SASL_STATE,
    _E.UNSUPPORTED_SASL_MECHANISM,
    _E._SSL,
)
TOO_LARGE = (_E.MSG_SIZE_TOO_LARGE, _E.RECORD_LIST_TOO_LARGE)
REFUSED = (*TOO_LARGE, _E.INVALID_RECORD)  # messages that a broker never takes
PURGED = (_E._PURGE_QUEUE, _E._PURGE_INFLIGHT)  # messages that were given up for another reason
LOST_LINE = (_E._TRANSPORT, _E._ALL_BROKERS_DOWN)
# Somebody else began with the transactional id, or the coordinator has given the transaction up.
FENCED = (
    _E._FATAL,  # of a producer with transactions: it was fenced
    _E._FENCED,
    _E.PRODUCER_FENCED,
    _E.INVALID_PRODUCER_EPOCH,
    _E.INVALID_PRODUCER_ID_MAPPING,
    _E.UNKNOWN_PRODUCER_ID,
    _E.INVALID_TXN_STATE,
    _E._STATE,
)
REPLICAS = (_E.NOT_ENOUGH_REPLICAS, _E.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
ABSENT = (_E.UNKNOWN_TOPIC_OR_PART, _E._UNKNOWN_TOPIC, _E._UNKNOWN_PARTITION, _E.UNKNOWN_TOPIC_ID)
AWAY = (_E._TRANSPORT, _E._ALL_BROKERS_DOWN, _E._RESOLVE, _E._TIMED_OUT, _E._MSG_TIMED_OUT, _E.REQUEST_TIMED_OUT)


def of(error: Any) -> Any:
    """Return the KafkaError that an exception carries."""
    return error.args[0] if isinstance(error, KafkaException) else error
