"""Jobs, people and the audit, on a PostgreSQL: the tests of tests/unit/manager/test_manager_store.py."""

from __future__ import annotations

from tests.unit.manager.test_manager_store import *  # noqa: F403 - the same tests, on another store

# These are of a file of SQLite.
del test_a_file_that_is_none_is_refused_with_its_place  # noqa: F821 - imported above
del test_what_sqlite_refuses_is_an_error_of_ours_and_the_next_transaction_begins_anew  # noqa: F821 - imported above
del test_the_state_and_the_files_are_for_their_user_alone  # noqa: F821 - imported above
del test_a_token_counts_until_it_is_over_or_revoked  # noqa: F821 - imported above
