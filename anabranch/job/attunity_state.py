"""Put a job's status into the words of Attunity's tables: its states, its places, the transactions that wait.

What does not live here: when it is written (`attunity.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anabranch.model.attunity import Condition, Places, StagedRow, StateRow
from anabranch.trail.open_staging import kept
from anabranch.trail.staging import waiting

if TYPE_CHECKING:
    from anabranch.contracts import LogOrder
    from anabranch.model.status import PlaceStatus, StateStatus, Status
    from anabranch.view.job_view import JobView

RUNNING, SUSPENDED, STOPPED, ABORTED, FAILED = "RUNNING", "SUSPENDED", "STOPPED", "ABORTED", "ERROR"
IDLE, PROCESSING = "IDLE", "PROCESSING"
DISCONNECTED, STORAGE, LOGGER = "DISCONNECTED", "STORAGE", "LOGGER"
MISCONFIGURED, PASSWORD = "MISCONFIGURED", "PASSWORD-REQUIRED"
# Sub-state of `waiting` -> sub-status of SUSPENDED, from which it recovers by itself. All other waits are work.
SUSPENDS = {"source": DISCONNECTED, "target": DISCONNECTED, "room": STORAGE, "others": LOGGER, "part": LOGGER}
LOGIN = ("password", "access denied")  # words of both families of servers about a login that is refused
VALUE_CODES = ("row_refused", "value_refused")


def condition_of(state: StateStatus) -> Condition:
    """Return a job's state in Attunity's words."""
    told = state.state_detail or str((state.error or {}).get("message", ""))
    match state.state:
        case "stopped":
            return Condition(STOPPED, active=False, status_message=told)
        case "died":
            return Condition(ABORTED, active=False, error=True, status_message=told)
        case "failed":
            is_login = any(word in told.lower() for word in LOGIN) and state.sub_state in ("source", "target")
            return Condition(FAILED, PASSWORD if is_login else MISCONFIGURED, False, True, told)
        case "waiting" if state.sub_state in SUSPENDS:
            return Condition(SUSPENDED, SUSPENDS[state.sub_state], error=True, status_message=told)
    idle = (state.state, state.sub_state) == ("streaming", "idle")
    return Condition(RUNNING, IDLE if idle else PROCESSING, status_message=told)


def row_of(found: Status, node: str, staged: int) -> StateRow:
    """Return the state's row."""
    positions, end = found.positions, found.positions.source_end
    read = _total(found.counters, "changes_read")
    return StateRow(
        condition_of(found.state),
        node,
        _time(positions.read),
        Places(_native(positions.read), _native(positions.written), end.text if end else None),
        found.software_version,
        read,
        staged,
    )


def staged_rows(job: JobView, order: LogOrder) -> list[StagedRow]:
    """Return the transactions that wait beside the trail: open ones, and prepared ones. Their changes stay there."""
    trail = Path(job.trail)
    rows = [StagedRow(one.xid, 0, order.mark(one.low).native, order.mark(one.upto).native) for one in kept(trail)]
    return rows + [StagedRow(one.xid, 0, one.native, one.native) for one in waiting(trail)]


def value_error(found: Status) -> str:
    """Return the last error about a value that could not be converted; "" for none."""
    last: Mapping[str, Any] = found.last_error or {}
    return str(last.get("message", "")) if last.get("code") in VALUE_CODES else ""


def _native(place: PlaceStatus | None) -> str | None:
    return (place.text.partition("@")[2] or None) if place else None


def _time(place: PlaceStatus | None) -> datetime | None:
    if place is None or place.commit_time is None:
        return None
    found = datetime.fromisoformat(place.commit_time).astimezone(UTC).replace(tzinfo=None)
    return found if found.year > 1970 else None


def _total(counters: Mapping[str, Any] | None, name: str) -> int:
    return int(((counters or {}).get("since_reset") or {}).get(name) or 0)
