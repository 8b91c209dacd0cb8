"""Is this database ready to be the job's target? Every check reads only; what fails says what mends it.

What does not live here: checks of the source, the report (preflight/), type facts (typemap.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from anabranch.connectors.postgresql.connection import Connection, connect
from anabranch.connectors.postgresql.errors import translated
from anabranch.connectors.postgresql.target.preflight_acting import (
    check_aging_triggers,
    check_bypass,
    check_key_actions,
    check_logged_actions,
    check_other_triggers,
    check_row_security,
    check_rules,
)
from anabranch.connectors.postgresql.target.preflight_extensions import check_extensions, check_lacking, check_needs
from anabranch.connectors.postgresql.target.preflight_facts import Live
from anabranch.connectors.postgresql.target.preflight_server import (
    STATE,
    check_connections,
    check_encoding,
    check_progress_view,
    check_schemas,
    check_state,
    check_table_rights,
    check_version,
    too_old,
)
from anabranch.connectors.postgresql.target.preflight_tables import (
    check_columns,
    check_constraints,
    check_deferrable,
    check_existing,
    check_keys,
    check_not_null,
    check_own_source,
    check_partitions,
    check_standing,
)
from anabranch.connectors.postgresql.target.preflight_types import (
    check_key_sizes,
    check_names,
    check_not_carried,
    check_types,
)
from anabranch.connectors.postgresql.target.preflight_writers import check_loops, check_subscriptions, check_writable
from anabranch.contracts import PreflightContext
from anabranch.model.checks import CheckResult, CheckVerdict
from anabranch.model.endpoint import Endpoint


class PostgresChecks:
    """The checks of a PostgreSQL target, over one connection. Reads only."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._connection: Connection | None = None

    def run(self, context: PreflightContext) -> list[CheckResult]:
        """Run all checks. Raises TargetUnavailable, or TargetError when the server refuses us."""
        if self._connection is None or self._connection.closed:
            self._connection = connect(self._endpoint, "anabranch-preflight", autocommit=True)
        with translated("check the target"):
            if found := [*too_old(self._connection)]:
                return found  # it does not know what the other checks ask for
            live = Live(self._connection, context)
            found = [result for check in SERVER_CHECKS for result in check(live)]
            if any(result.check == STATE and result.verdict == CheckVerdict.FAILED for result in found):
                return found  # what the job has here cannot be read: of its tables every answer would be a guess
            found += [result for check in LIVE_CHECKS for result in check(live)]
        found += [*check_names(context), *check_key_sizes(context)]
        return [*found, *check_types(context), *check_not_carried(context)]

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


Check = Callable[[Live], Iterator[CheckResult]]
SERVER_CHECKS: tuple[Check, ...] = (
    check_version,
    check_encoding,
    check_writable,
    check_connections,
    check_schemas,
    check_progress_view,
    check_state,
)
LIVE_CHECKS: tuple[Check, ...] = (
    check_table_rights,
    check_bypass,
    check_logged_actions,
    check_extensions,
    check_needs,
    check_own_source,
    check_loops,
    check_subscriptions,
    check_lacking,
    check_standing,
    check_existing,
    check_partitions,
    check_columns,
    check_not_null,
    check_keys,
    check_constraints,
    check_aging_triggers,
    check_other_triggers,
    check_key_actions,
    check_rules,
    check_row_security,
    check_deferrable,
)
