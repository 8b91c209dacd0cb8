"""Rows of a load as column files: what was written comes back byte by byte, and damage is said."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.errors import TrailCorrupt
from anabranch.rows.lines import escaped_line
from anabranch.trail_end import chunk_files

ODD = ["\ufeff", "\\N", "", "\r\n", "\t", '"a"']
TEXTS = st.one_of(st.none(), st.text(st.characters(codec="utf-8"), max_size=8), st.sampled_from(ODD))


def file_in(directory: Path) -> Path:
    (directory / "load").mkdir(exist_ok=True)
    return directory


@given(
    rows=st.lists(st.tuples(TEXTS, TEXTS, TEXTS), max_size=12), cut=st.integers(0, 12), picked=st.permutations("abc")
)
def test_lines_come_back_in_any_selection_of_columns(
    rows: list[tuple[str | None, ...]], cut: int, picked: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    trail = file_in(tmp_path_factory.mktemp("trail"))
    lines = [escaped_line(row) for row in rows]
    written = chunk_files.write(trail, "load/1.arrow", "abc", [b"".join(lines[:cut]), b"", b"".join(lines[cut:])])
    assert written.rows == len(rows)
    found = b"".join(chunk_files.joined(cells) for cells in chunk_files.read(trail, written.name, picked[:2]))
    places = ["abc".index(name) for name in picked[:2]]
    assert found == b"".join(escaped_line([row[place] for place in places]) for row in rows)


@given(rows=st.lists(TEXTS, max_size=8))
def test_a_table_of_one_column_has_lines_without_a_character(
    rows: list[str | None], tmp_path_factory: pytest.TempPathFactory
) -> None:
    trail = file_in(tmp_path_factory.mktemp("trail"))
    block = b"".join(escaped_line([row]) for row in rows)
    written = chunk_files.write(trail, "load/1.arrow", ["a"], [block])
    assert b"".join(map(chunk_files.joined, chunk_files.read(trail, written.name, ["a"]))) == block


def test_bytes_that_are_no_text_come_back(tmp_path: Path) -> None:
    block = b"\xff\xfe\t\x00\n"
    written = chunk_files.write(file_in(tmp_path), "load/1.arrow", "ab", [block])
    assert b"".join(map(chunk_files.joined, chunk_files.read(tmp_path, written.name, "ab"))) == block


def test_a_changed_or_missing_file_is_refused(tmp_path: Path) -> None:
    written = chunk_files.write(file_in(tmp_path), "load/1.arrow", "ab", [b"1\t2\n"])
    chunk_files.check(tmp_path, written)
    path = tmp_path / written.name
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(TrailCorrupt, match="not the file that was written"):
        chunk_files.check(tmp_path, written)
    path.unlink()
    with pytest.raises(TrailCorrupt, match="is missing"):
        chunk_files.check(tmp_path, written)
    with pytest.raises(TrailCorrupt, match="is missing"):
        list(chunk_files.read(tmp_path, written.name, "ab"))


def test_an_error_on_the_way_leaves_no_file(tmp_path: Path) -> None:
    def blocks():  # type: ignore[no-untyped-def] # a generator that fails
        yield b"1\t2\n"
        raise ValueError("the source is away")

    with pytest.raises(ValueError, match="the source is away"):
        chunk_files.write(file_in(tmp_path), "load/1.arrow", "ab", blocks())
    assert os.listdir(tmp_path / "load") == []
