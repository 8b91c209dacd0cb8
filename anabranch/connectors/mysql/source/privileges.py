"""Rights of the source's user, and those that a job needs: each missing one with the GRANT that gives it.

Rights are read from SHOW GRANTS, which also shows those of active roles.
https://dev.mysql.com/doc/refman/8.0/en/show-grants.html · https://mariadb.com/kb/en/show-grants/ What does not live
here: settings of the server (`preflight.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from anabranch.connectors.mysql.source.chunks import qualified
from anabranch.connectors.mysql.source.expressions import name
from anabranch.connectors.mysql.source.watermark import SCHEMA as WATERMARK
from anabranch.model.checks import CheckResult, CheckVerdict
from anabranch.model.ids import TableId

ALL = "ALL PRIVILEGES"
LONGEST_NAME = 64  # https://dev.mysql.com/doc/refman/8.0/en/identifier-length.html
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

_GRANT = re.compile(r"(GRANT|REVOKE) (.+) ON (?:TABLE )?(\S.*?) (?:TO|FROM) (.+)", re.DOTALL)
_PLACE = re.compile(r"(\*|`(?:[^`]|``)*`)\.(\*|`(?:[^`]|``)*`)")
_COLUMNS = re.compile(r"[A-Z ]+ \([^)]*\)")  # a right on some columns is not the right on the table


@dataclass(frozen=True, slots=True)
class Grant:
    """Rights on `*.*`, on a schema (a pattern) or on a table."""

    rights: frozenset[str]
    schema: str
    table: str
    is_taken: bool = False  # MySQL 8: a partial revoke

    def covers(self, right: str, table: TableId | None) -> bool:
        if not self.rights & {right, ALL}:
            return False
        if self.schema == "*" or table is None:
            return self.schema == "*"
        return _like(self.schema, table.schema) and self.table in ("*", table.name)


class Rights:
    """All grants of one user."""

    def __init__(self, lines: Sequence[str]) -> None:
        parsed = [grant for line in lines if (grant := parse(line))]
        self._given = [grant for grant in parsed if not grant.is_taken]
        self._taken = [grant for grant in parsed if grant.is_taken]

    def has(self, right: str, table: TableId | None = None) -> bool:
        """Return whether the right is there globally, or on `table`."""
        if any(grant.covers(right, table) for grant in self._taken):
            return any(g.schema != "*" and g.covers(right, table) for g in self._given)
        return any(grant.covers(right, table) for grant in self._given)

    def has_any(self, rights: Sequence[str], table: TableId | None = None) -> bool:
        return any(self.has(right, table) for right in rights)


def parse(line: str) -> Grant | None:
    """Return a line of SHOW GRANTS; None for one that gives no right on tables (roles, proxies, routines)."""
    found = _GRANT.match(line)
    place = _PLACE.fullmatch(found[3]) if found else None
    if found is None or place is None:
        return None
    rights = frozenset(part.strip() for part in _COLUMNS.sub("", found[2]).split(",") if part.strip())
    return Grant(rights, _bare(place[1]), _bare(place[2]), is_taken=found[1] == "REVOKE")


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


def grant(right: str, place: str, user: str) -> str:
    """Return the statement that gives it."""
    return f"GRANT {right} ON {place} TO {user}"


def as_pattern(schema: str) -> str:
    """Write a schema's name for GRANT, which reads `_` and `%` as wildcards.

    Left as it is where it would grow too long: it matches itself too.
    """
    escaped = re.sub(r"([_%])", r"\\\1", schema)
    return name(escaped if len(escaped) <= LONGEST_NAME else schema)


def _like(pattern: str, schema: str) -> bool:
    parts = re.findall(r"\\.|.", pattern, re.DOTALL)
    regex = "".join({"%": ".*", "_": "."}.get(part, re.escape(part[-1])) for part in parts)
    return re.fullmatch(regex, schema, re.DOTALL) is not None


def _bare(quoted: str) -> str:
    return quoted[1:-1].replace("``", "`") if quoted.startswith("`") else quoted
