"""A replica: a trail whose bytes come from another trail, so that the same transactions stand at another place.

It is written by one process, under the lock that a capture would have, and read as every trail is. Bytes are taken where
they begin in the file that they come from; `flush` reads what came, checks every frame, makes it durable and only then moves
the published end to the last whole transaction. What a transaction says is never looked at, so a trail that is encrypted
is copied without its key. What does not live here: what the other trail has to send (`outgoing.py`), and the way in between.

`replica.json` is the mark: a capture refuses a trail that has it, and a replica refuses one that has not.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from anabranch.errors import StateError, StorageFull, TrailCorrupt, TrailError
from anabranch.failpoints import reach
from anabranch.trail import identity as identities
from anabranch.trail import load_readers, published, retention
from anabranch.trail.failures import writing
from anabranch.trail.format import NEWEST, SegmentName, segment_names, to_json
from anabranch.trail.history import FILE as HISTORY
from anabranch.trail.identity import REPLICA, Identity
from anabranch.trail.lock import WriterLock
from anabranch.trail.replica_history import HistoryCopy
from anabranch.trail.replica_segment import PART, CopiedSegment, Walk
from anabranch.trail.storage import LocalStorage, read_whole

ANEW = "begin the replica anew in an empty directory"
KEPT = retention.RetentionLimits(24 * 3600)


@dataclass(frozen=True, slots=True)
class Held:
    """The durable part of a replica. `file`: its newest segment, "" for none; `length`: bytes of it; `first`:
    prefix (hex) of its header, `last`: offset and prefix of its last frame, which tell two trails apart whose files have the
    same names (a header says when it was written); `sequence`: the last whole
    transaction, and `published` the last one that readers see; `history`: bytes of the schema history, `history_sum` their
    CRC-32."""

    file: str = ""
    length: int = 0
    first: str = ""
    last: tuple[int, str] = (0, "")
    sequence: int = 0
    published: int = 0
    history: int = 0
    history_sum: int = 0

    def to_json(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in self.__slots__}

    @classmethod
    def from_json(cls, found: object) -> Held:
        """Return what a peer said. Raises ValueError for what is none."""
        if not isinstance(found, dict) or set(found) != set(cls.__slots__):
            raise ValueError("it does not say what it has")
        numbers = (found[name] for name in ("length", "sequence", "published", "history", "history_sum"))
        last = found["last"]
        is_last = isinstance(last, list) and len(last) == 2 and isinstance(last[1], str)
        if not is_last or not all(type(one) is int and 0 <= one < 1 << 62 for one in (*numbers, last[0])):
            raise ValueError("what it says that it has is no place of a trail")
        if (
            not isinstance(found["first"], str)
            or not isinstance(found["file"], str)
            or (found["file"] and SegmentName.parse(found["file"]) is None)
        ):
            raise ValueError("what it says that it has is no segment")
        return cls(**{**found, "last": (last[0], last[1])})


class TrailReplica:
    """The one writer of a replica. Not for several threads.

    Delivery: what `flush` returns as held survives a crash; readers see whole transactions only, in order, each once."""

    def __init__(
        self, directory: Path, lock: WriterLock, identity: Identity, limits: retention.RetentionLimits = KEPT
    ) -> None:
        self.directory, self.identity = directory, identity
        self._lock, self._limits, self._clock = lock, limits, retention.Clock()
        self._storage = LocalStorage(directory)
        self._cell = self._storage.reopen(published.FILE)
        readable = published.opened(self._storage)
        try:
            self._record = published.read(readable)
        finally:
            readable.close()
        self._history = HistoryCopy(self._storage, self._record.history)
        self._walk = Walk(self._record.sequence)
        self._segment: CopiedSegment | None = None
        self._recover()
        self._publish()

    @classmethod
    def open(
        cls,
        directory: str | Path,
        identity: Identity | None = None,
        *,
        hops: tuple[str, ...] = (),
        limits: retention.RetentionLimits = KEPT,
        lock_timeout: float = 0.0,
    ) -> TrailReplica:
        """Take the lock, make or recover the replica of the trail with this identity; None: of whatever it is of already.
        `hops`: names of those that it came through, the first trail's first.

        Raises TrailLocked, StateError (another job's trail, or one that a capture writes), TrailError (there is none, or of a
        newer format), TrailCorrupt."""
        directory = Path(directory)
        if identity is None and identities.load(LocalStorage(directory)) is None:
            raise TrailError(f"there is no trail in {directory}", hint="it is made by whoever sends the first bytes")
        with writing(f"the trail {directory}"):
            directory.mkdir(parents=True, exist_ok=True)
        lock = WriterLock(directory, lock_timeout)
        try:
            known = _identify(LocalStorage(directory), identity, hops)
            return cls(directory, lock, known, limits)
        except BaseException:  # whatever it was: let go, and passed on
            lock.close()
            raise

    @property
    def held(self) -> Held:
        """The durable part, as of the last `flush`."""
        at = self._segment
        return Held(
            at.name_text if at else "",
            at.checked if at else 0,
            at.first if at else "",
            at.last if at else (0, ""),
            self._walk.sequence,
            self._record.sequence,
            self._history.length,
            self._history.sum,
        )

    @property
    def received(self) -> int:
        """Return the last whole transaction that was checked."""
        return self._walk.sequence

    def identify(self, identity: Identity, hops: tuple[str, ...] = ()) -> None:
        """Take over what the first trail says of itself now: another server may have taken over, the format may have changed.
        Raises StateError for another job's trail, TrailError for a format that this release does not know."""
        self.identity = _identify(self._storage, identity, hops)

    def add_history(self, offset: int, data: bytes, *, is_anew: bool = False) -> None:
        """Add bytes of the schema history; with `is_anew` they are the beginning of another one, which takes the place of this
        one at the next flush. Raises TrailError for a gap, StorageFull: nothing counts, add them again."""
        self._history.add(offset, data, is_anew)

    def append(self, name: SegmentName, offset: int, data: bytes | memoryview) -> None:
        """Add bytes of a segment, which need not be whole frames. Raises StorageFull: they do not count, append them again;
        TrailError for a gap or an offset that contradicts, TrailCorrupt for a former segment that is not whole."""
        if self._segment is None or name != self._segment.name:
            self._enter(name, offset)
        assert self._segment
        if offset != self._segment.length:
            raise TrailError(
                f"segment {name} of {self.directory} has {self._segment.length} bytes, others begin at {offset}",
                hint="connect again: both sides then agree on where they are",
            )
        self._segment.write(data)

    def flush(self) -> Held:
        """Check what came, make it durable, and publish the last whole transaction of it. A failed fsync raises TrailError: the
        process has to end. Returns what is held now."""
        at = self._segment if self._segment and not self._segment.is_left else None
        if at:
            at.check(self._walk)
        self._history.sync()
        if at:
            at.sync()
        reach("trail.replica.synced")
        self._publish()
        return self.held

    def close(self) -> None:
        """Let go, without a flush: whoever sent the bytes was not told that they are here."""
        at = self._segment if self._segment and not self._segment.is_left else None
        for closable in (at, self._history, self._cell, self._lock):
            if closable:
                closable.close()

    def __enter__(self) -> TrailReplica:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- segments ---------------------------------------------------------------------------------------------------

    def _enter(self, name: SegmentName, offset: int) -> None:
        """Leave the former segment whole and begin this one, which has to go on where that one ends."""
        newest = self._segment.name.number if self._segment else 0
        if name.number <= newest:
            raise TrailError(f"segment {name} of {self.directory} comes behind number {newest}", hint=ANEW)
        if offset:
            raise TrailError(f"segment {name} of {self.directory} begins at byte {offset}, not at 0", hint=ANEW)
        if self._segment and not self._segment.is_left:
            self._segment.leave(self._walk)
            reach("trail.replica.left")
        self._walk.enter(name, self._segment is None, self.directory)
        self._segment = CopiedSegment.make(self._storage, name)
        with suppress(StorageFull):  # the next segment tries it again
            jump = self._clock.jump()
            retention.drop_old(self.directory, self._limits, jump=jump, storage=self._storage)
            load_readers.sweep(Path(self.directory))

    def _publish(self) -> None:
        """Move the published end. What it points at is durable."""
        place = self._walk.place or self._record
        record = place._replace(version=self._record.version + 1, history=self._history.length)
        if record._replace(version=0) == self._record._replace(version=0) and self._record.version:
            return
        with writing("the published end"):
            published.write(self._cell, record)
        self._record = record
        reach("trail.replica.published")

    # --- after a crash ----------------------------------------------------------------------------------------------

    def _recover(self) -> None:
        """Find what came behind the published end, whole, and make it durable. What is torn is cut off: nobody was told."""
        names = segment_names(self._storage.names())
        record = self._record
        if record.number and record.segment not in names:
            raise TrailCorrupt(f"segment {record.segment} of {self.directory} is missing", hint=ANEW)
        files = [(name, str(name)) for name in names if name.number >= record.number]
        files += self._parts(names)
        for name, file in files:
            if self._segment:
                self._segment.leave(self._walk)
            is_published = name.number == record.number
            if not is_published:
                self._walk.enter(name, self._segment is None, self.directory)
            known = (record.frame, record.end) if is_published else (0, 0)
            is_newest = name == files[-1][0]
            self._segment = CopiedSegment.found(self._storage, name, file, self._walk, known, is_newest)

    def _parts(self, names: list[SegmentName]) -> list[tuple[SegmentName, str]]:
        """Return the packed segment of which a part came, if it is the newest. Raises TrailCorrupt for an older one that has
        not got its name: its transactions are nowhere else."""
        numbers = {name.number for name in names}
        newest = max(numbers, default=0)
        found: list[tuple[SegmentName, str]] = []
        for file in self._storage.names():
            if file.endswith(".tmp") and not file.startswith(identities.FILE):
                with suppress(FileNotFoundError):
                    os.unlink(self._storage.path(file))
            name = SegmentName.parse(file.removesuffix(PART)) if file.endswith(PART) else None
            if name and name.number > newest and not found:
                found.append((name, file))
            elif name and name.number < newest and name.number not in numbers:
                raise TrailCorrupt(f"segment {name} of {self.directory} is there only as {file}", hint=ANEW)
            elif name:
                self._storage.remove(file)
        return found


