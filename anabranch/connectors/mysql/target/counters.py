"""AUTO_INCREMENT of replicated columns, set past what both ends have given when the target takes over.

The step and the offset of new numbers are the server's own (auto_increment_increment, auto_increment_offset): it takes the
next one that fits from the counter on. https://dev.mysql.com/doc/refman/8.0/en/replication-options-source.html
What does not live here: raising them behind the rows while the source counts (sequences.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from anabranch.connectors.mysql.connection import family, version
from anabranch.connectors.mysql.target.attempts import attempt
from anabranch.connectors.mysql.target.errors import translated
from anabranch.connectors.mysql.target.sequences import COUNTER, FRESH, FRESH_SINCE
from anabranch.connectors.mysql.target.session import Connection, ask, one, quoted, run, table_name
from anabranch.connectors.mysql.target.structures import read_tables
from anabranch.connectors.sql.counters import last_given, source_counters
from anabranch.contracts import Counter, CounterSet
from anabranch.model.ids import TableId
from anabranch.rows.net import TargetTable

STEP = "SELECT @@GLOBAL.auto_increment_increment"
TYPE = """
SELECT COLUMN_TYPE FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s AND COLUMN_NAME = %s
"""
ENDS = "SELECT MIN({column}), MAX({column}) FROM {table}"
# https://dev.mysql.com/doc/refman/8.0/en/integer-types.html
BITS = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}


def pass_counters(
    connection: Connection,
    tables: Sequence[TargetTable],
    counters: Sequence[Counter],
    margin: int,
    is_rehearsed: bool = False,
) -> list[CounterSet]:
    with translated("read the counters of the target"):
        if family(connection) == "mysql" and version(connection) >= FRESH_SINCE:
            run(connection, FRESH)
        step = int(one(connection, STEP))
        found = []
        for target, column in list(_columns(connection, tables)):
            sources = source_counters(tables, target, column, counters)
            found.append(_passed(connection, target, column, step, sources, margin, is_rehearsed))
        return found


def _columns(connection: Connection, tables: Sequence[TargetTable]) -> Iterator[tuple[TableId, str]]:
    there = read_tables(connection, [table.target for table in tables])
    for target in dict.fromkeys(table.target for table in tables):
        replicated = {column for table in tables if table.target == target for column in table.columns}
        for column in there[target].columns if target in there else []:
            if column.auto_increment and column.name in replicated:
                yield target, column.name


def _passed(
    connection: Connection,
    table: TableId,
    column: str,
    step: int,
    sources: Sequence[Counter],
    margin: int,
    is_rehearsed: bool,
) -> CounterSet:
    now = int(one(connection, COUNTER, table.schema, table.name) or 1)
    ends = ask(connection, ENDS.format(column=quoted(column), table=table_name(table)))[0]
    used = [*(None if end is None else int(end) for end in ends), *(one.last for one in sources)]
    given = last_given(1, 1, used, margin * max(step, *(abs(one.step) for one in sources), 1))
    if given is None or now > given:
        return CounterSet(table, column, now)
    highest = _highest(str(one(connection, TYPE, table.schema, table.name, column)))
    if given >= highest:
        said = f"the counter of {table}: it would have to go on at {given + 1}, and {column} ends at {highest}"
        return CounterSet(table, column, now, said)
    if is_rehearsed:
        return CounterSet(table, column, given + 1)
    statement = f"ALTER TABLE {table_name(table)} AUTO_INCREMENT = {given + 1}"
    problems = attempt(connection, statement, f"the counter of {table}", "set")
    return CounterSet(table, column, now if problems else given + 1, "; ".join(problems))


def _highest(type: str) -> int:
    """Return the highest number of a column type; of one that is no integer that of the counter itself."""
    found = re.match(r"[a-z]+", type.lower())
    bits = BITS.get(found[0] if found else "", 64)
    return (1 << (bits if "unsigned" in type.lower() else bits - 1)) - 1
