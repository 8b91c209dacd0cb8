"""Messages read back: lines are those of which messages were made, and the last message of a key is its row."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from anabranch.errors import ConfigError, NotTold
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.rows.appended import ChangeBatch, Committed, Emptied, TableChanges
from anabranch.rows.chunk import Op
from anabranch.rows.line_columns import columns_of_lines
from anabranch.rows.messages import folding
from anabranch.rows.messages.format import Settings
from anabranch.rows.messages.plain import PlainFormat
from anabranch.rows.messages.readers import refuse_unread
from anabranch.rows.messages.told import PlainTold, Told, require_whole
from anabranch.rows.net import NOT_KNOWN, TargetTable
from anabranch.verify.canonical import Canonical

TYPES = {
    "id": LogicalType(Kind.TEXT),
    "number": LogicalType(Kind.UINT64),
    "price": LogicalType(Kind.DECIMAL, precision=10, scale=2),
    "ratio": LogicalType(Kind.FLOAT64),
    "data": LogicalType(Kind.BINARY),
    "day": LogicalType(Kind.DATE),
    "bits": LogicalType(Kind.BIT, length=12),
    "note": LogicalType(Kind.JSON),
    "flag": LogicalType(Kind.BOOLEAN),
}
NAMES = tuple(TYPES)
ITEM = TargetTable(TableId("shop", "item"), TableId("shop", "item"), NAMES, tuple(TYPES.values()), ("id",), NAMES)
LOOSE = TargetTable(TableId("shop", "item"), TableId("shop", "item"), NAMES, tuple(TYPES.values()), (), NAMES)
OTHER = TargetTable(TableId("shop", "other"), TableId("shop", "other"), NAMES, tuple(TYPES.values()), ("id",), NAMES)
LINES = [
    b'a\\tb\\\\\\nc"\t18446744073709551615\t-12.50\t0.1\t\\\\x00ff\t2026-11-28\t000000000101\t{"a": "\\\\n"}\ttrue',
    b"\t0\t0.00\tnan\t\\\\x\tinfinity\t000000000000\tnull\tfalse",
    b"z" + b"\t\\N" * 8,
]


def _messages(table: TargetTable, op: list[Op], *emptied: int) -> Iterator[tuple[bytes | None, bytes | None]]:
    """Messages of changes, one for each row of LINES."""
    rows, count = columns_of_lines(table, LINES[: len(op)]), len(op)
    numbers = np.ones(count, np.int64), np.arange(count, dtype=np.int64), np.zeros(count, np.int16)
    carried = np.ones((1, len(NAMES)), np.bool_)
    changes = TableChanges(table, np.array(op, np.int8), *numbers, carried, rows)
    batch = ChangeBatch((Committed(1, "bin.1:99", 5),), [changes], [Emptied(table, 1, at) for at in emptied])
    made = PlainFormat(Settings("job", "mysql", "", lambda table: "topic"))
    return ((one.key, one.value) for one in made.messages(batch).each())


def _told(table: TargetTable, messages: Iterator[tuple[bytes | None, bytes | None]]) -> list[Told]:
    read = PlainTold(table, "string")
    return [one for key, value in messages if value is not None for one in read.told(key, value, 1)]


def test_a_message_tells_the_line_of_which_it_was_made() -> None:
    told = _told(ITEM, _messages(ITEM, [Op.INSERT] * 3))
    rows = [b"\t".join(require_whole(ITEM, one[1])) for one in told if one and isinstance(one[1], tuple)]
    canonical = Canonical(ITEM)
    assert [canonical.rows(row + b"\n") for row in rows] == [canonical.rows(row + b"\n") for row in LINES]
    assert [PlainTold(ITEM, "string").key(one[0]) for one in told if one] == [row.partition(b"\t")[0] for row in LINES]
    assert _told(OTHER, _messages(ITEM, [Op.INSERT])) == [], "another table's"


def test_the_last_message_of_a_key_is_its_row_however_many_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    some = [(b"k%d" % (number % 50), (b"%d" % number, b"x")) for number in range(1000)]
    told: list[Told] = [*some, (b"k7", None), (b"k8", (b"new", None)), (b"k99", (b"only", None))]
    whole = {key: cells for part in folding.folded(told, len(told)) for key, cells in part.items()}
    assert whole[b"k7"] is None and whole[b"k8"] == (b"new", b"x"), "what a message leaves out is as it was"
    assert whole[b"k9"] == (b"959", b"x") and len(whole) == 51
    monkeypatch.setattr(folding, "MESSAGES", 100)
    parts = list(folding.folded(told, len(told)))
    assert len(parts) > 5 and {key: cells for part in parts for key, cells in part.items()} == whole
    emptied = list(folding.folded([*told, None, (b"k1", (b"1", b"y"))], len(told)))
    left = {key: cells for part in emptied for key, cells in part.items()}
    assert left.keys() == whole.keys(), "whose rows are gone is known still"
    assert [key for key, cells in left.items() if cells] == [b"k1"]


def test_rows_without_a_key_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    told = _told(LOOSE, _messages(LOOSE, [Op.INSERT, Op.DELETE]))
    assert [one[1] for one in told if one] == [1, -1]
    many: list[Told] = [(b"a", 1), (b"b", 1), (b"a", 1), (b"b", -1)] * 100
    monkeypatch.setattr(folding, "MESSAGES", 100)
    assert sum((part for part in folding.counted(many, len(many))), start=type(next(folding.counted([], 0)))()) == {
        b"a": 200
    }
    assert [+part for part in folding.counted([*many, None, (b"c", 1)], 0)] == [{b"c": 1}]


def test_an_emptied_table_and_a_message_of_an_earlier_definition_are_told() -> None:
    assert _told(ITEM, _messages(ITEM, [Op.INSERT], 1))[1] is None
    ((key, value),) = _messages(ITEM, [Op.INSERT])
    message: dict[str, Any] = json.loads(value or b"")
    del message["after"]["price"]
    (one,) = PlainTold(ITEM, "string").told(key, json.dumps(message).encode(), 1)
    assert one is not None and isinstance(one[1], tuple)
    with pytest.raises(NotTold, match="no column price: it is of an earlier definition"):
        require_whole(ITEM, one[1])
    with pytest.raises(KeyError):
        list(PlainTold(ITEM, "string").told(key, b"{}", 1))


def test_a_message_of_an_earlier_shape_has_no_column_that_anybody_can_read() -> None:
    """DECIMAL(10,2) became DECIMAL(10,4), or a column went and another of its name came: its texts look like those of today."""
    table = replace(ITEM, shaped=5)
    ((key, value),) = _messages(ITEM, [Op.INSERT])
    assert key is not None and value is not None
    told = [one for sequence in (0, 5, 6) for one in PlainTold(table, "string").told(key, value, sequence)]
    old, same, new = (one[1] for one in told if one is not None)
    assert isinstance(old, tuple) and set(old) == {None} and same == old
    assert isinstance(new, tuple) and None not in new
    partial = (*new[:-1], None)
    for last, why in ((old, "not behind transaction 5 of the trail"), (partial, "no column flag")):
        (found,) = folding.folded([(b"k", old), (b"k", last)], 2)
        cells = found[b"k"]
        assert cells is not None
        with pytest.raises(NotTold, match=why):
            require_whole(table, cells)
    message = {**json.loads(value), "after": None}
    assert list(PlainTold(table, "string").told(key, json.dumps(message).encode(), 5)) == [(key, None)]
    with pytest.raises(NotTold, match="the trail does not tell"):
        require_whole(replace(ITEM, shaped=NOT_KNOWN), old)


def test_a_format_that_is_not_read_back_is_named() -> None:
    refuse_unread("plain")
    with pytest.raises(ConfigError, match='format = "avro" are not read back'):
        refuse_unread("avro")
