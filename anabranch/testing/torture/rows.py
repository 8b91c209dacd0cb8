"""The rows of a history's tables as the model holds them: found by indexes, changed with a way back, shown as COPY shows them.

What does not live here: what statements do (model.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from anabranch.testing.torture.expressions import Computed
from anabranch.testing.torture.tables import Schema, Table
from anabranch.testing.torture.values import Text, copied

Row = tuple[Text, ...]
Value = tuple[Text, ...]  # of some columns, folded: equal for what the source takes for equal


class NoSuchRow(Exception):
    """A change of a row that is not there. Never the product's fault."""


@dataclass(frozen=True, slots=True)
class RowChange:
    """A change of one row, as the source's log has it, texts by column.

    `old`: what names the row that was there, None for an insert. `new`: its values from then on, without those that stay;
    None for a delete. Neither: all rows go."""

    table: str
    old: Mapping[str, Text] | None = None
    new: Mapping[str, Text] | None = None

    @property
    def empties(self) -> bool:
        return self.old is None and self.new is None


class TableRows:
    """The rows of one table by numbers of our own. Indexed are its unique keys, its foreign keys and what refers to it."""

    def __init__(self, table: Table, indexed: Iterable[tuple[str, ...]]) -> None:
        self.table = table
        self.rows: dict[int, Row] = {}
        self._kinds = [column.of for column in table.columns]
        self._computed = list(_in_order(table))
        self._places = {columns: tuple(map(table.place, columns)) for columns in indexed}
        self._found: dict[tuple[str, ...], dict[Value, set[int]]] = {columns: {} for columns in self._places}
        self._next = 0
        self._shown: list[bytes] | None = None
        self._lines: dict[Row, bytes] = {}

    def new_number(self) -> int:
        self._next += 1
        return self._next

    def value(self, row: Row, columns: tuple[str, ...]) -> Value:
        places = self._places.get(columns) or tuple(map(self.table.place, columns))
        return tuple(self._kinds[place].folded(row[place]) for place in places)

    def having(self, columns: tuple[str, ...], value: Value) -> list[int]:
        """The rows with this value, which must be indexed; none for a value with NULL in it."""
        return sorted(self._found[columns].get(value, ())) if None not in value else []

    def named(self, old: Mapping[str, Text]) -> int:
        """The row with this key; without a key, one that is equal. Raises NoSuchRow."""
        if self.table.key:
            found = self.having(self.table.key, tuple(old[name] for name in self.table.key))
        else:
            wanted = tuple(old.get(column.name, column.before()) for column in self.table.columns)
            found = [number for number, row in self.rows.items() if row == wanted][:1]
        if len(found) != 1:
            raise NoSuchRow(f"{self.table.name} has {len(found)} rows {old}")
        return found[0]

    def changed(self, row: Row | None, new: Mapping[str, Text]) -> Row:
        """Raises NoSuchRow for a value that is not told and was not there. A column that was not there yet has its default."""
        names = [column.name for column in self.table.columns]
        if row is None:
            new = {column.name: column.before() for column in self.table.columns if column.added} | dict(new)
        if row is None and set(names) - set(new):
            raise NoSuchRow(f"{self.table.name}: a new row without {sorted(set(names) - set(new))}")
        return tuple(new[name] if name in new else (row or ())[place] for place, name in enumerate(names))

    def whole(self, row: Row) -> Row:
        """Return the row with its computed columns, computed from the others."""
        made = list(row)
        for place, computed, places in self._computed:
            made[place] = computed.text([self._kinds[one] for one in places], [made[one] for one in places])
        return tuple(made)

    def put(self, number: int, row: Row | None) -> None:
        """Set or, with None, remove a row."""
        row = self.whole(row) if row is not None else None
        old = self.rows.pop(number, None)
        for columns, found in self._found.items():
            if old is not None:
                entries = found[self.value(old, columns)]
                entries.discard(number)
                if not entries:
                    del found[self.value(old, columns)]
            if row is not None:
                found.setdefault(self.value(row, columns), set()).add(number)
        if row is not None:
            self.rows[number] = row
        self._shown = None

    def lines(self) -> list[bytes]:
        """Return the rows as COPY shows them, without ends of lines, sorted."""
        if self._shown is None:
            self._shown = sorted(map(self._line, self.rows.values()))
        return self._shown

    def _line(self, row: Row) -> bytes:
        line = self._lines.get(row)
        if line is None:
            line = self._lines[row] = "\t".join(map(copied, row)).encode()
        return line


class Rows:
    """The rows of all tables, and a journal of what changed since it was last cleared."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.tables: Mapping[str, TableRows] = {t.name: TableRows(t, _indexed(schema, t)) for t in schema.tables}
        self._journal: list[tuple[TableRows, int, Row | None]] = []

    def __getitem__(self, table: str) -> TableRows:
        return self.tables[table]

    def add(self, table: str, row: Row) -> int:
        number = self[table].new_number()
        self.put(table, number, row)
        return number

    def put(self, table: str, number: int, row: Row | None) -> None:
        rows = self[table]
        self._journal.append((rows, number, rows.rows.get(number)))
        rows.put(number, row)

    def follow(self, changes: Iterable[RowChange]) -> None:
        """Rows as a log has them. Raises NoSuchRow."""
        for change in changes:
            rows = self[change.table]
            if change.empties:
                for number in list(rows.rows):
                    self.put(change.table, number, None)
            elif change.old is None:
                self.add(change.table, rows.changed(None, change.new or {}))
            else:
                number = rows.named(change.old)
                row = None if change.new is None else rows.changed(rows.rows[number], change.new)
                self.put(change.table, number, row)

    def mark(self) -> int:
        return len(self._journal)

    def changed_since(self, mark: int) -> Iterator[tuple[TableRows, int]]:
        yield from ((rows, number) for rows, number, _ in self._journal[mark:])

    def back_to(self, mark: int) -> None:
        while len(self._journal) > mark:
            rows, number, before = self._journal.pop()
            rows.put(number, before)

    def settle(self) -> None:
        """Keep what was changed so far: empty the journal."""
        self._journal.clear()


def _in_order(table: Table) -> Iterator[tuple[int, Computed, list[int]]]:
    """Computed columns behind those that they are computed from: where each is, how, and from where."""
    known = {column.name for column in table.given}
    while left := [column for column in table.columns if column.name not in known]:
        for column in left:
            if column.computed and known.issuperset(column.computed.columns):
                yield table.place(column.name), column.computed, list(map(table.place, column.computed.columns))
                known.add(column.name)


def _indexed(schema: Schema, table: Table) -> Sequence[tuple[str, ...]]:
    own = (*table.unique_keys, *(key.columns for key in table.foreign_keys))
    return tuple(dict.fromkeys((*own, *(key.parent_columns for _, key in schema.references(table.name)))))
