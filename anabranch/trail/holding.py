"""A hold of apply: for a short time nothing behind a place of the trail is applied, so that both ends are read at one position.

The hold is a lock of the operating system, so it ends with the process that has it, however that ends, and a note, which says
up to where may be applied and for how long at most. Apply counts that time by itself, from when it first sees the note. What
does not live here: why anybody holds apply (verify/exact.py).
"""

from __future__ import annotations

import json
import os
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from anabranch.errors import StateError
from anabranch.trail.lock import LockHeld, OsLock, holder

LOCK, NOTE = "lock", "note.json"
LOOKED_AT = 0.5  # seconds: whoever looks whether it is held has the lock for a moment
LONGEST = 60.0  # seconds: nobody holds apply for longer, whatever a note says


class Hold:
    """Held from construction to `close`, at the latest to the end of the process."""

    def __init__(self, directory: Path, upto: int, seconds: float) -> None:
        """Let nothing behind sequence `upto` be applied, but what is being applied now, for at most so many seconds. Raises
        StateError while another one holds apply."""
        directory.mkdir(parents=True, exist_ok=True)
        try:
            self._lock = OsLock(directory / LOCK, LOOKED_AT)
        except LockHeld as held:
            raise StateError(f"apply is held by another verification, {held}", hint="wait for it") from None
        self._directory, self._seconds, self._id = directory, seconds, uuid.uuid4().hex
        self.began = time.monotonic()
        self.move(upto)

    def move(self, upto: int) -> None:
        """Let apply go on, up to another sequence."""
        draft = self._directory / f"{NOTE}.{self._id}"
        draft.write_text(json.dumps({"id": self._id, "upto": upto, "seconds": self._seconds}))
        os.replace(draft, self._directory / NOTE)

    def close(self) -> float:
        """Let apply go on. Returns for how many seconds it was held at most."""
        with suppress(FileNotFoundError):
            (self._directory / NOTE).unlink()
        self._lock.close()
        return time.monotonic() - self.began


@dataclass
class Held:
    """Apply's view of the holds of its target."""

    directory: Path
    _since: dict[str, float] = field(default_factory=dict)  # when a hold was first seen; of the last one only

    def bound(self) -> int | None:
        """Return the sequence behind which nothing may be applied now; None where apply is not held. Cheap where there is no
        note. One that cannot be read holds nobody."""
        try:
            note = json.loads((self.directory / NOTE).read_text())
            id_, upto, seconds = str(note["id"]), int(note["upto"]), float(note["seconds"])
        except (OSError, ValueError, KeyError, TypeError):
            return None
        if id_ not in self._since:
            self._since = {id_: time.monotonic()}
        if time.monotonic() - self._since[id_] >= min(seconds, LONGEST) or not holder(self.directory / LOCK):
            return None
        return upto
