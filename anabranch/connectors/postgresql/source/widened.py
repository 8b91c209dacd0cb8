"""Types of a column that take all values of another one, each as it was, down to the text of it.

What does not live here: how a change of a type is found (redefined_columns.py).
"""

from __future__ import annotations

import re

_VARYING = re.compile(r"character varying(?:\((\d+)\))?")
_DIGITS = {"smallint": 5, "integer": 10, "bigint": 19}
_NUMERIC = re.compile(r"numeric\((\d+),(\d+)\)")


def keeps_rows(former: str, native: str) -> bool:
    """Return whether a type (both as format_type() spells them) takes what the former one does, and the server widens a column
    to it without writing its rows: https://www.postgresql.org/docs/current/release-9-2.html (E.24.3.5)"""
    if (old := _VARYING.fullmatch(former)) and native != former:
        new = _VARYING.fullmatch(native)
        return native == "text" or (
            new is not None and (new[1] is None or (old[1] is not None and int(new[1]) > int(old[1])))
        )
    old, new = _NUMERIC.fullmatch(former), _NUMERIC.fullmatch(native)
    return old is not None and new is not None and old[2] == new[2] and int(new[1]) > int(old[1])


def keeps_values(former: str, native: str) -> bool:
    """Return whether a type (both as format_type() spells them) takes each whole number of the former one as it was, by the
    server's own cast, for which it writes the rows: https://www.postgresql.org/docs/current/datatype-numeric.html"""
    if former not in _DIGITS or former == native:
        return False
    new = _NUMERIC.fullmatch(native)
    return _DIGITS.get(native, 0) > _DIGITS[former] or (
        new is not None and new[2] == "0" and int(new[1]) >= _DIGITS[former]
    )
