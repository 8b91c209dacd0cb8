"""Can this server have the job's change tables? Every check reads only; what fails says what mends it.

What does not live here: checks of the server that every target of the family has (`target/preflight_server.py`), whether the
source's log has whole rows (the source's checks).
"""

from __future__ import annotations

from collections.abc import Iterator

from anabranch.connectors.mysql.registered import STATE
from anabranch.connectors.mysql.rights import ROUTINES, TO_GIVE, grant
from anabranch.connectors.mysql.target.change_tables.instances import FOOT, HEAD, captured, has_instances
from anabranch.connectors.mysql.target.change_tables.names import (
    COLUMN_HINT,
    LONGEST,
    folded,
    is_too_long,
    refused_columns,
)
from anabranch.connectors.mysql.target.errors import translated
from anabranch.connectors.mysql.target.preflight import MysqlTargetChecks
from anabranch.connectors.mysql.target.preflight_cluster import check_cluster
from anabranch.connectors.mysql.target.preflight_facts import Check, Live
from anabranch.connectors.mysql.target.preflight_rights import check_rights, check_state
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
from anabranch.connectors.mysql.target.preflight_sizes import row_size
from anabranch.connectors.mysql.target.preflight_types import check_types
from anabranch.connectors.mysql.target.row_sizes import PAGE
from anabranch.connectors.mysql.target.session import connect, one
from anabranch.connectors.sql.change_tables import (
    OTHER_NAME,
    RESERVED,
    by_instance,
    check_rows,
    instance_of,
    with_names_of_instances,
)
from anabranch.connectors.sql.findings import failed, ok, value_rules
from anabranch.contracts import PreflightContext
from anabranch.errors import TargetError
from anabranch.model.change_names import SCHEMA
from anabranch.model.checks import CheckResult, CheckVerdict
from anabranch.model.ids import TableId
from anabranch.rows.net import TargetTable

KNOWN = "SELECT 1 FROM cdc.change_tables WHERE capture_instance = %s AND source_schema = %s AND source_table = %s"
# Which rights let a server that logs trust who makes a function.
# https://dev.mysql.com/doc/refman/8.0/en/stored-programs-logging.html · https://mariadb.com/kb/en/grant/#binlog-admin
TRUSTED = {"mysql": ("SUPER",), "mariadb": ("SUPER", "BINLOG ADMIN")}
TO_GIVE_ON = (TO_GIVE, "SELECT", "EXECUTE")
TRUST = "log_bin_trust_function_creators"


class MysqlChangeChecks(MysqlTargetChecks):
    """The checks of a MySQL or MariaDB that keeps changes, over one connection. Reads only."""

    def run(self, context: PreflightContext) -> list[CheckResult]:
        """Run all checks. Raises TargetUnavailable, or TargetError when the server refuses us."""
        if self._connection is None or not self._connection.open:
            self._connection = connect(self._endpoint, "anabranch-preflight", autocommit=True)
        with translated("check the target"):
            live = Live(self._connection, self._family, self._options, context)
            if found := [*too_old(live)]:
                return found
            found = [result for check in SERVER_CHECKS for result in check(live)]
            if not any(result.verdict == CheckVerdict.FAILED for result in found):
                first, *others = (
                    Live(self._connection, self._family, self._options, one) for one in by_instance(context)
                )
                found += [result for check in TABLE_CHECKS for result in check(first)]
                found += [result for layer in others for check in INSTANCE_CHECKS for result in check(layer)]
        return [*found, *check_rows(context)]


