"""Sequences of replicated columns, set past what both ends have given when the target takes over.

https://www.postgresql.org/docs/current/functions-sequence.html What does not live here: raising them behind the rows while the
source counts (structures.py), which number it is (sql/counters.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import LiteralString

import psycopg
from psycopg import sql

from anabranch.connectors.postgresql.connection import Connection, table_name
from anabranch.connectors.postgresql.errors import translated
from anabranch.connectors.postgresql.target.constraints import refused
from anabranch.connectors.postgresql.target.structures import SEQUENCE_HINTS, sequences_of
from anabranch.connectors.sql.counters import last_given, source_counters
from anabranch.contracts import Counter, CounterSet
from anabranch.model.ids import TableId
from anabranch.rows.net import TargetTable

# https://www.postgresql.org/docs/current/catalog-pg-sequence.html
STATE: LiteralString = """
SELECT s.last_value, s.is_called, q.seqincrement, q.seqstart, q.seqmin, q.seqmax, q.seqcycle
  FROM {relation} AS s, pg_catalog.pg_sequence AS q WHERE q.seqrelid = {sequence}::regclass
"""
ENDS: LiteralString = "SELECT min({column})::numeric, max({column})::numeric FROM {table}"
SET: LiteralString = "SELECT setval({sequence}::regclass, {number}, true)"


def pass_counters(
    connection: Connection,
    tables: Sequence[TargetTable],
    counters: Sequence[Counter],
    margin: int,
    is_rehearsed: bool = False,
) -> list[CounterSet]:
    found = []
    for target, column, sequence in sequences_of(connection, tables):
        sources = source_counters(tables, target, column, counters)
        found.append(_passed(connection, target, column, sequence, sources, margin, is_rehearsed))
    return found


def _passed(
    connection: Connection,
    table: TableId,
    column: str,
    sequence: str,
    sources: Sequence[Counter],
    margin: int,
    is_rehearsed: bool,
) -> CounterSet:
    names = {
        "relation": sql.SQL(sequence),  # as the server quotes it
        "sequence": sql.Literal(sequence),
        "column": sql.Identifier(column),
        "table": table_name(table),
    }
    with translated(f"read the sequence {sequence}"):
        last, is_called, step, start, low, high, cycles = connection.execute(sql.SQL(STATE).format(**names)).fetchall()[
            0
        ]
        ends = connection.execute(sql.SQL(ENDS).format(**names)).fetchall()[0]
    used = [*(None if end is None else int(end) for end in ends), *(one.last for one in sources)]
    wanted = last_given(start, step, used, margin)
    next_one = last + step if is_called else last
    if wanted is None or (next_one - wanted) * step > 0:
        return CounterSet(table, column, next_one)
    if not low <= wanted <= high:
        ends_at = high if step > 0 else low
        said = f"sequence {sequence} of {table}: it would have to go on at {wanted + step}, and ends at {ends_at}"
        goes_round = ", from where it would begin again (CYCLE) with numbers that are given" if cycles else ""
        return CounterSet(table, column, next_one, said + goes_round + SEQUENCE_HINTS["22003"])
    if is_rehearsed:
        return CounterSet(table, column, wanted + step)
    try:
        connection.execute(sql.SQL(SET).format(sequence=sql.Literal(sequence), number=sql.Literal(wanted)))
    except psycopg.Error as error:
        return CounterSet(table, column, next_one, refused(error, f"sequence {sequence} of {table}", "set"))
    return CounterSet(table, column, wanted + step)
