"""States of a history's tables at a Kafka (targets.Snapshots): what a reader of committed messages has, transaction by
transaction.

Topics have no snapshot. Partitions are read up to ends at which all of them stood still together, with nothing open between two
looks; of what came, each look shows the rows behind the source's next transaction, so that every one of them is seen by itself.
What does not live here: what a message tells (kafka_fold.py), which states are right (check.py).
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from anabranch.testing.databases import Database
from anabranch.testing.torture.kafka_fold import Contradiction, Fold, Told, read_value
from anabranch.testing.torture.tables import LEDGER, Column
from anabranch.testing.torture.targets import Snapshot

POSITION = "anabranch.position"  # the header that names a message's transaction
SECONDS = 10.0  # that a broker has for an answer
TOGETHER = 500  # messages that are taken at once

Place = tuple[str, int]  # topic and partition
Ends = Mapping[Place, int]


def administrator(target: Database) -> AdminClient:
    """Return a client that knows the brokers. A look for leaders over the line to the address that it was given is lost with
    that line, and sent again three seconds later."""
    made = AdminClient({"bootstrap.servers": f"{target.server.host}:{target.server.port}", "log_level": 0})
    with suppress(KafkaException, TimeoutError):  # where no broker answers its next call says so
        made.describe_cluster(request_timeout=1.0).result(2.0)
    return made


def _taken(consumer: Consumer, seconds: float) -> list[Any]:
    """Return messages that have come; where there are none wait so long for one. `consume` by itself waits until it has as many
    as it may return, or for all of its time."""
    first = consumer.poll(seconds)
    return [] if first is None else [first, *consumer.consume(TOGETHER, 0)]


def state_of(job: str) -> str:
    """Return the topic with the state of a job."""
    return f"anabranch.{job}"


@dataclass
class KafkaSnapshots:
    """`columns`: of each table, whose topic is `namespace.table`. What was read stays over a line that was lost."""

    target: Database
    namespace: str
    columns: Mapping[str, Sequence[Column]]
    _administrator: AdminClient | None = field(default=None, init=False)
    _consumer: Consumer | None = field(default=None, init=False)
    _places: list[Place] = field(default_factory=list, init=False)
    _at: dict[Place, int] = field(default_factory=dict, init=False)  # up to which each partition was taken
    _waiting: list[Told] = field(default_factory=list, init=False)  # taken, and behind the ends of the last cut
    _pending: list[tuple[int, list[Told]]] = field(default_factory=list, init=False)  # transactions, in their order
    _begins: int | None = field(default=None, init=False)  # the transaction from which on all tables stream
    _last: int = field(default=0, init=False)  # that was shown
    _wrong: str = field(default="", init=False)

    def __post_init__(self) -> None:
        self._folds = {table: Fold(table, columns) for table, columns in self.columns.items()}
        self._topics = {f"{self.namespace}.{table}": table for table in self.columns}

    def read(self) -> Snapshot:
        """Return the rows behind the next transaction, or the same again. All tables are away until all of them stream."""
        if self._begins is None:
            self._begin()
        if self._begins is None:
            return Snapshot(dict.fromkeys(self.columns, b""), {}, frozenset(self.columns))
        if not self._wrong and not self._pending:
            self._pull()
        if not self._wrong and self._pending:
            self._show(*self._pending.pop(0))
        contents = {table: fold.contents for table, fold in self._folds.items()}
        if self._wrong:  # a line that no table of the source has says what is wrong
            contents[next(table for table in contents if table != LEDGER)] = self._wrong.encode() + b"\n"
        return Snapshot(contents, {}, frozenset())

    @property
    def has_more(self) -> bool:
        """Return whether there is a state behind the last one that was read. Raises KafkaException."""
        if not self._wrong and self._begins is not None and not self._pending:
            self._pull()
        return bool(self._pending) and not self._wrong

    def streams(self) -> bool:
        return self._state() is not None

    def close(self) -> None:
        if self._consumer is not None:
            self._consumer.close()
        self._consumer = self._administrator = None

    # --- where the judgement begins ---------------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Begin as soon as all tables stream: rows of the load are of several moments, whole transactions come behind them."""
        found = self._state()
        if found is None:
            return
        told = self._client().list_topics(timeout=SECONDS).topics
        self._places = [(topic, number) for topic in self._topics for number in told[topic].partitions]
        self._at = dict.fromkeys(self._places, 0)
        self._begins = found

    def _state(self) -> int | None:
        """Return the transaction up to which the job had come when all tables streamed first; None before. It is the job's own
        word, in the records of its state."""
        place = (state_of(self.namespace), 0)
        if place[0] not in self._client().list_topics(timeout=SECONDS).topics:
            return None
        end = self._ends([place], IsolationLevel.READ_COMMITTED)[place]
        states, at = dict[str, str](), None
        with closing(self._records(place, end)) as records:
            for key, value in records:
                if key[0] == "table":
                    states[str(key[1])] = value["state"] if value else ""
                elif key[0] == "checkpoint" and value:
                    at = int(value["sequence"])
                if len(states) >= len(self.columns) and set(states.values()) == {"streaming"}:
                    return at
        return None

    def _records(self, place: Place, end: int) -> Generator[tuple[list[Any], Any]]:
        """Yield the records of a job's state, in their order."""
        consumer = self._reader()
        try:
            consumer.assign([TopicPartition(*place, 0)])
            at = 0
            while at < end:
                for message in _taken(consumer, 0.2):
                    at = max(at, _behind(message))
                    if message.error() is None:
                        value = message.value()
                        yield json.loads(message.key()), None if value is None else json.loads(value)
        finally:
            consumer.close()

    # --- what came ----------------------------------------------------------------------------------------------------------

    def _pull(self) -> None:
        """Take what is committed behind the last cut, as whole transactions of the source. Raises KafkaException."""
        ends = self._cut()
        if ends is None or (all(self._at[place] >= end for place, end in ends.items()) and not self._waiting):
            return
        self._take(ends)
        by_sequence, waiting = dict[int, list[Told]](), list[Told]()
        for one in self._waiting:
            is_behind = one.offset >= ends[f"{self.namespace}.{one.table}", one.partition]
            (waiting if is_behind else by_sequence.setdefault(one.sequence, [])).append(one)
        self._waiting = waiting
        assert self._begins is not None, "it was asked"
        for sequence, told in sorted(by_sequence.items()):
            if sequence <= self._begins:
                self._show(sequence, told)
            else:
                self._pending.append((sequence, told))

    def _cut(self) -> Ends | None:
        """Return ends at which all partitions stood at one moment with nothing open or undecided; None where there was none."""
        found = None
        for _ in range(2):
            ends = self._ends(self._places, IsolationLevel.READ_COMMITTED)
            if ends != self._ends(self._places, IsolationLevel.READ_UNCOMMITTED) or ends != (found or ends):
                return None
            found = ends
        return found

    def _take(self, ends: Ends) -> None:
        if self._consumer is None:
            self._consumer = self._reader()
            self._consumer.assign([TopicPartition(*place, self._at[place]) for place in self._places])
        while any(self._at[place] < end for place, end in ends.items()):
            messages = _taken(self._consumer, SECONDS)
            if not messages:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "a partition is not read up to its end"))
            for message in messages:
                place = message.topic(), message.partition()
                self._at[place] = max(self._at[place], _behind(message))
                if message.error() is None and (told := self._told(message)) is not None:
                    self._waiting.append(told)

    def _told(self, message: Any) -> Told | None:
        """Return what a message tells; None for one that only carries a marker, and says nothing."""
        headers = dict(message.headers() or ())
        if message.value() is None and message.key() == b"[]":
            return None
        value = read_value(message.value())
        copies = sum(topic == message.topic() for topic, _ in self._places)
        return Told(
            self._topics[message.topic()],
            message.partition(),
            message.offset(),
            message.key(),
            value,
            int(headers[POSITION].partition(b"@")[0]),
            copies if value is not None and value["op"] == "truncate" else 1,
        )

    # --- one transaction ----------------------------------------------------------------------------------------------------

    def _show(self, sequence: int, told: Sequence[Told]) -> None:
        try:
            if sequence < self._last or (sequence == self._last and sequence):
                raise Contradiction(f"it comes behind transaction {self._last}: {told[0]}")
            for one in in_order(told):
                self._folds[one.table].take(one)
        except Contradiction as wrong:
            self._wrong = f"{type(wrong).__name__}: {wrong}".replace("\n", " ")
        self._last = sequence

    # --- the cluster --------------------------------------------------------------------------------------------------------

    def _client(self) -> AdminClient:
        self._administrator = self._administrator or administrator(self.target)
        return self._administrator

    def _reader(self) -> Consumer:
        settings = {"group.id": "torture", "enable.auto.commit": False, "auto.offset.reset": "earliest", "log_level": 0}
        settings |= {"fetch.wait.max.ms": 20}
        address = f"{self.target.server.host}:{self.target.server.port}"
        isolation = {"isolation.level": "read_committed", "enable.partition.eof": True}
        return Consumer({"bootstrap.servers": address} | settings | isolation)

    def _ends(self, places: Sequence[Place], isolation: IsolationLevel) -> Ends:
        asked = {TopicPartition(*place): OffsetSpec.latest() for place in places}
        found = self._client().list_offsets(asked, isolation_level=isolation, request_timeout=SECONDS)
        ends = {(one.topic, one.partition): told.result(SECONDS + 1).offset for one, told in found.items()}
        if any(end < 0 for end in ends.values()):  # an answer without an end: the leader is just away
            raise KafkaException(KafkaError(KafkaError._TRANSPORT, "a partition has no end"))
        return ends


