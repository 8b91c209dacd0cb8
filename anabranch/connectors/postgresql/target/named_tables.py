"""The table that an error names of a constraint which was asked late, by the name that the job knows."""

from __future__ import annotations

from contextlib import closing

import psycopg

from anabranch.connectors.postgresql.connection import connect
from anabranch.errors import TargetError
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId

# https://www.postgresql.org/docs/current/functions-info.html#FUNCTIONS-INFO-PARTITION
ROOT = """
SELECT n.nspname::text, c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE c.oid = pg_partition_root(to_regclass(format('%%I.%%I', %s::text, %s::text)))
"""


def table_named(endpoint: Endpoint, error: psycopg.Error) -> TableId | None:
    """Return the target table that a deferred constraint names, or a partition of which it does. Asked over another
    connection: ours is in the middle of it.
    """
    schema, name = error.diag.schema_name, error.diag.table_name
    if not schema or not name:
        return None
    try:
        with closing(connect(endpoint, "anabranch-apply-root", autocommit=True)) as other:
            root = other.execute(ROOT, [schema, name]).fetchone()
    except (TargetError, psycopg.Error):
        root = None
    return TableId(*(root or (schema, name)))
