"""Options of a MySQL or MariaDB as a target: `[target.options]` of the job file. No driver is imported here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from anabranch.databases import Options, whole_number


@dataclass(frozen=True)
class MysqlTargetOptions(Options):
    NEEDS_LOAD: ClassVar[frozenset[str]] = frozenset(("json", "uuid", "instant", "computed", "arrays", "composites"))

    json: Literal["json", "text"] = "json"
    """The type for JSON: the server's own, or `longtext` with the source's text. MariaDB's own keeps the text, too."""
    uuid: Literal["char", "binary", "native"] = "char"
    """The type for UUIDs of other databases: `char(36)`, `binary(16)`, or MariaDB's own, which refuses some
    ([types](types-at-mysql.md)) and which MySQL does not have: there `"native"` is `char(36)`."""
    instant: Literal["fitting", "timestamp", "datetime"] = "fitting"
    """The type for instants: `timestamp` for those of MySQL and MariaDB, which have its range, and `datetime` in UTC for all
    others; or one of the two for every instant. What is outside of `timestamp` (1970 to 2038) stops the job."""
    arrays: Literal["text", "json"] = "text"
    """Arrays of a PostgreSQL: the text that it prints, or JSON in a `longtext`, with numbers and booleans as JSON's own and all
    other elements as texts; in keys always the text ([types](types-at-mysql.md#arrays)). JSON makes each row slower, and
    verification reads such tables row by row."""
    composites: Literal["text", "json"] = "text"
    """Values of a PostgreSQL's composite types: the text that it prints, or JSON in a `longtext`, an object with the names of
    the fields; otherwise as `arrays` ([types](types-at-mysql.md#composites))."""
    computed: Literal["computed", "values"] = "computed"
    """Generated columns of MySQL and MariaDB whose expression gives the same value here ([which](types-at-mysql.md)): computed
    here, too, or plain columns with the source's values, as all others are."""
    sql_log_bin: bool = True
    """`false` keeps what the job writes out of this server's own binary log, so that its replicas, and a restore by that log,
    do not have it: for copies that are thrown away, as [a drill](../howto/fail-back-drill.md) makes them. It needs a right
    (`SESSION_VARIABLES_ADMIN`, MariaDB: `BINLOG ADMIN`)."""
    retain_changes_hours: int = whole_number(72, 0)
    """How long a target [that keeps changes](../howto/change-tables.md) has each of them, in hours for which apply has run
    since; 0 for ever. A target that keeps rows has no use for it."""
    heartbeat_s: int = whole_number(300, 0)
    """Seconds between two notes of the time at a target [that keeps changes](../howto/change-tables.md), while the source has
    none; 0: none. A target that keeps rows has no use for it."""


USUAL = MysqlTargetOptions()
UNLOGGED = ("sql_log_bin", "0")  # among the options of an endpoint: its sessions do not log what they write
