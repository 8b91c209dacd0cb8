"""Values of a PostgreSQL that become JSON at a target that wants them so, and the columns of a load that are made so.

A load rewrites the lines that COPY gives, a stream the texts of the trail (lines.py): both by the column's type in the
definition by which the table was loaded. What does not live here: the JSON of an array and of a composite (json_arrays.py,
json_composites.py).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from anabranch.model.at_target import TextForm
from anabranch.model.datatype import LogicalType
from anabranch.model.schema import TableSchema
from anabranch.model.value_rules import ValueRules
from anabranch.rows.json_arrays import as_array, is_array
from anabranch.rows.json_composites import as_object, is_composite

JSON = "json"  # of ValueRules.arrays and .composites
FORMS = frozenset((TextForm.JSON_ARRAY, TextForm.JSON_OBJECT))


def wanted(type: LogicalType | None, rules: ValueRules) -> TextForm:
    """Return the form that the rules want for values of a column that is in no key."""
    if rules.arrays == JSON and is_array(type):
        return TextForm.JSON_ARRAY
    return TextForm.JSON_OBJECT if rules.composites == JSON and is_composite(type) else TextForm.OF_KIND


def is_json(type: LogicalType) -> bool:
    """Return whether the target wants the values of a column as JSON."""
    return type.at_target.text in FORMS


def as_json(type: LogicalType, text: str) -> str:
    """Return the JSON text of an array or a composite. Raises ValueRefused for a text that is no array."""
    return as_object(type, text) if is_composite(type) else as_array(type, text)


def columns_of(table: TableSchema, columns: Sequence[str], rules: ValueRules) -> dict[int, LogicalType]:
    """Return which of these columns, by place, are JSON at the target, and their types. None is in a key."""
    found = ((place, table.column(name)) for place, name in enumerate(columns) if name not in table.keyed)
    return {
        place: column.type
        for place, column in found
        if column.type is not None and wanted(column.type, rules) is not TextForm.OF_KIND
    }


def rewritten(
    block: bytes,
    types: Collection[tuple[int, LogicalType]],
    read: Callable[[bytes], bytes],
    write: Callable[[str], str],
) -> bytes:
    """Return whole lines in which these columns are JSON. `read`, `write`: the characters of a cell, and the cell of some."""
    rows = block.split(b"\n")
    for number, row in enumerate(rows[:-1]):
        cells = row.split(b"\t")
        for place, type in types:
            if cells[place] != b"\\N":
                cells[place] = write(as_json(type, read(cells[place]).decode())).encode()
        rows[number] = b"\t".join(cells)
    return b"\n".join(rows)
