"""Find where a trail in a store ends, without believing a listing; and note beside the trail at hand what was put there.

What does not live here: pieces (`pieces.py`), putting them (`store_pump.py`).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from urllib.parse import quote

from anabranch.errors import StateError
from anabranch.stores.contract import ObjectMissing, ObjectStore
from anabranch.trail.failures import writing
from anabranch.trail.format import to_json
from anabranch.trail.replica_files import LoadFile
from anabranch.trail.storage import LocalStorage, read_whole
from anabranch.transport.hop_state import FOLDER


def newest(exists: Callable[[int], bool], known: int) -> int:
    """Return the last number that exists. `known`: one that does, or one less than the first that may; numbers between are
    all there, so a few questions find the end."""
    low, step = known, 1
    while exists(low + step):
        low, step = low + step, step * 2
    high = low + step  # does not exist
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if exists(middle) else (low, middle)
    return low


def has(store: ObjectStore, name: str) -> bool:
    """Return whether an object is there, from the store and not from a listing."""
    try:
        store.size(name)
    except ObjectMissing:
        return False
    return True


@dataclass
class Put:
    """The pieces that a pump has put into a store, as it is noted beside its trail. `place`: which store; `writer`: the session
    that has put the last one; `files`: size and sum of files of a load; `readers`: objects of readers that were seen: a listing
    may lag; `swept`: pieces before it are gone."""

    place: str = ""
    chain: str = ""
    number: int = 0
    digest: str = ""
    writer: str = ""
    swept: int = 1
    files: dict[str, list[int]] = field(default_factory=dict)
    readers: list[str] = field(default_factory=list)

    @property
    def known_files(self) -> dict[str, LoadFile]:
        return {name: LoadFile(name, *facts) for name, facts in self.files.items()}


class PutNote:
    """The file of it: `hops/PUMP.store`. Not for several threads."""

    def __init__(self, directory: Path, pump: str) -> None:
        self._storage, self._name = LocalStorage(directory), f"{FOLDER}/{quote(pump, safe='')}.store"

    @property
    def path(self) -> str:
        return self._storage.path(self._name)

    def load(self) -> Put:
        """Return what is noted, nothing where nothing was. Raises StateError for a file that cannot be read."""
        try:
            return Put(**json.loads(read_whole(self._storage, self._name)))
        except FileNotFoundError:
            return Put()
        except (ValueError, TypeError) as error:
            hint = "remove it: the pump then looks at the store, and sends files of a load once more"
            raise StateError(f"{self.path} cannot be read: {error}", hint=hint) from None

    def save(self, put: Put) -> None:
        with writing(self.path):
            self._storage.replace(self._name, to_json(asdict(put)))
