"""The expected state: what the statements of a history make of its tables, foreign keys included. Independent of the product.

Statements that succeeded at the source are carried out again in the order of the commits; the number of rows that they affected
there is compared. Foreign keys act as InnoDB's do:
https://dev.mysql.com/doc/refman/8.0/en/create-table-foreign-keys.html#foreign-key-referential-actions
What does not live here: which statements those are, and in which order (order.py, check.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from anabranch.testing.torture.history import (
    COMMIT_THEMSELVES,
    PASSING,
    Assigned,
    Choice,
    Condition,
    Plus,
    Statement,
    sql,
)
from anabranch.testing.torture.rows import Row, Rows, TableRows, Value
from anabranch.testing.torture.tables import (
    CASCADE,
    DEFAULTED,
    DROPPED,
    KEPT,
    MADE,
    RESTRICT,
    Column,
    ForeignKey,
    Schema,
    Table,
    heading,
)
from anabranch.testing.torture.values import Literal, Text

_NONE: list[bytes] = []  # no table has this name
DEEPEST = 15  # levels of cascades, https://dev.mysql.com/doc/refman/8.0/en/create-table-foreign-keys.html


class Refused(Exception):
    """The source would not take this statement."""


class Disagreement(Exception):
    """The model and the source do not say the same of a statement. Never the product's fault."""


@dataclass(frozen=True, slots=True)
class Affected:
    """The number of rows that a statement affected, from `low` to `high` where the source's own order of work decides."""

    low: int
    high: int

    def __contains__(self, number: int) -> bool:
        return self.low <= number <= self.high

    def __str__(self) -> str:
        return f"{self.low}" if self.low == self.high else f"{self.low} to {self.high}"


