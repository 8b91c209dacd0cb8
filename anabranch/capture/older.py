"""Transactions whose rows stand in the log before a trail begins, and that a load would not find in the tables yet: logged
and not visible (K2), or prepared (K6)."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from anabranch.contracts import SourceCatalog
from anabranch.errors import SourceError
from anabranch.model.position import LogMark
from anabranch.trail.writer import TrailWriter

PATIENCE = 120.0  # seconds, unless the job says otherwise
ASK_SECONDS = 0.2
END_THEM = "end them at the source (MySQL, MariaDB: XA RECOVER lists them, XA COMMIT or XA ROLLBACK ends one)"


@dataclass(frozen=True)
class OlderPatience:
    """Limits of a beginning trail's wait for older prepared transactions: how long, who is told, who may end it."""

    seconds: float
    stop: Callable[[], bool] = lambda: False
    tell: Callable[[str], None] = lambda why: None


def wait_for_engine(catalog: SourceCatalog, start: LogMark, patience: OlderPatience) -> bool:
    """Wait until new snapshots show everything that is logged before `start`, where a trail begins (K2).

    Returns False if stopped meanwhile. Raises SourceError when commits hang.
    """
    return _gone(
        catalog.transactions.unseen(start),
        lambda: catalog.transactions.unseen(start),
        patience,
        "commits that are logged and not visible",
        "transactions are logged before the place where the trail is to begin, and their commit has not ended",
        "at the source a replica that answers semi-synchronous replication may be missing; where one applies a long "
        "transaction, wait for its end; start again",
    )


def wait_for_older(
    catalog: SourceCatalog, trail: TrailWriter, start: LogMark, older: frozenset[str], patience: OlderPatience
) -> bool:
    """Wait until the transactions in `older`, and those prepared now, have ended, before a trail begins at `start`
    (K6).

    Their rows stand before `start` in the log. A load that takes its snapshot after they ended has them, so their
    commits behind `start` add nothing. Returns False if stopped meanwhile. Raises SourceError when they do not end in
    time.
    """
    for one in trail.staging.all():  # noted by a start that did not come to its end
        trail.staging.remove(one.xid)
    older |= catalog.transactions.prepared() or frozenset()
    for xid in older:
        trail.staging.prepare(xid, start, is_older=True)
    return _gone(
        older,
        lambda: catalog.transactions.prepared() or frozenset(),
        patience,
        "prepared transactions to end",
        "transactions are prepared and undecided, and older than the log that is to be read",
        f"{END_THEM}, start again",
    )


def _gone(
    first: frozenset[str],
    now: Callable[[], frozenset[str]],
    patience: OlderPatience,
    shown: str,
    reason: str,
    remedy: str,
) -> bool:
    """Wait until none of the `first` is there any more."""
    until = time.monotonic() + patience.seconds
    told: frozenset[str] = frozenset()
    while left := first & now():
        if left != told:
            told = left
            patience.tell(f"{len(left)} {shown}: {_shown(left)}")
        if patience.stop():
            return False
        if time.monotonic() > until:
            raise SourceError(
                f"{len(left)} {reason}: {_shown(left)}; they did not end in {patience.seconds:g} s",
                hint=f"{remedy}; [capture] staging_timeout_s says how long to wait",
            )
        time.sleep(ASK_SECONDS)
    return True


def _shown(xids: frozenset[str]) -> str:
    first = sorted(xids)[:5]
    return ", ".join(first) + (", …" if len(xids) > len(first) else "")
