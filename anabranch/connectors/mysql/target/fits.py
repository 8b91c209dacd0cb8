"""Existing column types that hold every value of a type that we would create, as tables.

https://dev.mysql.com/doc/refman/8.0/en/data-types.html
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from anabranch.connectors.mysql.target.words import bare, sizes, without_hints

# In rising order of what they hold.
INTEGERS = ("tinyint", "smallint", "mediumint", "int", "bigint")
TEXTS = {"tinytext": 255, "text": 65_535, "mediumtext": 16_777_215, "longtext": 4_294_967_295}  # bytes
BLOBS = {"tinyblob": 255, "blob": 65_535, "mediumblob": 16_777_215, "longblob": 4_294_967_295}
CLOCKS = ("datetime", "timestamp", "time")
DIGITS = {
    "tinyint": 3,
    "smallint": 5,
    "mediumint": 8,
    "int": 10,
    "bigint": 19,
}  # of the largest number; unsigned bigint 20
_SAME: Mapping[str, str] = {
    "integer": "int",
    "numeric": "decimal",
    "dec": "decimal",
    "real": "double",
    "boolean": "tinyint",
}
CHARACTER = 4  # bytes of the longest in utf8mb4


def takes(existing: str, wanted: str) -> bool:
    """Return whether an existing column type holds every value of the type we would create. Unknown pairs do not."""
    have, want = _name(existing), _name(wanted)
    here, there = sizes(existing), sizes(wanted)
    if want in INTEGERS:
        return _takes_integer(existing, have, here, wanted, want)
    if want == "decimal":
        return have == want and _holds(here or (10, 0), there or (10, 0))
    if want in CLOCKS:
        return have == want and (*here, 0)[0] >= (*there, 0)[0]
    if want in ("char", "varchar") or want in TEXTS:
        return _characters(have, here) >= _characters(want, there) and not (have == "char" and want != "char")
    if want in ("binary", "varbinary") or want in BLOBS:
        if "binary" in (have, want):  # it fills up with zeros
            return have == want and here == there
        return _bytes(have, here) >= _bytes(want, there)
    if want == "float":
        return have in ("float", "double") and not here
    if want == "json":
        return have in ("json", "longtext")
    if want in ("bit", "vector"):
        return have == want and (want == "vector" or (*here, 1)[0] >= (*there, 1)[0])
    if want == "year":  # MariaDB, and MySQL before 8.0, show it as year(4); year(2) is another one
        return have == want and 2 not in here
    if want in ("enum", "set"):
        return have == want and _labels(existing).startswith(_labels(wanted))
    return have == want and (not here or here == there)


def spellings(standing: str) -> Sequence[str]:
    """Return the choices of a job (choices.py) with which values may go into an existing type, the best first."""
    name, here = _name(standing), sizes(standing)
    if name in INTEGERS:
        return (f"{name} unsigned" if "unsigned" in standing.lower() else name,)
    if name in CLOCKS or name in _SIZED:
        return (f"{name}({','.join(map(str, here))})" if here else name,)
    if most := _SHORT.get(name):
        return (most,)
    return (name,)


# Types that a job chooses with their sizes, and those that it cannot choose: one that fits into them.
_SIZED = ("char", "varchar", "binary", "varbinary", "decimal")
_SHORT: Mapping[str, str] = {"tinytext": "varchar(63)", "tinyblob": "varbinary(255)"}


def _takes_integer(existing: str, have: str, here: tuple[int, ...], wanted: str, want: str) -> bool:
    is_unsigned, was_unsigned = "unsigned" in existing.lower(), "unsigned" in wanted.lower()
    if have == "decimal":
        precision, scale = (*(here or (10, 0)), 0)[:2]
        return precision - scale >= DIGITS[want] + (want == "bigint" and was_unsigned) and (
            was_unsigned or not is_unsigned
        )
    if have not in INTEGERS:
        return False
    wider = INTEGERS.index(have) - INTEGERS.index(want)
    if is_unsigned == was_unsigned:
        return wider >= 0
    return was_unsigned and wider > 0


def _name(native: str) -> str:
    name = bare(without_hints(native))
    return _SAME.get(name, name)


def _holds(have: tuple[int, ...], want: tuple[int, ...]) -> bool:
    precision, scale = (*have, 0)[:2]
    wanted_precision, wanted_scale = (*want, 0)[:2]
    return scale == wanted_scale and precision >= wanted_precision


def _characters(name: str, size: tuple[int, ...]) -> int:
    """Return how many characters of utf8mb4 a type holds whatever they are; -1 for no text."""
    if name in ("char", "varchar"):
        return (*size, 1)[0]
    return TEXTS[name] // CHARACTER if name in TEXTS else -1


def _bytes(name: str, size: tuple[int, ...]) -> int:
    if name in ("binary", "varbinary"):
        return (*size, 1)[0]
    return BLOBS.get(name, -1)


def _labels(native: str) -> str:
    """Return the labels as they are spelled, without the last parenthesis: another type may go on behind them."""
    return native.partition("(")[2].rpartition(")")[0]
