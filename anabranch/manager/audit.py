"""The list of what people and programs did with the manager: who, from where, when, what it was before and after.

Only added to. What does not live here: a job's own trace (`state/trace.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from anabranch.failpoints import reach
from anabranch.manager.callers import Caller
from anabranch.manager.store import ManagerStore, now


@dataclass(frozen=True)
class Entry:
    """One action. `before` and `after`: text, None where there is none; secrets never stand in them."""

    id: int
    at: str
    who: str
    how: str
    place: str
    action: str
    job: str | None
    before: str | None
    after: str | None


class Audit:
    """The audit of one manager."""

    def __init__(self, store: ManagerStore) -> None:
        self._store = store

    def together(self) -> AbstractContextManager[object]:
        """Open the transaction for an action and its entry: what a kill leaves of them is both or nothing."""
        return self._store.writing()

    def note(
        self, caller: Caller, action: str, job: str | None = None, before: str | None = None, after: str | None = None
    ) -> None:
        """Add an entry; durable when this returns, or with the transaction around it, which has what was done. `action`: a word
        in snake_case."""
        reach("manager.audit")
        values = (now(), caller.name, caller.how, caller.place, action, job, before, after)
        with self._store.writing() as connection:
            connection.execute(
                "INSERT INTO audit (at, who, how, place, action, job, before, after) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                values,
            )

    def entries(self, limit: int = 100, before: int | None = None, job: str | None = None) -> Sequence[Entry]:
        """Return entries, the newest first; those older than the entry `before`, of one job or of all."""
        where = [*(["id < :before"] if before is not None else []), *(["job = :job"] if job is not None else [])]
        condition = f"WHERE {' AND '.join(where)}" if where else ""
        query = f"SELECT * FROM audit {condition} ORDER BY id DESC LIMIT :limit"
        return [Entry(**row) for row in self._store.rows(query, {"limit": limit, "before": before, "job": job})]
