"""Rows that could not be converted, between blocks of lines."""

from __future__ import annotations

import pytest

from anabranch.rows.left_out import LeftOut, apart, as_lines, block

ROWS = [LeftOut({"id": "7", "v": None}, {"at": "year 20000"}), LeftOut({"id": "\0", "v": "a\nb"}, {"at": "?"})]
LINES = [b"\0k\t1\nb\t2\n", b"\0\n", b"\\N\t\\\\\n", b"\\\\\t1\n", b"\t\n", b"\n", b"\\t\n", b"\\0\n"]


def test_a_block_has_a_line_for_each_row_since_lines_are_counted() -> None:
    assert block(ROWS).count(b"\n") == len(ROWS)


@pytest.mark.parametrize("lines", LINES)
def test_lines_pass_whatever_they_begin_with(lines: bytes) -> None:
    taken: list[LeftOut] = []
    assert list(apart([lines, block(ROWS), lines], taken.append)) == [lines, lines] and taken == ROWS
    assert list(as_lines([lines], ["id", "v"])) == [lines]


def test_rows_become_lines_with_words_for_what_has_no_value() -> None:
    assert b"".join(as_lines([block(ROWS)], ["id", "v", "at"])) == b"7\t\\N\tyear 20000\n\0\ta\\nb\t?\n"
