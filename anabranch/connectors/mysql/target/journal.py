"""The notes for people at a MySQL target: `anabranch.conflict`, `anabranch.ddl`, `anabranch.skipped`,
`anabranch.trace`.

What does not live here: noting a conflict or a change of a definition, which an epoch does (`conflicts.py`, `ddl_notes.py`);
what is noted in a trace, and when it comes here (`job/shipping.py`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from anabranch.connectors.mysql.target import ddl_notes
from anabranch.connectors.mysql.target.jobs import add_once
from anabranch.connectors.mysql.target.session import Connection, ask, bound, run, transaction
from anabranch.connectors.mysql.target.state_session import StateSession
from anabranch.connectors.mysql.target.states import in_parts
from anabranch.model.ids import TableId
from anabranch.model.state import Skipped

if TYPE_CHECKING:
    from anabranch.model.ddl_changes import DdlChange
    from anabranch.rows.conflict import NotedConflict

CONFLICTS = """
SELECT `sequence`, `position`, `commit_time`, `source_table`, `target_table`, `key`, `operation`, `kind`, `policy`, `decision`,
       `before`, `after`, `found`, `number`, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', `noted_at`)
  FROM `anabranch`.`conflict` WHERE `job` = %s AND `number` > %s{} ORDER BY `number`{}
"""
FORGET_CONFLICTS = "DELETE FROM `anabranch`.`conflict` WHERE `job` = %s AND `number` <= %s"
SKIP = """
INSERT INTO `anabranch`.`skipped` (`job`, `sequence`, `position`, `commit_time`, `changes`) VALUES (%s, %s, %s, %s, %s)
"""
SKIPPED = """
SELECT `sequence`, `position`, `commit_time`, `changes`, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', `asked_at`)
  FROM `anabranch`.`skipped` WHERE `job` = %s ORDER BY `sequence`
"""
UNSKIP = "DELETE FROM `anabranch`.`skipped` WHERE `job` = %s AND `sequence` = %s"
HAS_JOB = "SELECT 1 FROM `anabranch`.`job` WHERE `job` = %s"
TEXTS = ("level", "event", "task", "host", "pid", "state", "sub_state", "code", "side", "message")
ENTRY = ", ".join(f"`{name}`" for name in TEXTS)
# Nobody waits for a trace: who locks the table gets it later. A second is the least that a server takes.
READ_WAITS = "SELECT @@lock_wait_timeout, @@innodb_lock_wait_timeout"
SET_WAITS = "SET SESSION lock_wait_timeout = %s, innodb_lock_wait_timeout = %s"
THERE = "SELECT `id` FROM `anabranch`.`trace` WHERE `job` = %s AND `id` IN ({}) FOR UPDATE"
ADD = f"INSERT INTO `anabranch`.`trace` (`job`, `id`, `at`, `facts`, {ENTRY}) VALUES (%s{', %s' * (3 + len(TEXTS))})"
FORGET = "DELETE FROM `anabranch`.`trace` WHERE `job` = %s AND `id` < %s"
TRACE = f"""
SELECT `id`, DATE_FORMAT(`at`, '%Y-%m-%dT%H:%i:%s.%fZ'), `facts`, {ENTRY} FROM `anabranch`.`trace`
 WHERE `job` = %s AND `id` >= %s ORDER BY `id`
