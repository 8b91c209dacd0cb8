"""Name the cause of an error of a transaction: where it only says that messages were not delivered, the messages say why."""

from __future__ import annotations

from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from anabranch.brokers import codes
from anabranch.connectors.kafka.target.options import KafkaTargetOptions
from anabranch.connectors.kafka.target.producing import Producing, Sent


class Silent:
    """A producer that has told of every message by now."""

    def poll(self, seconds: float) -> int:
        return 0


@pytest.mark.parametrize(
    ("told", "is_behind"),
    [
        (KafkaError._INCONSISTENT, True),  # "1 message(s) failed delivery (see individual delivery reports)"
        (KafkaError._STATE, True),
        (KafkaError._FATAL, True),
        (KafkaError._TIMED_OUT, False),
    ],
)
def test_a_message_says_more_than_its_transaction(told: int, is_behind: bool) -> None:
    producing, error = Producing(KafkaTargetOptions(), {}, {}), KafkaException(KafkaError(told))
    producer: Any = Silent()
    assert producing.cause(cast(Producer, producer), error) is error, "no message has failed"
    producing._failed.append((KafkaError(KafkaError._MSG_TIMED_OUT), Sent("t.a", None, None, 7)))
    found = producing.cause(cast(Producer, producer), error)
    assert isinstance(found, KafkaException)
    assert codes.of(found).code() == (KafkaError._MSG_TIMED_OUT if is_behind else told)
