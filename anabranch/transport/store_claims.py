"""Say which session writes which pieces, in a store that cannot decide between two who create one object.

There each session that puts something says so before, in `writers/NUMBER`: the whole line of sessions, each with the piece that
it goes on behind, and itself at the end. The last object of these is what holds. A piece has its session in its name, so that
two never write the same object; one of a session that has been overtaken is never looked for. In a store that decides by
itself there are no claims, and a piece has its number for a name.

Who is about to write such an object says so in `writers/NUMBER-next`, and looks then: whoever has put a piece looks for that,
and one of the two sees the other. Two that say so at once see each other in the same way, but for one case: the server carries
a write of the line out after its writer has looked, and after the other one has put a piece and gone on.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from anabranch.errors import TrailCorrupt
from anabranch.stores.contract import ObjectExists, ObjectMissing, ObjectStore
from anabranch.trail.format import to_json
from anabranch.transport import pieces
from anabranch.transport.store_place import has, newest

FOLDER = "writers/"
_RESTORE = "restore the object from a backup of the store, or begin anew under another NAME"


@dataclass(frozen=True, slots=True)
class Claim:
    """A session of a pump and the piece that it goes on behind, with its digest."""

    writer: str
    after: int
    previous: str = ""


class Claims:
    """The line of sessions, as far as it was read. `is_named`: the store cannot decide by itself.

    Delivery: of two sessions that both put a piece, readers take one's, and the other learns of it before it lets go of
    anything."""

    def __init__(self, store: ObjectStore, is_named: bool) -> None:
        self._store, self.is_named = store, is_named
        self._number = 0
        self.line: tuple[Claim, ...] = ()

    def refresh(self) -> bool:
        """Read the line anew. Returns whether it is another. Raises TrailCorrupt."""
        if not self.is_named:
            return False
        self._number = newest(lambda one: has(self._store, _name(one)), self._number)
        line = self._read(self._number) if self._number else ()
        is_other, self.line = line != self.line, line
        return is_other

    def owner(self, number: int) -> Claim | None:
        """Return the session that writes this piece."""
        return next((one for one in reversed(self.line) if one.after < number), None)

    def name(self, number: int) -> str:
        """Return the object of a piece."""
        if not self.is_named:
            return pieces.name_of(number)
        owner = self.owner(number)
        return f"{pieces.name_of(number)}-{owner.writer if owner else 'nobody'}"

    def claim(self, writer: str, after: int, previous: str, first: int) -> None:
        """Say that this session goes on behind a piece, if that has to be said. `first`: the first piece that is there. Raises
        ObjectExists where another session has said so meanwhile, or the former one has put more.

        First it says that it is about to. From then on the former session lets go of nothing more, since it looks for that
        after each put; so what it has put counts, and is found, before the line is changed."""
        if not self.is_named:
            return
        mine, number = Claim(writer, after, previous), self._number + 1
        name, announced = _name(number), _encoded((mine,))
        self._store.replace(_next(number), announced)
        if has(self._store, name) or has(self._store, self.name(after + 1)):
            raise ObjectExists(name)
        line = (*(one for one, then in pairwise((*self.line, mine)) if then.after >= first), mine)
        data = _encoded(line)
        self._store.create(name, data)
        if self._is_other(name, data) or self._is_other(_next(number), announced):
            raise ObjectExists(name)
        self._number, self.line = number, line

    def _is_other(self, name: str, data: bytes) -> bool:
        try:
            return self._store.read(name) != data
        except ObjectMissing:
            return True

    def is_last(self, writer: str) -> bool:
        """Return whether nobody has overtaken this session, by asking the store."""
        if not self.is_named:
            return True
        is_held = self._read(self._number)[-1].writer == writer
        return is_held and not any(has(self._store, one(self._number + 1)) for one in (_next, _name))

    def fork(self, known: Sequence[Claim], number: int, first: int) -> Claim | None:
        """Return the session to go back to, behind its `after`, for who has read up to `number` by another line; None if what
        was read holds."""
        if not self.is_named or not self.line:
            return None
        writers = [one.writer for one in known]
        if self.line[0].writer not in writers:
            return Claim("", first - 1) if number >= first else None
        known = known[writers.index(self.line[0].writer) :]
        same = next((n for n, (a, b) in enumerate(zip(known, self.line, strict=False)) if a.writer != b.writer), None)
        at = min(len(known), len(self.line)) if same is None else same
        other = self.line[at] if at < len(self.line) else Claim("", known[at].after) if at < len(known) else None
        return other if other and other.after < number else None

    def counts(self, number: int, writer: str, first: int) -> int:
        """Return up to which piece a reader has what holds, by the session whose piece it has read last."""
        if not self.is_named or not writer:
            return number
        for one, then in zip(self.line, [*self.line[1:], None], strict=True):
            if one.writer == writer:
                return min(number, then.after) if then else number
        return first - 1

    def _read(self, number: int) -> tuple[Claim, ...]:
        where = self._store.path(_name(number))
        try:
            found = json.loads(self._store.read(_name(number)))["line"]
            line = tuple(Claim(str(one["writer"]), int(one["after"]), str(one["previous"])) for one in found)
        except ObjectMissing:
            raise TrailCorrupt(f"{where} is gone", hint=_RESTORE) from None
        except (ValueError, KeyError, TypeError) as error:
            raise TrailCorrupt(f"{where} cannot be read: {error}", hint=_RESTORE) from None
        if not line:
            raise TrailCorrupt(f"{where} names nobody", hint=_RESTORE)
        return line


def _name(number: int) -> str:
    return f"{FOLDER}{number:08d}"


def _next(number: int) -> str:
    """Return the object of who is about to write the line of that number."""
    return f"{_name(number)}-next"


def _encoded(line: Sequence[Claim]) -> bytes:
    return to_json({"line": [{"writer": one.writer, "after": one.after, "previous": one.previous} for one in line]})
