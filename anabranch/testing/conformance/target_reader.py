"""Conformance of a target's TargetReader, and of a HashingReader's fingerprints, seen on rows that its own Loader has loaded.

What does not live here: the tables that all of a target's roles use (`writer.py`), values of every type (tests of a connector).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import replace
from hashlib import sha256
from itertools import pairwise

from anabranch.contracts import Bounds, HashingReader, KeptReader, PlacedReader, RangedReader, TargetReader
from anabranch.errors import TargetError
from anabranch.rows.fingerprint import MODULUS, Fingerprint, Hashed, Hashing
from anabranch.rows.lines import parse_line
from anabranch.rows.net import TableNet, TargetTable
from anabranch.testing.conformance.epochs import JOB, RULES, Epochs, Line, Target, arrow, make, rows, table
from anabranch.testing.conformance.subject import refuses

# Words that a line escapes, that look like NULL, that end in blanks, that differ by their case.
WORDS = (None, "", "\\N", "tab\t nl\n cr\r back\\slash", "'quoted' \"twice\"", "ünï😀", "blanks  ", "A", "a")


def _many(count: int) -> list[Line]:
    """Rows with gaps between their keys."""
    return [(str(n * n), None if n % 3 else str(n), WORDS[n % len(WORDS)]) for n in range(count)]


def _piece_by_piece(target: Target, of: TargetTable, rows_per_piece: int) -> list[list[Line]]:
    with closing(target.connector.reader(RULES)) as reader:
        found = []
        for piece in reader.pieces(of, rows_per_piece):
            blocks = list(reader.lines(of, piece))
            assert all(block.endswith(b"\n") for block in blocks), "a block is whole lines"
            found.append([tuple(parse_line(line)) for block in blocks for line in block.split(b"\n")[:-1]])
    return found


def a_table_without_rows_is_read(target: Target) -> None:
    assert rows(target, make(target, table("a"))) == []


def words_come_back_as_they_went(target: Target) -> None:
    there = [(str(number), None, word) for number, word in enumerate(WORDS)]
    assert rows(target, make(target, table("a"), there)) == sorted(there, key=str)


def pieces_are_the_table(target: Target) -> None:
    there = _many(900)
    of = make(target, table("a"), there)
    for size in (50, 10_000):
        pieces = _piece_by_piece(target, of, size)
        assert Counter(row for piece in pieces for row in piece) == Counter(there)


def ranges_are_those_of_their_numbers(target: Target) -> None:
    """Whoever has cut them: lower < key <= upper, open ends, negative numbers, nothing between."""
    there: list[Line] = [(str(number), str(number // 3), "word") for number in range(-5, 40)]
    of = make(target, table("a"), there)
    ends = [None, ("-3",), ("0",), ("9",), ("100",), None]
    bounds = [Bounds(low, high) for low, high in pairwise(ends)]
    with closing(target.connector.reader(RULES)) as reader:
        assert isinstance(reader, RangedReader)
        pieces = reader.ranges(of, ["id"], bounds)
        found = [{int(row[0] or 0) for row in _rows_of(reader, of, piece)} for piece in pieces]
        (whole,) = reader.ranges(of, ["id"], [Bounds()])
        assert len(_rows_of(reader, of, whole)) == len(there)
        assert reader.ranges(of, ["parent"], bounds) == [], "no index begins with it"
    assert found == [{-5, -4, -3}, {-2, -1, 0}, set(range(1, 10)), set(range(10, 40)), set()]


def ranges_of_two_columns_go_by_both(target: Target) -> None:
    there: list[Line] = [(str(one), str(two), "word") for one in range(3) for two in range(-2, 3)]
    of = make(target, replace(table("a"), key=("parent", "id")), [(two, one, word) for one, two, word in there])
    with closing(target.connector.reader(RULES)) as reader:
        assert isinstance(reader, RangedReader)
        (piece,) = reader.ranges(of, ["parent", "id"], [Bounds(("0", "1"), ("2", "-1"))])
        found = sorted((int(row[1] or 0), int(row[0] or 0)) for row in _rows_of(reader, of, piece))
        (leading,) = reader.ranges(of, ["parent"], [Bounds(("0",), ("1",))])
        assert {row[1] for row in _rows_of(reader, of, leading)} == {"1"}
    assert found == [(0, 2), *((1, two) for two in range(-2, 3)), (2, -2), (2, -1)]


def _rows_of(reader: TargetReader, of: TargetTable, piece: str) -> list[list[str | None]]:
    return [parse_line(line) for line in b"".join(reader.lines(of, piece)).split(b"\n")[:-1]]


def equal_rows_of_a_keyless_table_come_each(target: Target) -> None:
    there: list[Line] = [("1", None, "same")] * 3 + [("1", "2", "same"), ("2", None, "same")]
    pieces = _piece_by_piece(target, make(target, table("a", has_key=False), there), 2)
    assert Counter(row for piece in pieces for row in piece) == Counter(there)


def a_reader_reads_again(target: Target) -> None:
    """Also one who left before the end."""
    of = make(target, table("a"), _many(50))
    with closing(target.connector.reader(RULES)) as reader:
        (piece,) = reader.pieces(of, 1000)
        lines = reader.lines(of, piece)
        next(lines)
        del lines
        assert b"".join(reader.lines(of, piece)).count(b"\n") == 50


def a_table_that_is_not_there_is_refused(target: Target) -> None:
    make(target, table("a"))
    with closing(target.connector.reader(RULES)) as reader:
        refuses(TargetError, lambda: reader.pieces(table("nowhere"), 100))


# --- rows beside the checkpoint ---------------------------------------------------------------------------------------


def rows_are_found_by_their_keys(target: Target) -> None:
    """Words as they are, whatever else the target takes for equal."""
    there = [(str(number), None, word) for number, word in enumerate(WORDS)]
    of = make(target, table("a"), there)
    with closing(target.connector.reader(RULES)) as reader:
        assert isinstance(reader, PlacedReader) and reader.finds(of)
        found = b"".join(reader.lines_of(of, [("3",), ("404",), ("7",)])).split(b"\n")[:-1]
        assert sorted(tuple(parse_line(line)) for line in found) == [there[3], there[7]]
        assert list(reader.lines_of(of, [])) == []
    words = replace(of, key=("word", "id"))
    with closing(target.connector.reader(RULES)) as reader:
        assert isinstance(reader, PlacedReader)
        for number, word in enumerate(WORDS):
            if word is not None:
                lines = b"".join(reader.lines_of(words, [(word, str(number)), ("no", "1")])).split(b"\n")[:-1]
                assert [tuple(parse_line(line)) for line in lines] == [there[number]]


def rule_25_rows_and_checkpoint_are_of_one_moment(target: Target) -> None:
    """A snapshot shows an epoch's rows together with its checkpoint, however long it is open."""
    of = make(target, table("a"), [("1", None, "before")])
    with Epochs(target) as epochs, closing(target.connector.reader(RULES)) as reader:
        assert isinstance(reader, PlacedReader)
        assert reader.place("nobody", of.source) is None
        begun = reader.place(JOB, of.source)
        assert begun is not None and begun[0].position.sequence == 0 and begun[1].source == of.source
        epochs.merge(TableNet(of, inserts=arrow(("2", None, "after"))))
        assert _words(reader, of) == ["before"]
        behind = reader.place(JOB, of.source)
        assert behind is not None and behind[0].position.sequence > 0 and behind[1].schema is None
        assert _words(reader, of) == ["before", "after"]
        reader.leave()
        assert _words(reader, of) == ["before", "after"]


