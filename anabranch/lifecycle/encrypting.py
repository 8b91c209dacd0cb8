"""Keys of the trail as the job file names them, and another one while the job runs.

What does not live here: keys and files themselves (`trail/keys.py`, `trail/rekeying.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anabranch.errors import ConfigError

if TYPE_CHECKING:
    from anabranch.config import JobConfig
    from anabranch.trail.rekeying import Encryption
    from anabranch.view.job_view import JobView


def key_places(config: JobConfig) -> dict[str, Any] | None:
    """Return the places of the trail's keys as the job file has them, paths absolute. None: it has no `[trail] encrypt`."""
    said = config.trail.encrypt
    if said is None:
        return None
    former = [_absolute(config, one.places) for one in said.former]
    return {"current": _absolute(config, said.places) or None, "former": former}


def rekey(job: JobView) -> Encryption:
    """Have the trail use the keys that the job file names from now on, also while it runs, and wrap all data keys by the
    present one. Raises ConfigError where it names none, TrailKeyMissing."""
    from anabranch.trail import rekeying

    places = key_places(job.config)
    if not places or not places["current"]:
        hint = 'encrypt = { key_file = "…", former = [{ key_file = "…" }] }'
        raise ConfigError("[trail] encrypt of the job file names no present key", hint=hint, job=job.config.name)
    return rekeying.rekey(job.trail, places)


def _absolute(config: JobConfig, places: dict[str, str | list[str]]) -> dict[str, Any]:
    if "key_file" not in places:
        return dict(places)
    folder = config.file.parent if config.file else config.home
    return {"key_file": str(folder / str(places["key_file"]))}
