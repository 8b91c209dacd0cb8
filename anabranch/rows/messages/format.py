"""Messages as formats make them of changes, and the contract of a format.

A connector asks for `begin`, then `messages` for each batch of an epoch, then `end`, and produces what it gets in that order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.rows.appended import ChangeBatch, Committed
from anabranch.rows.messages.partition import hashes
from anabranch.rows.messages.protobuf.numbers import Numbers
from anabranch.rows.net import TargetTable

EVERY = -1  # in place of a hash: the message goes to each partition of its topic

Header = tuple[str, bytes]
POSITION = "anabranch.position"  # the header that says to which transaction of the source a message belongs
Ints = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Message:
    """One message. `hash`: 31 bits, of which the rest of the division by the number of partitions is the partition, or EVERY.
    `value` None is a tombstone."""

    topic: str
    hash: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]
    table: TargetTable | None


@dataclass(frozen=True)
class Messages:
    """n messages in the order in which they are to be produced.

    Message i goes to `topics[topic[i]]`, has `key[i]` and `value[i]` (large_binary; a null key is none, a null value is a
    tombstone), the headers `headers[transaction[i]]`, and is about `tables[topic[i]]` (None: about no table). `hash[i]`: as of
    Message."""

    topics: tuple[str, ...]
    tables: tuple[TargetTable | None, ...]
    topic: Ints
    key: pa.LargeBinaryArray
    value: pa.LargeBinaryArray
    headers: tuple[tuple[Header, ...], ...]
    transaction: Ints
    hash: Ints

    def __len__(self) -> int:
        return len(self.topic)

    def each(self) -> Iterator[Message]:
        """Yield the messages one by one."""
        for topic, hash, transaction, key, value in self.columns():
            headers, table = self.headers[transaction], self.tables[topic]
            yield Message(self.topics[topic], hash, key, value, headers, table)

    def columns(self) -> Iterator[tuple[int, int, int, bytes | None, bytes | None]]:
        """Yield of each message its topic (a place), hash, transaction (a place), key and value."""
        columns = self.topic.tolist(), self.hash.tolist(), self.transaction.tolist(), _each(self.key), _each(self.value)
        yield from zip(*columns, strict=True)


def lengths(values: Any) -> npt.NDArray[np.int64]:
    """Return the bytes that each of n binary values has, 0 where it is null."""
    found: npt.NDArray[np.int64] = pc.fill_null(pc.binary_length(values), 0).to_numpy(zero_copy_only=False)
    return found


def _each(values: Any) -> Iterator[bytes | None]:
    """Yield binary values: several times as fast as through Arrow's scalars."""
    ends = np.frombuffer(values.buffers()[1] or b"", np.int64)[values.offset : values.offset + len(values) + 1].tolist()
    data = memoryview(values.buffers()[2] or b"")
    valid = values.is_valid().to_pylist() if values.null_count else [True] * len(values)
    for at, there in enumerate(valid):
        yield bytes(data[ends[at] : ends[at + 1]]) if there else None


@dataclass(frozen=True)
class Settings:
    """Settings of a job's format. `source`: the name of the source's connector; `database`: the one that it is connected to,
    "" where tables of many are followed. `topic` names the topic of a table; `transactions`: the topic that gets the beginnings
    and ends of transactions, "" for none. `schema`: values and keys say what they are made of. `tombstones`: a delete is
    followed by one. `decimal`: `string` or `precise`. `types`: the names of the types of a table's columns, as the source
    spells them where that is known. `schema_id`: makes a schema known under a subject's name and returns its number; None where
    no registry is named; `latest`: the latest schema of a subject, None where it has none. `fields`: the numbers of the
    fields of a table's columns, None where nobody has noted them; `note_fields` hears of others that messages now have.
    `named`: what schemas of a table's messages are named by, None: as its topic."""

    job: str
    source: str
    database: str
    topic: Callable[[TargetTable], str]
    transactions: str = ""
    schema: bool = False
    tombstones: bool = True
    decimal: str = "string"
    types: Callable[[TargetTable], Sequence[str]] = lambda table: [str(one) for one in table.types]
    schema_id: Callable[[str, str], int] | None = None
    latest: Callable[[str], str | None] = lambda subject: None
    fields: Callable[[TargetTable], Numbers | None] = lambda table: None
    note_fields: Callable[[TargetTable, Numbers], None] = lambda table, numbers: None
    named: Callable[[TargetTable], str] | None = None

    def name_of(self, table: TargetTable) -> str:
        return (self.named or self.topic)(table)


class Format(Protocol):
    """Makes messages of changes, epoch by epoch: a transaction is in one epoch whole, and may come in several batches."""

    def check(self, tables: Sequence[TargetTable]) -> list[str]:
        """Return why a column of these cannot be told, one line each; nothing where all can."""

    def begin(self) -> None:
        """Forget what the batches of an epoch before have told: one that has failed is made again."""

    def messages(self, batch: ChangeBatch) -> Messages:
        """Return what a batch is, in the log's order. Raises RowRefused for an image that lacks what the format needs."""

    def end(self) -> Messages:
        """Return what belongs behind an epoch's last batch."""


@dataclass(frozen=True)
class Piece:
    """Messages of one table: `order` (n of them each) says where they belong: transaction, ordinal, place inside the change."""

    topic: str
    table: TargetTable | None
    key: Any
    value: Any
    sequence: npt.NDArray[np.int64]
    ordinal: npt.NDArray[np.int64]
    place: npt.NDArray[np.int8]
    hash: Ints | None = None  # None: of the key


def together(pieces: Sequence[Piece], transactions: Sequence[Committed]) -> Messages:
    """Return the messages of all pieces in their order, with the headers of their transactions."""
    pieces = [piece for piece in pieces if len(piece.sequence)]
    headers = tuple(headers_of(one) for one in transactions)
    if not pieces:
        nothing, none = np.zeros(0, np.int32), pa.array([], pa.large_binary())
        return Messages((), (), nothing, none, none, headers, nothing, nothing)
    sequence = np.concatenate([piece.sequence for piece in pieces])
    ordinal, place = (np.concatenate([getattr(one, name) for one in pieces]) for name in ("ordinal", "place"))
    topic = np.repeat(np.arange(len(pieces), dtype=np.int32), [len(piece.sequence) for piece in pieces])
    known = np.array([one.sequence for one in transactions], np.int64)
    order = np.lexsort((place, ordinal, sequence))
    key, value = (_joined([getattr(one, name) for one in pieces], order) for name in ("key", "value"))
    given = [hashes(_wide(piece.key)) if piece.hash is None else piece.hash for piece in pieces]
    return Messages(
        tuple(piece.topic for piece in pieces),
        tuple(piece.table for piece in pieces),
        topic[order],
        key,
        value,
        headers,
        np.searchsorted(known, sequence[order]).astype(np.int32),
        np.concatenate(given)[order],
    )


def headers_of(transaction: Committed) -> tuple[Header, ...]:
    """Return the headers of a transaction's messages: its position as commands take it, and its name at the source."""
    position = f"{transaction.sequence}@{transaction.position}"
    return (
        (POSITION, position.encode()),
        ("anabranch.transaction", (transaction.gtid or position).encode()),
    )


def _joined(arrays: Sequence[Any], order: Any) -> Any:
    whole = pa.concat_arrays([_wide(one) for one in arrays])
    return whole if np.all(order[1:] > order[:-1]) else whole.take(pa.array(order))


def _wide(array: Any) -> Any:
    array = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
    return array.cast(pa.large_binary())