def rule_25_a_kept_snapshot_is_of_one_moment(target: Target) -> None:
    """It shows all tables as they were with the checkpoint, also after they were let go."""
    of, other = make(target, table("a"), [("1", None, "before")]), make(target, table("b"), [("1", None, "b")])
    with Epochs(target) as epochs, closing(target.connector.reader(RULES)) as reader:
        if not isinstance(reader, KeptReader):
            return
        assert reader.keep("nobody") is None
        begun = reader.keep(JOB)
        assert begun is not None and begun.position.sequence == 0
        epochs.merge(TableNet(of, inserts=arrow(("2", None, "after"))))
        for one in (of, other, of):
            (piece,) = reader.pieces(one, 1000)
            assert len(_rows_of(reader, one, piece)) == 1
            reader.release()
        behind = reader.keep(JOB)
        assert behind is not None and behind.position.sequence > 0
        assert len(_rows_of(reader, of, reader.pieces(of, 1000)[0])) == 2


def _words(reader: PlacedReader, of: TargetTable) -> list[str | None]:
    lines = b"".join(reader.lines_of(of, [("1",), ("2",)])).split(b"\n")[:-1]
    return [row[2] for row in sorted(tuple(parse_line(line)) for line in lines)]


# --- fingerprints -----------------------------------------------------------------------------------------------------


