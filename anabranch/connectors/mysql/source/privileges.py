"""Rights that a job needs of the source's user: each missing one with the GRANT that gives it.

What does not live here: reading grants (`mysql/rights.py`), settings of the server (`preflight.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from anabranch.connectors.mysql.rights import Rights, as_pattern, grant
from anabranch.connectors.mysql.source.chunks import qualified
from anabranch.connectors.mysql.source.expressions import name
from anabranch.connectors.mysql.source.watermark import SCHEMA as WATERMARK
from anabranch.contracts import PreflightContext
from anabranch.model.checks import CheckResult, CheckVerdict
from anabranch.model.ids import TableId

# Any of these names is enough; the first is the one to grant.
# https://mariadb.com/kb/en/grant/#replication-client: MariaDB 10.5 gave rights finer names
GLOBAL_RIGHTS: dict[str, tuple[tuple[str, ...], ...]] = {
    "mysql": (("REPLICATION SLAVE",), ("REPLICATION CLIENT",)),
    "mariadb": (("REPLICATION SLAVE",), ("BINLOG MONITOR", "REPLICATION CLIENT")),
}
# https://dev.mysql.com/doc/refman/8.0/en/flush.html
LOCK_RIGHTS = {"global": ("RELOAD", "FLUSH_TABLES"), "table": ("LOCK TABLES",)}
TEMPORARY_TABLES = "CREATE TEMPORARY TABLES"
WATERMARK_RIGHTS = ("CREATE", "SELECT", "INSERT", "DELETE")


def missing(rights: Rights, family: str, user: str, tables: Sequence[TableId], needs: Needs) -> Iterator[CheckResult]:
    """Yield one result per right that is not there."""
    wanted = [*GLOBAL_RIGHTS[family]]
    if needs.lock == "global":
        wanted.append(LOCK_RIGHTS["global"])
    for names in wanted:
        if not rights.has_any(names):
            yield _absent(names[0], "*.*", user)
    per_table = ["SELECT", *(LOCK_RIGHTS["table"] if needs.lock == "table" else ())]
    for right in per_table:
        lacking = [table for table in tables if not rights.has(right, table)]
        if lacking:
            yield from (_absent(right, place, user) for place in _places(lacking, right))
    if needs.watermark:
        marker = TableId(WATERMARK, "watermark")
        absent = [right for right in WATERMARK_RIGHTS if not rights.has(right, marker)]
        if absent:
            yield _absent(", ".join(WATERMARK_RIGHTS), f"{name(WATERMARK)}.*", user)


def unseen(rights: Rights, user: str, context: PreflightContext) -> Iterator[CheckResult]:
    """Yield a result per place that a rule includes and of which this user is shown no table, because it lacks a right there.

    A server lists the tables only that a user has some right on, so that a missing one looks as if nothing was there. It fails
    where the job has no table at all; else the place may be one that is not there yet.
    https://dev.mysql.com/doc/refman/8.0/en/information-schema-introduction.html"""
    for place in context.unseen:
        if rights.has("SELECT", place):
            continue
        where = f"{as_pattern(place.schema)}.*" if place.name == "*" else qualified(place)
        why = (
            f"{user} lacks SELECT on {where}, so that the server shows it no table of what [[rules]] include has there"
        )
        verdict = CheckVerdict.WARNING if context.tables or context.waiting else CheckVerdict.FAILED
        yield CheckResult("source.grants", verdict, why, grant("SELECT", where, user))


def unseen_triggers(rights: Rights, user: str, tables: Sequence[TableId]) -> Iterator[CheckResult]:
    """Yield what a user may not see: triggers of tables on which it lacks TRIGGER. The job does not need them.
    https://dev.mysql.com/doc/refman/8.0/en/information-schema-triggers-table.html"""
    if lacking := [table for table in tables if not rights.has("TRIGGER", table)]:
        places = [f"{as_pattern(schema)}.*" for schema in sorted({table.schema for table in lacking})]
        why = (
            f"whether {len(lacking)} tables have triggers is not known: {user} lacks TRIGGER on them, and is shown none"
        )
        shows = "; ".join(grant("TRIGGER", place, user) for place in places)
        yield CheckResult("source.triggers", CheckVerdict.OK, f"{why} ({shows})")


@dataclass(frozen=True, slots=True)
class Needs:
    """The job's work at the source beyond reading the log and the tables."""

    lock: str  # [load] lock, where it is used
    watermark: bool


def _places(lacking: Sequence[TableId], right: str) -> list[str]:
    """Return single tables while they are few; LOCK TABLES can be given for a schema only."""
    if right == "SELECT" and len(lacking) <= 5:
        return [qualified(table) for table in lacking]
    return [f"{as_pattern(schema)}.*" for schema in sorted({table.schema for table in lacking})]


def _absent(right: str, place: str, user: str) -> CheckResult:
    return CheckResult(
        "source.grants", CheckVerdict.FAILED, f"{user} lacks {right} on {place}", grant(right, place, user)
    )
