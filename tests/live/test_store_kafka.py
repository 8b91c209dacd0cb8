"""Keep objects in a Kafka: writers that die, lines that are cut, brokers that are killed, topics that would lose a trail."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from anabranch.config.store_urls import parse_store_url
from anabranch.errors import ConfigError, Side, SourceUnavailable, TargetUnavailable
from anabranch.stores import kafka as kafka_store
from anabranch.stores import kafka_session
from anabranch.stores.contract import ObjectExists, ObjectMissing
from anabranch.stores.kafka import KafkaStore
from anabranch.stores.kafka_session import KafkaSession, Message
from anabranch.stores.opening import open_store
from anabranch.testing.databases import unique_name
from anabranch.testing.faults import Proxy
from anabranch.testing.in_time import until
from anabranch.testing.kafka import start_kafka
from anabranch.testing.servers import Server
from rigs.kafka_trail import cut_in_half, kafka_url, left_in
from rigs.object_stores import names_of, refused

MB = 1 << 20


def opened_at(url: str, end: Side = Side.TARGET) -> KafkaStore:
    store = open_store(parse_store_url(url, {}), end)
    assert isinstance(store, KafkaStore)
    return store


@pytest.fixture
def name() -> str:
    return unique_name("trail")


@pytest.fixture
def store(kafka: Server, name: str) -> Iterator[KafkaStore]:
    with closing(opened_at(kafka_url(kafka, name))) as made:
        yield made


@pytest.fixture
def line(kafka: Server) -> Iterator[Proxy]:
    """A line to the broker, which tells of itself as the line's end."""
    with Proxy(kafka.host, kafka.port) as made:
        host = kafka.host.encode()
        said, heard = (host + port.to_bytes(4, "big") for port in (kafka.port, made.port))
        made.change(re.escape(said), heard.replace(b"\\", b"\\\\"))
        yield made


def pieces_in(kafka: Server, name: str) -> int:
    return len(left_in(kafka, f"{name}.objects"))


# --- what stands in the topics ----------------------------------------------------------------------------------------


