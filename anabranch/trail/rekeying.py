"""Keys of a trail's files, and wrapping their data keys anew, so that a former key can be destroyed.

Data keys stay, and so do the files: the data keys are wrapped by the present key in a small file beside the segments (`keys`),
which replaces what headers say. What does not live here: where keys are (`keys.py`), what data keys do (`sealing.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from anabranch.errors import StateError, TrailCorrupt
from anabranch.failpoints import reach
from anabranch.trail import keys, published, sealed_files, sealed_history, sealing
from anabranch.trail.failures import writing
from anabranch.trail.format import SegmentName, to_json
from anabranch.trail.keys import KeyRing, Wrapped
from anabranch.trail.lock import maintenance
from anabranch.trail.replica_files import UNFINISHED, encrypted_names
from anabranch.trail.segment import RESTORE, SegmentReader
from anabranch.trail.storage import LocalStorage, Storage

KEY_OF_LEDGER = "ledger/key.json"  # trail_end/sealed_texts.py
_UNFINISHED = (".tmp", "staging/open", "staging/keeping")  # files that are being written


@dataclass(frozen=True, slots=True)
class Encryption:
    """`key`: id of the present key, "" where new files are not encrypted; `keys`: how many files have their data key wrapped by
    each, `plain`: how many segments are not encrypted."""

    key: str
    keys: Mapping[str, int] = field(default_factory=dict)
    plain: int = 0

    @property
    def others(self) -> int:
        """Files whose data key another one than the present key wraps."""
        return sum(count for key, count in self.keys.items() if key != self.key)


def encryption(storage: Storage) -> Encryption | None:
    """Return what keys the trail has; None for one that was never encrypted. Raises TrailKeyMissing, TrailCorrupt."""
    ring = keys.ring(storage)
    if ring is None:
        return None
    found, plain = Counter[str](), 0
    for file, wrapped, _ in _files(storage):
        if wrapped is not None:
            found[wrapped.key] += 1
        elif SegmentName.parse(file):
            plain += 1
    return Encryption(_present(ring), dict(sorted(found.items())), plain)


def rekey(directory: Path, said: Mapping[str, Any] | None) -> Encryption:
    """Take over the places of keys while the trail is written and read, and wrap every data key by the present key. May be
    repeated, also after a crash at any place. Raises what `keys.save` raises, TrailKeyMissing for a former key that is gone."""
    storage = LocalStorage(directory)
    with writing(keys.FILE), maintenance(directory):
        keys.save(storage, said, may_turn=False)
    reach("trail.rekey")
    ring = keys.ring(storage)
    if ring is None or ring.current is None:
        raise StateError(
            "the trail has no present key", hint="name one in [trail] encrypt of the job file, start capture"
        )
    wrapped = dict(_rewrapped(storage, ring))  # a key service may take its time: the lock is for others, too
    reach("trail.rekey.wrapped")
    with writing(keys.REWRAPPED), maintenance(directory):
        storage.replace(keys.REWRAPPED, to_json(wrapped))
        keys.tell_replicas(storage, wrapped)
    found = encryption(storage)
    assert found is not None, "it has a ring of keys"
    return found


def _rewrapped(storage: Storage, ring: KeyRing) -> Iterator[tuple[str, Wrapped]]:
    """Yield the data keys that headers do not have under the present key, by the tags of their files."""
    assert ring.current is not None
    present = _present(ring)
    again = sealing.rewrapped(storage)
    for file, wrapped, tag in _files(storage):
        if wrapped is None:
            continue
        if wrapped.key == present:
            if tag in again:
                yield tag, again[tag]
            continue
        yield tag, ring.current.wrap(ring.unwrap([wrapped], f"{file} ({storage.path(file)})"))


def _files(storage: Storage) -> Iterator[tuple[str, Wrapped | None, str]]:
    """Yield each encrypted file, and each of frames, with its data key as it is wrapped now, and its tag; None, "" for one
    that is not encrypted."""
    again = sealing.rewrapped(storage)
    newest = _published(storage)
    staged = [f"staging/{name}" for name in storage.names("staging") if not name.endswith(".ended")]
    for file in [*storage.names(), *staged]:
        name = SegmentName.parse(file)
        is_unfinished = file.endswith(_UNFINISHED) or (name is not None and name.number > newest)
        if name is None and not is_unfinished and not file.startswith("staging/"):
            continue
        try:
            found = _wrapped_in(storage, file)
        except FileNotFoundError:  # dropped or packed meanwhile
            continue
        except TrailCorrupt:
            if is_unfinished:
                continue
            raise
        yield (file, again.get(found[1], found[0]), found[1]) if found else (file, None, "")
    for file, wrapped, tag in _others(storage):
        yield file, again.get(tag, wrapped), tag


def _others(storage: Storage) -> Iterator[tuple[str, Wrapped, str]]:
    """Yield each file of another kind that is encrypted, as its header has it: rows and manifests of loads, the ledger."""
    names = [KEY_OF_LEDGER] if KEY_OF_LEDGER.partition("/")[2] in storage.names(KEY_OF_LEDGER.partition("/")[0]) else []
    names += encrypted_names(Path(storage.path("")))
    names += [
        f"{folder}/{one}" for folder in storage.names() if folder.startswith("repairs") for one in storage.names(folder)
    ]
    for line in sealed_history.headers(storage):
        if said := sealing.wrapped_in(line):
            yield sealed_history.FILE, *said
    for file in names:
        is_unfinished = file.endswith(UNFINISHED)  # what its header says holds under the name that it gets
        try:
            found = _said_in(storage, file)
            if found is None and is_unfinished:  # finished meanwhile, or gone; or it has no header yet
                found = _said_in(storage, file.rsplit(".", 2)[0])
        except sealing.Tampered as error:
            if is_unfinished:  # its process ended while it began
                continue
            raise TrailCorrupt(f"{storage.path(file)}: {error}", hint=RESTORE) from None
        if found:
            yield file, *found


def _said_in(storage: Storage, file: str) -> tuple[Wrapped, str] | None:
    """Return how a file's data key is wrapped, and its tag; None for one that is not encrypted, or is replaced, or gone with
    its load. Raises Tampered."""
    with suppress(FileNotFoundError):
        header = sealed_files.header_in(storage, file)
        return sealing.wrapped_in(header) if header else None
    return None


def _wrapped_in(storage: Storage, file: str) -> tuple[Wrapped, str] | None:
    segment = SegmentReader(storage, file)
    try:
        return sealing.wrapped_in(segment.header())
    except sealing.Tampered as error:
        raise segment.damage(0, str(error)) from None
    finally:
        segment.close()


def _published(storage: Storage) -> int:
    cell = published.opened(storage)
    try:
        return published.read(cell).number
    finally:
        cell.close()


def _present(ring: KeyRing) -> str:
    """Return the id of the present key. A key service tells it with what it wraps."""
    if ring.current is None:
        return ""
    return ring.current.id() or ring.current.wrap(bytes(keys.LENGTH)).key
