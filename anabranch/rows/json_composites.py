"""Values of a PostgreSQL's composite types as JSON: an object with a key for each field, in their order.

Fields of numeric types and booleans are JSON's own where they can be, all others are texts as they are printed, NULL is null:
as elements of arrays are. A value that has not the fields of the definition is a JSON text as it is printed: the type was
altered a moment ago, and the table will be parked for it. Each text of a value has a JSON text that no other has.
https://www.postgresql.org/docs/current/rowtypes.html#ROWTYPES-IO-SYNTAX
What does not live here: which columns are made so (json_texts.py).
"""

from __future__ import annotations

import re

from anabranch.model.datatype import Kind, LogicalType
from anabranch.rows.json_arrays import form_of, quoted

# Possessive, because a repeated choice would keep a place to come back to for each character.
_FIELD = re.compile(r'"((?:[^"\\]++|""|\\\\)*+)"|([^"\\(),]*)', re.DOTALL)
_DOUBLED = re.compile(r'""|\\\\')


def is_composite(type: LogicalType | None) -> bool:
    """Return whether rows have the text of a composite whose fields are known."""
    return type is not None and type.carried is Kind.NATIVE and type.kind is Kind.NATIVE and bool(type.fields)


def as_object(type: LogicalType, text: str) -> str:
    """Return the JSON text of a composite."""
    parts, at = [], 0
    for number, (name, native) in enumerate(type.fields):
        if text[at : at + 1] != (",(")[not number]:
            return quoted(text)
        found = _FIELD.match(text, at + 1)
        assert found is not None, "it finds nothing, too"
        at = found.end()
        if found[1] is not None:
            told = quoted(_DOUBLED.sub(lambda two: two[0][0], found[1]))
        else:
            told = form_of(native)(found[2]) if found[2] else "null"
        parts.append(f"{quoted(name)}: {told}")
    return f"{{{', '.join(parts)}}}" if text[at:] == ")" else quoted(text)
