"""Know which objects a Kafka has, from the log of their names: a record for each object, a tombstone for each that is gone.

    NAME|ID    {"size", "digest", "piece", "at", "replaces", "seen"}    an object that is whole, and where its pieces stand
    |ID        {"pieces"}                                                pieces of no object yet, or of none any more

The log's order decides. Each record has a key of its own, so that compaction keeps all that stand, and whoever reads the log
finds the same, compacted or not. Of those that stand for one name the object is the one that replaces others and whose writer
had read most of the log, else the first.
What does not live here: writing (`kafka.py`), reading the log (`kafka_session.py`).
"""

from __future__ import annotations

import json
from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Standing:
    """A record that stands for a name. `piece`: bytes of each piece but the last; `at`: offsets of the pieces; `seen`: where
    the log of names ended when its writer began; `written`: when, in ms."""

    name: str
    id: str
    size: int
    digest: str
    piece: int
    at: tuple[int, ...]
    replaces: bool
    seen: int
    written: int = 0

    @property
    def key(self) -> bytes:
        return f"{self.name}|{self.id}".encode()

    @property
    def value(self) -> bytes:
        told = {"size": self.size, "digest": self.digest, "piece": self.piece, "at": self.at}
        told |= {"replaces": self.replaces, "seen": self.seen}
        return json.dumps(told).encode()


@dataclass(frozen=True, slots=True)
class Loose:
    """Pieces that belong to no object, or may not. `written`: ms."""

    id: str
    pieces: int
    written: int = 0

    @property
    def key(self) -> bytes:
        return f"|{self.id}".encode()

    @property
    def value(self) -> bytes:
        return json.dumps({"pieces": self.pieces}).encode()


class Index:
    """The objects of a log, up to where it was read. Raises ValueError for a record that is none of a store's."""

    def __init__(self, awaited: str = "") -> None:
        """Begin with nothing. `awaited`: the id of a record that is waited for."""
        self._standing: dict[str, tuple[Standing, ...]] = {}
        self._names: list[str] = []  # in their order
        self.loose: dict[str, Loose] = {}
        self.awaited = awaited
        self.before: tuple[Standing, ...] = ()  # what stood for the name when the awaited record came
        self.took: int | None = (
            None  # ms from the note of its pieces to it, by the brokers' clocks; None: none was left
        )

    def wait_for(self, id: str) -> None:
        """Note what stands before the record of this id, when it comes."""
        self.awaited, self.before, self.took = id, (), None

    def take(self, key: bytes, value: bytes | None, written: int) -> None:
        """Take the next record of the log."""
        name, bar, id = key.decode().rpartition("|")
        if not bar or not id:
            raise ValueError("a key without an id")
        told = None if value is None else json.loads(value)
        if not name:
            self.loose.pop(id, None)
            if told is not None:
                self.loose[id] = Loose(id, int(told["pieces"]), written)
            return
        left = tuple(one for one in self._standing.get(name, ()) if one.id != id)
        if told is not None:
            if id == self.awaited:
                self.before, noted = left, self.loose.get(id)
                self.took = written - noted.written if noted else None
            offsets = tuple(int(one) for one in told["at"])
            size, piece, replaces, seen = (
                int(told["size"]),
                int(told["piece"]),
                bool(told["replaces"]),
                int(told["seen"]),
            )
            left = (*left, Standing(name, id, size, str(told["digest"]), piece, offsets, replaces, seen, written))
        self._set(name, left)

    def all_of(self, name: str) -> tuple[Standing, ...]:
        """Return all that stand for a name, in the order in which they may go: the object at the end."""
        found = self._standing.get(name, ())
        held = _object_of(found)
        return (*(one for one in found if one is not held), held) if held else ()

    def object(self, name: str) -> Standing | None:
        return _object_of(self._standing.get(name, ()))

    def objects(self, prefix: str) -> Iterator[Standing]:
        """Yield the objects whose names begin with `prefix`, in the order of their names, as they are now."""
        for name in self._beginning(prefix):
            if found := self.object(name):
                yield found

    def ids(self) -> set[str]:
        """Return the ids of all that stand."""
        return {one.id for found in self._standing.values() for one in found}

    def beaten(self) -> list[Standing]:
        """Return what stands for a name, and is not its object."""
        return [one for found in self._standing.values() if len(found) > 1 for one in found if one != _object_of(found)]

    def _beginning(self, prefix: str) -> list[str]:
        first = bisect_left(self._names, prefix)
        end = first
        while end < len(self._names) and self._names[end].startswith(prefix):
            end += 1
        return self._names[first:end]

    def _set(self, name: str, left: tuple[Standing, ...]) -> None:
        is_known = name in self._standing
        if left:
            self._standing[name] = left
            if not is_known:
                insort(self._names, name)
        elif is_known:
            del self._standing[name]
            del self._names[bisect_left(self._names, name)]


def _object_of(found: Sequence[Standing]) -> Standing | None:
    """Return what is the object: of those that replace others the one whose writer had read most, since a message may arrive
    long after its writer gave up, and another one replaced the object; of equal ones the last."""
    replacing = [one for one in found if one.replaces]
    return max(reversed(replacing), key=lambda one: one.seen) if replacing else found[0] if found else None
