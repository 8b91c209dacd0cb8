"""Messages of pgoutput that wait, and the chunks that are made of them (no server: messages as the protocol has them)."""

from __future__ import annotations

import pytest

from anabranch.connectors.postgresql.source.message_buffer import Layout, MessageBuffer
from anabranch.errors import ValueRefused
from anabranch.rows.builder import ChunkBuilder
from anabranch.rows.chunk import META, Op, Shape
from anabranch.rows.refused import NO_TEXT
from rigs.pgoutput import SCHEMA, message

DEFAULT, FULL = Layout((0, 2), (True, False), 5), Layout((0, 2), (True, True), 5)


def one(kind: str, *values: bytes | str | None, old: tuple[bytes | str | None, ...] = (), mark: str = "") -> bytes:
    return message((kind, mark, old, values))


def rows(builder: ChunkBuilder) -> list[tuple[object, ...]]:
    """op, transaction, ordinal, shape, id, v of every image."""
    (table,) = builder.build("").tables
    batch, shapes = table.batch.to_pydict(), table.shapes
    read = zip(*(batch[name] for name in table.batch.schema.names[:META]), batch["id"], batch["v"], strict=True)
    return [(Op(op), tx, ordinal, shapes[shape], id, v) for op, tx, ordinal, shape, id, v in read]


def test_messages_become_images_of_their_transactions() -> None:
    builder = ChunkBuilder(MessageBuffer)
    buffer = builder.table(SCHEMA)
    assert isinstance(buffer, MessageBuffer)
    whole, key = Shape((True, True, True)), Shape((True, True, False))
    buffer.add(DEFAULT, one("I", b"1", b"a"), 0, 0)
    assert buffer.add(DEFAULT, one("U", b"1", "u"), 0, 1) == 2
    builder.commit("here", None, 5, 3)
    buffer.add(DEFAULT, one("D", old=(b"1", None), mark="K"), 1, 0)
    buffer.add(FULL, one("U", b"2", "u", old=(b"1", b"a"), mark="O"), 1, 1)
    builder.commit("there", None, 6, 3)
    buffer.add(DEFAULT, one("I", b"3", None), 2, 0)
    assert rows(builder) == [
        (Op.INSERT, 0, 0, whole, 1, "a"),
        (Op.BEFORE, 0, 1, key, 1, None),
        (Op.AFTER, 0, 2, Shape((True, True, False), (False, False, True)), 1, None),
        (Op.DELETE, 1, 0, key, 1, None),
        (Op.BEFORE, 1, 1, whole, 1, "a"),
        (Op.AFTER, 1, 2, whole, 2, "a"),
    ]
    builder.commit("later", None, 7, 1)  # what was of the open transaction stayed
    assert rows(builder) == [(Op.INSERT, 0, 0, whole, 3, None)]


def test_what_is_rolled_back_is_forgotten() -> None:
    builder = ChunkBuilder(MessageBuffer)
    buffer = builder.table(SCHEMA)
    assert isinstance(buffer, MessageBuffer)
    ordinal = 0
    for number in range(4):
        ordinal += buffer.add(DEFAULT, one("U", b"%d" % number, b"v"), 0, ordinal)
    builder.images = ordinal
    assert builder.take_back(4, lambda schema: False) == 4
    buffer.add(DEFAULT, one("I", b"9", b"v"), 0, 8)
    builder.commit("here", None, 5, 5)
    assert [(row[2], row[4]) for row in rows(builder)] == [(0, 0), (1, 0), (2, 1), (3, 1), (8, 9)]


def test_a_value_that_the_column_does_not_have_is_refused_by_name() -> None:
    builder = ChunkBuilder(MessageBuffer)
    buffer = builder.table(SCHEMA)
    assert isinstance(buffer, MessageBuffer)
    buffer.add(DEFAULT, one("I", b"x", b"v"), 0, 0)
    builder.commit("here", None, 5, 1)
    with pytest.raises(ValueRefused, match="column id"):
        builder.build("")


def test_rule_26_a_value_that_is_left_out_is_called_what_it_is() -> None:
    builder = ChunkBuilder(MessageBuffer)
    builder.carries = True
    buffer = builder.table(SCHEMA)
    assert isinstance(buffer, MessageBuffer)
    for id, v in ((b"1", b"a"), (b"x", b"b"), (b"3", b"\xff")):
        buffer.add(DEFAULT, one("I", id, v), 0, 0)
    builder.commit("here", None, 5, 3)
    (table,) = builder.build("").tables
    assert [(mark.row, mark.column, mark.what) for mark in table.unconverted] == [
        (1, 0, "text that is no int32"),
        (2, 2, NO_TEXT),
    ]
