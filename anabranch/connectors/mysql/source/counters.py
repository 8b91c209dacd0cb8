"""AUTO_INCREMENT of a MySQL or MariaDB source: how far it has counted.

The counter of InnoDB is ahead of numbers that were drawn and rolled back or deleted, as long as the server has not restarted
since (before MySQL 8.0). https://dev.mysql.com/doc/refman/8.0/en/innodb-auto-increment-handling.html
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing

from anabranch.connectors.mysql.connection import ask, connect, variables
from anabranch.contracts import Counter
from anabranch.errors import SourceError
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId
from anabranch.model.schema import TableSchema

# Otherwise the counter is what it was a day ago: https://dev.mysql.com/doc/refman/8.0/en/information-schema-optimization.html
EXPIRY, FRESH = "information_schema_stats_expiry", "SET SESSION information_schema_stats_expiry = 0"
COUNTER = "SELECT AUTO_INCREMENT FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s"
STEP, OFFSET = "auto_increment_increment", "auto_increment_offset"
# An offset that is greater than the step counts as 1. https://dev.mysql.com/doc/refman/8.0/en/replication-options-source.html
EACH_SECOND = f"SET GLOBAL {STEP} = 2, GLOBAL {OFFSET} = {{}}; and the same in the server's configuration"


def counters(endpoint: Endpoint, tables: Mapping[TableId, TableSchema]) -> list[Counter]:
    counted = [(t, column.name) for t, schema in tables.items() for column in schema.columns if column.auto_increment]
    with closing(connect(endpoint)) as connection:
        known = variables(connection, STEP, OFFSET, EXPIRY)
        if EXPIRY in known:
            ask(connection, FRESH)
        found = []
        for table, column in counted:
            rows = ask(connection, COUNTER, table.schema, table.name)
            if not rows or rows[0][0] is None:
                raise SourceError("the source does not say how far it has counted", table=str(table))
            step, start = int(known[STEP]), int(known[OFFSET])
            start = start if start <= step else 1
            each = EACH_SECOND.format(1), EACH_SECOND.format(2)
            found.append(Counter(table, column, int(rows[0][0]) - 1 or None, step, start, *each))
    return found
