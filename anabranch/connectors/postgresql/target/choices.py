"""Types that a job may choose instead of the type map's ([types.map], [[tables]] columns.type): the conversions whose
text form PostgreSQL reads into the chosen type as it is, each with fidelity and reason. Data; nothing is converted by
us.

Input forms: https://www.postgresql.org/docs/current/datatype.html. What does not live here: the types without a choice
(typemap.py), comparing (verify/).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from anabranch.model.datatype import Fidelity, Kind, LogicalType

EXACT, WIDENED, LOSSY = Fidelity.EXACT, Fidelity.WIDENED, Fidelity.LOSSY
INTEGERS = (Kind.INT8, Kind.INT16, Kind.INT32, Kind.INT64, Kind.UINT8, Kind.UINT16, Kind.UINT32, Kind.UINT64)
# Bits that a value needs without its sign, bits that there are.
_BITS = {Kind.INT8: 7, Kind.INT16: 15, Kind.INT32: 31, Kind.INT64: 63, Kind.YEAR: 12} | {
    Kind.UINT8: 8,
    Kind.UINT16: 16,
    Kind.UINT32: 32,
    Kind.UINT64: 64,
}
_TARGET_BITS = {"smallint": 15, "integer": 31, "bigint": 63}
UUID, UUID_LENGTH = "uuid", 36
STOPS = "a value that it does not hold stops the job"


@dataclass(frozen=True, slots=True)
class Choice:
    """`form`: SQL that gives the column's value in the source's text form, where its own text is another; `in_keys`: does
    the value print as the source's, and is it equal to others as its text is, so that it may be part of a key?"""

    fidelity: Fidelity
    reason: str = ""
    form: str = ""
    in_keys: bool = True
    accepts: Callable[[LogicalType], bool] = lambda type: True


def choice(type: LogicalType) -> Choice | None:
    """Return the job's choice for a column; None where nothing is declared for it."""
    bits = _TARGET_BITS.get(type.target)
    if bits and type.carried in _BITS:
        return Choice(EXACT, "" if _BITS[type.carried] <= bits else STOPS)
    found = _CHOICES.get(type.carried, {}).get(type.target)
    return found if found and found.accepts(type) else None


def constant(type: LogicalType, text: str) -> str | None:
    """Return the text form of a value, of a column's default, as its chosen type surely reads it; None where it may not."""
    bits = _TARGET_BITS.get(type.target)
    if bits:
        return text if _WHOLE.fullmatch(text) and -(1 << bits) <= int(text) < 1 << bits else None
    form = _CONSTANTS.get(type.target)
    return text + form.suffix if form and form.pattern.fullmatch(text) else None


def may_be_key(type: LogicalType, collation: str) -> bool:
    """Return whether a key column may have the type that the job chose.

    A key that the target prints has to be found at the source. A UUID is printed in lower case, so the source has to
    ignore case, and in the usual spelling of 36 characters.
    """
    if type.carried is Kind.TEXT and type.target == UUID:
        return type.length == UUID_LENGTH and collation.endswith("_ci")
    found = choice(type) if type.target else None
    return found is None or found.in_keys


def possible(type: LogicalType) -> tuple[str, ...]:
    """Return the choices there are for a type."""
    integers = tuple(_TARGET_BITS) if type.carried in _BITS else ()
    return integers + tuple(name for name, one in _CHOICES.get(type.carried, {}).items() if one.accepts(type))


def every() -> Iterable[tuple[Kind, str, Choice]]:
    """Return all declared choices but those of integers among each other, for the reference page."""
    return [(kind, name, one) for kind, some in _CHOICES.items() for name, one in some.items()]


@dataclass(frozen=True, slots=True)
class Constant:
    """Texts that a type reads as the value that they are, and what has to follow them."""

    pattern: re.Pattern[str]
    suffix: str = ""


_WHOLE = re.compile(r"-?[0-9]+")
_ANY = Constant(re.compile(r".*", re.DOTALL))
_CONSTANTS = {  # none of JSON, UUIDs and times: not every text of the source is one
    "boolean": Constant(re.compile("[01]")),
    "numeric": Constant(re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]{1,3})?")),
    "double precision": Constant(re.compile(r"-?[0-9]{1,65}(\.[0-9]{1,30})?([eE][-+]?[0-9]{1,2})?")),
    "varbit": Constant(re.compile("[01]+")),
    "timestamp": _ANY,  # of dates that are some: ddl.py
    "timestamptz": Constant(_ANY.pattern, "+00"),  # else it would be of the session's zone
    **dict.fromkeys(("text", "varchar", "citext"), _ANY),
}

