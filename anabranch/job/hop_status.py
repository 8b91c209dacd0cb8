"""The status of a hop by what this machine has of it: its file, its process, what stands beside its trails.

Nothing is asked of another hop: a pump notes what the way has told it. What does not live here: text of it (`cli/hop_text.py`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

from anabranch.config.hop_files import PumpFile, ReceiveFile, RouteFile, TrailUrl, parse_trail_url
from anabranch.config.hop_kinds import HopFile, Kind
from anabranch.config.store_urls import is_store_url, parse_store_url
from anabranch.errors import TrailError
from anabranch.trail import identity, published, retention
from anabranch.trail.lock import holder
from anabranch.trail.replica import hops_of
from anabranch.trail.storage import LocalStorage
from anabranch.transport import hop_state
from anabranch.transport.names import is_trail_name, reader_name
from anabranch.view.running import RUN_LOCK

TRAILS = 256  # of a receiver, that are shown


def hop_status(kind: Kind, file: HopFile, home: Path, env: Mapping[str, str] = os.environ) -> dict[str, Any]:
    """Return the status of a hop: `kind`, `phase`, `running`; of a pump what `anabranch status --json` has, of a receiver its
    `trails`, of a router its `routes`. `hops`: each hop behind it with its delay in seconds, as far as it is known here.
    `home`: where its process has noted itself."""
    if isinstance(file, PumpFile):
        return {"kind": kind.value, **_of_pump(file, env)}
    who = holder(home / RUN_LOCK)
    found = {
        "version": 1,
        "job": file.name,
        "kind": kind.value,
        "phase": "streaming" if who else "stopped",
        "running": who,
        "listen": file.listen.address,
    }
    return found | (_of_receiver(file, env) if isinstance(file, ReceiveFile) else _of_router(file))


def pump_status(
    name: str, directory: Path, source: str, target: str, *, folder: str = hop_state.FOLDER
) -> dict[str, Any]:
    """Return how far a pump is: `phase`, `running`, and `hop` as HopState has it; `registered`: the sequence up to which the
    trail lets go of what the pump has sent. `folder`: of a pump that fetches out of a store, FETCHED."""
    said = next((one for one in hop_state.states(directory, folder) if one.get("name") == name), None)
    who = holder(directory / folder / f"{quote(name, safe='')}.lock")
    known = retention.readers(directory).get(reader_name(name)) if folder == hop_state.FOLDER else None
    return {
        "version": 1,
        "job": name,
        "phase": "streaming" if who else "stopped",
        "running": who,
        "source": source,
        "target": target,
        "registered": known.sequence if known else None,
        "hop": said,
    }


def _of_pump(file: PumpFile, env: Mapping[str, str]) -> dict[str, Any]:
    source, target = (_shown(end.url, env) for end in (file.source, file.target))
    if isinstance(source, TrailUrl):
        found = pump_status(file.name, Path(source.path), str(source), str(target))
    else:
        assert isinstance(target, TrailUrl)
        place = Path(target.path)
        found = pump_status(file.name, place, str(source), str(target), folder=hop_state.FETCHED)
    said = found["hop"] or {}
    legs = [{"hop": name, "delay": seconds} for name, seconds in said.get("legs") or ()]
    return found | {"hops": legs, "lag": said.get("lag") if found["hop"] else None}


def _shown(url: str, env: Mapping[str, str]) -> Any:
    return parse_store_url(url, env) if is_store_url(url) else parse_trail_url(url, env, ("file", "tls", "tcp"))


def _of_receiver(file: ReceiveFile, env: Mapping[str, str]) -> dict[str, Any]:
    folder = Path(parse_trail_url(file.store.url, env, ("file",)).path)
    names: list[str] = []
    with suppress(OSError):  # not made yet: the receiver makes it
        names = sorted(one.name for one in folder.iterdir() if is_trail_name(one.name) and one.is_dir())
    trails = [_trail(folder / name) for name in names[:TRAILS]]
    hops = [
        {"hop": f"{trail['name']}: {leg[0]}", "delay": leg[1]}
        for trail in trails for pump in trail["pumps"] for leg in pump.get("legs") or ()
    ]  # fmt: skip
    return {"store": str(folder), "trails": trails, "more": len(names) > TRAILS, "hops": hops}


def _trail(directory: Path) -> dict[str, Any]:
    """Return what is known of a replica: whose it is, the hops that it came by, its end, when that came, and who goes on."""
    storage = LocalStorage(directory)
    found: dict[str, Any] = {
        "name": directory.name, "job": "", "sequence": None, "age": None, "problem": "",
        "came_by": [], "pumps": hop_state.behind(directory),
    }  # fmt: skip
    try:
        if (known := identity.load(storage)) is not None:
            found["job"] = known.job
        with closing(storage.open(published.FILE)) as cell:
            found["sequence"] = published.read(cell).sequence
        found["came_by"] = list(hops_of(storage) or ())
        found["age"] = max(0.0, time.time() - (directory / published.FILE).stat().st_mtime)
    except FileNotFoundError:  # just being begun
        pass
    except (OSError, TrailError) as error:
        found["problem"] = str(error)
    return found


def _of_router(file: RouteFile) -> dict[str, Any]:
    return {"routes": [{"trail": way.trail, "to": way.to.partition("?")[0]} for way in file.routes], "hops": []}
