"""Names of topics, and what a cluster is told of a URL; no server."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from anabranch.brokers.settings import settings
from anabranch.config import JobConfig, describe_change, load_job
from anabranch.config.url import parse_url
from anabranch.connectors.kafka.target.formats import format_for
from anabranch.connectors.kafka.target.names import (
    LONGEST,
    WantedTopic,
    topic_name,
    unknown_tables,
    wanted_topics,
    why_not,
)
from anabranch.connectors.kafka.target.names import refused as refused_names
from anabranch.connectors.kafka.target.options import USUAL, KafkaTargetOptions
from anabranch.connectors.kafka.target.typemap import KafkaTypes
from anabranch.errors import ConfigError
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId
from anabranch.rules.rule_set import RuleSet

ORDERS = TableId("shop", "orders")


def endpoint(text: str) -> Endpoint:
    found, problems = parse_url(text, {"PW": "s/@ret"}, needs_database=False, role="target")
    assert found is not None, problems
    return found


def test_a_template_puts_job_schema_and_table_in() -> None:
    assert topic_name("{job}.{schema}.{table}.v1", "copy", ORDERS) == "copy.shop.orders.v1"
    assert topic_name("{else}-{table}", "copy", ORDERS) == "{else}-orders"


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("shop.orders", ""),
        ("x" * LONGEST, ""),
        ("x" * (LONGEST + 1), "up to 249"),
        ("größe", "ASCII"),
        ("a b", "ASCII"),
        ("", "ASCII"),
        ("..", "Kafka's own"),
        ("__consumer_offsets", "Kafka's own"),
        ("anabranch.copy", "state of jobs"),
    ],
)
def test_names_that_no_topic_can_have_are_refused(name: str, why: str) -> None:
    assert why in why_not(name) and bool(why) == bool(why_not(name))


def test_two_tables_never_meet_in_one_topic() -> None:
    tables = [TableId("a", "b_c"), TableId("a_b", "c"), TableId("a", "d")]
    assert [table for table, _ in refused_names(KafkaTargetOptions(), "copy", tables)] == [TableId("a_b", "c")]
    assert len(list(refused_names(KafkaTargetOptions(topic="all"), "copy", tables))) == 2
    assert not list(refused_names(KafkaTargetOptions(topic="{schema}-{table}"), "copy", tables))


def test_one_topic_of_the_whole_job_may_be_told_of_transactions_too() -> None:
    tables, single = [TableId("a", "b_c"), TableId("a_b", "c")], KafkaTargetOptions(mode="single", topic="{job}.all")
    assert not list(refused_names(single, "copy", tables))
    assert wanted_topics(single, "copy", tables) == {"copy.all": WantedTopic("copy.all", 1, None)}
    same = replace(single, format="exbase", transactions="{job}.all")
    assert not list(refused_names(same, "copy", tables)) and list(wanted_topics(same, "copy", tables)) == ["copy.all"]
    assert len(list(refused_names(replace(same, transactions="copy_all"), "copy", tables))) == 1
    assert len(list(refused_names(KafkaTargetOptions(transactions="a.d"), "copy", [TableId("a", "d")]))) == 1


def test_tables_have_partitions_of_their_own() -> None:
    tables = [TableId("shop", "a"), TableId("shop", "b"), TableId("shop", "c d")]
    options = KafkaTargetOptions(
        partitions=2, table_partitions={"shop.b": 7, 'shop."c d"': 1}, topic="{schema}-{table}"
    )
    assert [one.partitions for one in wanted_topics(options, "copy", tables).values()] == [2, 7, 1]
    assert not unknown_tables(options, tables) and not unknown_tables(options, []) and not unknown_tables(USUAL, tables)
    assert unknown_tables(options, tables[:1]) == (
        '[target.options] table_partitions names shop."c d", shop.b; the job has shop.a'
    )
    many = [TableId("shop", f"t{number:02}") for number in range(12)]
    assert unknown_tables(options, many).endswith("shop.t08, shop.t09, …")


def test_changed_definitions_have_a_topic_of_the_jobs_name() -> None:
    tables = [TableId("copy", "a")]
    told = KafkaTargetOptions(format="debezium", schema_changes=True, partitions=3)
    assert wanted_topics(told, "copy", tables)["copy"] == WantedTopic("copy", 1, None)
    assert not list(refused_names(told, "copy", tables))
    single = replace(told, mode="single", topic="{job}", partitions=1)
    assert list(wanted_topics(single, "copy", tables)) == ["copy"] and not list(refused_names(single, "copy", tables))
    ((of, why),) = refused_names(told, "copy.a", tables)
    assert of is None and "copy.a and the schema changes would have topics that Kafka takes for one" in why
    assert [why for _, why in refused_names(told, "anabranch.x", tables)] == [
        "'anabranch.x' cannot be a topic: topics anabranch.* have the state of jobs"
    ]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"mode": "single"}, "{schema} and {table} in it"),
        ({"mode": "single", "topic": "all", "partitions": 2}, "one partition, partitions is 2"),
        ({"mode": "single", "topic": "all", "table_partitions": {"a.b": 2}}, "table_partitions is about tables"),
        ({"mode": "single", "topic": "all", "format": "avro", "registry": "http://r:8081"}, "not with mode"),
        ({"mode": "single", "topic": "all", "format": "protobuf", "registry": "http://r:8081"}, "not with mode"),
        ({"format": "protobuf"}, "with no registry"),
        ({"format": "protobuf", "registry": "http://r:8081", "schema": True}, "has its schemas in the registry"),
        ({"format": "protobuf", "registry": "http://r:8081", "transactions": "t"}, "tells nothing of transactions"),
        ({"transactions": "t"}, "tells nothing of transactions"),
        ({"schema_changes": True}, "has no topic of schema changes"),
        ({"schema_changes": True, "format": "avro", "registry": "http://r:8081"}, "has no topic of schema changes"),
        ({"format": "exbase", "schema": True}, "has no schema"),
    ],
)
def test_options_that_do_not_go_together_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(words)):
        format_for(KafkaTargetOptions(**options), "copy", {})


def test_a_url_names_brokers_and_how_to_enter() -> None:
    plain = endpoint("kafka://a,b:9093")
    assert settings(plain)["bootstrap.servers"] == "a:9092,b:9093"
    assert settings(plain)["security.protocol"] == "PLAINTEXT"
    assert endpoint("kafka://a").place == "a:9092"
    known = settings(endpoint("kafka://me:${PW}@a:1,[::1]:2?ssl_ca=/ca.pem&sasl_mechanism=scram-sha-256"))
    assert known["bootstrap.servers"] == "a:1,[::1]:2"
    assert (known["sasl.username"], known["sasl.password"]) == ("me", "s/@ret")
    assert (known["security.protocol"], known["sasl.mechanism"]) == ("SASL_SSL", "SCRAM-SHA-256")
    assert known["ssl.endpoint.identification.algorithm"] == "https"
    encrypted = settings(endpoint("kafka://a?ssl_mode=require"))
    assert encrypted["security.protocol"] == "SSL" and not encrypted["enable.ssl.certificate.verification"]
    assert settings(endpoint("kafka://me:x@a"))["sasl.mechanism"] == "SCRAM-SHA-512"
    with pytest.raises(ConfigError, match="sasl_mechanism"):
        settings(endpoint("kafka://me:x@a?sasl_mechanism=GSSAPI"))


@pytest.mark.parametrize("text", ["kafka://", "kafka://a:1,,b:2", "kafka://a:1,b:x", "kafka://a?unknown=1"])
def test_a_url_that_cannot_be_is_refused(text: str) -> None:
    assert parse_url(text, {}, needs_database=False, role="target")[0] is None


JOB = """\
name = "copy"
[source]
url = "mysql://a@127.0.0.1"
[target]
url = "kafka://a:9092"
[[rules]]
include = ["shop.*"]
target = "sales.{table}"
"""


def load(tmp_path: Path, text: str) -> JobConfig:
    (tmp_path / "job.toml").write_text(text)
    return load_job(tmp_path / "job.toml", {})


def test_a_job_to_a_kafka_keeps_changes_under_the_names_of_its_rules(tmp_path: Path) -> None:
    config = load(tmp_path, JOB)
    assert config.keeps_changes and not config.has_change_tables
    assert RuleSet(config, KafkaTypes()).target_of(ORDERS) == TableId("sales", "orders")
    more = load(tmp_path, JOB + "[target.options]\npartitions = 4\n")
    (change,) = describe_change(config.fingerprint(), more.fingerprint())
    assert "partitions" in change.what, "keys are where they are"
    stored = json.loads(json.dumps(config.fingerprint()))
    one = load(tmp_path, JOB + '[target.options]\ntable_partitions = { "sales.orders" = 4 }\n')
    (change,) = describe_change(stored, one.fingerprint())
    assert str(change) == "[target.options] table_partitions: was absent, is sales.orders = 4"
    assert not describe_change(json.loads(json.dumps(one.fingerprint())), one.fingerprint())
    del stored["options"]["target"]["table_partitions"]  # as a release before this one stored it
    assert not describe_change(stored, config.fingerprint())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (JOB + '[[targets]]\nname = "b"\nurl = "mysql://b@127.0.0.1"\n', "[[targets]] beside"),
        (JOB.replace("[target]", '[[targets]]\nname = "b"'), "keeps changes and no rows"),
        (JOB + "[reverse]\nenabled = true\n", "[reverse] enabled beside [target] url = kafka://"),
        (JOB.replace('a:9092"', 'a:9092"\nform = "change_tables"'), "a database that keeps tables"),
        (JOB + '[apply]\non_error = "park"\n', 'on_error = "park" beside'),
        (JOB.replace("mysql://a@127.0.0.1", "kafka://a"), "cannot be a source"),
        (JOB + '[target.options]\ncompression = "brotli"\n', "compression"),
        (JOB + '[target.options]\ntable_partitions = { "a.b" = 0 }\n', "a.b"),
        (JOB + '[target.options]\ntable_partitions = { "a.b" = "4" }\n', "a.b"),
        (JOB + "[target.options]\ntable_partitions = {}\n", "table_partitions"),
    ],
)
def test_what_goes_with_rows_alone_is_refused(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load(tmp_path, text)
    assert words in "\n".join(map(str, refused.value.problems)) + str(refused.value)
