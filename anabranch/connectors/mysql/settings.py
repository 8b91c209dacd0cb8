"""Every variable that a MySQL or MariaDB lets an administrator give to new sessions, and what our sessions do with each.

`SET GLOBAL`, the configuration or `init_connect` may change any of them for our sessions too. Each is therefore decided here
once: pinned to a value, or left with a reason. A live test compares this table with the variables of the server.
https://dev.mysql.com/doc/refman/8.0/en/server-system-variables.html · https://mariadb.com/kb/en/server-system-variables/
What does not live here: sending the pins (connection.py), what a snapshot's session sets beside them (load.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple


class Pin(NamedTuple):
    """The value that our sessions have, as SQL, and why they need it. DEFAULT would be the administrator's value."""

    value: str
    why: str


MOST = "18446744073709551615"
DAY = "86400"
_ROWS = "could leave rows out, or change them"
_FORM = "decides how values or definitions are printed, or what a literal means"
_TIME = "could end our sessions or statements"
_CUT = "could cut a text off"

# What asking for the server's variables depends on itself; every release has these.
FIRST = f"SET SESSION sql_select_limit = {MOST}, max_join_size = {MOST}, sql_big_selects = 1, lc_messages = 'en_US'"
UNLIMITED = {"mariadb": ", max_statement_time = 0", "mysql": ""}
# A variable that the server does not have is not sent.
PINNED: Mapping[str, Pin] = {
    "autocommit": Pin("1", "a session that does not say so commits each statement"),
    "completion_type": Pin("0", "a COMMIT of ours would begin another transaction, or close the connection"),
    "transaction_isolation": Pin("'REPEATABLE-READ'", "a chunk has to be read as of one moment"),
    "tx_isolation": Pin("'REPEATABLE-READ'", "a chunk has to be read as of one moment"),
    "transaction_read_only": Pin("0", "the watermark could not be written"),
    "tx_read_only": Pin("0", "the watermark could not be written"),
    "sql_select_limit": Pin(MOST, _ROWS + ": every reading ends after so many rows"),
    "max_join_size": Pin(MOST, _TIME),
    "sql_big_selects": Pin("1", _TIME),
    "sql_auto_is_null": Pin("0", _ROWS + ": IS NULL finds the row inserted last"),
    "sql_safe_updates": Pin("0", _TIME),
    "system_versioning_alter_history": Pin("'ERROR'", "none of ours alters such a table; said all the same"),
    "wsrep_dirty_reads": Pin("0", _ROWS + ": a node that lost its cluster would answer"),
    "use_secondary_engine": Pin("0", "an engine without our snapshot could answer"),
    "sql_mode": Pin("''", _FORM),
    "old_mode": Pin("''", _FORM),
    "time_zone": Pin("'+00:00'", _FORM),
    "character_set_client": Pin("utf8mb4", _FORM),
    "character_set_connection": Pin("utf8mb4", _FORM),
    "character_set_results": Pin("utf8mb4", _FORM),
    "collation_connection": Pin("utf8mb4_general_ci", _FORM),
    "lc_messages": Pin("'en_US'", "the reason why the log is not sent is read from its words"),
    "lc_time_names": Pin("'en_US'", _FORM),
    "default_week_format": Pin("0", _FORM),
    "div_precision_increment": Pin("4", _FORM),
    "group_concat_max_len": Pin("1073741824", _CUT),
    "max_sort_length": Pin("1024", "ORDER BY would compare the beginning of a key alone"),
    "sql_quote_show_create": Pin("1", _FORM),
    "show_create_table_verbosity": Pin("0", _FORM),
    "show_gipk_in_create_table_and_information_schema": Pin("1", "off, a primary key that the server made is hidden"),
    "print_identified_with_as_hex": Pin("0", _FORM),
    "explain_format": Pin("'TRADITIONAL'", "how a table is cut is read from EXPLAIN's old form"),
    "max_execution_time": Pin("0", _TIME),
    "max_statement_time": Pin("0", _TIME),
    "net_read_timeout": Pin(DAY, _TIME + ": a slow target makes us read slowly"),
    "net_write_timeout": Pin(DAY, _TIME + ": a slow target makes us read slowly"),
    "wait_timeout": Pin(DAY, _TIME),
    "idle_transaction_timeout": Pin("0", _TIME),
    "idle_readonly_transaction_timeout": Pin("0", _TIME),
    "idle_write_transaction_timeout": Pin("0", _TIME),
    "lock_wait_timeout": Pin(DAY, _TIME),
    "innodb_lock_wait_timeout": Pin("50", _TIME),
    "innodb_table_locks": Pin("1", "off, LOCK TABLES does not wait for transactions that have written"),
    "foreign_key_checks": Pin("1", "what we write at the source is checked as anything else"),
    "unique_checks": Pin("1", "what we write at the source is checked as anything else"),
    "optimizer_switch": Pin("'default'", "time: off, a chunk is not read by its range"),
    "range_optimizer_max_mem_size": Pin("8388608", "time: too small, a chunk reads the whole table"),
    "sql_buffer_result": Pin("0", "every chunk would be written to a temporary table first"),
    "big_tables": Pin("0", "every temporary table would be written to disk"),
}

