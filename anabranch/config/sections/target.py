"""`[target]` and `[[targets]]` of the job file.

What does not live here: what several targets must not share (`config/targets.py`).
"""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from anabranch.config.section import Section, refuse
from anabranch.config.values import OwnOptions, TargetUrl
from anabranch.databases import Options
from anabranch.errors import Problem

CHANGE_TABLES = "change_tables"  # a form
TARGET_NAME = r"[a-z][a-z0-9_-]{0,30}"


def _target_name(text: str) -> str:
    if not re.fullmatch(TARGET_NAME, text):
        expected = "1 to 31 small letters, digits, '_' or '-', beginning with a letter (it names a directory)"
        raise refuse(Problem(f"{text!r} cannot be a target's name", expected=expected))
    return text


class Target(Section):
    """The database that is written. A job of one target has this section, or one entry of `[[targets]]`."""

    endpoint: TargetUrl = Field(alias="url")
    """`postgresql://user:${PASSWORD}@host:port/database`, `mysql://` or `mariadb://user:${PASSWORD}@host:port`; variables and
    options as for the source. A MySQL or MariaDB is one target as a whole, however many databases tables go to."""
    options: OwnOptions = Options()
    """Settings of the database that `url` names: `[target.options]`, below."""
    form: Literal["rows", "change_tables"] = "rows"
    """Keep the tables as they are at the source, or each change as a row of a table of changes, as in SQL Server's change
    data capture ([more](../howto/change-tables.md)). A PostgreSQL, a MySQL and a MariaDB can keep changes."""


class NamedTarget(Section):
    """Databases that are written from one trail, each at its own pace. All other settings hold for every one of them."""

    name: Annotated[str, AfterValidator(_target_name)]
    """The name of it in commands and status: small letters, digits, `_`, `-`. `target` is the name of the one in `[target]`,
    beside which these may stand."""
    endpoint: TargetUrl = Field(alias="url")
    """As in `[target]`. A database of a PostgreSQL, or a server of MySQL or MariaDB, is one target of a job."""
    options: OwnOptions = Options()
    """As in `[target]`: `[targets.options]` below its entry."""
