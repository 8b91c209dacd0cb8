"""Is this server ready to be the job's source? Every check reads only; what fails says what mends it.

What does not live here: the checks themselves (`preflight_server.py`, `preflight_tables.py`, `preflight_structures.py`),
rights (`privileges.py`), types that are refused (the engine's rules say them), the target.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import pymysql

from anabranch.connectors.mysql.connection import account, ask, connect
from anabranch.connectors.mysql.rights import Rights, grant
from anabranch.connectors.mysql.source.options import MysqlSourceOptions
from anabranch.connectors.mysql.source.preflight_facts import Live, warning
from anabranch.connectors.mysql.source.preflight_replica import check_replica_filters
from anabranch.connectors.mysql.source.preflight_room import check_connections
from anabranch.connectors.mysql.source.preflight_server import (
    check_family,
    check_filters,
    check_grants,
    check_gtid,
    check_replica,
    check_retention,
    check_row_image,
    check_row_value_options,
    check_server_id,
    check_settings,
    check_unused,
    check_version,
    check_xa,
)
from anabranch.connectors.mysql.source.preflight_structures import check_objects, check_on_update, check_partitions
from anabranch.connectors.mysql.source.preflight_tables import (
    check_computed,
    check_engines,
    check_foreign_keys,
    check_generated,
    check_hidden_keys,
    check_keys,
    check_standing_keys,
    check_versioned,
)
from anabranch.contracts import PreflightContext
from anabranch.errors import SourceError, SourceUnavailable
from anabranch.model.checks import CheckResult
from anabranch.model.endpoint import Endpoint


class MysqlChecks:
    """The checks of one source, over one connection."""

    def __init__(self, endpoint: Endpoint, scheme: str, options: MysqlSourceOptions) -> None:
        self._endpoint, self._scheme, self._options = endpoint, scheme, options
        self._connection: pymysql.Connection | None = None

    def run(self, context: PreflightContext) -> list[CheckResult]:
        """Run all checks. Raises SourceUnavailable, or SourceError when the server refuses us."""
        if self._connection is None or not self._connection.open:
            self._connection = connect(self._endpoint)
        live = Live.of(self._connection, self._scheme, self._options, context, self._endpoint)
        return [result for check in CHECKS for result in _asked(check, live)]

    def close(self) -> None:
        if self._connection is not None and self._connection.open:
            self._connection.close()
        self._connection = None


Check = Callable[[Live], Iterator[CheckResult]]
CHECKS: tuple[Check, ...] = (
    check_family,
    check_version,
    check_settings,
    check_unused,
    check_row_image,
    check_row_value_options,
    check_server_id,
    check_retention,
    check_gtid,
    check_filters,
    check_replica,
    check_replica_filters,
    check_xa,
    check_connections,
    check_grants,
    check_engines,
    check_keys,
    check_standing_keys,
    check_hidden_keys,
    check_foreign_keys,
    check_computed,
    check_generated,
    check_versioned,
    check_partitions,
    check_on_update,
    check_objects,
)
# The right that a check itself needs, where it is not one that the job needs anyway.
# https://dev.mysql.com/doc/refman/8.0/en/privileges-provided.html#priv_xa-recover-admin
# https://mariadb.com/kb/en/grant/#replica-monitor
_RIGHT_TO_ASK: Mapping[tuple[str, Check], str] = {
    ("mysql", check_filters): "REPLICATION CLIENT",
    ("mariadb", check_filters): "BINLOG MONITOR",
    ("mysql", check_xa): "XA_RECOVER_ADMIN",
    ("mariadb", check_replica): "SLAVE MONITOR",
    ("mariadb", check_replica_filters): "SLAVE MONITOR",
    ("mysql", check_replica_filters): "REPLICATION CLIENT",
}


def _asked(check: Check, live: Live) -> list[CheckResult]:
    """Run one check; gives a warning where the user may not ask."""
    try:
        return list(check(live))
    except SourceUnavailable:
        raise
    except SourceError as error:
        name, right = check.__name__.removeprefix("check_"), _RIGHT_TO_ASK.get((live.family, check))
        if right is None or _rights(live).has(right):
            return [warning(name, f"could not be asked: {error.message}", error.hint)]
        user = account(live.connection)  # what the server says is worse than it is: XAER_RMERR tells to check the data
        return [warning(name, f"could not be asked: {user} lacks {right}", grant(right, "*.*", user))]


def _rights(live: Live) -> Rights:
    return Rights([str(row[0]) for row in ask(live.connection, "SHOW GRANTS")])
