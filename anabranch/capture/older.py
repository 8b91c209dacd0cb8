"""Transactions that were prepared before a trail begins: their rows stand before it in the log, and nobody has them (K6)."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from anabranch.abc import SourceCatalog
from anabranch.errors import SourceError
from anabranch.model.position import LogMark
from anabranch.trail.writer import TrailWriter

PATIENCE = 120.0  # seconds, unless the job says otherwise
ASK_SECONDS = 0.2
END_THEM = "end them at the source (MySQL, MariaDB: XA RECOVER lists them, XA COMMIT or XA ROLLBACK ends one)"


@dataclass(frozen=True)
class Patience:
    """How long a beginning trail waits for prepared transactions that are older; who is told, and may end it."""

    seconds: float
    stop: Callable[[], bool] = lambda: False
    tell: Callable[[str], None] = lambda why: None


def wait_for_older(catalog: SourceCatalog, trail: TrailWriter, start: LogMark, patience: Patience) -> bool:
    """Before a trail begins at `start`: whatever is prepared now, its rows stand before it in the log. A load that takes
    its snapshot after they have ended has them; their commits behind `start` say nothing new. False: stopped meanwhile.

    Raises SourceError when they do not end in time."""
    for one in trail.staging.all():  # noted by a start that did not come to its end
        trail.staging.remove(one.xid)
    older = catalog.prepared()
    for xid in older:
        trail.staging.prepare(xid, start, is_older=True)
    until = time.monotonic() + patience.seconds
    told: frozenset[str] = frozenset()
    while left := older & catalog.prepared():
        if left != told:
            told = left
            patience.tell(f"{len(left)} prepared transactions to end: {_shown(left)}")
        if patience.stop():
            return False
        if time.monotonic() > until:
            raise SourceError(
                f"{len(left)} transactions are prepared and undecided, and older than the log that is to be read: "
                f"{_shown(left)}; they did not end in {patience.seconds:g} s",
                hint=f"{END_THEM}, start again; [capture] staging_timeout_s says how long to wait",
            )
        time.sleep(ASK_SECONDS)
    return True


def _shown(xids: frozenset[str]) -> str:
    first = sorted(xids)[:5]
    return ", ".join(first) + (", …" if len(xids) > len(first) else "")
