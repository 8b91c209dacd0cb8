"""An Appender at a Kafka by itself: the contract, processes that wake up late, commands beside it, a broker that dies."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from anabranch.connectors.kafka.target import KafkaTarget, changing, records
from anabranch.connectors.kafka.target import appender as kafka_appender
from anabranch.connectors.kafka.target.options import KafkaTargetOptions
from anabranch.connectors.kafka.target.state_forms import CHECKPOINT, checkpoint_value
from anabranch.contracts import Begun, TargetStore, TookTooLong
from anabranch.errors import Fenced, RowRefused, TargetError, TargetUnavailable
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.endpoint import Endpoint
from anabranch.model.schema import Column, TableSchema
from anabranch.model.state import Checkpoint, Skipped
from anabranch.rows.appended import Appended, ChangeBatch, Committed, Emptied
from anabranch.rows.chunk import Op
from anabranch.testing.conformance import appender
from anabranch.testing.conformance.appender import JOB, RULES, AppendSubject, Epochs, changes, table, transaction
from anabranch.testing.databases import unique_name
from anabranch.testing.in_time import until
from anabranch.testing.servers import Server
from rigs.scenario_kafka import Read, Reader, has_given_up, is_open, topics_of

TABLES = [table("a"), table("b")]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ROUNDS = 5  # with a broker that is killed: of two kills right behind a confirmed commit one has an epoch forgotten
SENT_S = 60  # that a message may take to be written where its time decides nothing
LIMIT_S = 5  # that a transaction may take: longer than its message takes to be written, also on a slow machine


@contextmanager
def _begun(kafka: Server) -> Iterator[tuple[KafkaTarget, Reader]]:
    """Yield the target of a job that has begun, and a reader of its topics, which are new."""
    prefix = unique_name("topic")
    options = KafkaTargetOptions(topic=prefix + ".{table}", transaction_timeout_s=10)
    target = KafkaTarget(Endpoint("kafka", kafka.host, kafka.port, "", ""), options)
    columns = (Column("id", LogicalType(Kind.INT64), "bigint"), Column("word", LogicalType(Kind.TEXT), "text"))
    with closing(target.store()) as store:
        store.jobs.save_job(JOB, {"uuid": "1"})
        with closing(target.change_tables(RULES)) as topics:
            topics.begin(JOB, "1", [(TableSchema(one.source, columns), one) for one in TABLES], 0, 0)
        yield target, Reader(kafka, [f"{prefix}.a", f"{prefix}.b"])
    with closing(target.store()) as store:
        store.jobs.drop(JOB)
    until(lambda: f"anabranch.{JOB}" not in topics_of(kafka), "the state is gone")


@pytest.fixture
def made(kafka: Server) -> Iterator[tuple[KafkaTarget, Reader]]:
    with _begun(kafka) as made:
        yield made


@pytest.fixture
def subject(made: tuple[KafkaTarget, Reader]) -> AppendSubject:
    target, reader = made

    def appended() -> list[Appended]:
        reader.look()
        found = [_appended(one) for one in reader.seen if one.value is not None]
        return sorted(found, key=lambda one: (one.transaction.sequence, one.ordinal))

    return AppendSubject(target, appended)


def _appended(read: Read) -> Appended:
    sequence, _, position = read.value["position"].partition("@")
    time = datetime.fromisoformat(read.value["commit_time"])
    gtid = read.headers["anabranch.transaction"]
    committed = Committed(int(sequence), position, (time - EPOCH) // timedelta(microseconds=1), gtid)
    of = next(one for one in TABLES if one.source.name == read.topic.rpartition(".")[2])
    return Appended(of, committed, read.value["ordinal"], read.value["before"], read.value["after"])


# A message of `plain` does not say where a transaction was made first, as the first check asks.
@pytest.mark.parametrize("check", appender.CHECKS[1:], ids=lambda check: check.__name__)
def test_appender(check: Callable[[AppendSubject], None], subject: AppendSubject) -> None:
    check(subject)


def _batch(number: int, word: str = "x") -> ChangeBatch:
    return ChangeBatch((transaction(number),), [changes(TABLES[0], (Op.INSERT, number, 0, number, word))])


def test_pitfall_79_who_was_only_interrupted_goes_on_and_a_zombie_does_not(subject: AppendSubject) -> None:
    old = Epochs(subject)
    old.do(_batch(1))
    with closing(subject.connector.store()) as store:
        then = old.next(_batch(2))
        assert old.appender.begin(old.now, then) is Begun.OPEN
        old.appender.append(_batch(2))
        store.journal.skip(JOB, Skipped(9, "log.1:900", 0, {}))  # a command: it ends the epoch that is open
        with pytest.raises(TargetUnavailable, match="another process has written"):
            old.appender.commit()
        old.do(_batch(2, "again"))
        assert [one.sequence for one in store.journal.skipped(JOB)] == [9]
        assert old.appender.begin(old.now, old.next(_batch(3))) is Begun.OPEN
        old.appender.append(_batch(3))
        new = Epochs(subject, "owner-2")
        new.do(_batch(3, "new"))
        with pytest.raises(Fenced):
            old.appender.commit()
        with pytest.raises(Fenced):
            old.appender.begin(old.now, old.next(_batch(3)))
        new.do(_batch(4))  # which the zombie has not disturbed
        assert store.jobs.checkpoint(JOB) == new.now
    assert appender.words(subject.appended()) == [(1, 0, "x"), (2, 0, "again"), (3, 0, "new"), (4, 0, "x")]
    old.appender.close()
    new.appender.close()


def _configure(kafka: Server, topic: str, name: str, value: str) -> None:
    """Change a setting of a topic, and wait until the broker goes by it."""
    client = AdminClient({"bootstrap.servers": f"{kafka.host}:{kafka.port}"})
    change = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[change])
    client.incremental_alter_configs([resource])[resource].result()

    def is_set() -> bool:
        (told,) = client.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]).values()
        return bool(told.result()[name].value == value)

    until(is_set, f"{topic} has {name}")


def _refusal(epochs: Epochs, *batches: ChangeBatch) -> RowRefused:
    assert epochs.appender.begin(epochs.now, epochs.next(batches[-1])) is Begun.OPEN
    with pytest.raises(RowRefused) as refused:
        for batch in batches:
            epochs.appender.append(batch)
        epochs.appender.commit()
    epochs.appender.rollback()
    return refused.value


def test_what_a_broker_refuses_is_named_also_where_more_messages_follow(
    subject: AppendSubject, made: tuple[KafkaTarget, Reader], kafka: Server
) -> None:
    epochs, topic = Epochs(subject), made[1].topics[0]
    epochs.do(_batch(1))
    _configure(kafka, topic, "cleanup.policy", "compact")
    emptied = ChangeBatch((transaction(2),), [], [Emptied(TABLES[0], 2, 0)])
    found = _refusal(epochs, emptied)
    assert found.table == "shop.a" and topic in found.message and "key: none" in found.message
    assert "cleanup.policy" in found.hint
    epochs.do(_batch(2))
    _configure(kafka, topic, "max.message.bytes", "9000")
    large = random.Random(1).randbytes(9000).hex()
    found = _refusal(epochs, _batch(3, large), *(_batch(number, large) for number in range(4, 60)))
    assert found.table == "shop.a" and topic in found.message and '"id"' in found.message, found
    epochs.do(_batch(3))
    assert appender.words(subject.appended()) == [(1, 0, "x"), (2, 0, "x"), (3, 0, "x")]
    epochs.appender.close()


def test_a_topic_that_was_made_again_stops_the_job_while_it_runs(
    subject: AppendSubject, made: tuple[KafkaTarget, Reader], kafka: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_appender, "LOOK_S", 0.0)
    monkeypatch.setattr(kafka_appender, "LOOK_SHARE", 0)
    epochs, topic = Epochs(subject), made[1].topics[0]
    epochs.do(_batch(1))
    client = AdminClient({"bootstrap.servers": f"{kafka.host}:{kafka.port}"})
    client.delete_topics([topic])[topic].result()
    until(lambda: topic not in topics_of(kafka), "it is gone")
    client.create_topics([NewTopic(topic, 1)])[topic].result()
    until(lambda: topic in topics_of(kafka), "it is there again")
    with pytest.raises(TargetError, match="was removed and made again"):
        epochs.appender.begin(epochs.now, epochs.next(_batch(2)))
    epochs.appender.close()


def test_an_epoch_that_the_cluster_gives_up_by_time_says_so(
    subject: AppendSubject, made: tuple[KafkaTarget, Reader]
) -> None:
    hasty = replace(made[0], options=replace(made[0].options, transaction_timeout_s=LIMIT_S))
    epochs = Epochs(AppendSubject(hasty, list))
    assert epochs.appender.begin(epochs.now, epochs.next(_batch(1))) is Begun.OPEN
    late: list[TargetUnavailable] = []

    def is_late() -> bool:
        try:
            epochs.appender.append(_batch(1))
        except TargetUnavailable as error:
            late.append(error)
        return bool(late)

    until(is_late, "the cluster has given it up")
    assert isinstance(late[0], TookTooLong) and f"longer than {LIMIT_S} seconds" in late[0].message
    epochs.do(_batch(1, "again"))
    assert appender.words(subject.appended()) == [(1, 0, "again")]
    epochs.appender.close()


def test_an_epoch_is_not_begun_on_states_that_a_command_has_changed_meanwhile(subject: AppendSubject) -> None:
    epochs = Epochs(subject)
    epochs.do(_batch(1))
    epochs.appender.close()
    with closing(subject.connector.store()) as store:
        store.journal.skip(JOB, Skipped(9, "log.1:900", 0, {}))
    assert epochs.appender.begin(epochs.now, epochs.next(_batch(2))) is Begun.REPLAN
    epochs.do(_batch(2))
    epochs.appender.close()


def test_a_store_whose_turn_is_over_decides_by_what_is_there(made: tuple[KafkaTarget, Reader]) -> None:
    target, _ = made
    with closing(target.store()) as one, closing(target.store()) as other:
        one.journal.skip(JOB, Skipped(1, "log.1:1", 0, {}))
        other.journal.unskip(JOB, 1)
        one.journal.skip(JOB, Skipped(1, "log.1:1", 0, {}))  # which it still knows to be there
        assert [skipped.sequence for skipped in other.journal.skipped(JOB)] == [1]


def test_of_two_who_change_a_state_at_once_none_is_lost(made: tuple[KafkaTarget, Reader]) -> None:
    target, _ = made

    def skip(numbers: range) -> None:
        store: TargetStore = target.store()
        with closing(store):
            for number in numbers:
                store.journal.skip(JOB, Skipped(number, f"log.1:{number}", 0, {}))

    with ThreadPoolExecutor(2) as both:
        for one in [both.submit(skip, range(0, 6, 2)), both.submit(skip, range(1, 6, 2))]:
            one.result()
    with closing(target.store()) as store:
        assert [one.sequence for one in store.journal.skipped(JOB)] == list(range(6))


def test_a_broker_that_dies_loses_and_doubles_nothing(subject: AppendSubject, kafka: Server) -> None:
    epochs = Epochs(subject)
    epochs.do(_batch(1))
    then = epochs.next(_batch(2))
    assert epochs.appender.begin(epochs.now, then) is Begun.OPEN
    epochs.appender.append(_batch(2))
    kafka.kill()
    kafka.start()
    address = AdminClient({"bootstrap.servers": f"{kafka.host}:{kafka.port}"})
    until(lambda: address.list_topics(timeout=30).brokers, "it serves again")

    with suppress(TargetUnavailable):  # or the broker has had all of it before
        epochs.appender.commit()
    until(lambda: _is_done(epochs, then), "the epoch is committed")
    epochs.now = then
    epochs.do(_batch(3))
    assert appender.words(subject.appended()) == [(1, 0, "x"), (2, 0, "x"), (3, 0, "x")]
    epochs.appender.close()


def _restarts(kafka: Server) -> None:
    assert kafka.pid is not None, "it runs"
    os.kill(kafka.pid, signal.SIGKILL)  # at once: `kill` looks for children first, and by then the ends are written
    kafka.kill()
    kafka.start()


def _restarting_once_confirmed(kafka: Server, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Have the broker killed, and started again, as soon as it confirms the next commit: it has not written yet into partitions
    that the transaction is over. Returns what arms it."""
    again, armed = changing._again, list[bool]()

    def confirmed(action: Callable[[], None]) -> None:
        again(action)
        if armed:
            armed.clear()
            _restarts(kafka)

    monkeypatch.setattr(changing, "_again", confirmed)
    return lambda: armed.append(True)


