"""Checks for other writers where the job writes or reads: changes that would come back to their source, and a target
that is a replica.

What does not live here: the job itself (preflight_tables.check_own_source), other jobs that write to the same tables
(shared_tables.py).
"""

from __future__ import annotations

from collections.abc import Iterator

from anabranch.connectors.postgresql.connection import one
from anabranch.connectors.postgresql.registered import reads_here, subscriptions, unmarked
from anabranch.connectors.postgresql.target.preflight_facts import Live
from anabranch.connectors.sql.findings import failed, warning
from anabranch.connectors.sql.loops import loop
from anabranch.model.checks import CheckResult
from anabranch.model.markers import SCHEMA, TABLES
from anabranch.model.writers import SourceWriter, led_back

# https://www.postgresql.org/docs/current/functions-info.html#FUNCTIONS-INFO-CONTROLDATA: a standby has its primary's
MAY_ASK = "SELECT has_function_privilege('pg_catalog.pg_control_system()', 'EXECUTE')"
SYSTEM = "SELECT system_identifier::text FROM pg_catalog.pg_control_system()"


def check_writable(live: Live) -> Iterator[CheckResult]:
    if live.true("SELECT pg_is_in_recovery()"):
        yield failed("writable", f"the target is a standby{_whose(live)}: nothing can be written to it", PRIMARY)
    elif live.true("SELECT current_setting('default_transaction_read_only')::bool"):
        yield failed("writable", "the target is read-only", "point the job at the primary")


KEY = 8  # so many digits of a job's uuid are at the end of the name of its slot
PRIMARY = "point the job at a server that is a primary of its own, and no replica of the source"


def _whose(live: Live) -> str:
    system = live.context.source_identity.partition(":")[0]
    is_same = system and live.true(MAY_ASK) and str(one(live.connection, SYSTEM)) == system
    return " of the source" if is_same else ""


def check_loops(live: Live) -> Iterator[CheckResult]:
    """Check for loops: changes that the job brings here, and another writer brings back to the tables that they were
    read from.
    """
    ours = {table.source: table.target for table in live.context.targets.values()}
    for writer in live.context.writers:
        if live.context.source_name.endswith(
            f"_{writer.key[:KEY]}"
        ):  # what this job has written comes round to its source
            tables = sorted(led_back({source: source for source in ours}, writer.pairs))
        else:
            tables = sorted(led_back(ours, writer.pairs))
            tables = tables if tables and reads_here(live.connection, writer) else []
        if tables and (found := loop(live.context, writer, tables) or _unmarked(live, writer)):
            yield failed("loop", *found, names=map(str, tables))


def _unmarked(live: Live, writer: SourceWriter) -> tuple[str, str] | None:
    """Return message and hint for a job that leaves ours out, and whose publication here does not show it what is ours."""
    publication = unmarked(live.connection, writer)
    if not publication or writer.through:
        return None
    tables = ", ".join(f"ONLY {SCHEMA}.{table}" for table in TABLES)
    hint = f"anabranch setup JOB --execute for it, or ALTER PUBLICATION {publication} ADD TABLE {tables}; then start it again"
    return f"{writer.name} cannot see which transactions are this job's: {publication} lacks {SCHEMA}'s tables", hint


def check_subscriptions(live: Live) -> Iterator[CheckResult]:
    """Check for subscriptions that write the same rows, if the publisher is the source; only superusers see which one it is."""
    targets = {table.target: table for table in live.context.targets.values()}
    say = warning if live.context.user_choices.get("load.existing") == "keep" else failed
    for subscription in subscriptions(live.connection):
        for _, written in subscription.pairs:
            if table := targets.get(written):
                message = f"{subscription.name} writes to {written}, too: the target is a logical replica"
                hint = f'ALTER SUBSCRIPTION "{subscription.name.removeprefix(PREFIX)}" DISABLE, or choose another target name'
                yield say("subscription", message, hint, table)


PREFIX = "the subscription "
