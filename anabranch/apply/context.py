"""The facts that an epoch needs besides its rows: tables, windows, cascades. Picklable: executors get them too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from anabranch.apply.aside.aside_values import Known, Watch, watches
from anabranch.apply.order import KeyOrder
from anabranch.contracts import Emptying
from anabranch.model.ids import TableId
from anabranch.model.schema import TableSchema
from anabranch.rows.aside import Aside
from anabranch.rows.conflict import STRICT, ConflictPolicy
from anabranch.rows.keys import UniqueKey
from anabranch.rows.net import CascadeRule, Computed, TargetTable
from anabranch.rules.rule_set import Filter

Values = tuple[object, ...]  # of a foreign key's columns
KeyTexts = tuple[str | None, ...]  # of a row's key, in text form


@dataclass(frozen=True)
class Followed:
    """A table that the stream follows. Images with sequence <= `low` are in the loaded rows already; those up to `high`
    may be (K3); later ones are strict.

    - `filter`: the job's `where` for the table (K27).
    - `takeovers`: values that a parent took over inside the window (cascades/takeovers.py).
    - `waiting`: keys whose rows wait to be read again (waiting_rows.py).
    - `unique_keys`: those beside the primary key, the target's and the source's, by target names (K8).
    - `on_conflict`: what the job declares for rows that differ at the target.
    - `aside`: changes that are set aside (aside/); None where none are and none may be.
    - `loaded`: sequences after `low` that the loaded rows have, where that is known of each; all others are then strict (K14).
    """

    schema: TableSchema
    table: TargetTable
    low: int = 0
    high: int = 0
    filter: Filter | None = None
    takeovers: Mapping[CascadeRule, frozenset[Values]] = field(default_factory=dict)
    waiting: frozenset[KeyTexts] = frozenset()
    unique_keys: frozenset[UniqueKey] = frozenset()
    on_conflict: ConflictPolicy = STRICT
    aside: Aside | None = None
    loaded: frozenset[int] | None = None

    @property
    def unique(self) -> frozenset[str]:
        """The columns of all unique keys beside the primary one."""
        return frozenset(name for key in self.unique_keys for name in key.columns)

    def is_strict_from(self, sequence: int) -> bool:
        """Return whether the target must have every change of the table from `sequence` on as the log says it."""
        return self.loaded is not None or sequence > self.high


@dataclass(frozen=True)
class ApplyContext:
    """The tables that are followed, and what acts between them.

    - `tables`: those that stream or are past their load.
    - `cascades`: what the source's foreign keys do without logging it, between replicated tables (empty where its log has it).
    - `keys`: the order that the target's foreign keys accept; None where they are off for what we write (K7).
    - `watches`: what concerns set-aside rows, by table.
    - `computed`: columns that have to be computed anew where cascades change others of the row.
    """

    tables: Mapping[TableId, Followed]
    cascades: tuple[CascadeRule, ...] = ()
    truncate: Emptying = Emptying.TRUNCATE
    keys: KeyOrder | None = None
    computed: Mapping[TableId, Computed] = field(default_factory=dict)
    references: Mapping[TableId, tuple[CascadeRule, ...]] = field(init=False, repr=False)
    watches: Mapping[TableId, tuple[Watch, ...]] = field(init=False, repr=False, default_factory=dict)

    def __post_init__(self) -> None:
        by_parent: dict[TableId, list[CascadeRule]] = {}
        for rule in self.cascades:
            by_parent.setdefault(rule.parent.source, []).append(rule)
        object.__setattr__(self, "references", {t: tuple(rules) for t, rules in by_parent.items()})
        if any(followed.aside and followed.aside.changes for followed in self.tables.values()):
            known = {t: Known(f.schema, f.table, f.aside) for t, f in self.tables.items()}
            object.__setattr__(self, "watches", watches(known))

    def without(self, tables: frozenset[TableId]) -> ApplyContext:
        """Return the context with some tables parked: their rows are left out, and cascades do not reach them."""
        return self.over({t: f for t, f in self.tables.items() if t not in tables})

    def with_followed(self, *changed: Followed) -> ApplyContext:
        """Return the context with some tables added or replaced."""
        return self.over({**self.tables, **{one.table.source: one for one in changed}})

    def over(self, tables: Mapping[TableId, Followed]) -> ApplyContext:
        """Return the context with other tables. Cascades of tables that are not among them are left out."""
        kept = tuple(r for r in self.cascades if r.child.source in tables and r.parent.source in tables)
        return ApplyContext(tables, kept, self.truncate, self.keys, self.computed)


def closed(followed: Followed) -> Followed:
    """Return the table as it is followed after its window."""
    return replace(followed, low=0, high=0, takeovers={}, loaded=None)
