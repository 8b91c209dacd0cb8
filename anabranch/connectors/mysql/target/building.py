"""Building behind the load: computed columns, indexes, checks, foreign keys, defaults. Others read and write the tables
meanwhile; what the server must do alone (a check on MySQL copies the table) it does alone.

Everything is found by its name, or by what it is, and may be repeated: each statement commits by itself, and a process may die
behind any of them. What the server refuses, and keys that stand without proof, are returned as texts.
What does not live here: rendering (`ddl.py`, `indexes.py`), keys that a load took off (`taken_off.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from anabranch.connectors.mysql.target import ddl, defaults
from anabranch.connectors.mysql.target.acting_keys import add_key
from anabranch.connectors.mysql.target.attempts import attempt
from anabranch.connectors.mysql.target.columns import made_columns
from anabranch.connectors.mysql.target.errors import translated
from anabranch.connectors.mysql.target.indexes import PlannedIndex, plan_indexes, serves_cascade
from anabranch.connectors.mysql.target.names import NotMade
from anabranch.connectors.mysql.target.orphans import without_parent
from anabranch.connectors.mysql.target.planned import PlannedCheck, PlannedKey, plan_checks, plan_foreign_key
from anabranch.connectors.mysql.target.release import Release
from anabranch.connectors.mysql.target.session import Connection, ask, one, quoted, run, table_name
from anabranch.connectors.mysql.target.structures import PRIMARY, ExistingIndex, ExistingTable, read_table
from anabranch.contracts import ValueRules
from anabranch.errors import TargetError
from anabranch.model.foreign_key_changes import by_source_name
from anabranch.model.ids import TableId
from anabranch.model.markers import comment
from anabranch.model.schema import Index, TableSchema
from anabranch.rows.net import TargetTable

Resolve = Callable[[TableId], TargetTable | None]
# Names of foreign keys, and on MySQL of checks, are one list per database.
KEY_NAMES = """
SELECT TABLE_NAME FROM information_schema.TABLE_CONSTRAINTS
 WHERE CONSTRAINT_SCHEMA = %s AND CONSTRAINT_NAME = %s AND CONSTRAINT_TYPE = %s
