"""Options of a MySQL or MariaDB as a target: `[target.options]` of the job file. No driver is imported here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from anabranch.databases import Options


@dataclass(frozen=True)
class MysqlTargetOptions(Options):
    NEEDS_LOAD: ClassVar[frozenset[str]] = frozenset(("json", "uuid", "instant"))

    json: Literal["json", "text"] = "json"
    """The type for JSON: the server's own, or `longtext` with the source's text. MariaDB's own keeps the text, too."""
    uuid: Literal["native", "char", "binary"] = "native"
    """The type for UUIDs: MariaDB's own and `char(36)` in MySQL, `char(36)` in both, or `binary(16)` in both."""
    instant: Literal["fitting", "timestamp", "datetime"] = "fitting"
    """The type for instants: `timestamp` for those of MySQL and MariaDB, which have its range, and `datetime` in UTC for all
    others; or one of the two for every instant. What is outside of `timestamp` (1970 to 2038) stops the job."""


USUAL = MysqlTargetOptions()
