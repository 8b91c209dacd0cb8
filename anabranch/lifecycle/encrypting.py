"""Keys of the trail as the job file names them, and another one while the job runs.

What does not live here: keys and files themselves (`trail/keys.py`, `trail/rekeying.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anabranch.config.hops import Hop
from anabranch.errors import ConfigError
from anabranch.trail import identity, keys
from anabranch.trail.failures import writing
from anabranch.trail.storage import LocalStorage

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


def note_keys(job: JobView) -> None:
    """Note beside a trail that another job writes where the keys are by which this one reads it. Raises TrailKeyMissing,
    TrailError where nothing can be noted there."""
    if job.config.hop is not Hop.APPLY or (places := key_places(job.config)) is None:
        return
    storage = LocalStorage(job.trail)
    if identity.load(storage) is not None:
        with writing(str(keys.place(storage))):
            keys.note_reader(storage, places)


def rekey(job: JobView) -> Encryption:
    """Have the trail use the keys that the job file names from now on, also while it runs, and wrap all data keys by the
    present one. Raises ConfigError where it names none, TrailKeyMissing."""
    from anabranch.trail import rekeying

    if job.config.hop is Hop.APPLY and not identity.is_replica(LocalStorage(job.trail)):
        raise ConfigError(
            f"the trail {job.trail} is that of the job that captures into it, which decides by which key it is encrypted",
            hint="run anabranch trail rekey with the file of that job",
            job=job.config.name,
        )
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
