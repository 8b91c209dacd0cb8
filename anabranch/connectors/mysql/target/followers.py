"""Conflicts with foreign keys of the target that would act by themselves where the source's did nothing (K7), before they do.

What does not live here: whether a session asks keys (`apply.py`), reading all keys of a job's tables (`catalog.py`).
https://dev.mysql.com/doc/refman/8.0/en/information-schema-referential-constraints-table.html
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from anabranch.connectors.mysql.target.literals import Literals
from anabranch.connectors.mysql.target.session import ask, quoted, table_name
from anabranch.connectors.mysql.target.staging import StagingTables
from anabranch.contracts import Conflict
from anabranch.model.ids import TableId
from anabranch.model.schema import Action
from anabranch.rows.keys import CHANGES_ROWS, EnforcedKey
from anabranch.rows.net import UPDATE, RowChange, TargetTable

ACTIONS = {"CASCADE": Action.CASCADE, "SET NULL": Action.SET_NULL}  # all others refuse
CHILDREN = """
SELECT k.CONSTRAINT_NAME, k.TABLE_SCHEMA, k.TABLE_NAME, k.COLUMN_NAME, k.REFERENCED_COLUMN_NAME, r.DELETE_RULE, r.UPDATE_RULE
  FROM information_schema.KEY_COLUMN_USAGE AS k
  JOIN information_schema.REFERENTIAL_CONSTRAINTS AS r
    ON r.CONSTRAINT_SCHEMA = k.CONSTRAINT_SCHEMA AND r.CONSTRAINT_NAME = k.CONSTRAINT_NAME AND r.TABLE_NAME = k.TABLE_NAME
 WHERE k.REFERENCED_TABLE_SCHEMA = %s AND k.REFERENCED_TABLE_NAME = %s
 ORDER BY k.TABLE_SCHEMA, k.TABLE_NAME, k.CONSTRAINT_NAME, k.ORDINAL_POSITION
"""


class Followers:
    """Children that would follow. Keys are read once per transaction."""

    def __init__(self, stages: StagingTables) -> None:
        self._stages, self._connection = stages, stages.connection
        self._keys: dict[TableId, list[EnforcedKey]] = {}

    def refuse(self, row: RowChange, nul: str) -> None:
        """Raise Conflict for a change of a parent that the source made with its keys off, if children would follow."""
        event = row.operation
        for key in self._acting(row.table.target, event):
            if event == UPDATE and not row.values.keys() & set(key.parent_columns):
                continue
            if not row.table.key or ask(self._connection, self._children_of(key, row, nul)):
                raise Conflict(row.table.source, _refusal(key, event), dict(row.old_key))

    def refuse_truncate(self, table: TargetTable, emptied: Collection[TableId]) -> None:
        """Raise Conflict if rows of other tables than `emptied` refer to a table that is emptied with these."""
        for key in self._acting(table.target, "delete"):
            if key.child not in emptied and ask(self._connection, _any_child(key)):
                raise Conflict(table.source, _refusal(key, "delete"))

    def _acting(self, table: TableId, event: str) -> Sequence[EnforcedKey]:
        if table not in self._keys:
            self._keys[table] = self._read(table)
        return [key for key in self._keys[table] if key.on(event) in CHANGES_ROWS]

    def _read(self, parent: TableId) -> list[EnforcedKey]:
        found: dict[tuple[str, TableId], tuple[list[str], list[str], Action, Action]] = {}
        for name, schema, table, column, referenced, on_delete, on_update in ask(
            self._connection, CHILDREN, parent.schema, parent.name
        ):
            actions = ACTIONS.get(on_delete, Action.RESTRICT), ACTIONS.get(on_update, Action.RESTRICT)
            columns, parents, *_ = found.setdefault((name, TableId(schema, table)), ([], [], *actions))
            columns.append(column)
            parents.append(referenced)
        return [
            EnforcedKey(name, child, tuple(columns), parent, tuple(parents), on_delete, on_update)
            for (name, child), (columns, parents, on_delete, on_update) in found.items()
        ]

    def _children_of(self, key: EnforcedKey, row: RowChange, nul: str) -> str:
        """Return a query for rows that refer to the row that goes, or whose referenced values change."""
        sql = Literals(self._connection, row.table, self._stages.known.of(row.table.target), nul)
        joined = " AND ".join(
            f"c.{quoted(child)} = p.{quoted(parent)}"
            for child, parent in zip(key.columns, key.parent_columns, strict=True)
        )
        found = [sql.key([row.old_key[name] for name in row.table.key], "p.")]
        if row.operation == UPDATE:
            changing = [name for name in key.parent_columns if name in row.values]
            same = (f"p.{quoted(name)} <=> {sql.value(name, row.values[name])}" for name in changing)
            found.append(f"NOT ({' AND '.join(same)})")
        return (
            f"SELECT 1 FROM {table_name(key.parent)} AS p JOIN {table_name(key.child)} AS c ON {joined}"
            f" WHERE {' AND '.join(found)} LIMIT 1"
        )


def _refusal(key: EnforcedKey, event: str) -> str:
    return (
        f"the source has kept rows of {key.child} that refer to it, because its foreign keys were off, and {key.name} of the"
        f" target is ON {event.upper()} {str(key.on(event)).upper()}: drop that key, or make it NO ACTION"
    )


def _any_child(key: EnforcedKey) -> str:
    refers = " AND ".join(f"{quoted(name)} IS NOT NULL" for name in key.columns)
    return f"SELECT 1 FROM {table_name(key.child)} WHERE {refers} LIMIT 1"
