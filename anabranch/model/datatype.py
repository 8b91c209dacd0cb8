"""Logical types: the one vocabulary between native types of different databases.

`rows/arrow.py` gives each its Arrow type in the trail; `rows/lines.py` its text form.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from anabranch.model.at_target import AtTarget


class Kind(StrEnum):
    """Arrow type in the trail · text form in lines, where the target's type map names no other (model/at_target.py)."""

    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    UINT8 = "uint8"
    UINT16 = "uint16"
    UINT32 = "uint32"
    UINT64 = "uint64"
    DECIMAL = "decimal"  # decimal128 up to 38 digits, else decimal256 · plain digits with `scale` decimals
    FLOAT32 = "float32"  # float · shortest text that reads back equal
    FLOAT64 = "float64"
    TEXT = "text"  # utf8 · the characters
    BINARY = "binary"  # binary · \x and lower-case hex
    BIT = "bit"  # uint64 · `length` digits 0/1
    DATE = "date"  # date32 · YYYY-MM-DD
    TIMESTAMP = "timestamp"  # wall clock, timestamp[us] · YYYY-MM-DD HH:MM:SS.ffffff
    INSTANT = "instant"  # timestamp[us, UTC] · YYYY-MM-DD HH:MM:SS.ffffff+00
    DURATION = "duration"  # int64 microseconds · [-]H+:MM:SS.ffffff
    YEAR = "year"  # int16
    ENUM = "enum"  # utf8 · the label
    SET = "set"  # utf8 · labels joined by comma in declaration order
    JSON = "json"  # utf8 · JSON text
    UUID = "uuid"  # utf8 · 32 lower-case hex digits in five groups
    INET = "inet"  # utf8 · an IPv4 or IPv6 address without mask
    GEOMETRY = "geometry"  # binary, EWKB · as BINARY
    NATIVE = "native"  # utf8 · the value as its own database prints it; for a target of the same family
    VECTOR = "vector"  # binary, little-endian float32 · {a,b,…}


@dataclass(frozen=True, slots=True)
class LogicalType:
    """A kind with its parameters. `length` counts characters (TEXT), bytes (BINARY) or bits (BIT), None = unbounded;
    `precision`/`scale` belong to DECIMAL; `fraction` = digits of a second (TIMESTAMP, INSTANT, DURATION); the `length` of a
    VECTOR is its number of elements. `native`: the type as its database spells it, which a target of the same family takes
    as it is (a NATIVE has one). `target`: the type at the target that the job chose, "" for the type map's own.
    `at_target`: what that target's type map says of its values; a column has it where it is a target's (RuleSet)."""

    kind: Kind
    length: int | None = None
    precision: int = 0
    scale: int = 0
    fraction: int = 6
    values: tuple[str, ...] = ()  # ENUM and SET labels in declaration order
    target: str = ""
    native: str = ""
    at_target: AtTarget = field(default=AtTarget(), compare=False)  # told by all the others

    def __str__(self) -> str:
        if self.kind is Kind.DECIMAL:
            return f"decimal({self.precision},{self.scale})"
        if self.kind is Kind.NATIVE:
            return self.native
        return self.kind.value if self.length is None else f"{self.kind.value}({self.length})"


class Fidelity(StrEnum):
    """The effect of the target's type on values. Preflight shows it with the reason."""

    EXACT = "exact"
    WIDENED = "widened"  # every value fits and reads back equal, the declared range is larger
    LOSSY = "lossy"  # some values lose something that the reason names
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Fit:
    """The target's type for a logical type: its native name there, with fidelity and reason."""

    native: str
    fidelity: Fidelity
    reason: str = ""
