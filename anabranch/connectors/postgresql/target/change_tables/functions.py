"""SQL functions that read change tables, with the names, arguments, results and errors of SQL Server's.

https://learn.microsoft.com/sql/relational-databases/system-functions/change-data-capture-functions-transact-sql
Statements as text. What does not live here: tables (instances.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from anabranch.connectors.postgresql.quoting import literal, quote
from anabranch.connectors.sql.change_tables import ALL, NET, OUT_OF_RANGE, REFUSED
from anabranch.model.change_names import SUFFIX

SHOWN = ("change_tables", "captured_columns", "index_columns", "lsn_time_mapping")  # to whoever reads
_NONE = r"'\x00000000000000000000'::bytea"

# The same for all tables. Every name is qualified, so that a reader's search_path decides nothing.
SHARED = (
    f"""
CREATE OR REPLACE FUNCTION cdc.fn_cdc_get_min_lsn(capture_instance text) RETURNS bytea LANGUAGE sql STABLE AS $fn$
SELECT coalesce((SELECT t.start_lsn FROM cdc.change_tables t WHERE t.capture_instance = $1 AND (t.role_name IS NULL
  OR has_table_privilege(to_regclass(format('cdc.%I', t.capture_instance || '{SUFFIX}')), 'SELECT'))), {_NONE}) $fn$
""",
    f"""
CREATE OR REPLACE FUNCTION cdc.fn_cdc_get_max_lsn() RETURNS bytea LANGUAGE sql STABLE AS $fn$
SELECT coalesce((SELECT m.start_lsn FROM cdc.lsn_time_mapping m ORDER BY m.start_lsn DESC LIMIT 1), {_NONE}) $fn$
""",
    r"""
CREATE OR REPLACE FUNCTION cdc.fn_cdc_increment_lsn(lsn_value bytea) RETURNS bytea LANGUAGE plpgsql IMMUTABLE STRICT AS $fn$
DECLARE found bytea := lsn_value;
BEGIN
  FOR place IN REVERSE length(found) - 1 .. 0 LOOP
    IF get_byte(found, place) < 255 THEN RETURN set_byte(found, place, get_byte(found, place) + 1); END IF;
    found := set_byte(found, place, 0);
  END LOOP;
  RETURN lsn_value;
END $fn$
""",
    r"""
CREATE OR REPLACE FUNCTION cdc.fn_cdc_decrement_lsn(lsn_value bytea) RETURNS bytea LANGUAGE plpgsql IMMUTABLE STRICT AS $fn$
DECLARE found bytea := lsn_value;
BEGIN
  FOR place IN REVERSE length(found) - 1 .. 0 LOOP
    IF get_byte(found, place) > 0 THEN RETURN set_byte(found, place, get_byte(found, place) - 1); END IF;
    found := set_byte(found, place, 255);
  END LOOP;
  RETURN lsn_value;
END $fn$
""",
    r"""
CREATE OR REPLACE FUNCTION cdc.fn_cdc_map_time_to_lsn(relational_operator text, tracking_time timestamp) RETURNS bytea
LANGUAGE plpgsql STABLE STRICT AS $fn$
BEGIN
  CASE relational_operator
    WHEN 'largest less than' THEN
      RETURN (SELECT m.start_lsn FROM cdc.lsn_time_mapping m WHERE m.tran_end_time < tracking_time
        ORDER BY m.start_lsn DESC LIMIT 1);
    WHEN 'largest less than or equal' THEN
      RETURN (SELECT m.start_lsn FROM cdc.lsn_time_mapping m WHERE m.tran_end_time <= tracking_time
        ORDER BY m.start_lsn DESC LIMIT 1);
    WHEN 'smallest greater than' THEN
      RETURN (SELECT m.start_lsn FROM cdc.lsn_time_mapping m WHERE m.tran_end_time > tracking_time
        ORDER BY m.start_lsn ASC LIMIT 1);
    WHEN 'smallest greater than or equal' THEN
      RETURN (SELECT m.start_lsn FROM cdc.lsn_time_mapping m WHERE m.tran_end_time >= tracking_time
        ORDER BY m.start_lsn ASC LIMIT 1);
    ELSE
      RAISE EXCEPTION 'relational_operator % is not known', relational_operator USING ERRCODE = 'invalid_parameter_value',
        HINT = 'largest less than, largest less than or equal, smallest greater than, smallest greater than or equal';
  END CASE;
END $fn$
""",
    r"""
CREATE OR REPLACE FUNCTION cdc.fn_cdc_map_lsn_to_time(lsn_value bytea) RETURNS timestamp LANGUAGE sql STABLE AS $fn$
SELECT m.tran_end_time FROM cdc.lsn_time_mapping m WHERE m.start_lsn = $1 $fn$
""",
    r"""
CREATE OR REPLACE FUNCTION cdc.fn_cdc_is_bit_set("position" integer, update_mask bytea) RETURNS integer
LANGUAGE sql IMMUTABLE STRICT AS $fn$
SELECT CASE WHEN $1 BETWEEN 1 AND length($2) * 8
            THEN get_byte($2, length($2) - 1 - ($1 - 1) / 8) >> (($1 - 1) % 8) & 1 ELSE 0 END $fn$
""",
    r"""
CREATE OR REPLACE FUNCTION cdc.fn_cdc_get_column_ordinal(capture_instance text, column_name text) RETURNS integer
LANGUAGE sql STABLE AS $fn$
SELECT c.column_ordinal FROM cdc.captured_columns c WHERE c.capture_instance = $1 AND c.column_name = $2 $fn$
""",
    r"""
CREATE OR REPLACE FUNCTION cdc.fn_cdc_has_column_changed(capture_instance text, column_name text, update_mask bytea)
RETURNS integer LANGUAGE sql STABLE AS $fn$
SELECT cdc.fn_cdc_is_bit_set(cdc.fn_cdc_get_column_ordinal($1, $2), $3) $fn$
""",
    f"""
