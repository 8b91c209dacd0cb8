"""Facts about a source that its trail keeps for those who cannot ask it: `load/source.json`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from anabranch.errors import TrailCorrupt, TrailError
from anabranch.trail.failures import writing
from anabranch.trail.format import to_json
from anabranch.trail.storage import LocalStorage, read_whole

FILE = "load/source.json"
FORMAT = 1


@dataclass(frozen=True, slots=True)
class SourceFacts:
    """`scheme`: which kind of database the source is. `logs_cascades`, `logs_whole_rows`: what LogFacts says of its log.
    `values`: what was decided about values as the load read them, by the keys of the job file."""

    scheme: str
    logs_cascades: bool
    logs_whole_rows: bool
    values: Mapping[str, str] = field(default_factory=dict)


def save(trail: Path, facts: SourceFacts) -> None:
    with writing(f"what the trail keeps of its source ({FILE})"):
        LocalStorage(trail).replace(FILE, to_json({"format": FORMAT, **asdict(facts)}) + b"\n")


def load(trail: Path) -> SourceFacts | None:
    """Read the facts. None where no capture has written any yet. Raises TrailError for a newer format, TrailCorrupt."""
    storage = LocalStorage(trail)
    try:
        data = json.loads(read_whole(storage, FILE))
        version = int(data.pop("format"))
        if version > FORMAT:
            hint = "use the release that wrote it, or a later one"
            raise TrailError(f"{storage.path(FILE)} has format {version}, this release knows {FORMAT}", hint=hint)
        values = {str(key): str(said) for key, said in data["values"].items()}
        return SourceFacts(str(data["scheme"]), bool(data["logs_cascades"]), bool(data["logs_whole_rows"]), values)
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        hint = "load again at the source's site (anabranch load JOB): it writes the file anew"
        raise TrailCorrupt(f"{storage.path(FILE)} cannot be read: {error}", hint=hint) from None


def require(trail: Path) -> SourceFacts:
    """Return the facts. Raises TrailError where the trail has none."""
    found = load(trail)
    if found is None:
        raise TrailError(
            f"the trail {trail} does not say what its source is ({FILE} is missing)",
            hint="run the job that captures into it: its load writes that file",
        )
    return found
