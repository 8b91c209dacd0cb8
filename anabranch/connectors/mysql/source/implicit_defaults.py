"""Values that rows which are there get in a column that is added NOT NULL and without a default: whatever the SQL mode, zero,
the empty text, the first label of an ENUM. https://dev.mysql.com/doc/refman/8.0/en/data-type-defaults.html ·
https://mariadb.com/kb/en/not-null-constraints-with-mariadb-enterprise-server/

Of moments in time the mode decides whether rows may have the zero that there is for them, JSON has none, and a geometry has one
that is none. What does not live here: defaults that the definition has (`defaults.py`).
"""

from __future__ import annotations

from anabranch.connectors.mysql.source.defaults import constant
from anabranch.connectors.mysql.source.typemap import INTEGERS
from anabranch.model.datatype import Kind
from anabranch.model.schema import Column

# As the server prints such a default (`constant`).
_PRINTED = {
    **{kind: "0" for pair in INTEGERS.values() for kind in pair},
    **dict.fromkeys((Kind.DECIMAL, Kind.FLOAT32, Kind.FLOAT64), "0"),
    **dict.fromkeys((Kind.TEXT, Kind.BINARY, Kind.SET), ""),
    Kind.BIT: "b'0'",
}


def implicit(column: Column) -> str | None:
    """Return the value in the column's text form, None where it is not certain."""
    if column.type is None:
        return None
    if column.type.kind is Kind.ENUM:
        return column.type.values[0] if column.type.values else None
    printed = _PRINTED.get(column.type.kind)
    return None if printed is None else constant(column, printed).default
