"""Take pieces of a store into a replica, of which it may have some bytes already.

A process that was killed comes back to a piece that the replica has in part. So what it has is compared with what comes, byte
by byte, and only the rest is added: nothing comes twice, and nothing passes that contradicts.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from anabranch.errors import StateError, StorageFull, TrailCorrupt
from anabranch.trail import history
from anabranch.trail.format import SegmentName
from anabranch.trail.identity import Identity
from anabranch.trail.replica import ANEW, Held, TrailReplica
from anabranch.trail.replica_files import LoadFile, LoadFilesCopy
from anabranch.trail.replica_segment import PART
from anabranch.trail.storage import LocalStorage
from anabranch.transport.messages import OPTIONAL, Kind, Message, ProtocolError
from anabranch.transport.pieces import PieceRead

R = TypeVar("R")


class Stopped(Exception):
    """The process was asked to stop while something was waited for."""


class TakingIn:
    """`wait`: called with the reason while the disk has no room; raises Stopped. Not for several threads.

    Delivery: what is `held` is durable; bytes that came before are compared, not written again."""

    def __init__(
        self, directory: Path, replica: TrailReplica, hops: tuple[str, ...], wait: Callable[[str], None]
    ) -> None:
        self._storage, self._replica, self._hops, self._wait = LocalStorage(directory), replica, hops, wait
        self._files = LoadFilesCopy(directory)
        self._file = ""  # of a load, of which more is to come
        self._is_skipped = False  # that one: the replica has it
        held = replica.held
        self._name, self._length = (
            SegmentName.parse(held.file),
            held.length,
        )  # of the newest segment, with what is not whole
        self._identity: Identity = replica.identity

    @property
    def held(self) -> Held:
        return self._replica.held

    @property
    def is_empty(self) -> bool:
        return self._name is None and not self.held.history

    def is_behind(self, file: str, length: int, history: int) -> bool:
        """Return whether the replica has less than that: another one was put in its place, or an older one."""
        name, held = SegmentName.parse(file), self.held
        ours, theirs = (self._name.number if self._name else 0, held.length), (name.number if name else 0, length)
        return ours < theirs or held.history < history

    def take(self, piece: PieceRead, *, is_new_writer: bool) -> bool:
        """Take a piece in, and make it durable. `is_new_writer`: another session has written it than the one before: what that
        one had not finished begins again. Returns whether the replica has all of it, so that a new process may begin behind it.

        Raises Stopped, StateError where the replica contradicts, TrailCorrupt, TrailError, ProtocolError."""
        if is_new_writer:
            self._files.close()
            self._file = ""
        if piece.head.identity != self._identity:
            self._patiently(lambda: self._replica.identify(piece.head.identity, self._hops))
            self._identity = piece.head.identity
        for message in _joined(piece.messages()):
            self._take(message)
        held, said = self._patiently(self._replica.flush), piece.head.held
        is_whole = (held.file, held.length, held.history) == (said.file, said.length, said.history)
        if is_whole and held.sequence != said.sequence:
            what = f"piece {piece.head.number} ends at sequence {said.sequence}, what it carries at {held.sequence}"
            raise TrailCorrupt(what, hint=ANEW)
        return is_whole and self._length == held.length and not self._file

    def close(self) -> None:
        self._files.close()

    def __enter__(self) -> TakingIn:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _take(self, message: Message) -> None:
        head, body = message.head, bytes(message.body)
        match message.kind:
            case Kind.SEGMENT:
                name = SegmentName.parse(_text(head, "name"))
                if name is None:
                    raise ProtocolError("it has a segment without a name of one")
                self._segment(name, _number(head, "offset"), body)
            case Kind.HISTORY:
                self._history(_number(head, "offset"), body, head.get("anew") is True)
            case Kind.FILE:
                file = LoadFile(_text(head, "name"), _number(head, "size"), _number(head, "sum"))
                self._load_file(file, _number(head, "offset"), body)
            case kind if kind < OPTIONAL:
                raise ProtocolError(f"a message of kind {kind} is not for a replica")

    # --- segments ---------------------------------------------------------------------------------------------------

    def _segment(self, name: SegmentName, offset: int, data: bytes) -> None:
        if self._name and name.number < self._name.number:
            return  # it has all of that one
        if name == self._name and offset < self._length:
            known = min(len(data), self._length - offset)
            self._compare(name, offset, data[:known])
            offset, data = offset + known, data[known:]
        if data:
            self._patiently(lambda: self._replica.append(name, offset, data))
            self._name, self._length = name, offset + len(data)

    def _compare(self, name: SegmentName, offset: int, data: bytes) -> None:
        file = str(name)
        if not os.path.exists(self._storage.path(file)):
            file += PART
        readable = self._storage.open(file)
        try:
            found = readable.read(offset, len(data))
        finally:
            readable.close()
        if found != data:
            what = f"segment {name} of the replica {self._storage.directory} has other bytes at {offset} than the store"
            raise StateError(what, hint=ANEW)

    # --- schema history, files of a load ----------------------------------------------------------------------------

    def _history(self, offset: int, data: bytes, is_anew: bool) -> None:
        """Add lines, which come whole in a piece. Those that are there already are compared; others in their place come only
        with a history that takes the place of this one as a whole."""
        known = history.read(self._storage)[: self.held.history][offset : offset + len(data)]
        is_same = data.startswith(known)
        if is_same and len(known) == len(data):
            return
        if not is_same and not is_anew:
            what = f"the schema history of {self._storage.directory} has other lines at {offset} than the store"
            raise StateError(what, hint=ANEW)
        if not is_anew:
            offset, data = offset + len(known), data[len(known) :]
        self._patiently(lambda: self._replica.add_history(offset, data, is_anew=is_anew))

    def _load_file(self, file: LoadFile, offset: int, data: bytes) -> None:
        if not offset:
            self._is_skipped = not self._files.is_wanted(file)
            self._file = file.name
        elif file.name != self._file:
            raise ProtocolError(f"bytes of {file.name} from {offset} on come without those before")
        is_whole = offset + len(data) >= file.size
        if not self._is_skipped:
            self._patiently(lambda: self._files.add(file.name, file.size, offset, data))
        if is_whole:
            self._file = ""

    def _patiently(self, do: Callable[[], R]) -> R:
        """Do something that needs room on the disk; wait for that as long as it takes."""
        while True:
            try:
                return do()
            except StorageFull as error:
                self._wait(f"waiting: disk full: {error.message}")


def _joined(messages: Iterator[Message]) -> Iterator[Message]:
    """Yield the messages, those of the schema history that follow each other as one: each is lines and not a part of one."""
    lines: Message | None = None
    for message in messages:
        if lines and message.kind == Kind.HISTORY:
            lines = replace(lines, body=bytes(lines.body) + bytes(message.body))
            continue
        if lines:
            yield lines
        lines = message if message.kind == Kind.HISTORY else None
        if lines is None:
            yield message
    if lines:
        yield lines


def _text(head: dict[str, Any], key: str) -> str:
    found = head.get(key)
    if not isinstance(found, str) or len(found) > 2000:
        raise ProtocolError(f"{key!r} of a message is no text")
    return found


def _number(head: dict[str, Any], key: str) -> int:
    found = head.get(key)
    if type(found) is not int or not 0 <= found < 1 << 62:
        raise ProtocolError(f"{key!r} of a message is no number")
    return found
