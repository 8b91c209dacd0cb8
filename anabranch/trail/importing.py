"""Import of parcels into a trail that is a replica: every one in its turn, whole, verified before anything of it is seen.

The files of a parcel are copied beside the trail while they are verified, and get their names only when all of them are
right; then the published end moves. A kill anywhere leaves a parcel that is taken in again, with the same end. What does
not live here: the form of parcels (`parcel.py`), making them (`exporting.py`).
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from anabranch.errors import ParcelDamaged, ParcelMissing, ParcelRefused, StorageFull, TrailCorrupt, TrailError
from anabranch.failpoints import reach
from anabranch.trail import history as histories
from anabranch.trail import identity as identities
from anabranch.trail import keys as trail_keys
from anabranch.trail import load_readers, parcel, parcel_seals, published, retention
from anabranch.trail.exports import clear, sync_folder
from anabranch.trail.failures import syncing, writing
from anabranch.trail.format import NEWEST, SegmentName, to_json
from anabranch.trail.history import HistoryPlace, SchemaHistory
from anabranch.trail.identity import Identity
from anabranch.trail.keys import service_of
from anabranch.trail.lock import WriterLock
from anabranch.trail.parcel import Manifest, SegmentPlace
from anabranch.trail.published import Record
from anabranch.trail.recovery import end_at
from anabranch.trail.replica_files import KEYS, number_of
from anabranch.trail.replica_segment import Walk
from anabranch.trail.segment import SegmentReader
from anabranch.trail.signing import Verifier
from anabranch.trail.storage import LocalStorage, read_whole

FILE = identities.IMPORTS
ARRIVING = "arriving"  # files of the parcel that is being verified
HOP = "parcels"  # who has sent it
REMEMBERED = 1000  # parcels whose digests are kept
RESERVE = 1 << 20  # bytes
KEPT = retention.RetentionLimits(24 * 3600)
Told = Callable[[int, int], None]
"""Told bytes that are done, and the bytes of the parcel."""


@dataclass(frozen=True, slots=True)
class Imported:
    """The parcels that a replica has: `chain` and `number` of the last parcel with the digest of its manifest; `known`:
    the digests of the last ones, by number; `sealed`: parcels are of an encrypted trail."""

    chain: str = ""
    number: int = 0
    manifest: str = ""
    known: dict[str, str] = field(default_factory=dict)
    sealed: bool = False

    def to_json(self) -> bytes:
        found = {"version": 1} | asdict(self)
        if not self.sealed:
            del found["sealed"]  # releases before seals read it
        return to_json(found)

    def with_one(self, manifest: Manifest, digest: str) -> Imported:
        known = self.known if manifest.chain == self.chain else {}
        known = dict([*known.items(), (str(manifest.number), digest)][-REMEMBERED:])
        return Imported(manifest.chain, manifest.number, digest, known, self.sealed or bool(manifest.seal))


class Importer:
    """Takes parcels of one directory into a replica, which it holds as its one writer. Not for several threads.

    Delivery: each parcel once, in order; a reader of the replica sees all of a parcel or nothing."""

    def __init__(
        self,
        directory: Path,
        into: Path,
        *,
        keys: Verifier | None = None,
        remove: bool = False,
        trail_keys: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        """`keys`: accept only what one of them has signed. `remove`: remove parcels that the replica has durably. `trail_keys`:
        places of keys of an encrypted trail, the present one first, beside those that are noted at the replica; with any,
        accept only what one of them has sealed. Raises TrailLocked, ParcelRefused for a trail that is no replica made by
        parcels, and where there is no directory."""
        parcel.numbers(directory)
        self._given = trail_keys
        self._directory, self._into, self._keys, self._remove = directory, into, keys, remove
        with writing(f"the trail {into}"):
            into.mkdir(parents=True, exist_ok=True)
        self._storage = LocalStorage(into)
        self._lock = WriterLock(into)
        try:
            self._imported = _load(self._storage)
            self._refuse_other_trail()
        except BaseException:  # whatever it was: let go, and passed on
            self._lock.close()
            raise
        self._seen: set[int] = set()
        self._clock = retention.Clock()
        for left in directory.glob(".*.gone") if remove else ():
            clear(left)

    @property
    def number(self) -> int:
        """The last parcel that the replica has, 0 for none."""
        return self._imported.number

    @property
    def has_key(self) -> bool:
        """Return whether a key is known here by which parcels are opened."""
        return bool(self._given) or trail_keys.ring(self._storage) is not None

    def had(self) -> Iterator[int]:
        """Yield the numbers of parcels in the directory that the replica has, once each. Raises ParcelRefused for one that is
        another than the one of its number that was imported."""
        for number in parcel.numbers(self._directory):
            if number > self.number or number in self._seen:
                continue
            manifest, digest = parcel.read_manifest(parcel.folder_of(self._directory, number), self._keys)
            if manifest.chain != self._imported.chain:
                return  # of an export that was begun anew: told when it is taken in
            if self._imported.known.get(str(number), digest) != digest:
                message = f"parcel {number} is another than the parcel {number} that was imported ({self._directory})"
                raise ParcelRefused(
                    message, hint="the export has written it twice: import into an empty directory anew"
                )
            self._seen.add(number)
            self._removed(number)
            yield number

    def next(self, told: Told | None = None) -> Manifest | None:
        """Take in the next parcel; return None where all that are there were taken in. Raises ParcelMissing naming one that is
        missing, or a part of it, ParcelDamaged, ParcelRefused, StorageFull: nothing of it is to be seen then."""
        number = self._due()
        if number is None:
            return None
        folder = parcel.folder_of(self._directory, number)
        manifest, digest = parcel.read_manifest(folder, self._keys)
        self._refuse_out_of_place(manifest)
        self._refuse_unsealed(manifest)
        record = self._begun(manifest)
        self._arrived(folder, manifest, told or (lambda done, total: None))
        reach("parcel.import.verified")
        self._put(manifest, record)
        self._noted(manifest, digest)
        self._seen.add(number)
        self._removed(number)
        retention.drop_old(self._into, KEPT, jump=self._clock.jump())
        load_readers.sweep(self._into)
        return manifest

    def close(self) -> None:
        self._lock.close()

    def __enter__(self) -> Importer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- may it come in ---------------------------------------------------------------------------------------------

    def _refuse_other_trail(self) -> None:
        if identities.load(self._storage) is not None and FILE not in self._storage.names():
            message = f"{self._into} is a trail that was not made by importing parcels"
            raise ParcelRefused(message, hint="import into a directory of its own")

    def _due(self) -> int | None:
        """Return the number of the next parcel, None if nothing is left. Raises ParcelMissing."""
        present = parcel.numbers(self._directory)
        if self.number and 1 in present and 1 not in self._seen:
            manifest, _ = parcel.read_manifest(parcel.folder_of(self._directory, 1), self._keys)
            if manifest.chain != self._imported.chain:
                return 1  # another export goes on, or does not
        due = self.number + 1
        if due in present:
            return due
        refuse_gap(due, [number for number in present if number > due], self._directory)
        return None

    def _refuse_unsealed(self, manifest: Manifest) -> None:
        """Refuse what nobody with the trail's key has written, where a key is known here or parcels before it were sealed."""
        ring = trail_keys.ring(self._storage)
        services = (*map(service_of, self._given), *(ring.every if ring else ()))
        is_encrypted = bool(self._given) or self._imported.sealed or (ring is not None and ring.imported is not None)
        if (manifest.seal and services) or (is_encrypted and not manifest.seal):
            parcel_seals.check(manifest, services)
        if self._given:
            with writing(str(trail_keys.place(self._storage))):
                trail_keys.note_reader(self._storage, {"current": self._given[0], "former": self._given[1:]})

    def _refuse_out_of_place(self, manifest: Manifest) -> None:
        """Refuse what does not go on where the replica ends: whose it is, its chain, its sequences."""
        who = identities.load(self._storage)
        if who and who.job_uuid != manifest.job_uuid:
            message = (
                f"parcel {manifest.number} is of job {manifest.job} ({manifest.job_uuid}), the replica of {who.job}"
            )
            raise ParcelRefused(f"{message} ({who.job_uuid}, {self._into})", hint="give each trail a copy of its own")
        if manifest.trail_format > NEWEST:
            message = (
                f"parcel {manifest.number} has format {manifest.trail_format} of trails, this release knows {NEWEST}"
            )
            raise TrailError(message, hint="use the release that has exported it, or a newer one")
        if manifest.number > 1 or manifest.chain == self._imported.chain:
            refuse_chain(manifest, self._imported.chain, self._imported.manifest)
        record = self._record()
        name = SegmentName.parse(manifest.segment.file) if manifest.segment else None
        is_again = name is not None and record.segment == name
        ends = record.sequence if who and (self.number or record.number) else manifest.first - 1
        if manifest.first != ends + 1 and not (is_again and manifest.last == ends):
            message = f"parcel {manifest.number} begins at sequence {manifest.first}, the replica ends at {ends}"
            hint = f"export it anew with --from {ends + 1}, or import into an empty directory"
            raise ParcelRefused(message, hint=hint)
        if name and name.number <= record.number and not is_again:
            message = f"parcel {manifest.number} has segment {name.number}, the replica has {record.number} already"
            raise ParcelRefused(
                message, hint="the trail was restored from a backup: import into an empty directory anew"
            )

    def _begun(self, manifest: Manifest) -> Record:
        """Make the replica where there is none. Returns its published end."""
        if identities.load(self._storage) is None or not (self.number or self._record().number):
            with writing("a new trail"):
                self._storage.replace(histories.FILE, b"")
                self._storage.replace(published.FILE, bytes(published.SIZE))
                self._storage.replace(FILE, Imported().to_json())
                self._storage.replace(identities.REPLICA, to_json({"version": 1, "hops": [HOP]}))
                self._publish(Record(sequence=manifest.first - 1))
                self._identify(manifest)
        return self._record()

    # --- taking it in -----------------------------------------------------------------------------------------------

    def _arrived(self, folder: Path, manifest: Manifest, told: Told) -> None:
        """Copy all files of a parcel beside the trail, durably, and verify them."""
        arriving = self._into / ARRIVING
        clear(arriving)
        free = shutil.disk_usage(self._into).free
        if free < manifest.size + RESERVE:
            message = f"parcel {manifest.number} needs {manifest.size:,} bytes, {self._into} has {free:,}"
            raise StorageFull(message, hint="make room there")
        done = 0
        with writing(f"parcel {manifest.number}"):
            reach("parcel.import.arriving")
            for file in manifest.files:
                target = arriving / file.name
                target.parent.mkdir(parents=True, exist_ok=True)
                with target.open("wb") as written:
                    for block in parcel.blocks(folder, file):
                        written.write(block)
                        done += len(block)
                        told(done, manifest.size)
                    written.flush()
                    with syncing(file.name):
                        os.fsync(written.fileno())
        self._check_contents(arriving, manifest)

    def _check_contents(self, arriving: Path, manifest: Manifest) -> None:
        """Compare what is in the files with the manifest, which may be signed by nobody."""
        storage = parcel_seals.arriving(ARRIVING, self._storage)
        is_opened = bool(trail_keys.ring(self._storage)) or not manifest.seal
        if manifest.segment:
            (_check_segment if is_opened else _check_closed_segment)(storage, manifest, manifest.segment)
        if manifest.history:
            piece = manifest.history
            data = self._history_before(manifest) + (arriving / parcel.HISTORY).read_bytes()
            place = HistoryPlace(str(arriving / parcel.HISTORY), manifest.job_uuid, storage if is_opened else None)
            if len(data) != piece.length or histories.parse(data, len(data), SchemaHistory(), place) != len(data):
                raise ParcelDamaged(f"parcel {manifest.number}: its schema history is not whole", hint="do not use it")

    def _history_before(self, manifest: Manifest) -> bytes:
        assert manifest.history
        before = read_whole(self._storage, histories.FILE)[: manifest.history.after] if manifest.history.after else b""
        if parcel.digest(before) != manifest.history.before:
            message = f"parcel {manifest.number} goes on with another schema history than the replica has"
            raise ParcelRefused(
                f"{message} ({self._into / histories.FILE})", hint="import into an empty directory anew"
            )
        return before

    def _put(self, manifest: Manifest, record: Record) -> None:
        """Give verified files their names, those first that nobody looks for before the others are there."""
        arriving = self._into / ARRIVING
        if number_of(self._storage, f"{ARRIVING}/{KEYS}") < number_of(self._storage, KEYS):
            (arriving / KEYS).unlink(missing_ok=True)  # of a trail that was put back: what is here opens more
        with writing(f"the trail {self._into}"):
            if manifest.seal and manifest.segment:
                trail_keys.note_imported(self._storage, _record_of(manifest, record).number)
            for file in sorted(manifest.files, key=lambda one: parcel.load_order(one.name)):
                if file.name != parcel.HISTORY and (arriving / file.name).exists():
                    self._storage.make_folder(os.path.dirname(file.name))
                    os.replace(arriving / file.name, self._into / file.name)
                    sync_folder((self._into / file.name).parent)
            reach("parcel.import.placed")
            if manifest.history:
                self._write_history(manifest, (arriving / parcel.HISTORY).read_bytes())
            self._identify(manifest)
            reach("parcel.import.history")
            self._publish(_record_of(manifest, record))
        reach("parcel.import.published")
        clear(arriving)

    def _write_history(self, manifest: Manifest, lines: bytes) -> None:
        assert manifest.history
        if not manifest.history.after:
            self._storage.replace(histories.FILE, lines)
            return
        file = self._storage.reopen(histories.FILE)
        try:
            file.write_at(manifest.history.after, [lines])
            with syncing(histories.FILE):
                file.sync()
        finally:
            file.close()

    def _identify(self, manifest: Manifest) -> None:
        found = Identity(
            manifest.job, manifest.job_uuid, manifest.source_identity, manifest.trail_format, manifest.logs_cascades
        )
        if found != identities.load(self._storage):
            identities.save(self._storage, found)

    def _record(self) -> Record:
        try:
            cell = published.opened(self._storage)
        except TrailCorrupt:
            return Record()
        try:
            return published.read(cell)
        finally:
            cell.close()

    def _publish(self, record: Record) -> None:
        cell = self._storage.reopen(published.FILE)
        try:
            published.write(cell, record._replace(version=record.version + 1))
            with syncing(published.FILE):
                cell.sync()  # parcels are removed after it
        finally:
            cell.close()

    def _noted(self, manifest: Manifest, digest: str) -> None:
        self._imported = self._imported.with_one(manifest, digest)
        with writing(FILE):
            self._storage.replace(FILE, self._imported.to_json())
        reach("parcel.import.noted")

    def _removed(self, number: int) -> None:
        """Remove a parcel that was imported, if asked to. It loses its name first: what a kill leaves is not taken for one."""
        if not self._remove:
            return
        folder = parcel.folder_of(self._directory, number)
        gone = self._directory / f".{folder.name}.gone"
        with writing(f"parcel {number}"):
            clear(gone)
            os.rename(folder, gone)
        reach("parcel.import.removing")
        clear(gone)


