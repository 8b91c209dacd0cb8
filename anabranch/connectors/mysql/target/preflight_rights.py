"""Rights that a job needs of the target's user: each missing one with the GRANT that gives it.

What does not live here: reading grants (`mysql/rights.py`). https://dev.mysql.com/doc/refman/8.0/en/privileges-provided.html
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from anabranch.connectors.mysql.registered import STATE
from anabranch.connectors.mysql.rights import TO_WRITE, as_pattern, grant
from anabranch.connectors.mysql.target import migrate, progress_view
from anabranch.connectors.mysql.target.preflight_cluster import kind
from anabranch.connectors.mysql.target.preflight_facts import Live
from anabranch.connectors.sql.findings import failed, ok, some
from anabranch.errors import StateError
from anabranch.model.checks import CheckResult
from anabranch.model.ids import TableId

OF_STATE = tuple(migrate.RIGHTS.split(", "))
EXBASE = "compat.exbase"  # in PreflightContext.user_choices
TRUNCATE, LOCKS = "truncate", "LOCK TABLES"  # [apply] truncate, and what it needs besides (emptying.py)


def check_rights(live: Live) -> Iterator[CheckResult]:
    """Check the rights on every database that tables go to; they hold for tables that the job has yet to make, too."""
    found = list(_missing(live))
    yield from found or [ok("rights", f"{live.user} has every right that the job needs")]


def check_state(live: Live) -> Iterator[CheckResult]:
    """Check the database in which jobs keep their state: the rights on it, and the release that made it."""
    lacking = _lacking(live, OF_STATE, [TableId(STATE, "checkpoint")])
    if lacking:
        hint = grant(", ".join(OF_STATE), f"`{STATE}`.*", live.user)
        yield failed("state", f"{live.user} lacks {', '.join(lacking)} on the database {STATE}", hint)
    elif migrate.is_there(live.connection):
        try:
            coming = ", ".join(map(str, migrate.pending(live.connection, migrate.shipped())))
        except StateError as error:
            yield failed("state", error.message, error.hint)
            return
        if coming:
            yield ok("state", f"the first start brings the database {STATE} to this release: {coming}")


def check_progress_view(live: Live) -> Iterator[CheckResult]:
    """Check that `kafkaoffset` can be made in the user's own database, where the job file asks for it."""
    if live.context.user_choices.get(EXBASE) != "true":
        return
    schema, found = progress_view.own_database(live.connection), progress_view.is_shown(live.connection)
    lacking = _lacking(live, progress_view.RIGHTS, [TableId(schema, progress_view.NAME)])
    if lacking and not found:
        hint = grant(", ".join(progress_view.RIGHTS), f"{as_pattern(schema)}.*", live.user)
        yield failed("compat", f"{live.user} lacks {', '.join(lacking)} on the database {schema}", hint)
    elif found is None:
        yield failed("compat", *progress_view.taken(live.connection))
    else:
        yield ok("compat", f"{schema}.{progress_view.NAME} shows the progress of jobs")


def check_truncate(live: Live) -> Iterator[CheckResult]:
    """Check what a TRUNCATE needs, where the job asks for it: a lock that holds the checkpoint where it is meanwhile."""
    if live.context.user_choices.get("apply.truncate") != TRUNCATE:
        return
    other = 'leave [apply] truncate out, or set it to "delete"'
    if of := kind(live.variables):
        yield failed(
            "truncate", f"{of} locks tables on one node only: another node may run the job at the same time", other
        )
        return
    targets = [table.target for table in live.context.targets.values() if table.target.schema != STATE]
    for schema in sorted({STATE, *(target.schema for target in targets)}):
        tables = [target for target in targets if target.schema == schema] or [TableId(STATE, "checkpoint")]
        if _lacking(live, [LOCKS], tables):
            hint = grant(LOCKS, f"{as_pattern(schema)}.*", live.user)
            yield failed("truncate", f"{live.user} lacks {LOCKS} on the database {schema}, which TRUNCATE needs", hint)


def _missing(live: Live) -> Iterator[CheckResult]:
    targets = [table.target for table in live.context.targets.values() if table.target.schema != STATE]
    for schema in sorted({target.schema for target in targets}):
        tables = [target for target in targets if target.schema == schema]
        if lacking := _lacking(live, TO_WRITE, tables):
            hint = grant(", ".join(TO_WRITE), f"{as_pattern(schema)}.*", live.user)
            text = f"{live.user} lacks {', '.join(lacking)} on tables of {schema} ({some(map(str, tables))})"
            yield failed("rights", text, hint, names=map(str, tables))


def _lacking(live: Live, wanted: Iterable[str], tables: list[TableId]) -> list[str]:
    return [right for right in wanted if not all(live.rights.has(right, table) for table in tables)]
