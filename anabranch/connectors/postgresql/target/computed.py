"""Computed columns of children that a foreign key's action changes, as their source evaluates them (K1).

The source is told the inputs of each row as they will be, and returns them together with what it makes of them. A row takes
a value only where the inputs that came back are, in the target's own types, those of the row: what a type, a character set
or a rule of the job would make of a value on the way is noticed, not guessed. What does not live here: which rows these are
(`cascade.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from psycopg import sql

from anabranch.connectors.postgresql.connection import Connection, table_name
from anabranch.connectors.postgresql.target.merge import copy_into
from anabranch.errors import RowRefused
from anabranch.model.ids import TableId
from anabranch.rows.net import Computed, Row

TOLD = TableId("pg_temp", "anabranch_computed")
BLOCK = 1000  # rows that the source is asked for at once
Values = Mapping[str, sql.Composable]  # column -> what it holds


def ask_source(connection: Connection, computed: Computed, rows: sql.Composable, after: Values) -> Values:
    """Have the source compute the computed columns of `rows` (FROM and WHERE, the table as `t`). Returns the values to
    set.

    `after`: new values of other columns of these rows, which the computed ones may use. Raises RowRefused for a row
    whose value the source cannot tell.
    """
    inputs: Values = {name: after.get(name, sql.Identifier("t", name)) for name in computed.inputs}
    connection.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(table_name(TOLD)))
    connection.execute(_create(computed))
    names = [f"i{i}" for i in range(len(computed.inputs))] + [f"c{i}" for i in range(len(computed.columns))]
    for block in _blocks(connection, computed, rows, inputs):
        with connection.cursor() as cursor, cursor.copy(copy_into(TOLD, names)) as copy:
            for lines in computed.compute(block):
                copy.write(lines)
    own = [sql.Identifier(f"i{i}") for i in range(len(computed.inputs))]
    connection.execute(sql.SQL("UPDATE {} SET x = {}").format(table_name(TOLD), _together(own)))
    connection.execute(sql.SQL("CREATE INDEX ON {} USING hash (x)").format(table_name(TOLD)))
    connection.execute(sql.SQL("ANALYZE {}").format(table_name(TOLD)))
    _refuse_untold(connection, computed, rows, inputs)
    value = sql.SQL("(SELECT {} FROM {} AS d WHERE d.x = {} LIMIT 1)")
    return {
        name: value.format(sql.Identifier("d", f"c{i}"), table_name(TOLD), _together(inputs.values()))
        for i, name in enumerate(computed.columns)
    }


def _create(computed: Computed) -> sql.Composed:
    """Create the table of inputs with the types of the target's columns; `x` has all inputs as one text."""
    columns = [
        sql.SQL("t.{} AS {}").format(sql.Identifier(name), sql.Identifier(f"{letter}{i}"))
        for letter, names in (("i", computed.inputs), ("c", computed.columns))
        for i, name in enumerate(names)
    ]
    query = sql.SQL(
        "CREATE TEMPORARY TABLE {} ON COMMIT DROP AS SELECT ''::text COLLATE \"C\" AS x, {} FROM {} AS t WITH NO DATA"
    )
    name = sql.Identifier(TOLD.name)
    return query.format(name, sql.SQL(", ").join(columns), table_name(computed.table.target))


def _blocks(
    connection: Connection, computed: Computed, rows: sql.Composable, inputs: Values
) -> Iterator[Sequence[Row]]:
    key = computed.table.key
    names = (*inputs, *(name for name in key if name not in inputs))
    values = [*inputs.values(), *(sql.Identifier("t", name) for name in names[len(inputs) :])]
    wanted = sql.SQL(", ").join(sql.SQL("{}::text").format(value) for value in values)
    query = sql.SQL("SELECT DISTINCT {} FROM {} AS t {}").format(wanted, table_name(computed.table.target), rows)
    with connection.cursor("anabranch_inputs") as cursor:
        cursor.execute(query)
        while found := cursor.fetchmany(BLOCK):
            yield [dict(zip(names, row, strict=True)) for row in found]


def _refuse_untold(connection: Connection, computed: Computed, rows: sql.Composable, inputs: Values) -> None:
    key = computed.table.key
    shown = sql.SQL(", ").join(sql.SQL("{}::text").format(sql.Identifier("t", name)) for name in key)
    is_told = sql.SQL("EXISTS (SELECT FROM {} AS d WHERE d.x = {})").format(
        table_name(TOLD), _together(inputs.values())
    )
    query = sql.SQL("SELECT {} FROM {} AS t {} AND NOT {} LIMIT 1")
    found = connection.execute(query.format(shown, table_name(computed.table.target), rows, is_told)).fetchone()
    if found is not None:
        where = f" of the row {', '.join(f'{n}={v}' for n, v in zip(key, found, strict=True))}" if key else ""
        raise RowRefused(
            f"a foreign key of the source changes its rows unseen by the log, and the source did not say what "
            f"{', '.join(computed.columns)}{where} is then",
            table=str(computed.table.source),
            hint=computed.hint,
        )


def _together(values: Iterable[sql.Composable]) -> sql.Composed:
    """Join several values to one text that no others have."""
    parts = [sql.SQL("{}::text").format(value) for value in values]
    return sql.SQL("ROW({})::text").format(sql.SQL(", ").join(parts))