def verify(
    directory: Path,
    keys: Verifier | None,
    told: Callable[[Manifest], None],
    trail_keys: Sequence[Mapping[str, Any]] = (),
) -> None:
    """Read all parcels of a directory and compare every digest, and seals if keys of the trail are given. Raises the first
    thing that is wrong: ParcelMissing, ParcelDamaged, ParcelRefused, TrailKeyMissing."""
    services = tuple(map(service_of, trail_keys))
    before: tuple[Manifest, str] | None = None
    present = parcel.numbers(directory)
    for number in present:
        folder = parcel.folder_of(directory, number)
        manifest, digest = parcel.read_manifest(folder, keys)
        if before is not None:
            refuse_gap(before[0].number + 1, [number] if number > before[0].number + 1 else [], directory)
            refuse_chain(manifest, before[0].chain, before[1])
            if manifest.first != before[0].last + 1:
                message = (
                    f"parcel {number} begins at sequence {manifest.first}, the one before ends at {before[0].last}"
                )
                raise ParcelRefused(message, hint="do not use it")
        if services:
            parcel_seals.check(manifest, services)
        for file in manifest.files:
            parcel.check_file(folder, file)
        before = manifest, digest
        told(manifest)


def refuse_gap(due: int, later: list[int], directory: Path) -> None:
    """Raise ParcelMissing if there are later parcels than the one that is due."""
    if later:
        gone = f"parcel {due} is" if later[0] == due + 1 else f"parcels {due} to {later[0] - 1} are"
        message = f"{gone} missing, parcel {later[0]} is there ({directory})"
        raise ParcelMissing(message, hint="bring it; later ones wait for it")