@pytest.mark.long
@pytest.mark.parametrize("killed", ["once it has confirmed", "once the epoch is over"])
def test_an_epoch_that_is_over_is_there_however_early_its_broker_is_killed(
    subject: AppendSubject, kafka: Server, monkeypatch: pytest.MonkeyPatch, killed: str
) -> None:
    epochs, arm = Epochs(subject), _restarting_once_confirmed(kafka, monkeypatch)
    for number in range(1, 2 * ROUNDS, 2):
        epochs.do(_batch(number))
        then = epochs.next(_batch(number + 1))
        assert epochs.appender.begin(epochs.now, then) is Begun.OPEN
        epochs.appender.append(_batch(number + 1))
        is_over = True
        if killed == "once it has confirmed":
            arm()
        try:
            epochs.appender.commit()
        except TargetUnavailable as away:
            is_over = False
            print(away)
        if killed == "once the epoch is over":
            assert is_over
            _restarts(kafka)
        found = _done(epochs, then, _batch(number + 1))
        assert not is_over or found is Begun.APPLIED, "what was over is done again"
        epochs.now = then
    assert appender.words(subject.appended()) == [(number, 0, "x") for number in range(1, 2 * ROUNDS + 1)]
    epochs.appender.close()


def test_what_cannot_be_read_yet_is_not_told_as_done(
    made: tuple[KafkaTarget, Reader], kafka: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, _ = made
    other = Producer({"bootstrap.servers": f"{kafka.host}:{kafka.port}", "transactional.id": unique_name("other")})
    other.init_transactions()
    again, calls = changing._again, list[int]()

    def confirmed(action: Callable[[], None]) -> None:
        calls.append(len(calls))
        if len(calls) == 2:  # of a beginning and a commit
            other.begin_transaction()
            other.produce(f"anabranch.{JOB}", b"{}", b'["other"]', partition=0)
            assert not other.flush(SENT_S)
        again(action)

    monkeypatch.setattr(changing, "_again", confirmed)
    monkeypatch.setattr(changing, "SLOW_S", 0.5)
    monkeypatch.setattr(changing, "BECOMES_READABLE_S", 0.5)
    with closing(target.store()) as store:
        words = rf"topic anabranch.{JOB} is readable up to offset \d+ of \d+, .*transactional id is anabranch.{JOB}"
        with monkeypatch.context() as patched, pytest.raises(TargetUnavailable, match=words) as told:
            patched.setattr(records, "decided_within", lambda endpoint: 0.5)
            store.journal.skip(JOB, Skipped(1, "log.1:1", 0, {}))
        assert "kafka-transactions.sh" in told.value.hint
        other.abort_transaction()
        store.journal.skip(JOB, Skipped(1, "log.1:1", 0, {}))
        assert [one.sequence for one in store.journal.skipped(JOB)] == [1]


NOTE: changing.Changes = {("note",): {"is": "there"}}


def _is_noted(target: KafkaTarget) -> bool:
    with closing(changing.Changing(target.endpoint, JOB)) as after:
        after.begin()
        return after.has(NOTE)


def _in_spite_of_the_restart(look: Callable[[], bool]) -> Callable[[], bool]:
    def looked() -> bool:
        try:
            return look()
        except TargetUnavailable as away:
            print(away)
            return False

    return looked


def test_a_commit_that_another_process_has_undone_meanwhile_is_done_again(
    made: tuple[KafkaTarget, Reader], kafka: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker that was killed has forgotten the commit, and who begins in front of our look has aborted what was open: all of
    the state is readable then, and the commit is not there."""
    target, _ = made
    again, armed = changing._again, [True]

    def forgotten(action: Callable[[], None]) -> None:
        if not armed or state.producer is None:
            again(action)
            return
        armed.clear()
        assert not state.producer.flush(SENT_S)
        _restarts(kafka)
        until(_in_spite_of_the_restart(lambda: not _is_noted(target)), "another process has begun")

    def is_changed() -> bool:
        state.change(lambda there: {} if ("note",) in there else NOTE)
        return True

    monkeypatch.setattr(changing, "_again", forgotten)
    with closing(changing.Changing(target.endpoint, JOB)) as state:
        until(_in_spite_of_the_restart(is_changed), "the command has been told that it is done")
    assert not armed
    assert _is_noted(target)


def test_a_broker_that_was_away_at_the_beginning_puts_no_commit_in_doubt(
    made: tuple[KafkaTarget, Reader], kafka: Server
) -> None:
    target, _ = made
    away = [f"{kafka.host}:{port}" for port in range(1, 10)]
    more = {"bootstrap.servers": ",".join([*away, f"{kafka.host}:{kafka.port}"])}
    with closing(changing.Changing(target.endpoint, JOB, more)) as state:
        state.begin().begin_transaction()
        state.write(NOTE)
        assert state.commit(NOTE)
    assert _is_noted(target)


@pytest.mark.parametrize("forgotten", ["an abort", "a commit", "an abort of all"])
def test_what_a_broker_forgets_ends_as_its_transaction(
    kafka: Server, monkeypatch: pytest.MonkeyPatch, forgotten: str
) -> None:
    """A transaction whose time is over when its broker starts again ends there without a word in the partition, unless the
    coordinator knows the partition's leader by then: that is for the broker to say, and another one is begun. Of a commit it
    would be the same: here the checkpoint is committed by hand, as if only its partition had been told."""
    while True:
        with _begun(kafka) as (target, reader), _left_open(target, reader, kafka, forgotten) as (epochs, then, is_left):
            if not is_left:
                continue
            if forgotten == "a commit":
                with monkeypatch.context() as patched:
                    patched.setattr(changing, "end_forgotten", lambda *_: None)
                    with closing(changing.Changing(target.endpoint, JOB)) as other:
                        moved = checkpoint_value(replace(then, owner=epochs.now.owner))
                        until(partial(_is_changed, other, {CHECKPOINT: moved}), "the checkpoint is there")
            until(partial(_is_done, epochs, then), "the epoch is committed")
            reader.look()
            assert [one.sequence for one in reader.seen if one.value is not None] == [1, 2]
            return


@contextmanager
def _left_open(
    target: KafkaTarget, reader: Reader, kafka: Server, forgotten: str
) -> Iterator[tuple[Epochs, Checkpoint, bool]]:
    """Commit an epoch, and begin a second one, whose time is over while its broker is away. Yields both, and whether the
    second is open in its partition behind that, though the coordinator has aborted it."""
    hasty = replace(target, options=replace(target.options, transaction_timeout_s=LIMIT_S))
    epochs = Epochs(AppendSubject(hasty, list))
    epochs.do(_batch(1))
    then = epochs.next(_batch(2))
    began = time.monotonic()
    assert epochs.appender.begin(epochs.now, then) is Begun.OPEN
    epochs.appender.append(_batch(2))
    if forgotten == "an abort of all":
        state = epochs.appender._changing  # type: ignore[attr-defined]  # a process dies in front of its commit
        state.write({CHECKPOINT: checkpoint_value(then)})
        assert not state.producer.flush(LIMIT_S)
    anything = Reader(kafka, reader.topics, isolation="read_uncommitted")
    second = until(
        lambda: [one for one in anything.look() if one.sequence == 2], "the second transaction is in its partition"
    )
    kafka.kill()
    until(lambda: time.monotonic() > began + LIMIT_S, "the transaction has taken longer than it may")
    kafka.start()
    until(lambda: has_given_up(kafka, f"anabranch.{JOB}"), "the coordinator has aborted the transaction")
    yield epochs, then, is_open(kafka, second[0])
    epochs.appender.close()


def _is_changed(other: changing.Changing, changes: changing.Changes) -> bool:
    try:
        other.change(
            lambda records: {} if CHECKPOINT in records and records[CHECKPOINT] == changes[CHECKPOINT] else changes
        )
    except TargetUnavailable as away:
        print(away)
        return False
    return True


def _done(epochs: Epochs, then: Checkpoint, batch: ChangeBatch) -> Begun:
    """Return how the epoch was found in the end, with what was missing of it done."""
    met = list[Begun]()
    until(lambda: _is_done(epochs, then, batch, met), "the epoch is committed")
    return met[-1]


def _is_done(
    epochs: Epochs, then: Checkpoint, batch: ChangeBatch | None = None, met: list[Begun] | None = None
) -> bool:
    """Look where the target is, and do what is missing of the epoch, by default the second, as apply does. `met` gets what was
    found."""
    try:
        found = epochs.appender.begin(epochs.now, then)
        if met is not None:
            met.append(found)
        if found is Begun.OPEN:
            epochs.appender.append(batch or _batch(2))
            epochs.appender.commit()
    except TargetUnavailable as away:
        print(away)
        return False
    return found in (Begun.OPEN, Begun.APPLIED)
