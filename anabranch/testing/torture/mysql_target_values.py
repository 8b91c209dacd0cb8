"""Values at a MySQL or MariaDB target: how a column is read, which of the checker's texts a printed value means, and a literal
for a text.

The checker's texts are those of values.py, whatever the target. What does not live here: which tables are read
(mysql_snapshots.py), which columns a source has (values.py, postgresql_values.py).
https://dev.mysql.com/doc/refman/8.0/en/data-types.html
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from anabranch.testing.torture import postgresql_values, values
from anabranch.testing.torture.values import WITHOUT_SIGN, Kind, Text, Version, quoted, same

Printed = str | bytes  # as the driver gives it without converters: bytes where the column is binary
Shown = Callable[[Printed], str]
_SRID = 4  # bytes before the WKB: https://dev.mysql.com/doc/refman/8.0/en/gis-data-formats.html#gis-internal-format
_TOKENS = re.compile(r'("(?:[^"\\]|\\.)*")|([{},]|[^{},"]+)')  # of an array as a PostgreSQL prints it
_FLOATS = {"real": "<f", "double precision": "<d"}


# --- what is read --------------------------------------------------------------------------------------------------------


def read_as(kind: Kind, name: str) -> str:
    """Return the expression by which a column is read: a float prints six digits only, as a double all that it has. A sum would
    lose the sign of zero. A UUID may be its bytes ([target.options])."""
    if kind.at_target == "uuid":
        digits = f"LOWER(HEX(`{name}`))"
        for place in (9, 14, 19, 24):
            digits = f"INSERT({digits}, {place}, 0, '-')"
        return f"IF(LENGTH(`{name}`) = 16, {digits}, `{name}`)"
    return f"`{name}` * 1e0" if kind.at_target == "real" else f"`{name}`"


def shown(kind: Kind) -> Shown:
    """Return what makes the checker's text of a printed value."""
    at = kind.at_target
    if at in _FLOATS:
        return _by(_float(at), kind)
    if at == "jsonb":
        return _by(_json, kind)
    if at.endswith("[]"):
        return _by(_array, kind)
    if at == "bytea":
        start = _SRID if kind.name == "point" else 0
        return lambda printed: "\\x" + _bytes(printed)[start:].hex()
    if at.startswith("bit("):
        width = int(at[4:-1])
        return lambda printed: f"{int.from_bytes(_bytes(printed), 'big'):0{width}b}"
    if at == "boolean":
        return lambda printed: "t" if _text(printed) == "1" else "f"
    if at.startswith("timestamp") and at.endswith("with time zone"):
        return lambda printed: f"{_moment(printed)}+00"
    if at.startswith(("timestamp", "time without")) or kind.name.startswith("time"):
        return _moment
    return _text


def as_known(kind: Kind) -> Shown:
    """Return what finds the text of a float or a JSON among the kind's own, however it is printed."""
    return _by(_float(kind.at_target) if kind.at_target in _FLOATS else _json, kind)


def _by(meaning: Callable[[Printed], object], kind: Kind) -> Shown:
    """Return what finds the text among the kind's own by what it means; one that means none of them is shown as it is."""
    texts = [text for one in kind.texts.values() for text in ([one] if isinstance(one, str) else one.values())]
    known = {meaning(text): text for text in texts}
    return lambda printed: known.get(meaning(printed), _text(printed))


def _float(at: str) -> Callable[[Printed], object]:
    """A number by its bytes, so that the sign of zero counts."""
    return lambda printed: struct.pack(_FLOATS[at], float(printed))


def _json(printed: Printed) -> object:
    return json.dumps(json.loads(printed), sort_keys=True)


def _array(printed: Printed) -> object:
    """Return the elements of an array as texts, with the bounds that it is printed with: a PostgreSQL's own text, or the JSON
    that [target.options] makes of it."""
    text = _text(printed)
    try:
        found = json.loads(text)
    except ValueError:
        bounds, _, elements = text.rpartition("=") if text.startswith("[") else ("", "", text)
        return bounds, _elements(_TOKENS.findall(elements))
    if isinstance(found, dict):  # `{}` is the empty array in PostgreSQL's text
        ((bounds, found),) = found.items() if found else [("", [])]
        return bounds, _as_texts(found)
    return "", _as_texts(found)


def _elements(tokens: list[tuple[str, str]]) -> object:
    """Return what stands between the braces that come first, and take it away."""
    tokens.pop(0)
    found: list[object] = []
    while tokens[0][1] != "}":
        quoted_text, plain = tokens[0]
        if plain == "{":
            found.append(_elements(tokens))
            continue
        tokens.pop(0)
        if quoted_text:
            found.append(re.sub(r"\\(.)", r"\1", quoted_text[1:-1]))
        elif plain != ",":
            found.append(None if plain == "NULL" else plain)
    tokens.pop(0)
    return tuple(found)


def _as_texts(value: object) -> object:
    if isinstance(value, list):
        return tuple(map(_as_texts, value))
    return value if value is None or isinstance(value, str) else json.dumps(value)


def _moment(printed: Printed) -> str:
    """Without the zeros at the end of a fraction, as PostgreSQL prints it."""
    text = _text(printed)
    return text.rstrip("0").rstrip(".") if "." in text else text


def _text(printed: Printed) -> str:
    return printed if isinstance(printed, str) else printed.decode()