def _hashed(of: TargetTable) -> list[Hashed]:
    return [Hashed(name, type, name not in of.key) for name, type in zip(of.columns, of.types, strict=True)]


def _sum(reader: HashingReader, of: TargetTable, hashing: Hashing, pieces: Iterable[str]) -> Fingerprint:
    parts = [reader.fingerprint(of, _hashed(of), piece, hashing) for piece in pieces]
    return sum((part for part in parts if part is not None), Fingerprint())


def fingerprints_of_pieces_add_up(target: Target) -> None:
    of, other = make(target, table("a"), _many(300)), make(target, table("b"), list(reversed(_many(300))))
    with closing(target.connector.reader(RULES)) as reader:
        if not isinstance(reader, HashingReader):
            return
        for hashing in reader.hashings:
            whole = _sum(reader, of, hashing, reader.pieces(of, 100_000))
            assert whole.rows == 300
            assert whole == _sum(reader, of, hashing, reader.pieces(of, 40))
            assert whole == _sum(reader, other, hashing, reader.pieces(other, 70))


def fingerprints_tell_rows_apart(target: Target) -> None:
    """A value in another column or row, NULL for the empty text, a row twice."""
    usual: list[Line] = [("1", "2", "x"), ("2", None, "")]
    others: list[list[Line]] = [
        [("1", "2", ""), ("2", None, "x")],
        [("2", "1", "x"), ("1", None, "")],
        [("1", "2", "x"), ("2", None, None)],
        [("1", None, "2x"), ("2", None, "")],
        [("1", "2", "x"), ("2", None, " ")],
        [("1", "2", "X"), ("2", None, "")],
    ]
    made = [make(target, table(f"t{number}"), there) for number, there in enumerate([usual, *others])]
    with closing(target.connector.reader(RULES)) as reader:
        if not isinstance(reader, HashingReader):
            return
        for hashing in reader.hashings:
            sums = [_sum(reader, of, hashing, reader.pieces(of, 1000)) for of in made]
            assert len(set(sums)) == len(sums) and all(one.rows == 2 for one in sums)


def sha256_is_that_of_the_texts(target: Target) -> None:
    """So it is the same at every server."""
    there = [(str(number), None, word) for number, word in enumerate(WORDS)]
    of = make(target, table("a"), there)
    with closing(target.connector.reader(RULES)) as reader:
        if isinstance(reader, HashingReader) and Hashing.SHA256 in reader.hashings:
            assert _sum(reader, of, Hashing.SHA256, reader.pieces(of, 1000)) == of_texts(there)


def of_texts(there: Iterable[Line]) -> Fingerprint:
    """The fingerprint by SHA-256, as rows/fingerprint.py says it."""
    found = Fingerprint()
    for row in there:
        text = b"\xff".join(b"\xfe" if value is None else value.encode() for value in row)
        found += Fingerprint(1, int(sha256(text).hexdigest()[:16], 16) % MODULUS)
    return found


CHECKS: tuple[Callable[[Target], None], ...] = (
    a_table_without_rows_is_read,
    words_come_back_as_they_went,
    pieces_are_the_table,
    ranges_are_those_of_their_numbers,
    ranges_of_two_columns_go_by_both,
    equal_rows_of_a_keyless_table_come_each,
    a_reader_reads_again,
    a_table_that_is_not_there_is_refused,
    rows_are_found_by_their_keys,
    rule_25_rows_and_checkpoint_are_of_one_moment,
    rule_25_a_kept_snapshot_is_of_one_moment,
    fingerprints_of_pieces_add_up,
    fingerprints_tell_rows_apart,
    sha256_is_that_of_the_texts,
)
