"""Columns of a MySQL or MariaDB source at a target of this family: the type as the source spells it, and what differs
between the two, by table.

What does not live here: character sets and collations (collations.py), types of other sources (typemap.py).
"""

from __future__ import annotations

from anabranch.connectors.mysql.target.words import bare, without_hints
from anabranch.model.datatype import Fidelity, Fit, Kind, LogicalType
from anabranch.model.schema import Column

EXACT, WIDENED = Fidelity.EXACT, Fidelity.WIDENED
# Names that both have in the same sense, with the sizes and attributes that follow them.
SHARED = frozenset(
    (
        *("tinyint", "smallint", "mediumint", "int", "bigint", "decimal", "bit"),
        *("char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set"),
        *("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"),
        *("date", "time", "datetime", "timestamp", "vector"),
        *("geometry", "point", "linestring", "polygon"),
        *("multipoint", "multilinestring", "multipolygon", "geometrycollection"),
    )
)
# Name -> type, fidelity and reason, where the source's words are not taken. The digits of float(7,4) say how it is printed, and
# one that was stored before may have more; year(2) is gone. https://dev.mysql.com/doc/refman/8.0/en/year.html
REPLACED: dict[str, tuple[str, Fidelity, str]] = {
    "float": ("float", EXACT, ""),
    "double": ("double", EXACT, ""),
    "year": ("year", EXACT, ""),
    "geomcollection": ("geometrycollection", EXACT, ""),
}
# Family of the target and name -> the same. https://mariadb.com/kb/en/uuid-data-type/, inet4 (10.10), inet6 (10.5)
OF_ONE: dict[tuple[str, str], tuple[str, Fidelity, str]] = {
    ("mysql", "uuid"): ("char(36)", WIDENED, "MySQL has no UUID type; any text of that length fits"),
    ("mysql", "inet4"): ("varchar(15)", WIDENED, "MySQL has no type for addresses; any text of that length fits"),
    ("mysql", "inet6"): (
        "varchar(45)",
        WIDENED,
        "MySQL has no type for addresses; any text of that length fits; addresses are spelled as RFC 5952 has them, a single "
        "group of zeros as 0, where MariaDB prints ::",
    ),
    # Exact all the same: 0 is equal to it, and with `add_column = "exact"` a table that gets such a column would be parked.
    ("mariadb", "float"): ("float", EXACT, "MariaDB has no -0.0, which becomes 0"),
    ("mariadb", "double"): ("double", EXACT, "MariaDB has no -0.0, which becomes 0"),
    ("mariadb", "uuid"): ("uuid", EXACT, ""),
    ("mariadb", "inet4"): ("inet4", EXACT, ""),
    ("mariadb", "inet6"): ("inet6", EXACT, ""),
}


def fit(column: Column, type: LogicalType, family: str) -> Fit | None:
    """Return the type of a column in its own words; None for one of another family."""
    if type.native or type.printed or type.kind is Kind.NATIVE:
        return None
    native = without_hints(column.native)
    name = bare(native)
    replaced = OF_ONE.get((family, name)) or REPLACED.get(name)
    if replaced is not None:
        more = " unsigned" if "unsigned" in native and name in ("float", "double") else ""
        return Fit(replaced[0] + more, replaced[1], replaced[2])
    return Fit(native, EXACT) if name in SHARED else None
