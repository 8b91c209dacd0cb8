"""A user whose every session begins with an administrator's settings at their worst. The jobs of a part of the histories come
as this user: what depends on a setting that is not pinned differs, or fails.

Sessions of the kit come as others. What does not live here: what the product does about it (connectors/*/settings.py).
"""

from __future__ import annotations

import random
from collections.abc import Mapping

from anabranch.testing.databases import Database
from anabranch.testing.servers import Server

USER = "torture_job"
SHARE = 0.3  # of the histories
# Known to every MySQL and MariaDB that the kit starts; run at each login of a user who is no administrator.
# https://dev.mysql.com/doc/refman/8.0/en/server-system-variables.html#sysvar_init_connect
MYSQL: Mapping[str, str] = {
    "sql_select_limit": "3",
    "max_join_size": "10",
    "sql_mode": "'ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PAD_CHAR_TO_FULL_LENGTH,PIPES_AS_CONCAT,HIGH_NOT_PRECEDENCE'",
    "time_zone": "'+09:00'",
    "completion_type": "'CHAIN'",
    "group_concat_max_len": "4",
    "max_sort_length": "8",
    "div_precision_increment": "0",
    "sql_auto_is_null": "1",
    "sql_safe_updates": "1",
    "sql_quote_show_create": "0",
    "sql_buffer_result": "1",
    "lock_wait_timeout": "1",
    "innodb_lock_wait_timeout": "1",
    "tx_isolation": "'READ-UNCOMMITTED'",
}
MYSQL_8 = {"tx_isolation": "transaction_isolation"}
NO_ADMINISTRATOR = {"mysql": "SUPER, CONNECTION_ADMIN", "mariadb": "SUPER, CONNECTION ADMIN"}
POSTGRESQL: Mapping[str, str] = {
    "array_nulls": "off",
    "transform_null_equals": "on",
    "DateStyle": "'SQL, DMY'",
    "IntervalStyle": "'sql_standard'",
    "TimeZone": "'Asia/Tokyo'",
    "bytea_output": "'escape'",
    "extra_float_digits": "-15",
    "xmlbinary": "'hex'",
    "xmloption": "'document'",
    "standard_conforming_strings": "off",
    "backslash_quote": "off",
    "quote_all_identifiers": "on",
    "search_path": "public",
    "statement_timeout": "'1ms'",
    "lock_timeout": "'1ms'",
    "idle_in_transaction_session_timeout": "'1ms'",
    "transaction_timeout": "'2s'",
    "default_transaction_isolation": "'serializable'",
    "default_transaction_deferrable": "on",
    "exit_on_error": "on",
    "plan_cache_mode": "'force_generic_plan'",
    "enable_indexscan": "off",
    "enable_sort": "off",
    "synchronous_commit": "off",
    "session_replication_role": "'replica'",
}


def has_worst(seed: int) -> bool:
    """Return whether this history's job comes as the user."""
    return random.Random(f"settings of {seed}").random() < SHARE


def at_each_login(family: str) -> str:
    """The statements, for a server's option `init_connect`."""
    named = MYSQL_8 if family == "mysql" else {}
    return "; ".join(f"SET SESSION {named.get(name, name)} = {value}" for name, value in MYSQL.items())


def make_user(server: Server) -> None:
    """Make the user, with all rights but those that spare an administrator the settings."""
    if server.name == "postgresql":
        _make_role(Database(server, "postgres"), server.password)
        return
    how = "WITH mysql_native_password BY" if server.name == "mysql" else "BY"
    Database(server, "").execute(
        f"CREATE USER {USER}@'%' IDENTIFIED {how} '{server.password}'",
        f"GRANT ALL ON *.* TO {USER}@'%'",
        f"REVOKE {NO_ADMINISTRATOR[server.name]} ON *.* FROM {USER}@'%'",
    )


def _make_role(admin: Database, password: str) -> None:
    there = {name for (name,) in admin.query("SELECT name FROM pg_settings")}
    admin.execute(
        f"CREATE ROLE {USER} SUPERUSER LOGIN PASSWORD '{password}'",
        *(f"ALTER ROLE {USER} SET {name} = {value}" for name, value in POSTGRESQL.items() if name in there),
    )
