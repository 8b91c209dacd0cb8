r"""Rows sent in bulk: LOAD DATA LOCAL, or INSERTs of many rows where the server takes no rows from a client.

With LOCAL the server cannot stop the sending, and turns errors into warnings: a key that is there already is skipped, a
value is cut, a missing field filled. So nothing counts but "as many rows as were sent, and no warning"; with an INSERT as
well, whose notes tell of values that were rounded. https://dev.mysql.com/doc/refman/8.0/en/load-data.html#load-data-error-handling
https://mariadb.com/kb/en/load-data-infile/. What does not live here: transactions, which row it was (`copy_in.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pymysql

from anabranch.connectors.mysql.connection import family
from anabranch.connectors.mysql.target import terms
from anabranch.connectors.mysql.target.local_lines import VALUE, NoRow, RowForm, for_load_data, row_literals
from anabranch.connectors.mysql.target.session import (
    FED,
    Connection,
    Loaded,
    ask,
    column_list,
    quoted,
    table_name,
)
from anabranch.rows.net import TargetTable

# FIELDS and LINES as COPY has them. The statement says the character set: else it is the database's.
FORM = r"FIELDS TERMINATED BY '\t' ENCLOSED BY '' ESCAPED BY '\\' LINES TERMINATED BY '\n' STARTING BY ''"
STATEMENT_BYTES = 1 << 20  # of one INSERT: more is no quicker
# LOAD DATA LOCAL is refused before any row is asked for: the server (8.0, then all others) does not allow it, a proxy does not
# know it. https://dev.mysql.com/doc/mysql-errors/8.0/en/server-error-reference.html#error_er_client_local_files_disabled
NO_LOCAL = (3948, 1148, 1235, 4166)
# What NULL means in a column that we do not want to mean it: https://dev.mysql.com/doc/refman/8.0/en/timestamp-initialization.html
# https://dev.mysql.com/doc/refman/8.0/en/example-auto-increment.html
FACTS = """
SELECT COLUMN_NAME, DATA_TYPE = 'timestamp' AND IS_NULLABLE = 'NO', EXTRA LIKE '%auto_increment%'
  FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s
"""
NOTHING = "''"  # is no moment and no number: in place of a NULL that the server would replace, it is refused


@dataclass(frozen=True, slots=True)
class Way:
    """The statements by which rows of one table are sent. `form`: of a row in an INSERT (`local_lines.py`)."""

    load: str
    insert: bytes
    form: RowForm


class Columns(NamedTuple):
    """Columns that the server treats in a way of its own. `guarded`: where NULL would become another value, the time of day or
    the next number; `counted`: with AUTO_INCREMENT."""

    guarded: frozenset[str] = frozenset()
    counted: frozenset[str] = frozenset()


ORDINARY = Columns()


def way_to(connection: Connection, table: TargetTable) -> Way:
    """Return the statements for a table, as its columns are now."""
    return way(table, family(connection), columns_of(connection, table))


def way(table: TargetTable, family: str = "mysql", columns: Columns = ORDINARY) -> Way:
    """Return the statements for a table."""
    puts = [terms.assignment(type, f"@c{number}", family) for number, type in enumerate(table.types)]
    fields = [terms.assignment(type, VALUE, family) for type in table.types]
    values = [_guarded(term, name in columns.guarded) for name, term in zip(table.columns, fields, strict=True)]
    start = f"INSERT INTO {table_name(table.target)} ({column_list(table.columns)}) VALUES ".encode()
    return Way(load_statement(table, puts, columns), start, RowForm.of(values))


def load_statement(table: TargetTable, values: Sequence[str], columns: Columns = ORDINARY) -> str:
    """Return a LOAD DATA LOCAL. `values`: SQL for each column, in which `@c3` is the line's field 3.

    A column that takes its field as it is needs no variable; but MariaDB (seen in 10.11) gives a 0 in an AUTO_INCREMENT column
    the next number where another column is SET.
    """
    puts = [_guarded(value, name in columns.guarded) for name, value in zip(table.columns, values, strict=True)]
    is_set = [put != f"@c{number}" for number, put in enumerate(puts)]
    is_set = [one or (any(is_set) and name in columns.counted) for one, name in zip(is_set, table.columns, strict=True)]
    targets = [f"@c{number}" if one else quoted(table.columns[number]) for number, one in enumerate(is_set)]
    sets = [f"{quoted(name)} = {put}" for name, put, one in zip(table.columns, puts, is_set, strict=True) if one]
    place = table_name(table.target)
    load = f"LOAD DATA LOCAL INFILE '{FED}' INTO TABLE {place} CHARACTER SET utf8mb4 {FORM} ({', '.join(targets)})"
    return load + (f" SET {', '.join(sets)}" if sets else "")


def columns_of(connection: Connection, table: TargetTable) -> Columns:
    """Look up the columns that need care. One of the key has no NULL at the source.

    A `timestamp NOT NULL` takes NULL for the time of day; explicit_defaults_for_timestamp changes that on MySQL only (MariaDB
    10.11 seen with it).
    """
    ours = {name.lower(): name for name in table.columns}  # names of columns are one name whatever their case
    found = ask(connection, FACTS, table.target.schema, table.target.name)
    rows = [(ours.get(str(name).lower(), str(name)), *facts) for name, *facts in found]
    guarded = [name for name, *is_special in rows if any(is_special) and name not in table.key]
    return Columns(frozenset(guarded), frozenset(name for name, _, is_counted in rows if is_counted))


def send(connection: Connection, way: Way, blocks: Iterable[bytes]) -> Loaded:
    """Send lines inside the open transaction, in the way that the server takes them."""
    lines = iter(blocks)
    if connection.takes_files:
        try:
            return connection.load_local(way.load, map(for_load_data, lines))
        except pymysql.err.Error as error:
            if error.args[0] not in NO_LOCAL:
                raise
            connection.takes_files = False  # a proxy, or switched off since: nothing was taken from the lines
    return insert(connection, way, lines)


def insert(connection: Connection, way: Way, blocks: Iterable[bytes]) -> Loaded:
    """Send lines as INSERTs. Behind one with a warning nothing more is sent, so that the server can be asked for it. Raises
    NoRow."""
    total = 0
    for statement in _inserts(way, blocks, min(STATEMENT_BYTES, connection.packet // 2)):
        if len(statement) >= connection.packet:  # the server would end the connection
            raise NoRow(1153, f"the row is longer than the target's max_allowed_packet, {connection.packet:,} bytes")
        total += connection.query(statement)
        if connection._result.warning_count:
            return Loaded(total, connection._result.warning_count)
    return Loaded(total, 0)


def _inserts(way: Way, blocks: Iterable[bytes], most: int) -> Iterator[bytes]:
    """Yield INSERTs of about so many bytes; a row that is longer has one of its own."""
    held: list[bytes] = []
    size = 0
    for block in blocks:
        for row in row_literals(block, way.form):
            if held and size + len(row) > most:
                yield way.insert + b",".join(held)
                held, size = [], 0
            held.append(row)
            size += len(row) + 1
    if held:
        yield way.insert + b",".join(held)


def _guarded(term: str, is_guarded: bool) -> str:
    return f"IFNULL({term}, {NOTHING})" if is_guarded else term
