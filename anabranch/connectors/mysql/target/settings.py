"""Settings of sessions that write to a MySQL or MariaDB: what is pinned otherwise than in a session that reads a source, and
why what decides how tables are made and rows are written may stay as the server has it.

What does not live here: the settings of every session (`connectors/mysql/settings.py`), sending them (`session.py`).
"""

from __future__ import annotations

from collections.abc import Mapping

from anabranch.connectors.mysql.settings import Pin

# Strict, so that a value that does not fit is an error; dates that a source has (zero, 31 February) and 0 in a column with
# AUTO_INCREMENT stand as they are given. https://dev.mysql.com/doc/refman/8.0/en/sql-mode.html
SQL_MODE = "STRICT_ALL_TABLES,ALLOW_INVALID_DATES,NO_AUTO_VALUE_ON_ZERO,NO_ENGINE_SUBSTITUTION"
# What a session that writes has beside what every session of ours has, or other than that one.
WRITING: Mapping[str, Pin] = {
    "transaction_isolation": Pin("'READ-COMMITTED'", "what others have committed counts; gaps are not locked"),
    "tx_isolation": Pin("'READ-COMMITTED'", "what others have committed counts; gaps are not locked"),
    "sql_mode": Pin(f"'{SQL_MODE}'", "a value is stored as it is given, or refused"),
    "collation_connection": Pin("utf8mb4_bin", "literals compare byte by byte; a column's own collation wins anyway"),
    "lock_wait_timeout": Pin("30", "a table that others lock is waited for from outside, as TargetBusy"),
    "innodb_lock_wait_timeout": Pin("30", "a row that others lock is waited for from outside, as TargetBusy"),
    "idle_transaction_timeout": Pin("600", "a forgotten transaction keeps its locks no longer"),
    "check_constraint_checks": Pin("1", "off, a row that breaks a CHECK would be stored"),
    "unique_checks": Pin("1", "off, a secondary unique index may get the same value twice"),
    "sql_notes": Pin("1", "off, a value that is cut is not counted as a warning"),
    "sql_if_exists": Pin("0", "on, a statement about a table that is gone would succeed"),
}

# Why a variable is left as the server has it, of those that are left at a source because nothing but a watermark is made there.
LEFT: Mapping[str, tuple[str, ...]] = {
    "each statement that makes a table or a database says it: engine, character set, collation": (
        "character_set_database", "character_set_server", "collation_database", "collation_server",
        "default_collation_for_utf8mb4", "default_storage_engine", "default_tmp_storage_engine", "enforce_storage_engine",
        "storage_engine",
    ),
    "every row brings its values; a number that the server gives is one of a table's own column": (
        "auto_increment_increment", "auto_increment_offset",
    ),
    "on where our user may set it; where not, a NULL that the server would replace is refused before it is sent": (
        "explicit_defaults_for_timestamp",
    ),
    "the size of rows is judged by preflight; one that does not fit is refused when it comes, whichever it is": (
        "innodb_strict_mode", "default_row_format",
    ),
    "preflight asks for it: a table without a key is refused there, or stands with a key that nobody sees": (
        "sql_generate_invisible_primary_key", "sql_require_primary_key",
    ),
    "how a table lies on the disk, and how long altering it takes; the administrator's affair": (
        "alter_algorithm", "old_alter_table", "keep_files_on_create", "column_compression_threshold",
        "column_compression_zlib_level", "column_compression_zlib_strategy", "column_compression_zlib_wrap",
        "default_table_encryption", "innodb_compression_default", "innodb_ddl_buffer_size", "innodb_ddl_threads",
        "innodb_default_encryption_key_id",
    ),
    "our foreign keys are off; a key that the server refuses to build is named in `status`": (
        "enable_cascade_triggers", "restrict_fk_on_non_standard_key",
    ),
    "none of our statements has what it acts on": (
        "character_set_filesystem", "external_table_secondary_storage_engine", "external_table_storage_engine",
        "innodb_snapshot_isolation", "low_priority_updates", "system_versioning_insert_history",
    ),
}  # fmt: skip
