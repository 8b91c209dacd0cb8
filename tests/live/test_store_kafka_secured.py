"""Keep objects in a Kafka that asks who comes and what they may, with the rights that docs/reference/stores.md names, and no
more; and in one of whose replicas too few are in sync."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import pytest
from confluent_kafka.admin import AdminClient, ResourceType

from anabranch.config.store_urls import parse_store_url
from anabranch.errors import ConfigError, Side, TargetUnavailable
from anabranch.stores import kafka_session
from anabranch.stores.contract import ObjectStore
from anabranch.stores.opening import open_store
from anabranch.testing.databases import unique_name
from anabranch.testing.in_time import until
from anabranch.testing.kafka import start_kafka
from rigs.kafka_secured import PASSWORD, USER, SecuredKafka, secured_kafka
from rigs.kafka_trail import kafka_url

QUICK = {"broker.session.timeout.ms": "2000", "broker.heartbeat.interval.ms": "500"}  # a dead broker is known as such
TOPICS = ("READ", "WRITE", "DESCRIBE", "DESCRIBE_CONFIGS", "CREATE")
RIGHTS = ((ResourceType.TOPIC, "shop.", True, TOPICS), (ResourceType.GROUP, "anabranch", False, ("READ",)))


@pytest.fixture(scope="module")
def cluster(servers_directory: Path) -> Iterator[SecuredKafka]:
    with secured_kafka(servers_directory / unique_name("secured")) as made:
        yield made


def store_at(cluster: SecuredKafka, password: str = PASSWORD, authority: Path | None = None) -> ObjectStore:
    options = f"ssl_ca={authority or cluster.certificates.authority}"
    url = f"trail+kafka://{USER}:{quote(password)}@localhost:{cluster.password}/shop?{options}"
    return open_store(parse_store_url(url, {}), Side.TARGET)


@pytest.mark.parametrize(
    ("missing", "said"),
    [(ResourceType.TOPIC, "the user may not do this with the topics"), (ResourceType.GROUP, "read as group anabranch")],
    ids=["topic", "group"],
)
def test_a_right_that_is_missing_is_told_with_the_command_that_gives_it(
    cluster: SecuredKafka, missing: ResourceType, said: str
) -> None:
    with (
        cluster.allowed(USER, but=missing, rights=RIGHTS),
        closing(store_at(cluster)) as store,
        pytest.raises(ConfigError, match=said) as refused,
    ):
        store.create("1", b"one")
        store.read("1")
    assert "kafka-acls.sh" in (refused.value.hint or "")


def test_the_rights_of_the_docs_are_enough(cluster: SecuredKafka) -> None:
    with cluster.allowed(USER, rights=RIGHTS):
        with closing(store_at(cluster)) as store:
            store.replace("1", b"one")
            store.replace("1", b"two")
            store.create("2", b"two" * 1_000_000)
            assert store.read("1") == b"two" and [one.name for one in store.names()] == ["1", "2"]
            store.delete("2")
        with closing(store_at(cluster)) as other:
            assert [one.name for one in other.names()] == ["1"]


def test_who_is_not_let_in_is_told_and_no_password_is_shown(cluster: SecuredKafka) -> None:
    for store in (store_at(cluster, f"{PASSWORD}2"), store_at(cluster, authority=cluster.certificates.stranger)):
        with pytest.raises(ConfigError, match="the brokers do not let us in, or are not trusted") as refused:
            store.read("1")
        assert PASSWORD not in f"{refused.value!r}{refused.value}{store!r}" and refused.value.__cause__ is None
        store.close()


def done(work: Callable[[], object]) -> bool:
    try:
        work()
    except TargetUnavailable:
        return False
    return True


@pytest.mark.long
def test_replicas_that_are_not_in_sync_are_named(servers_directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_session, "ANSWER_S", 4.0)
    directory = servers_directory / unique_name("two")
    first = start_kafka(directory / "first", settings=QUICK)
    second = start_kafka(directory / "second", settings=QUICK, joins=directory / "first")
    try:
        client = AdminClient({"bootstrap.servers": f"{first.host}:{first.port}"})
        until(lambda: len(client.list_topics(timeout=10).brokers) == 2, "there are two brokers")
        url = kafka_url(first, "shop", options="?replication=2&min_insync_replicas=2")
        with closing(open_store(parse_store_url(url, {}), Side.TARGET)) as store:
            store.create("1", b"one")
            second.stop(immediate=True)
            parts = client.list_topics
            until(lambda: parts("shop.objects", 10).topics["shop.objects"].partitions[0].isrs == [1], "it is known")
            until(lambda: parts("shop.names", 10).topics["shop.names"].partitions[0].isrs == [1], "it is known")
            until(
                lambda: client.list_topics("shop.names", 10).topics["shop.names"].partitions[0].leader == 1, "it leads"
            )
            with pytest.raises(TargetUnavailable, match=r"topic shop\.\w+ has 1 in-sync replicas of 2") as refused:
                store.create("2", b"two")
            assert "bring the brokers of its replicas back" in (refused.value.hint or "")
            second.start()
            until(lambda: done(lambda: store.replace("2", b"two")), "it takes objects again")
            assert [one.name for one in store.names()] == ["1", "2"]
    finally:
        second.stop(immediate=True)
        first.stop(immediate=True)
