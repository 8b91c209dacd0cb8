"""Requests with a key, on a PostgreSQL: the tests of tests/unit/manager/test_manager_repeats.py."""

from __future__ import annotations

from tests.unit.manager.test_manager_repeats import *  # noqa: F403 - the same tests, on another store