def refuse_chain(manifest: Manifest, chain: str, previous: str) -> None:
    """Raise ParcelRefused for a parcel that does not follow the one with this digest."""
    if manifest.chain != chain:
        message = f"parcel {manifest.number} is of another export than the parcels before it"
        raise ParcelRefused(message, hint="bring the parcels of one export; another one begins with its parcel 1")
    if manifest.previous != previous:
        message = f"parcel {manifest.number} does not follow this parcel {manifest.number - 1}: its digest is another"
        raise ParcelRefused(message, hint="one of the two was changed, or written twice: do not use it")


def _load(storage: LocalStorage) -> Imported:
    try:
        found = json.loads(read_whole(storage, FILE))
        del found["version"]
        return Imported(**found)
    except FileNotFoundError:
        return Imported()
    except (ValueError, KeyError, TypeError) as error:
        hint = "restore it from a backup of the replica, or import into an empty directory anew"
        raise TrailCorrupt(f"{storage.path(FILE)} cannot be read: {error}", hint=hint) from None


def _check_segment(storage: LocalStorage, manifest: Manifest, place: SegmentPlace) -> None:
    """Compare a segment with its name and with the manifest. Its bytes are those of the digest already."""
    name = SegmentName.parse(place.file)
    assert name
    segment = SegmentReader(storage, place.file)
    try:
        header = segment.header()
        found = [header.get(key) for key in ("job_uuid", "number", "epoch", "next", "fragments")]
        wanted = [manifest.job_uuid, name.number, name.epoch, manifest.first, 0]
        segment.index.complete(None)
        last = segment.index.lasts[-1] if segment.index.lasts else manifest.first - 1
        if found != wanted or name.next != manifest.first or last != manifest.last:
            raise ParcelDamaged(
                f"parcel {manifest.number}: {place.file} is not as its manifest says", hint="do not use it"
            )
        end_at(segment, _record_of(manifest, Record(sequence=manifest.last)))
    finally:
        segment.close()


