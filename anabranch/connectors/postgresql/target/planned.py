"""Indexes, checks and foreign keys of a PostgreSQL target, which are built after the consistent point: planned, each with its
statement. Text, nothing is executed.

What does not live here: tables (ddl.py), which indexes (indexes.py), when and how it is built (constraints.py, structures.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from anabranch.connectors.postgresql import verbatim
from anabranch.connectors.postgresql.quoting import qualified, quote
from anabranch.connectors.postgresql.target import terms
from anabranch.connectors.postgresql.target.ddl import quoted_list, shortened, target_columns, usual_name, with_digest
from anabranch.connectors.postgresql.verbatim import NOT_ENFORCED, NOT_VALID, NotCarried, is_ours
from anabranch.contracts import ValueRules
from anabranch.model.datatype import Kind
from anabranch.model.ids import TableId
from anabranch.model.schema import Action, Check, ForeignKey, TableSchema
from anabranch.rows.net import TargetTable
from anabranch.rows.zero_dates import KINDS, STOP, choice

RESTRICT = " RESTRICT"

ACTIONS = {Action.RESTRICT: "NO ACTION", Action.CASCADE: "CASCADE"}
ACTIONS |= {Action.SET_NULL: "SET NULL", Action.SET_DEFAULT: "SET DEFAULT"}


@dataclass(frozen=True, slots=True)
class Planned:
    """Something to build after the consistent point, `name` is unique in the target schema (index) or table (key)."""

    name: str
    fallback: str  # the name to take where another object has `name`
    columns: tuple[str, ...]
    unique: bool = False
    parts: tuple[str, ...] = ()  # of an index, where they are more than its columns
    served_by: str = ""  # the other index, for which this one is not built
    parent: TargetTable | None = None
    parent_columns: tuple[str, ...] = ()
    on_delete: Action = Action.RESTRICT
    on_update: Action = Action.RESTRICT
    exact: bool = False  # as the source has it: no other one is enough
    definition: str = ""  # of an index, where its parts do not say it: what follows the table's name
    constraint: str = ""  # that the index stands for
    options: str | None = None  # of a foreign key

    def sql_index(self, table: TableId, name: str, concurrently: bool = True) -> str:
        unique, how = "UNIQUE " if self.unique else "", "CONCURRENTLY " if concurrently else ""
        return f"CREATE {unique}INDEX {how}{quote(name)} ON {qualified(table)} {self.body}"

    @property
    def body(self) -> str:
        return self.definition or f"({', '.join(self.parts) or quoted_list(self.columns)})"

    @property
    def is_made_by_constraint(self) -> bool:
        """True if the index can only be made with its constraint, which says all of it."""
        return "(" in self.constraint

    def sql_constraint(self, table: TargetTable, name: str, is_divided: bool = False) -> str:
        """Return the statement that adds the constraint. `is_divided`: the table is partitioned, and has no constraint
        from an index.
        """
        kind, _, rest = self.constraint.partition(" ")
        from_index = self._own_words(kind) if is_divided else f"{kind} USING INDEX {quote(name)}"
        how = self.constraint if self.is_made_by_constraint else f"{from_index} {rest}".rstrip()
        return f"ALTER TABLE {qualified(table.target)} ADD CONSTRAINT {quote(name)} {how}"

    def _own_words(self, kind: str) -> str:
        """Write what the constraint's index says as the constraint says it."""
        body, nulls = self.body.removeprefix("USING btree "), " NULLS NOT DISTINCT"
        return f"{kind}{nulls} {body.replace(nulls, '', 1)}" if nulls in body else f"{kind} {body}"

    def sql_foreign_key(self, table: TargetTable, waits: bool = False) -> str:
        """Return the statement that adds the key. `waits`: it may be checked at the end of a transaction; by default it
        is checked immediately.
        """
        assert self.parent is not None
        return (
            f"ALTER TABLE {qualified(table.target)} ADD CONSTRAINT {quote(self.name)} "
            f"FOREIGN KEY ({quoted_list(self.columns)}) "
            f"REFERENCES {qualified(self.parent.target)} ({quoted_list(self.parent_columns)})"
            f"{self._key_options(waits)}"
        )

    def _key_options(self, waits: bool) -> str:
        """Return the options, in the source's words where they will do. RESTRICT cannot be deferred."""
        own = self.options
        if own is None or (waits and RESTRICT in own):
            actions = f" ON DELETE {ACTIONS[self.on_delete]} ON UPDATE {ACTIONS[self.on_update]}"
            return actions + (" DEFERRABLE" if waits else "") + NOT_VALID
        if own.endswith(NOT_ENFORCED):
            return own
        return own.removesuffix(NOT_VALID) + (" DEFERRABLE" if waits and " DEFERRABLE" not in own else "") + NOT_VALID

    @property
    def is_valid(self) -> bool:
        """True if the source says that no row breaks the foreign key."""
        return self.options is None or not self.options.endswith((NOT_VALID, NOT_ENFORCED))