_BOOLEAN = Choice(EXACT, f"only 0 and 1: {STOPS}", "({0})::int", in_keys=False)
_TEXT = Choice(WIDENED, "the text form; it sorts as text", "{0}")
_CLOCK = "to_char({0}, 'YYYY-MM-DD HH24:MI:SS.US')"
_NO_MINUS = "0 has no sign"
_JSON = {
    "jsonb": Choice(
        LOSSY, "keys in another order, no \\u0000, no -0.0; text that is no JSON stops the job", in_keys=False
    ),
    "json": Choice(EXACT, "text that is no JSON stops the job", in_keys=False),
}

_CHOICES: dict[Kind, dict[str, Choice]] = {
    **{kind: {"numeric": Choice(WIDENED, "it holds any number"), "text": _TEXT} for kind in INTEGERS},
    Kind.DECIMAL: {
        "numeric": Choice(WIDENED, "precision and scale are not checked", in_keys=False),
        "bigint": Choice(EXACT, STOPS, accepts=lambda type: type.scale == 0),
        "double precision": Choice(LOSSY, "rounded to 15 to 17 digits", in_keys=False),
        "text": _TEXT,
    },
    Kind.FLOAT32: {
        "double precision": Choice(WIDENED, "the shortest decimal text of the float, read as a double", in_keys=False),
        "numeric": Choice(LOSSY, _NO_MINUS, in_keys=False),
        "text": Choice(WIDENED, "the shortest digits", in_keys=False),
    },
    Kind.FLOAT64: {
        "numeric": Choice(LOSSY, _NO_MINUS, in_keys=False),
        "text": Choice(WIDENED, "the shortest digits", in_keys=False),
    },
    Kind.TEXT: {
        "text": Choice(WIDENED, "it has no declared length"),
        "varchar": Choice(WIDENED, "it has no declared length"),
        "citext": Choice(WIDENED, "it has no declared length and ignores case, as its extension does", in_keys=False),
        UUID: Choice(
            LOSSY,
            "letters become lower case and other spellings the usual one; text that is not a UUID stops the job; in keys only "
            "from char(36) with a case-insensitive collation",
        ),
        **_JSON,
    },
    Kind.BIT: {
        "boolean": Choice(EXACT, "", "({0})::int", in_keys=False, accepts=lambda type: type.length == 1),
        "varbit": Choice(WIDENED, "it has no declared length"),
        "text": _TEXT,
    },
    Kind.DATE: {
        "timestamp": Choice(WIDENED, "midnight of that day", "to_char({0}, 'YYYY-MM-DD')", in_keys=False),
        "text": _TEXT,
    },
    Kind.TIMESTAMP: {
        "timestamptz": Choice(WIDENED, "date and time are read as UTC", _CLOCK, in_keys=False),
        "text": _TEXT,
    },
    Kind.INSTANT: {
        "timestamp": Choice(LOSSY, "the instant's clock in UTC, without the zone", _CLOCK + " || '+00'", in_keys=False),
        "text": _TEXT,
    },
    Kind.DURATION: {
        "time": Choice(EXACT, f"0 to 24 hours: {STOPS}", "to_char({0}, 'HH24:MI:SS.US')", in_keys=False),
        "text": _TEXT,
    },
    Kind.YEAR: {"text": _TEXT},
    Kind.ENUM: {"text": Choice(WIDENED, "labels are not checked"), "varchar": Choice(WIDENED, "labels are not checked")},
    Kind.SET: {"varchar": Choice(WIDENED, "members are not checked")},
    Kind.JSON: {
        "jsonb": Choice(LOSSY, "see [target.options] json", in_keys=False),
        "json": Choice(EXACT, in_keys=False),
        "text": Choice(EXACT, in_keys=False),
    },
    Kind.UUID: {"text": Choice(WIDENED, "any text fits")},
    Kind.INET: {"text": Choice(WIDENED, "any text fits", in_keys=False)},
}  # fmt: skip
for _kind in (Kind.INT8, Kind.UINT8):
    _CHOICES[_kind]["boolean"] = _BOOLEAN
