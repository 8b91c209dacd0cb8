"""Follows a table behind steps that alter it, where it is certain how without asking the target for its keys again.

What does not live here: what a table is followed by at first, and wherever that is in doubt (`following.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from anabranch.apply.context import ApplyContext, Followed
from anabranch.apply.following import unique_keys
from anabranch.model.ids import TableId
from anabranch.rows.altered import AlteredTable, ColumnRenamed
from anabranch.rows.conflict import ConflictPolicy
from anabranch.rows.keys import UniqueKey
from anabranch.rules.rule_set import Filter


def is_apart(table: TableId, context: ApplyContext) -> bool:
    """Return whether a table is followed by its own definition alone: no foreign key of either end leads to it or from it, no
    load of it is in the way, and nothing is set aside anywhere or waits to be read again."""
    followed, keys = context.tables.get(table), context.keys
    if followed is None or context.watches or table in context.computed or followed.takeovers or followed.waiting:
        return False
    if followed.low or followed.high or followed.loaded is not None or (followed.aside and followed.aside.changes):
        return False
    if any(table in (rule.child.source, rule.parent.source) for rule in context.cascades):
        return False
    return keys is None or not (table in keys.ranks or table in keys.acting)


def still_followed(followed: Followed, altered: AlteredTable, where: Filter | None, policy: ConflictPolicy) -> Followed:
    """Return how the table is followed behind the steps. None of them makes or removes a unique key of the target."""
    names = {
        altered.former_target(step.former): altered.target(step.name)
        for step in altered.steps
        if isinstance(step, ColumnRenamed)
    }
    kept = frozenset(_still(key, names, frozenset(altered.table.columns)) for key in followed.unique_keys)
    unique = frozenset(key for key in kept if key.columns) | unique_keys(altered.schema, altered.table)
    return replace(
        followed, schema=altered.schema, table=altered.table, filter=where, unique_keys=unique, on_conflict=policy
    )


def _still(key: UniqueKey, names: Mapping[str, str], there: frozenset[str]) -> UniqueKey:
    """Return a unique key by its columns' new names. Of one that has lost a column it is not known whether it still stands."""
    columns = frozenset(names.get(name, name) for name in key.columns)
    return UniqueKey(columns & there, key.is_plain and columns <= there)
