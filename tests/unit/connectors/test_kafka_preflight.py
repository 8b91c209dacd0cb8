"""What preflight finds at topics, of what a cluster tells of them; no server."""

from __future__ import annotations

from dataclasses import replace

import pytest

from anabranch.connectors.kafka.target.preflight import compacted, mixed, unreached
from anabranch.connectors.kafka.target.topics import FoundTopic, unfit_state, why_unsafe
from anabranch.model.checks import CheckVerdict
from anabranch.model.endpoint import Endpoint
from anabranch.testing.conformance.appender import table

TOPIC = FoundTopic("t", "id", 1, replicas=3, settings={"min.insync.replicas": "2", "cleanup.policy": "delete"})


@pytest.mark.parametrize("policy", ["compact", "compact,delete"])
def test_a_compacted_topic_needs_keys(policy: str) -> None:
    topic = replace(TOPIC, settings={"cleanup.policy": policy})
    (keyless,) = compacted(topic, replace(table("a"), key=()))
    (keyed,) = compacted(topic, replace(table("a"), key=("id",)))
    assert (keyless.verdict, keyed.verdict) == (CheckVerdict.FAILED, CheckVerdict.WARNING)
    assert not list(compacted(TOPIC, replace(table("a"), key=())))
    assert [one.verdict for one in mixed(topic)] == [CheckVerdict.FAILED] and not list(mixed(TOPIC))


def test_a_topic_that_loses_messages_with_a_broker_is_said_so() -> None:
    assert why_unsafe(TOPIC) == ""
    assert why_unsafe(replace(TOPIC, replicas=2)) == "replication 2"
    unclean = replace(TOPIC, settings={"min.insync.replicas": "1", "unclean.leader.election.enable": "true"})
    assert why_unsafe(unclean) == "min.insync.replicas = 1, unclean.leader.election.enable = true"


def test_a_state_topic_is_compacted_and_has_one_partition() -> None:
    good = replace(TOPIC, settings={"cleanup.policy": "compact"})
    assert not list(unfit_state([good, replace(TOPIC, settings={})]))
    assert len(list(unfit_state([TOPIC, replace(good, partitions=2)]))) == 2
    assert len(list(unfit_state([replace(good, settings={"cleanup.policy": "compact,delete"})]))) == 1


def test_a_cluster_of_which_no_broker_answers_is_a_failed_check() -> None:
    found = unreached(Endpoint("kafka", "127.0.0.1", 1, "", ""), 0.5)
    assert found is not None and (found.check, found.verdict) == ("target.brokers", CheckVerdict.FAILED)
    assert found.message.startswith("no broker answers within 0.5 s at 127.0.0.1:1: ")
    assert "[target] url" in found.hint and "TLS (?ssl_mode=)" in found.hint
