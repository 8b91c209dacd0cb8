"""The slot and the publication that a job has at its source: what is there, and what is still to be done.

https://www.postgresql.org/docs/current/logicaldecoding.html · https://www.postgresql.org/docs/current/logical-replication.html
What does not live here: reading a slot (capture.py), what it keeps of the log (held_log.py).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from anabranch.connectors.postgresql.connection import Connection, one
from anabranch.connectors.postgresql.quoting import literal, qualified, quote
from anabranch.connectors.postgresql.source import marker_tables, truncate_notes
from anabranch.connectors.postgresql.source.held_log import read_slot
from anabranch.connectors.postgresql.source.rights import MAY_READ_LOG, rights
from anabranch.model.ids import TableId
from anabranch.model.schema import TableSchema
from anabranch.model.steps import SetUpStep

if TYPE_CHECKING:
    from anabranch.connectors.postgresql.source.decoders import Decoder

FAILOVER = 170_000
ROOTS = 130_000  # from here on rows of partitions may come as rows of their root
_IS_WHOLE = """
SELECT pubinsert AND pubupdate AND pubdelete AND pubtruncate{roots} FROM pg_catalog.pg_publication WHERE pubname = %s
"""
_FILTERS = 150_000  # of rows and columns
# From here on it refuses changes of a published table whose replica identity has columns that are not published:
# https://www.postgresql.org/docs/18/logical-replication-gencols.html
REFUSES_COMPUTED = 180_000
_HAS_COMPUTED = """
WITH wanted AS (SELECT r.oid, w.is_full FROM unnest(%s::text[], %s::text[], %s::bool[]) AS w (schema, name, is_full)
                  JOIN pg_catalog.pg_namespace n ON n.nspname = w.schema
                  JOIN pg_catalog.pg_class r ON r.relnamespace = n.oid AND r.relname = w.name)
SELECT EXISTS (SELECT FROM wanted AS w
 CROSS JOIN LATERAL (SELECT w.oid UNION SELECT relid FROM pg_catalog.pg_partition_tree(w.oid)) AS t
  JOIN pg_catalog.pg_class c ON c.oid = t.oid
  JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attgenerated = 's' AND NOT a.attisdropped
 WHERE c.relreplident = 'f' OR (w.is_full AND c.oid = w.oid)
    OR (c.relreplident = 'i' AND EXISTS (SELECT FROM pg_catalog.pg_index x
         WHERE x.indrelid = c.oid AND x.indisreplident AND a.attnum = ANY(x.indkey::int2[]))))
"""
_MEMBERS = """
SELECT n.nspname::text, c.relname::text FROM pg_catalog.pg_publication_rel r
  JOIN pg_catalog.pg_publication p ON p.oid = r.prpubid
  JOIN pg_catalog.pg_class c ON c.oid = r.prrelid
  JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
 WHERE p.pubname = %s{whole}
"""
# relreplident of tables whose changes the log tells by no key: https://www.postgresql.org/docs/current/catalog-pg-class.html
_IDENTITIES = """
SELECT n.nspname::text, c.relname::text, c.relreplident::text FROM pg_catalog.pg_class c
  JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
 WHERE c.relkind IN ('r', 'p') AND (n.nspname::text, c.relname::text) IN (SELECT * FROM unnest(%s::text[], %s::text[]))
"""
# The same of their partitions, of which each has its own; it is not handed down, and the server asks for it.
_OF_PARTITIONS = """
SELECT n.nspname::text, c.relname::text, c.relreplident::text
  FROM unnest(%s::text[], %s::text[]) AS w (schema, name)
  JOIN pg_catalog.pg_namespace rn ON rn.nspname = w.schema
  JOIN pg_catalog.pg_class r ON r.relnamespace = rn.oid AND r.relname = w.name AND r.relkind = 'p'
  CROSS JOIN LATERAL pg_catalog.pg_partition_tree(r.oid) AS t
  JOIN pg_catalog.pg_class c ON c.oid = t.relid AND t.isleaf AND t.level > 0
  JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace ORDER BY 1, 2
