"""Measures a table in pages of its heap, and cuts it into pieces at some of them; at either end."""

from __future__ import annotations

ROWS_PER_PAGE = 60  # a guess for tables that were never analyzed
TID_RANGES_SINCE = 140000  # Tid Range Scan: https://www.postgresql.org/docs/release/14.0/
# Heap pages and rows of a table or of all partitions of it; the pages are of the largest.
SIZE = """
SELECT coalesce(max(pg_relation_size(p.relid)) / current_setting('block_size')::int, 0)::bigint,
       coalesce(sum(greatest(c.reltuples, 0)) FILTER (WHERE c.relkind <> 'p'), 0)::bigint,
       current_setting('server_version_num')::int
  FROM pg_class r JOIN pg_namespace n ON n.oid = r.relnamespace
 CROSS JOIN LATERAL (SELECT r.oid AS relid UNION SELECT relid FROM pg_partition_tree(r.oid)) p
  JOIN pg_class c ON c.oid = p.relid
 WHERE n.nspname = %s AND r.relname = %s
HAVING count(*) > 0
"""


def page_edges(pages: int, rows: int, rows_per_piece: int) -> list[int]:
    """Return the pages at which to cut for about so many rows each. `rows` is 0 where the server has not counted them."""
    rows = rows or pages * ROWS_PER_PAGE
    count = max(1, min(-(-rows // rows_per_piece), pages))
    return [pages * i // count for i in range(1, count)]