# At a target: target/settings.py
ONE_TABLE = "at a source we make one small table and its rows, and its statement says what matters"
# Why a variable is left as the server has it -> the variables.
LEFT: Mapping[str, tuple[str, ...]] = {
    "read by the statements that need it: a session cannot set it, or it is a fact of the server": (
        "max_allowed_packet", "net_buffer_length", "max_user_connections", "server_id", "pseudo_thread_id",
    ),
    "answers only what no table's change has made untrue; a server that began without it refuses every value": (
        "query_cache_type",
    ),
    "another name of one that is decided here, which follows it": (
        "sql_big_tables", "sql_low_priority_updates", "sql_max_join_size",
    ),
    "refused by name where it is set: a session cannot take it back": ("system_versioning_asof",),
    "of one session or statement: nobody can give it to ours, or a replica sets it": (
        "gtid_next", "gtid_seq_no", "identity", "immediate_server_version", "insert_id", "last_insert_id",
        "original_commit_timestamp", "original_server_version", "pseudo_replica_mode", "pseudo_slave_mode", "rand_seed1",
        "rand_seed2", "require_row_format", "resultset_metadata", "show_create_table_skip_secondary_engine",
        "skip_parallel_replication", "skip_replication", "sql_log_bin", "sql_slave_skip_counter", "timestamp",
        "transaction_allow_batching", "wsrep_gtid_seq_no",
    ),
    "how what others write is logged: preflight judges it, and we write a watermark at most": (
        "binlog_alter_two_phase", "binlog_annotate_row_events", "binlog_direct_non_transactional_updates", "binlog_format",
        "binlog_row_image", "binlog_row_value_options", "binlog_rows_query_log_events", "binlog_transaction_compression",
        "binlog_transaction_compression_level_zstd", "gtid_domain_id", "transaction_write_set_extraction",
        "max_relay_log_size", "innodb_support_xa",
    ),
    ONE_TABLE: (
        "auto_increment_increment", "auto_increment_offset", "character_set_database", "character_set_filesystem",
        "character_set_server", "check_constraint_checks", "collation_database", "collation_server",
        "default_collation_for_utf8mb4", "default_storage_engine", "default_table_encryption", "default_tmp_storage_engine",
        "enforce_storage_engine", "external_table_secondary_storage_engine", "external_table_storage_engine",
        "enable_cascade_triggers", "restrict_fk_on_non_standard_key",
        "explicit_defaults_for_timestamp", "innodb_compression_default",
        "innodb_default_encryption_key_id", "innodb_strict_mode", "sql_generate_invisible_primary_key",
        "sql_require_primary_key", "storage_engine", "low_priority_updates", "innodb_snapshot_isolation",
        "system_versioning_insert_history", "sql_if_exists", "alter_algorithm", "old_alter_table", "keep_files_on_create",
        "column_compression_threshold", "column_compression_zlib_level", "column_compression_zlib_strategy",
        "column_compression_zlib_wrap", "innodb_ddl_buffer_size", "innodb_ddl_threads", "default_row_format",
    ),
    "a limit of resources: what does not fit is an error by name, never a part of an answer": (
        "connection_memory_chunk_size", "connection_memory_limit", "connection_memory_status_limit",
        "global_connection_memory_tracking", "global_connection_memory_status_limit", "max_heap_table_size",
        "max_session_mem_used", "max_tmp_tables", "parser_max_mem_size", "tmp_disk_table_size", "tmp_memory_table_size",
        "tmp_table_size", "max_tmp_session_space_usage",
    ),
    "tuning of this machine: time, never another answer": (
        "aria_repair_threads", "aria_sort_buffer_size", "bulk_insert_buffer_size", "deadlock_search_depth_long",
        "deadlock_search_depth_short", "deadlock_timeout_long", "enable_secondary_engine_statistics",
        "engine_condition_pushdown", "multi_range_count", "set_operations_buffer_size",
        "deadlock_timeout_short", "eq_range_index_dive_limit",
        "expensive_subquery_limit", "histogram_generation_max_mem_size", "histogram_size", "histogram_type",
        "in_predicate_conversion_threshold", "information_schema_stats_expiry", "innodb_parallel_read_threads",
        "innodb_tmpdir", "internal_tmp_mem_storage_engine", "join_buffer_size", "join_buffer_space_limit",
        "join_cache_level", "max_length_for_sort_data", "max_rowid_filter_size", "max_seeks_for_key", "mrr_buffer_size", "old",
        "myisam_repair_threads", "myisam_sort_buffer_size", "optimizer_adjust_secondary_key_costs",
        "optimizer_extra_pruning_depth", "optimizer_join_limit_pref_ratio", "optimizer_max_sel_arg_weight",
        "optimizer_max_sel_args", "optimizer_max_subgraph_pairs", "optimizer_prune_level", "optimizer_search_depth",
        "optimizer_selectivity_sampling_limit", "optimizer_use_condition_selectivity", "preload_buffer_size",
        "query_alloc_block_size", "query_prealloc_size", "range_alloc_block_size", "read_buffer_size",
        "read_rnd_buffer_size", "rowid_merge_buff_size", "secondary_engine_cost_threshold", "sort_buffer_size",
        "tcp_nodelay", "thread_pool_priority", "transaction_alloc_block_size", "transaction_prealloc_size",
        "use_stat_tables",
    ),
    "what the server notes, counts and shows of our statements": (
        "log_disabled_statements", "log_queries_not_using_indexes", "log_slow_admin_statements",
        "log_slow_disabled_statements", "log_slow_filter", "log_slow_max_warnings", "log_slow_min_examined_row_limit",
        "log_slow_query", "log_slow_query_time", "log_slow_rate_limit", "log_slow_slave_statements", "log_slow_verbosity",
        "log_warnings", "long_query_time", "max_error_count", "min_examined_row_limit", "note_verbosity",
        "optimizer_record_context", "optimizer_trace", "optimizer_trace_features", "optimizer_trace_limit",
        "optimizer_trace_max_mem_size", "optimizer_trace_offset", "profiling", "profiling_history_size",
        "slow_query_log", "sql_log_off", "sql_notes", "sql_warnings", "log_slow_extra", "terminology_use_previous",
    ),
    "what a client asks for in its greeting, and ours does not": (
        "progress_report_time", "session_track_gtids", "session_track_schema", "session_track_state_change",
        "session_track_system_variables", "session_track_transaction_info",
    ),
    "of sessions of another kind: interactive clients, clusters, delayed writing, what applies a replica's log": (
        "group_replication_consistency", "interactive_timeout", "max_delayed_threads", "max_insert_delayed_threads",
        "net_retry_count", "rbr_exec_mode", "wsrep_causal_reads", "wsrep_on", "wsrep_osu_method",
        "wsrep_retry_autocommit", "wsrep_sync_wait", "wsrep_trx_fragment_size", "wsrep_trx_fragment_unit",
        "default_master_connection",
    ),
    "none of our statements has what it acts on": (
        "analyze_max_length", "analyze_sample_percentage", "aria_stats_method", "block_encryption_mode",
        "cte_max_recursion_depth", "default_regex_flags", "end_markers_in_json", "explain_json_format_version",
        "generated_random_password_length", "innodb_ft_enable_stopword", "innodb_ft_user_stopword_table",
        "max_points_in_geometry", "max_recursive_iterations", "max_sp_recursion_depth", "myisam_stats_method",
        "new", "old_passwords", "query_cache_strip_comments", "query_cache_wlock_invalidate",
        "select_into_buffer_size", "select_into_disk_sync", "select_into_disk_sync_delay", "show_old_temporals",
        "standard_compliant_cte", "updatable_views_with_limit", "windowing_use_high_precision",
        "xa_detach_on_prepare",
    ),
}  # fmt: skip


def decided() -> frozenset[str]:
    """Return the names of all variables that this table decides."""
    return frozenset((*PINNED, *(name for names in LEFT.values() for name in names)))


def pinning(there: Iterable[str], pins: Mapping[str, Pin] = PINNED) -> str:
    """Return the one statement that pins, of a server with these variables. sql_big_selects comes behind max_join_size, which
    sets it."""
    known = set(there)
    return "SET SESSION " + ", ".join(f"{name} = {pin.value}" for name, pin in pins.items() if name in known)
