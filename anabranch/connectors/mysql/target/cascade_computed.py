"""Computed columns of children that a foreign key's action changes, as their source evaluates them (K1).

The source is told the inputs of each row as they will be, and returns them together with what it makes of them. A row takes
a value only where the inputs that came back are, letter by letter, those of the row, floats by their number, which the ends
print otherwise: what a type, a character set or a rule of the job would make of a value on the way is noticed, not guessed.
What does not live here: which rows these are (`cascade.py`).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from anabranch.connectors.mysql.target.cascade_step import PAIRS, Step, found
from anabranch.connectors.mysql.target.conditions import Values, holds, literal, reads, text_literal
from anabranch.connectors.mysql.target.known_columns import KnownTable, assigned
from anabranch.connectors.mysql.target.literals import run_each
from anabranch.connectors.mysql.target.session import Connection, table_name
from anabranch.errors import RowRefused
from anabranch.model.datatype import Kind
from anabranch.rows.lines import parse_line
from anabranch.rows.net import Computed, Row

BLOCK = 1000  # rows that the source is asked for at once
FLOATS = {Kind.FLOAT32: struct.Struct("<f"), Kind.FLOAT64: struct.Struct("<d")}


class Computing:
    """The computed columns of a step's children: asked for before they change, stored afterwards."""

    def __init__(self, connection: Connection, step: Step, computed: Computed, keys_act: bool) -> None:
        """Ask the source. Raises RowRefused for a row whose value it cannot tell. `keys_act`: a child may have followed
        already."""
        self._connection, self._step, self._computed = connection, step, computed
        self._rows = self._read(keys_act)
        self._told = self._ask()
        for inputs, row in self._rows.items():
            if self._alike(inputs[1]) not in self._told:
                raise self._untold(row)

    def _read(self, keys_act: bool) -> dict[tuple[int, Values], Row]:
        """Return the children by the values that they refer to and their inputs afterwards; of equal ones the last."""
        step, inputs = self._step, self._computed.inputs
        names = (*inputs, *(name for name in self._computed.table.key if name not in inputs))
        rows: dict[tuple[int, Values], Row] = {}
        for has_followed in (False, True) if keys_act and step.news else (False,):
            for number, values in found(self._connection, step, names, has_followed):
                row = {n: step.after(number, n, v) for n, v in zip(names, values, strict=True)}
                rows[number, tuple(row[name] for name in inputs)] = row
        return rows

    def _ask(self) -> dict[Values, Values]:
        """Return inputs, floats in one form, and what the source computes from them."""
        told: dict[Values, Values] = {}
        every, many = list(self._rows.values()), len(self._computed.inputs)
        for start in range(0, len(every), BLOCK):
            for lines in self._computed.compute(every[start : start + BLOCK]):
                for line in lines.split(b"\n")[:-1]:
                    values = parse_line(line)
                    told[self._alike(values[:many])] = tuple(values[many:])
        return told

    def _alike(self, inputs: Sequence[str | None]) -> Values:
        """Return inputs in a form that both ends' have in common: here a FLOAT is read as a double, and 1e+300 has no sign."""
        kinds = (self._computed.table.type_of(name).kind for name in self._computed.inputs)
        return tuple(_float_alike(kind, value) for kind, value in zip(kinds, inputs, strict=True))

    def store(self, known: KnownTable) -> None:
        """Give the children their values. They are found by what they refer to now, of which there is an index."""
        statements = [self._statement(known, number, inputs) for number, inputs in self._rows]
        for start in range(0, len(statements), PAIRS):
            run_each(self._connection, statements[start : start + PAIRS], self._step.child.source)

    def _statement(self, known: KnownTable, number: int, inputs: Values) -> str:
        step, table, connection = self._step, self._step.child, self._connection
        names, told = self._computed.columns, self._told[self._alike(inputs)]
        values = tuple(literal(connection, table, name, value) for name, value in zip(names, told, strict=True))
        refers = tuple(step.after(number, name, None) for name in step.columns)
        where = [holds(connection, table, step.columns, refers, "<=>")]
        for name, value in zip(self._computed.inputs, inputs, strict=True):
            read = f"CONVERT({reads(connection, table, [name])} USING utf8mb4)"
            where.append(f"CAST({read} AS BINARY) <=> CAST({text_literal(value)} AS BINARY)")
        return f"UPDATE {table_name(table.target)} SET {assigned(known, names, values)} WHERE {' AND '.join(where)}"

    def _untold(self, row: Row) -> RowRefused:
        key = self._computed.table.key
        where = f" of the row {', '.join(f'{name}={row[name]}' for name in key)}" if key else ""
        return RowRefused(
            f"a foreign key of the source changes its rows unseen by the log, and the source did not say what "
            f"{', '.join(self._computed.columns)}{where} is then",
            table=str(self._computed.table.source),
            hint=self._computed.hint,
        )


def _float_alike(kind: Kind, value: str | None) -> str | None:
    form = FLOATS.get(kind)
    if form is None or value is None:
        return value
    try:
        return repr(*form.unpack(form.pack(float(value))))
    except (ValueError, OverflowError):  # no number, as a text that somebody has put there
        return value
