"""Since when a table's rows have the columns and types that they have: messages from before cannot be read as rows of today.

What does not live here: definitions over time (trail/history.py), what becomes of such messages (rows/messages/told.py).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from anabranch.model.schema import Column, TableSchema
from anabranch.rows.messages.altered import is_alike
from anabranch.rows.net import NOT_KNOWN
from anabranch.trail.history import Entry

_ANEW = re.compile(r"\bdrop\b.*\badd\b|\badd\b.*\bdrop\b", re.IGNORECASE | re.DOTALL)


def shaped(entries: Sequence[Entry], schema: TableSchema) -> int:
    """Return the last transaction whose rows may be of another shape than this definition of the table; -1 where there is none,
    NOT_KNOWN where the table's entries of the trail's history do not reach back to its first definition."""
    known = [one for one in entries if one.schema and one.schema.version <= schema.version]
    if not known or known[0].schema is None or known[0].schema.version != 1:
        return NOT_KNOWN
    last, former = -1, known[0].schema
    for one in known[1:]:
        assert one.schema is not None, "so they were chosen"
        if one.dropped or one.created or not _is_same(former, one):
            last = one.sequence if one.altered else one.sequence - 1
        former = one.schema
    return last if _are_same(former, schema) else NOT_KNOWN


def _is_same(former: TableSchema, entry: Entry) -> bool:
    assert entry.schema is not None, "so they were chosen"
    return _are_same(former, entry.schema) and not (entry.renamed or entry.filled or _ANEW.search(entry.statement))


def _are_same(former: TableSchema, now: TableSchema) -> bool:
    columns, others = ({one.name: one for one in schema.columns} for schema in (former, now))
    return (
        former.primary_key == now.primary_key
        and columns.keys() == others.keys()
        and all(_is_column(column, others[name]) for name, column in columns.items())
    )


def _is_column(former: Column, now: Column) -> bool:
    if former.type is None or now.type is None:
        return former.native == now.native
    is_one = former.number == now.number and former.expression == now.expression
    return is_one and is_alike(former.type, now.type)
