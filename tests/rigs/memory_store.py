"""A store of objects in memory that does what stores do on bad days: it lags, loses answers, is away, takes things twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from threading import RLock

from anabranch.errors import ConfigError, SourceUnavailable, StorageFull, TargetUnavailable
from anabranch.stores.contract import Found, Guarantees, ObjectExists, ObjectMissing

AWAY = {"source": SourceUnavailable, "target": TargetUnavailable}


class Away(Exception):
    """The store answers 503: whoever has opened it gets the error of its end."""


@dataclass
class Objects:
    """Hold the objects that every opened store sees. `calls`: what was asked, as (verb, name). `on`: called before
    each call with verb and name, to raise or to change something; `lag`: objects that listings do not show."""

    content: dict[str, bytes] = field(default_factory=dict)
    calls: list[tuple[str, str]] = field(default_factory=list)
    on: Callable[[str, str], None] = lambda verb, name: None
    after: Callable[[str, str], None] = lambda verb, name: None
    lag: Callable[[str], bool] = lambda name: False
    creates_once: bool = True
    lock: RLock = field(default_factory=RLock)

    def opened(self, end: str = "target") -> MemoryStore:
        return MemoryStore(self, end)

    def source(self) -> MemoryStore:
        return MemoryStore(self, "source")

    def pieces(self) -> list[str]:
        return sorted(name for name in self.content if name.startswith("pieces/"))

    def piece(self, number: int) -> str:
        """Return the last object of a piece."""
        return [name for name in self.pieces() if name.startswith(f"pieces/{number:020d}")][-1]

    def times(self, verb: str, prefix: str) -> int:
        return sum(one == verb and name.startswith(prefix) for one, name in self.calls)


class MemoryStore:
    """An ObjectStore. Objects are seen whole or not at all, as every store promises."""

    def __init__(self, objects: Objects, end: str) -> None:
        self.objects, self.end = objects, end

    @property
    def guarantees(self) -> Guarantees:
        return Guarantees(creates_once=self.objects.creates_once, lists_at_once=False)

    def path(self, name: str = "") -> str:
        return f"memory/{name}"

    def create(self, name: str, content: bytes) -> None:
        with self._call("create", name):
            if name in self.objects.content:
                raise ObjectExists(name)
            self.objects.content[name] = content
        self.objects.after("create", name)

    def replace(self, name: str, content: bytes) -> None:
        with self._call("replace", name):
            self.objects.content[name] = content
        self.objects.after("replace", name)

    def read(self, name: str, offset: int = 0, length: int | None = None) -> bytes:
        with self._call("read", name):
            data = self._known(name)
        return data[offset:] if length is None else data[offset : offset + length]

    def size(self, name: str) -> int:
        with self._call("size", name):
            return len(self._known(name))

    def names(self, prefix: str = "") -> Iterator[Found]:
        with self._call("names", prefix):
            found = sorted(self.objects.content)
        for name in found:
            if name.startswith(prefix) and not self.objects.lag(name):
                yield Found(name, len(self.objects.content[name]))

    def delete(self, name: str) -> None:
        with self._call("delete", name):
            self.objects.content.pop(name, None)

    def close(self) -> None:
        return None

    def _known(self, name: str) -> bytes:
        if name not in self.objects.content:
            raise ObjectMissing(name)
        return self.objects.content[name]

    def _call(self, verb: str, name: str) -> RLock:
        self.objects.calls.append((verb, name))
        try:
            self.objects.on(verb, name)
        except Away:
            raise AWAY[self.end]("memory: it answers 503") from None
        return self.objects.lock


def away() -> Exception:
    return Away()


def refused() -> Exception:
    return ConfigError("memory: the credentials are refused")


def full() -> Exception:
    return StorageFull("memory: no room is left")
