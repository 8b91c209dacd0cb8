"""Attempts to log in, on a PostgreSQL: the tests of tests/unit/manager/test_manager_logins.py."""

from __future__ import annotations

from tests.unit.manager.test_manager_logins import *  # noqa: F403 - the same tests, on another store
