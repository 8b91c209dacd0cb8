"""Rights of an account as SHOW GRANTS tells them, those of active roles among them, and the GRANT that gives one.

https://dev.mysql.com/doc/refman/8.0/en/show-grants.html · https://mariadb.com/kb/en/show-grants/ What does not live
here: which rights a role needs (its preflight).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from anabranch.model.ids import TableId

ALL = "ALL PRIVILEGES"
LONGEST_NAME = 64  # https://dev.mysql.com/doc/refman/8.0/en/identifier-length.html

# Since which release it has a name of its own; before it is SUPER.
LOG_RIGHTS = {"mysql": ((8, 0, 14), "SESSION_VARIABLES_ADMIN"), "mariadb": ((10, 5, 2), "BINLOG ADMIN")}
TO_GIVE = "GRANT OPTION"  # to others, what one has; no part of all rights
ROUTINES = ("CREATE ROUTINE", "ALTER ROUTINE")  # what a target that keeps changes needs besides
# Of whoever writes to tables of a database. TRIGGER: without it nobody sees what fires for rows that we write. TEMPORARY: rows
# of an epoch wait in tables of the session.
TO_WRITE = (
    "SELECT", "INSERT", "UPDATE", "DELETE", "CREATE", "DROP", "ALTER", "INDEX", "REFERENCES", "TRIGGER",
    "CREATE TEMPORARY TABLES",
)  # fmt: skip

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
        if not self.rights & ({right} if right == TO_GIVE else {right, ALL}):
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
    if " WITH " in found[4] and TO_GIVE in found[4]:
        rights |= {TO_GIVE}
    return Grant(rights, _bare(place[1]), _bare(place[2]), is_taken=found[1] == "REVOKE")


def grant(right: str, place: str, user: str) -> str:
    """Return the statement that gives it."""
    return f"GRANT {right} ON {place} TO {user}"


def log_right(family: str, version: tuple[int, int, int]) -> str:
    """Return the right to keep a session's writes out of the log.

    https://dev.mysql.com/doc/refman/8.0/en/set-sql-log-bin.html · https://mariadb.com/kb/en/set-sql_log_bin/"""
    since, right = LOG_RIGHTS[family]
    return right if version >= since else "SUPER"


def as_pattern(schema: str) -> str:
    """Write a schema's name for GRANT, which reads `_` and `%` as wildcards.

    Left as it is where it would grow too long: it matches itself too.
    """
    escaped = re.sub(r"([_%])", r"\\\1", schema)
    pattern = escaped if len(escaped) <= LONGEST_NAME else schema
    return "`" + pattern.replace("`", "``") + "`"


def _like(pattern: str, schema: str) -> bool:
    parts = re.findall(r"\\.|.", pattern, re.DOTALL)
    regex = "".join({"%": ".*", "_": "."}.get(part, re.escape(part[-1])) for part in parts)
    return re.fullmatch(regex, schema, re.DOTALL) is not None


def _bare(quoted: str) -> str:
    return quoted[1:-1].replace("``", "`") if quoted.startswith("`") else quoted
