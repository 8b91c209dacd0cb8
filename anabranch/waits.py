"""Watch over our sessions: one that is busy for long is looked at over a second connection. Does it wait for a lock, or
for the end of a transaction, and who has it?

One thread for each server that this process is connected to. It reads what the drivers know of their own sessions,
which costs nothing, and asks the server only about sessions that are busy for longer than a moment. What it finds goes
into the log at a bounded rate, and to those that listen (`status`). When the process has been asked to stop, it ends
the statements that wait, so that nobody has to wait for somebody else's transaction to press Ctrl-C.

What does not live here: how a server is asked who waits for whom (each connector's `lookout.py`).
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

from anabranch import log
from anabranch.errors import AnabranchError

TICK = 0.25  # seconds between two looks at our own sessions
BUSY = 0.6  # seconds after which a session that is busy is asked about; statements that are tried again wait for one
UNHEARD = 10.0  # the same where nobody listens (a task of Spark): looking costs a connection
LOOK, LOOK_AGAIN = 4.0, 2.0  # seconds between two questions to the server: while nothing waits, while something does
REPEAT = 60.0  # seconds until the same wait is told once more
OVER = 8.0  # seconds without a wait until it counts as over: one that is tried again and again makes pauses
IDLE = 60.0  # seconds without a session until the thread ends


@dataclass(frozen=True, slots=True)
class Holder:
    """A session that we wait for. `who` stays the same as long as it is the same session."""

    who: str  # process 4711 (user app, application psql, database shop)
    state: str = ""  # idle in transaction since 2026-11-25T08:12:03Z

    def __str__(self) -> str:
        return ", ".join(filter(None, (self.who, self.state)))


@dataclass(frozen=True, slots=True)
class Wait:
    """A session of ours that waits. Without holders `hint` says why none can be named."""

    number: int
    what: str  # a lock on public.orders; the end of transaction 745
    holders: tuple[Holder, ...] = ()
    hint: str = ""

    def __str__(self) -> str:
        behind = "; ".join(map(str, self.holders[:5])) + ("; …" if len(self.holders) > 5 else "")
        held = f", held by {behind}" if behind else ""
        return f"{self.what}{held}" + (f" ({self.hint})" if self.hint else "")


class Lookout(Protocol):
    """A connection of its own to one server. Raises AnabranchError."""

    def look(self, numbers: Sequence[int], others: bool) -> list[Wait]:
        """List the sessions, of these, that wait. `others`: also those of processes that this one has started (Spark's
        tasks).
        """

    def cancel(self, number: int) -> None:
        """End what this session of ours does at the moment."""

    def close(self) -> None: ...


@dataclass(frozen=True)
class Session:
    """A connection: `number` is the server's name for it, `is_busy` asks the driver without the server."""

    number: int
    is_busy: Callable[[Any], bool]
    cut: Callable[[Any], None]  # the line: whoever waits for an answer gets an error


@dataclass(frozen=True)
class Patience:
    """Limits in seconds: how long a second connection may take to answer, and after how long without an answer lines
    are cut.
    """

    answer: float = 10.0
    silence: float = 30.0


Listener = Callable[[str, str], None]  # (which server, what is waited for; "" when that is over)


@dataclass
class _Process:
    """The state of this process. A process that was forked from it starts with a new one."""

    servers: dict[str, _Server] = field(default_factory=dict)
    listeners: list[Listener] = field(default_factory=list)
    stops: list[Callable[[], bool]] = field(default_factory=list)
    has_tasks: int = 0  # work is done by processes that this one has started
    tasks_since: float = 0.0


_mutex = threading.Lock()
_process = _Process()


def _begin_anew() -> None:
    """Forget the parent's sessions, listeners and threads: a fork has none of them."""
    global _mutex, _process
    _mutex, _process = threading.Lock(), _Process()


os.register_at_fork(after_in_child=_begin_anew)


def register(
    server: str, connection: object, session: Session, lookout: Callable[[], Lookout], patience: Patience | None = None
) -> None:
    """Watch a connection as long as it lives. `server` is told to people: it has no password."""
    with _mutex:
        watched = _process.servers.setdefault(server, _Server(server, lookout))
    watched.patience = patience or watched.patience
    watched.add(connection, session)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Tell of waits meanwhile. Without a listener nothing goes into the log: Spark's tasks leave that to their driver."""
    mine = _process
    mine.listeners.append(listener)
    try:
        yield
    finally:
        mine.listeners.remove(listener)


