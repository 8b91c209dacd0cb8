"""Schema history: which definition of a table was valid from which sequence on, and which tables are parked.

A file of lines beside the segments, each with its checksum. What goes into effect together with a transaction (a table
parked, a table joined) holds only once the trail has that transaction: after a crash in between, the next writer takes
the line back with a `recovered` line, and the source's log brings the event again.
"""

from __future__ import annotations

import json
import re
import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from anabranch.errors import TrailCorrupt
from anabranch.model.ids import TableId
from anabranch.trail.format import to_json
from anabranch.trail.sealed_history import SEALED, LineOpener
from anabranch.trail.sealing import Tampered
from anabranch.trail.storage import read_whole

if TYPE_CHECKING:
    from anabranch.model.schema import TableSchema
    from anabranch.trail.storage import Storage

FILE = "history"
RESTORE = (
    "anabranch schema import FILE JOB puts one back that anabranch schema export has written, or restore the file from a backup"
    " of the trail; without either, anabranch schema rebuild JOB, where the targets have all of the trail, or load again"
)
NEWER = "use the release that wrote it, or restore the file from a backup of the trail"
_RARE = (
    "joined", "reason", "statement", "altered", "at", "renamed", "filled", "swapped", "created", "dropped", "rows_went",
    "parts",
)  # fmt: skip
_ID = re.compile(rb'"id":\{"schema":"((?:[^"\\]|\\.)*)","name":"((?:[^"\\]|\\.)*)"')
_TABLE = re.compile(rb'"table":"((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True, slots=True)
class Entry:
    """kind: `job` (whose history this is: `reason` is the job's uuid), `schema` (a definition; `joined`: the table joins or
    joins again, no longer parked; `altered`: the table goes on, altered by `statement`, or by the transaction that was
    committed `at` a place of the log, before which the entry stands; `renamed`: former and next names of its columns;
    `swapped`: a copy came in for it; `created`: `statement` made it; `dropped`: `statement` has taken the table away, and the
    definition is one that no row has; `rows_went`: rows went with a partition, and the definition stayed; `parts`: in a
    line in place of the definition, what became of the partitions of the version before, by divided.change), `copy` (`table`
    is a copy that a tool makes, of the table in `schema`, which says how that will be defined once the copy comes in;
    `filled` as in Untold; `reason`: why it may not come in, "" where it may; `at`: the place of the last statement about
    it; it is no copy any more without a schema, nor once its table is swapped, parked, or joins), `parts` (`statement`: what
    has become of the partitions of a `table`, by divided.change, whose definition stays as it is: a release of before that
    passes over the kind reads the line), `park`, `source` (another server from
    here on) or `recovered` (the trail ended at `sequence`). Otherwise `sequence` is the first transaction for
    which it holds."""

    kind: str
    sequence: int
    table: TableId | None = None
    schema: TableSchema | None = None
    joined: bool = False
    reason: str = ""
    statement: str = ""
    altered: bool = False
    at: str = ""
    renamed: tuple[tuple[str, str], ...] = ()
    filled: tuple[tuple[str, str], ...] = ()
    swapped: bool = False
    created: bool = False
    dropped: bool = False
    rows_went: bool = False
    parts: str = ""

    def is_void_after(self, end: int) -> bool:
        """Return whether a trail that ends at `end` does not know the entry.

        A plain definition holds from the next sequence on, also before that sequence exists.
        """
        with_transaction = self.kind == "park" or self.joined or self.altered
        return self.sequence > end if with_transaction else self.sequence > end + 1

    def to_line(self) -> bytes:
        return line_of(self.to_text())

    def to_text(self) -> bytes:
        data: dict[str, Any] = {"kind": self.kind, "sequence": self.sequence}
        if self.table:
            data["table"] = str(self.table)
        if self.schema:
            data["schema"] = self.schema.to_json()
        data |= {name: value for name in _RARE if (value := getattr(self, name))}
        return to_json(data)

    @classmethod
    def from_line(cls, line: bytes) -> Entry | None:
        """Parse a line. Returns None for one that is torn or damaged."""
        if not _is_whole(line):
            return None
        return cls.from_facts(json.loads(line[9:]))

    @classmethod
    def from_facts(cls, data: dict[str, Any]) -> Entry:
        """Return what a line says. Raises KeyError, TypeError, ValueError."""
        table = TableId.parse(data.pop("table")) if "table" in data else None
        schema = _definition(data.pop("schema")) if "schema" in data else None
        renamed, filled = (tuple((one, other) for one, other in data.pop(name, ())) for name in ("renamed", "filled"))
        return cls(**data, table=table, schema=schema, renamed=renamed, filled=filled)


def _definition(found: dict[str, Any]) -> TableSchema:
    from anabranch.model.schema import TableSchema  # most readers of a trail's end read no history

    return TableSchema.from_json(found)


CLOSED = Entry("sealed", 0)  # a line that is not opened


def line_of(text: bytes) -> bytes:
    """Return a line of the file with its checksum."""
    return b"%08x %s\n" % (zlib.crc32(text), text)


class SchemaHistory:
    """The definitions and parked tables that the lines add up to. A value for readers; the writer adds to its own with
    `add`.
    """

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self._schemas: dict[TableId, list[Entry]] = {}
        self._parked: dict[TableId, Entry] = {}
        self._altered: list[int] = []  # rises
        self._copies: dict[TableId, Entry] = {}

    @property
    def names_its_job(self) -> bool:
        return any(entry.kind == "job" for entry in self.entries)

    def in_force(self) -> dict[TableId, TableSchema]:
        """Return the newest definition of every table that is not parked, and was not dropped."""
        newest = {table: entries[-1] for table, entries in self._schemas.items() if table not in self._parked}
        return {table: entry.schema for table, entry in newest.items() if entry.schema and not entry.dropped}

    def knows(self, table: TableId) -> bool:
        """Return whether there is a definition of the table, which may be parked; of one that was dropped there is none."""
        return self.latest(table) is not None and self.dropped_by(table) is None

    def dropped_by(self, table: TableId) -> Entry | None:
        """Return the entry of the statement that dropped the table, None for one that is there, or parked."""
        entries = self._schemas.get(table)
        return entries[-1] if entries and entries[-1].dropped and table not in self._parked else None

    def dropped(self) -> set[TableId]:
        """Return the tables that statements of the log have dropped, and that were not made again."""
        return {table for table in self._schemas if self.dropped_by(table)}

    def drops_at(self, sequence: int) -> bool:
        """Return whether this transaction drops tables that were followed up to there."""
        return any(entry.dropped and entry.sequence == sequence for entry in self.entries)

    def followed(self, table: TableId) -> TableSchema | None:
        """Return what `in_force` has of a table, None where it has none."""
        entries = self._schemas.get(table)
        return entries[-1].schema if entries and table not in self._parked and not entries[-1].dropped else None

    def parked(self) -> dict[TableId, str]:
        """Return parked tables with the reason."""
        return {table: entry.reason for table, entry in self._parked.items()}

    def parked_by(self, table: TableId) -> Entry | None:
        """Return the entry that parked the table, with statement and sequence."""
        return self._parked.get(table)

    def copies(self) -> dict[TableId, Entry]:
        """Return the copies that tools make of tables as they are now, by the copies' own names. One that is swapped, parked
        or brought in again has none until another is made."""
        return dict(self._copies)

    def joined_after(self, table: TableId, sequence: int) -> bool:
        """Return whether the table was brought in again after `sequence`."""
        return any(entry.joined and entry.sequence > sequence for entry in self._schemas.get(table, []))

    def altered_between(self, after: int, upto: int) -> list[int]:
        """Return the transactions behind `after` up to `upto` that alter tables which go on, in their order."""
        start, stop = bisect_right(self._altered, after), bisect_right(self._altered, upto)
        return self._altered[start:stop]

    def altered_since(self, table: TableId, version: int, upto: int) -> bool:
        """Return whether a transaction up to `upto` altered the table, which went on, to a later version than this."""
        return bool(self.alterations(table, version, upto))

    def alterations(self, table: TableId, version: int, upto: int) -> list[Entry]:
        """Return what altered the table, which went on, to later versions than this, in transactions up to `upto`."""
        entries = [e for e in self._schemas.get(table, []) if e.altered and e.sequence <= upto]
        return [e for e in entries if e.schema and e.schema.version > version]

    def leaves(self, table: TableId, version: int, after: int) -> bool:
        """Return whether a table that is by this version at `after` has got a later one, other than by transactions behind
        `after` that altered it while it went on."""
        later = [e for e in self._schemas.get(table, []) if e.schema and e.schema.version > version]
        return any(not e.altered or e.dropped or e.sequence <= after for e in later)

    def altering(self) -> set[str]:
        """Return the places where transactions were committed that alter tables which go on."""
        return {e.at for entries in self._schemas.values() for e in entries if e.altered and e.at}

    def altered_at(self, native: str) -> dict[TableId, list[TableSchema]]:
        """Return the tables that the transaction which was committed there alters, and that go on, with the definitions that
        they had before, in their order."""
        found: dict[TableId, list[TableSchema]] = {}
        for table, entries in self._schemas.items():
            at_once = [e.schema for e in entries if e.schema and e.altered and e.at == native]
            if former := [one for schema in at_once if (one := self.before(schema))]:
                found[table] = former
        return found

    def of(self, table: TableId) -> list[Entry]:
        """Return the entries of a table's definitions, in their order."""
        return list(self._schemas.get(table, []))

    def latest(self, table: TableId) -> TableSchema | None:
        """Return the newest definition, also of a parked table: the next one gets its version + 1."""
        entries = self._schemas.get(table)
        return entries[-1].schema if entries else None

    def before(self, schema: TableSchema) -> TableSchema | None:
        """Return the definition that this version followed, None where there was none."""
        entries = self._schemas.get(schema.id, [])
        return next((e.schema for e in reversed(entries) if e.schema and e.schema.version < schema.version), None)

    def renamed(self, schema: TableSchema) -> dict[str, str]:
        """Return the columns that had another name in the version before: former -> next."""
        entries = self._schemas.get(schema.id, [])
        return next((dict(e.renamed) for e in entries if e.schema and e.schema.version == schema.version), {})

    def created_until(self, sequence: int) -> list[Entry]:
        """Return the tables that statements of the log made, in transactions up to this one, and have not dropped again."""
        last = {
            e.schema.id: e for e in self.entries if e.schema and (e.created or e.dropped) and e.sequence <= sequence
        }
        return [entry for entry in last.values() if entry.created]

    def was_dropped(self, schema: TableSchema) -> bool:
        """Return whether this version of a table stands for none: a statement of the log has dropped it."""
        return any(
            e.dropped and e.schema and e.schema.version == schema.version for e in self._schemas.get(schema.id, [])
        )

    def was_made(self, schema: TableSchema) -> bool:
        """Return whether a statement of the log made the table that has this version, and nobody has loaded it since."""
        entries = [e for e in self._schemas.get(schema.id, []) if e.schema and e.schema.version <= schema.version]
        return next((e.created and not e.joined for e in reversed(entries) if e.created or e.joined), False)

    def was_created(self, schema: TableSchema) -> bool:
        """Return whether a statement of the log made the table, as this version."""
        return any(
            e.created and e.schema and e.schema.version == schema.version for e in self._schemas.get(schema.id, [])
        )

    def was_swapped(self, schema: TableSchema) -> bool:
        """Return whether this version of a table is a copy that came in for the one before."""
        return any(
            e.swapped and e.schema and e.schema.version == schema.version for e in self._schemas.get(schema.id, [])
        )

    def lost_rows(self, schema: TableSchema) -> bool:
        """Return whether this version of a table stands for a partition that went with its rows."""
        return any(
            e.rows_went and e.schema and e.schema.version == schema.version for e in self._schemas.get(schema.id, [])
        )

    def at(self, table: TableId, version: int) -> TableSchema:
        """Return a version of a table's definition. Raises KeyError where there was never such a version."""
        for entry in reversed(self._schemas.get(table, [])):
            if entry.schema and entry.schema.version == version:
                return entry.schema
        raise KeyError(f"{table} version {version}")

    def valid_from(self, table: TableId, version: int) -> int:
        """Return the sequence from which on a version holds. KeyError as `at`."""
        for entry in self._schemas.get(table, []):
            if entry.schema and entry.schema.version == version:
                return entry.sequence
        raise KeyError(f"{table} version {version}")

    def add(self, entry: Entry) -> None:
        """Add a line. Raises KeyError, TypeError, ValueError for one that does not follow the lines before it."""
        if entry.parts:
            entry = self._with_definition(entry)
        if entry.kind == "recovered":
            self._replay([e for e in self.entries if not e.is_void_after(entry.sequence)])
        else:
            self._apply(entry)
        self.entries.append(entry)

    def copy(self) -> SchemaHistory:
        """Return a history of its own with the same entries."""
        found = SchemaHistory()
        found.entries, found._altered = list(self.entries), list(self._altered)
        found._schemas = {table: list(entries) for table, entries in self._schemas.items()}
        found._parked, found._copies = dict(self._parked), dict(self._copies)
        return found

    def has_void(self, end: int) -> bool:
        return any(e.is_void_after(end) for e in self.entries)

    def _replay(self, entries: list[Entry]) -> None:
        self.entries, self._schemas, self._parked, self._altered, self._copies = [], {}, {}, [], {}
        for entry in entries:
            self._apply(entry)
            self.entries.append(entry)

    def _apply(self, entry: Entry) -> None:
        if entry.kind == "schema" and entry.schema:
            self._schemas.setdefault(entry.schema.id, []).append(entry)
            if entry.joined:
                self._parked.pop(entry.schema.id, None)
            if entry.joined or entry.swapped or entry.dropped:
                self._forget_copies(entry.schema.id)
            if entry.altered and self._altered[-1:] != [entry.sequence]:
                self._altered.append(entry.sequence)
        elif entry.kind == "parts" and entry.table:
            self._divide(entry.table, entry.statement)
        elif entry.kind == "park" and entry.table:
            self._parked[entry.table] = entry
            self._forget_copies(entry.table)
        elif entry.kind == "copy" and entry.table:
            self._copies.pop(entry.table, None)
            if entry.schema:
                self._copies[entry.table] = entry

    def _with_definition(self, entry: Entry) -> Entry:
        """Return an entry that says of its definition only what became of the partitions, with all of it."""
        from anabranch.trail import divided  # most readers of a trail's end read no history

        latest = self.latest(entry.table) if entry.table else None
        if latest is None:
            raise ValueError("there is no definition before it")
        schema = divided.next_of(latest, entry.parts)
        return replace(entry, table=None, schema=schema, parts="")

    def _divide(self, table: TableId, change: str) -> None:
        """Give the newest definition of a table other partitions; it is the same beside them."""
        from anabranch.trail import divided  # most readers of a trail's end read no history

        entries = self._schemas.get(table)
        if entries and (latest := entries[-1].schema):
            entries[-1] = replace(entries[-1], schema=divided.changed(latest, change))

    def _forget_copies(self, of: TableId) -> None:
        self._copies = {copy: e for copy, e in self._copies.items() if e.schema is None or e.schema.id != of}


@dataclass(frozen=True, slots=True)
class HistoryPlace:
    """The file, for messages, and the job whose history it has to be ("": of any). `storage`: of the trail, by whose key lines
    are opened; without it sealed lines count as whole and say nothing."""

    path: str = FILE
    job_uuid: str = ""
    storage: Storage | None = None


def read(storage: Storage) -> bytes:
    """Read the file, which every trail has. Raises TrailCorrupt if it is missing."""
    try:
        return read_whole(storage, FILE)
    except FileNotFoundError:
        raise TrailCorrupt(f"the schema history is missing ({storage.path(FILE)})", hint=RESTORE) from None


def parse(
    data: bytes, published: int, history: SchemaHistory, place: HistoryPlace | None = None, start: int = 0
) -> int:
    """Add the whole lines of `data` from the byte `start` on to `history`; return where they end. A line that is not whole ends
    them; one before `published`, or with whole lines behind it, is damage. Raises TrailCorrupt, TrailKeyMissing."""
    length, place = start, place or HistoryPlace()
    read_line = _reading(place)
    while (stop := data.find(b"\n", length)) >= 0:
        try:
            entry = read_line(data[length:stop], length)
        except (KeyError, TypeError, ValueError):
            raise _damage(place, data, length, "this release cannot read the line", NEWER) from None
        except Tampered as error:
            raise _damage(place, data, length, str(error), RESTORE) from None
        if entry is None:
            break
        if entry is CLOSED:
            length = stop + 1
            continue
        if entry.kind == "job" and place.job_uuid not in ("", entry.reason):
            what = f"it belongs to the job with the uuid {entry.reason}, the trail to {place.job_uuid}"
            raise _damage(place, data, length, what, RESTORE)
        try:
            history.add(entry)
        except (KeyError, TypeError, ValueError):
            raise _damage(place, data, length, "the line does not follow those before it", RESTORE) from None
        length = stop + 1
    if length < published or any(_is_whole(line) for line in data[length:].split(b"\n")[1:]):
        what = "the line is not what was written there (its checksum is wrong)"
        if length == len(data):
            what = f"the file ends here, {published} bytes were published"
        raise _damage(place, data, length, what, RESTORE)
    return length


def lines(data: bytes, place: HistoryPlace) -> Iterator[tuple[int, Entry | None]]:
    """Yield where each line begins, with what it says; None for one that is not whole. Raises TrailCorrupt for one that is not
    what was written there, TrailKeyMissing."""
    read_line, at = _reading(place), 0
    for line in data.splitlines(keepends=True):
        try:
            yield at, read_line(line.rstrip(b"\n"), at)
        except Tampered as error:
            raise _damage(place, data, at, str(error), RESTORE) from None
        at += len(line)


def _reading(place: HistoryPlace) -> Callable[[bytes, int], Entry | None]:
    """Return what reads the line at an offset; None for one that is torn or damaged, CLOSED for one that cannot be opened
    here."""
    opener = LineOpener(place.storage) if place.storage else None

    def read_line(line: bytes, offset: int) -> Entry | None:
        if not _is_whole(line):
            return None
        data = json.loads(line[9:])
        if SEALED in data:
            if opener is None:
                return CLOSED
            data = opener.opened(data, offset)
        elif opener is not None:
            opener.refuse_plain(offset)
        return Entry.from_facts(data)

    return read_line


def _is_whole(line: bytes) -> bool:
    return line[8:9] == b" " and line[:8] == b"%08x" % zlib.crc32(line[9:])


def _damage(place: HistoryPlace, data: bytes, at: int, what: str, hint: str) -> TrailCorrupt:
    line, *_ = data[at:].split(b"\n", 1)
    number = data.count(b"\n", 0, at) + 1
    return TrailCorrupt(
        f"schema history is damaged at byte {at}, line {number}{_about(data, at, line)}: {what} ({place.path})",
        hint=hint,
    )


def _about(data: bytes, at: int, line: bytes) -> str:
    """Say which table a damaged line is about, as far as it can be read; else the table of the line before it."""
    if found := _table_in(line):
        return f", of table {found} as far as it can be read"
    before = data[:at].splitlines()
    found = next((name for text in reversed(before) if (name := _table_in(text))), "")
    return f", behind a line of table {found}" if found else ""


def _table_in(line: bytes) -> str:
    if found := _ID.search(line):
        return f"{_text(found[1])}.{_text(found[2])}"
    found = _TABLE.search(line)
    return _text(found[1]) if found else ""


def _text(json_text: bytes) -> str:
    """Decode a JSON text that may be damaged."""
    return json_text.decode(errors="replace").replace('\\"', '"')
