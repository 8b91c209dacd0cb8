"""Draw the values and keys of a history, and keep its tables as the statements leave them.

What does not live here: what hurts a replication (`events.py`), transactions around it (`draw.py`).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from anabranch.testing.torture.history import Assigned, Condition, Statement
from anabranch.testing.torture.model import Model, Refused
from anabranch.testing.torture.postgresql_values import LABEL, LABELS
from anabranch.testing.torture.rows import Row
from anabranch.testing.torture.sources import source_family
from anabranch.testing.torture.tables import NULLABLE, WIDENED, Column, ForeignKey, Schema, Table
from anabranch.testing.torture.values import Literal

Literals = tuple[Literal, ...]


class Draft:
    """The tables as the drawn statements leave them, and what is drawn from them."""

    def __init__(
        self,
        r: random.Random,
        schema: Schema,
        family: str,
        *,
        is_big: bool = False,
        unchecked: bool = True,
        empties: bool = True,
    ) -> None:
        """Begin with empty tables. `empties`: tables may be emptied by TRUNCATE."""
        self.r, self.schema, self.is_big, self.unchecked, self.empties = r, schema.at_first, is_big, unchecked, empties
        self.model, self.family = Model(schema, family), source_family(family)
        self.events = self.family.events(self.schema)
        self.labels = list(LABELS)  # of an enum, as far as they have been added
        self.checks = True
        self._next = 0

    # --- the model -------------------------------------------------------------------------------------------------------

    def mark(self) -> int:
        return self.model.rows.mark()

    def back_to(self, mark: int) -> None:
        self.model.rows.back_to(mark)

    def settle(self) -> None:
        self.model.rows.settle()

    def take(self, *statements: Statement) -> list[Statement]:
        """Take the statements that would succeed, and some of those that would not."""
        kept = []
        for statement in statements:
            try:
                self.model.execute(statement, self.checks)
                kept.append(statement)
            except Refused:
                if self.r.random() < 0.2:
                    kept.append(statement)
        return kept

    def grow(self, statement: Statement) -> None:
        """Columns are there from now on: the next of those that the table is to have."""
        whole = self.model.schema[statement.table]
        there = len(self.schema[statement.table].columns)
        self._redefine(
            statement.table, (*self.schema[whole.name].columns, *whole.columns[there : there + len(statement.columns)])
        )

    def alter(self, statement: Statement) -> None:
        """A column is altered from now on."""
        self.model.execute(statement)
        self.model.rows.settle()
        (name,) = statement.columns
        after = self.model.schema[statement.table].column(name).afterwards
        columns = self.schema[statement.table].columns
        self._redefine(statement.table, tuple(after if column.name == name else column for column in columns))

    def pass_by(self, statement: Statement) -> None:
        """A table is made, renamed or dropped: from now on statements call it so, or name it no more."""
        self.model.execute(statement)
        self.model.rows.settle()
        tables = [table for table in self.schema.tables if table.name != statement.table]
        if statement.do == "make":
            tables.append(replace(self.model.schema[statement.name], name=statement.table))
        elif statement.do == "rename":
            tables.append(replace(self.schema[statement.table], name=statement.name))
        self.schema = Schema(tuple(tables))

    def _redefine(self, table: str, columns: tuple[Column, ...]) -> None:
        tables = (replace(one, columns=columns) if one.name == table else one for one in self.schema.tables)
        self.schema = Schema(tuple(tables))

    # --- rows and values ---------------------------------------------------------------------------------------------------

    def table(self, fits: Callable[[Table], bool] = lambda _: True) -> Table | None:
        fitting = [table for table in self.schema.tables if fits(table)]
        return self.r.choice(fitting) if fitting else None

    def rows(self, table: Table) -> list[Row]:
        return list(self.model.rows[self.model.names[table.name]].rows.values())

    def some_rows(self, table: Table, number: int) -> list[Row] | None:
        there = self.rows(table)
        return self.r.sample(there, number) if len(there) >= number else None

    def literals(self, table: Table, row: Row, columns: Sequence[str]) -> Literals:
        return tuple(table.column(name).of.literal(row[table.place(name)]) for name in columns)

    def fresh(self, table: Table, name: str) -> str:
        """A value that nobody had."""
        self._next += 1
        nth = table.column(name).of.nth
        assert nth is not None
        return nth(self._next)

    def edge(self, table: Table, name: str) -> Literal:
        """A value of the kind, edges first."""
        column = table.column(name)
        if column.nullable and self.r.random() < 0.2:
            return None
        if column.of.nth and self.r.random() < 0.3:
            return self.fresh(table, name)
        return self.r.choice(self.labels if column.kind == LABEL else sorted(column.of.texts))

    def row(self, table: Table) -> dict[str, Literal] | None:
        """A new row, with parents where it needs them; None if there is none."""
        made = {c.name: self.edge(table, c.name) for c in table.given}
        for name in dict.fromkeys(name for unique in table.unique_keys for name in unique):
            if not (table.column(name).nullable and self.r.random() < 0.2) and self.r.random() < 0.9:
                made[name] = self.fresh(table, name)
        if "g" in made:
            made["g"] = str(self.r.randrange(6)) if self.r.random() < 0.8 else None
        for key in table.foreign_keys:
            found = self.parent(table, key)
            if found is None:
                return None
            made.update(zip(key.columns, found, strict=True))
        return made

    def parent(self, table: Table, key: ForeignKey) -> Literals | None:
        """Return what the columns of a foreign key may hold; None if nothing."""
        may_be_null = all(table.column(name).nullable for name in key.columns)
        there = self.rows(self.schema[key.parent])
        if there and not (may_be_null and self.r.random() < 0.2):
            return self.literals(self.schema[key.parent], self.r.choice(there), key.parent_columns)
        return (None,) * len(key.columns) if may_be_null else None

    def where(self, table: Table, row: Row) -> tuple[Condition, ...]:
        """Return a condition that finds a row: by its key, else by all of it that can be compared."""
        names = table.key or [c.name for c in table.named if c.of.is_comparable]
        values = self.literals(table, row, names)
        return tuple(Condition(name, "<=>", (value,)) for name, value in zip(names, values, strict=True))

    # --- statements ----------------------------------------------------------------------------------------------------------

    def insert(
        self, table: Table, rows: Sequence[dict[str, Literal]], do: str = "insert", **more: Assigned
    ) -> Statement:
        """Columns that every row has from its default are left out now and then (K20). Not where MariaDB's log does not tell
        it: a REPLACE there is an update, whose partial image has only the columns that the statement names."""
        if do == "ignore" and any(c.altered in (NULLABLE, WIDENED) for c in table.columns):
            do = "insert"  # in front of the statement that alters it the server would make another value of this one
        names = [c.name for c in table.given]
        free = [c.name for c in table.named if c.name.startswith("v") and (c.nullable or c.default is not None)]
        if free and self.r.random() < 0.2 and (do, self.model.family) != ("replace", "mariadb"):
            names.remove(self.r.choice(free))
        values = tuple(tuple(row[name] for name in names) for row in rows)
        return Statement(do, table.name, tuple(names), values, assigned=tuple(more.items()))

    def update(self, table: Table, row: Row, **assigned: Assigned) -> Statement:
        return Statement("update", table.name, assigned=tuple(assigned.items()), where=self.where(table, row))

    def delete(self, table: Table, row: Row) -> Statement:
        return Statement("delete", table.name, where=self.where(table, row))

    def filling(self, table: Table, number: int) -> list[Statement]:
        """The rows that a table begins with."""
        return [s for _ in range(number) if (row := self.row(table)) for s in self.take(self.insert(table, [row]))]

    def truncatable(self) -> str:
        """A table that no other refers to; "" if there is none."""
        free = [
            t for t in self.schema.tables if all(child.name == t.name for child, _ in self.schema.references(t.name))
        ]
        return self.r.choice(free).name if free else ""

    def crowd(self, number: int) -> Iterator[Statement]:
        """So many rows in one table, changed, and most of them removed."""
        table = self.table(lambda t: all(t.column(n).nullable for k in t.foreign_keys for n in k.columns))
        assert table is not None  # the first table has a key and at most keys to later ones
        for _ in range(number // 500):
            made = [row for _ in range(500) if (row := self.row(table))]
            yield from self.take(self.insert(table, made, "ignore"))
        name = self.payload(table)
        yield from self.take(Statement("update", table.name, assigned=((name, self.edge(table, name)),)))
        numbers = [n for n in table.key if table.column(n).of.form == "number"]
        if numbers:
            condition = Condition(numbers[0], "between", (str(self._next - number + 40), str(self._next + 1)))
            yield from self.take(Statement("delete", table.name, where=(condition,)))
        else:
            yield from self.take(Statement("delete", table.name))

    def may_hand_on_keys(self, table: Table) -> bool:
        """MySQL 8.0.33 may end where a row with values outside of its page takes a key that another one has just left, by
        itself or behind its parent (an assertion in row0upd.cc; torture seed 13)."""
        if not table.key or any(is_foreign(table, name) for name in table.key):
            return False
        behind = (t for t, key in self.schema.references(table.name) if set(key.columns) & set(t.key))
        is_large = any(c.kind in ("large text", "large blob") for t in (table, *behind) for c in t.columns)
        return self.model.family != "mysql" or not is_large

    def payload(self, table: Table) -> str:
        return self.r.choice([c.name for c in table.named if c.name.startswith("v")])


def is_foreign(table: Table, name: str) -> bool:
    return any(name in key.columns for key in table.foreign_keys)
