"""The rows that a table had before its first change, as messages: all of them and the table's state are one Kafka transaction.

What does not live here: where the rows come from (`lifecycle/first_rows.py`), what a message of one is (`rows/messages/`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from itertools import chain, islice

import numpy as np
import pyarrow as pa
from confluent_kafka import KafkaException

from anabranch.brokers import codes
from anabranch.connectors.kafka.errors import translated_error
from anabranch.connectors.kafka.target import state_forms as forms
from anabranch.connectors.kafka.target.changing import FORGOTTEN, LOOKED_UP, Changing
from anabranch.connectors.kafka.target.formats import format_for, registry_of
from anabranch.connectors.kafka.target.names import topic_name
from anabranch.connectors.kafka.target.options import KafkaTargetOptions
from anabranch.connectors.kafka.target.producing import Producing, settings_of
from anabranch.connectors.kafka.target.records import Key, Value
from anabranch.connectors.kafka.target.store import require_same
from anabranch.connectors.kafka.target.topics import found_topics, refuse_changed
from anabranch.errors import AnabranchError, TargetError, TargetUnavailable
from anabranch.model.endpoint import Endpoint
from anabranch.model.table_life import TableState
from anabranch.rows.appended import ChangeBatch, Committed, TableChanges
from anabranch.rows.chunk import Op
from anabranch.rows.messages.format import Format, Messages
from anabranch.rows.messages.protobuf.numbers import Numbers
from anabranch.rows.net import TargetTable

TOO_LONG = "raise [target.options] transaction_timeout_s, and transaction.max.timeout.ms of the brokers"


class KafkaFirstRows:
    """Delivery: a table's rows and its state are committed together; of a load that died a reader of committed messages sees
    nothing."""

    def __init__(self, endpoint: Endpoint, options: KafkaTargetOptions) -> None:
        self._endpoint, self._options = endpoint, options

    def load(
        self,
        job: str,
        before: TableState,
        after: Callable[[int], TableState],
        table: TargetTable,
        place: Committed,
        rows: Iterator[pa.Table],
    ) -> int:
        with closing(Changing(self._endpoint, job, settings_of(self._options))) as changing:
            producer = changing.begin()
            require_same(job, changing.records.there, table.source, before)
            noted = forms.topics_of(changing.records.there)
            found = found_topics(self._endpoint, noted)
            refuse_changed(noted, found)
            fields: dict[Key, Value | None] = {}
            registry = registry_of(self._options, self._endpoint)
            made = format_for(self._options, job, changing.records.there, registry, partial(_note_fields, fields))
            producing = Producing(self._options, noted, {name: one.largest for name, one in found.items()})
            producing.begin()
            told = _told(made, table, place, rows)
            # The first messages have the schemas registered: a registry that is away, or refuses them, meets no open
            # transaction.
            first, count = list(islice(told, 1)), 0
            began = time.monotonic()
            try:
                producer.begin_transaction()
                for size, messages in chain(first, told):
                    producing.produce(producer, messages)
                    count += size
                topic = topic_name(self._options.topic, job, table.target)
                changes = {**forms.table_values(after(count)), **fields, forms.first_rows_key(topic): {}}
                changing.write(changes)
                is_readable = changing.commit(changes, producing.places)
            except KafkaException as error:
                raise self._lost(producing.cause(producer, error), time.monotonic() - began) from error
            except BaseException:
                changing.abort()
                raise
            if not is_readable:
                changing.begin()
                if not changing.has(changes):
                    raise TargetUnavailable(FORGOTTEN, hint=LOOKED_UP)
            return count

    def close(self) -> None: ...

    def _lost(self, cause: AnabranchError | KafkaException, seconds: float) -> AnabranchError:
        """Return the error of a load that is given up: its producer is closed, whoever begins next ends its transaction."""
        if isinstance(cause, AnabranchError):
            return cause
        told, limit = codes.of(cause), self._options.transaction_timeout_s
        if told.code() not in codes.FENCED:
            return translated_error(told, "load a table")
        if seconds >= limit:
            return TargetError(f"the rows of a table took longer than {limit} seconds to write", hint=TOO_LONG)
        return TargetUnavailable(
            "another process has written the job's state while a table was loaded", hint="try again"
        )


def _told(
    made: Format, table: TargetTable, place: Committed, rows: Iterator[pa.Table]
) -> Iterator[tuple[int, Messages]]:
    """Yield the messages of rows block by block, each time with the number of rows."""
    count = 0
    for block in rows:
        yield len(block), made.messages(_batch(table, place, block, count))
        count += len(block)


def _note_fields(fields: dict[Key, Value | None], table: TargetTable, numbers: Numbers) -> None:
    fields |= forms.fields_values(table.source, numbers)


def _batch(table: TargetTable, place: Committed, rows: pa.Table, count: int) -> ChangeBatch:
    size = len(rows)
    op, ordinal = np.full(size, Op.INSERT, np.int8), np.arange(count, count + size, dtype=np.int64)
    sequence, shape = np.full(size, place.sequence, np.int64), np.zeros(size, np.int16)
    carried = np.ones((1, len(table.columns)), np.bool_)
    return ChangeBatch((place,), [TableChanges(table, op, sequence, ordinal, shape, carried, rows)], is_first=True)
