"""The rows that topics tell, for verification: messages that are committed, folded by key, at a place of the job.

Nothing is kept at a cluster for it. A snapshot is a checkpoint and the offsets up to which partitions were written then: what
stands in front of these and belongs to a later transaction is left out by the position in its header. What does not live here:
what a message says (`rows/messages/told.py`), folding (`rows/messages/folding.py`).
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from anabranch.brokers.settings import patience
from anabranch.connectors.kafka.connection import administrator, end_of, reader
from anabranch.connectors.kafka.errors import translated
from anabranch.connectors.kafka.target import state_forms as forms
from anabranch.connectors.kafka.target.forgotten import NOBODY_READS
from anabranch.connectors.kafka.target.names import topic_name
from anabranch.connectors.kafka.target.options import KafkaTargetOptions
from anabranch.connectors.kafka.target.records import BECOMES_READABLE_S, PAUSE_S, Records
from anabranch.connectors.kafka.target.sequences import Place, first_one
from anabranch.connectors.kafka.target.topics import found_topics, refuse_changed
from anabranch.contracts import TargetReader, ValueRules
from anabranch.errors import TargetError, TargetUnavailable
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId
from anabranch.model.state import Checkpoint
from anabranch.model.table_life import TableState
from anabranch.rows.lines import escaped_line, parse_line
from anabranch.rows.messages.folding import counted, folded
from anabranch.rows.messages.format import POSITION
from anabranch.rows.messages.readers import READERS, refuse_unread
from anabranch.rows.messages.told import Told, ToldTable, require_whole
from anabranch.rows.net import TargetTable

AT_ONCE = 5_000  # messages that are taken from the client together
AT_MOST_S = 0.02  # for which they are waited for: the client gives fewer no sooner, also at the end of a partition
KEYS_AT_ONCE = 2_000
BLOCK = 1 << 20  # bytes of lines

Ends = dict[str, list[int]]  # of each topic, by partition
Choice = Callable[[Iterator[Told]], Iterator[Told]]


class _Part(NamedTuple):
    """A partition of a table's topic, and where its messages of the job begin."""

    topic: str
    number: int
    begin: int

    def __str__(self) -> str:
        return f"partition {self.number} of topic {self.topic}"


@dataclass(frozen=True)
class KafkaRows:
    """The rows that a job's topics tell. Picklable."""

    endpoint: Endpoint
    options: KafkaTargetOptions
    job: str

    def __post_init__(self) -> None:
        """Raise ConfigError for a format whose messages are not read back."""
        refuse_unread(self.options.format)

    def reader(self, rules: ValueRules) -> TargetReader:
        return KafkaRowReader(self.endpoint, self.options, self.job)