class Model:
    """The tables as they are after the statements so far, at the source, or where a job keeps what is dropped: `drops` as
    `[ddl] drop_table` says it."""

    def __init__(self, schema: Schema, family: str, drops: str = "") -> None:
        self.schema, self.family, self.drops = schema, family, drops
        self.rows = Rows(schema)
        self.names = {t.names[0]: t.name for t in schema.tables if MADE not in t.life}  # of those that are there
        self._is_steady = len(schema.steady) == len(schema.tables)
        self._headed: dict[str, tuple[list[bytes], list[bytes]]] = {}  # lines without and with their heading, by table
        self._checks = True
        self._defaults: dict[tuple[str, str], Literal] = {}  # that have been changed, by table and column
        self._suspects: list[tuple[Table, ForeignKey, Value]] = []  # values that children may have lost
        self._do: Mapping[str, Callable[[Statement], Affected]] = {
            "insert": self._insert,
            "ignore": self._ignore,
            "replace": self._replace,
            "upsert": self._upsert,
            "update": self._update,
            "delete": self._delete,
            "both": self._both,
            "truncate": self._truncate,
            "empty": self._empty,
            "label": lambda _: _exactly(0),
            "grow": lambda _: _exactly(0),  # the columns are there from the beginning, as rows get them (growing.py)
            "add": lambda _: _exactly(0),
            "alter": self._alter,
            "make": self._make,
            "rename": self._rename,
            "drop": self._drop,
        }

    def execute(self, statement: Statement, checks: bool = True) -> Affected:
        """Carry a statement out, whole or, with Refused, not at all."""
        mark, self._checks = self.rows.mark(), checks
        self._suspects.clear()
        try:
            affected = self._do[statement.do](statement if self._is_steady else self._resolved(statement))
            self._hold(mark)
        except Refused:
            self.rows.back_to(mark)
            raise
        return affected

    def replay(self, statements: Iterable[tuple[Statement, int]], checks: bool = True) -> None:
        """A committed transaction: its statements that succeeded, with the rows that each affected at the source.

        What was rolled back to a savepoint is left out: it may have lost its locks, and then it affected rows of another time
        than that of the commit (seen on MariaDB 10.11)."""
        kept: list[tuple[Statement, int]] = []
        savepoints: dict[str, int] = {}
        for statement, seen in statements:
            if statement.do == "savepoint":
                savepoints[statement.name] = len(kept)
            elif statement.do == "back":
                del kept[savepoints[statement.name] :]
            else:
                kept.append((statement, seen))
        for statement, seen in kept:
            self._compare(statement, seen, checks)
        self.rows.settle()

    def lines(self, name: str) -> list[bytes]:
        """Return the rows of the table that has this name now, with a heading where it has not had it all the time; [] where
        none has it. The same object as long as nothing changes."""
        key = self.names.get(name)
        if key is None:
            return _NONE
        lines = self.rows[key].lines()
        head = self.head(name)
        if not head:
            return lines
        if key not in self._headed or self._headed[key][0] is not lines:
            self._headed[key] = lines, sorted([head, *lines])
        return self._headed[key][1]

    def head(self, name: str) -> bytes:
        """Return the heading of what has this name now; b"" for a table that is there all the time, and for none."""
        table = self.schema[self.names[name]] if name in self.names else None
        return heading(column.name for column in table.columns) if table and table.life else b""

    # --- tables that come and go -----------------------------------------------------------------------------------------

    def _resolved(self, statement: Statement) -> Statement:
        """Return the statement with the tables that have these names now. Raises Refused where none has."""
        if statement.do in PASSING or not statement.table:
            return replace(statement, parts=tuple(map(self._resolved, statement.parts)))
        if statement.table not in self.names:
            raise Refused(f"there is no table {statement.table}")
        return replace(statement, table=self.names[statement.table], parts=tuple(map(self._resolved, statement.parts)))

    def _make(self, statement: Statement) -> Affected:
        return self._call(statement.name, statement.table)

    def _rename(self, statement: Statement) -> Affected:
        return self._call(self._taken(statement.table), statement.name)

    def _drop(self, statement: Statement) -> Affected:
        key = self._taken(statement.table)
        aside = {"rename": f"{statement.table}{KEPT}", "keep": statement.table}.get(self.drops)
        return self._call(key, aside) if aside else _exactly(0)

    def _taken(self, name: str) -> str:
        """Return which table has the name; from now on none has."""
        if name not in self.names:
            raise Refused(f"there is no table {name}")
        return self.names.pop(name)

    def _call(self, key: str, name: str) -> Affected:
        if name in self.names:
            raise Refused(f"there is a table {name}")
        self.names[name] = key
        return _exactly(0)

    def _compare(self, statement: Statement, seen: int, checks: bool) -> None:
        try:
            affected = self.execute(statement, checks)
        except Refused as refused:
            raise Disagreement(
                f"the source took what the model refuses: {refused}: {sql(statement)[:600]}"
            ) from refused
        if seen not in affected and statement.do not in COMMIT_THEMSELVES:
            raise Disagreement(f"the source affected {seen} rows, the model {affected}: {sql(statement)[:600]}")

    # --- rows that come ------------------------------------------------------------------------------------------------

    def _insert(self, statement: Statement) -> Affected:
        for row in self._given(statement):
            if self._in_the_way(statement.table, row):
                raise Refused(f"a row like {row} is there")
            self._add(statement.table, row)
        return _exactly(len(statement.rows))

    def _ignore(self, statement: Statement) -> Affected:
        added = 0
        for row in self._given(statement):
            if not self._in_the_way(statement.table, row) and not self._lacks_parent(statement.table, row):
                self._add(statement.table, row)
                added += 1
        return _exactly(added)

    def _replace(self, statement: Statement) -> Affected:
        affected = equal = 0
        for row in self._given(statement):
            while found := self._in_the_way(statement.table, row):  # one's removal may take along or clear another
                equal += self.rows[statement.table].rows[found[0]] == row
                self._remove(statement.table, found[0])
                affected += 1
            self._add(statement.table, row)
            affected += 1
        return Affected(
            affected - equal, affected
        )  # where a row is replaced by itself, some servers see nothing to remove

    def _upsert(self, statement: Statement) -> Affected:
        table, low, high = self.rows[statement.table], 0, 0
        for row in self._given(statement):
            found = self._in_the_way(statement.table, row)
            if found:
                number, old = found[0], table.rows[found[0]]
                self._change(statement.table, number, self._assigned(table.table, old, statement.assigned))
                changed = table.rows[number] != old
                low, high = low + (2 if changed else 0), high + 2  # what is as it was counts as 0, 1 or 2
            else:
                self._add(statement.table, row)
                low, high = low + 1, high + 1
        return Affected(low, high)

    def _given(self, statement: Statement) -> Iterable[Row]:
        table = self.schema[statement.table]
        for literals in statement.rows:
            named = dict(zip(statement.columns, literals, strict=True))
            texts = (c.of.text(self._literal(table, c, named), self.family) for c in table.columns)
            yield self.rows[table.name].whole(tuple(texts))

    def _literal(self, table: Table, column: Column, named: Mapping[str, Literal]) -> Literal:
        for name in (column.name, column.next_name):
            if name in named:
                return named[name]
        return self._defaults.get((table.name, column.name), column.default)

    def _in_the_way(self, name: str, row: Row) -> list[int]:
        """The rows that have a unique value of this one, in the order in which the server finds them."""
        table = self.rows[name]
        found = (table.having(columns, table.value(row, columns)) for columns in _as_checked(table.table))
        return list(dict.fromkeys(number for numbers in found for number in numbers))

    def _lacks_parent(self, name: str, row: Row) -> bool:
        """A row may be its own parent."""
        for key in self.schema[name].foreign_keys if self._checks else ():
            value = self.rows[name].value(row, key.columns)
            is_own = key.parent == name and value == self.rows[name].value(row, key.parent_columns)
            if None not in value and not is_own and not self.rows[key.parent].having(key.parent_columns, value):
                return True
        return False

    def _add(self, name: str, row: Row) -> None:
        self.rows.add(name, row)
        self._suspect_own(self.rows[name], row, None)

    # --- rows that change and go -----------------------------------------------------------------------------------------

    def _update(self, statement: Statement) -> Affected:
        table = self.rows[statement.table]
        numbers = self._matching(statement)
        for number in numbers:
            self._change(statement.table, number, self._assigned(table.table, table.rows[number], statement.assigned))
        return _exactly(len(numbers))

    def _delete(self, statement: Statement) -> Affected:
        numbers, removed = self._matching(statement), 0
        for number in numbers:
            if number in self.rows[statement.table].rows:
                self._remove(statement.table, number)
                removed += 1
        return Affected(min(1, removed), len(numbers)) if removed < len(numbers) else _exactly(removed)

    def _both(self, statement: Statement) -> Affected:
        found = [self._matching(part) for part in statement.parts]
        if not all(found):
            return _exactly(0)
        one_by_one = [self._part(part, numbers) for part, numbers in zip(statement.parts, found, strict=True)]
        return Affected(min(1, sum(one_by_one)), sum(map(len, found)))

    def _part(self, part: Statement, numbers: Sequence[int]) -> int:
        table, done = self.rows[part.table], 0
        for number in numbers:
            if number not in table.rows:
                continue
            done += 1
            if part.do == "delete":
                self._remove(part.table, number)
            else:
                self._change(part.table, number, self._assigned(table.table, table.rows[number], part.assigned))
        return done

    def _truncate(self, statement: Statement) -> Affected:
        for number in list(self.rows[statement.table].rows):
            self.rows.put(statement.table, number, None)
        return _exactly(0)

    def _alter(self, statement: Statement) -> Affected:
        """A column that is dropped has its default in every row from now on (altering.py)."""
        table = self.schema[statement.table]
        column = table.column(statement.columns[0])
        if column.altered == DEFAULTED:
            self._defaults[table.name, column.name] = column.next_default
        if column.altered == DROPPED:
            place = table.place(column.name)
            for number, row in list(self.rows[table.name].rows.items()):
                self.rows.put(table.name, number, (*row[:place], column.before(self.family), *row[place + 1 :]))
        return _exactly(0)

    def _empty(self, statement: Statement) -> Affected:
        """PostgreSQL's: part of a transaction, of several tables at once, with those that inherit from them."""
        for each in (statement, *statement.parts):
            for name in (each.table, *(heir.name for heir in self.schema.heirs(each.table))):
                self._truncate(replace(each, table=name))
        return _exactly(0)

    def _assigned(self, table: Table, row: Row, assigned: Sequence[tuple[str, Assigned]]) -> Row:
        made = list(row)
        for name, value in assigned:
            made[table.place(name)] = self._result(table, row, name, value)
        return tuple(made)

    def _result(self, table: Table, row: Row, name: str, value: Assigned) -> Text:
        kind, place = table.column(name).of, table.place(name)
        if isinstance(value, Plus):
            old = row[place]
            return None if old is None else str(Decimal(old) + value.number)
        if isinstance(value, Choice):
            by = table.column(value.column).of
            texts = {by.text(when, self.family): kind.text(then, self.family) for when, then in value.pairs}
            return texts[row[table.place(value.column)]]
        return kind.text(value, self.family)

    def _matching(self, statement: Statement) -> list[int]:
        """The rows of the WHERE, in the order of the statement, else of the primary key."""
        table = self.rows[statement.table]
        tests = [(table.table.place(c.column), _test(table.table, c, self.family)) for c in statement.where]
        numbers = [n for n in self._candidates(table, statement) if all(t(table.rows[n][p]) for p, t in tests)]
        name, _, direction = statement.order.partition(" ")
        columns = (name,) if name else table.table.key
        numbers.sort(key=lambda n: _sort_key(table.table, columns, table.rows[n]), reverse=direction == "DESC")
        return numbers[: statement.limit]

    def _candidates(self, table: TableRows, statement: Statement) -> Sequence[int]:
        """Return the rows to look at: one by its primary key where the WHERE names it whole, else all."""
        equal = {c.column: c.values[0] for c in statement.where if c.operator == "<=>"}
        key = table.table.key
        if key and set(key) <= set(equal):
            kinds = (table.table.column(name).of for name in key)
            return table.having(
                key, tuple(k.folded(k.text(equal[n], self.family)) for k, n in zip(kinds, key, strict=True))
            )
        return list(table.rows)

    # --- foreign keys ------------------------------------------------------------------------------------------------------

    def _remove(self, name: str, number: int, depth: int = 0) -> None:
        if depth > DEEPEST:
            raise Refused("cascades run too deep")
        row = self.rows[name].rows[number]
        self.rows.put(name, number, None)
        for child, key in self.schema.references(name) if self._checks else ():
            for other in self._children(child, key, self.rows[name].value(row, key.parent_columns)):
                if other not in self.rows[child.name].rows:
                    continue
                if key.on_delete == CASCADE:
                    self._remove(child.name, other, depth + 1)
                elif key.on_delete != RESTRICT:
                    self._change(child.name, other, self._with(child, other, key, None), frozenset())
            self._suspects.append((child, key, self.rows[name].value(row, key.parent_columns)))

    def _change(self, name: str, number: int, row: Row, changed: frozenset[str] = frozenset()) -> None:
        """`changed`: tables that this cascade has updated before."""
        table = self.rows[name]
        old = table.rows[number]
        self.rows.put(name, number, row)
        self._suspect_own(table, row, old)
        for child, key in self.schema.references(name) if self._checks else ():
            before, after = table.value(old, key.parent_columns), table.value(row, key.parent_columns)
            if before == after:
                continue
            for other in self._children(child, key, before) if key.on_update != RESTRICT else ():
                if child.name in changed | {name}:
                    raise Refused("a cascade comes back to a table that it has updated")
                new = self._with(child, other, key, after if key.on_update == CASCADE else None)
                self._change(child.name, other, new, changed | {name})
            self._suspects.append((child, key, before))

    def _children(self, child: Table, key: ForeignKey, value: Value) -> list[int]:
        return self.rows[child.name].having(key.columns, value)

    def _with(self, child: Table, number: int, key: ForeignKey, value: Value | None) -> Row:
        row = list(self.rows[child.name].rows[number])
        for place, text in zip(map(child.place, key.columns), value or [None] * len(key.columns), strict=True):
            row[place] = text
        return tuple(row)

    def _suspect_own(self, table: TableRows, row: Row, old: Row | None) -> None:
        """A child's new value needs a parent."""
        for key in table.table.foreign_keys if self._checks else ():
            value = table.value(row, key.columns)
            if old is None or value != table.value(old, key.columns):
                self._suspects.append((table.table, key, value))

    def _hold(self, mark: int) -> None:
        """At a statement's end no unique value is there twice, and no child that it concerns lacks its parent."""
        for table, number in set(self.rows.changed_since(mark)):
            row = table.rows.get(number)
            for columns in table.table.unique_keys if row is not None else ():
                if len(table.having(columns, table.value(row, columns))) > 1:  # type: ignore[arg-type]  # not None here
                    raise Refused(f"{table.table.name} has {columns} of {row} twice")
        for child, key, value in self._suspects:
            if self._children(child, key, value) and not self.rows[key.parent].having(key.parent_columns, value):
                raise Refused(f"rows of {child.name} refer to {key.parent} {value}, which is not there")