"""
UNCHECKED = "SET SESSION check_constraint_checks = {}"  # https://mariadb.com/kb/en/server-system-variables/#check_constraint_checks


@dataclass(frozen=True)
class Building:
    """Everything that one table gets. `connection`: with foreign keys off, so that ADD FOREIGN KEY copies no rows."""

    connection: Connection
    release: Release
    schema: TableSchema
    table: TargetTable
    rules: ValueRules
    job: str = ""  # whoever reads this server's log is to know it by

    # --- indexes ------------------------------------------------------------------------------------------------------

    def indexes(self) -> list[str]:
        """Build the source's secondary indexes, in one go over the table where that is possible."""
        problems, lines, alone = [], [], []
        existing = self._existing()
        for index, planned in self._planned():
            if isinstance(planned, NotMade):
                problems.append(f"index {index.name} of {self.table.source} is not built: {planned}")
            elif name := name_to_build(planned, existing):
                lines.append((planned, name)) if not planned.kind else alone.append((planned, name))
        return problems + self._add_indexes(lines) + [said for one_of in alone for said in self._add_indexes([one_of])]

    def _add_indexes(self, wanted: list[tuple[PlannedIndex, str]]) -> list[str]:
        """Add indexes with one statement; one by one where that is refused."""
        if not wanted:
            return []
        adds = ", ".join(f"ADD {planned.line(name)}" for planned, name in wanted)
        statement = f"ALTER TABLE {table_name(self.table.target)} {adds}"
        what = f"index {wanted[0][1]} of {self.table.target}"
        said = attempt(self.connection, statement, what, is_single=len(wanted) == 1)
        if not said or len(wanted) == 1:
            return said
        return [problem for one_of in wanted for problem in self._add_indexes([one_of])]

    def cascade_indexes(self) -> None:
        """Build what finds the rows that foreign keys change. What cannot be built is left to `indexes`."""
        existing = self._existing()
        for index, planned in self._planned():
            if isinstance(planned, NotMade) or not serves_cascade(self.schema, index):
                continue
            if name := name_to_build(planned, existing):
                self._add_indexes([(planned, name)])

    def _planned(self) -> Iterator[tuple[Index, PlannedIndex | NotMade]]:
        if not self.schema.indexes:
            return iter(())
        columns = made_columns(self.schema, self.table, self.rules, self.release)
        return plan_indexes(self.schema, self.table, columns, self.release)

    # --- computed columns, defaults -----------------------------------------------------------------------------------

    def computed(self) -> list[str]:
        """Add the columns that the target computes and that were refused with the table."""
        if not self.table.computed:
            return []
        existing, problems = self._existing(), []
        for column, _, planned in ddl.plan_computed(self.schema, self.table, self.release):
            if isinstance(planned, NotMade):
                problems.append(f"column {column.name} of {self.table.source} is not made: {planned}")
        for source, line in ddl.computed_columns(self.schema, self.table, self.release):
            name = dict(self.table.computed)[source]
            if existing.column(name) is None:
                add = f"ALTER TABLE {table_name(self.table.target)} ADD COLUMN {line}"
                problems += attempt(self.connection, add, f"column {name} of {self.table.target}")
        return problems

    def defaults(self) -> list[str]:
        """Set defaults in the source's words, for columns that have none."""
        wanted = [
            (target, text)
            for _, target, text in defaults.own_defaults(self.schema, self.table, self.release)
            if isinstance(text, str)
        ]
        if not wanted:
            return []
        existing, problems = self._existing(), []
        for target, text in wanted:
            column = existing.column(target)
            if column is not None and column.default is None:
                place = f"ALTER TABLE {table_name(self.table.target)} ALTER {quoted(target)}"
                what = f"the default of {target} of {self.table.target}"
                problems += attempt(self.connection, f"{place} SET DEFAULT ({text})", what, behind=self._comment)
        return problems

    def digits(self) -> list[str]:
        """Set constants of FLOAT columns again, all with one statement behind all others: each ALTER TABLE leaves six digits of
        the others, where the release takes no expression instead. A default that somebody else has set stays."""
        columns = made_columns(self.schema, self.table, self.rules, self.release)
        wanted = {c.name: c.default for c in columns if c.default and defaults.is_cut_by_alter(c.native, c.default)}
        existing = self._existing() if wanted else None
        sets = [
            f"ALTER {quoted(name)} SET DEFAULT {text}"
            for name, text in wanted.items()
            if existing and (found := existing.column(name)) and defaults.is_printed_of(found.default, text)
        ]
        if not sets:
            return []
        what = f"the default of {', '.join(wanted)} of {self.table.target}"
        place = f"ALTER TABLE {table_name(self.table.target)}"
        return attempt(self.connection, f"{place} {', '.join(sets)}", what, "set", behind=self._comment)

    # --- checks -------------------------------------------------------------------------------------------------------

    def checks(self) -> list[str]:
        """Add the source's checks. One that rows break, as they may at a source that once did not ask, is not kept: here it
        would refuse the next change of such a row."""
        if not self.schema.checks:
            return []
        existing, problems = self._existing(), []
        for name, planned in plan_checks(self.schema, self.table, self.rules, self.release).items():
            if isinstance(planned, NotMade):
                problems.append(f"check {name} of {self.table.source} is not built: {planned}")
            elif not (there := {planned.name, planned.fallback} & existing.checks.keys()):
                problems += self._add_check(planned)
            elif self.release.family == "mariadb":  # who added it may have died before the rows were asked
                name = planned.name if planned.name in there else planned.fallback
                problems += self._dropped_if_broken(replace(planned, condition=existing.checks[name]), name)
        return problems

    def _add_check(self, planned: PlannedCheck) -> list[str]:
        name = planned.name
        if self._is_used(name, "CHECK"):
            name = planned.fallback
        add = self._add_check_unasked if self.release.family == "mariadb" else self._add_check_asked
        return add(planned, name)

    def _add_check_asked(self, planned: PlannedCheck, name: str) -> list[str]:
        """Ask the rows, then add the check, for which MySQL copies the table."""
        what = f"check {name} of {self.table.target}"
        with translated(what):
            if one(self.connection, planned.broken_by) is not None:
                return [f"{what} is not built: rows break it, as at the source"]
        return attempt(self.connection, planned.add(name), what)

    def _add_check_unasked(self, planned: PlannedCheck, name: str) -> list[str]:
        """Add the check without asking the rows, which MariaDB does at once, then ask them."""
        what = f"check {name} of {self.table.target}"
        with translated(what):
            run(self.connection, UNCHECKED.format(0))
            try:
                said = attempt(self.connection, planned.add(name), what)
            finally:
                if self.connection.open:
                    run(self.connection, UNCHECKED.format(1))
        return said or self._dropped_if_broken(planned, name)

    def _dropped_if_broken(self, planned: PlannedCheck, name: str) -> list[str]:
        """Ask the rows whether they keep to a check that stands, and drop it where one does not."""
        what = f"check {name} of {self.table.target}"
        with translated(what):
            if not planned.is_asked or one(self.connection, planned.broken_by) is None:
                return []
        drop = f"ALTER TABLE {table_name(self.table.target)} DROP CONSTRAINT {quoted(name)}"
        return attempt(self.connection, drop, what, "dropped") or [
            f"{what} is not built: rows break it, as at the source"
        ]

    # --- foreign keys -------------------------------------------------------------------------------------------------

    def foreign_keys(self, resolve: Resolve) -> list[str]:
        """Build the source's foreign keys, then ask for rows without a parent: with its keys off the server does not. A key
        that some rows break stands, and is named."""
        problems: list[str] = []
        existing = self._existing() if self.schema.foreign_keys else None
        for key in self.schema.foreign_keys:
            try:
                planned = plan_foreign_key(key, self.table, resolve)
            except NotMade as why:
                problems.append(f"foreign key {key.name} of {self.table.source} is not built: {why}")
                continue
            said = self._add_key(planned, existing) or self._orphans(planned)
            problems += by_source_name(said, key.name, planned.name, planned.fallback)
        return problems

    def _add_key(self, planned: PlannedKey, existing: ExistingTable | None) -> list[str]:
        there = {key.name.lower() for key in existing.foreign_keys} if existing else set()
        if {planned.name.lower(), planned.fallback.lower()} & there:
            return []
        if self._is_used(planned.name, "FOREIGN KEY"):
            planned = planned.renamed()
        planned = planned.beside(existing.indexes if existing else ())
        what = f"foreign key {planned.name} of {self.table.target}"
        return add_key(self.connection, self.job, planned.add, planned.child, what)

    def _orphans(self, planned: PlannedKey) -> list[str]:
        """Return what is to be said of a key that stands: of one that its source has not validated, that it is so here."""
        found = without_parent(self.connection, planned)
        if found or planned.is_asked:
            return found
        return [f"foreign key {planned.name} of {planned.child} stands unvalidated, as at the source"]

    @property
    def _comment(self) -> str:
        return comment(self.job) if self.job else ""

    # --- what is there ------------------------------------------------------------------------------------------------

    def _existing(self) -> ExistingTable:
        with translated(f"read {self.table.target}"):
            existing = read_table(self.connection, self.table.target)
        if existing is None:
            raise TargetError(f"the target table {self.table.target} is gone", hint="load it again")
        return existing

    def _is_used(self, name: str, kind: str) -> bool:
        """Return whether a constraint of the database has the name."""
        with translated(f"read the constraints of {self.table.target.schema}"):
            return bool(ask(self.connection, KEY_NAMES, self.table.target.schema, name, kind))


