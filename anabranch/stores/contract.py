"""Say what a store of objects does for a trail: whole objects by name, written once, read in part, listed by prefix.

Readers and writers never need more of a store than this, so that any of them may be behind it. What a store cannot do in one
step is told by `Guarantees`, and those who write go by it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol


class ObjectExists(Exception):
    """An object of that name is in the store already, whole."""


class ObjectMissing(Exception):
    """No object of that name is in the store, or none that is whole."""


@dataclass(frozen=True, slots=True)
class Found:
    """An object as a listing shows it. `size`: bytes."""

    name: str
    size: int


@dataclass(frozen=True, slots=True)
class Guarantees:
    """The parts of the contract that not every store keeps in one step.

    `creates_once`: of two `create` of one name at once, one alone succeeds, wherever they run. Without it, what is written
    names its writer, and who writes reads it back.
    `lists_at_once`: an object that is there is in every listing begun afterwards. Without it a listing may lag; nobody
    concludes from one that an object is missing."""

    creates_once: bool
    lists_at_once: bool


class ObjectStore(Protocol):
    """A place for objects below one prefix. Names are relative, with "/" between parts: "pieces/000000000001".

    Usable from one thread at a time. Every method raises SourceUnavailable or TargetUnavailable (whoever opens the store says
    which end it is) for what another try may mend, StorageFull where there is no room, and ConfigError for credentials that
    are refused, a bucket or directory that is not there. No message shows a secret.

    Delivery: an object is seen whole or not at all; when `create` or `replace` returned, it is durable and every `read` finds
    it.
    """

    @property
    def guarantees(self) -> Guarantees: ...

    def path(self, name: str = "") -> str:
        """Return where a person finds the object, without credentials."""

    def create(self, name: str, content: bytes) -> None:
        """Write a new object. Raises ObjectExists. When the answer was lost, the object may be there, whole."""

    def replace(self, name: str, content: bytes) -> None:
        """Write an object, whether it is there or not: readers see the old content or the new one."""

    def read(self, name: str, offset: int = 0, length: int | None = None) -> bytes:
        """Read `length` bytes (None: all) from `offset` on; fewer at the end. Raises ObjectMissing."""

    def size(self, name: str) -> int:
        """Return the bytes of an object. Raises ObjectMissing. Never answers from a listing that may lag."""

    def names(self, prefix: str = "") -> Iterator[Found]:
        """Yield the objects whose names begin with `prefix`, in the order of their names, in bounded memory. Uploads that are
        under way, or were cut in half, are not among them."""

    def delete(self, name: str) -> None:
        """Remove an object. One that is missing is no error."""

    def close(self) -> None: ...
