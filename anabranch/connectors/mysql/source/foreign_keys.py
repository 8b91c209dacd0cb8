"""Does this user see the foreign keys of a table? MariaDB shows them in information_schema only to who may refer to the
table; unseen ones would cascade unseen (K1).

https://mariadb.com/kb/en/information-schema-referential_constraints-table/
What does not live here: reading the keys that are seen (`catalog.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pymysql

from anabranch.connectors.mysql.connection import ask, family, printed
from anabranch.connectors.mysql.rights import Rights
from anabranch.connectors.mysql.source.chunks import qualified
from anabranch.model.ids import TableId

RIGHT = "REFERENCES"
MESSAGE = "foreign keys are hidden from this user, and what they cascade is not in the log"

_PRESENT = "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s"
_SEEN = "SELECT DISTINCT TABLE_NAME FROM information_schema.REFERENTIAL_CONSTRAINTS WHERE CONSTRAINT_SCHEMA = %s"


def hidden(connection: pymysql.Connection, tables: Iterable[TableId]) -> Iterator[TableId]:
    """Pick the tables with foreign keys that the user does not see. Tables that it cannot read, or that are gone, are
    left out."""
    if family(connection) != "mariadb":
        return
    rights = Rights([str(row[0]) for row in ask(connection, "SHOW GRANTS")])
    doubtful = [t for t in sorted(tables) if rights.has("SELECT", t) and not rights.has(RIGHT, t)]
    for schema in sorted({table.schema for table in doubtful}):
        seen, present = ({str(row[0]) for row in ask(connection, sql, schema)} for sql in (_SEEN, _PRESENT))
        for table in doubtful:
            if table.schema == schema and table.name in present - seen and _has_keys(connection, table):
                yield table


def _has_keys(connection: pymysql.Connection, table: TableId) -> bool:
    return " FOREIGN KEY " in printed(connection, qualified(table))
