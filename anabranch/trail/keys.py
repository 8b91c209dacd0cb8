"""Keys of an encrypted trail: where they are, what they wrap, and which one is used now.

A master key wraps data keys, one for each file; what those do is in `sealing.py`. Where the master keys are (a file, a variable
of the environment, a command that asks a key service) is noted beside the trail, in FILE of the job's home: a place, never a
key. So every process that reads the trail finds them, and whoever can only write the trail cannot name a key of his own.
What does not live here: the job file's `[trail] encrypt` (`config/sections/trail.py`).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from anabranch.errors import ConfigError, StateError, TrailCorrupt, TrailKeyMissing
from anabranch.trail import published
from anabranch.trail.format import SegmentName, to_json
from anabranch.trail.identity import is_replica
from anabranch.trail.lock import maintenance
from anabranch.trail.replica_files import FOLDER as LOADS
from anabranch.trail.replica_files import KEYS as TRAVELS
from anabranch.trail.replica_files import LAST, number_of
from anabranch.trail.storage import LocalStorage, Storage, read_whole

if TYPE_CHECKING:
    from types import ModuleType

FILE = "encryption.json"  # in the job's home, beside the trail
OWN = "trail"  # the name of a trail in its job's home
REWRAPPED = "keys"  # in the trail: data keys of files whose headers have them under a former master key
READERS = 16  # keys that readers of a trail may have together
MANIFEST = LAST[0]  # of a table's load
LENGTH = 32  # bytes of a key: AES-256
COMMAND_SECONDS = 30
LOCAL, COMMAND = "local", "command"
_LABEL = b"anabranch-trail-key\0"
_MAKE = "head -c 32 /dev/urandom | base64 > FILE; chmod 600 FILE makes one"
_RESTORE = "restore the file from a backup of the trail, or load again"
_NAME_IT = (
    "name the key in [trail] encrypt of the job file, under former if it is no longer used, and start capture again"
)


class Wrapped(NamedTuple):
    """A data key as it stands in a file: `service` (LOCAL or COMMAND) and `key` say what unwraps it."""

    service: str
    key: str
    data: str  # base64


class KeyService(Protocol):
    """Wraps data keys, and unwraps them again. Used by every process that reads the trail, once for each file."""

    def id(self) -> str:
        """Return what the present key is called; "" where only an answer to `wrap` tells it. Raises TrailKeyMissing."""

    def wrap(self, data_key: bytes) -> Wrapped:
        """Wrap 32 bytes by the present key. Raises TrailKeyMissing."""

    def unwrap(self, wrapped: Wrapped) -> bytes | None:
        """Return the 32 bytes; None where this is not its key. Raises TrailKeyMissing, TrailCorrupt for damaged ones."""


def key_id(key: bytes) -> str:
    """Return what a key is called: 16 hexadecimal digits, which do not tell the key."""
    return hashlib.sha256(_LABEL + key).hexdigest()[:16]


def parse_key(content: bytes, where: str) -> bytes:
    """Return the 32 bytes of a key that is given raw, in hexadecimal digits or in base64. Raises TrailKeyMissing."""
    text = content.strip()
    if len(content) == LENGTH:
        return content
    with suppress(ValueError, binascii.Error):
        if len(text) == 2 * LENGTH:
            return bytes.fromhex(text.decode("ascii"))
        if len(key := base64.b64decode(text, validate=True)) == LENGTH:
            return key
    message = f"{where} has no key of {LENGTH} bytes, raw, in hexadecimal digits or in base64"
    raise TrailKeyMissing(message, hint=_MAKE)


@dataclass(frozen=True, slots=True)
class LocalKey:
    """A key in a file or in a variable of the environment. It is read anew each time, so that it may be replaced."""

    file: str = ""
    variable: str = ""

    def id(self) -> str:
        return key_id(self._key())

    def wrap(self, data_key: bytes) -> Wrapped:
        key = self._key()
        data = _keywrap().aes_key_wrap(key, data_key)
        return Wrapped(LOCAL, key_id(key), base64.b64encode(data).decode())

    def unwrap(self, wrapped: Wrapped) -> bytes | None:
        if wrapped.service != LOCAL or key_id(key := self._key()) != wrapped.key:
            return None
        try:
            data = base64.b64decode(wrapped.data, validate=True)
            if base64.b64encode(data).decode() != wrapped.data:
                raise ValueError("bits that base64 leaves out are set")
            return bytes(_keywrap().aes_key_unwrap(key, data))
        except (_keywrap().InvalidUnwrap, ValueError):
            raise TrailCorrupt(f"a data key that key {wrapped.key} has wrapped is damaged") from None

    def _key(self) -> bytes:
        if self.variable:
            if not (found := os.environ.get(self.variable)):
                hint = "set it for every process of the job, also where Spark runs"
                raise TrailKeyMissing(f"the variable {self.variable} with the trail's key is not set", hint=hint)
            return parse_key(found.encode(), f"the variable {self.variable}")
        try:
            handle = os.open(self.file, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise TrailKeyMissing(f"the trail's key cannot be read: {self.file}: {error.strerror}") from None
        with os.fdopen(handle, "rb") as file:
            if os.fstat(handle).st_mode & 0o077:
                message = f"the key file {self.file} can be read or written by others than its owner"
                raise TrailKeyMissing(
                    message, hint=f"chmod 600 {quote(str(self.file))}, and consider whether the key is still a secret"
                )
            return parse_key(file.read(4096), self.file)


@dataclass(frozen=True, slots=True)
class CommandKey:
    """A command that has a key service wrap and unwrap: a JSON object on its input, one on its output (docs/howto)."""

    command: tuple[str, ...]

    def id(self) -> str:
        return ""

    def wrap(self, data_key: bytes) -> Wrapped:
        answer = self._ask({"do": "wrap", "data": base64.b64encode(data_key).decode()})
        key, data = answer.get("key"), answer.get("data")
        if not (isinstance(key, str) and 0 < len(key) <= 500 and isinstance(data, str) and 0 < len(data) <= 16_384):
            raise self._failed("it answered without key and data")
        return Wrapped(COMMAND, key, data)

    def unwrap(self, wrapped: Wrapped) -> bytes | None:
        if wrapped.service != COMMAND:
            return None
        answer = self._ask({"do": "unwrap", "key": wrapped.key, "data": wrapped.data})
        with suppress(ValueError, TypeError):
            if len(found := base64.b64decode(answer.get("data", ""), validate=True)) == LENGTH:
                return found
        raise self._failed(f"it answered without the {LENGTH} bytes of the data key")

    def _ask(self, question: dict[str, str]) -> dict[str, Any]:
        try:
            done = subprocess.run(
                self.command, input=to_json(question) + b"\n", capture_output=True, timeout=COMMAND_SECONDS, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise self._failed(f"it could not be asked: {type(error).__name__}") from None
        if done.returncode:
            said = done.stderr.decode(errors="replace").strip().splitlines()
            raise self._failed(f"exit code {done.returncode}" + (f", {said[-1][:200]}" if said else ""))
        with suppress(ValueError):
            if isinstance(answer := json.loads(done.stdout), dict):
                return answer
        raise self._failed("its output is no JSON object")

    def _failed(self, what: str) -> TrailKeyMissing:
        hint = "see that the command can reach the key service, then start again"
        return TrailKeyMissing(f"the key command {self.command[0]} failed: {what}", hint=hint)


@dataclass(frozen=True)
class KeyRing:
    """The keys of a trail. `spans`: numbers of segments, from the first of a pair up to the second (None: to the end), that
    have to be encrypted; `plain`: staged files and manifests of loads that were there, not encrypted, when encryption was
    turned on; `readers`: keys of jobs that read the trail of another one; `history`: from where to where, in
    bytes, lines of the schema history have to be encrypted; `imported`: of a copy that takes in parcels, from which number on
    segments have to be encrypted."""

    current: KeyService | None
    former: tuple[KeyService, ...] = ()
    spans: tuple[tuple[int, int | None], ...] = ()
    plain: frozenset[str] = field(default=frozenset())
    readers: tuple[KeyService, ...] = ()
    history: tuple[tuple[int, int | None], ...] = ()
    imported: int | None = None

    @property
    def every(self) -> Iterator[KeyService]:
        yield from filter(None, (self.current, *self.former, *self.readers))

    @property
    def is_on(self) -> bool:
        return bool(self.spans) and self.spans[-1][1] is None

    def unwrap(self, every: Sequence[Wrapped], what: str) -> bytes:
        """Return a data key that is wrapped by one of the ring's keys. Raises TrailKeyMissing with the ids, TrailCorrupt."""
        failed: list[TrailKeyMissing] = []
        for service in self.every:
            for wrapped in every:
                try:
                    if found := service.unwrap(wrapped):
                        return found
                except TrailKeyMissing as error:
                    failed.append(error)
                except TrailCorrupt as error:
                    raise TrailCorrupt(f"{what}: {error.message}", hint=_RESTORE) from None
        names = ", ".join(sorted({one.key for one in every}))
        why = f": {'; '.join(sorted({error.message for error in failed}))}" if failed else ""
        have = ", ".join(sorted(self._ids())) or "none"
        raise TrailKeyMissing(
            f"{what} is encrypted by key {names}, which is not there (keys there: {have}){why}", hint=_NAME_IT
        )

    def _ids(self) -> Iterator[str]:
        for service in self.every:
            with suppress(TrailKeyMissing):
                if known := service.id():
                    yield known

    def requires(self, file: str) -> bool:
        """Return whether a segment, or a staged file, has to be encrypted."""
        if name := SegmentName.parse(file):
            if self.imported is not None and name.number >= self.imported:
                return True
            return any(start <= name.number and (end is None or name.number < end) for start, end in self.spans)
        return self.is_on and file not in self.plain