@contextmanager
def ending_when(stop: Callable[[], bool]) -> Iterator[None]:
    """End statements that wait for others as soon as `stop` says so."""
    mine = _process
    mine.stops.append(stop)
    try:
        yield
    finally:
        mine.stops.remove(stop)


@contextmanager
def in_tasks() -> Iterator[None]:
    """Watch sessions of processes that this one has started, too, meanwhile: at each server that this one has sessions at,
    since then."""
    mine = _process
    mine.tasks_since = mine.tasks_since if mine.has_tasks else time.monotonic()
    mine.has_tasks += 1
    try:
        yield
    finally:
        mine.has_tasks -= 1


def publish(subject: str, text: str) -> None:
    """Tell the listeners of a wait that no statement of ours waits in, again and again; "" when it is over."""
    for listener in list(_process.listeners):
        listener(subject, text)


def parted(text: str) -> tuple[str, str]:
    """Take apart what listeners are told of a wait for somebody: what is waited for, and who has it ("": nobody is named)."""
    what, has_holders, held = text.removeprefix("for ").partition(", held by ")
    return what, held.rpartition(" at ")[0] if has_holders else ""


def said(seconds: float = 60.0) -> str:
    """Say what a session of this process waited for a moment ago, for the error that ends such a wait; "" for none."""
    servers = list(_process.servers.values())
    latest = max(servers, key=lambda one: one.seen, default=None)
    recent = latest is not None and latest.text and time.monotonic() - latest.seen < seconds
    return f"waited for {latest.text}" if recent and latest is not None else ""


