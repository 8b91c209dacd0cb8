"""Fingerprints of lines: what they tell apart, what has none. That servers make the same is shown on servers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.model.datatype import Kind, LogicalType
from anabranch.rows.compiled import NATIVE
from anabranch.rows.fingerprint import MOST_COLUMNS, Fingerprint, Hashed, are_hashed, form_of, of_lines

NEEDS_COMPILED = pytest.mark.skipif(NATIVE is None, reason="the compiled code is not installed (make native)")
TEXT, INT, LONG, CLOCK = map(LogicalType, (Kind.TEXT, Kind.INT32, Kind.INT64, Kind.TIMESTAMP))


def columns(*types: LogicalType, nullable: bool = True) -> list[Hashed]:
    return [Hashed(f"c{number}", type, nullable) for number, type in enumerate(types)]


def of(rows: list[bytes], *types: LogicalType, nullable: bool = True) -> Fingerprint | None:
    return of_lines([b"".join(row + b"\n" for row in rows)], columns(*types, nullable=nullable))


CELLS = st.sampled_from([b"\\N", b"", b"a", b"b", b"ab", b"\\\\N", b"x" * 40])
ROWS = st.lists(st.tuples(CELLS, CELLS).map(b"\t".join), max_size=12)


@NEEDS_COMPILED
@given(ROWS, ROWS)
def test_pitfall_48_equal_fingerprints_mean_equal_bags(one: list[bytes], other: list[bytes]) -> None:
    assert (of(one, TEXT, TEXT) == of(other, TEXT, TEXT)) == (sorted(one) == sorted(other))


@NEEDS_COMPILED
@given(ROWS, st.integers(0, 12))
def test_pieces_add_up_in_any_order(rows: list[bytes], cut: int) -> None:
    first, second, whole = (of(some, TEXT, TEXT) for some in (rows[:cut], rows[cut:], rows))
    assert first is not None and second is not None
    assert second + first == whole


@NEEDS_COMPILED
@pytest.mark.parametrize(
    ("type", "different"),
    [
        (TEXT, [b"", b"\\N", b"\\\\N", b"a", b"a ", b"A", b"a\\tb", b"a\\\\tb", b"a\\nb", "\u00e4".encode()]),
        (INT, [b"0", b"\\N", b"1", b"-1", b"2147483647", b"-2147483648"]),
        (LONG, [b"0", b"\\N", b"-1", b"1", b"4294967295", b"4294967296", b"4294967297", b"-4294967297", b"8589934592"]),
        (
            CLOCK,
            [
                b"\\N", b"2000-01-01 00:00:00.000000", b"2000-01-01 00:00:00.000001", b"1999-12-31 23:59:59.999999",
                b"0001-01-01 00:00:00.000000", b"9999-12-31 23:59:59.999999", b"2024-02-29 00:00:00.000000",
                b"2024-03-01 00:00:00.000000", b"2024-06-11 09:56:03", b"2024-07-16 09:50:20", b"2024-03-01 00:00:00.1",
                b"2024-03-01 00:00:00+00", b"2024-03-01 00:00:10", b"",
            ],
        ),
    ],
)  # fmt: skip
def test_values_are_told_apart(type: LogicalType, different: list[bytes]) -> None:
    found = [of([cell], type) for cell in different]
    assert None not in found and len(set(found)) == len(different)


@NEEDS_COMPILED
def test_one_value_in_two_spellings_is_one() -> None:
    assert of([b"2024-01-01 10:00:00"], CLOCK) == of([b"2024-01-01 10:00:00.000000"], CLOCK)
    assert of([b"2024-01-01 10:00:00.5+00"], CLOCK) == of([b"2024-01-01 10:00:00.500000+00"], CLOCK)
    assert of([b"a\\bb"], TEXT) == of([b"a\bb"], TEXT)


@NEEDS_COMPILED
def test_what_is_where_counts() -> None:
    assert of([b"a\tb", b"c\td"], TEXT, TEXT) != of([b"a\td", b"c\tb"], TEXT, TEXT)
    assert of([b"a\tb"], TEXT, TEXT) != of([b"b\ta"], TEXT, TEXT)
    assert of([b"\\N\t"], TEXT, TEXT) != of([b"\t\\N"], TEXT, TEXT)
    assert of([b"ab\tc"], TEXT, TEXT) != of([b"a\tbc"], TEXT, TEXT)


@NEEDS_COMPILED
@given(st.integers(0, 69), st.integers(0, 69))
def test_each_of_many_columns_tells_its_null(one: int, other: int) -> None:
    def row(place: int) -> bytes:
        return b"\t".join(b"\\N" if number == place else b"" for number in range(70))

    assert (of([row(one)], *[TEXT] * 70) == of([row(other)], *[TEXT] * 70)) == (one == other)


@NEEDS_COMPILED
@pytest.mark.parametrize(
    ("row", "type"),
    [
        (b"\\N", TEXT), (b"\\N", INT), (b"\\N", LONG), (b"\\N", CLOCK), (b"2147483648", INT), (b"", INT), (b"1.5", LONG),
        (b"99999999999999999999", LONG), (b"a\tb", TEXT), (b"a\\", TEXT),
    ],
)  # fmt: skip
def test_rows_that_are_not_what_they_were_to_be_have_none(row: bytes, type: LogicalType) -> None:
    assert of([row], type, nullable=False) is None


@NEEDS_COMPILED
def test_half_a_line_has_none() -> None:
    assert of_lines([b"a\nb"], columns(TEXT)) is None
    assert of_lines([b"a\n", b"b\n"], columns(TEXT)) == of([b"b", b"a"], TEXT)


def test_which_columns_have_a_form() -> None:
    assert form_of(LogicalType(Kind.FLOAT64)) is None and form_of(LogicalType(Kind.JSON)) is None
    assert form_of(LogicalType(Kind.FLOAT64, native="double precision")) is not None  # both ends print it alike
    assert form_of(LogicalType(Kind.TEXT, target="uuid")) is None
    assert are_hashed([TEXT, INT]) and not are_hashed([TEXT, LogicalType(Kind.DURATION)])
    assert not are_hashed([]) and not are_hashed([TEXT] * (MOST_COLUMNS + 1))


def test_without_compiled_code_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anabranch.rows.compiled.NATIVE", None)
    assert of_lines([b"a\n"], columns(TEXT)) is None
