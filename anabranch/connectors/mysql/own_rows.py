"""The form in which rows go unread from one server of the family to another: lines as LOAD DATA reads them, with values as
servers print them. Both ends name it by their columns, and it is used where the names are equal.

Only types whose values mean the same wherever they stand have a form, with all that would change a value without a word: the
decimals of a second, the character set. What does not live here: reading (`source/raw.py`), loading (`target/raw.py`).
"""

from __future__ import annotations

from collections.abc import Iterable

from anabranch.connectors.mysql.charsets import is_utf8

NAME = "rows of mysql: "
NUMBER, DATE, WORDS, BYTES, FLOAT = "ndwbf"
# Type -> how its values are read, written and checked on the way. Not BIT, GEOMETRY, UUID and the like: bytes of another sense.
WAYS = {
    **dict.fromkeys(("tinyint", "smallint", "mediumint", "int", "bigint", "decimal", "double", "year", "time"), NUMBER),
    **dict.fromkeys(("date", "datetime", "timestamp"), DATE),
    **dict.fromkeys(("char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set", "json"), WORDS),
    **dict.fromkeys(("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"), BYTES),
    "float": FLOAT,
}
WHOLE = frozenset(("tinyint", "smallint", "mediumint", "int", "bigint"))  # take each other's values, or refuse them
EXACT = frozenset(("datetime", "timestamp", "time", "decimal"))  # the other end has to have the same digits


def form_of(columns: Iterable[tuple[str, str]]) -> str:
    """Return the name of the form of such columns, "" where one has none. Each is a type as the server spells it
    (`int(10) unsigned`), and a character set, "" without one."""
    names = [_form(type.lower(), charset.lower()) for type, charset in columns]
    return NAME + ",".join(names) if names and all(names) else ""


def ways_of(form: str) -> list[str]:
    """Return how the values of each column are read and written."""
    return [one.partition(" ")[0] for one in form.removeprefix(NAME).split(",")]


def _form(type: str, charset: str) -> str:
    name = type.partition("(")[0].split()[0]
    way = WAYS.get(name, "")
    if way == WORDS:
        return way if name == "json" or is_utf8(charset) else ""
    if name in WHOLE:
        return f"{way} whole"
    if name in EXACT:
        return f"{way} {type.split(')')[0].replace(',', '.')}"
    if "(" in type and name in ("float", "double", "year"):  # printed with fewer digits than they have
        return f"{way} year" if name == "year" and "(2)" not in type else ""
    return f"{way} {name}" if way in (NUMBER, DATE, FLOAT) else way
