"""Stored procedures that give the rows of one change table: these servers have no functions that give any.

`CALL cdc.fn_cdc_get_all_changes_<instance>(from, to, filter)` answers with a set of rows, or with the error. The range is
looked at in the statement that reads: it has one view of all tables, so that what is cleaned up meanwhile makes an error,
never a gap. All of them are SELECT: what a function reads for any other statement (`DO`, `SET`) is locked until the reader's
transaction ends, which appending would wait for.
https://dev.mysql.com/doc/refman/8.0/en/innodb-consistent-read.html
Statements as text. What does not live here: the refusal, and functions that give a value (`functions.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from anabranch.connectors.mysql.target.change_tables.functions import PLACE, TEXT
from anabranch.connectors.mysql.target.columns import MadeColumn
from anabranch.connectors.mysql.target.session import quoted
from anabranch.connectors.mysql.target.words import literal
from anabranch.connectors.sql.change_tables import ALL, NET
from anabranch.model.change_names import COLUMNS

ARGUMENTS = f"from_lsn {PLACE}, to_lsn {PLACE}, row_filter_option {TEXT}"
# https://dev.mysql.com/doc/refman/8.0/en/server-system-variables.html#sysvar_max_sort_length
SORTED = 1024  # bytes of a value by which a server sorts
LSN, _, SEQVAL, OPERATION, MASK, _ = map(quoted, COLUMNS)


def of_instance(
    instance: str, table: str, columns: Sequence[MadeColumn], key: Sequence[str]
) -> Iterator[tuple[str, str]]:
    """Yield the procedures of one change table: name and statement. `table`: its name, qualified and quoted; without a `key`
    there are no net changes."""
    names = [column.name for column in columns]
    yield ALL + instance, _procedure(instance, ALL, "all update old", _all_changes(table, names))
    if key:
        one = ", ".join(_told_apart(column for column in columns if column.name in key))
        yield NET + instance, _procedure(instance, NET, "all with merge", _net_changes(table, names, one))


def _procedure(instance: str, called: str, other: str, rows: str) -> str:
    """Return a procedure. `rows`: a query over `{asked}`, a table of one row, which is there where the arguments are good. It
    is asked for by itself first, since a query of which no row can come may not be carried out."""
    given = f"{literal(instance)}, {literal(called)}, from_lsn, to_lsn, row_filter_option, {literal(other)}"
    refuse = f"cdc.fn_cdc_refuse_arguments({given})"
    asked = f"(SELECT {refuse} AS fine LIMIT 1) AS asked"
    return f"""
CREATE PROCEDURE cdc.{quoted(called + instance)}({ARGUMENTS}) READS SQL DATA SQL SECURITY INVOKER
BEGIN
  DECLARE refused INT;
  SELECT {refuse} INTO refused;
  {rows.replace("{asked}", asked)};
END
"""


def _all_changes(table: str, columns: Sequence[str]) -> str:
    listed = ", ".join(f"c.{name}" for name in (LSN, SEQVAL, OPERATION, MASK, *map(quoted, columns)))
    return f"""SELECT {listed}
    FROM {{asked}} STRAIGHT_JOIN {table} AS c
    WHERE asked.fine = 1 AND c.{LSN} BETWEEN from_lsn AND to_lsn
      AND (c.{OPERATION} <> 3 OR row_filter_option = 'all update old')
    ORDER BY c.{LSN}, c.{SEQVAL}, c.{OPERATION}"""


def _told_apart(key: Iterable[MadeColumn]) -> Iterator[str]:
    """Yield what is the same in all rows of one key, and in no others: texts by their bytes, since a collation may take for one
    what the source tells apart. Of a long value a server sorts the first bytes only, so a digest stands beside it."""
    for column in key:
        name = f"c.{quoted(column.name)}"
        yield f"CAST({name} AS BINARY)" if column.is_text else name
        if column.index_bytes is None or column.index_bytes > SORTED:
            yield f"SHA2({name}, 256)"


def _net_changes(table: str, columns: Sequence[str], key: str) -> str:
    """Return the query for what became of each row in the end. A key's first row in the range tells whether it was there before
    (deleted, or an old image), its last one whether it is there afterwards; of a changed key the old one comes first.
    `key`: what is grouped by. Older releases have no window functions."""
    place = f"CONCAT(c.{LSN}, c.{SEQVAL}, CHAR(c.{OPERATION}))"

    def at(alias: str, end: str) -> str:
        return (
            f"{alias}.{LSN} = LEFT(places.{end}, 10) AND {alias}.{SEQVAL} = SUBSTRING(places.{end}, 11, 10)"
            f" AND {alias}.{OPERATION} = ASCII(SUBSTRING(places.{end}, 21))"
        )

    return f"""SELECT ends.{LSN}, CASE WHEN ends.{OPERATION} IN (1, 3) THEN 1
      WHEN row_filter_option = 'all with merge' THEN 5 WHEN begins.{OPERATION} IN (1, 3) THEN 4 ELSE 2 END AS {OPERATION},
      CAST(NULL AS BINARY(128)) AS {MASK}{"".join(f", ends.{quoted(name)}" for name in columns)}
    FROM {{asked}} STRAIGHT_JOIN (
      SELECT MIN({place}) AS begin_place, MAX({place}) AS end_place FROM {table} AS c
      WHERE c.{LSN} BETWEEN from_lsn AND to_lsn GROUP BY {key}) AS places
    STRAIGHT_JOIN {table} AS begins ON {at("begins", "begin_place")}
    STRAIGHT_JOIN {table} AS ends ON {at("ends", "end_place")}
    WHERE asked.fine = 1 AND (begins.{OPERATION} IN (1, 3) OR ends.{OPERATION} IN (2, 4))
    ORDER BY ends.{LSN}, ends.{SEQVAL}, ends.{OPERATION}"""
