"""Stored functions that readers of change tables ask, with the names, arguments, results and errors of SQL Server's.

https://learn.microsoft.com/sql/relational-databases/system-functions/change-data-capture-functions-transact-sql
They run with the rights of who calls them, and say what a server that logs wants to hear of a function
(https://dev.mysql.com/doc/refman/8.0/en/stored-programs-logging.html). Statements as text. A parameter is meant by a name
without a table, and a column is never named without one. What does not live here: procedures that give rows (`procedures.py`).
"""

from __future__ import annotations

from collections.abc import Iterator

from anabranch.connectors.sql.change_tables import OUT_OF_RANGE, REFUSED
from anabranch.model.change_names import SUFFIX

TEXT = "VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci"  # of names; as the tables of names have it
COLUMN = TEXT.replace("general_ci", "bin")  # names of columns have no case, but accents
PLACE, TIME = "VARBINARY(10)", "DATETIME(6)"
READS, COUNTS = "READS SQL DATA SQL SECURITY INVOKER", "DETERMINISTIC NO SQL SQL SECURITY INVOKER"
NONE = "X'00000000000000000000'"
ERROR = 313  # SQL Server's number
UNKNOWN_OPERATOR = "relational_operator: largest less than [or equal], smallest greater than [or equal]"
# Operator -> of which times, and which of their places.
TIMES = {
    "largest less than": ("<", "DESC"),
    "largest less than or equal": ("<=", "DESC"),
    "smallest greater than": (">", "ASC"),
    "smallest greater than or equal": (">=", "ASC"),
}

REFUSE = f"""
CREATE FUNCTION cdc.fn_cdc_refuse_arguments(
  instance {TEXT}, called {TEXT}, from_lsn {PLACE}, to_lsn {PLACE}, row_filter_option {TEXT}, other {TEXT}) RETURNS INT {READS}
BEGIN
  DECLARE lowest, highest, ended {PLACE};
  DECLARE words VARCHAR(128) CHARACTER SET utf8mb4;
  SET lowest = cdc.fn_cdc_get_min_lsn(instance), highest = cdc.fn_cdc_get_max_lsn();
  SET ended = (SELECT t.end_lsn FROM cdc.change_tables AS t WHERE t.capture_instance = instance LIMIT 1);
  SET highest = COALESCE(LEAST(highest, ended), highest);
  IF from_lsn IS NULL OR to_lsn IS NULL OR from_lsn < lowest OR to_lsn > highest OR from_lsn > to_lsn
     OR row_filter_option IS NULL OR row_filter_option NOT IN ('all', other) THEN
    SET words = REPLACE('{REFUSED.format("#")}', '#', called);
    SIGNAL SQLSTATE '{OUT_OF_RANGE}' SET MYSQL_ERRNO = {ERROR}, MESSAGE_TEXT = words;
  END IF;
  RETURN 1;
END
"""


def shared() -> Iterator[tuple[str, str]]:
    """Yield the functions that are the same for all tables: name and statement."""
    yield from _ends()
    yield from _neighbours()
    yield from _times()
    yield from _columns()
    yield "fn_cdc_refuse_arguments", REFUSE


def _ends() -> Iterator[tuple[str, str]]:
    # A list of tables has those alone on which whoever asks has a right.
    may_read = (
        "EXISTS (SELECT 1 FROM information_schema.TABLES AS x WHERE x.TABLE_SCHEMA = 'cdc'"
        f" AND x.TABLE_NAME = CONCAT(t.capture_instance, '{SUFFIX}'))"
    )
    instance = (
        f"SELECT CASE WHEN t.role_name IS NULL THEN t.start_lsn WHEN {may_read} THEN t.start_lsn END"
        " FROM cdc.change_tables AS t WHERE t.capture_instance = capture_instance LIMIT 1"
    )
    newest = "SELECT m.start_lsn FROM cdc.lsn_time_mapping AS m ORDER BY m.start_lsn DESC LIMIT 1"
    yield (
        "fn_cdc_get_min_lsn",
        f"""
CREATE FUNCTION cdc.fn_cdc_get_min_lsn(capture_instance {TEXT}) RETURNS {PLACE} {READS}
RETURN COALESCE(({instance}), {NONE})
""",
    )
    yield (
        "fn_cdc_get_max_lsn",
        f"""
CREATE FUNCTION cdc.fn_cdc_get_max_lsn() RETURNS {PLACE} {READS}
RETURN COALESCE(({newest}), {NONE})
""",
    )


