"""Row messages of pgoutput, against a reader that takes them byte by byte (no server: messages as the protocol has them)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.connectors.postgresql.source.row_images import ABSENT, NULL, UNCHANGED, Images, images
from anabranch.rows.chunk import Op
from rigs.pgoutput import Change, Row, Value, message


def expected(changes: Sequence[Change], key: Sequence[bool]) -> list[tuple[Op, Row]]:
    found: list[tuple[Op, Row]] = []
    for kind, mark, old, new in changes:
        if mark == "K":
            old = tuple(v if k else "-" for v, k in zip(old, key, strict=True))
        if kind == "I":
            found.append((Op.INSERT, new))
        elif kind == "D":
            found.append((Op.DELETE, old))
        else:
            known = old if mark == "O" else new
            now = tuple(o if n == "u" else n for n, o in zip(new, known, strict=True))
            before = old if mark else tuple(v if k else "-" for v, k in zip(new, key, strict=True))
            found += [(Op.BEFORE, before), (Op.AFTER, now)]
    return found


def shown(found: Images) -> list[tuple[Op, Row]]:
    columns = [found.column(place).to_pylist() for place in range(found.cells.tags.shape[1])]
    none: dict[int, Value] = {ABSENT: "-", UNCHANGED: "u", NULL: None}
    rows = (
        tuple(none.get(int(tag), columns[place][number]) for place, tag in enumerate(tags))
        for number, tags in enumerate(found.cells.tags)
    )
    return [(Op(op), row) for op, row in zip(found.op, rows, strict=True)]


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[Change], list[bool]]:
    columns = draw(st.integers(1, 5))
    key = draw(st.lists(st.booleans(), min_size=columns, max_size=columns))
    value = st.one_of(st.none(), st.binary(max_size=6))
    row = st.tuples(*[value] * columns)
    now = st.tuples(*[st.one_of(value, st.just("u"))] * columns)
    inserts = st.tuples(st.just("I"), st.just(""), row, row)
    deletes = st.tuples(st.just("D"), st.sampled_from("KO"), row, row)
    updates = st.tuples(st.just("U"), st.sampled_from(["", "K", "O"]), row, now)
    return draw(st.lists(st.one_of(inserts, deletes, updates), max_size=12)), key


@settings(max_examples=300)
@given(histories(), st.booleans())
def test_images_are_what_the_messages_say(history: tuple[list[Change], list[bool]], is_streamed: bool) -> None:
    changes, key = history
    head = b"\0\0\0\1\0\0\0\7" if is_streamed else b"\0\0\0\7"
    found = images([message(change, head) for change in changes], key, 1 + len(head))
    assert shown(found) == expected(changes, key)
    per_message = [2 if change[0] == "U" else 1 for change in changes]
    assert [list(found.message).count(number) for number in range(len(changes))] == per_message


def test_a_null_outside_the_identity_is_no_null() -> None:
    changes: list[Change] = [("U", "K", (b"1", None), (b"2", "u")), ("D", "K", (b"2", None), ())]
    found = images([message(change) for change in changes], [True, False])
    assert shown(found) == [(Op.BEFORE, (b"1", "-")), (Op.AFTER, (b"2", "u")), (Op.DELETE, (b"2", "-"))]


def test_a_whole_row_before_says_what_was_left_as_it_was() -> None:
    changes: list[Change] = [("U", "O", (b"1", b"large", None), (b"1", "u", b"x"))]
    found = images([message(change) for change in changes], [False, False, False])
    assert shown(found) == [(Op.BEFORE, (b"1", b"large", None)), (Op.AFTER, (b"1", b"large", b"x"))]


INSERT, UPDATE = message(("I", "", (), (b"one", None))), message(("U", "K", (b"1", None), (b"1", None)))


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (INSERT[:-1], "unknown kind|longer|shorter"),
        (INSERT + b"n", "longer or shorter"),
        (INSERT[:5], "without a tuple"),
        (b"X" + INSERT[1:], "none about a row"),
        (INSERT[:5] + b"K" + INSERT[6:], "of another kind"),
        (INSERT[:7] + b"\3" + INSERT[8:], "another number of columns"),
        (INSERT[:8] + b"z" + INSERT[9:], "unknown kind in column 1"),
        (INSERT[:9] + b"\xff" + INSERT[10:], "longer than its message"),
        (b"D" + INSERT[1:], "of another kind"),
        (UPDATE[:-10] + b"O" + UPDATE[-9:], "without its row"),
    ],
)
def test_what_is_no_such_message_is_refused(wrong: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        images([INSERT, wrong, INSERT], [True, False])


@settings(max_examples=500)
@given(st.binary(max_size=40))
def test_noise_is_refused_or_read_and_never_crashes(noise: bytes) -> None:
    try:
        found = images([noise], [True, False])
    except ValueError:
        return
    assert len(found.op) in (1, 2)
