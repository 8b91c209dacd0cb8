"""Alerts, on a PostgreSQL: the tests of tests/unit/manager/test_manager_alerts.py."""

from __future__ import annotations

from tests.unit.manager.test_manager_alerts import *  # noqa: F403 - the same tests, on another store
