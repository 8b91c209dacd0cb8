"""Rows that a single change finds in its way, held back until the value that both want is free again (K8).

A source may ask a unique key at the commit alone (a DEFERRABLE one of a PostgreSQL): then a row takes a value while another
still has it. The server here asks at each row. So the row that has the value leaves its table, whole, for a temporary one, and
comes back as soon as it may, at the latest before the commit. A change of a row that is held lets it in first; then the others
are held. What cannot come back before the commit is a conflict: the server's first refusal.

Where triggers would see that, or keys that act would take others along, no row leaves: the refusal stands at once. Neither do
rows without a key, nor those that meet in a prefix or an expression. What does not live here: net changes, whose rows leave
all at once (`exchange.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

import pymysql

from anabranch.connectors.mysql.target import conflicts, single_rows
from anabranch.connectors.mysql.target.conditions import holds, reads
from anabranch.connectors.mysql.target.errors import DUPLICATE, translate
from anabranch.connectors.mysql.target.exchange import ANY, leaving_alone, may_leave
from anabranch.connectors.mysql.target.known_columns import KnownTable, has_triggers
from anabranch.connectors.mysql.target.merge import Stage
from anabranch.connectors.mysql.target.session import ask, column_list, run, table_name
from anabranch.connectors.mysql.target.staging import StagingTables, refuse_warnings
from anabranch.connectors.mysql.target.unique import UniqueKey, unique_keys
from anabranch.connectors.sql.merge_pieces import MergeAction, MergePiece, StageColumn
from anabranch.connectors.sql.single_rows import named_key
from anabranch.contracts import Conflict
from anabranch.model.ids import TableId
from anabranch.rows.net import DELETE, INSERT, UPDATE, RowChange, TargetTable

Row = Mapping[str, str | None]
Values = tuple[str | None, ...]


@dataclass(frozen=True)
class _Held:
    """The rows of one table that are held. `as_held`: the table as it is in `stage`; `why`: the first refusal."""

    table: TargetTable
    known: KnownTable
    stage: Stage
    keys: Sequence[UniqueKey]
    why: Exception

    @property
    def as_held(self) -> TargetTable:
        return replace(
            self.table, columns=self._columns(self.table.columns), key=self._columns(self.table.key), target=self.stage
        )

    def _columns(self, names: Iterable[str]) -> tuple[str, ...]:
        places = {name.lower(): f"c{place}" for place, name in enumerate(self.known.written)}
        return tuple(places[name.lower()] for name in names)


@dataclass
class HeldRows:
    """The rows that one transaction holds. `ended` is called when it is over, however it ends."""

    stages: StagingTables
    nul: str
    _tables: dict[TableId, _Held] = field(default_factory=dict, init=False)
    _kept: ExitStack = field(default_factory=ExitStack, init=False)  # staging tables

    def change(self, row: RowChange) -> bool:
        """Carry out one change, and return whether it found a row. Raises Conflict; driver errors pass."""
        if row.operation != INSERT:
            self.let_in(row.table, row.old_key)
        if not row.checked:
            row = self._where_it_is(row)
        while True:
            try:
                found = single_rows.change(self.stages, row, self.nul)
            except pymysql.err.IntegrityError as error:
                if not (_is_duplicate(error) and self._make_way(row, error)):
                    raise
            else:
                break
        self._let_all_in()
        return found

    def let_in(self, table: TargetTable, key: Row) -> None:
        """Let the row with this key into its table, if it is held; those that are in its way are held then."""
        held = self._tables.get(table.target)
        if held is None or not table.key:
            return
        values = self._key(table, key)
        for number in self._numbers(held, values):
            if self._enters(held, number):
                continue
            self._hold(held, self._others(held, self._texts(held, number), [values]))
            if not self._enters(held, number):
                raise held.why

    def forget(self, tables: Iterable[TargetTable]) -> None:
        """Forget rows of tables that are emptied."""
        for table in tables:
            if held := self._tables.get(table.target):
                run(self.stages.connection, f"DELETE FROM {table_name(held.stage)}")

    def settle(self, of: TargetTable | None = None) -> None:
        """Let every row in. Raises Conflict where one still may not come, of one table or of all."""
        self._let_all_in()
        for held in self._tables.values():
            if of is not None and of.target != held.table.target:
                continue
            if ask(self.stages.connection, f"SELECT 1 FROM {table_name(held.stage)} LIMIT 1"):
                raise held.why

    def ended(self) -> None:
        self._tables.clear()
        self._kept.close()

    # --- leaving ------------------------------------------------------------------------------------------------------

    def _make_way(self, row: RowChange, error: pymysql.err.Error) -> bool:
        """Hold the rows that have what a refused change brings. Returns whether there were any."""
        table = row.table
        if not table.key:
            return False
        held = self._tables.get(table.target) or self._begin(row, error)
        if held is None:
            return False
        own = [row.old_key] if row.operation != INSERT else []
        own += [_new_key(row)] if row.operation == INSERT or not row.checked else []
        found = (conflicts.row(self.stages.connection, table, key, None, self.nul) for key in own)
        there = next((one.values for one in found if one), {})  # what an image does not carry
        return self._hold(held, self._others(held, {**there, **row.values}, [self._key(table, key) for key in own])) > 0

    def _begin(self, row: RowChange, error: pymysql.err.Error) -> _Held | None:
        """Return a place for rows of the changed table; None where none may leave it."""
        connection, table = self.stages.connection, row.table
        keys = unique_keys(connection, [table.target]).get(table.target, [])
        if not keys or has_triggers(connection, table.target) or not may_leave(connection, table):
            return None
        known = self.stages.known.whole(table.target)
        whole = tuple(StageColumn(f"c{place}", ANY, name) for place, name in enumerate(known.written))
        stage = self._kept.enter_context(self.stages.empty(MergePiece(table, MergeAction.UPDATE, whole)))
        why = translate(error, f"{row.operation} in {table.target}", table.source, named_key(row))
        held = self._tables[table.target] = _Held(table, known, stage, keys, why)
        return held

    def _others(self, held: _Held, row: Row, own: Sequence[Values]) -> list[Values]:
        """Return the keys of rows in the table that have a unique value of `row`, without those that have its own keys."""
        table, connection, found = held.table, self.stages.connection, dict[Values, None]()
        ours = {name.lower(): name for name in table.columns}  # names of columns are one name whatever their case
        for key in held.keys:
            columns = [ours.get(name.lower(), "") for name in sorted(key.columns)]
            values = tuple(self._stripped(row.get(name)) for name in columns)
            if None in values:  # of a column that the job does not write, too
                continue
            where = holds(connection, table, columns, values)
            where += "".join(f" AND NOT ({holds(connection, table, table.key, key)})" for key in own)
            query = f"SELECT {reads(connection, table, table.key)} FROM {table_name(table.target)} WHERE {where}"
            found |= dict.fromkeys(map(tuple, ask(connection, f"{query} FOR UPDATE")))
        return list(found)

    def _hold(self, held: _Held, keys: Sequence[Values]) -> int:
        """Let the rows with these keys leave their table. Returns how many did."""
        if not keys:
            return 0
        connection, table = self.stages.connection, held.table
        where = " OR ".join(f"({holds(connection, table, table.key, key)})" for key in keys)
        names, place = column_list(held.known.written), table_name(table.target)
        columns = ", ".join(f"c{number}" for number in range(len(held.known.written)))
        leaving = f"SELECT {names} FROM {place} WHERE {where} FOR UPDATE"
        came = run(connection, f"INSERT INTO {table_name(held.stage)} ({columns}) {leaving}")
        with leaving_alone(connection):
            left = run(connection, f"DELETE FROM {place} WHERE {where}")
        if came != left:
            raise Conflict(table.source, f"{came} rows in the way were put aside, {left} removed")
        return came

    # --- coming back --------------------------------------------------------------------------------------------------

    def _where_it_is(self, row: RowChange) -> RowChange:
        """Let the row in that has an unchecked change's new key, if it is held (K3). What moves there is that row already: the
        one at the old key goes, and the change is one of the row at the new key."""
        held, new = self._tables.get(row.table.target), _new_key(row)
        if held is None or row.operation == DELETE or not self._numbers(held, self._key(row.table, new)):
            return row
        if row.operation == UPDATE:
            single_rows.change(self.stages, RowChange(row.table, DELETE, row.old_key, checked=False), self.nul)
            row = replace(row, old_key=new)
        self.let_in(row.table, new)
        return row

    def _numbers(self, held: _Held, key: Values) -> list[int]:
        """Return the numbers of held rows that have this key."""
        where = holds(self.stages.connection, held.as_held, held.as_held.key, key)
        rows = ask(self.stages.connection, f"SELECT `_n` FROM {table_name(held.stage)} WHERE {where}")
        return [int(number) for (number,) in rows]

    def _let_all_in(self) -> None:
        for held in self._tables.values():
            for (number,) in ask(self.stages.connection, f"SELECT `_n` FROM {table_name(held.stage)} ORDER BY `_n`"):
                self._enters(held, number)

    def _enters(self, held: _Held, number: int) -> bool:
        """Let a held row into its table, if nobody there has what it has."""
        connection, of = self.stages.connection, f"FROM {table_name(held.stage)} WHERE `_n` = {int(number)}"
        columns = ", ".join(f"c{place}" for place in range(len(held.known.written)))
        into = f"INSERT INTO {table_name(held.table.target)} ({column_list(held.known.written)})"
        try:
            run(connection, f"{into} SELECT {columns} {of}")
        except pymysql.err.IntegrityError as error:
            if not _is_duplicate(error):
                raise
            return False
        refuse_warnings(connection, held.table.source)
        run(connection, f"DELETE {of}")
        return True

    def _texts(self, held: _Held, number: int) -> Row:
        """Return a held row as the job has it."""
        columns = reads(self.stages.connection, held.as_held, held.as_held.columns)
        query = f"SELECT {columns} FROM {table_name(held.stage)} WHERE `_n` = {int(number)}"
        return dict(zip(held.table.columns, ask(self.stages.connection, query)[0], strict=True))

    def _key(self, table: TargetTable, row: Row) -> Values:
        return tuple(self._stripped(row[name]) for name in table.key)

    def _stripped(self, value: str | None) -> str | None:
        return value.replace("\0", "") if value and self.nul == "strip" else value


def _new_key(row: RowChange) -> dict[str, str | None]:
    """Return the key that a row has after a change."""
    return {name: row.values[name] if name in row.values else row.old_key[name] for name in row.table.key}


def _is_duplicate(error: pymysql.err.Error) -> bool:
    return bool(error.args[0] == DUPLICATE)
