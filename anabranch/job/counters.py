"""Counters of parts, as `status` shows them: since the part started, and since somebody reset them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from anabranch.model.metrics import EPOCH_BEGAN, EPOCH_END
from anabranch.state.store import StateStore

if TYPE_CHECKING:
    from anabranch.view.job_view import JobView


def counters(snapshot: Mapping[str, Any], part: str) -> dict[str, Any] | None:
    """Return a part's counters; None before it has ever counted. A part that is not running has those of its last start."""
    found = snapshot["counters"].get(part)
    if not found:
        return None
    gauges = snapshot["gauges"].get(part, {})
    return {
        "at": max(one["at"] for one in found.values()),
        "since_start": {name: one["value"] for name, one in found.items()},
        "since_reset": {"reset_at": min(one["since"] for one in found.values())}
        | {name: one["total"] for name, one in found.items()},
        **{name: one["value"] for name, one in gauges.items() if name not in (EPOCH_END, EPOCH_BEGAN)},
    }


def reset(job: JobView) -> None:
    """Reset the counters of the whole job, also while it runs."""
    for home in dict.fromkeys((job.config.home, *(one.target_home for one in job.targets()))):
        if home.exists():
            store = StateStore(home)
            store.reset_counters()
            store.close()
