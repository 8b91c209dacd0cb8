"""A Kafka that asks who comes and what they may: passwords and certificates that let a job in, and what is said where one does
not, or where rights are missing. `rigs/kafka_secured.py` has the rights that docs/howto/kafka.md names, and no more."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka.admin import ResourceType

from anabranch.contracts import Begun, PreflightContext
from anabranch.errors import TargetError
from anabranch.model.checks import CheckVerdict
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.endpoint import Endpoint
from anabranch.model.schema import Column, TableSchema
from anabranch.rows.appended import ChangeBatch
from anabranch.rows.chunk import Op
from anabranch.testing.conformance.appender import JOB, RULES, AppendSubject, Epochs, changes, table, transaction
from anabranch.testing.databases import unique_name
from anabranch.testing.in_time import until
from rigs.kafka_secured import PASSWORD, USER, SecuredKafka, secured_kafka

TABLE = table("a")
SCHEMA = TableSchema(TABLE.source, (Column("id", LogicalType(Kind.INT64), "bigint"),))
CERTIFIED = "CN=localhost"  # as Kafka calls who comes with the certificate


@pytest.fixture(scope="module")
def cluster(servers_directory: Path) -> Iterator[SecuredKafka]:
    with secured_kafka(servers_directory / unique_name("secured")) as made:
        yield made


def _begin(cluster: SecuredKafka, endpoint: Endpoint) -> None:
    """Begin a job, which makes topics, reads and writes its state, and remove it again."""
    job, target = unique_name("job"), cluster.target(endpoint)
    with closing(target.store()) as store:
        store.jobs.save_job(job, {"uuid": job})
        with closing(target.change_tables(RULES)) as topics:
            topics.begin(job, job, [(SCHEMA, TABLE)], 0, 0)
        assert (store.jobs.job(job) or {})["uuid"] == job
        store.jobs.drop(job)


def test_kafka_takes_each_kind_of_password_and_a_certificate(cluster: SecuredKafka) -> None:
    with cluster.allowed(USER):
        for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"):
            _begin(cluster, cluster.endpoint(sasl_mechanism=mechanism))
    own = cluster.certificates
    with cluster.allowed(CERTIFIED):
        _begin(cluster, cluster.endpoint(user="", ssl_cert=str(own.certificate), ssl_key=str(own.key)))


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_kafka_refuses_another_password_and_nobody_shows_it(cluster: SecuredKafka, mechanism: str) -> None:
    with pytest.raises(TargetError, match=r"cannot enter the cluster at localhost:.*Authentication failed") as refused:
        _begin(cluster, cluster.endpoint(password=f"{PASSWORD}2", sasl_mechanism=mechanism))
    assert "check user, password, sasl_mechanism" in (refused.value.hint or "")
    assert PASSWORD not in f"{refused.value!r} {refused.value.hint} {refused.value.__cause__!r}"


def test_kafka_of_another_authority_is_not_trusted(cluster: SecuredKafka) -> None:
    with pytest.raises(TargetError, match="certificate verify failed"):
        _begin(cluster, cluster.endpoint(ssl_ca=str(cluster.certificates.stranger)))


@pytest.mark.parametrize(
    ("missing", "mended_by"),
    [
        (ResourceType.TOPIC, "--topic"),
        (ResourceType.TRANSACTIONAL_ID, "--transactional-id anabranch."),
        (ResourceType.GROUP, "--group anabranch"),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_kafka_that_lacks_a_right_is_told_with_the_command_that_gives_it(
    cluster: SecuredKafka, missing: ResourceType, mended_by: str
) -> None:
    with cluster.allowed(USER, but=missing), pytest.raises(TargetError) as refused:
        _begin(cluster, cluster.endpoint())
    hint = refused.value.hint or ""
    assert "kafka-acls.sh" in hint and mended_by in hint
    if missing is ResourceType.TOPIC:  # preflight asks for it, and says so beside all else that it finds
        context = PreflightContext("job", {}, {TABLE.source: SCHEMA}, {TABLE.source: TABLE})
        with cluster.allowed(USER, but=missing), closing(cluster.target(cluster.endpoint()).checks()) as checks:
            found = checks.run(context)
        (failed,) = [one for one in found if one.verdict is CheckVerdict.FAILED]
        assert failed.check == "target.rights" and mended_by in failed.hint and len(found) > 1


@pytest.mark.parametrize("is_known", [False, True], ids=["at once", "known before the last message"])
def test_kafka_where_one_topic_may_not_be_written_names_it(
    cluster: SecuredKafka, is_known: bool, caplog: pytest.LogCaptureFixture
) -> None:
    target = cluster.target(cluster.endpoint())
    columns = (Column("id", LogicalType(Kind.INT64), "bigint"), Column("word", LogicalType(Kind.TEXT), "text"))
    _, denied = tables = [
        table(f"{name}_{is_known}".lower()) for name in "ab"
    ]  # a case's topics have messages behind it
    topic = f"shop.{denied.target.name}"
    with cluster.allowed(USER), closing(target.store()) as store:
        store.jobs.save_job(JOB, {"uuid": "1"})
        with closing(target.change_tables(RULES)) as topics:
            topics.begin(JOB, "1", [(TableSchema(one.source, columns), one) for one in tables], 0, 0)
        rows = [changes(one, (Op.INSERT, 1, at, 7, "x")) for at, one in enumerate(tables)]
        epochs = Epochs(AppendSubject(target, list))
        cluster.deny(USER, topic, "WRITE")
        batch = ChangeBatch([transaction(1)], rows)
        if is_known:
            assert epochs.appender.begin(epochs.now, epochs.next(batch)) is Begun.OPEN
            epochs.appender.append(batch)
            producer = epochs.appender._claimed().producer  # type: ignore[attr-defined]  # of Kafka's
            until(lambda: producer.poll(0.05) is not None and "TXNERR" in caplog.text, "the transaction has failed")
        with pytest.raises(TargetError, match=rf"may not do this with a topic\): {topic} — ") as refused:
            epochs.appender.commit() if is_known else epochs.do(batch)
        assert "kafka-acls.sh" in refused.value.hint and "--operation Write" in refused.value.hint
        epochs.appender.close()
        store.jobs.drop(JOB)
