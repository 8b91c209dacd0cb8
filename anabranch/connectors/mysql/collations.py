"""Does a column take only texts of the same bytes for equal?

https://dev.mysql.com/doc/refman/8.0/en/charset-binary-collations.html
https://mariadb.com/kb/en/supported-character-sets-and-collations/#no-pad-collations
"""

from __future__ import annotations

from anabranch.model.schema import Column


def compares_exactly(column: Column) -> bool:
    """Return whether values are compared by their bytes, spaces at the end included. CHAR has no such spaces."""
    collation = column.collation
    if collation in ("", "binary"):
        return True
    has_no_padding = "_0900_" in collation or "_nopad_" in collation or column.native.startswith("char(")
    return collation.endswith("_bin") and has_no_padding
