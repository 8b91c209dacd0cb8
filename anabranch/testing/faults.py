"""Faults on purpose: a TCP line that is slow, silent, cut or refused, and processes that are frozen or killed.

What does not live here: when a fault is worth it (tests/faults), servers that are stopped (servers.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

BLOCK = 64 * 1024
PATIENCE = 120.0  # with the thread of a line
Cut = Literal["unheard", "heard", "answered"]


class Proxy:
    """A line to `host:port` by way of a free port of 127.0.0.1, in a thread of its own. Faults hold until the next call.

    `slow`: every block waits that long · `stall`: nothing passes, nobody is told · `cut`: open lines are reset ·
    `refuse`: as `cut`, and new ones are reset too · `change`: an answer says something else · `restore`: as it was. `cut_at`:
    once, where a client says something."""

    def __init__(self, host: str, port: int) -> None:
        self.host, self.target_port, self.port = host, port, 0
        self.lines = 0  # opened so far
        self.passed = 0  # bytes so far, both ways
        self.cuts = 0  # done by `cut_at`
        self.disturbed = 0  # lines and blocks so far that were reset, refused, or had to wait
        self._delay, self._refuses = 0.0, False
        self._cut_at: tuple[bytes, Cut] | None = None
        self._change: tuple[re.Pattern[bytes], bytes] | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="anabranch-proxy", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._flows = asyncio.run_coroutine_threadsafe(self._serve(), self._loop).result(PATIENCE)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(PATIENCE)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE)
        self._loop.close()

    def slow(self, seconds: float) -> None:
        self._call(lambda: setattr(self, "_delay", seconds))

    def stall(self) -> None:
        self._call(self._flows.clear)

    def cut(self) -> None:
        self._call(self._reset)

    def refuse(self) -> None:
        self._refuses = True
        self.cut()

    def cut_at(self, words: bytes, when: Cut) -> None:
        """The next client that says `words` loses its line: before the server hears them (`unheard`), as it hears them
        (`heard`), or when it has answered, which is not passed on (`answered`). Only where the words come in one piece, and
        not encrypted."""
        self._call(lambda: setattr(self, "_cut_at", (words, when)))

    def change(self, said: bytes, heard: bytes) -> None:
        """Replace what the pattern `said` finds in the server's answers by `heard`, as re.sub does.

        It is found only where it comes in one piece and is not encrypted."""
        self._call(lambda: setattr(self, "_change", (re.compile(said, re.DOTALL), heard)))

    def restore(self) -> None:
        self._refuses, self._cut_at, self._change = False, None, None
        self.slow(0.0)
        self._call(self._flows.set)

    def _call(self, action: Callable[[], object]) -> None:
        async def run() -> None:
            action()

        asyncio.run_coroutine_threadsafe(run(), self._loop).result(PATIENCE)

    @property
    def is_used(self) -> bool:
        """Return whether a line is open."""
        return bool(self._open)

    def _reset(self) -> None:
        self.disturbed += len(self._open)
        for line in list(self._open):
            line.transport.abort()

    async def _serve(self) -> asyncio.Event:
        self._server = await asyncio.start_server(self._join, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        flows = asyncio.Event()
        flows.set()
        return flows

    async def _end(self) -> None:
        self._server.close()
        self._reset()
        mine = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in mine:
            task.cancel()
        await asyncio.gather(*mine, return_exceptions=True)

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._refuses:
            self.disturbed += 1
            writer.transport.abort()
            return
        try:
            there = await asyncio.open_connection(self.host, self.target_port)
        except OSError:  # the server is away, as it would be without us
            writer.transport.abort()
            return
        if self._refuses:  # since it came
            self.disturbed += 1
            for line in (writer, there[1]):
                line.transport.abort()
            return
        self.lines += 1
        self._open |= {writer, there[1]}
        line = _Line((writer, there[1]))
        await asyncio.gather(self._pass(reader, there[1], line, True), self._pass(there[0], writer, line, False))
        self._open -= {writer, there[1]}

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, line: _Line, is_client: bool
    ) -> None:
        with contextlib.suppress(OSError):
            while block := await reader.read(BLOCK):
                self.disturbed += bool(self._delay) or not self._flows.is_set()
                await self._flows.wait()
                if self._delay:
                    await asyncio.sleep(self._delay)
                if ends := self._ends(block, line, is_client):
                    self.cuts += 1
                    if ends == "heard":
                        writer.write(block)
                        await writer.drain()
                    line.cut()
                    return
                if self._change and not is_client:
                    said, heard = self._change
                    block = said.sub(heard, block)
                writer.write(block)
                self.passed += len(block)
                await writer.drain()
        writer.close()

    def _ends(self, block: bytes, line: _Line, is_client: bool) -> Cut | None:
        """Return whether the line is to be cut at this block, and how."""
        if not is_client:
            return "answered" if line.is_asked else None
        if self._cut_at is None or self._cut_at[0] not in block:
            return None
        when, self._cut_at = self._cut_at[1], None
        line.is_asked = when == "answered"
        return None if line.is_asked else when


@dataclass
class _Line:
    """A client's way to the server and back."""

    ends: tuple[asyncio.StreamWriter, asyncio.StreamWriter]
    is_asked: bool = False  # the line is to be cut at the next answer

    def cut(self) -> None:
        for end in self.ends:
            end.transport.abort()


# --- processes --------------------------------------------------------------------------------------------------------


def command_line(pid: int) -> str:
    """Arguments with blanks between; empty for a process that is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def is_alive(pid: int) -> bool:
    """Return whether it runs; a zombie does not."""
    return _state_and_parent(pid)[0] not in ("", "Z", "X")


def descendants(pid: int) -> list[int]:
    """Everything it started and what that started, alive, nearest first; sessions and groups do not matter."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        state, parent = _state_and_parent(int(entry.name))
        if state not in ("", "Z", "X"):
            children.setdefault(parent, []).append(int(entry.name))
    found, level = [], [pid]
    while level:
        level = [child for one in level for child in children.get(one, ())]
        found += level
    return found


def find(pid: int, words: str) -> list[int]:
    """Descendants with `words` in their command line."""
    return [child for child in descendants(pid) if words in command_line(child)]


def python_workers(pid: int) -> list[int]:
    """Spark's Python workers below a driver: the daemon's forks, not the daemon."""
    daemons = find(pid, "pyspark.daemon")
    return [one for one in daemons if _state_and_parent(one)[1] in daemons]


def kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def kill_tree(pid: int) -> None:
    """SIGKILL for a process and everything below it: as when the machine loses power. First all stand still, so that none
    sees another go."""
    family = [pid, *descendants(pid)]
    for member in family:
        with contextlib.suppress(ProcessLookupError):
            os.kill(member, signal.SIGSTOP)
    for member in {*family, *descendants(pid)}:
        kill(member)


def abort_tree(pid: int) -> None:
    """SIGABRT for a process and everything below it: those that have Python's fault handler tell where their threads are."""
    for member in [pid, *descendants(pid)]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(member, signal.SIGABRT)


@contextmanager
def frozen(pid: int) -> Iterator[bool]:
    """The process stands still meanwhile; False when it was gone already."""
    try:
        os.kill(pid, signal.SIGSTOP)
    except ProcessLookupError:
        yield False
        return
    try:
        yield is_alive(pid)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def _state_and_parent(pid: int) -> tuple[str, int]:
    """Return two fields of /proc/PID/stat (see proc_pid_stat(5)); ("", 0) when it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return "", 0
    return fields[0], int(fields[1])