def check_routines(live: Live) -> Iterator[CheckResult]:
    """Check the rights to make what readers call, and whether a server that logs lets a user without SUPER make functions."""
    place = TableId(SCHEMA, "change_tables")
    if lacking := [right for right in ROUTINES if not live.rights.has(right, place)]:
        hint = grant(", ".join(ROUTINES), f"`{SCHEMA}`.*", live.user)
        yield failed("rights", f"{live.user} lacks {', '.join(lacking)} on the database {SCHEMA}", hint)
    trusted = TRUSTED[live.family]
    if live.is_on("log_bin") and not live.is_on(TRUST) and not live.rights.has_any(trusted):
        text = f"{TRUST} = OFF: {live.user} may make no functions, which readers ask for places"
        hint = f"SET GLOBAL {TRUST} = ON while the job is run for the first time; or {grant(trusted[-1], '*.*', live.user)}"
        yield failed(TRUST, text, hint)


def check_instance_names(live: Live) -> Iterator[CheckResult]:
    return with_names_of_instances(check_names(live))


def check_instances(live: Live) -> Iterator[CheckResult]:
    """Check the names of change tables, and that what stands there is this job's."""
    knows, refused, named = has_instances(live.connection), False, _named(live.context)
    for table in live.context.targets.values():
        instance, source, hint = (
            instance_of(table.target),
            table.source,
            OTHER_NAME,
        )
        other = named[folded(table.target)]
        if is_too_long(table.target):
            yield failed("change_tables", f"{instance} is longer than {LONGEST} characters", hint, table)
        elif other.target != table.target:
            what = f"{instance} and {instance_of(other.target)} are one name to this server"
            yield failed("change_tables", what, hint, table)
        elif table.role and not live.release.has("roles"):
            hint = "leave the role out: readers get rights as users"
            yield failed(
                "change_tables", f"{instance} is for role {table.role}, and this release has no roles", hint, table
            )
        elif table.role and not all(live.rights.has(right, table.target) for right in TO_GIVE_ON):
            hint = f"GRANT SELECT, EXECUTE ON `{SCHEMA}`.* TO {live.user} WITH GRANT OPTION"
            why = f"{instance} is for role {table.role}, to which {live.user} may give nothing"
            yield failed("change_tables", why, hint, table)
        elif why := refused_columns(table):
            yield failed("change_tables", why, COLUMN_HINT, table)
        elif source.schema.lower() in (SCHEMA, STATE):
            what = RESERVED if source.schema.lower() == SCHEMA else f"jobs keep their state in database {STATE}"
            yield failed("change_tables", what, "leave the table out: [[rules]] exclude", table)
        elif table.target in live.existing and not (knows and _is_known(live, table)):
            what = f"{table.target} is there, and is no change table of {source}"
            yield failed("change_tables", what, f"drop it, or {hint}", table)
        else:
            continue
        refused = True
    if not refused:
        yield ok("change_tables", f"{len(live.context.targets)} change tables in database {SCHEMA}")


def _named(context: PreflightContext) -> dict[str, TargetTable]:
    """Return by what its procedures are called the first of the instances that would have them."""
    found: dict[str, TargetTable] = {}
    for table in (form for layer in by_instance(context) for form in layer.targets.values()):
        found.setdefault(folded(table.target), table)
    return found


def _is_known(live: Live, table: TargetTable) -> bool:
    source = table.source
    return one(live.connection, KNOWN, instance_of(table.target), source.schema, source.name) is not None


def check_sizes(live: Live) -> Iterator[CheckResult]:
    """Check that rows fit, beside which a change table has columns of its own."""
    page = live.number("innodb_page_size", PAGE)
    for table in live.new():
        schema = live.context.tables[table.source]
        try:
            own = captured(schema, table, value_rules(live.context), live.release)
        except TargetError:
            continue  # a type that is refused: check_types says so
        yield from row_size(table, [*HEAD, *own, *FOOT], page, live.family)


SERVER_CHECKS: tuple[Check, ...] = (
    check_version,
    check_settings,
    check_read_only,
    check_engine,
    check_log_format,
    check_packet,
    check_connections,
    check_rights,
    check_routines,
    check_state,
)
INSTANCE_CHECKS: tuple[Check, ...] = (check_instances, check_instance_names, check_sizes)
TABLE_CHECKS: tuple[Check, ...] = (check_cluster, check_instances, check_instance_names, check_types, check_sizes)
