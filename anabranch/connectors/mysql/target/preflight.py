"""Is this server ready to be the job's target? Every check reads only; what fails says what mends it.

What does not live here: checks of the source, the report (preflight/), type facts (typemap.py).
"""

from __future__ import annotations

from anabranch.connectors.mysql.target.errors import translated
from anabranch.connectors.mysql.target.options import USUAL, MysqlTargetOptions
from anabranch.connectors.mysql.target.preflight_acting import check_triggers, check_versioned
from anabranch.connectors.mysql.target.preflight_cluster import check_cluster, check_keys_wanted
from anabranch.connectors.mysql.target.preflight_facts import Check, Live
from anabranch.connectors.mysql.target.preflight_rights import (
    check_progress_view,
    check_rights,
    check_state,
    check_truncate,
)
from anabranch.connectors.mysql.target.preflight_server import (
    check_connections,
    check_engine,
    check_log_format,
    check_names,
    check_packet,
    check_read_only,
    check_settings,
    check_version,
    too_old,
)
from anabranch.connectors.mysql.target.preflight_sizes import check_padding, check_sizes
from anabranch.connectors.mysql.target.preflight_standing_types import check_labels_there
from anabranch.connectors.mysql.target.preflight_tables import (
    check_collations,
    check_columns,
    check_constraints,
    check_existing,
    check_keys,
    check_loops,
    check_not_null,
    check_own_source,
    check_standing,
)
from anabranch.connectors.mysql.target.preflight_types import check_not_carried, check_types
from anabranch.connectors.mysql.target.session import Connection, connect
from anabranch.contracts import PreflightContext
from anabranch.model.checks import CheckResult, CheckVerdict
from anabranch.model.endpoint import Endpoint

FAILED = CheckVerdict.FAILED
STATE = "target.state"


class MysqlTargetChecks:
    """The checks of a MySQL or MariaDB target, over one connection. `family`: what the URL says that it is. Reads only."""

    def __init__(self, endpoint: Endpoint, family: str = "mysql", options: MysqlTargetOptions = USUAL) -> None:
        self._endpoint, self._family, self._options = endpoint, family, options
        self._connection: Connection | None = None

    def run(self, context: PreflightContext) -> list[CheckResult]:
        """Run all checks. Raises TargetUnavailable, or TargetError when the server refuses us."""
        if self._connection is None or not self._connection.open:
            self._connection = connect(self._endpoint, "anabranch-preflight", autocommit=True)
        with translated("check the target"):
            live = Live(self._connection, self._family, self._options, context)
            if found := [*too_old(live)]:
                return found  # it does not know what the other checks ask for
            found = [result for check in SERVER_CHECKS for result in check(live)]
            if any(result.check == STATE and result.verdict == FAILED for result in found):
                return found  # what the job has here cannot be read: of its tables every answer would be a guess
            return found + [result for check in TABLE_CHECKS for result in check(live)]

    def close(self) -> None:
        if self._connection is not None and self._connection.open:
            self._connection.close()
        self._connection = None


SERVER_CHECKS: tuple[Check, ...] = (
    check_version,
    check_settings,
    check_read_only,
    check_engine,
    check_log_format,
    check_packet,
    check_connections,
    check_rights,
    check_truncate,
    check_progress_view,
    check_state,
)
TABLE_CHECKS: tuple[Check, ...] = (
    check_keys_wanted,
    check_cluster,
    check_own_source,
    check_loops,
    check_standing,
    check_existing,
    check_columns,
    check_not_null,
    check_labels_there,
    check_keys,
    check_collations,
    check_constraints,
    check_triggers,
    check_versioned,
    check_sizes,
    check_padding,
    check_names,
    check_types,
    check_not_carried,
)
