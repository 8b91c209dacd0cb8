"""Options of a MySQL or MariaDB as a source: `[source.options]` of the job file. No driver is imported here."""

from __future__ import annotations

from dataclasses import dataclass

from anabranch.databases import Options, whole_number


@dataclass(frozen=True)
class MysqlSourceOptions(Options):
    server_id: int | None = whole_number(None, 1, 4294967295)
    """The replica id shown to the source; derived from the job when absent."""


USUAL = MysqlSourceOptions()