def place(storage: Storage) -> Path:
    """Return where the places of the trail's keys are noted: beside the trail, never in it. Trails between jobs may share a
    directory, so that the file has the trail's name there."""
    trail = _trail(storage)
    return trail.parent / (FILE if trail.name == OWN else f".{trail.name}.{FILE}")


def _trail(storage: Storage) -> Path:
    return Path(storage.path(FILE)).parent


def ring(storage: Storage) -> KeyRing | None:
    """Return the trail's keys; None for a trail that was never encrypted. Raises StateError for an unreadable file."""
    try:
        content = place(storage).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        data = json.loads(content)
        spans = tuple((int(start), None if end is None else int(end)) for start, end in data["spans"])
        former = tuple(service_of(one) for one in data["former"])
        current = service_of(data["current"]) if data["current"] else None
        readers = tuple(service_of(one) for one in data.get("readers", ()))
        history = tuple((int(start), None if end is None else int(end)) for start, end in data.get("history", ()))
        imported = int(data["imported"]) if "imported" in data else None
        return KeyRing(current, former, spans, frozenset(data["plain"]), readers, history, imported)
    except (ValueError, KeyError, TypeError):
        hint = "start capture again, or anabranch trail rekey JOB: both write it anew"
        raise StateError(f"{place(storage)} cannot be read", hint=hint) from None


