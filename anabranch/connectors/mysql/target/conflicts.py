"""Disagreements at a MySQL target: the row that a change is about, under its lock, and what is noted in
`anabranch.conflict`.

What does not live here: what is decided (apply engine), transactions (`apply.py`), what the journal reads. Values go as text
and come as text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from anabranch.connectors.mysql.target.conditions import equals, holds, reads
from anabranch.connectors.mysql.target.session import Connection, ask, quoted, run, table_name

if TYPE_CHECKING:
    from anabranch.rows.conflict import Age, FoundRow, NotedConflict
    from anabranch.rows.net import TargetTable

Texts = Mapping[str, str | None]

COLUMNS = """`sequence`, `position`, `commit_time`, `source_table`, `target_table`, `key`, `operation`, `kind`, `policy`,
    `decision`, `before`, `after`, `found`"""
NOTE = f"INSERT INTO `anabranch`.`conflict` (`job`, {COLUMNS}) VALUES (%s{', %s' * 13})"


def row(connection: Connection, table: TargetTable, key: Texts, age: Age | None, nul: str) -> FoundRow | None:
    """Return the row with this key, locked. The driver's errors pass."""
    from anabranch.rows.conflict import FoundRow  # most who open a store have nothing to do with conflicts

    values = tuple(stripped(key[name], nul) for name in table.key)
    where = holds(connection, table, table.key, values)
    newer = _newer(connection, table, age, nul)
    columns = reads(connection, table, table.columns)
    found = ask(connection, f"SELECT {newer}, {columns} FROM {table_name(table.target)} WHERE {where} FOR UPDATE")
    if not found:
        return None
    is_newer, *texts = found[0]
    return FoundRow(dict(zip(table.columns, texts, strict=True)), bool(is_newer))


def note(connection: Connection, job: str, conflict: NotedConflict) -> None:
    c = conflict
    names = [c.sequence, c.position, c.commit_time, str(c.source), str(c.target), as_json(c.key)]
    decided = [str(c.operation), c.kind, str(c.policy), c.decision]
    run(connection, NOTE, job, *names, *decided, as_json(c.before), as_json(c.after), as_json(c.found))


def as_json(values: Texts | None) -> str | None:
    return None if values is None else json.dumps(dict(values), ensure_ascii=False)


def _newer(connection: Connection, table: TargetTable, age: Age | None, nul: str) -> str:
    """Return the expression that tells whether the row is newer than the change."""
    if age is None:
        return "FALSE"
    if age.value is None:
        return f"{quoted(age.column)} IS NOT NULL"
    values = equals(connection, table, age.column, stripped(age.value, nul))
    sign = ">=" if age.or_equal else ">"
    later = " AND ".join(f"{quoted(age.column)} {sign} {value}" for value in values)
    return f"COALESCE({later}, FALSE)"


def stripped(value: str | None, nul: str) -> str | None:
    """Return a value as it is written where a NUL is left out."""
    return value.replace("\0", "") if value and nul == "strip" else value