CREATE OR REPLACE FUNCTION cdc.fn_cdc_refuse_arguments(
  instance text, called text, from_lsn bytea, to_lsn bytea, option text, options text[]) RETURNS void
LANGUAGE plpgsql STABLE AS $fn$
DECLARE
  lowest bytea := cdc.fn_cdc_get_min_lsn(instance);
  highest bytea := least(cdc.fn_cdc_get_max_lsn(),
                         (SELECT t.end_lsn FROM cdc.change_tables t WHERE t.capture_instance = instance));
BEGIN
  IF from_lsn IS NULL OR to_lsn IS NULL OR from_lsn < lowest OR to_lsn > highest OR from_lsn > to_lsn
     OR option IS NULL OR NOT option = ANY (options) THEN
    RAISE EXCEPTION '{REFUSED.format("%")}', called
      USING ERRCODE = '{OUT_OF_RANGE}',
        DETAIL = format('from %s to %s, option %L; the table has %s to %s', from_lsn, to_lsn, option, lowest, highest),
        HINT = 'ask from cdc.fn_cdc_get_min_lsn, or behind what was read last, to cdc.fn_cdc_get_max_lsn; options: '
               || array_to_string(options, ', ');
  END IF;
END $fn$
""",
)


def of_instance(instance: str, table: str, columns: Sequence[tuple[str, str]], key: Sequence[str]) -> Iterator[str]:
    """Yield the statements that make the functions of one change table. `table`: its name, qualified; `columns`: name and type
    of each captured one; without a `key` there are no net changes."""
    yield _all_changes(instance, table, columns)
    if key:
        yield _net_changes(instance, table, columns, key)


def gated(instance: str, table: str, has_net: bool, role: str) -> Iterator[str]:
    """Yield the statements that give an instance to a role, and to nobody else. `table`: as for `of_instance`."""
    to = quote(role)
    for called in (ALL, NET) if has_net else (ALL,):
        name = f"FUNCTION cdc.{quote(called + instance)}(bytea, bytea, text)"
        yield f"REVOKE EXECUTE ON {name} FROM PUBLIC"
        yield f"GRANT EXECUTE ON {name} TO {to}"
    yield f"GRANT USAGE ON SCHEMA cdc TO {to}"
    yield f"GRANT SELECT ON {', '.join(f'cdc.{name}' for name in SHOWN)}, {table} TO {to}"


def _all_changes(instance: str, table: str, columns: Sequence[tuple[str, str]]) -> str:
    listed = "".join(f", c.{quote(name)}" for name, _ in columns)
    made = "".join(f", {quote(name)} {native}" for name, native in columns)
    return f"""
CREATE OR REPLACE FUNCTION cdc.{quote(ALL + instance)}(bytea, bytea, text)
RETURNS TABLE ("__$start_lsn" bytea, "__$seqval" bytea, "__$operation" integer, "__$update_mask" bytea{made})
LANGUAGE plpgsql STABLE AS $fn$
#variable_conflict use_column
BEGIN
  PERFORM cdc.fn_cdc_refuse_arguments({literal(instance)}, {literal(ALL)}, $1, $2, $3, '{{all,all update old}}');
  RETURN QUERY SELECT c."__$start_lsn", c."__$seqval", c."__$operation", c."__$update_mask"{listed} FROM {table} c
    WHERE c."__$start_lsn" BETWEEN $1 AND $2 AND (c."__$operation" <> 3 OR $3 = 'all update old')
    ORDER BY c."__$start_lsn", c."__$seqval", c."__$operation";
END $fn$
"""


def _net_changes(instance: str, table: str, columns: Sequence[tuple[str, str]], key: Sequence[str]) -> str:
    """Return the function that tells what became of each row in the end. A key's first row in the range tells whether it was
    there before (deleted, or an old image), its last one whether it is there afterwards."""
    listed = "".join(f", ends.{quote(name)}" for name, _ in columns)
    made = "".join(f", {quote(name)} {native}" for name, native in columns)
    keys = ", ".join(f"c.{quote(name)}" for name in key)
    same = " AND ".join(f"begins.{quote(name)} = ends.{quote(name)}" for name in key)

    def rows(direction: str) -> str:
        order = f'c."__$start_lsn" {direction}, c."__$seqval" {direction}, c."__$operation" {direction}'
        where = 'c."__$start_lsn" BETWEEN $1 AND $2'
        return f"(SELECT DISTINCT ON ({keys}) c.* FROM {table} c WHERE {where} ORDER BY {keys}, {order})"

    return f"""
CREATE OR REPLACE FUNCTION cdc.{quote(NET + instance)}(bytea, bytea, text)
RETURNS TABLE ("__$start_lsn" bytea, "__$operation" integer, "__$update_mask" bytea{made})
LANGUAGE plpgsql STABLE AS $fn$
#variable_conflict use_column
BEGIN
  PERFORM cdc.fn_cdc_refuse_arguments({literal(instance)}, {literal(NET)}, $1, $2, $3, '{{all,all with merge}}');
  RETURN QUERY SELECT ends."__$start_lsn",
      CASE WHEN ends."__$operation" IN (1, 3) THEN 1 WHEN $3 = 'all with merge' THEN 5
           WHEN begins."__$operation" IN (1, 3) THEN 4 ELSE 2 END, NULL::bytea{listed}
    FROM {rows("ASC")} begins JOIN {rows("DESC")} ends ON {same}
    WHERE begins."__$operation" IN (1, 3) OR ends."__$operation" IN (2, 4)
    ORDER BY ends."__$start_lsn", ends."__$seqval";
END $fn$
"""
