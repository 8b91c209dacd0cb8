"""Operations, on a PostgreSQL: the tests of tests/unit/manager/test_manager_operations.py."""

from __future__ import annotations

import pytest

from tests.unit.manager.test_manager_operations import *  # noqa: F403 - the same tests, on another store

pytestmark = pytest.mark.long  # each starts processes, and on SQLite all of them run
