"""The format `debezium`: messages as Debezium's connectors write them, so that their readers need not know who wrote them.

https://debezium.io/documentation/reference/stable/connectors/mysql.html#mysql-events. docs/reference/kafka-messages.md lists
what is told otherwise on purpose. What does not live here: values of types (values.py), `source` (sources.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from anabranch.errors import RowRefused
from anabranch.model.datatype import LogicalType
from anabranch.rows.appended import ChangeBatch, Committed, Emptied, TableChanges
from anabranch.rows.messages import transactions
from anabranch.rows.messages.debezium.schemas import TRANSACTION_KEY, TRANSACTION_VALUE, key_schema, value_schema
from anabranch.rows.messages.debezium.sources import Parts, source_of, table_parts, transaction_parts
from anabranch.rows.messages.debezium.values import told, why_not_precise
from anabranch.rows.messages.format import Messages, Piece, Settings, together
from anabranch.rows.messages.images import (
    NONE,
    TOMBSTONE,
    UPDATE,
    WHOLE_ROWS,
    Events,
    Images,
    events_of,
    images_of,
    picked,
)
from anabranch.rows.messages.json_text import compact, joined
from anabranch.rows.messages.plain import keys_of, truncation, without
from anabranch.rows.messages.transactions import Counts, Ended
from anabranch.rows.net import TargetTable

OPERATIONS = pa.array(["c", "u", "d", ""])
FIRST = pa.array(["r"])  # a row that was there before the first change
Made = tuple[TargetTable, Images, Events]
Orders = tuple[Any, Any]  # places in the transaction, and among those of the table
Borders = tuple[list[Committed], list[Ended]]


class DebeziumFormat:
    """Makes messages of `debezium`. Of an epoch it remembers the transaction that may go on. `now`: nanoseconds since 1970."""

    def __init__(self, settings: Settings, now: Callable[[], int] = time.time_ns) -> None:
        self._settings, self._now, self._counts = settings, now, Counts()

    def check(self, tables: Sequence[TargetTable]) -> list[str]:
        if self._settings.decimal != "precise":
            return []
        return [
            f"column {name} of {table.source}: {why}"
            for table in tables
            for name, type in zip(table.columns, table.types, strict=True)
            if (why := why_not_precise(type))
        ]

    def begin(self) -> None:
        self._counts.begin()

    def messages(self, batch: ChangeBatch) -> Messages:
        places = {one.sequence: at for at, one in enumerate(batch.transactions)}
        made = [self._images(one) for one in batch.tables if len(one.op)]
        orders, borders = self._orders(made, batch)
        words = FIRST if batch.is_first else OPERATIONS
        about = self._settings.source, self._settings.job
        parts = [transaction_parts(*about, one, batch.is_first) for one in batch.transactions]
        pieces = [
            self._piece(one, parts, np.array([places[sequence] for sequence in one[2].sequence.tolist()]), order, words)
            for one, order in zip(made, orders[: len(made)], strict=True)
        ]
        pieces += [
            self._emptied(one, parts[places[one.sequence]], order)
            for one, order in zip(batch.emptied, orders[len(made) :], strict=True)
        ]
        return self._with(pieces, borders, batch.transactions)

    def end(self) -> Messages:
        ended = self._counts.end()
        return self._with([], ([], ended), [one.transaction for one in ended])

    def _with(self, pieces: list[Piece], borders: Borders, known: Sequence[Committed]) -> Messages:
        """Add the messages of transactions."""
        more = {one.sequence: one for one in (*(each.transaction for each in borders[1]), *known)}
        return together(pieces + self._borders(borders), [more[sequence] for sequence in sorted(more)])

    def _images(self, changes: TableChanges) -> Made:
        decimal, table = self._settings.decimal, changes.table

        def cell(type: LogicalType, array: Any) -> Any:
            return told(type, decimal).cell(type, array)

        def absent(type: LogicalType) -> str:
            if found := told(type, decimal).absent:
                return found
            raise RowRefused(f"the log lacks a value of type {type}", table=str(table.source), hint=WHOLE_ROWS)

        images = images_of(changes, cell, absent)
        return table, images, events_of(changes, images, self._settings.tombstones)

    def _orders(self, made: Sequence[Made], batch: ChangeBatch) -> tuple[Sequence[Orders | None], Borders]:
        """Return places inside the transactions, of the tables and then of those that were emptied, and which transactions
        begin and end, where somebody wants to know."""
        if not self._settings.transactions or batch.is_first:
            return [None] * (len(made) + len(batch.emptied)), ([], [])
        counted = []
        for table, _, events in made:
            counts = events.kind != TOMBSTONE
            numbers = events.sequence[counts], events.ordinal[counts], events.place[counts]
            counted.append(transactions.Told(collection(table), *numbers))
        for one in batch.emptied:
            numbers = np.array([one.sequence]), np.array([one.ordinal]), np.zeros(1, np.int8)
            counted.append(transactions.Told(collection(one.table), *numbers))
        orders, begun, ended = self._counts.places(counted, batch.transactions)
        return orders, (begun, ended)

    def _piece(self, made: Made, parts: Sequence[Parts], at: Any, order: Orders | None, operations: Any) -> Piece:
        table, images, events = made
        settings, topic = self._settings, self._settings.topic(table)
        front, times, position, names = (
            pa.array([getattr(part, which) for part in parts], pa.string()).take(pa.array(at))
            for which in ("front", "times", "place", "name")
        )
        database, name = table_parts(settings.source, table.source, settings.database)
        before = np.where((events.kind == UPDATE) & images.partial[events.before], NONE, events.before)
        value = joined(
            [
                f'{self._opening(table)}{{"before":',
                picked(images.rows, before),
                ',"after":',
                picked(images.rows, events.after),
                ',"source":{',
                front,
                f",{database},",
                times,
                f",{name},",
                position,
                '},"transaction":',
                *_block(events, names, order),
                ',"op":"',
                operations.take(pa.array(events.kind)),
                f'",{self._times()}}}{self._closing}',
            ]
        )
        key, hash = keys_of(images, events.keyed)
        if settings.schema and table.key:
            key = joined([key_schema(table, settings.name_of(table), settings.decimal), key, "}"])
        value = without(value, events.kind == TOMBSTONE)
        return Piece(topic, table, key, value, events.sequence, events.ordinal, events.place, hash)

    def _opening(self, table: TargetTable) -> str:
        settings = self._settings
        return (
            value_schema(table, settings.name_of(table), settings.decimal, settings.source) if settings.schema else ""
        )

    @property
    def _closing(self) -> str:
        return "}" if self._settings.schema else ""

    def _times(self) -> str:
        now = self._now()
        return f'"ts_ms":{now // 1_000_000},"ts_us":{now // 1000},"ts_ns":{now}'

    def _emptied(self, one: Emptied, parts: Parts, order: Orders | None) -> Piece:
        settings, topic = self._settings, self._settings.topic(one.table)
        database, name = table_parts(settings.source, one.table.source, settings.database)
        block = "null" if order is None else _block_text(parts.name, int(order[0][0]), int(order[1][0]))
        value = (
            f'{self._opening(one.table)}{{"before":null,"after":null,'
            f'"source":{{{parts.front},{database},{parts.times},{name},{parts.place}}},'
            f'"transaction":{block},"op":"t",{self._times()}}}{self._closing}'
        )
        return truncation(topic, one, value)

    def _borders(self, borders: Borders) -> list[Piece]:
        """Return the messages of transactions that begin and end."""
        begun, ended = borders
        told = [(one, transactions.BEFORE_ALL, *self._border("BEGIN", one, None)) for one in begun]
        told += [
            (one.transaction, transactions.BEHIND_ALL, *self._border("END", one.transaction, one.counts))
            for one in ended
        ]
        topic = self._settings.transactions
        return [transactions.piece(topic, told)] if topic and told else []

    def _border(self, status: str, one: Committed, counts: dict[str, int] | None) -> tuple[str, str]:
        """Return key and value."""
        name = source_of(self._settings.source).name(one)
        tables = [{"data_collection": table, "event_count": count} for table, count in (counts or {}).items()]
        value = {
            "status": status,
            "id": name,
            "event_count": None if counts is None else sum(counts.values()),
            "data_collections": None if counts is None else tables,
            "ts_ms": one.commit_time // 1000,
        }
        if not self._settings.schema:
            return compact({"id": name}), compact(value)
        return f"{TRANSACTION_KEY}{compact({'id': name})}}}", f"{TRANSACTION_VALUE}{compact(value)}}}"


def collection(table: TargetTable) -> str:
    """Return a table's name as transactions list it."""
    return f"{table.source.schema}.{table.source.name}"


def _block(events: Events, names: Any, order: Orders | None) -> list[Any]:
    """Return the parts of `transaction`."""
    if order is None:
        return ["null"]
    counts = events.kind != TOMBSTONE
    numbers = []
    for one in order:
        spread = np.zeros(len(events.kind), np.int64)  # a tombstone has none, and no value either
        spread[counts] = one
        numbers.append(pa.array(spread).cast(pa.string()))
    return ['{"id":', names, ',"total_order":', numbers[0], ',"data_collection_order":', numbers[1], "}"]


def _block_text(name: str, total: int, own: int) -> str:
    return f'{{"id":{name},"total_order":{total},"data_collection_order":{own}}}'
