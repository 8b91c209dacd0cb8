"""Identity of the trail: the job uuid and the server that a trail carries, and the uuid of one that is begun now (K31)."""

from __future__ import annotations

import contextlib
import os
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

from anabranch.errors import StateError
from anabranch.trail import identity
from anabranch.trail.failures import writing
from anabranch.trail.reader import exists
from anabranch.trail.storage import LocalStorage
from anabranch.view.opened import of_each, store_of

if TYPE_CHECKING:
    from anabranch.model.state import Checkpoint
    from anabranch.view.job_view import JobView


def trail_uuid(job: JobView) -> str | None:
    """Return the job uuid that the trail carries, None where no trail was begun."""
    found = identity.load(LocalStorage(job.trail)) if exists(job.trail) else None
    return found.job_uuid if found else None


def followed_identity(job: JobView) -> str | None:
    """Return the server that the trail was read from last."""
    found = identity.load(LocalStorage(job.trail)) if exists(job.trail) else None
    return found.source_identity if found else None


def begun_uuid(trail: Path) -> str | None:
    """Return the job uuid that a trail will carry which was prepared for and has not begun."""
    file = trail / "uuid"
    return file.read_text() if file.exists() else None


def new_trail_uuid(job: JobView) -> str:
    """Return the uuid for a trail that is begun now. Refuses to begin one anew under a target that has followed
    another.

    Another process that begins the same trail at the same moment may be quicker and have its checkpoint at the target
    already: so whether there is a trail is asked after the checkpoint. One of several targets that is away is passed
    over: where it has followed another trail, its load and apply refuse this one.
    """
    found = of_each(job.whole, _checkpoint)
    for checkpoint in filter(None, found):
        if begun := trail_uuid(job):
            return begun
        raise StateError(
            f"the target is at {checkpoint.position}, but the trail {job.trail} is gone",
            job=job.config.name,
            hint="restore the trail; or remove the job's state (anabranch drop JOB --execute) and load again",
        )
    return agreed_uuid(job.trail)


def _checkpoint(job: JobView) -> Checkpoint | None:
    with store_of(job) as store:
        facts = store.jobs.job(job.config.name) if store.exists() else None
        return store.jobs.checkpoint(job.config.name) if facts else None


def agreed_uuid(trail: Path) -> str:
    """Capture and load may begin the same trail at the same moment: whoever makes the file decides for both."""
    with writing(f"the trail {trail}"):
        trail.mkdir(parents=True, exist_ok=True)
        made = uuid.uuid4()
        mine = trail / f"uuid.{made}"  # not by the process: another machine may begin it, too, with the same process id
        mine.write_text(str(made))
        with contextlib.suppress(FileExistsError):
            os.link(mine, trail / "uuid")
        mine.unlink()
        return (trail / "uuid").read_text()