def _neighbours() -> Iterator[tuple[str, str]]:
    """Yield the next place and the one before. Ten bytes are more than a number has: the first two count apart."""
    for name, edge, wrapped, step in (
        ("increment", "FFFFFFFFFFFFFFFF", "0000000000000000", "+"),
        ("decrement", "0000000000000000", "FFFFFFFFFFFFFFFF", "-"),
    ):
        yield (
            f"fn_cdc_{name}_lsn",
            f"""
CREATE FUNCTION cdc.fn_cdc_{name}_lsn(lsn_value {PLACE}) RETURNS {PLACE} {COUNTS}
BEGIN
  DECLARE low CHAR(16) CHARACTER SET ascii DEFAULT HEX(SUBSTRING(lsn_value, 3));
  DECLARE high CHAR(4) CHARACTER SET ascii DEFAULT HEX(LEFT(lsn_value, 2));
  IF low <> '{edge}' THEN
    SET low = LPAD(HEX(CAST(CONV(low, 16, 10) AS UNSIGNED) {step} 1), 16, '0');
  ELSEIF high <> '{edge[:4]}' THEN
    SET low = '{wrapped}', high = LPAD(HEX(CAST(CONV(high, 16, 10) AS UNSIGNED) {step} 1), 4, '0');
  END IF;
  RETURN UNHEX(CONCAT(high, low));
END
""",
        )


def _times() -> Iterator[tuple[str, str]]:
    cases = "\n".join(
        f"    WHEN '{name}' THEN RETURN (SELECT m.start_lsn FROM cdc.lsn_time_mapping AS m"
        f" WHERE m.tran_end_time {than} tracking_time ORDER BY m.start_lsn {which} LIMIT 1);"
        for name, (than, which) in TIMES.items()
    )
    yield (
        "fn_cdc_map_time_to_lsn",
        f"""
CREATE FUNCTION cdc.fn_cdc_map_time_to_lsn(relational_operator {TEXT}, tracking_time {TIME}) RETURNS {PLACE} {READS}
BEGIN
  IF relational_operator IS NULL OR tracking_time IS NULL THEN RETURN NULL; END IF;
  CASE relational_operator
{cases}
    ELSE SIGNAL SQLSTATE '22023' SET MESSAGE_TEXT = '{UNKNOWN_OPERATOR}';
  END CASE;
END
""",
    )
    yield (
        "fn_cdc_map_lsn_to_time",
        f"""
CREATE FUNCTION cdc.fn_cdc_map_lsn_to_time(lsn_value {PLACE}) RETURNS {TIME} {READS}
RETURN (SELECT m.tran_end_time FROM cdc.lsn_time_mapping AS m WHERE m.start_lsn = lsn_value)
""",
    )


def _columns() -> Iterator[tuple[str, str]]:
    byte = "ASCII(SUBSTRING(update_mask, LENGTH(update_mask) - (`position` - 1) DIV 8, 1))"
    ordinal = (
        "SELECT c.column_ordinal FROM cdc.captured_columns AS c WHERE c.capture_instance = capture_instance"
        " AND LOWER(c.column_name) = LOWER(column_name) LIMIT 1"
    )
    yield (
        "fn_cdc_is_bit_set",
        f"""
CREATE FUNCTION cdc.fn_cdc_is_bit_set(`position` INT, update_mask VARBINARY(128)) RETURNS INT {COUNTS}
RETURN CASE WHEN `position` IS NULL OR update_mask IS NULL THEN NULL
            WHEN `position` BETWEEN 1 AND LENGTH(update_mask) * 8 THEN {byte} >> (`position` - 1) % 8 & 1 ELSE 0 END
""",
    )
    yield (
        "fn_cdc_get_column_ordinal",
        f"""
CREATE FUNCTION cdc.fn_cdc_get_column_ordinal(capture_instance {TEXT}, column_name {COLUMN}) RETURNS INT {READS}
RETURN ({ordinal})
""",
    )
    yield (
        "fn_cdc_has_column_changed",
        f"""
CREATE FUNCTION cdc.fn_cdc_has_column_changed(capture_instance {TEXT}, column_name {TEXT}, update_mask VARBINARY(128))
RETURNS INT {READS}
RETURN cdc.fn_cdc_is_bit_set(cdc.fn_cdc_get_column_ordinal(capture_instance, column_name), update_mask)
""",
    )