"""


def members(connection: Connection, publication: str) -> set[TableId] | None:
    """Return the tables of a publication, without those that have a filter; None where there is no publication."""
    if not connection.execute("SELECT 1 FROM pg_catalog.pg_publication WHERE pubname = %s", [publication]).fetchone():
        return None
    is_whole = " AND r.prqual IS NULL AND r.prattrs IS NULL" * (connection.info.server_version >= _FILTERS)
    query = _MEMBERS.format(whole=is_whole).encode()
    return {TableId(*row) for row in connection.execute(query, [publication]).fetchall()}


def missing(
    connection: Connection,
    name: str,
    tables: Mapping[TableId, TableSchema],
    begins: bool,
    decoder: Decoder,
    marked: bool = False,
    failover: bool = True,
) -> list[SetUpStep]:
    """Return the set-up steps that are missing before capture may follow these tables, in order.

    `marked`: also those that show which job has written a transaction (marker_tables.py). `failover`: standbys keep the slot.

    - Identities come first: a published table without one refuses its own updates.
    - The slot comes last, and only for a log that begins: an older slot would give only the later rows of transactions
      that were open when a table was published.
    - Other decoders than pgoutput read no publication, and for a table in one the server refuses changes that they
      would pass over.
    """
    rights = _rights(connection, tables)
    found = [
        SetUpStep(f"ALTER TABLE {qualified(table)} REPLICA IDENTITY FULL", (table,))
        for table in _without_identity(connection, tables)
    ]
    if connection.info.server_version >= ROOTS:
        # of no table: what the server refuses is not missing in the log
        found += [
            SetUpStep(f"ALTER TABLE {qualified(part)} REPLICA IDENTITY FULL")
            for part in _without_identity(connection, tables, _OF_PARTITIONS)
        ]
    published = members(connection, name)
    left = tuple(sorted(tables.keys() - (published or set())))
    listed = ", ".join(_alone(tables[table]) for table in left)
    roots = ", publish_via_partition_root = true" if connection.info.server_version >= ROOTS else ""
    is_computed = _is_computed(connection, tables, found)
    computed = ", publish_generated_columns = stored" * is_computed
    kinds = f"publish = 'insert, update, delete, truncate'{roots}{computed}"
    if published is None and (tables or begins):
        whose = f" FOR TABLE {listed}" if listed else ""
        found.append(SetUpStep(f"CREATE PUBLICATION {quote(name)}{whose} WITH ({kinds})", left))
    asked = " AND pubviaroot" * bool(roots) + " AND pubgencols = 's'" * is_computed
    if published is not None and not one(connection, _IS_WHOLE.format(roots=asked), [name]):
        found.append(SetUpStep(f"ALTER PUBLICATION {quote(name)} SET ({kinds})", tuple(tables)))
    if published is not None and left:  # whose changes the server refuses as long as it may not publish what it has to
        found.append(SetUpStep(f"ALTER PUBLICATION {quote(name)} ADD TABLE {listed}", left))
    if marked:
        found += marker_tables.missing(connection, name, published or set())
    if not decoder.truncates:
        found += truncate_notes.missing(connection, name, tables)
    before, after = _slot(connection, name, bool(found), decoder.plugin, failover) if begins else ([], [])
    return rights + before + found + after


def _alone(schema: TableSchema) -> str:
    """Name the table without those that inherit from it: the server would refuse UPDATE and DELETE of those without a
    key.

    https://www.postgresql.org/docs/current/sql-createpublication.html
    """
    return qualified(schema.id) if schema.partition_key else f"ONLY {qualified(schema.id)}"


def _is_computed(connection: Connection, tables: Collection[TableId], identities: Collection[SetUpStep]) -> bool:
    """Return whether stored computed columns would be part of the replica identity of a table or partition."""
    if connection.info.server_version < REFUSES_COMPUTED:
        return False
    full = {table for step in identities for table in step.tables}
    wanted = sorted(full.union(tables))
    places = [t.schema for t in wanted], [t.name for t in wanted], [t in full for t in wanted]
    return bool(one(connection, _HAS_COMPUTED, places))


def _rights(connection: Connection, tables: Mapping[TableId, TableSchema]) -> list[SetUpStep]:
    """Return the steps that an administrator has to take for our user."""
    user = str(one(connection, "SELECT current_user"))
    found = [] if one(connection, MAY_READ_LOG) else [SetUpStep(f"ALTER ROLE {quote(user)} REPLICATION")]
    lacking = rights(connection, tables)
    named = tuple(t for t in lacking.there if t.schema in lacking.closed or t in lacking.unread)
    return found + [SetUpStep(statement, named) for statement in lacking.grants(user)]


def _slot(
    connection: Connection, name: str, is_older: bool, plugin: str, failover: bool
) -> tuple[list[SetUpStep], list[SetUpStep]]:
    """Return the steps for the slot: those before all others, and those after them.

    So nothing that ends this half-way leaves a slot that is older than the other steps.
    """
    there = read_slot(connection, name)
    if there is not None and not is_older and there.plugin == plugin:
        return [], []
    create = SetUpStep(create_slot(name, plugin, failover and connection.info.server_version >= FAILOVER), waits=True)
    return [SetUpStep(drop_slot(name))] if there else [], [create]


def create_slot(name: str, plugin: str, failover: bool) -> str:
    """Return the statement that creates a slot. From 17 on standbys may have it, too.

    https://www.postgresql.org/docs/17/logical-replication-failover.html
    """
    words = f"{literal(name)}, {literal(plugin)}" + ", failover => true" * failover
    return f"SELECT pg_catalog.pg_create_logical_replication_slot({words})"


def drop_slot(name: str) -> str:
    return f"SELECT pg_catalog.pg_drop_replication_slot({literal(name)})"


def removal(connection: Connection, name: str) -> list[str]:
    """Return the statements that remove what `missing` made. Replica identities stay: others may rely on them by now."""
    found = []
    if read_slot(connection, name) is not None:
        found.append(drop_slot(name))
    if members(connection, name) is not None:
        found.append(f"DROP PUBLICATION {quote(name)}")
    return found + truncate_notes.removal(connection, name)


def _without_identity(
    connection: Connection, tables: Mapping[TableId, TableSchema], query: str = _IDENTITIES
) -> list[TableId]:
    """Return keyless tables whose log would not tell which rows are changed."""
    keyless: Collection[TableId] = sorted((t for t, schema in tables.items() if not schema.primary_key), key=str)
    names = [t.schema for t in keyless], [t.name for t in keyless]
    rows = connection.execute(query.encode(), names).fetchall() if keyless else []
    return [TableId(schema, name) for schema, name, identity in rows if identity in "dn"]
