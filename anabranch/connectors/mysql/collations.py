"""Does a column take only texts of the same bytes for equal?

https://dev.mysql.com/doc/refman/8.0/en/charset-binary-collations.html
https://mariadb.com/kb/en/supported-character-sets-and-collations/#no-pad-collations
"""

from __future__ import annotations

from collections.abc import Mapping

from anabranch.model.datatype import Kind
from anabranch.model.ids import TableId
from anabranch.model.schema import Column, TableSchema


def compares_exactly(column: Column) -> bool:
    """Return whether values are compared by their bytes, spaces at the end included. CHAR has no such spaces."""
    collation = column.collation
    if collation in ("", "binary"):
        return True
    has_no_padding = "_0900_" in collation or "_nopad_" in collation or column.native.startswith("char(")
    return collation.endswith("_bin") and has_no_padding


def loose_keys(tables: Mapping[TableId, TableSchema]) -> dict[tuple[TableId, str], str]:
    """Return the text columns of primary keys in which different texts may be equal, each with its collation."""
    every = ((schema, schema.column(name)) for schema in tables.values() for name in schema.primary_key)
    return {
        (schema.id, column.name): column.collation
        for schema, column in every
        if column.type is not None and column.type.kind is Kind.TEXT and not compares_exactly(column)
    }
