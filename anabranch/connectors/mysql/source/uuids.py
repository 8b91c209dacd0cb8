"""The form in which a table of MariaDB stores its UUIDs: asked of the server, by the order in which it sorts.

What does not live here: reading the form of today (`coded.py`).
"""

from __future__ import annotations

import pymysql

from anabranch.connectors.mysql.connection import ask
from anabranch.connectors.mysql.source.chunks import qualified
from anabranch.connectors.mysql.source.expressions import name
from anabranch.errors import SourceError, SourceUnavailable
from anabranch.model.ids import TableId

# Two UUIDs of a version: the first is the lesser as it is written, the second with its parts in reverse order.
_TIMED = ("00000000-0000-1000-8000-000000000001", "00000001-0000-1000-8000-000000000000")
_ORDERED = ("00000000-0000-7000-8000-000000000001", "00000001-0000-7000-8000-000000000000")
# A column of no rows gives the others its type, and with it the form in which they are sorted. Beside LOCK TABLES … WRITE
# it is asked again later, and does not wait as long as a session usually may, which is a day.
_ASK = "SET STATEMENT lock_wait_timeout = 30 FOR SELECT {column} FROM {table} WHERE FALSE" + "".join(
    f" UNION ALL SELECT '{v}'" for v in (*_TIMED, *_ORDERED)
)
OLD = (
    "the table stores UUIDs of every version in reverse order, as MariaDB did before 10.9.8, 10.10.6, 10.11.5 and 11.0.3: "
    "ALTER TABLE {table} FORCE, on such a release"
)
UNKNOWN = "the form in which the table stores UUIDs is not known"


def refusal(connection: pymysql.Connection, table: TableId, column: str) -> str:
    """Say why the UUIDs of a table cannot be read from the log, "" if they can. `column` is one of them.

    Once every UUID was stored in reverse order; since MDEV-29959 those of versions 1 to 5 are, in tables that were made
    or rebuilt since, and nothing but the order tells one table from the other.
    https://mariadb.com/kb/en/uuid-data-type/, plugin/type_uuid/plugin.cc
    """
    try:
        rows = ask(connection, _ASK.format(column=name(column), table=qualified(table)) + " ORDER BY 1")
    except SourceUnavailable:
        raise
    except SourceError as error:
        return f"{UNKNOWN}: {error.message}"
    place = {str(value): at for at, (value,) in enumerate(rows)}
    is_reversed = {pair: place[pair[1]] < place[pair[0]] for pair in (_TIMED, _ORDERED)}
    if not is_reversed[_TIMED]:
        return UNKNOWN
    return OLD.format(table=qualified(table)) if is_reversed[_ORDERED] else ""
