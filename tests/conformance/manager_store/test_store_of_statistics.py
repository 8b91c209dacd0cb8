"""Statistics, on a PostgreSQL: the tests of tests/unit/manager/test_manager_statistics.py."""

from __future__ import annotations

from tests.unit.manager.test_manager_statistics import *  # noqa: F403 - the same tests, on another store

# It counts by a number that a connection of SQLite has.
del test_much_is_folded_and_dropped_in_pieces_between_which_others_come_in  # noqa: F821 - imported above
