"""The format `exbase`: messages with the members that exBase's delivery to Kafka has, so that their readers need not change.

Each is one object of eight members, always all of them; `oldColumnValues` and `newColumnValues` are objects, `{}` where there
is no such image; values are strings or null. docs/reference/kafka-messages.md has what exBase leaves open. What does not live
here: places of changes in their transactions (transactions.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.model.datatype import Kind, LogicalType
from anabranch.rows.appended import ChangeBatch, Committed, Emptied, TableChanges
from anabranch.rows.lines import texts
from anabranch.rows.messages import transactions
from anabranch.rows.messages.base64_text import base64_texts
from anabranch.rows.messages.format import Messages, Piece, Settings, together
from anabranch.rows.messages.images import TOMBSTONE, Events, Images, events_of, images_of, picked
from anabranch.rows.messages.json_text import compact, enclosed, joined, literal, quoted
from anabranch.rows.messages.plain import FLOATS, WORDS, name_of, truncation, without
from anabranch.rows.messages.transactions import BEHIND_ALL, Counts, Ended
from anabranch.rows.net import TargetTable

OPERATIONS = pa.array(["INSERT", "UPDATE", "DELETE", ""])
EMPTIED, COMMITTED = "TRUNCATE", "COMMIT"
NO_VALUES = "{}"
# Floats that are no numbers, as Arrow prints them and as the other formats name them.
NO_NUMBERS = (("nan", "NaN"), ("-nan", "NaN"), ("inf", "Infinity"), ("-inf", "-Infinity"))
Made = tuple[TargetTable, Images, Events]


def cell(type: LogicalType, array: Any) -> Any:
    """Return a column's values as JSON strings: the text form of their type, of bytes base64."""
    if type.carried in (Kind.BINARY, Kind.GEOMETRY):
        return enclosed(base64_texts(array))
    found = texts(type, array)
    if type.carried in WORDS:
        return quoted(found)
    for printed, shown in NO_NUMBERS if type.carried in FLOATS else ():
        found = pc.if_else(pc.equal(found, printed), shown, found)
    return enclosed(found)


class ExbaseFormat:
    """Makes messages of `exbase`. Of an epoch it remembers the transaction that may go on."""

    def __init__(self, settings: Settings) -> None:
        self._settings, self._counts = settings, Counts()

    def check(self, tables: Sequence[TargetTable]) -> list[str]:
        return []

    def begin(self) -> None:
        self._counts.begin()

    def messages(self, batch: ChangeBatch) -> Messages:
        made = [self._images(one) for one in batch.tables if len(one.op)]
        orders, _, ended = self._counts.places(_told(made, batch.emptied), batch.transactions)
        names = {one.sequence: transactions.name_of(one) for one in batch.transactions}
        totals = [total for total, _ in orders]
        pieces = [self._piece(one, names, total) for one, total in zip(made, totals[: len(made)], strict=True)]
        pieces += [
            self._emptied(one, names[one.sequence], int(total[0]))
            for one, total in zip(batch.emptied, totals[len(made) :], strict=True)
        ]
        return self._with(pieces, ended, batch.transactions)

    def end(self) -> Messages:
        return self._with([], self._counts.end(), ())

    def _with(self, pieces: list[Piece], ended: Sequence[Ended], known: Sequence[Committed]) -> Messages:
        """Add what tells that transactions are committed, where somebody wants to know."""
        more = {one.sequence: one for one in (*(each.transaction for each in ended), *known)}
        topic = self._settings.transactions
        told = [(one.transaction, BEHIND_ALL, *self._commit(one)) for one in ended if topic]
        pieces += [transactions.piece(topic, told)] if told else []
        return together(pieces, [more[sequence] for sequence in sorted(more)])

    def _images(self, changes: TableChanges) -> Made:
        images, settings = images_of(changes, cell), self._settings
        # All rows of a table without a key are in one partition: no row leaves it, so that an update is told as one.
        events = events_of(changes, images, settings.tombstones, splits=bool(changes.table.key))
        return changes.table, images, events

    def _piece(self, made: Made, names: dict[int, str], total: Any) -> Piece:
        table, images, events = made
        name = pa.array([literal(names[sequence]) for sequence in events.sequence.tolist()], pa.string())
        order = np.zeros(len(events.kind), np.int64)  # a tombstone has none, and no value either
        order[events.kind != TOMBSTONE] = total
        value = joined(
            [
                f'{{{self._database(table)},"commandType":"',
                OPERATIONS.take(pa.array(events.kind)),
                f'",{_object(table)},"transaction":{{"totalOrder":"',
                pa.array(order).cast(pa.string()),
                '","id":',
                name,
                '},"oldColumnValues":',
                _values(picked(images.rows, events.before)),
                ',"newColumnValues":',
                _values(picked(images.rows, events.after)),
                f',"dataColumnType":{self._types(table)}}}',
            ]
        )
        value = without(value, events.kind == TOMBSTONE)
        keyless = images.keys is None
        key = pa.nulls(len(events.keyed), pa.string()) if keyless else picked(images.keys, events.keyed)
        hash = np.zeros(len(events.keyed), np.int32) if keyless else None
        topic = self._settings.topic(table)
        return Piece(topic, table, key, value, events.sequence, events.ordinal, events.place, hash)

    def _database(self, table: TargetTable) -> str:
        return f'"sourceDatabaseName":{literal(self._settings.database or table.source.schema)}'

    def _types(self, table: TargetTable) -> str:
        return compact(dict(zip(table.columns, self._settings.types(table), strict=True)))

    def _emptied(self, one: Emptied, name: str, total: int) -> Piece:
        place = f'"transaction":{{"totalOrder":"{total}","id":{literal(name)}}}'
        value = f'{{{self._database(one.table)},"commandType":"{EMPTIED}",{_object(one.table)},{place},{_NOTHING}}}'
        return truncation(self._settings.topic(one.table), one, value)

    def _commit(self, one: Ended) -> tuple[str, str]:
        """Return key and value. `totalOrder` is the number of the transaction's messages, the order of the last of them."""
        name = transactions.name_of(one.transaction)
        place = f'"transaction":{{"totalOrder":"{sum(one.counts.values())}","id":{literal(name)}}}'
        database = f'"sourceDatabaseName":{literal(self._settings.database)}'
        value = f'{{{database},"commandType":"{COMMITTED}","objectOwner":"","objectName":"",{place},{_NOTHING}}}'
        return compact({"id": name}), value


_NOTHING = f'"oldColumnValues":{NO_VALUES},"newColumnValues":{NO_VALUES},"dataColumnType":{NO_VALUES}'


def _object(table: TargetTable) -> str:
    return f'"objectOwner":{literal(table.source.schema)},"objectName":{literal(table.source.name)}'


def _values(rows: Any) -> Any:
    return pc.fill_null(rows, NO_VALUES)


def _told(made: Sequence[Made], emptied: Sequence[Emptied]) -> list[transactions.Told]:
    """Return the messages that count, of tables and then of what was emptied."""
    found = []
    for table, _, events in made:
        counts = events.kind != TOMBSTONE
        found.append(
            transactions.Told(name_of(table), events.sequence[counts], events.ordinal[counts], events.place[counts])
        )
    for one in emptied:
        numbers = np.array([one.sequence]), np.array([one.ordinal]), np.zeros(1, np.int8)
        found.append(transactions.Told(name_of(one.table), *numbers))
    return found