def service_of(said: Mapping[str, Any]) -> KeyService:
    """Return what a place of a key, as the job file says it, stands for."""
    if "key_command" in said:
        return CommandKey(tuple(said["key_command"]))
    return LocalKey(said.get("key_file", ""), said.get("key_env", ""))


def stamp(storage: Storage) -> tuple[object, ...]:
    """Return what changes when the trail's present key may have changed. Cheap: two questions to the file system."""
    found: list[object] = []
    with suppress(OSError):
        at = os.stat(place(storage))
        found.append((at.st_mtime_ns, at.st_ino, at.st_size))
        keys = ring(storage)
        if keys and isinstance(keys.current, LocalKey) and keys.current.file:
            at = os.stat(keys.current.file)
            found.append((at.st_mtime_ns, at.st_ino, at.st_size))
    return tuple(found)


def save(storage: Storage, said: Mapping[str, Any] | None, *, may_turn: bool = True) -> None:
    """Note where the keys are, as `[trail] encrypt` says it; None: it says nothing. The caller has the lock of maintenance, and
    the trail's unless `may_turn` is false: then encryption is neither turned on nor off. Durable on return.

    Raises TrailKeyMissing where the present key cannot be used, ConfigError without the library, StateError where nothing is
    said for a trail that has encrypted files."""
    current = (said or {}).get("current")
    if current:
        _keywrap()
        service_of(current).wrap(bytes(LENGTH))  # a key that cannot be used is told before anything depends on it
    known = _known(storage)  # behind the question to a key service, which takes its time
    if said is None:
        if known is not None:
            _refuse_unsaid(storage, known)
        return
    spans: list[list[int | None]] = [list(span) for span in known["spans"]] if known else []
    is_on = bool(spans) and spans[-1][1] is None
    if bool(current) != is_on and not is_replica(
        storage
    ):  # its files are as they come: their trail turns it on and off
        if not may_turn:
            hint = "stop capture and start it again: it begins a segment for that"
            raise StateError(f"encryption of the trail is to be turned {'on' if current else 'off'}", hint=hint)
        following = max((name.number for name in map(SegmentName.parse, storage.names()) if name), default=0) + 1
        if current:
            spans.append([following, None])
        elif spans:
            spans[-1][1] = following
    turned_on = bool(spans) and bool(current) and not is_on
    plain = list(_plain(storage)) if turned_on else (known or {}).get("plain", [])
    data = {"current": current, "former": list(said.get("former", ())), "spans": spans, "plain": plain}
    data |= {name: known[name] for name in ("readers", "imported") if known and known.get(name)}
    history = (known or {}).get(
        "history", []
    )  # a capture of a former release that goes on seals no lines: rekey asks for none
    if may_turn:
        history = _history_spans(storage, history, spans)
    if history:
        data["history"] = history
    if data != known:
        LocalStorage(place(storage).parent).replace(place(storage).name, to_json(data) + b"\n")


