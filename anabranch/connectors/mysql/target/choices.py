"""Types that a job may choose instead of the type map's ([types.map], [[tables]] columns.type): the conversions whose text form
the server reads into the chosen type exactly, or refuses. Data, each with fidelity and reason.

A type stands with its sizes (`varchar(200)`, `decimal(38,10)`). What would be rounded or cut without an error is checked by the
term (terms.py). What does not live here: the types without a choice (typemap.py), comparing (verify/).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from anabranch.connectors.mysql.target.words import bare, sizes
from anabranch.model.datatype import Fidelity, Fit, Kind, LogicalType

EXACT, WIDENED, LOSSY = Fidelity.EXACT, Fidelity.WIDENED, Fidelity.LOSSY
# Kind -> least and greatest value; https://dev.mysql.com/doc/refman/8.0/en/integer-types.html
_RANGES: Mapping[Kind, tuple[int, int]] = {
    **{kind: (-1 << bits - 1, (1 << bits - 1) - 1) for kind, bits in
       ((Kind.INT8, 8), (Kind.INT16, 16), (Kind.INT32, 32), (Kind.INT64, 64))},
    **{kind: (0, (1 << bits) - 1) for kind, bits in
       ((Kind.UINT8, 8), (Kind.UINT16, 16), (Kind.UINT32, 32), (Kind.UINT64, 64))},
    Kind.YEAR: (0, 2155),
}  # fmt: skip
_INTEGERS: Mapping[str, int] = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}  # name -> bits
LONG_TEXTS = ("text", "mediumtext", "longtext")
STOPS = "a value that it does not hold stops the job"
NO_DIGITS = "a value with more digits stops the job"


@dataclass(frozen=True, slots=True)
class Choice:
    """`in_keys`: is the value equal to others as its text is, so that it may be part of a key? `sizes`: how many numbers have
    to stand in parentheses, at least and at most. `family`: the only one that has the type, "" for both."""

    fidelity: Fidelity
    reason: str = ""
    in_keys: bool = True
    sizes: tuple[int, int] = (0, 0)
    family: str = ""


_SIZED = {"varchar": (1, 1), "char": (1, 1)}
_TEXT = {
    name: Choice(WIDENED, "the text form; it sorts as text", name not in LONG_TEXTS, _SIZED.get(name, (0, 0)))
    for name in ("varchar", *LONG_TEXTS)
}
_DECIMAL = Choice(EXACT, NO_DIGITS, in_keys=False, sizes=(1, 2))
_CLOCK = (0, 1)
_AS_UTC = "date and time are read as UTC; values outside 1970 to 2038 stop the job"
STOPPING = frozenset((_AS_UTC, "values outside 1970 to 2038 stop the job"))  # as in printed.py
_NATIVE_NUMBERS = {name: Choice(EXACT, f"of the text: {STOPS}", in_keys=False) for name in _INTEGERS}

# Into columns that stand: a column that is to be made has no labels for "enum" and "set" (preflight_standing_types.py).
_LABELS = {
    "enum": Choice(EXACT, f"one of the column's labels: {STOPS}", in_keys=False),
    "set": Choice(LOSSY, f"members in the column's order; {STOPS}", in_keys=False),
}
_BLANKS = Choice(LOSSY, "blanks at the end are lost", sizes=(1, 1))
_ZEROS = Choice(LOSSY, "a shorter value is filled up with zero bytes", sizes=(1, 1))

_CHOICES: Mapping[Kind, Mapping[str, Choice]] = {
    **{kind: {"decimal": Choice(WIDENED, STOPS, sizes=(1, 2)), **_TEXT} for kind in _RANGES},
    Kind.INT16: {
        "decimal": Choice(WIDENED, STOPS, sizes=(1, 2)),
        "year": Choice(EXACT, f"0 and 1901 to 2155: {STOPS}", in_keys=False),
        **_TEXT,
    },
    Kind.DECIMAL: {
        "decimal": _DECIMAL,
        "double": Choice(LOSSY, "rounded to 15 to 17 digits", in_keys=False),
        **_TEXT,
    },
    Kind.FLOAT32: {"double": Choice(WIDENED, "the shortest decimal text of the float, read as a double", False), **_TEXT},
    Kind.FLOAT64: {"decimal": _DECIMAL, **_TEXT},
    Kind.BOOLEAN: {"tinyint": Choice(EXACT, sizes=_CLOCK), "char": Choice(WIDENED, "t or f", sizes=(1, 1)), **_TEXT},
    Kind.TEXT: {
        **_TEXT,
        "varchar": Choice(EXACT, STOPS, sizes=(1, 1)),
        "char": _BLANKS,
        **_LABELS,
        "json": Choice(LOSSY, "see [target.options] json; text that is no JSON stops the job", in_keys=False),
        "uuid": Choice(
            LOSSY, "letters become lower case; text that is not a UUID stops the job", in_keys=False, family="mariadb"
        ),
    },
    Kind.BINARY: {
        "binary": _ZEROS,
        **{name: Choice(EXACT, STOPS, name == "varbinary", (1, 1) if name == "varbinary" else (0, 0))
           for name in ("varbinary", "blob", "mediumblob", "longblob")},
    },
    Kind.BIT: dict(_TEXT),
    Kind.DATE: {"datetime": Choice(WIDENED, "midnight of that day", False, _CLOCK), **_TEXT},
    Kind.TIME: dict(_TEXT),
    Kind.TIMESTAMP: {
        "datetime": Choice(EXACT, sizes=_CLOCK),
        "timestamp": Choice(LOSSY, _AS_UTC, sizes=_CLOCK),
        **_TEXT,
    },
    Kind.INSTANT: {
        "datetime": Choice(WIDENED, "date and time in UTC", sizes=_CLOCK),
        "timestamp": Choice(LOSSY, "values outside 1970 to 2038 stop the job", sizes=_CLOCK),
        **_TEXT,
    },
    Kind.DURATION: dict(_TEXT),
    Kind.INTERVAL: {
        "time": Choice(EXACT, f"hours, minutes and seconds alone: {STOPS}", in_keys=False, sizes=_CLOCK),
        **_TEXT,
    },
    Kind.ENUM: {name: Choice(WIDENED, "labels are not checked", one.in_keys, one.sizes) for name, one in _TEXT.items()},
    Kind.SET: {name: Choice(WIDENED, "members are not checked", one.in_keys, one.sizes) for name, one in _TEXT.items()},
    Kind.JSON: {
        "json": Choice(LOSSY, "see [target.options] json", in_keys=False),
        "longtext": Choice(EXACT, in_keys=False),
    },
    Kind.UUID: {
        "char": Choice(WIDENED, "any text of that length fits", sizes=(1, 1)),
        "binary": Choice(EXACT, "its 16 bytes", sizes=(1, 1)),
        "uuid": Choice(EXACT, family="mariadb"),
        **_TEXT,
    },
    Kind.INET: {
        "inet4": Choice(EXACT, STOPS, in_keys=False, family="mariadb"),
        "inet6": Choice(EXACT, STOPS, in_keys=False, family="mariadb"),
        **_TEXT,
    },
    Kind.NATIVE: {"decimal": _DECIMAL, **_NATIVE_NUMBERS, **_TEXT},
}  # fmt: skip


def fit(type: LogicalType, family: str) -> Fit:
    """Return the job's own choice, or why it is refused."""
    found = choice(type, family)
    if found is None:
        there = ", ".join(possible(type, family)) or "none"
        return Fit(type.target, Fidelity.REFUSED, f"{type} cannot become {type.target}; possible: {there}")
    return Fit(_with_fraction(type), found.fidelity, found.reason)


