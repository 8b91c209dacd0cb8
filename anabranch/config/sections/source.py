"""`[source]` of the job file."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field

from anabranch.config.section import Section, refuse
from anabranch.config.values import OwnOptions, SourceUrl
from anabranch.databases import Options
from anabranch.errors import Problem
from anabranch.model.markers import JOB_NAME, PREFIX

_LIKE_A_JOB = rf"{PREFIX[:-1]}\s*[:./= ]\s*({JOB_NAME})"


def _origin(text: str) -> str:
    job = text.removeprefix(PREFIX)
    expected = f'"{PREFIX}NAME" for what the job NAME has written, or an origin that the log names'
    if not text.strip() or text != text.strip():
        raise refuse(Problem(f"{text!r} names no origin", expected=expected))
    if text.startswith(PREFIX) and not re.fullmatch(JOB_NAME, job):
        raise refuse(Problem(f"{job!r} cannot be a job's name", expected=expected))
    if not text.startswith(PREFIX) and (found := re.fullmatch(_LIKE_A_JOB, text, re.IGNORECASE)):
        raise refuse(Problem(f"{text!r} names no origin", expected=expected, nearest=f"{PREFIX}{found[1]}"))
    return text


class Source(Section):
    """The database that is read."""

    endpoint: SourceUrl = Field(alias="url")
    """`mysql://` or `mariadb://user:${PASSWORD}@host:port`, `postgresql://user:${PASSWORD}@host:port/database`. `${NAME}` is
    an environment variable, put in after the URL is cut into parts and taken literally. Options go into the query: `ssl_ca`,
    `ssl_cert`, `ssl_key`, `ssl_mode`, `unix_socket`. A server and its standbys stand in it as `host:port,host:port`
    ([more](../howto/several-servers.md))."""
    leave_out: list[Annotated[str, AfterValidator(_origin)]] = []
    """Origins whose transactions are not replicated: `"anabranch:NAME"` for what the job NAME writes to this source, so that
    two jobs may go opposite ways between the same tables ([both ways](../howto/replicate-both-ways.md)). Also origins that
    the log itself names: a replication origin of PostgreSQL (with `pgoutput`), a `server_id` or the uuid of a GTID's source
    of MySQL and MariaDB. All others pass. It may be changed at any time; `capture` has to start again."""
    options: OwnOptions = Options()
    """Settings of the database that `url` names: `[source.options]`, below."""