class _Server:
    """The sessions of this process at one server, and the thread that watches them."""

    def __init__(self, name: str, lookout: Callable[[], Lookout]) -> None:
        self.name, self._open = name, lookout
        self.patience, self._silent_since = Patience(), 0.0
        self.text, self.seen = "", -REPEAT  # what was waited for last, and when that was seen
        self._sessions: weakref.WeakKeyDictionary[Any, Session] = weakref.WeakKeyDictionary()
        self._busy: dict[int, float] = {}  # session -> seen busy without a pause since
        self._mutex = threading.Lock()
        self._thread: threading.Thread | None = None
        self._used = 0.0  # when it last had a session
        self._lookout: Lookout | None = None
        self._attempt: object | None = None  # the look that is being made
        self._next_look = self._told = self._since = 0.0
        self._who: frozenset[str] = frozenset()

    def add(self, connection: object, session: Session) -> None:
        with self._mutex:
            self._sessions[connection], self._used = session, time.monotonic()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="anabranch-waits", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while True:
            time.sleep(TICK)
            now = time.monotonic()
            with self._mutex:
                sessions = list(self._sessions.items())
                if not sessions and not _process.has_tasks and now - self._used > IDLE:
                    self._close()
                    self._thread = None
                    return
            self._used = now if sessions else self._used
            try:
                self._note(sessions, now)
                self._step(now)
            except Exception as error:  # noqa: BLE001 - the thread's outermost loop: who watches has to go on watching
                log.get(server=self.name).debug("waits_not_seen", error=repr(error))
            del sessions  # held while this sleeps, and until the next list is made, they would never end

    def _note(self, sessions: list[tuple[Any, Session]], now: float) -> None:
        busy = {session.number for connection, session in sessions if session.is_busy(connection)}
        self._busy = {number: self._busy.get(number, now) for number in busy}

    def _step(self, now: float) -> None:
        least = BUSY if _process.listeners or _process.stops else UNHEARD
        long = [number for number, since in self._busy.items() if now - since >= least]
        has_tasks = bool(_process.has_tasks and _process.listeners) and self._used >= _process.tasks_since
        if not long and not has_tasks:
            self._silent_since = 0.0
        if not long and not has_tasks and now - self.seen > OVER:
            self._leave(now)
        elif (long or has_tasks) and now >= self._next_look:
            waits = self._answered(long, has_tasks)
            self._next_look = time.monotonic() + (LOOK_AGAIN if waits or self.text else LOOK)
            if waits:
                self._tell(waits, now)
                self._end_when_stopping(waits, long)
        if self.text and now - self.seen > OVER:
            self._over(now)

    def _answered(self, numbers: list[int], others: bool) -> list[Wait]:
        """Ask in a thread of its own: a server that stands still answers nobody, and no time limit of a driver ends that."""
        found: list[list[Wait] | None] = []
        self._attempt = attempt = object()
        asking = threading.Thread(target=lambda: found.append(self._look(numbers, others, attempt)), daemon=True)
        begun = time.monotonic()
        asking.start()
        asking.join(self.patience.answer + TICK)
        if asking.is_alive():
            self._lookout = self._attempt = None  # they are that thread's
        elif found and found[0] is not None:
            self._silent_since = 0.0
            return found[0]
        self._silent_since = self._silent_since or begun
        if time.monotonic() - self._silent_since >= self.patience.silence:
            self._cut(numbers)
        return []

    def _cut(self, numbers: list[int]) -> None:
        """Cut sessions that have waited for an answer all the time, if the server answers nobody."""
        self._silent_since = 0.0
        with self._mutex:
            sessions = list(self._sessions.items())
        since = time.monotonic() - self.patience.silence
        numbers = [number for number in numbers if self._busy.get(number, since + 1) <= since]
        silent = [(c, s) for c, s in sessions if s.number in numbers and s.is_busy(c)]
        if silent and _process.listeners:
            seconds = round(self.patience.silence)
            log.get(server=self.name).warning("server_is_silent", seconds=seconds, lines_cut=len(silent))
        for connection, session in silent:
            session.cut(connection)

    def _look(self, numbers: list[int], others: bool, attempt: object) -> list[Wait] | None:
        """Ask the server. Returns None where it does not answer, [] where it refuses or its answer cannot be read.

        A session's own user hears of such a refusal. An attempt that was given up in the meantime takes its lookout
        with it.
        """
        begun, lookout = time.monotonic(), self._lookout
        waits: list[Wait] | None
        try:
            lookout = lookout or self._open()
            if attempt is self._attempt:
                self._lookout = lookout
            waits = lookout.look(numbers, others)
        except AnabranchError as error:
            log.get(server=self.name).debug("waits_not_seen", error=error.message)
            waits = None if time.monotonic() - begun > 0.9 * self.patience.answer else []
        except Exception as error:  # noqa: BLE001 - the thread's outermost: an answer that nobody understands is an answer
            log.get(server=self.name).debug("waits_not_seen", error=repr(error))
            waits = []
        else:
            if attempt is self._attempt:
                return waits
        if attempt is self._attempt:
            self._lookout = None
        if lookout is not None:
            with suppress(AnabranchError):
                lookout.close()
        return waits

    def _tell(self, waits: list[Wait], now: float) -> None:
        who = frozenset(
            f"{wait.what} {holder.who}" for wait in waits for holder in wait.holders or (Holder(wait.hint),)
        )
        if not self.text:
            self._since = now
        self.text, self.seen = "; ".join(dict.fromkeys(map(str, waits))), time.monotonic()
        if not _process.listeners:
            return
        if who != self._who or now - self._told >= REPEAT:
            self._who, self._told = who, now
            seconds = round(now - self._since)
            log.get(server=self.name).warning("waiting_for_others", waits_for=self.text, seconds=seconds)
        self._publish(f"for {self.text} at {self.name}")

    def _end_when_stopping(self, waits: list[Wait], mine: list[int]) -> None:
        if not any(stop() for stop in list(_process.stops)):
            return
        for wait in waits:
            if wait.number in mine and self._lookout is not None:
                with suppress(AnabranchError):
                    self._lookout.cancel(wait.number)

    def _over(self, now: float) -> None:
        if _process.listeners:
            log.get(server=self.name).info("waited_for_others", waited_for=self.text, seconds=round(now - self._since))
        self.text, self._who = "", frozenset()
        self._publish("")

    def _publish(self, text: str) -> None:
        publish(self.name, text)

    def _leave(self, now: float) -> None:
        """Close the second connection when nothing needs to be asked."""
        if self._lookout is not None and now > self._next_look + LOOK:
            self._close()

    def _close(self) -> None:
        lookout, self._lookout = self._lookout, None
        if lookout is not None:
            with suppress(AnabranchError):
                lookout.close()
