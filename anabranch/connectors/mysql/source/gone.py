"""Is a table dropped, or only hidden? information_schema has no row of either: it lists what a user has a right to.

What does not live here: which tables there are (definitions.py).
"""

from __future__ import annotations

import pymysql

from anabranch.connectors.mysql.connection import ask
from anabranch.connectors.mysql.errors import translate
from anabranch.connectors.mysql.source.chunks import qualified
from anabranch.connectors.mysql.source.table_names import BASE_TABLES
from anabranch.errors import SourceUnavailable
from anabranch.model.ids import TableId

# Whoever has no right to the table is refused before the server looks whether it is there (1044, 1142).
# https://dev.mysql.com/doc/mysql-errors/8.0/en/server-error-reference.html#error_er_no_such_table
NO_SUCH_DATABASE, NO_SUCH_TABLE = 1049, 1146
_KIND = "SELECT TABLE_TYPE FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s"


def is_gone(connection: pymysql.Connection, table: TableId) -> bool:
    """Return whether the table is gone. False also where this user may not know. Raises SourceUnavailable."""
    kinds = [kind for (kind,) in ask(connection, _KIND, table.schema, table.name)]
    if kinds:
        return not any(kind in BASE_TABLES for kind in kinds)
    try:
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT 1 FROM {qualified(table)} LIMIT 0")
    except (pymysql.err.Error, OSError) as error:
        if isinstance(found := translate(error), SourceUnavailable):
            raise found from error
        return error.args[:1] in ((NO_SUCH_DATABASE,), (NO_SUCH_TABLE,))
    return False