def _exactly(number: int) -> Affected:
    return Affected(number, number)


def _as_checked(table: Table) -> list[tuple[str, ...]]:
    """The server looks at keys without NULL first (sql_table.cc, sort_keys)."""
    return sorted(table.unique_keys, key=lambda u: (u != table.key, any(table.column(name).nullable for name in u)))


def _test(table: Table, condition: Condition, family: str) -> Callable[[Text], bool]:
    kind = table.column(condition.column).of
    texts = [kind.text(value, family) for value in condition.values]
    if condition.operator == "between":
        low, high = (Decimal(text or "NaN") for text in texts)
        return lambda text: text is not None and low <= Decimal(text) <= high
    wanted = {kind.folded(text) for text in texts}
    if condition.operator == "in":
        wanted.discard(None)
    return lambda text: kind.folded(text) in wanted


def _sort_key(table: Table, columns: tuple[str, ...], row: Row) -> tuple[tuple[bool, Decimal, str], ...]:
    return tuple(_comparable(table, name, row[table.place(name)]) for name in columns)


def _comparable(table: Table, name: str, text: Text) -> tuple[bool, Decimal, str]:
    """Numbers by value; other kinds in some order: no statement says theirs. NULL is first."""
    is_number = table.column(name).of.form == "number"
    return text is not None, Decimal(text) if text is not None and is_number else Decimal(), text or ""