"""


class MysqlJournal:
    """Journal of the target."""

    def __init__(self, session: StateSession) -> None:
        self._session = session

    def conflicts(self, job: str, table: TableId | None = None, after: int = 0, limit: int = 0) -> list[NotedConflict]:
        values: list[object] = [job, after, *([str(table)] if table else []), *([limit] if limit else [])]
        query = CONFLICTS.format(" AND `source_table` = %s" if table else "", " LIMIT %s" if limit else "")
        return [_conflict(row) for row in self._session.rows("read the conflicts", query, *values)]

    def forget_conflicts(self, job: str, upto: int) -> int:
        if not self._session.is_there():
            return 0
        return self._session.run("remove conflicts", FORGET_CONFLICTS, job, upto)

    def ddl_changes(self, job: str, table: TableId | None = None) -> list[DdlChange]:
        return ddl_notes.read(self._session, job, table)

    def skip(self, job: str, one: Skipped) -> None:
        row = [job, one.sequence, one.position, one.commit_time, json.dumps(dict(one.changes), ensure_ascii=False)]
        with self._session("note a transaction to leave out") as connection:
            add_once(connection, SKIP, row)

    def skipped(self, job: str) -> list[Skipped]:
        rows = self._session.rows("read the transactions to leave out", SKIPPED, job)
        return [Skipped(one, where, time, json.loads(changes), at) for one, where, time, changes, at in rows]

    def unskip(self, job: str, sequence: int) -> bool:
        return self._session.run("forget a transaction to leave out", UNSKIP, job, sequence) == 1

    def add_trace(self, job: str, entries: Sequence[Mapping[str, Any]], oldest: str) -> bool:
        if not self._session.rows("look for the job", HAS_JOB, job):
            return False
        with self._session("write the trace") as connection, _hardly_waiting(connection), transaction(connection):
            there = _there(connection, job, [str(entry["id"]) for entry in entries])
            new = {str(entry["id"]): entry for entry in entries if str(entry["id"]) not in there}
            connection.together([bound(connection, ADD, _entry(job, entry)) for entry in new.values()])
            run(connection, FORGET, job, oldest)
        return True

    def trace(self, job: str, first: str = "") -> list[dict[str, Any]]:
        return [_told(row) for row in self._session.rows("read the trace", TRACE, job, first)]


@contextmanager
def _hardly_waiting(connection: Connection) -> Iterator[None]:
    """Wait for locks as short as the server can, then as before."""
    before = ask(connection, READ_WAITS)[0]
    run(connection, SET_WAITS, 1, 1)
    try:
        yield
    finally:
        if connection.open:
            run(connection, SET_WAITS, *before)


def _there(connection: Connection, job: str, ids: Sequence[str]) -> set[str]:
    found: set[str] = set()
    for some in in_parts(ids):
        found.update(id for (id,) in ask(connection, THERE.format(", ".join(["%s"] * len(some))), job, *some))
    return found


def _entry(job: str, entry: Mapping[str, Any]) -> list[Any]:
    """Return the values of ADD. The server takes a point in time without its zone, which is UTC in every session of ours."""
    at = str(entry["at"]).removesuffix("Z").replace("T", " ")
    facts = None if entry.get("facts") is None else json.dumps(entry["facts"], ensure_ascii=False)
    return [job, str(entry["id"]), at, facts, *(entry.get(name) for name in TEXTS)]


def _told(row: tuple[Any, ...]) -> dict[str, Any]:
    """Return an entry in the form in which the home has it."""
    id, at, facts, *texts = row
    told = {name: value for name, value in zip(TEXTS, texts, strict=True) if value is not None}
    return {"id": id, "at": at, **told, **({} if facts is None else {"facts": json.loads(facts)})}


def _conflict(row: tuple[Any, ...]) -> NotedConflict:
    from anabranch.rows.conflict import (
        NotedConflict,
        OnConflict,
    )  # most who open a store have nothing to do with conflicts
    from anabranch.rows.net import Operation

    sequence, position, time, source, target, key, operation, kind, policy, decision, *rest = row
    before, after, found, number, at = rest
    return NotedConflict(
        sequence,
        position,
        time,
        TableId.parse(source),
        TableId.parse(target),
        json.loads(key),
        Operation(operation),
        kind,
        OnConflict(policy),
        decision,
        _images(before),
        _images(after),
        _images(found),
        number,
        at,
    )


def _images(text: str | None) -> dict[str, str | None] | None:
    return None if text is None else json.loads(text)
