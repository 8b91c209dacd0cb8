"""The format `plain`: one JSON object for each change, with the images before and after it as texts and numbers.

`{"op": "insert", "table": "shop.orders", "position": "4711@…", "commit_time": "…Z", "ordinal": 0, "before": null,
"after": {…}}`; the key is an object of the key columns. Integers and floats are numbers, bytes are base64, all else is the text
form of its kind (model/datatype.py). A column that the log does not have is not there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from anabranch.model.datatype import Kind, LogicalType
from anabranch.rows.appended import ChangeBatch, Committed, Emptied, TableChanges
from anabranch.rows.lines import texts
from anabranch.rows.messages.format import EVERY, Messages, Piece, Settings, together
from anabranch.rows.messages.images import TOMBSTONE, Images, events_of, images_of, picked
from anabranch.rows.messages.json_text import base64_texts, enclosed, floats, joined, literal, quoted
from anabranch.rows.messages.partition import hashes
from anabranch.rows.net import TargetTable

OPERATIONS = pa.array(["insert", "update", "delete", ""])
FIRST = pa.array(["read"])  # a row that was there before the first change
INTEGERS = frozenset(
    {Kind.INT8, Kind.INT16, Kind.INT32, Kind.INT64, Kind.UINT8, Kind.UINT16, Kind.UINT32, Kind.UINT64, Kind.YEAR}
)
FLOATS = frozenset({Kind.FLOAT32, Kind.FLOAT64})
WORDS = frozenset({Kind.TEXT, Kind.ENUM, Kind.SET, Kind.JSON, Kind.NATIVE})


def cell(type: LogicalType, array: Any) -> Any:
    """Return a column's values as JSON texts."""
    if type.carried in INTEGERS:
        return texts(type, array)
    if type.carried in FLOATS:
        return floats(array)
    if type.carried in (Kind.BINARY, Kind.GEOMETRY):
        return base64_texts(array)
    return quoted(texts(type, array)) if type.carried in WORDS else enclosed(texts(type, array))


@dataclass(frozen=True)
class PlainFormat:
    """Makes messages of `plain`. It remembers nothing."""

    settings: Settings

    def check(self, tables: Sequence[TargetTable]) -> list[str]:
        return []

    def begin(self) -> None: ...

    def messages(self, batch: ChangeBatch) -> Messages:
        places = {one.sequence: at for at, one in enumerate(batch.transactions)}
        transactions = [transaction_text(one) for one in batch.transactions]
        words = FIRST if batch.is_first else OPERATIONS
        pieces = [self._piece(changes, places, transactions, words) for changes in batch.tables if len(changes.op)]
        pieces += [self._emptied(one, transactions[places[one.sequence]]) for one in batch.emptied]
        return together(pieces, batch.transactions)

    def end(self) -> Messages:
        return together([], [])

    def _piece(
        self, changes: TableChanges, places: dict[int, int], transactions: Sequence[str], operations: Any
    ) -> Piece:
        images = images_of(changes, cell)
        events = events_of(changes, images, self.settings.tombstones)
        at = np.array([places[sequence] for sequence in events.sequence.tolist()])
        kind = operations.take(pa.array(events.kind))
        value = joined(
            [
                '{"op":"',
                kind,
                f'","table":{literal(name_of(changes.table))},',
                pa.array(transactions, pa.string()).take(pa.array(at)),
                ',"ordinal":',
                pa.array(events.ordinal).cast(pa.string()),
                ',"before":',
                picked(images.rows, events.before),
                ',"after":',
                picked(images.rows, events.after),
                "}",
            ]
        )
        value = without(value, events.kind == TOMBSTONE)
        key, hash = keys_of(images, events.keyed)
        topic = self.settings.topic(changes.table)
        return Piece(topic, changes.table, key, value, events.sequence, events.ordinal, events.place, hash)

    def _emptied(self, one: Emptied, transaction: str) -> Piece:
        value = (
            f'{{"op":"truncate","table":{literal(name_of(one.table))},{transaction},"ordinal":{one.ordinal},'
            '"before":null,"after":null}'
        )
        return truncation(self.settings.topic(one.table), one, value)


def name_of(table: TargetTable) -> str:
    """Return a table's name in messages: as the source has it."""
    return f"{table.source.schema}.{table.source.name}"


def transaction_text(one: Committed) -> str:
    """Return what each message of a transaction says about it, as members of an object."""
    moment = np.datetime64(one.commit_time, "us")
    return f'"position":{literal(f"{one.sequence}@{one.position}")},"commit_time":"{moment}Z"'


def truncation(topic: str, one: Emptied, value: str | None) -> Piece:
    """Return the message of an emptied table: it goes to each partition, since rows of all of them are gone."""
    sequence, ordinal = (np.array([number], np.int64) for number in (one.sequence, one.ordinal))
    key = pa.array([None], pa.large_string())
    every = np.array([EVERY], np.int32)
    return Piece(
        topic, one.table, key, pa.array([value], pa.large_string()), sequence, ordinal, np.zeros(1, np.int8), every
    )


def without(values: Any, gone: Any) -> Any:
    """Return values with null where `gone` says so."""
    return values if not gone.any() else values.take(pa.array(np.arange(len(values)), mask=gone))


def keys_of(images: Images, keyed: Any) -> tuple[Any, Any]:
    """Return the keys of events, and None, or no keys and hashes of images for a table without a key."""
    if images.keys is not None:
        return picked(images.keys, keyed), None
    rows = picked(images.rows, keyed)
    return pa.nulls(len(keyed), pa.string()), hashes(rows.cast(pa.large_string()).cast(pa.large_binary()))
