"""Every setting that a PostgreSQL lets a role or a database give to new sessions, and what our sessions do with each.

A server where `ALTER ROLE … SET`, `ALTER DATABASE … SET` or the configuration changes one of these gives the change to our
sessions too. Each setting is therefore decided here once: pinned to a value, demanded of the server, or left with a reason.
A live test compares this table with pg_settings of the server. https://www.postgresql.org/docs/current/view-pg-settings.html
What does not live here: sending the pins (connection.py), settings of extensions (their names have a dot).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

FIRST = 110_000  # the oldest release that a job may use: its settings go into the startup packet


class Pin(NamedTuple):
    """The value that our sessions have, why they need it, and the first release that knows the setting."""

    value: str
    why: str
    since: int = FIRST


_FORM = "decides how values are printed or read"
_NAMES = "decides which object a name stands for, or how a definition is printed"
_ROWS = "could leave rows or values out, or change them"
_TIME = "could end our sessions, or let them wait without an end"
_PLAN = "off, a chunk or a lookup by key reads the whole table"

# https://www.postgresql.org/docs/current/runtime-config-client.html
PINNED: Mapping[str, Pin] = {
    "search_path": Pin("pg_catalog", _NAMES),
    "quote_all_identifiers": Pin("off", _NAMES),
    "TimeZone": Pin("UTC", _FORM),
    "DateStyle": Pin("ISO,YMD", _FORM),
    "IntervalStyle": Pin("postgres", _FORM),
    "bytea_output": Pin("hex", _FORM),
    "extra_float_digits": Pin("3", _FORM + ": before release 12 fewer lose digits"),
    "lc_monetary": Pin("C", _FORM + ": money, at both ends alike"),
    "xmlbinary": Pin("base64", _FORM),
    "xmloption": Pin("content", _FORM + ": 'document' refuses values that the column holds"),
    "array_nulls": Pin("on", _FORM + ": off, an array's NULL is read as the text 'NULL'"),
    "transform_null_equals": Pin("off", _ROWS),
    "standard_conforming_strings": Pin("on", _FORM),
    "client_min_messages": Pin("warning", "notices cost time on the line, and nobody reads them"),
    "row_security": Pin(
        "off", "a statement whose rows a policy would filter is an error instead of a part of the rows"
    ),
    "gin_fuzzy_search_limit": Pin("0", _ROWS + ": a lookup by a GIN index returns a random part"),
    "default_transaction_isolation": Pin("read committed", "a step of apply has to see what the step before it left"),
    "default_transaction_deferrable": Pin("off", _TIME),
    "check_function_bodies": Pin("on", "a definition that cannot work is refused when it is made"),
    "exit_on_error": Pin("off", _TIME + ": one refused statement would close the connection"),
    "statement_timeout": Pin("0", _TIME),
    "lock_timeout": Pin("30s", _TIME),
    "idle_in_transaction_session_timeout": Pin("10min", _TIME),
    "idle_session_timeout": Pin("0", _TIME, 140_000),
    "transaction_timeout": Pin("0", _TIME, 170_000),
    "tcp_user_timeout": Pin("0", _TIME + ": while the other end is slow we do not read", 120_000),
    "vacuum_cost_delay": Pin("0", "slows our ANALYZE down by any factor"),
    "jit": Pin("off", "compiling our short statements takes longer than running them"),
    "plan_cache_mode": Pin("auto", "time: a generic plan for every value, or planning anew for each", 120_000),
    "enable_indexscan": Pin("on", _PLAN),
    "enable_indexonlyscan": Pin("on", _PLAN),
    "enable_bitmapscan": Pin("on", _PLAN),
    "enable_tidscan": Pin("on", _PLAN),
    "enable_seqscan": Pin("on", "off, whole tables are read through an index"),
    "enable_sort": Pin("on", "time: the planner would avoid what our statements need"),
    "enable_hashagg": Pin("on", "time: the planner would avoid what our statements need"),
    "enable_hashjoin": Pin("on", "time: the planner would avoid what our statements need"),
    "enable_mergejoin": Pin("on", "time: the planner would avoid what our statements need"),
    "enable_nestloop": Pin("on", "time: off, a few changed rows are joined by reading the whole table"),
    "enable_material": Pin("on", "time: the planner would avoid what our statements need"),
    "enable_partition_pruning": Pin("on", "time: off, every partition is read for each key"),
}

# The session of the log alone: the server would end it after so much silence of ours, which a full disk here may cause.
WALSENDER: Mapping[str, Pin] = {"wal_sender_timeout": Pin("60s", _TIME, 120_000)}


class Demand(NamedTuple):
    """The value that a session needs, where only a superuser may set it, and what any other value does. `of_rows_written`: it
    says nothing of rows that are read, so sessions at a source do not need it."""

    value: str
    why: str
    of_rows_written: bool = False


# What the server does not have is as wanted. Pinned where our user may; else a session with another value is refused by name.
DEMANDED: Mapping[str, Demand] = {
    "zero_damaged_pages": Demand("off", "rows of damaged pages would be missing without an error"),
    "ignore_checksum_failure": Demand("off", "rows of damaged pages would be read as if they were right"),
    "composite_type_mismatch": Demand("error", "values of a row type that was altered would be read as something else"),
    "session_replication_role": Demand(
        "origin", "at a target, triggers and foreign keys would be off where they are counted on", True
    ),
}

# Why a setting is left as the server has it -> the settings.
LEFT: Mapping[str, tuple[str, ...]] = {
    "ours already: given to every connection by libpq": ("application_name", "client_encoding"),
    "of one transaction, whose beginning says it": (
        "transaction_isolation", "transaction_read_only", "transaction_deferrable",
    ),
    "who our user is: every session and preflight are the same role, and rights are asked of it": ("role",),
    "the administrator's word that nothing writes here: preflight and the writing statement refuse": (
        "default_transaction_read_only",
    ),
    "the administrator's choice of what a commit waits for; a commit that a crash takes back takes its checkpoint with it": (
        "synchronous_commit", "commit_delay", "commit_siblings",
    ),
    "where and how new tables and temporary files are stored: the administrator's choice, and no other answer": (
        "default_tablespace", "temp_tablespaces", "default_table_access_method", "default_toast_compression",
        "wal_compression", "gin_pending_list_limit", "file_copy_method",
    ),
    "a limit of resources: what does not fit is an error by name, never a part of an answer": (
        "temp_file_limit", "max_stack_depth", "temp_buffers", "work_mem", "hash_mem_multiplier", "maintenance_work_mem",
        "autovacuum_work_mem", "logical_decoding_work_mem",
    ),
    "tuning of this machine: time, never another answer": (
        "backend_flush_after", "constraint_exclusion", "cpu_index_tuple_cost", "cpu_operator_cost", "cpu_tuple_cost",
        "cursor_tuple_fraction", "default_statistics_target", "effective_cache_size", "effective_io_concurrency",
        "enable_async_append", "enable_distinct_reordering", "enable_gathermerge", "enable_group_by_reordering",
        "enable_incremental_sort", "enable_memoize", "enable_parallel_append", "enable_parallel_hash",
        "enable_partitionwise_aggregate", "enable_partitionwise_join", "enable_presorted_aggregate",
        "enable_resultcache", "enable_self_join_elimination", "from_collapse_limit", "geqo", "geqo_effort",
        "geqo_generations", "geqo_pool_size", "geqo_seed", "geqo_selection_bias", "geqo_threshold",
        "ignore_system_indexes", "io_combine_limit", "jit_above_cost", "jit_expressions", "jit_inline_above_cost",
        "jit_optimize_above_cost", "jit_tuple_deforming", "join_collapse_limit", "maintenance_io_concurrency",
        "max_parallel_maintenance_workers", "max_parallel_workers", "max_parallel_workers_per_gather",
        "min_parallel_index_scan_size", "min_parallel_table_scan_size", "operator_precedence_warning",
        "parallel_leader_participation", "parallel_setup_cost", "parallel_tuple_cost", "random_page_cost",
        "recursive_worktable_factor", "seq_page_cost", "synchronize_seqscans", "update_process_title",
        "vacuum_buffer_usage_limit", "vacuum_cleanup_index_scale_factor", "vacuum_cost_limit", "vacuum_cost_page_dirty",
        "vacuum_cost_page_hit", "vacuum_cost_page_miss", "wal_init_zero", "wal_recycle", "wal_skip_threshold",
    ),
    "of VACUUM, which we do not run": (
        "vacuum_defer_cleanup_age", "vacuum_failsafe_age", "vacuum_freeze_min_age", "vacuum_freeze_table_age",
        "vacuum_max_eager_freeze_failure_rate", "vacuum_multixact_failsafe_age", "vacuum_multixact_freeze_min_age",
        "vacuum_multixact_freeze_table_age", "vacuum_truncate",
    ),
    "what the server writes into its own log and statistics": (
        "backtrace_functions", "compute_query_id", "debug_pretty_print", "debug_print_parse", "debug_print_plan",
        "debug_print_rewritten", "escape_string_warning", "lc_messages", "log_connections", "log_disconnections",
        "log_duration", "log_error_verbosity", "log_executor_stats", "log_lock_failures", "log_lock_waits",
        "log_min_duration_sample", "log_min_duration_statement", "log_min_error_statement", "log_min_messages",
        "log_parameter_max_length", "log_parameter_max_length_on_error", "log_parser_stats", "log_planner_stats",
        "log_replication_commands", "log_statement", "log_statement_sample_rate", "log_statement_stats",
        "log_temp_files", "log_transaction_sample_rate", "stats_fetch_consistency", "trace_notify",
        "trace_recovery_messages", "trace_sort", "track_activities", "track_commit_timestamp", "track_cost_delay_timing",
        "track_counts", "track_functions", "track_io_timing", "track_wal_io_timing", "md5_password_warnings",
    ),
    "how a dead line is noticed: its own end tells us, and libpq's keepalive is ours": (
        "client_connection_check_interval", "tcp_keepalives_count", "tcp_keepalives_idle", "tcp_keepalives_interval",
        "deadlock_timeout",
    ),
    "the log's session pins it; no other session has a sender": ("wal_sender_timeout",),
    "changes how the log's messages are cut, which every reader takes": (
        "debug_logical_replication_streaming", "logical_decoding_mode", "logical_replication_mode",
    ),
    "which decoders a slot may have: preflight asks": ("output_plugin_libraries",),
    "none of our statements has what it acts on": (
        "allow_in_place_tablespaces", "allow_system_table_mods", "backslash_quote", "createrole_self_grant",
        "default_text_search_config", "default_with_oids", "event_triggers", "icu_validation_level", "lc_numeric",
        "lc_time", "lo_compat_privileges", "password_encryption", "restrict_nonsystem_relation_kind",
        "scram_iterations", "timezone_abbreviations",
    ),
    "code that the administrator loads, and where it is found: we cannot judge it": (
        "dynamic_library_path", "extension_control_path", "extension_destdir", "local_preload_libraries",
        "session_preload_libraries",
    ),
    "for those who build PostgreSQL: time, never another answer": (
        "debug_discard_caches", "debug_parallel_query", "force_parallel_mode", "jit_debugging_support", "jit_dump_bitcode",
        "jit_profiling_support", "post_auth_delay", "wal_consistency_checking",
    ),
}  # fmt: skip


def decided() -> frozenset[str]:
    """Return the names of all settings that this table decides."""
    return frozenset((*PINNED, *WALSENDER, *DEMANDED, *(name for names in LEFT.values() for name in names)))


def startup_options() -> str:
    """Return pins for the startup packet: they hold from the session's first moment, and for a session of the log too."""
    pins = {name: pin.value for name, pin in PINNED.items() if pin.since <= FIRST}
    return " ".join(f"-c {name}={value.replace(' ', chr(92) + ' ')}" for name, value in pins.items())


def later_pins(version: int, walsender: bool = False) -> dict[str, str]:
    """Return pins that a server of this release knows and the oldest does not."""
    both = {**PINNED, **(WALSENDER if walsender else {})}
    return {name: pin.value for name, pin in both.items() if FIRST < pin.since <= version}