class KafkaRowReader:
    """Reads rows out of messages.

    Delivery: what is read in a snapshot is of the checkpoint that was told with it, however far the job goes on meanwhile."""

    def __init__(self, endpoint: Endpoint, options: KafkaTargetOptions, job: str) -> None:
        self._endpoint, self._options, self._job = endpoint, options, job
        self._records = Records(endpoint, job)
        self._client: AdminClient | None = None
        self._consumer: Consumer | None = None  # one for all partitions, one after another: it takes time to come
        self._ends: Ends | None = None  # of the snapshot, and up to which sequence; None: there is none
        self._last: int | None = None
        self._noted: dict[str, forms.NotedTopic] = {}

    # --- TargetReader ---------------------------------------------------------------------------------------------------

    def pieces(self, table: TargetTable, rows_per_piece: int) -> list[str]:
        return [json.dumps(part) for part in self._parts(table)]

    def lines(self, table: TargetTable, piece: str) -> Iterator[bytes]:
        part = _Part(*json.loads(piece))
        end = self._end(part)
        return _blocks(_rows(table, self._told(table, part, end), end - part.begin))

    def close(self) -> None:
        self._records.close()
        if self._consumer is not None:
            self._consumer.close()
        self._client = self._consumer = None

    # --- rows of which messages tell alone ------------------------------------------------------------------------------

    def has_all(self, table: TargetTable) -> bool:
        return forms.first_rows_key(self._topic(table).name) in self._records.there

    def keys(self, table: TargetTable, piece: str) -> Iterator[list[list[str | None]]]:
        part, key_of = _Part(*json.loads(piece)), self._reading(table).key
        end = self._end(part)

        def keys(told: Iterator[Told]) -> Iterator[Told]:
            return ((key_of(one[0]), None) for one in told if one is not None)

        for rows in folded(self._told(table, part, end, keys), end - part.begin):
            every = iter(rows)
            while some := [parse_line(one) for one in islice(every, KEYS_AT_ONCE)]:
                yield some

    # --- snapshots ------------------------------------------------------------------------------------------------------

    def place(self, job: str, table: TableId) -> tuple[Checkpoint, TableState] | None:
        at, key = self._opened(), forms.table_key(table)
        if at is None or key not in self._records.there:
            return None
        return at, forms.table_of(self._records.there, key, whole=False)

    def finds(self, table: TargetTable) -> bool:
        return bool(table.key)

    def lines_of(self, table: TargetTable, keys: Sequence[Sequence[str | None]]) -> Iterator[bytes]:
        """Yield rows of these keys, for which all partitions are read: no index leads to a key's messages."""
        wanted = {escaped_line(key)[:-1] for key in keys}
        key_of = self._reading(table).key

        def some(told: Iterator[Told]) -> Iterator[Told]:
            return (one for one in told if one is None or key_of(one[0]) in wanted)

        for part in self._parts(table):
            yield from _blocks(_rows(table, self._told(table, part, self._end(part), some), 0))

    def share(self, job: str) -> tuple[str, Checkpoint] | None:
        at = self._opened()
        return None if at is None else (json.dumps([at.position.sequence, self._ends]), at)

    def open_shared(self, shared: str) -> bool:
        self._last, self._ends = json.loads(shared)
        return True

    def leave(self) -> None:
        self._ends = self._last = None

    def _opened(self) -> Checkpoint | None:
        """Begin a snapshot: the checkpoint first, so that all its messages stand in front of where partitions end behind it."""
        self._records.refresh()
        at = forms.checkpoint_of(self._records.there)
        if at is None:
            return None
        self._topics()
        places = [(one.name, number) for one in self._noted.values() for number in range(one.partitions)]
        found = self._offsets(places, IsolationLevel.READ_UNCOMMITTED)
        self._last = at.position.sequence
        self._ends = {one.name: [found[one.name, n] for n in range(one.partitions)] for one in self._noted.values()}
        return at

    # --- topics and their offsets ---------------------------------------------------------------------------------------

    def _topic(self, table: TargetTable) -> forms.NotedTopic:
        self._topics()
        name = topic_name(self._options.topic, self._job, table.target)
        if name not in self._noted:
            raise TargetError(f"the job has noted no topic {name}", table=str(table.source))
        return self._noted[name]

    def _parts(self, table: TargetTable) -> list[_Part]:
        topic = self._topic(table)
        begins = topic.begins or (0,) * topic.partitions
        return [_Part(topic.name, number, begins[number]) for number in range(topic.partitions)]

    def _topics(self) -> None:
        """Look once which topics the job writes. Raises TargetError where one is not what it was."""
        if not self._noted:
            self._records.refresh()
            noted = forms.topics_of(self._records.there)
            refuse_changed(noted, found_topics(self._endpoint, noted))
            self._noted = noted

    def _end(self, part: _Part) -> int:
        """Return where a partition ends: in the snapshot, without what a transaction behind it has begun to write, else for
        readers of what is committed now."""
        place, until = (part.topic, part.number), time.monotonic() + BECOMES_READABLE_S
        if self._ends is not None and self._last is not None:
            end = self._ends[part.topic][part.number]
            return end if end <= part.begin else self._readable(place, end, self._last)
        written = self._offsets([place], IsolationLevel.READ_UNCOMMITTED)[place]
        while True:
            readable = self._offsets([place], IsolationLevel.READ_COMMITTED)[place]
            if readable >= written or time.monotonic() > until:
                return readable
            time.sleep(PAUSE_S)

    def _readable(self, place: Place, end: int, last: int) -> int:
        """Return `end`, or where what is readable ends in front of it, if nothing behind that belongs to what was committed
        up to the transaction `last`: messages stand in the order of transactions."""
        readable = self._offsets([place], IsolationLevel.READ_COMMITTED)[place]
        if readable >= end:
            return end
        with translated(f"read topic {place[0]}"):
            first = first_one(self._endpoint, place, readable, end)
        return readable if first is not None and first > last else end

    def _offsets(self, places: Sequence[tuple[str, int]], isolation: IsolationLevel) -> dict[tuple[str, int], int]:
        """Return where partitions end."""
        if not places:
            return {}
        limit = patience(self._endpoint)
        with translated("look where topics end"):
            self._client = self._client or administrator(self._endpoint)
            asked = {TopicPartition(*place): OffsetSpec.latest() for place in places}
            found = self._client.list_offsets(asked, isolation_level=isolation, request_timeout=limit)
            return {
                (one.topic, one.partition): end_of(told.result(limit + 1), one.topic, one.partition)
                for one, told in found.items()
            }

    # --- messages -------------------------------------------------------------------------------------------------------

    def _reading(self, table: TargetTable) -> ToldTable:
        return READERS[self._options.format](table, self._options.decimal)

    def _told(self, table: TargetTable, part: _Part, end: int, chosen: Choice = iter) -> Iterator[Told]:
        """Yield what a partition's messages say, as far as `chosen` leaves it. Raises TargetError for a strange one."""
        read = self._reading(table)
        for message in self._messages(part, end):
            try:
                yield from chosen(self._said(read, message))
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                where = f"offset {message.offset()} of {part}"
                what = f"the message at {where} is none of the format {self._options.format}"
                raise TargetError(
                    what, table=str(table.source), hint="nobody but the job may write to its topics"
                ) from error

    def _said(self, read: ToldTable, message: Any) -> Iterator[Told]:
        key, value = message.key(), message.value()
        if _is_nobodys(message):
            return
        sequence = _sequence(message)
        if self._last is not None and sequence > self._last:
            return
        if value is not None:
            yield from read.told(key, value, sequence)
        elif not self._options.is_single:  # there keys of several tables are alike; the delete is told in front of it
            yield read.gone(key)

    def _messages(self, part: _Part, end: int) -> Iterator[Any]:
        """Yield what is committed of a partition in front of an offset. Raises TargetUnavailable where that is not decided,
        TargetError where its first messages are gone."""
        at = part.begin
        if at >= end:
            return
        with translated(f"read topic {part.topic}"):
            consumer = self._consumer = self._consumer or reader(self._endpoint, begins="error")
            consumer.assign([TopicPartition(part.topic, part.number, at)])
            until = time.monotonic() + patience(self._endpoint)
            try:
                while True:
                    for message in consumer.consume(AT_ONCE, AT_MOST_S):
                        if _is_event(message, part):
                            at = max(at, message.offset())
                        elif message.offset() < end:
                            at = message.offset() + 1
                            yield message
                        else:
                            return
                        until = time.monotonic() + patience(self._endpoint)
                    if at >= end:
                        return
                    if time.monotonic() > until:
                        raise self._unreadable(part, at, end)
            finally:
                with suppress(RuntimeError):  # it was closed meanwhile
                    consumer.unassign()  # at rest it would ask the broker again and again

    def _unreadable(self, part: _Part, at: int, end: int) -> TargetUnavailable:
        """Return the error for a partition of which nothing more came. Raises what the brokers say of it."""
        place = part.topic, part.number
        readable = self._offsets([place], IsolationLevel.READ_COMMITTED)[place]
        if readable < end:
            hint = "a transaction that is open there ends with the job's next start, or when its time is over"
            return TargetUnavailable(f"{part} cannot be read up to offset {end}", hint=hint)
        what = f"no broker has given the messages of {part} behind offset {at} for {patience(self._endpoint):g} s"
        return TargetUnavailable(what, hint="they are readable up to its end: look at the broker that leads it")


