"""A store of objects that fails on purpose: answers are lost, uploads cut in half, listings lag, a put is done twice.

What does not live here: failures of a server or of the line to it (the stores' own tests make these).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import Enum, auto

from anabranch.errors import Side
from anabranch.stores.contract import Found, Guarantees, ObjectExists, ObjectStore
from anabranch.stores.failures import Failures


class Fault(Enum):
    """A failure of one call."""

    AWAY = auto()  # it fails before anything is done, as a 503 does
    CUT = auto()  # an upload is cut in half: it fails, and the object is not there
    LOST = auto()  # it is done, and the answer is lost
    TWICE = auto()  # it is done, the answer is lost, and it arrives once more with `arrive`, much later
    FULL = auto()  # no room is left
    REFUSED = auto()  # credentials are withdrawn


@dataclass(frozen=True)
class Planned:
    fault: Fault
    call: str  # create, replace, read, size, names, delete; "": any of them
    prefix: str


class FaultyStore:
    """Hand every call on to `store`, unless a fault is planned for it. `end`: whose errors they are.

    `plan(Fault.LOST, "create", "pieces/")`: the next such call has it; faults come in the order in which they are planned.
    `always`: a fault that every call has, until it is None again. `lag`: what is written now is in no listing until
    `catch_up`. `creates_once` False: `create` looks first and writes then, with `between` called meanwhile, so that of two
    creators both succeed."""

    def __init__(
        self, store: ObjectStore, end: Side = Side.TARGET, *, creates_once: bool = True, lists_at_once: bool = True
    ) -> None:
        self.store, self._failures = store, Failures(end, store.path())
        self.always: Fault | None = None
        self.calls: list[tuple[str, str]] = []
        self.between: Callable[[str], None] = lambda name: None
        self._guarantees = Guarantees(creates_once, lists_at_once)
        self._planned: list[Planned] = []
        self._hidden: set[str] = set()
        self._late: list[tuple[str, bytes]] = []
        self._lags = False

    def plan(self, fault: Fault, call: str = "", prefix: str = "") -> None:
        self._planned.append(Planned(fault, call, prefix))

    def lag(self) -> None:
        self._lags = True

    def catch_up(self) -> None:
        self._lags = False
        self._hidden.clear()

    def arrive(self) -> None:
        """Do the puts once more that were planned to be done twice: as the store does it, whatever is there by now."""
        late, self._late = self._late, []
        for name, content in late:
            if self._guarantees.creates_once:
                try:
                    self.store.create(name, content)
                except ObjectExists:
                    continue
            else:
                self.store.replace(name, content)

    @property
    def is_through(self) -> bool:
        """Return whether every planned fault has been made."""
        return not self._planned

    @property
    def guarantees(self) -> Guarantees:
        return replace(self._guarantees)

    def path(self, name: str = "") -> str:
        return self.store.path(name)

    def create(self, name: str, content: bytes) -> None:
        def work() -> None:
            if self._guarantees.creates_once:
                self.store.create(name, content)
                return
            if any(found.name == name for found in self.store.names(name)):
                raise ObjectExists(name)
            self.between(name)
            self.store.replace(name, content)

        self._write("create", name, content, work)

    def replace(self, name: str, content: bytes) -> None:
        self._write("replace", name, content, lambda: self.store.replace(name, content))

    def _write(self, call: str, name: str, content: bytes, work: Callable[[], None]) -> None:
        fault = self._before(call, name)
        if fault is Fault.CUT:
            raise self._failures.away("the upload was cut in half")
        work()
        if self._lags:
            self._hidden.add(name)
        if fault is Fault.TWICE:
            self._late.append((name, content))
        self._after(fault)

    def read(self, name: str, offset: int = 0, length: int | None = None) -> bytes:
        fault = self._before("read", name)
        content = self.store.read(name, offset, length)
        self._after(fault)
        return content

    def size(self, name: str) -> int:
        fault = self._before("size", name)
        found = self.store.size(name)
        self._after(fault)
        return found

    def names(self, prefix: str = "") -> Iterator[Found]:
        self._after(self._before("names", prefix))
        for found in self.store.names(prefix):
            if found.name not in self._hidden:
                yield found

    def delete(self, name: str) -> None:
        fault = self._before("delete", name)
        self.store.delete(name)
        self._after(fault)

    def close(self) -> None:
        self.store.close()

    def _before(self, call: str, name: str) -> Fault | None:
        self.calls.append((call, name))
        fault = self.always or self._next(call, name)
        if fault is Fault.AWAY:
            raise self._failures.away("it answers 503 (slow down)")
        if fault is Fault.FULL:
            raise self._failures.full()
        if fault is Fault.REFUSED:
            raise self._failures.wrong("the credentials are refused")
        return fault

    def _after(self, fault: Fault | None) -> None:
        if fault in (Fault.LOST, Fault.TWICE, Fault.CUT):
            raise self._failures.away("the line was cut before the answer")

    def _next(self, call: str, name: str) -> Fault | None:
        for planned in self._planned:
            if planned.call in ("", call) and name.startswith(planned.prefix):
                self._planned.remove(planned)
                return planned.fault
        return None
