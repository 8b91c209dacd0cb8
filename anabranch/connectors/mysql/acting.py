"""Read what acts on rows of a MySQL's or MariaDB's tables: triggers. None can be switched off.

Who lacks TRIGGER on a table is told of none there. https://dev.mysql.com/doc/refman/8.0/en/information-schema-triggers-table.html
https://mariadb.com/kb/en/information-schema-triggers-table/ What does not live here: triggers that would fire for replicated
rows (target/preflight_acting.py). Errors of the driver pass.
"""

from __future__ import annotations

from collections.abc import Sequence

import pymysql

from anabranch.connectors.mysql.connection import fetch
from anabranch.connectors.mysql.rights import Rights, grant
from anabranch.contracts import Acting, Trigger
from anabranch.model.ids import TableId

FOLDS = "SELECT @@lower_case_table_names, CURRENT_USER()"
RIGHT = "TRIGGER"
TRIGGERS = """
SELECT EVENT_OBJECT_SCHEMA, EVENT_OBJECT_TABLE, TRIGGER_NAME FROM information_schema.TRIGGERS
 WHERE EVENT_OBJECT_SCHEMA IN %s ORDER BY 1, 2, 3
"""


def acting(connection: pymysql.Connection, tables: Sequence[TableId]) -> Acting:
    if not tables:
        return Acting()
    folding, account = fetch(connection, FOLDS)[0]
    folds = int(folding) != 0
    named = {_folded(table, folds): table for table in tables}
    rows = fetch(connection, TRIGGERS, sorted({table.schema for table in tables}))
    found = [(named.get(_folded(TableId(str(row[0]), str(row[1])), folds)), str(row[2])) for row in rows]
    rights = Rights([str(row[0]) for row in fetch(connection, "SHOW GRANTS")])
    user, _, host = str(account).rpartition("@")
    lacking = [table for table in tables if not rights.has(RIGHT, table)]
    unseen = {table: grant(RIGHT, _place(table), f"'{user}'@'{host}'") for table in lacking}
    return Acting(tuple(Trigger(table, name) for table, name in found if table is not None), (), unseen)


def _folded(table: TableId, folds: bool) -> TableId:
    return TableId(table.schema.lower(), table.name.lower()) if folds else table


def _place(table: TableId) -> str:
    return ".".join("`" + name.replace("`", "``") + "`" for name in (table.schema, table.name))
