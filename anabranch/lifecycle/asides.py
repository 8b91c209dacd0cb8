"""Rows that are set aside: the list of them, and requests to release or discard some. Apply carries the requests out,
because nobody else changes rows.

What does not live here: setting aside, releasing and discarding (apply).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from anabranch.errors import ConfigError
from anabranch.model.ids import TableId
from anabranch.rows.aside import AsideChange
from anabranch.view.opened import store_of

if TYPE_CHECKING:
    from anabranch.view.job_view import JobView

LS = "anabranch parked ls JOB lists them"


def set_aside(job: JobView, table: TableId | None = None, discarded: bool = False) -> list[AsideChange]:
    """Return the changes that wait, in order, of one source table or all; or those discarded since the table's load."""
    with store_of(job) as store:
        return store.asides.set_aside(job.config.name, table, discarded) if store.exists() else []


def ask(job: JobView, table: TableId, wish: str, key: Mapping[str, str], number: int | None) -> list[AsideChange]:
    """Ask for RELEASE or DISCARD of rows of a table: the row with this key, the row that change `number` belongs to, or
    all. All changes that wait for a row go together. Returns them. Raises ConfigError where there is no such row."""
    with store_of(job) as store:
        waiting = store.asides.set_aside(job.config.name, table) if store.exists() else []
        found = [change for change in waiting if _is_meant(change, waiting, key, number)]
        if not found:
            raise ConfigError(_missing(table, waiting, key, number), job=job.config.name, hint=LS)
        if store.asides.wish(job.config.name, [change.number for change in found], wish) != len(found):
            raise ConfigError(f"rows of {table} were settled meanwhile", job=job.config.name, hint=LS)
    return found


def _is_meant(change: AsideChange, waiting: Sequence[AsideChange], key: Mapping[str, str], number: int | None) -> bool:
    if number is not None:
        return any(one.number == number and one.key == change.key for one in waiting)
    return not key or dict(change.key) == key


def _missing(table: TableId, waiting: Sequence[AsideChange], key: Mapping[str, str], number: int | None) -> str:
    if not waiting:
        return f"no row of {table} is set aside"
    names = list(waiting[0].key)
    if key and set(key) != set(names):
        return f"the key of {table} is {', '.join(names)}"
    what = f"number {number}" if number is not None else ", ".join(f"{name} = {value}" for name, value in key.items())
    return f"no row of {table} with {what} is set aside"