@dataclass(frozen=True, slots=True)
class PlannedCheck:
    """`source`: what the source calls it."""

    table: TargetTable
    source: str
    name: str
    condition: str
    tail: str = ""  # what stands behind it
    is_valid: bool = True  # at the source

    @property
    def add(self) -> str:
        check = f"CONSTRAINT {quote(self.name)} CHECK ({self.condition}){self.tail}"
        unseen = "" if NOT_ENFORCED in self.tail else NOT_VALID
        return f"ALTER TABLE {qualified(self.table.target)} ADD {check}{unseen}"

    @property
    def validate(self) -> str:
        return validate(self.table, self.name)

    def renamed(self) -> PlannedCheck:
        """Return the same check with the name to use where another constraint has the planned one."""
        return replace(self, name=with_digest(self.name, f"{self.table.target}.{self.source}"))


def plan_checks(schema: TableSchema, table: TargetTable, rules: ValueRules) -> dict[str, PlannedCheck | NotCarried]:
    """Return, for every CHECK of the source, the planned one, or why there is none."""
    found: dict[str, PlannedCheck | NotCarried] = {}
    taken = {usual_name(table, what) for what in ("pkey", *(f"{column}_not_null" for column in table.columns))}
    taken |= {shortened(key.name) for key in schema.foreign_keys}  # they are made later, and may have a check's name
    for check in schema.checks:
        try:
            planned = _own_check(check, schema, table) if is_ours(schema) else _check(check, schema, table, rules)
            planned = planned.renamed() if planned.name in taken else planned
            found[check.name] = planned
            taken.add(planned.name)
        except NotCarried as why:
            found[check.name] = why
    return found


def _own_check(check: Check, schema: TableSchema, table: TargetTable) -> PlannedCheck:
    condition, tail, is_valid = verbatim.check_parts(check)
    condition = verbatim.taken(condition, schema, table)
    return PlannedCheck(table, check.name, shortened(check.name), condition, tail, is_valid)


def _check(check: Check, schema: TableSchema, table: TargetTable, rules: ValueRules) -> PlannedCheck:
    if check.term is None:
        raise NotCarried(check.refusal)
    named = tuple(check.term.columns())
    columns = mapped(named, table)
    kinds = {table.type_of(column).carried for column in columns}
    if kinds & set(KINDS) and any(choice(rules, schema, column) != STOP for column in named):
        raise NotCarried("it names dates, some of which [types] zero_date replaces")
    if rules.nul == "strip" and Kind.TEXT in kinds:
        raise NotCarried('it names texts, which [types] nul = "strip" shortens')
    if any(table.type_of(column).target for column in columns):
        raise NotCarried("it names a column whose type the job chose")
    names = {source: quote(target) for source, target in target_columns(table).items()}
    text = terms.condition(check.term, names)
    if "\x00" in text:
        raise NotCarried("it compares with a text that has a NUL character")
    return PlannedCheck(table, check.name, shortened(check.name), text)


def validate(table: TargetTable, name: str) -> str:
    """Return the statement that validates a constraint which was added NOT VALID."""
    return f"ALTER TABLE {qualified(table.target)} VALIDATE CONSTRAINT {quote(name)}"


def plan_foreign_key(key: ForeignKey, table: TargetTable, resolve: Callable[[TableId], TargetTable | None]) -> Planned:
    """Plan a foreign key. Raises NotCarried when an end of it is not replicated."""
    parent = resolve(key.parent)
    if parent is None:
        raise NotCarried(f"its parent {key.parent} is not replicated")
    name, columns = shortened(key.name), mapped(key.columns, table)
    if key.options is not None and key.options.startswith("FOREIGN KEY"):
        raise NotCarried("it compares more than columns")
    if key.options is not None and "(" in key.options and columns != key.columns:
        raise NotCarried("its actions name columns that the job renames")
    return Planned(
        name,
        name,
        columns,
        parent=parent,
        parent_columns=mapped(key.parent_columns, parent),
        on_delete=key.on_delete,
        on_update=key.on_update,
        options=key.options,
    )


def mapped(columns: Iterable[str], table: TargetTable) -> tuple[str, ...]:
    """Return source columns by their names at the target. Raises NotCarried."""
    names = target_columns(table) | dict(table.computed)
    missing = [c for c in columns if c not in names]
    if missing:
        raise NotCarried(f"{', '.join(missing)} of {table.source} is not a replicated column")
    return tuple(names[c] for c in columns)
