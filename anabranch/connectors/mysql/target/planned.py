"""Checks and foreign keys of a MySQL target, which are built after the consistent point: planned, each with its statement.
Text, nothing is executed.

What does not live here: tables (ddl.py), indexes (indexes.py), when and how it is built (building.py).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from anabranch.connectors.mysql.target import clauses
from anabranch.connectors.mysql.target.names import NotMade, mapped, shortened, target_columns, with_digest
from anabranch.connectors.mysql.target.other_defaults import DIALECT
from anabranch.connectors.mysql.target.release import Release
from anabranch.connectors.mysql.target.session import column_list, quoted, table_name
from anabranch.connectors.mysql.target.structures import ExistingIndex
from anabranch.contracts import ValueRules
from anabranch.model.check_changes import NOT_ENFORCED as UNENFORCED
from anabranch.model.datatype import Kind
from anabranch.model.ids import TableId
from anabranch.model.schema import Action, Check, ForeignKey, TableSchema
from anabranch.rows.net import TargetTable
from anabranch.rows.zero_dates import KINDS, STOP, choice

NOT_ENFORCED, NOT_VALID = " NOT ENFORCED", " NOT VALID"  # of a foreign key, in PostgreSQL's words
MATCH_FULL = " MATCH FULL"
PARTLY_NULL = "MATCH FULL has no counterpart: rows of which only some of its columns are NULL are taken"
ACTIONS = {Action.RESTRICT: "NO ACTION", Action.CASCADE: "CASCADE", Action.SET_NULL: "SET NULL"}


@dataclass(frozen=True, slots=True)
class PlannedCheck:
    """`source`: what the source calls it. `is_asked`: the source says that no row breaks it."""

    table: TargetTable
    source: str
    name: str
    condition: str
    is_asked: bool = True

    @property
    def fallback(self) -> str:
        return with_digest(self.name, f"{self.table.target}.{self.source}")

    def add(self, name: str) -> str:
        return f"ALTER TABLE {table_name(self.table.target)} ADD CONSTRAINT {quoted(name)} CHECK ({self.condition})"

    @property
    def broken_by(self) -> str:
        """The query for a row that breaks it."""
        return f"SELECT 1 FROM {table_name(self.table.target)} WHERE NOT ({self.condition}) LIMIT 1"


def plan_checks(
    schema: TableSchema, table: TargetTable, rules: ValueRules, release: Release
) -> dict[str, PlannedCheck | NotMade]:
    """Return, for every CHECK of the source, the planned one, or why there is none."""
    found: dict[str, PlannedCheck | NotMade] = {}
    for check in schema.checks:
        try:
            if not release.has("checks"):
                raise NotMade("this release has no checks: it takes and forgets them")
            condition, is_asked = _condition(check, schema, table, rules, release)
            found[check.name] = PlannedCheck(table, check.name, shortened(check.name), condition, is_asked)
        except KeyError as missing:
            found[check.name] = NotMade(f"{missing.args[0]} of {table.source} is not a replicated column")
        except NotMade as why:
            found[check.name] = why
    return found


def _condition(
    check: Check, schema: TableSchema, table: TargetTable, rules: ValueRules, release: Release
) -> tuple[str, bool]:
    """Return the condition, and whether the source has asked all rows. Own words, where the source is of this family."""
    names = {source: quoted(target) for source, target in target_columns(table).items()}
    if schema.dialect == DIALECT:
        from anabranch.connectors.mysql.target import other_words  # with a parser that takes its time to come

        term, is_asked = other_words.check(check.text, schema)
    elif clauses.is_of_family(schema) and check.refusal != UNENFORCED:
        try:
            return clauses.own_words(check.text, schema, table, release.family), True
        except NotMade:
            if check.term is None:
                raise
            term, is_asked = check.term, True
    elif check.term is not None:
        term, is_asked = check.term, True
    else:
        raise NotMade(check.refusal)
    _refuse_changed_values(tuple(term.columns()), schema, table, rules)
    return clauses.condition(term, names), is_asked


def _refuse_changed_values(named: tuple[str, ...], schema: TableSchema, table: TargetTable, rules: ValueRules) -> None:
    """Raise NotMade for columns of which the job makes other values."""
    columns = mapped(named, table)
    if not set(columns) <= set(table.columns):
        raise NotMade("it names a column that is computed")
    if any(_is_printed_number(name, column, schema, table) for name, column in zip(named, columns, strict=True)):
        raise NotMade("it names numbers that are texts here, and would compare these as texts")
    kinds = {table.type_of(column).carried for column in columns}
    if kinds & set(KINDS) and any(choice(rules, schema, column) != STOP for column in named):
        raise NotMade("it names dates, some of which [types] zero_date replaces")
    if rules.nul == "strip" and Kind.TEXT in kinds:
        raise NotMade('it names texts, which [types] nul = "strip" shortens')
    if any(table.type_of(column).target for column in columns):
        raise NotMade("it names a column whose type the job chose")


def _is_printed_number(name: str, column: str, schema: TableSchema, table: TargetTable) -> bool:
    """Return whether a column of numbers that no DECIMAL holds is the text that the source prints (rules/choices.py)."""
    type = schema.column(name).type
    return type is not None and type.kind is Kind.DECIMAL and table.type_of(column).kind is Kind.NATIVE


@dataclass(frozen=True, slots=True)
class PlannedKey:
    """A foreign key. `is_asked`: the source says that no row breaks it; `index`: the name of one that is made with it, "" where
    the server sees to that."""

    name: str
    child: TableId
    columns: tuple[str, ...]
    parent: TableId
    parent_columns: tuple[str, ...]
    actions: str
    is_asked: bool = True
    index: str = ""

    @property
    def fallback(self) -> str:
        return with_digest(self.name, f"{self.child}.{self.name}")

    def beside(self, indexes: Collection[ExistingIndex]) -> PlannedKey:
        """Return it with an index of its own where one over other columns has the name that the server would give to that, as
        an index which a former key of the name has left behind: the server would make neither."""
        columns = [column.lower() for column in self.columns]
        leading = ([column.lower() for column in index.columns[: len(columns)]] for index in indexes if index.is_plain)
        if columns in leading or self.name.lower() not in {index.name.lower() for index in indexes}:
            return self
        return replace(self, index=with_digest(self.name, ", ".join(self.columns)))

    def renamed(self) -> PlannedKey:
        return replace(self, name=self.fallback)

    @property
    def definition(self) -> str:
        """All that follows the name in ADD CONSTRAINT."""
        parent = f"{table_name(self.parent)} ({column_list(self.parent_columns)})"
        return f"FOREIGN KEY ({column_list(self.columns)}) REFERENCES {parent}{self.actions}"

    @property
    def add(self) -> str:
        index = f"ADD INDEX {quoted(self.index)} ({column_list(self.columns)}), " if self.index else ""
        return f"ALTER TABLE {table_name(self.child)} {index}ADD CONSTRAINT {quoted(self.name)} {self.definition}"


def plan_foreign_key(
    key: ForeignKey, table: TargetTable, resolve: Callable[[TableId], TargetTable | None]
) -> PlannedKey:
    """Plan a foreign key. Raises NotMade when an end of it is not replicated, or InnoDB has no such key.

    https://dev.mysql.com/doc/refman/8.0/en/create-table-foreign-keys.html
    """
    parent, told = resolve(key.parent), key.options or ""
    if parent is None:
        raise NotMade(f"its parent {key.parent} is not replicated")
    if told.startswith("FOREIGN KEY"):
        raise NotMade("it compares more than columns")
    if told.endswith(NOT_ENFORCED):
        raise NotMade("the source does not enforce it")
    if "(" in told:
        raise NotMade("its actions change some of its columns only")
    if Action.SET_DEFAULT in (key.on_delete, key.on_update):
        raise NotMade("InnoDB has no SET DEFAULT")
    return PlannedKey(
        shortened(key.name),
        table.target,
        mapped(key.columns, table),
        parent.target,
        mapped(key.parent_columns, parent),
        f" ON DELETE {ACTIONS[key.on_delete]} ON UPDATE {ACTIONS[key.on_update]}",
        not told.endswith(NOT_VALID),
    )


def why_looser(key: ForeignKey, schema: TableSchema) -> str:
    """Return what a foreign key takes here that the source refuses; "" where they are alike. MATCH FULL says no more of one
    column, nor of columns that are never NULL.

    https://dev.mysql.com/doc/refman/8.0/en/create-table-foreign-keys.html
    """
    may_be_null = len(key.columns) > 1 and any(schema.column(name).nullable for name in key.columns)
    return PARTLY_NULL if may_be_null and (key.options or "").startswith(MATCH_FULL) else ""
