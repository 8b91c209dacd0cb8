"""Names of the tables that exist: asked every ten seconds, so that no server may have to open a table for it.

Before 8.0, and MariaDB, keep definitions in files: asking information_schema for TABLE_TYPE opens every one of them,
SHOW FULL TABLES reads a few bytes of each. https://dev.mysql.com/doc/refman/5.7/en/information-schema-optimization.html
What does not live here: what a table is like (definitions.py).
"""

from __future__ import annotations

from collections.abc import Iterator

import pymysql

from anabranch.connectors.mysql.connection import ask
from anabranch.connectors.mysql.errors import translate
from anabranch.connectors.mysql.source.expressions import name
from anabranch.connectors.mysql.versions import knows
from anabranch.model.ids import TableId

# `anabranch` holds our watermark; the others belong to the server.
SYSTEM_SCHEMAS = ("mysql", "information_schema", "performance_schema", "sys", "anabranch")
BASE_TABLES = ("BASE TABLE", "SYSTEM VERSIONED")
# It is gone meanwhile; this user has rights to nothing in it.
# https://dev.mysql.com/doc/mysql-errors/8.0/en/server-error-reference.html#error_er_bad_db_error
NOTHING_TO_SEE = (1049, 1044)
_PLACES = ", ".join(["%s"] * len(SYSTEM_SCHEMAS))
_NAMES = (
    f"SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA NOT IN ({_PLACES})"
    f" AND TABLE_TYPE IN {BASE_TABLES}"
)
_SCHEMAS = f"SELECT SCHEMA_NAME FROM information_schema.SCHEMATA WHERE SCHEMA_NAME NOT IN ({_PLACES})"


def table_names(connection: pymysql.Connection) -> list[TableId]:
    """Return the tables that this user has some right to. Raises SourceError, SourceUnavailable."""
    if knows(connection, "a data dictionary"):
        return [TableId(schema, table) for schema, table in ask(connection, _NAMES, *SYSTEM_SCHEMAS)]
    schemas = [str(schema) for (schema,) in ask(connection, _SCHEMAS, *SYSTEM_SCHEMAS)]
    return [TableId(schema, table) for schema in schemas for table in _in_files(connection, schema)]


def _in_files(connection: pymysql.Connection, schema: str) -> Iterator[str]:
    try:
        with connection.cursor() as cursor:
            cursor.execute(f"SHOW FULL TABLES FROM {name(schema)}")
            rows = cursor.fetchall()
    except (pymysql.err.Error, OSError) as error:
        if error.args[:1] and error.args[0] in NOTHING_TO_SEE:
            return
        raise translate(error) from error
    yield from (str(table) for table, kind in rows if kind in BASE_TABLES)