def _identify(storage: LocalStorage, ours: Identity | None, hops: tuple[str, ...]) -> Identity:
    """Return the replica's identity; make it where nothing is, its name last."""
    found, is_replica = identities.load(storage), REPLICA in storage.names()
    if found and not is_replica:
        raise StateError(
            f"the trail {storage.directory} is written by the capture of job {found.job}, it is no replica",
            hint="give the replica a directory of its own",
            job=found.job,
        )
    if identities.IMPORTS in storage.names():
        raise StateError(
            f"the trail {storage.directory} is a replica that takes in parcels (anabranch trail import)",
            hint="give this replica a directory of its own",
        )
    if ours is None:
        assert found
        return found
    if ours.format > NEWEST:
        message = f"the trail to copy has format {ours.format}, this release knows {NEWEST}"
        raise TrailError(message, hint=identities.NEWER)
    if found:
        identities.refuse_mismatch(found, replace(ours, source_identity=found.source_identity))
    with writing(f"the trail {storage.directory}"):
        if found is None:
            storage.replace(published.FILE, bytes(published.SIZE))
            storage.replace(HISTORY, b"")
        if found is None or (hops and hops_of(storage) != hops):
            storage.replace(REPLICA, to_json({"version": 1, "hops": list(hops)}))
        reach("trail.replica.begun")
        if found != ours:
            identities.save(storage, ours)
    return ours


def hops_of(storage: LocalStorage) -> tuple[str, ...] | None:
    """Return the names of those that a replica came through, the first trail's first; None for a trail that is no replica."""
    try:
        return tuple(json.loads(read_whole(storage, REPLICA))["hops"])
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise TrailCorrupt(f"{storage.path(REPLICA)} cannot be read: {error}", hint=ANEW) from None