def is_all_there(schema: TableSchema, table: TargetTable) -> bool:
    """Return whether nothing is to be built for a table that its load has created."""
    has_expression = any(column.default_is_expression for column in schema.columns)
    return not (schema.indexes or schema.checks or schema.foreign_keys or table.computed or has_expression)


def name_to_build(planned: PlannedIndex, table: ExistingTable) -> str:
    """Return the name under which an index is to be built; "" where one is there that does what it would."""
    if any(serves(planned, index) for index in table.indexes):
        return ""
    used = {index.name.lower() for index in table.indexes}
    return next((name for name in (planned.name, planned.fallback) if name.lower() not in used), "")


def serves(planned: PlannedIndex, index: ExistingIndex) -> bool:
    """Return whether an existing index does what the planned one would."""
    if planned.expressions:  # the server may print them otherwise
        return bool(index.expressions) and index.name.lower() in (planned.name.lower(), planned.fallback.lower())
    kind = planned.kind or "BTREE"
    is_kind = index.kind == kind or (kind == "BTREE" and index.kind == "HASH")
    if not is_kind or index.expressions or _lower(index.columns) != _lower(planned.columns):
        return False
    if planned.kind:
        return True
    nothing = (None,) * len(planned.columns)
    same_prefixes = index.prefixes == (planned.prefixes or nothing)
    same_order = index.descending == (planned.descending or (False,) * len(planned.columns))
    return same_prefixes and same_order and (index.unique or index.name == PRIMARY or not planned.unique)


def _lower(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(name.lower() for name in names)
