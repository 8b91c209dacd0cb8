"""Asking the source's site for a table's rows, where the trail between has none that can be used.

The request lies in the trail that is read here; from a replica pumps take it back, hop by hop. Parcels and stores of objects
have no way back. What does not live here: the mailbox (trail/requests.py), the way back (trail/load_answers.py), who carries it
out (job/asked_loads.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from anabranch import log
from anabranch.errors import ValueRefused
from anabranch.model.condition import Waiting
from anabranch.trail import requests
from anabranch.trail.identity import IMPORTS, STORED
from anabranch.trail.storage import LocalStorage

if TYPE_CHECKING:
    from anabranch.lifecycle.copying import Watcher
    from anabranch.model.ids import TableId
    from anabranch.view.job_view import JobView

POLL_S = 0.2


def ask_for_load(job: JobView, table: TableId, why: ValueRefused, stop: Callable[[], bool], watcher: Watcher) -> bool:
    """Have the job that captures load a table again, and wait for it; return False where stopped before. `why`: what is wrong
    with what is there, raised where nobody can be asked. Raises ValueRefused where the other site refuses."""
    if not {IMPORTS, STORED}.isdisjoint(LocalStorage(job.trail).names()):
        raise why
    asked = requests.Asking(job.trail, table, requests.LOADS)
    log.get(job=job.config.name, table=str(table)).info("load_is_asked_for", why=why.message)
    there = f"for the load of {table} by the job that captures ({why.message})"
    watcher.waiting(f"{there}; if that does not run, start it: anabranch run JOB", Waiting.CAPTURE)
    while (answer := asked.answer()) is None:
        if stop():
            asked.withdraw()
            return False
        time.sleep(POLL_S)
    if answer.refusal:
        raise ValueRefused(
            answer.refusal, table=str(table), hint=f"look at it there: anabranch load JOB --table {table.typed}"
        )
    return True