def note_reader(storage: Storage, said: Mapping[str, Any] | None) -> None:
    """Note where a job that reads the trail of another one has its keys, in place of those that a reader has noted before.
    Those of the trail's writer stay, who may note them at the same time: what is there is read and replaced under the lock of
    maintenance. Raises TrailKeyMissing where the present key cannot be used, ConfigError without the library."""
    places = [one for one in ((said or {}).get("current"), *(said or {}).get("former", ())) if one]
    if not places:
        return
    _keywrap()
    service_of(places[0]).id()  # one that cannot be used is told here
    known = _known(storage)
    if known == _with_readers(known, places):  # nothing is to be written, perhaps nothing can be
        return
    with maintenance(_trail(storage)):
        data = _with_readers(_known(storage), places)
        LocalStorage(place(storage).parent).replace(place(storage).name, to_json(data) + b"\n")


def note_imported(storage: Storage, number: int) -> None:
    """Note beside the keys of a copy from which segment on all that parcels bring is encrypted. The first one counts."""
    with maintenance(_trail(storage)):
        known = _known(storage)
        if known and "imported" not in known:
            LocalStorage(place(storage).parent).replace(
                place(storage).name, to_json({**known, "imported": number}) + b"\n"
            )


def _with_readers(known: Mapping[str, Any] | None, places: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what is noted, with the keys of a reader in front of those of other ones."""
    noted = known or {"current": None, "former": [], "spans": [], "plain": []}
    others = [one for one in noted.get("readers", ()) if one not in places]
    return {**noted, "readers": [*places, *others][:READERS]}


def history_begins(storage: Storage, length: int) -> None:
    """Note that another schema history was put in the place of the former one, whose lines are as they are."""
    with maintenance(_trail(storage)):
        known = _known(storage)
        if known and known.get("history"):
            spans = [[length, None]] if known["history"][-1][1] is None else []
            data = {**known, "history": spans}
            LocalStorage(place(storage).parent).replace(place(storage).name, to_json(data) + b"\n")


def _history_spans(
    storage: Storage, known: Sequence[Sequence[int | None]], spans: Sequence[Sequence[int | None]]
) -> list[list[int | None]]:
    """Return from where to where lines of the history are encrypted, where segments are: what is in the file stays, and what
    a writer adds behind its whole lines is as it has to be by then."""
    found = [list(one) for one in known]
    is_on, was_on = bool(spans) and spans[-1][1] is None, bool(found) and found[-1][1] is None
    if is_on and not was_on:
        data = read_whole(storage, "history") if "history" in storage.names() else b""
        found.append([len(data), None])
    elif was_on and not is_on:
        cell = published.opened(storage)
        try:
            found[-1][1] = published.read(cell).history
        finally:
            cell.close()
    return found


def rewrapped_there(storage: Storage) -> dict[str, Wrapped]:
    """Return data keys that were wrapped anew, as the trail says it to its replicas. What cannot be read says nothing: headers
    say the same by a former key, and a file that needs it names the key that is missing."""
    with suppress(FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
        found = json.loads(read_whole(storage, TRAVELS))["keys"]
        return {str(tag): Wrapped(*map(str, one)) for tag, one in found.items()}
    return {}


def tell_replicas(storage: Storage, found: Mapping[str, Wrapped]) -> None:
    """Put data keys that were wrapped anew where replicas get them; a copy never takes an older number. In a replica nothing is
    done: there it comes from elsewhere."""
    if not is_replica(storage) and (found or rewrapped_there(storage)):
        content = {"number": number_of(storage, TRAVELS) + 1, "keys": dict(found)}
        storage.replace(TRAVELS, to_json(content) + b"\n")


def as_it_is(file: str, content: bytes) -> str:
    """Return the note of a small file that is read though it is not encrypted, as long as it is what it is now."""
    return f"{file}:{hashlib.sha256(content).hexdigest()[:32]}"


def _plain(storage: Storage) -> Iterator[str]:
    """Yield what is not encrypted while encryption is turned on, and goes with time."""
    for name in storage.names("staging"):
        yield f"staging/{name}"
    for folder in storage.names(LOADS):
        with suppress(FileNotFoundError, NotADirectoryError):
            file = f"{LOADS}/{folder}/{MANIFEST}"
            yield as_it_is(file, read_whole(storage, file))


def _known(storage: Storage) -> dict[str, Any] | None:
    if ring(storage) is None:
        return None
    found: dict[str, Any] = json.loads(place(storage).read_bytes())
    return found


def _refuse_unsaid(storage: Storage, known: Mapping[str, Any]) -> None:
    at = place(storage)
    hint = (
        "keep [trail] encrypt; to write new segments without encryption, say encrypt = { former = [ … ] } with the keys that"
        " were used"
    )
    if known["spans"]:
        raise StateError(f"the trail has been encrypted ({at}), and the job file has no [trail] encrypt", hint=hint)


def _keywrap() -> ModuleType:
    """Import the library late: a trail that is not encrypted does without."""
    try:
        from cryptography.hazmat.primitives import keywrap
    except ModuleNotFoundError as missing:
        raise ConfigError(
            f"the trail is encrypted, and a library for it is not installed ({missing.name})",
            hint="pip install 'anabranch[encryption]'",
        ) from None
    return keywrap
