"""Rows that come from a server of the family unread (`own_rows.py`): which tables take them, and one LOAD DATA for a stream.

What does not live here: transactions and the ledger (`load.py`), lines (`load_data.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pymysql

from anabranch.connectors.mysql.errors import number_and_text
from anabranch.connectors.mysql.own_rows import BYTES, form_of, ways_of
from anabranch.connectors.mysql.target.errors import Meaning, describe, meaning
from anabranch.connectors.mysql.target.load_data import columns_of, load_statement
from anabranch.connectors.mysql.target.session import Connection, ask, warned
from anabranch.errors import RowRefused
from anabranch.model.ids import TableId
from anabranch.rows.counted import Told, miscount
from anabranch.rows.net import TargetTable

COLUMNS = """
SELECT COLUMN_NAME, COLUMN_TYPE, CHARACTER_SET_NAME FROM information_schema.COLUMNS
 WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s
"""


def raw_forms(connection: Connection, tables: Sequence[TargetTable]) -> Mapping[TableId, str]:
    """Return source table -> form, where the target's columns have one and the server takes rows from a client."""
    if not connection.takes_files:
        return {}
    forms = {table.source: _form(connection, table) for table in tables}
    return {source: form for source, form in forms.items() if form}


def load_raw(connection: Connection, job: str, table: TargetTable, form: str, blocks: Iterable[bytes]) -> int:
    """Load a stream inside the open transaction. Raises RowRefused for whatever is not "all rows, no warning": the same chunk
    as lines says which row it is."""
    if _form(connection, table) != form or not connection.takes_files:
        raise RowRefused("the target's columns have other types by now", job=job, table=str(table.source))
    columns, told = columns_of(connection, table), Told(blocks)
    values = [f"UNHEX(@c{n})" if way == BYTES else f"@c{n}" for n, way in enumerate(ways_of(form))]
    try:
        loaded = connection.load_local(load_statement(table, values, columns), told)
    except pymysql.err.Error as error:
        number, text = number_and_text(error)
        if not connection.open or meaning(number, text).meaning is not Meaning.CONFLICT:
            raise
        raise RowRefused(describe(number, text), job=job, table=str(table.source)) from None
    if loaded.warnings:
        said = "; ".join(describe(number, text) for _, number, text in warned(connection)[:1])
        raise RowRefused(said or "the target warns of a row", job=job, table=str(table.source))
    if told.rows != loaded.rows:
        what = miscount("the source", told.rows or 0, loaded.rows)
        raise RowRefused(what, job=job, table=str(table.source))
    return loaded.rows


def _form(connection: Connection, table: TargetTable) -> str:
    rows = ask(connection, COLUMNS, table.target.schema, table.target.name)
    found = {str(name).lower(): (str(type), str(charset or "")) for name, type, charset in rows}
    if any(name.lower() not in found for name in table.columns):
        return ""
    return form_of(found[name.lower()] for name in table.columns)
