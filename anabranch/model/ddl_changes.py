"""Statements of the source that alter tables, and what became of them, as a target notes it (`anabranch.ddl`).

What does not live here: differences between two definitions (`schema_changes.py`), deciding (capture, apply), keeping it
(`EpochState.note_ddl`, `Journal.ddl_changes`).
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from anabranch.model.ids import TableId

if TYPE_CHECKING:
    from anabranch.model.schema import TableSchema


class Outcome(StrEnum):
    """ALTERED: the target's table has the next definition, and goes on. CREATED: the target has the table, which streams.
    PARKED: the table is parked there. PASSED: nothing was done, since the table did not stream then. FORGOTTEN: the table was
    dropped, and the target had no rows of it. STOPPED, of a plan alone: the job would stop there.
    WAITING: the table stands in front of it until a person decides. DROPPED: the target's table was dropped, too. KEPT: it was
    dropped at the source, and the target's table stands there, under its own name or another, and is not replicated.
    RENAMED: the table goes on under its next name. IGNORED: the table goes on, and the target's stays as it is."""

    ALTERED = "altered"
    CREATED = "created"
    PARKED = "parked"
    PASSED = "passed"
    FORGOTTEN = "forgotten"
    STOPPED = "stopped"
    WAITING = "waiting"
    DROPPED = "dropped"
    KEPT = "kept"
    RENAMED = "renamed"
    IGNORED = "ignored"


@dataclass(frozen=True, slots=True)
class DdlRule:
    """The key of the job file that says what becomes of a statement, and what it says. `setting` "": there is no such key, or
    none that lets the table go on."""

    setting: str
    action: str


PARKS = DdlRule("", "park")


@dataclass(frozen=True, slots=True)
class DdlChange:
    """A transaction of the source that alters a table, and what became of it at a target.

    `statement` is the source's, as people may see it, "" where its log has none. `sequence`, `position`: the transaction,
    `position` "" where the trail had it no longer; `commit_time` by the source's clock, microseconds since 1970 UTC, 0 where
    that is not known. `source_user`: who altered it at the source, None where the log does not say. `why`: for people, ""
    where all was done. `version` and `digest` are those of the source's definition that the target's table has afterwards, 0
    and "" where it has none. `by`: user and host of the process that did it. `number` and `noted_at` are given by the target,
    the time by its clock. `gtid`: the transaction's name at the source, which is not kept.
    """

    sequence: int
    position: str
    commit_time: int
    source: TableId
    target: TableId
    statement: str
    rule: DdlRule
    outcome: Outcome
    why: str = ""
    version: int = 0
    digest: str = ""
    by: str = ""
    source_user: str | None = None
    number: int = 0
    noted_at: int = 0
    gtid: str | None = None


def digest_of(schema: TableSchema | None) -> str:
    """Return the digest of a definition, whatever its version and the numbers that its database gave to it: 32 digits, equal
    where all of it is equal; "" of none."""
    if schema is None:
        return ""
    columns = tuple(replace(column, number=0, left_out=False) for column in schema.columns)
    checks = tuple(replace(check, left_out=False) for check in schema.checks)
    same = replace(schema, columns=columns, checks=checks, numbers=0, file=0, oid=0)
    facts = {name: value for name, value in same.to_json().items() if name != "version"}
    text = json.dumps(facts, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:32]
