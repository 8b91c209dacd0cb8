"""Tests that an initial load to a Kafka refuses the options that it cannot be combined with."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Literal

import pytest

from anabranch.connectors.kafka.target import KafkaTarget
from anabranch.connectors.kafka.target.formats import refuse_options
from anabranch.connectors.kafka.target.options import KafkaTargetOptions
from anabranch.contracts import TakesFirstRows
from anabranch.errors import ConfigError
from anabranch.model.endpoint import Endpoint


@pytest.mark.parametrize(
    ("format", "is_taken"),
    [("plain", True), ("debezium", True), ("exbase", False), ("avro", True), ("protobuf", True)],
)
def test_formats_without_a_word_for_such_rows_are_refused(
    format: Literal["plain", "debezium", "exbase", "avro", "protobuf"], is_taken: bool
) -> None:
    registry = "http://127.0.0.1:1" if format in ("avro", "protobuf") else ""
    options = KafkaTargetOptions(format=format, initial_load=True, registry=registry)
    with nullcontext() if is_taken else pytest.raises(ConfigError, match="has no message for rows that are there"):
        refuse_options(options)


def test_one_topic_has_whole_transactions_and_no_rows_of_several_moments() -> None:
    with pytest.raises(ConfigError, match="several moments"):
        refuse_options(KafkaTargetOptions(mode="single", topic="all", initial_load=True))


def test_the_rows_come_where_the_job_file_wants_them() -> None:
    for wants in (False, True):
        target = KafkaTarget(Endpoint("kafka", "127.0.0.1", 9092, "", ""), KafkaTargetOptions(initial_load=wants))
        assert isinstance(target, TakesFirstRows) and target.wants_first_rows is wants