def _is_event(message: Any, part: _Part) -> bool:
    """Return whether a message only says that everything was read that is readable now. Raises KafkaException, TargetError."""
    error = message.error()
    if error is not None and error.code() == KafkaError._AUTO_OFFSET_RESET:
        raise TargetError(
            f"{part} has lost the messages behind offset {part.begin}, so nobody can tell what its rows are",
            hint="cleanup.policy = delete removes messages by age and size (retention.ms, retention.bytes): topics that keep "
            "all of them, and compacted ones, can be compared",
        )
    if error is not None and error.code() != KafkaError._PARTITION_EOF:
        raise KafkaException(error)
    return error is not None


def _is_nobodys(message: Any) -> bool:
    """Return whether a message is there only so that a marker comes to its partition (forgotten.py)."""
    return message.value() is None and message.key() == NOBODY_READS and not message.headers()


def _sequence(message: Any) -> int:
    """Return the sequence of the transaction that a message belongs to, 0 for a row of the initial load."""
    return int(dict(message.headers() or ())[POSITION].partition(b"@")[0])


def _rows(table: TargetTable, told: Iterator[Told], messages: int) -> Iterator[bytes]:
    """Yield the rows that messages tell, without their newlines."""
    if not table.key:
        for lines in counted(told, messages):
            _refuse_negative(table, lines)
            yield from lines.elements()
        return
    for rows in folded(told, messages):
        for cells in rows.values():
            if cells is not None:
                yield b"\t".join(require_whole(table, cells))


def _refuse_negative(table: TargetTable, lines: Counter[bytes]) -> None:
    """Raise TargetError where more rows went than came."""
    if less := -sum(count for count in lines.values() if count < 0):
        raise TargetError(
            f"the table's topic tells of {less} rows that went more often than they came",
            table=str(table.source),
            hint="messages are missing there, or somebody else has written them: nobody can tell what its rows are",
        )


def _blocks(rows: Iterator[bytes]) -> Iterator[bytes]:
    block, size = list[bytes](), 0
    for row in rows:
        block.append(row)
        size += len(row)
        if size > BLOCK:
            yield b"\n".join([*block, b""])
            block, size = [], 0
    if block:
        yield b"\n".join([*block, b""])
