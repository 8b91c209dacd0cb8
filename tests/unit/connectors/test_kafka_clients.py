"""What librdkafka does not take is an error of the job file, and not a raw one; no server."""

from __future__ import annotations

import pytest
from confluent_kafka.admin import ListOffsetsResultInfo

from anabranch.connectors.kafka.connection import administrator, end_of, plain, reader, transactional
from anabranch.errors import ConfigError, TargetUnavailable
from anabranch.model.endpoint import Endpoint

HERE = (("ssl_mode", "verify-full"), ("ssl_ca", "/nowhere/ca.pem"))


def test_a_file_that_is_missing_is_an_error_of_the_job_file() -> None:
    endpoint = Endpoint("kafka", "127.0.0.1", 1, "", "", options=HERE)
    made = (lambda told: plain(told, "anabranch.x"), lambda told: transactional(told, "anabranch.x", {}))
    for client in (administrator, reader, *made):
        with pytest.raises(ConfigError, match=r"ssl\.ca\.location"):
            client(endpoint)


def test_an_answer_without_an_offset_is_not_the_end_of_an_empty_topic() -> None:
    assert end_of(ListOffsetsResultInfo(0, 0, 0), "t", 0) == 0
    with pytest.raises(TargetUnavailable, match="no broker says where partition 3 of topic t ends"):
        end_of(ListOffsetsResultInfo(-1001, 0, 0), "t", 3)
