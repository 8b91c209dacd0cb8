"""Changed definitions of tables, as messages have them: which let a table go on.

A message has the columns of its time. What has to stay as it is are the bytes of keys, by which a key finds its partition and
compaction its messages. What does not live here: which statements are followed (apply, by the job file).
"""

from __future__ import annotations

from anabranch.model.datatype import Kind, LogicalType
from anabranch.rows.altered import AlteredTable, ColumnAdded, ColumnDropped, ColumnRenamed, ColumnRetyped
from anabranch.rows.messages.debezium.schemas import key_schema
from anabranch.rows.messages.format import Settings

SHAPES = (ColumnAdded, ColumnDropped, ColumnRenamed, ColumnRetyped)
# Numbers that all formats write with their digits alone, and texts, whatever their length is.
WHOLE = frozenset({Kind.INT8, Kind.INT16, Kind.INT32, Kind.INT64, Kind.UINT8, Kind.UINT16, Kind.UINT32})
ALIKE = (WHOLE, frozenset({Kind.TEXT}))
NO_KEY = "it has no key: messages of rows from before the change would be in other partitions than what comes of them"
MOVED = "the messages of a key would be in another partition than those that are there"


def why_not_told(altered: AlteredTable, settings: Settings) -> str:
    """Return why messages cannot go on behind the steps, "" where they can."""
    former, now = altered.former_table, altered.table
    if not now.key:
        return NO_KEY if any(isinstance(step, SHAPES) for step in altered.steps) else ""
    if former.key != now.key:
        return f"{', '.join(former.key)} of its key is {', '.join(now.key)} by now: {MOVED}"
    if changed := [one for one in now.key if not is_alike(former.type_of(one), now.type_of(one))]:
        return f"{', '.join(changed)} of its key has another type by now: {MOVED}"
    if settings.schema:
        schemas = [key_schema(one, settings.topic(one), settings.decimal) for one in (former, now)]
        if schemas[0] != schemas[1]:
            return f"its key has another schema by now, which is part of the key's bytes: {MOVED}"
    return ""


def is_alike(former: LogicalType, now: LogicalType) -> bool:
    """Return whether the values that both types have are the same texts."""
    return former == now or any({former.carried, now.carried} <= kinds for kinds in ALIKE)
