"""Which statements of a test may go through a session that is kept from the one before."""

from __future__ import annotations

import pytest

from anabranch.testing.sessions import is_plain

PLAIN = (
    "SELECT count(*) FROM t WHERE id = %s",
    "CREATE TABLE t (id INT PRIMARY KEY)",
    "create unique index i on t (n)",
    "ALTER TYPE mood ADD VALUE 'b'",
    " INSERT INTO t VALUES (1)",
)
OF_A_SESSION = (
    "SET sql_mode = ''",
    "SELECT @@SESSION.sql_mode",
    "SHOW server_version",
    "BEGIN",
    "XA PREPARE 'a'",
    "USE other",
    "LOCK TABLES t WRITE",
    "CREATE TEMPORARY TABLE t (id INT)",
    "INSERT INTO t VALUES (1); SET timezone = 'UTC'",
    "SELECT set_config('timezone', 'UTC', false)",
    "SELECT current_setting('timezone')",
    "SELECT pg_advisory_lock(1)",
    "SELECT GET_LOCK('a', 1)",
    "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots",
    "SELECT count(*) FROM pg_stat_activity",
    "SELECT CONNECTION_ID()",
    "SELECT LAST_INSERT_ID()",
    "ALTER DATABASE d SET timezone = 'UTC'",
    "CREATE ROLE r",
    "GRANT SELECT ON t TO r",
)


@pytest.mark.parametrize("statement", PLAIN)
def test_what_any_session_does_alike(statement: str) -> None:
    assert is_plain(statement)


@pytest.mark.parametrize("statement", OF_A_SESSION)
def test_what_asks_for_something_of_a_session_or_changes_it(statement: str) -> None:
    assert not is_plain(statement)
