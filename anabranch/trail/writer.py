"""Writing the trail: append, group commit, publish. Capture's side; the other is `reader.py`.

Frames go to the file as they come; `flush` makes them durable and only then moves the published end, the only limit
for readers. Bytes after it are not published: a crash may leave anything there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from anabranch.errors import StorageFull, TrailError, TrailOvertaken
from anabranch.failpoints import reach
from anabranch.model.column_changes import NOTHING_UNTOLD, Untold
from anabranch.model.ids import TableId
from anabranch.model.position import LogMark, Position
from anabranch.model.schema import TableSchema
from anabranch.rows.chunk import Chunk, Part, TableRows
from anabranch.trail import divided, keys, load_keeping, load_readers, published, retention
from anabranch.trail import identity as identities
from anabranch.trail.codec import TableFrame, has_dictionaries, last_place
from anabranch.trail.failures import syncing, writing
from anabranch.trail.fencing import Fenced, shut_out
from anabranch.trail.format import ENCRYPTED, FORMAT, SegmentName
from anabranch.trail.history import FILE as HISTORY
from anabranch.trail.history import Entry, SchemaHistory, line_of
from anabranch.trail.identity import Identity
from anabranch.trail.lease import Lease, writing_right
from anabranch.trail.lock import WriterLock, maintenance
from anabranch.trail.open_staging import OpenStaging
from anabranch.trail.pack import Packer
from anabranch.trail.published import Record, TrailEnd
from anabranch.trail.recovery import Recovered, recover
from anabranch.trail.sealed_history import LineSealer
from anabranch.trail.segment import SegmentWriter
from anabranch.trail.staging import Staging
from anabranch.trail.storage import LocalStorage, Storage

__all__ = ["TrailEnd", "TrailWriter"]

KEPT = retention.RetentionLimits(24 * 3600)


@dataclass(frozen=True, slots=True)
class _Place:
    """After a whole chunk or heartbeat: what will be published, and where its frame is."""

    end: TrailEnd
    record: Record


class TrailWriter:
    """The one writer of a trail. Not for several threads.

    Delivery: what `flush` has published stays, in this order, under these sequences; what it has not is gone after a
    crash or stays, but whole transactions only, and `end` says which."""

    def __init__(
        self,
        directory: Path,
        storage: Storage,
        lock: WriterLock | Lease,
        who: Identity,
        recovered: Recovered,
        limits: tuple[int, retention.RetentionLimits],
        packer: Packer | None,
    ) -> None:
        self.directory = directory
        self._storage, self._lock, self._identity = storage, lock, who
        self._segment_bytes, self._limits = limits
        self.bytes_written = 0  # frames, since it was opened
        self._clock = retention.Clock()
        self._history, self._history_length = recovered.history, recovered.history_length
        self._history_file, self._sealer = storage.reopen(HISTORY), LineSealer(storage)
        self._cell = storage.reopen(published.FILE)
        self._epoch, self._number = recovered.epoch, recovered.next_number
        self._published = self._appended = _Place(recovered.end, recovered.record)
        self._history_published = recovered.history_length
        self._segment: SegmentWriter | None = None
        self._fragments = 0
        self._failed = False
        self._packer = packer
        self.staging = Staging(storage, self._table_frame, recovered.end.resume)
        self.open_staging = OpenStaging(storage, self._table_frame)

    @classmethod
    def open(
        cls,
        directory: str | Path,
        *,
        job: str,
        job_uuid: str,
        source_identity: str,
        segment_bytes: int = 64 * 1024 * 1024,
        limits: retention.RetentionLimits = KEPT,
        lock_timeout: float = 0.0,
        lock: WriterLock | Lease | None = None,
        storage: Storage | None = None,
        pack: bool = True,
        encrypt: Mapping[str, Any] | None = None,
    ) -> TrailWriter:
        """Take the lock, make or recover the trail. `lock`: the caller's, which is given up with the writer, or if this fails;
        `encrypt`: the places of its keys (keys.py, `save`).

        Raises TrailLocked (with pid and host of the other writer, after `lock_timeout` seconds), StateError (another job's or
        source's trail, or an encrypted one without `encrypt`), TrailError (newer format), TrailCorrupt, TrailKeyMissing."""
        directory = Path(directory)
        with writing(f"the trail {directory}"):
            directory.mkdir(parents=True, exist_ok=True)
        storage = storage or LocalStorage(directory)
        lock = lock or writing_right(directory, lock_timeout)
        try:
            identities.refuse_replica(storage)
            if isinstance(lock, Lease):
                storage = Fenced(storage, lock)
                shut_out(storage)
            is_encrypted = bool(encrypt and encrypt.get("current"))
            who = _identify(storage, Identity(job, job_uuid, source_identity, ENCRYPTED if is_encrypted else FORMAT))
            reach("trail.encryption")
            with writing(keys.FILE), maintenance(directory):
                keys.save(storage, encrypt)
            recovered = recover(directory, storage, lock.epoch)
            packer = Packer(directory) if pack else None
            writer = cls(directory, storage, lock, who, recovered, (segment_bytes, limits), packer)
            writer._publish(writer._appended)
            if isinstance(lock, Lease):
                writer._begin_epoch()
            load_keeping.begin(directory, limits)
        except BaseException:  # whatever it was: let go, and passed on
            lock.close()
            raise
        return writer

    @property
    def job_uuid(self) -> str:
        return self._identity.job_uuid

    @property
    def end(self) -> TrailEnd:
        """The last published place: where reading the source's log resumes after a start."""
        return self._published.end

    @property
    def appended(self) -> TrailEnd:
        """The last whole place appended: ahead of `end` until the next flush."""
        return self._appended.end

    @property
    def history(self) -> SchemaHistory:
        """History with what was added since the last flush."""
        return self._history

    @property
    def next_sequence(self) -> int:
        """Sequence of the next transaction, or of the large one whose fragments are being written."""
        return self._appended.end.position.sequence + 1

    def append(self, chunk: Chunk) -> Chunk:
        """Write a chunk and return it with its sequence. A FRAGMENT is not part of the trail before its LAST is;
        nothing is before `flush`. Raises StorageFull: nothing of the chunk counts, append it again when there is
        room."""
        self._refuse_out_of_order(chunk)
        chunk = replace(chunk, first_sequence=self.next_sequence)
        segment = self._writable_segment()
        frame = self._written(segment, lambda: segment.chunk(chunk, self._fragments, self._table_frame))
        if chunk.part is Part.FRAGMENT:
            self._fragments += 1
        else:
            self._fragments = 0
            native, committed = last_place(chunk)
            self._appended = self._place(segment, frame, chunk.last_sequence, LogMark(native, chunk.resume, committed))
        if segment.offset >= self._segment_bytes:
            self._seal()
        return chunk

    def heartbeat(self, mark: LogMark) -> None:
        """Note that the source's log was read up to `mark` without transactions of ours: the position moves on, the
        sequence stays.

        The first heartbeat of a new trail is where it starts.
        """
        end = self._appended.end
        if (mark.native, mark.resume) == (end.position.native, end.resume):
            return
        if self._fragments:
            raise TrailError("a heartbeat inside a transaction", hint="report this: capture must not do it")
        segment = self._writable_segment()
        committed = mark.commit_time or end.commit_time
        frame = self._written(segment, lambda: segment.heartbeat(mark.native, mark.resume, committed))
        self._appended = self._place(segment, frame, end.position.sequence, replace(mark, commit_time=committed))

    def refuse_overtaken(self) -> None:
        """Raise TrailOvertaken where another capture has taken a shared trail over: nothing may be done for it any more."""
        try:
            self._lock.refuse_overtaken()
        except TrailOvertaken:
            self._failed = True
            raise

    def rewind(self) -> TrailEnd:
        """Begin again after the source's line was lost or the disk was full: fragments of an unfinished transaction are
        forgotten, and so is what was noted for a chunk that was not appended (parked, joined: the log brings the event
        again). Returns the last whole place appended, just after which the log has to be read again."""
        self._fragments = 0
        self.staging.abandon()
        sequence = self._appended.end.position.sequence
        if self._history.has_void(sequence):
            self._note(Entry("recovered", sequence))
        return self._appended.end

    def schema(self, table_schema: TableSchema, *, joined: bool = False) -> None:
        """Put a definition in force from the next sequence on: durable before the trail has that sequence.

        `joined`: the table joins with the next chunk, which carries its SCHEMA barrier, and is not parked any more.
        """
        latest = self._history.latest(table_schema.id)
        if latest == table_schema and not joined:
            return
        if latest and latest.version >= table_schema.version and latest != table_schema:
            raise TrailError(
                f"version {table_schema.version} of the definition is not newer than {latest.version}",
                table=str(table_schema.id),
            )
        self._note(Entry("schema", self.next_sequence, schema=table_schema, joined=joined))

    def alter(self, table_schema: TableSchema, statement: str, at: str = "", untold: Untold = NOTHING_UNTOLD) -> None:
        """Put the next definition of a table that goes on in force with the next chunk, which carries its ALTER barrier.

        As `park`, it is taken back if that chunk never gets into the trail. `at`: where the transaction is committed that
        alters the table, if that chunk is put just before it.
        """
        entry = Entry("schema", self.next_sequence, schema=table_schema, statement=statement, altered=True)
        latest = self._history.latest(table_schema.id) if untold.rows_went else None
        if latest is not None and (change := divided.change_of_version(latest, table_schema)):
            entry = replace(
                entry, table=table_schema.id, schema=None, parts=change
            )  # all else would be written once more
        told = {name: getattr(untold, name) for name in ("renamed", "swapped", "created", "dropped", "rows_went")}
        self._note(replace(entry, at=at, **told))

    def copy(
        self,
        table: TableId,
        schema: TableSchema | None,
        at: str,
        filled: tuple[tuple[str, str], ...] = (),
        reason: str = "",
    ) -> None:
        """Note what is known of a copy that a tool makes of a table, behind a statement at the native position `at`: how the
        table will be defined once the copy comes in for it, and why it may not, "" where it may. None: it is no copy any
        more."""
        self._note(Entry("copy", self.next_sequence, table, schema, reason=reason, at=at, filled=filled))

    def divide(self, table_schema: TableSchema) -> None:
        """Note which partitions a table has, by its definition in force, which stays as it is beside them."""
        latest = self._history.followed(table_schema.id)
        if latest is None or latest.version != table_schema.version:
            return
        if change := divided.change(latest, table_schema.partitions):
            self._note(Entry("parts", self.next_sequence, table_schema.id, statement=change))

    def park(self, table: TableId, reason: str, statement: str = "") -> None:
        """Park a table from the next chunk on, which carries its PARK barrier.

        If that chunk never gets into the trail, the table is not parked after a restart either.
        """
        self._note(Entry("park", self.next_sequence, table=table, reason=reason, statement=statement))

    def adopt_identity(self, source_identity: str) -> None:
        """Note that the source is another server from here on. Capture has checked that it contains all that the trail
        has (K18).
        """
        if source_identity == self._identity.source_identity:
            return
        self.flush()
        self._seal()
        former = self._identity.source_identity
        self._note(Entry("source", self.next_sequence, reason=source_identity, statement=former))
        self.flush()
        self._save(replace(self._identity, source_identity=source_identity))

    @property
    def logs_cascades(self) -> bool:
        """Return what was noted of this source; False where nobody has."""
        return bool(self._identity.logs_cascades)

    def note_cascades(self, are_logged: bool) -> None:
        """Note whether the source logs what foreign keys do, for readers that ask while the source is away (K1)."""
        if are_logged != self._identity.logs_cascades:
            self._save(replace(self._identity, logs_cascades=are_logged))

    def _save(self, changed: Identity) -> None:
        with writing(identities.FILE):
            identities.save(self._storage, changed)
        self._identity = changed

    def flush(self) -> None:
        """Make everything appended durable and publish it: one fsync, two where definitions changed. A failed fsync
        raises TrailError and ends this writer: its process has to end. So does TrailOvertaken, before or behind what it has
        done: what this returns for is in the trail for every later writer."""
        self._refuse_failed()
        self.refuse_overtaken()
        place = self._appended
        moved, noted = place is not self._published, self._history_length != self._history_published
        if not moved and not noted:
            return
        if noted:
            self._sync(self._history_file.sync, HISTORY)
            reach("trail.history.synced")
        if moved and self._segment and place.record.segment == self._segment.name:
            self._sync(self._segment.sync, str(self._segment.name))
        reach("trail.synced")
        self._put_back()
        self._publish(place)
        self.refuse_overtaken()  # whoever has claimed the trail behind this look finds what was written before it
        reach("trail.published")
        if self._segment and self._segment.has_former_key():
            self._seal()
        if self._packer:
            self._packer.tick()

    def drop_old(self) -> list[str]:
        """Drop the segments and the files of loads that nobody needs any more (K12). Returns the segments' names."""
        jump = self._clock.jump()
        load_keeping.tend(Path(self.directory), self._limits)
        load_readers.sweep(Path(self.directory))
        return retention.drop_old(self.directory, self._limits, jump=jump, storage=self._storage)

    def close(self) -> None:
        """Flush, unless a failure came before, and let the next writer in."""
        try:
            if not self._failed:
                self.flush()
        finally:
            if self._packer:
                self._packer.stop()
            for closable in (self._segment, self._history_file, self._cell, self._lock):
                if closable:
                    closable.close()

    def __enter__(self) -> TrailWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _begin_epoch(self) -> None:
        """Begin a segment at once, and publish the end in it: a former writer of a shared trail can bring in no other one of
        its number. A trail that has not begun has no place for it, one without room gets it with what comes first."""
        end = self._published.end
        if not end.resume:
            return
        with suppress(StorageFull):
            segment = self._writable_segment()
            frame = self._written(segment, lambda: segment.heartbeat(end.position.native, end.resume, end.commit_time))
            mark = LogMark(end.position.native, end.resume, end.commit_time)
            self._appended = self._place(segment, frame, end.position.sequence, mark)
            self.flush()

    # --- segments ---------------------------------------------------------------------------------------------------

    def _writable_segment(self) -> SegmentWriter:
        self._refuse_failed()
        if self._segment is None:
            name = SegmentName(self._number, self._epoch, self.next_sequence, self._fragments)
            with writing(f"segment {name}"):
                self._segment = SegmentWriter(self._storage, str(name), name, self._header(name))
            self._number += 1
            reach("trail.segment.opened")
        return self._segment

    def _header(self, name: SegmentName) -> dict[str, object]:
        end = self._appended.end
        who = asdict(self._identity)
        del who["logs_cascades"]  # of the server as it is now, not of the segment
        return who | {
            "number": name.number,
            "epoch": name.epoch,
            "next": name.next,
            "fragments": name.fragments,
            "native": end.position.native,
            "resume": end.resume,
            "created": time.time(),
        }

    def _seal(self) -> None:
        """Write the index, fsync and close; the next append starts a new segment."""
        segment = self._segment
        if segment is None:
            return
        with suppress(OSError):  # without room for the index readers do without it
            reach("trail.segment.sealing")
            segment.seal()
        self._leave(segment)
        reach("trail.segment.sealed")
        if self._packer:
            self._packer.offer(len(segment.offsets), segment.rows, segment.offset)
        with suppress(StorageFull):  # what was appended counts, and the next seal tries this again
            self.drop_old()

    def _leave(self, segment: SegmentWriter) -> None:
        self._sync(segment.sync, str(segment.name))
        segment.close()
        self._segment = None

    def _written(self, segment: SegmentWriter, write: Callable[[], int]) -> int:
        """Write a frame. A write that fails leaves torn bytes: the segment ends before them, the next append starts a
        new one.
        """
        try:
            with writing(f"segment {segment.name}"):
                reach("trail.frame")
                before = segment.offset
                frame = write()
                self.bytes_written += segment.offset - before
                reach("trail.frame.written")
                return frame
        except TrailError as error:
            if isinstance(error.__cause__, OSError):
                self._leave(segment)
            raise
        except KeyboardInterrupt:
            self._failed = True
            raise

    def _table_frame(self, rows: TableRows) -> TableFrame:
        """Return the schema frame of a chunk's table. Raises TrailError if its version is not in the history (K19).

        Without it the chunk would be unreadable after a change of the definition.
        """
        try:
            table = self._history.at(rows.table, rows.version)
        except KeyError:
            raise TrailError(
                f"version {rows.version} of the definition is not in the schema history", table=str(rows.table)
            ) from None
        if has_dictionaries(rows.batch.schema):
            raise TrailError("dictionary-encoded columns cannot be written to the trail", table=str(rows.table))
        return TableFrame(table, rows.batch.schema)

    # --- places and publication -------------------------------------------------------------------------------------

    def _place(self, segment: SegmentWriter, frame: int, sequence: int, mark: LogMark) -> _Place:
        name = segment.name
        record = Record(0, name.number, name.epoch, name.next, name.fragments, frame, segment.offset, sequence)
        return _Place(TrailEnd(Position(sequence, mark.native), mark.resume, mark.commit_time), record)

    def _publish(self, place: _Place) -> None:
        """Publish a place, after its fsync. Versions of a later writer are larger, even if the record was lost."""
        version = (
            max(self._published.record.version, self._published.end.version, self._epoch << published.WRITER_SHIFT) + 1
        )
        record = place.record._replace(version=version, history=self._history_length)
        with writing("the published end"):
            reach("trail.publish")
            published.write(self._cell, record)
        self._published = self._appended = _Place(replace(place.end, version=version), record)
        self._history_published = self._history_length

    def _note(self, entry: Entry) -> None:
        self._refuse_failed()
        line = line_of(self._sealer.text(entry.to_text(), self._history_length))
        with writing("the schema history"):
            self._history_file.write_at(self._history_length, [line])
            reach("trail.history.noted")
        self._history_length += len(line)
        self._history.add(entry)

    def _put_back(self) -> None:
        """Put back what a former writer of a shared trail has replaced in its last step."""
        if isinstance(self._storage, Fenced):
            with writing("files of a shared trail"):
                self._storage.put_back()

    def _sync(self, sync: Callable[[], None], what: str) -> None:
        try:
            with syncing(what):
                sync()
        except TrailError:
            self._failed = True
            raise

    # --- refusals ---------------------------------------------------------------------------------------------------

    def _refuse_failed(self) -> None:
        if self._failed:
            self._lock.refuse_overtaken()
            raise TrailError(
                "an fsync failed before", hint="end this process; a new one continues at the published end"
            )

    def _refuse_out_of_order(self, chunk: Chunk) -> None:
        if chunk.part is Part.WHOLE and self._fragments:
            raise TrailError("a whole chunk inside a large transaction", hint="report this: capture must not do it")
        if chunk.part is not Part.WHOLE and chunk.transactions.num_rows != 1:
            raise TrailError(f"a fragment with {chunk.transactions.num_rows} transactions, not one")
        if not chunk.transactions.num_rows:
            raise TrailError("a chunk without transactions", hint="report this: capture must use a heartbeat")


def _identify(storage: Storage, ours: Identity) -> Identity:
    found = identities.load(storage)
    if found is None:
        with writing("a new trail"):
            storage.replace(published.FILE, bytes(published.SIZE))
            storage.replace(HISTORY, Entry("job", 0, reason=ours.job_uuid).to_line())
            identities.save(storage, ours)
        return ours
    identities.refuse_mismatch(found, ours)
    if (
        found.format < ours.format
    ):  # before anything of the new format: releases that do not know it refuse the trail from here on
        with writing(identities.FILE):
            found = replace(found, format=ours.format)
            identities.save(storage, found)
    return found
