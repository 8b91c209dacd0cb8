"""Labels that the source renamed are renamed at the target by the load that brings a table in again, where only tables that
are parked show other values by it.

https://www.postgresql.org/docs/current/sql-altertype.html: a label keeps its number and its place when it is renamed.
What does not live here: noticing it (changed_types.py), labels that are added (labels.py).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace

from anabranch import log
from anabranch.connectors.postgresql.changed_types import LABEL
from anabranch.connectors.postgresql.connection import Connection, connect
from anabranch.connectors.postgresql.errors import translated
from anabranch.connectors.postgresql.needed_objects import ENUM, labels, present
from anabranch.errors import TargetError
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId
from anabranch.model.schema import Column, Need, TableSchema

TEXT = re.compile(r"E?'(?:[^']|'')*'")
# Tables with columns of a type, or of what is made of it: arrays, domains, composites, ranges, rows of tables.
# https://www.postgresql.org/docs/current/catalog-pg-depend.html
HAVING = """
WITH RECURSIVE made (oid) AS (
  SELECT to_regtype(%s)::oid
  UNION
  SELECT coalesce(t.oid, k.reltype) FROM made m
    JOIN pg_depend d ON d.refclassid = 'pg_type'::regclass AND d.refobjid = m.oid
    LEFT JOIN pg_type t ON d.classid = 'pg_type'::regclass AND t.oid = d.objid
    LEFT JOIN pg_class k ON d.classid = 'pg_class'::regclass AND k.oid = d.objid AND k.reltype <> 0
   WHERE coalesce(t.oid, k.reltype) IS NOT NULL)
SELECT DISTINCT n.nspname || '.' || c.relname
  FROM made m JOIN pg_attribute a ON a.atttypid = m.oid AND NOT a.attisdropped
  JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE c.relkind IN ('r', 'p', 'f') AND NOT c.relispartition AND n.nspname <> 'anabranch' AND n.nspname !~ '^pg_temp_'
 ORDER BY 1
"""
# All of whose rows are the job's, and do not follow the source now.
AT_REST = """
SELECT target_table FROM anabranch.table_state GROUP BY target_table
HAVING bool_and(job = %s AND (source_table = %s OR state IN ('parked', 'pending')))
"""


def rename_labels(
    endpoint: Endpoint, job: str, table: TableId, then: Collection[TableSchema], now: TableSchema
) -> list[str]:
    """Rename labels as LabelTables.rename_labels says: all labels of a type, or none."""
    enums = {need: _renamed(need, then, now) for need in now.needs if need.kind == ENUM}
    if not any(enums.values()):
        return []
    with closing(connect(endpoint, "anabranch-labels", autocommit=True)) as connection:
        with translated("read the labels of the target's types"):
            there = present(connection, enums)
        return [
            statement
            for need, states in enums.items()
            if states and need in there
            for statement in _rename(connection, job, table, need, _pairs(need, states, labels(there[need])))
        ]


def as_renamed(then: TableSchema, now: TableSchema) -> TableSchema:
    """Return `then` as LabelTables.as_renamed says."""
    new = {
        old: label
        for need in now.needs
        if need.kind == ENUM
        for before, after in _renamed(need, [then], now)
        for old, label in _differing(before, after).items()
    }
    of_now = {column.name: column for column in now.columns}
    columns = tuple(_as_renamed(column, of_now.get(column.name, column), new) for column in then.columns)
    return replace(then, columns=columns) if new else then


def _as_renamed(then: Column, now: Column, new: Mapping[str, str]) -> Column:
    def told(words: str | None) -> str:
        return TEXT.sub(lambda found: new.get(found[0]) or _as_parts(found[0], new), words or "")

    is_same = told(then.default) == (now.default or "") and told(then.expression) == now.expression
    return replace(then, default=now.default, expression=now.expression) if is_same else then


def _as_parts(text: str, new: Mapping[str, str]) -> str:
    """Rename labels within an array or a composite."""
    if not text.startswith(("'{", "'(")):
        return text
    bare = {old[1:-1]: label[1:-1] for old, label in new.items()}
    labels = "|".join(map(re.escape, bare))
    return re.sub(rf'(?<=[{{(,"])({labels})(?=[}}),"])', lambda found: bare[found[0]], text)


Labels = Mapping[str, str]  # by the number that a label keeps, in their order


def _renamed(need: Need, then: Collection[TableSchema], now: TableSchema) -> list[tuple[Labels, Labels]]:
    """Return the labels before and now, for each state of the type from which some were renamed since."""
    name = f"{need.kind} {need.name}"
    after = dict(LABEL.findall(dict(now.type_states).get(name, "")))
    before = {state: dict(LABEL.findall(state)) for one in then for what, state in one.type_states if what == name}
    return [(labels, after) for labels in before.values() if _differing(labels, after)]


def _differing(before: Labels, after: Labels) -> dict[str, str]:
    return {old: after[number] for number, old in before.items() if after.get(number, old) != old}


def _pairs(need: Need, states: Sequence[tuple[Labels, Labels]], here: Sequence[str]) -> dict[str, str]:
    """Return what is still to be renamed at the target, old -> new."""
    now = states[0][1]
    if _is_some_of(here, now.values()):
        return {}
    for before, _ in states:
        if _is_some_of(here, [before.get(number, label) for number, label in now.items()]):
            return {old: new for old, new in _differing(before, now).items() if old in here}
    if set(now.values()) <= set(here):
        return {}
    raise TargetError(
        f"labels of the enum {need.name} were renamed at the source, and here they are others than before: {', '.join(here)}",
        hint=f"ALTER TYPE {need.name} RENAME VALUE … TO … at the target until they are {', '.join(now.values())}, then load"
        " again",
    )


def _is_some_of(here: Sequence[str], labels: Collection[str]) -> bool:
    return [label for label in labels if label in here] == list(here)


def _rename(connection: Connection, job: str, table: TableId, need: Need, pairs: Mapping[str, str]) -> list[str]:
    if not pairs:
        return []
    statements = list(_statements(need, pairs))
    with translated(f"see which tables have columns of {need.name}"):
        having = {name for (name,) in connection.execute(HAVING, [need.name]).fetchall()}
        at_rest = {name for (name,) in connection.execute(AT_REST, [job, str(table)]).fetchall()}
    if others := sorted(having - at_rest):
        raise TargetError(
            f"labels of the enum {need.name} were renamed at the source; at the target {', '.join(others)} would show other"
            " values, because they use the type",
            table=str(table),
            hint="while the job runs, its tables are parked for this within ten seconds: load again then; for a table that is"
            f" not part of this job, run at the target: {'; '.join(statements)}; then load again",
        )
    with translated(f"rename labels of {need.name} ({'; '.join(statements)})"), connection.transaction():
        for statement in statements:
            connection.execute(statement.encode())
    log.get().warning("labels_renamed", statement="; ".join(statements))
    return statements


def _statements(need: Need, pairs: Mapping[str, str]) -> Iterator[str]:
    """Yield the statements, by way of third names where labels change places."""
    third = {old: f"'anabranch {number}'" for number, old in enumerate(pairs)} if set(pairs.values()) & {*pairs} else {}
    head = f"ALTER TYPE {need.name} RENAME VALUE"
    yield from (f"{head} {old} TO {name}" for old, name in third.items())
    yield from (f"{head} {third.get(old, old)} TO {new}" for old, new in pairs.items())
