"""Logical types: the one vocabulary between native types of different databases.

`rows/arrow.py` gives each its Arrow type in the trail; `rows/lines.py` its text form.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from anabranch.model.at_target import OF_KIND, AtTarget


class Kind(StrEnum):
    """Arrow type in the trail · text form in lines, where the target's type map names no other (model/at_target.py). What
    stands behind `printed:` is the text of types whose values are kept as their source prints them (LogicalType.printed)."""

    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    UINT8 = "uint8"
    UINT16 = "uint16"
    UINT32 = "uint32"
    UINT64 = "uint64"
    DECIMAL = "decimal"  # decimal128 to 38 digits or decimal256 · digits with `scale` decimals · printed: as many as there are
    FLOAT32 = "float32"  # float · shortest text that reads back equal
    FLOAT64 = "float64"
    BOOLEAN = "boolean"  # utf8 · t or f
    TEXT = "text"  # utf8 · the characters
    BINARY = "binary"  # binary · \\x and lower-case hex
    BIT = "bit"  # uint64 · `length` digits 0/1 · printed: the same, of any length
    DATE = "date"  # date32 · YYYY-MM-DD · printed: the same, Y of four digits and more
    TIME = "time"  # utf8 · of a day: HH:MM:SS[.f], 24:00:00 too
    TIMESTAMP = "timestamp"  # wall clock, timestamp[us] · YYYY-MM-DD HH:MM:SS.ffffff · printed: DATE HH:MM:SS[.f]
    INSTANT = "instant"  # timestamp[us, UTC] · YYYY-MM-DD HH:MM:SS.ffffff+00 · printed: DATE HH:MM:SS[.f]+00
    DURATION = "duration"  # int64 microseconds · [-]H+:MM:SS.ffffff
    INTERVAL = "interval"  # utf8 · [9 years] [9 mons] [9 days] [[-]HH:MM:SS[.f]]: months, days and time, each signed
    YEAR = "year"  # int16
    ENUM = "enum"  # utf8 · the label
    SET = "set"  # utf8 · labels joined by comma in declaration order
    JSON = "json"  # utf8 · JSON text
    UUID = "uuid"  # utf8 · 32 lower-case hex digits in five groups
    INET = "inet"  # utf8 · an IPv4 or IPv6 address without mask
    GEOMETRY = "geometry"  # binary, EWKB · as BINARY
    NATIVE = "native"  # utf8 · the value as its own database prints it; for a target of the same family, and no other
    VECTOR = "vector"  # binary, little-endian float32 · {a,b,…}


class Special(StrEnum):
    """Values that a type has beside those of its kind, and that a target need not have. Only printed types have any."""

    NAN = "NaN"  # of a DECIMAL
    INFINITIES = (
        "infinities"  # Infinity and -Infinity of a DECIMAL; infinity and -infinity of dates, moments and intervals
    )
    BEFORE_CHRIST = "BC"  # years before 1: `BC` behind the date or the moment, 0001 BC being the year before 0001


@dataclass(frozen=True, slots=True, eq=False)
class LogicalType:
    """A kind with its parameters. `length` counts characters (TEXT), bytes (BINARY) or bits (BIT), None = unbounded;
    `precision`/`scale` belong to DECIMAL, of a printed one 0 digits are any number of them; `fraction` = digits of a second, 0
    to 9 (TIME, TIMESTAMP, INSTANT, DURATION, INTERVAL), of more than six only printed; the `length` of a VECTOR is its
    number of elements. `native`: the type as its database spells it, which a target of the same family takes as it is (a NATIVE
    has one). `printed`: rows have the text that the source prints, not values of the kind's Arrow type, and `specials` may be
    among them. `base`: what a type is made of that adds nothing to its values, a domain's innermost type; it is `printed` then.
    `delimiter`: the sign between the elements of an array as its source prints it, "" of all others and where nobody knows.
    `fields`: of a composite type, in their order: names, and types as their database spells them; () of all others.
    `target`: the type at the target that the job chose, "" for the type map's own. `at_target`: what that
    target's type map says of its values; a column has it where it is a target's (RuleSet), and all the others tell it.

    Printed types that are spelled alike are equal: the spelling tells all the rest, and a release before named fewer kinds."""

    kind: Kind
    length: int | None = None
    precision: int = 0
    scale: int = 0
    fraction: int = 6
    values: tuple[str, ...] = ()  # ENUM and SET labels in declaration order
    target: str = ""
    native: str = ""
    at_target: AtTarget = OF_KIND
    printed: bool = False
    specials: tuple[Special, ...] = ()
    base: str = ""
    delimiter: str = ""
    fields: tuple[tuple[str, str], ...] = ()

    @property
    def carried(self) -> Kind:
        """The kind of value that rows hold: values of the kind, or NATIVE, a text that nobody on the way reads."""
        return Kind.NATIVE if self.printed else self.kind

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LogicalType) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def _identity(self) -> tuple[object, ...]:
        if self.native and self.carried is Kind.NATIVE:
            return (self.native, self.target)
        sizes = (self.length, self.precision, self.scale, self.fraction, self.values)
        return (self.kind, *sizes, self.target, self.native, self.printed, self.specials)

    def __str__(self) -> str:
        if self.native and self.carried is Kind.NATIVE:
            return self.native
        if self.kind is Kind.DECIMAL and self.precision:
            return f"decimal({self.precision},{self.scale})"
        return self.kind.value if self.length is None else f"{self.kind.value}({self.length})"


class Fidelity(StrEnum):
    """The effect of the target's type on values. Preflight shows it with the reason."""

    EXACT = "exact"
    WIDENED = "widened"  # every value fits and reads back equal, the declared range is larger
    LOSSY = "lossy"  # some values lose something that the reason names
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Fit:
    """The target's type for a logical type: its native name there, with fidelity and reason. `stops`: of a LOSSY one, that each
    value which would lose something is refused, so that nothing is ever changed."""

    native: str
    fidelity: Fidelity
    reason: str = ""
    stops: bool = field(default=False, compare=False)

    @property
    def changes_values(self) -> bool:
        """True if some values are others at the target."""
        return self.fidelity is Fidelity.LOSSY and not self.stops