def _with_fraction(type: LogicalType) -> str:
    """Return the chosen type; a clock without a size has the digits of the source's: the server's own default is none."""
    is_clock = type.target in ("datetime", "timestamp") and type.kind in (Kind.TIMESTAMP, Kind.INSTANT)
    return f"{type.target}({type.fraction})" if is_clock and type.fraction else type.target


def choice(type: LogicalType, family: str) -> Choice | None:
    """Return what is declared for the type that the job chose; None where nothing is."""
    name = bare(type.target)
    if type.kind in _RANGES and name in _INTEGERS:
        return _integer(type)
    if type.kind is Kind.DECIMAL and name in _INTEGERS:  # a numeric(20) holds what was an unsigned bigint
        return Choice(EXACT, STOPS) if type.precision and not type.scale else None
    found = _CHOICES.get(type.kind, {}).get(name)
    if found is None or found.family not in ("", family):
        return None
    if not _holds(type, name):
        return None
    least, most = found.sizes
    has_rest = type.target.partition("(")[0] != name and type.kind is not Kind.NATIVE  # `text collate …`
    return found if least <= len(sizes(type.target)) <= most and not has_rest else None


def _holds(type: LogicalType, name: str) -> bool:
    """Return whether the chosen size is one that a value keeps: no clock is rounded, and a UUID has 16 bytes."""
    size = sizes(type.target)[:1]
    if name in ("datetime", "timestamp") and type.kind is not Kind.DATE:
        return not size or size[0] >= type.fraction
    if name == "time":
        return (*size, 0)[0] >= type.fraction
    return size == (16,) if name == "binary" and type.kind is Kind.UUID else True


def _integer(type: LogicalType) -> Choice:
    bits, is_unsigned = _INTEGERS[bare(type.target)], type.target.endswith("unsigned")
    least, greatest = (0, (1 << bits) - 1) if is_unsigned else (-1 << bits - 1, (1 << bits - 1) - 1)
    low, high = _RANGES[type.kind]
    return Choice(EXACT, "" if least <= low and high <= greatest else STOPS)


def may_be_key(type: LogicalType, family: str) -> bool:
    """Return whether a key column may have the type that the job chose: a key that the target prints is found at the source."""
    found = choice(type, family) if type.target else None
    return found is None or found.in_keys


def possible(type: LogicalType, family: str) -> tuple[str, ...]:
    """Return the choices there are for a type, `n` standing for a size."""
    integers = (*_INTEGERS, *(f"{name} unsigned" for name in _INTEGERS)) if type.kind in _RANGES else ()
    some = _CHOICES.get(type.kind, {}).items()
    return (*integers, *(_shown(name, one) for name, one in some if one.family in ("", family)))


def every() -> Iterator[tuple[Kind, str, Choice]]:
    """Return all declared choices but those of integers among each other, for the reference page."""
    for kind, some in _CHOICES.items():
        for name, one in some.items():
            yield kind, _shown(name, one), one


def _shown(name: str, one: Choice) -> str:
    return name + ("", "(n)", "(p,s)")[one.sizes[1] if one.sizes[0] else 0]