def in_order(told: Sequence[Told]) -> Iterator[Told]:
    """Yield the messages of one transaction in the source's order, a TRUNCATE once. Raises Contradiction where a partition has
    them in another one, a delete without its tombstone, or a TRUNCATE in other than each partition once."""
    placed, last = list[tuple[tuple[int, int], Told]](), dict[Place, Told]()
    places = dict[Place, tuple[int, int]]()
    for one in sorted(told, key=lambda one: (one.table, one.partition, one.offset)):
        at = one.table, one.partition
        before, place = last.get(at), one.place
        is_gone = before is not None and before.op == "delete" and before.key is not None
        if is_gone != (one.op == "tombstone") or (is_gone and before is not None and before.key != one.key):
            raise Contradiction(f"a delete and its tombstone are apart: {before} | {one}")
        place = (places[at][0], 1) if one.op == "tombstone" else place
        if place < places.get(at, (-1, 0)):
            raise Contradiction(f"it stands behind a later one: {before} | {one}")
        last[at], places[at] = one, place
        placed.append((place, one))
    if left := [one for one in last.values() if one.op == "delete" and one.key is not None]:
        raise Contradiction(f"a delete without its tombstone: {left[0]}")
    emptied: dict[tuple[str, int], list[Told]] = {}
    for place, one in sorted(placed, key=lambda found: found[0]):
        if one.op == "truncate":
            emptied.setdefault((one.table, place[0]), []).append(one)
            if len(emptied[one.table, place[0]]) > 1:
                continue
        yield one
    for copies in emptied.values():
        if sorted(one.partition for one in copies) != list(range(copies[0].copies)):
            raise Contradiction(f"not every partition is told once: {copies[0]}")


def _behind(message: Any) -> int:
    """Return the offset behind a message, or at which a partition ends. Raises KafkaException."""
    error = message.error()
    if error is None:
        return int(message.offset()) + 1
    if error.code() == KafkaError._PARTITION_EOF:
        return int(message.offset())
    raise KafkaException(error)