def _check_closed_segment(storage: LocalStorage, manifest: Manifest, place: SegmentPlace) -> None:
    """Compare a segment that cannot be opened here with its name and the manifest, by what is readable of its frames."""
    name = SegmentName.parse(place.file)
    assert name
    segment = SegmentReader(storage, place.file)
    try:
        header, walk = segment.header(), Walk(manifest.first - 1)
        walk.enter(name, True, storage.directory)
        for offset, frame, _ in segment.frames_as_written(0, segment.size()):
            walk.take(segment, name, offset, frame)
        ends = (walk.place.frame, walk.place.end) if walk.place else ()
        found = [header.get(key) for key in ("job_uuid", "number", "epoch", "next", "fragments")]
        wanted = [manifest.job_uuid, name.number, name.epoch, manifest.first, 0]
        if (found, walk.sequence, ends) != (wanted, manifest.last, (place.frame, place.end)):
            raise ParcelDamaged(
                f"parcel {manifest.number}: {place.file} is not as its manifest says", hint="do not use it"
            )
    finally:
        segment.close()


def _record_of(manifest: Manifest, before: Record) -> Record:
    """Return the published end behind a parcel."""
    history = manifest.history.length if manifest.history else before.history
    if manifest.segment is None:
        return before._replace(history=history)
    name = SegmentName.parse(manifest.segment.file)
    assert name
    place = {"number": name.number, "epoch": name.epoch, "next": name.next, "fragments": name.fragments}
    place |= {"frame": manifest.segment.frame, "end": manifest.segment.end}
    return before._replace(sequence=manifest.last, history=history, **place)
