"""A bag of rows as two numbers, which a server can make of its rows itself: how many there are, and the sum of their hashes.

Both ends of a pair take the same of several ways (Hashing). By LOOKUP3 a row's hash goes from column to column, each
hashed with the hash of those before it as its seed: first, where columns may be NULL, which of them are, 31 of them as one
number; then each value by its form, a NULL as the form's empty value. The functions are those of lookup3 that PostgreSQL has
for hash partitions, the same on every release of it since 11.
https://www.postgresql.org/docs/current/ddl-partitioning.html · https://burtleburtle.net/bob/c/lookup3.c

By SHA256 it is the first 64 bits of that over the row's texts in UTF-8, one behind the other: between them a byte 0xFF and in
place of a NULL a byte 0xFE, which no such text has. A row with a NULL where none may be has no hash, or another one. By
SHA256_FULL moments have all the decimals that the source's column has, and no zone: as servers of one family print them.

Sums are modulo 2**64, and add up. What does not live here: the functions as SQL (the connectors), in compiled code
(native/src/hashes.rs).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum, StrEnum

from anabranch.model.datatype import Kind, LogicalType
from anabranch.rows.json_texts import is_json

FLAGS = 31  # columns that may be NULL, in one number
MODULUS = 1 << 64
MOST_COLUMNS = 200  # each is a call within a call of SQL


class Hashing(StrEnum):
    """The functions that make a row's hash. Where both ends have several, the first of these is taken."""

    LOOKUP3 = "lookup3"  # compiled code makes it as well, of lines
    SHA256_FULL = "sha256-full"
    SHA256 = "sha256"


class Form(IntEnum):
    """The part of a value that is hashed, and what stands for NULL. The numbers are those of native/src/fingerprint.rs."""

    TEXT = 0  # its text form · no character
    INT32 = 1  # the number · 0
    INT64 = 2  # its upper half as INT32, then the number · 0
    CLOCK = 3  # as TEXT, without zeros at the end of the decimals: as PostgreSQL prints it


@dataclass(frozen=True, slots=True)
class Hashed:
    """A column as it goes into a row's hash."""

    name: str
    type: LogicalType
    nullable: bool

    @property
    def form(self) -> Form:
        found = form_of(self.type)
        assert found is not None, f"{self.name} has no form"
        return found


@dataclass(frozen=True, slots=True)
class Fingerprint:
    rows: int = 0
    sum: int = 0

    def __add__(self, other: Fingerprint) -> Fingerprint:
        return Fingerprint(self.rows + other.rows, (self.sum + other.sum) % MODULUS)


_FORMS: Mapping[Kind, Form] = {
    **dict.fromkeys((Kind.INT8, Kind.INT16, Kind.INT32, Kind.UINT8, Kind.UINT16, Kind.YEAR), Form.INT32),
    **dict.fromkeys((Kind.UINT32, Kind.INT64), Form.INT64),
    **dict.fromkeys((Kind.TIMESTAMP, Kind.INSTANT), Form.CLOCK),
    **dict.fromkeys((Kind.UINT64, Kind.DECIMAL, Kind.TEXT, Kind.ENUM, Kind.SET), Form.TEXT),
    **dict.fromkeys((Kind.BINARY, Kind.BIT, Kind.DATE, Kind.UUID), Form.TEXT),
}


# More of them have one spelling where servers of different databases print them.
_SHA256_FORMS: Mapping[Kind, Form] = {
    **_FORMS,
    Kind.BOOLEAN: Form.TEXT,
    Kind.TIME: Form.CLOCK,
    Kind.DURATION: Form.TEXT,
}


def form_of(type: LogicalType, hashing: Hashing = Hashing.LOOKUP3) -> Form | None:
    """Return the form in which a type is hashed; None where the same value may be written in several ways.

    None as well where the job chose another type. By LOOKUP3, both ends of which are PostgreSQL or one of them is
    compiled code, a type that both ends spell alike is written alike by both.
    """
    if type.target or is_json(type):
        return None
    if hashing is not Hashing.LOOKUP3:
        return _SHA256_FORMS.get(type.kind)
    return _FORMS.get(type.carried, Form.TEXT if type.native else None)


def are_hashed(types: Sequence[LogicalType], hashing: Hashing = Hashing.LOOKUP3) -> bool:
    """Return whether rows of these columns can have a fingerprint."""
    return 0 < len(types) <= MOST_COLUMNS and all(form_of(type, hashing) is not None for type in types)


def of_lines(blocks: Iterable[bytes], columns: Sequence[Hashed]) -> Fingerprint | None:
    """Sum up the rows of whole lines, by LOOKUP3 in compiled code.

    None where it is not installed, or a row is unexpected: a NULL where none may be, a value without the form of its
    column.
    """
    from anabranch.rows.compiled import NATIVE  # with Arrow, which readers of this page's words do not need

    if NATIVE is None:
        return None
    found = NATIVE.Fingerprint(bytes(column.form for column in columns), [column.nullable for column in columns])
    try:
        for block in blocks:
            found.add(block)
    except ValueError:
        return None
    return Fingerprint(*found.total())
