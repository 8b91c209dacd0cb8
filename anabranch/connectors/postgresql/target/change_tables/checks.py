"""Can this database have the job's change tables? Every check reads only; what fails says what mends it.

What does not live here: checks of the server that every PostgreSQL target has (`target/preflight_server.py`), whether the
source's log has whole rows (the source's checks).
"""

from __future__ import annotations

from collections.abc import Iterator

from anabranch.connectors.postgresql.connection import connect
from anabranch.connectors.postgresql.errors import translated
from anabranch.connectors.postgresql.quoting import quote
from anabranch.connectors.postgresql.target.change_tables.instances import HAS_INSTANCES
from anabranch.connectors.postgresql.target.change_tables.names import COLUMN_HINT, LONGEST, is_too_long, refused_names
from anabranch.connectors.postgresql.target.preflight_facts import Live
from anabranch.connectors.postgresql.target.preflight_server import (
    check_connections,
    check_encoding,
    check_schemas,
    check_state,
    check_version,
    too_old,
)
from anabranch.connectors.postgresql.target.preflight_types import check_names, check_types
from anabranch.connectors.postgresql.target.preflight_writers import check_writable
from anabranch.connectors.sql.change_tables import (
    OTHER_NAME,
    RESERVED,
    by_instance,
    check_rows,
    instance_of,
    with_names_of_instances,
)
from anabranch.connectors.sql.findings import failed, ok
from anabranch.contracts import PreflightContext
from anabranch.model.change_names import SCHEMA
from anabranch.model.checks import CheckResult, CheckVerdict
from anabranch.model.endpoint import Endpoint

HAS_ROLE = "SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = %s)"
KNOWN = "SELECT EXISTS (SELECT FROM cdc.change_tables WHERE capture_instance = %s AND source_schema = %s AND source_table = %s)"


class PostgresChangeChecks:
    """The checks of a PostgreSQL that keeps changes, over one connection. Reads only."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint

    def run(self, context: PreflightContext) -> list[CheckResult]:
        """Run all checks. Raises TargetUnavailable, or TargetError when the server refuses us."""
        with (
            connect(self._endpoint, "anabranch-preflight", autocommit=True) as connection,
            translated("check the target"),
        ):
            if found := [*too_old(connection)]:
                return found
            live, layers = Live(connection, context), by_instance(context)
            found = [result for check in SERVER_CHECKS for result in check(live)]
            if not any(result.verdict == CheckVerdict.FAILED for result in found):
                found += [result for layer in layers for result in check_instances(Live(connection, layer))]
        found += [renamed for layer in layers for renamed in with_names_of_instances(check_names(layer))]
        return [*found, *check_types(context), *check_rows(context)]

    def close(self) -> None: ...


def check_instances(live: Live) -> Iterator[CheckResult]:
    """Check the names of change tables, and that what stands there is this job's."""
    has_instances = live.true(HAS_INSTANCES)
    refused = False
    for table in live.context.targets.values():
        instance, source = instance_of(table.target), table.source
        if is_too_long(table.target):
            yield failed("change_tables", f"{instance} is longer than {LONGEST} bytes", OTHER_NAME, table)
        elif table.target not in live.existing and (why := refused_names(table)):
            yield failed("change_tables", why, COLUMN_HINT, table)
        elif source.schema.lower() == SCHEMA:
            yield failed("change_tables", RESERVED, "leave the table out: [[rules]] exclude", table)
        elif table.target in live.existing and not (
            has_instances and live.true(KNOWN, instance, source.schema, source.name)
        ):
            hint = f"drop it, or {OTHER_NAME}"
            yield failed("change_tables", f"{table.target} is there, and is no change table of {source}", hint, table)
        elif table.role and not live.true(HAS_ROLE, table.role):
            hint = f"CREATE ROLE {quote(table.role)}, and grant it to readers"
            yield failed("change_tables", f"{instance} is for role {table.role}, which is not there", hint, table)
        else:
            continue
        refused = True
    if not refused:
        yield ok("change_tables", f"{len(live.context.targets)} change tables in schema {SCHEMA}")


SERVER_CHECKS = (check_version, check_encoding, check_writable, check_connections, check_schemas, check_state)
