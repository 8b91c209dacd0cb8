"""Say how far a pump is: a small file beside its trail, for `status` and for whoever sends the trail to where the pump is.

`hops/<pump>.json` is written about once a second and never waited for; what counts is the reader that the pump is registered
as. What does not live here: sending (`pump.py`).
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from anabranch.trail.format import to_json
from anabranch.trail.storage import LocalStorage, read_whole

FOLDER = "hops"
FETCHED = "fetched"  # of a replica: pumps that bring it out of a store
FILES = 16
LARGEST = 16 * 1024


@dataclass
class HopState:
    """`state`: connecting, sending, stopped or `waiting: …`. Sequences: `published` of the trail, `sent`, `acknowledged`:
    durable at the next store. `left`: bytes not acknowledged; `lag`: seconds since the oldest transaction was published that
    is not acknowledged, 0 for none. `legs`: [hop, seconds there and back from the one before]; `behind`: states of pumps that
    go on from the next store; `store`: where the next hop is a store of objects: its `first` and `last` piece, how many
    `pieces`, `seconds` for the last one; `at`: when it was noted, in seconds since 1970 UTC."""

    name: str
    to: str
    state: str = "connecting"
    published: int = 0
    sent: int = 0
    acknowledged: int = 0
    bytes_sent: int = 0
    left: int = 0
    lag: float = 0.0
    files_left: int = 0
    legs: list[tuple[str, float]] = field(default_factory=list)
    behind: list[dict[str, Any]] = field(default_factory=list)
    store: dict[str, Any] = field(default_factory=dict)
    error: str = ""
    pid: int = 0
    at: float = 0.0

    def save(self, directory: Path, folder: str = FOLDER) -> None:
        """Note it. Without room on the disk it is noted later."""
        with suppress(OSError):
            file = f"{folder}/{quote(self.name, safe='')}.json"
            LocalStorage(directory).replace(file, to_json(asdict(self)), is_durable=False)


def states(directory: Path, folder: str = FOLDER) -> list[dict[str, Any]]:
    """Return how far each pump of a trail is, as HopState has it. `folder`: FETCHED for those that write the trail."""
    storage, found = LocalStorage(directory), []
    for name in storage.names(folder)[:FILES]:
        if not name.endswith(".json"):
            continue
        with suppress(OSError, ValueError):
            data = read_whole(storage, f"{folder}/{name}")
            state = json.loads(data) if len(data) <= LARGEST else None
            if isinstance(state, dict):
                found.append(state)
    return found


def behind(directory: Path) -> list[dict[str, Any]]:
    """Return what a receiver says of the pumps that go on from its store."""
    keys = ("name", "to", "state", "published", "acknowledged", "left", "lag", "legs", "behind")
    found = [{key: one.get(key) for key in keys} for one in states(directory)]
    return found if len(json.dumps(found)) <= LARGEST else []
