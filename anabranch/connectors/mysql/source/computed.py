"""Generated columns evaluated by the server that defines them, for rows that it need not have (K1).

The rows go into a temporary table with the columns' own definitions: character sets, collations, what a type does with a
value and expressions over expressions are then the server's affair. Temporary tables are not logged where rows are.
https://dev.mysql.com/doc/refman/8.0/en/create-temporary-table.html · https://mariadb.com/kb/en/create-table/#create-temporary-table
Where the user may make none, the server's own rows of the same keys are read: they tell it as long as they have not changed
since. What does not live here: who asks, and what becomes of the answer (`apply/cascades/computed.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from anabranch.connectors.mysql.connection import ask, printed
from anabranch.connectors.mysql.rights import Rights
from anabranch.connectors.mysql.source.chunks import qualified
from anabranch.connectors.mysql.source.expressions import constant, name
from anabranch.connectors.mysql.source.load import MysqlSnapshot
from anabranch.connectors.mysql.source.privileges import TEMPORARY_TABLES
from anabranch.contracts import ValueRules
from anabranch.errors import SourceError
from anabranch.model.ids import TableId
from anabranch.model.schema import Column, TableSchema
from anabranch.rows.net import Row

TEMPORARY = "anabranch_computed"
BLOCK = 200_000  # characters; a packet of MySQL 5.5 has 1 MB by default, a character up to 4 bytes
NUMBER = "anabranch_row"  # so that one column is visible
# https://dev.mysql.com/doc/refman/8.0/en/server-system-variables.html#sysvar_sql_quote_show_create
QUOTED = "SET SESSION sql_quote_show_create = 1"
_OPTIONS = re.compile(r"\bDEFAULT CHARSET=\w+(?: COLLATE=\w+)?")
# What a column of a temporary table cannot have: a key of its own, or a history.
_NOT_THERE = re.compile(r" AUTO_INCREMENT\b| WITH(?:OUT)? SYSTEM VERSIONING\b")
# A default that is no text (MariaDB prints its bytes): a statement cannot have it, and every row gives the column a value.
_RAW = re.compile("[\udc80-\udcff]")
_DEFAULT = re.compile(r" DEFAULT '(?:[^'\\]|''|\\.)*'", re.DOTALL)


class ComputingSnapshot(MysqlSnapshot):
    """ComputingReader of the family."""

    def compute(
        self, table: TableSchema, inputs: Sequence[str], columns: Sequence[str], rows: Sequence[Row], rules: ValueRules
    ) -> Iterator[bytes]:
        wanted = (*inputs, *columns)
        rights = Rights([str(row[0]) for row in ask(self._session(), "SHOW GRANTS")])
        if rights.has(TEMPORARY_TABLES, table.id):
            yield from self._evaluated(table, inputs, wanted, rows, rules)
        elif table.primary_key:
            keys = [{key: row[key] for key in table.primary_key} for row in rows]
            yield from self.lines_of(table, wanted, keys, rules)

    def _evaluated(
        self, table: TableSchema, inputs: Sequence[str], wanted: Sequence[str], rows: Sequence[Row], rules: ValueRules
    ) -> Iterator[bytes]:
        session = self._session()
        ask(session, QUOTED)
        there = TableId(table.id.schema, TEMPORARY)
        needed = _needed(table, wanted)
        ask(session, f"DROP TEMPORARY TABLE IF EXISTS {qualified(there)}")
        ask(session, _create(there, printed(session, qualified(table.id)), needed))
        places = ", ".join(name(column) for column in inputs)
        values = (f"({number}, {_constants(table, inputs, row)})" for number, row in enumerate(rows))
        for block in _blocks(values):
            ask(session, f"INSERT INTO {qualified(there)} ({name(NUMBER)}, {places}) VALUES {block}")
        columns = tuple(column for column in table.columns if column.name in needed)
        copy = replace(table, id=there, columns=columns, primary_key=(), row_end="")
        yield from self._lines(copy, wanted, "", rules)
        ask(session, f"DROP TEMPORARY TABLE {qualified(there)}")


def _blocks(values: Iterable[str]) -> Iterator[str]:
    """Join values to statements that fit into the smallest packet that a server takes by default."""
    block: list[str] = []
    size = 0
    for value in values:
        if block and size + len(value) > BLOCK:
            yield ", ".join(block)
            block, size = [], 0
        block.append(value)
        size += len(value)
    if block:
        yield ", ".join(block)


def _needed(table: TableSchema, wanted: Sequence[str]) -> frozenset[str]:
    """Return these columns and the generated ones between."""
    found: set[str] = set()
    open_names = list(wanted)
    while open_names:
        column = table.column(open_names.pop())
        found.add(column.name)
        if column.generated:
            open_names += set(table.named_by(column)) - found
    return frozenset(found)


def _create(there: TableId, create: str, needed: frozenset[str]) -> str:
    """Return a temporary table with these columns, as SHOW CREATE TABLE has them: one line each."""
    lines = {line.strip(): line.rstrip(",") for line in create.split("\n") if line.startswith("  `")}
    chosen = [line for start, line in lines.items() if any(start.startswith(f"{name(one)} ") for one in needed)]
    if len(chosen) != len(needed):
        raise SourceError(f"some of its columns {', '.join(sorted(needed))} no longer exist", table=str(there))
    columns = ",\n".join(
        [f"  {name(NUMBER)} INT", *(_NOT_THERE.sub("", _without_raw_default(line)) for line in chosen)]
    )
    options = _OPTIONS.search(create.rpartition("\n)")[2])
    return f"CREATE TEMPORARY TABLE {qualified(there)} (\n{columns}\n) ENGINE=InnoDB {options[0] if options else ''}"


def _without_raw_default(line: str) -> str:
    return _DEFAULT.sub("", line, count=1) if _RAW.search(line) else line


def _constants(table: TableSchema, inputs: Sequence[str], row: Row) -> str:
    return ", ".join(_constant(table, table.column(column), row[column]) for column in inputs)


def _constant(table: TableSchema, column: Column, value: str | None) -> str:
    if value is None:
        return "NULL"
    try:
        return constant(column, value)
    except ValueError:
        raise SourceError(
            f"the target holds column {column.name} in a form that the source does not take back",
            table=str(table.id),
            hint="let the job give the column the type that preflight proposes, or drop what is computed from it",
        ) from None