def _bytes(printed: Printed) -> bytes:
    return printed if isinstance(printed, bytes) else printed.encode()


# --- what is written, and what the product notes ---------------------------------------------------------------------------


def literal(kind: Kind, text: Text) -> str:
    """Return a literal for one of the checker's texts."""
    if text is None:
        return "NULL"
    if kind.name in values.KINDS or kind.name in UNSIGNED:
        return str(kind.literal(text))
    at = kind.at_target
    if at == "bytea":
        return f"x'{text[2:]}'"
    if at == "boolean":
        return "1" if text == "t" else "0"
    if at.startswith("bit("):
        return f"b'{text}'"
    text = text.removesuffix("+00") if at == "timestamp with time zone" else text
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


def noted(kind: Kind, text: Text) -> Text:
    """Return the checker's text for one that the product has noted of a key: bytes come as digits, and moments with zeros."""
    if text is None:
        return None
    if kind.at_target == "bytea":
        return "\\x" + text.removeprefix("\\x").removeprefix("0x").lower()
    return _moment(text) if kind.at_target.startswith("timestamp") else text


def noted_sql(kind: Kind, text: str) -> str:
    """Return the same as an expression of the server, over an expression that gives the text."""
    if kind.at_target == "bytea":
        digits = f"TRIM(LEADING '0x' FROM TRIM(LEADING '\\\\x' FROM {text}))"
        return f"CONCAT('\\\\x', LOWER({digits}))"
    if kind.at_target.startswith("timestamp"):
        return f"IF({text} LIKE '%.%', TRIM(TRAILING '.' FROM TRIM(TRAILING '0' FROM {text})), {text})"
    return text


# --- what is drawn -----------------------------------------------------------------------------------------------------


def _beside_keys(name: str, of: str, texts: Mapping[str, str] | None = None) -> Kind:
    """A kind of a PostgreSQL source with these texts alone, and not for keys: a text in one needs a length there."""
    kind = postgresql_values.KINDS[of]
    return replace(kind, name=name, texts=kind.texts if texts is None else texts, nth=None)


_SIGNED = "-0e0"
# MariaDB's -0.0 is 0. By the names of the kinds that they stand for.
_UNSIGNED = {
    name: replace(
        values.KINDS[name],
        name=f"{name}{WITHOUT_SIGN}",
        texts={k: v for k, v in values.KINDS[name].texts.items() if k != _SIGNED},
    )
    for name in ("float", "double")
}
UNSIGNED: Mapping[str, Kind] = {kind.name: kind for kind in _UNSIGNED.values()}
_MOMENTS = quoted("9999-12-31 23:59:59.999999", "1000-01-01 00:00:00.000001", "2024-02-29 12:00:00.1")
OWN: Mapping[str, Kind] = {
    kind.name: kind
    for kind in (
        _beside_keys("pg text beside keys", "pg text"),
        _beside_keys("pg bytea beside keys", "pg bytea"),
        replace(postgresql_values.KINDS["pg timestamp without time zone"], name="pg moment in range", texts=_MOMENTS),
        _beside_keys("pg date in range", "pg date", quoted("1000-01-01", "9999-12-31", "2024-02-29")),
        _beside_keys("pg time of a day", "pg time without time zone", quoted("00:00:00", "23:59:59.999999")),
        _beside_keys("pg instant in range", "pg timestamp with time zone",
                     quoted("1970-01-01 00:00:01+00", "2038-01-19 03:14:07.499999+00", "2024-03-31 02:30:00+00")),
        _beside_keys("pg finite real", "pg real", {"16777215": "1.6777215e+07", "0.1": "0.1", "-1.5e-7": "-1.5e-07"}),
        _beside_keys("pg finite double", "pg double precision",
                     {"1e308": "1e+308", "0.1": "0.1", "1e15": "1e+15", "2.5e-7": "2.5e-07", **same("0")}),
    )
}  # fmt: skip
# Those of a PostgreSQL source that come exactly, whatever their values.
_AS_THEY_ARE = (
    "pg integer", "pg bigint", "pg smallint", "pg numeric(10,2)", "pg character varying(40)", "pg uuid", "pg boolean",
    "pg character varying", "pg wide text", "pg wide bytea", "pg long text", "pg jsonb", "pg timestamp(3) without time zone",
    "pg bit(10)", "pg character(12)", "pg time with time zone", "pg interval", "pg bit varying(20)", "pg inet", "pg macaddr",
    "pg int4range", "pg tsvector", "pg point", "pg integer[]", "pg text[]",
)  # fmt: skip


def carried(known: Sequence[Kind], source: str, family: str, version: Version) -> list[Kind]:
    """Return the kinds of a source of the family `source` that come exactly to a target of `family`.

    From a PostgreSQL: those whose every value a type there holds. From a MySQL or MariaDB: those that the target knows."""
    if source != "postgresql":
        stand_in = _UNSIGNED if family == "mariadb" and source == "mysql" else {}
        return [stand_in.get(kind.name, kind) for kind in known if kind.is_known_to(family, version)]
    names, natives = {kind.name for kind in known}, {kind.native for kind in known}
    as_they_are = [postgresql_values.KINDS[name] for name in _AS_THEY_ARE if name in names]
    return [*as_they_are, *(kind for kind in OWN.values() if kind.native in natives)]