def test_an_upload_that_took_too_long_is_given_up(
    kafka: Server, name: str, store: KafkaStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By then somebody may have removed its pieces, as of one that was cut in half."""
    store.create("state", b"old")
    with monkeypatch.context() as patched:
        patched.setattr(kafka_store, "LATE_MS", -1)
        refused(TargetUnavailable, lambda: store.create("pieces/1", b"1"))
        refused(TargetUnavailable, lambda: store.replace("state", b"new"))
    assert names_of(store) == ["state"] and store.read("state") == b"old"
    assert pieces_in(kafka, name) == 1 and len(left_in(kafka, f"{name}.names")) == 1
    store.create("pieces/1", b"1")
    assert store.read("pieces/1") == b"1"


def test_only_what_is_there_stands_in_the_topics(kafka: Server, name: str, store: KafkaStore) -> None:
    """Whatever was replaced, deleted or refused has left nothing that compaction would keep."""
    store.create("pieces/1", b"1" * (2 * MB))
    store.replace("readers/a", b"a" * 1000)
    store.replace("readers/a", b"b")
    with pytest.raises(ObjectExists):
        store.create("readers/a", b"c")
    store.create("pieces/2", b"2" * MB)
    store.delete("pieces/2")
    assert pieces_in(kafka, name) == 3 + 1
    assert sorted(key.partition(b"|")[0] for key in left_in(kafka, f"{name}.names")) == [b"pieces/1", b"readers/a"]
    assert store.path("pieces/1") == f"kafka://127.0.0.1:{kafka.port}/{name}/pieces/1"


@pytest.mark.parametrize("writes", [0, 1, 2, 4, 5, 6, 7])
def test_a_writer_that_dies_leaves_the_old_or_the_new_and_a_later_one_removes_the_rest(
    kafka: Server, name: str, store: KafkaStore, writes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It dies before the note of its pieces, between them, before the name, before what was there goes, and so on."""
    store.create("state", b"old" * MB)
    with closing(opened_at(kafka_url(kafka, name))) as dying:
        cut_in_half(dying, "state", b"new!" * MB, writes=writes)
    expected = b"old" * MB if writes < 5 else b"new!" * MB
    assert store.read("state") == expected and names_of(store) == ["state"]
    monkeypatch.setattr(kafka_store, "ABANDONED_S", -1.0)
    with closing(opened_at(kafka_url(kafka, name))) as later:
        later.create("other", b"")
        for one in (store, later):
            assert one.read("state") == expected and names_of(one) == ["other", "state"]
    assert pieces_in(kafka, name) == len(expected) // 900_000 + 1
    assert len(left_in(kafka, f"{name}.names")) == 2


# --- several writers --------------------------------------------------------------------------------------------------


def between(monkeypatch: pytest.MonkeyPatch, action: Callable[[], None]) -> None:
    """Call `action` once, when pieces are written, and the name is not."""
    write, left = KafkaSession.write, [action]

    def write_then(session: KafkaSession, *messages: Message) -> list[int]:
        offsets = write(session, *messages)
        if left:
            left.pop()()
        return offsets

    monkeypatch.setattr(KafkaSession, "write", write_then)


def test_of_two_who_create_one_object_the_first_in_the_log_has_it(
    kafka: Server, name: str, store: KafkaStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(opened_at(kafka_url(kafka, name))) as other:
        between(monkeypatch, lambda: other.create("pieces/1", b"first"))
        with pytest.raises(ObjectExists):
            store.create("pieces/1", b"second")
        assert store.read("pieces/1") == other.read("pieces/1") == b"first"
    assert pieces_in(kafka, name) == 1 and len(left_in(kafka, f"{name}.names")) == 1


def test_one_that_has_lost_and_died_does_not_come_back(
    kafka: Server, name: str, store: KafkaStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has not removed its own record: who deletes the object removes that as well, before it."""
    with closing(opened_at(kafka_url(kafka, name))) as other:
        between(monkeypatch, lambda: other.create("pieces/1", b"first"))
        monkeypatch.setattr(store, "_remove", lambda standing: None)  # dies instead
        with pytest.raises(ObjectExists):
            store.create("pieces/1", b"second")
        assert len(left_in(kafka, f"{name}.names")) == 2
        other.delete("pieces/1")
        assert names_of(other) == names_of(store) == []
    assert not left_in(kafka, f"{name}.names") and pieces_in(kafka, name) == 0


def test_an_object_that_is_replaced_while_it_is_read_is_read_anew(
    kafka: Server, name: str, store: KafkaStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its pieces may be gone by then, as compaction takes them."""
    store.create("state", b"old")
    messages, left = KafkaSession.messages, [1]

    def gone_once(session: KafkaSession, places: tuple[int, ...]) -> list[object]:
        if left:
            left.pop()
            store.replace("state", b"new")
            raise kafka_session.Gone
        return messages(session, places)

    monkeypatch.setattr(KafkaSession, "messages", gone_once)
    assert store.read("state") == b"new"


def test_pieces_that_are_gone_are_named(kafka: Server, name: str, store: KafkaStore) -> None:
    """A trail one of whose topics is gone is not taken for none; one that somebody has made again has no pieces."""
    store.create("pieces/1", b"1")
    client, objects = AdminClient({"bootstrap.servers": f"{kafka.host}:{kafka.port}"}), f"{name}.objects"
    client.delete_topics([objects])[objects].result()
    until(lambda: objects not in client.list_topics(timeout=10).topics, "the topic is gone")
    with closing(opened_at(kafka_url(kafka, name))) as later:
        assert f"topic {objects} is not there" in refused(TargetUnavailable, lambda: names_of(later))
    client.create_topics([NewTopic(objects, 1, 1, config={"cleanup.policy": "compact"})])[objects].result()
    with closing(opened_at(kafka_url(kafka, name))) as later:
        later.replace("other", b"22")
        assert f"pieces/1: its pieces are not in topic {objects}" in refused(
            ConfigError, lambda: later.read("pieces/1")
        )
        assert later.read("other") == b"22"


def test_topics_that_are_removed_meanwhile_are_told_once_and_then_missed(
    kafka: Server, name: str, store: KafkaStore
) -> None:
    store.create("pieces/1", b"1")
    client = AdminClient({"bootstrap.servers": f"{kafka.host}:{kafka.port}"})
    for gone in client.delete_topics([f"{name}.names", f"{name}.objects"]).values():
        gone.result()
    assert "a topic is not there any more" in refused(ConfigError, lambda: store.read("pieces/1"))
    assert names_of(store) == []
    store.create("pieces/1", b"2")
    assert store.read("pieces/1") == b"2" and names_of(store) == ["pieces/1"]


def test_who_has_not_read_for_long_begins_at_the_beginning(
    kafka: Server, name: str, store: KafkaStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_store, "READ_ANEW_S", -1.0)
    store.create("pieces/1", b"1")
    with closing(opened_at(kafka_url(kafka, name))) as other:
        between(monkeypatch, lambda: other.create("pieces/2", b"first"))
        with pytest.raises(ObjectExists):
            store.create("pieces/2", b"second")
        assert names_of(store) == ["pieces/1", "pieces/2"] and store.read("pieces/2") == b"first"


def test_who_has_read_all_asks_no_broker_for_more(kafka: Server, name: str, line: Proxy) -> None:
    """Reading goes on from where it was; at the end only names are asked for, twice a second: a store at rest costs little."""
    with closing(opened_at(kafka_url(kafka, name, line.port))) as store:
        for number in range(3):
            store.create(f"pieces/{number}", b"1")
            assert store.read(f"pieces/{number}") == b"1"
        time.sleep(1.0)  # of answers that are under way
        before = line.passed
        time.sleep(2.0)  # the rate is what is looked at
        assert line.passed - before < 6_000


# --- lines and brokers ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [b"/0", b"pieces/2|"], ids=["piece", "name"])
@pytest.mark.parametrize("when", ["unheard", "heard", "answered"])
def test_a_line_that_is_cut_loses_nothing_and_doubles_nothing(
    kafka: Server, name: str, line: Proxy, words: bytes, when: str
) -> None:
    """The client sends again what it has no answer to, and the broker takes it once."""
    with closing(opened_at(kafka_url(kafka, name, line.port))) as store:
        store.create("pieces/1", b"1")
        line.cut_at(words, when)  # type: ignore[arg-type]  # a word of the parameters
        store.create("pieces/2", b"two" * 1000)
        assert line.cuts == 1 and store.read("pieces/2") == b"two" * 1000
        with pytest.raises(ObjectExists):
            store.create("pieces/2", b"two" * 1000)
    assert pieces_in(kafka, name) == 2 and len(left_in(kafka, f"{name}.names")) == 2


def test_a_broker_that_is_silent_is_away(
    kafka: Server, name: str, line: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_session, "ANSWER_S", 2.0)
    with closing(opened_at(kafka_url(kafka, name, line.port))) as store:
        store.create("1", b"one")
        line.stall()
        for work in (lambda: store.read("1"), lambda: store.create("2", b"two"), lambda: names_of(store)):
            assert "no broker answers" in refused(TargetUnavailable, work)
        line.restore()
        with closing(opened_at(kafka_url(kafka, name))) as other:
            assert other.read("1") == b"one" and names_of(other) == ["1"]


@pytest.fixture
def own(servers_directory: Path) -> Iterator[Server]:
    """A broker that a test may kill."""
    server = start_kafka(servers_directory / unique_name("own"))
    yield server
    server.stop(immediate=True)


def test_a_broker_that_is_killed_again_and_again_keeps_what_it_has_confirmed(own: Server, name: str) -> None:
    """Two writers write on meanwhile, each its own; what is confirmed is there, whole, and nothing is there twice."""
    confirmed: list[dict[str, bytes]] = [{}, {}]
    ended, failed = threading.Event(), list[BaseException]()

    def write(mine: int) -> None:
        number = 0
        try:
            with closing(opened_at(kafka_url(own, name))) as store:
                while not ended.is_set():
                    one, content = f"pieces/{mine}-{number}", bytes([number % 256]) * (100_000 + number)
                    try:
                        with suppress(ObjectExists):  # by a try whose answer was lost
                            store.create(one, content)
                        assert store.read(one) == content
                    except TargetUnavailable:
                        continue  # it may be there, whole, or not at all
                    confirmed[mine][one] = content
                    number += 1
        except BaseException as error:  # noqa: BLE001 - raised again by whoever waits for the threads
            failed.append(error)

    threads = [threading.Thread(target=write, args=(mine,)) for mine in (0, 1)]
    for thread in threads:
        thread.start()
    for _ in range(2):
        known = [len(one) for one in confirmed]
        until(
            lambda known=known: failed or all(len(one) > n + 3 for one, n in zip(confirmed, known, strict=True)),  # type: ignore[misc]  # binds it
            "both have written on",
        )
        own.kill()
        own.start()
    ended.set()
    for thread in threads:
        thread.join()
    assert not failed, failed
    with closing(opened_at(kafka_url(own, name), Side.SOURCE)) as store:
        there = {found.name: found.size for found in store.names()}
        for one, content in (confirmed[0] | confirmed[1]).items():
            assert there.pop(one) == len(content) and store.read(one) == content
        for one, size in there.items():  # not confirmed, because the test has ended
            assert len(store.read(one)) == size
    assert len(left_in(own, f"{name}.names")) == len(confirmed[0]) + len(confirmed[1]) + len(there)


def test_no_broker_is_away_and_a_source_says_so(name: str, kafka: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_session, "ANSWER_S", 1.0)
    with closing(opened_at(f"trail+kafka://127.0.0.1:1/{name}", Side.SOURCE)) as store:
        assert "no broker answers" in refused(SourceUnavailable, lambda: store.read("1"))


# --- topics -----------------------------------------------------------------------------------------------------------


def made(kafka: Server, topic: str, partitions: int = 1, **config: str) -> None:
    client = AdminClient({"bootstrap.servers": f"{kafka.host}:{kafka.port}"})
    wanted = {key.replace("_", "."): value for key, value in config.items()}
    client.create_topics([NewTopic(topic, partitions, 1, config=wanted)])[topic].result()
    until(lambda: topic in client.list_topics(timeout=10).topics, "the topic is there")


STAMPED = {"cleanup_policy": "compact", "message_timestamp_type": "LogAppendTime"}


@pytest.mark.parametrize(
    ("part", "partitions", "config", "said"),
    [
        (
            "objects",
            1,
            {"cleanup_policy": "delete"},
            "it has cleanup.policy = delete, a trail is kept by compact alone",
        ),
        ("names", 1, STAMPED | {"cleanup_policy": "compact,delete"}, "a trail is kept by compact alone"),
        ("names", 2, STAMPED, "it has 2 partitions"),
        ("names", 1, {"cleanup_policy": "compact"}, "message.timestamp.type = CreateTime"),
        ("names", 1, STAMPED | {"delete_retention_ms": "60000"}, "it has delete.retention.ms = 60000"),
        ("objects", 1, STAMPED | {"max_message_bytes": "1000"}, "it has max.message.bytes = 1000"),
    ],
)
def test_topics_that_would_lose_a_trail_are_refused(
    kafka: Server, name: str, store: KafkaStore, part: str, partitions: int, config: dict[str, str], said: str
) -> None:
    other = {"names": "objects", "objects": "names"}[part]
    made(kafka, f"{name}.{other}", **STAMPED)
    made(kafka, f"{name}.{part}", partitions, **config)
    for work in (lambda: store.create("1", b""), lambda: store.read("1"), lambda: names_of(store)):
        told = refused(ConfigError, work)
        assert f"topic {name}.{part} cannot have a trail: " in told and said in told


def test_topics_that_take_small_messages_have_smaller_pieces(kafka: Server, name: str, store: KafkaStore) -> None:
    for part in ("names", "objects"):
        made(kafka, f"{name}.{part}", max_message_bytes="65536", **STAMPED)
    content = bytes(range(256)) * 1000
    store.create("pieces/1", content)
    assert store.read("pieces/1") == content and pieces_in(kafka, name) == 5
    assert store.read("pieces/1", 60_000, 5_000) == content[60_000:65_000]


def test_a_record_of_somebody_else_is_named(kafka: Server, name: str, store: KafkaStore) -> None:
    store.create("1", b"one")
    store._session.write(Message(f"{name}.names", b"junk", b"{}"))
    assert f"topic {name}.names has a record that is none of a trail's" in refused(ConfigError, lambda: store.read("1"))


def test_a_name_without_topics_has_nothing(store: KafkaStore) -> None:
    assert names_of(store) == []
    with pytest.raises(ObjectMissing):
        store.size("1")
    store.delete("1")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("?replication=3", "it has fewer brokers than replicas are asked for"),
        ("?ssl_ca=/none.pem", "librdkafka does not take an option"),
    ],
)
def test_what_a_cluster_does_not_take_is_told(kafka: Server, name: str, options: str, said: str) -> None:
    with closing(opened_at(kafka_url(kafka, name, options=options))) as store:
        assert said in refused(ConfigError, lambda: store.create("1", b""))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("?replication=many", "the option replication is no number of brokers"),
        ("?min_insync_replicas=0", "the option min_insync_replicas is no number of brokers"),
        ("?ssl_mode=perhaps", "unknown ssl_mode 'perhaps'"),
    ],
)
def test_options_that_are_wrong(kafka: Server, name: str, options: str, said: str) -> None:
    assert said in refused(ConfigError, lambda: opened_at(kafka_url(kafka, name, options=options)))
