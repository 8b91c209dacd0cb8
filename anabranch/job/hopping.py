"""The hops of a trail as processes: a pump by its job file, a receiver and a router by theirs.

What does not live here: what they say to each other (`transport/`), what stands in their files (`config/hop_files.py`).
"""

from __future__ import annotations

import errno
import os
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import quote

from anabranch import log
from anabranch.config.hop_files import (
    Listen,
    PumpFile,
    ReceiveFile,
    RouteFile,
    TrailUrl,
    load_hop_file,
    parse_rate,
    parse_trail_url,
)
from anabranch.config.store_urls import StoreUrl, is_store_url
from anabranch.errors import ConfigError, NotCaughtUp, Problem, Side, StateError, TargetUnavailable
from anabranch.job import store_jobs
from anabranch.job.hop_status import pump_status
from anabranch.job.signals import Stop
from anabranch.job.store_jobs import FetchJob
from anabranch.stores.opening import open_store
from anabranch.trail.lock import OsLock
from anabranch.trail.reader import exists
from anabranch.trail.retention import RetentionLimits
from anabranch.transport import hop_state
from anabranch.transport.bandwidth import Hours, Limiter
from anabranch.transport.link import Link, LinkLost
from anabranch.transport.pump import LONGEST_PAUSE, Pump
from anabranch.transport.receiver import Receiver
from anabranch.transport.router import Route, Router
from anabranch.transport.server import Server, listening
from anabranch.transport.store_pump import StorePump
from anabranch.transport.tls import Allowed, Certificates, connected, context


def pump_job(path: str | Path) -> PumpJob | FetchJob:
    """Return the job of a file whose ends are two trails. Raises ConfigError."""
    file = load_hop_file(PumpFile, path)
    if not is_store_url(file.source.url):
        return PumpJob(path)
    target = _url(path, "[target] url", file.target.url, ("file",))
    return FetchJob(path, file, store_jobs.parsed(path, "[source] url", file.source.url), target)


class PumpJob:
    """A job whose ends are two trails, the source in a directory."""

    def __init__(self, path: str | Path) -> None:
        """Read the file. Raises ConfigError."""
        self.path = Path(path)
        self.file = load_hop_file(PumpFile, path)
        self.name = self.file.name
        self.source = _url(path, "[source] url", self.file.source.url, ("file",))
        self.target = _target(path, self.file.target.url)
        if self.target.path == self.source.path and self.target.kind == "file":
            raise ConfigError(f"{path}: [source] url and [target] url are one directory", hint="name another one")
        self._tls = _client(self.target) if isinstance(self.target, TrailUrl) else None

    @property
    def directory(self) -> Path:
        return Path(self.source.path)

    def check(self) -> list[str]:
        """Return what stands in the way of a run, nothing where it could begin."""
        found = [] if exists(self.directory) else [f"there is no trail in {self.directory}: start what writes it first"]
        if isinstance(self.target, StoreUrl):
            found += store_jobs.problems(self.target, Side.TARGET, self.name)
        elif self.target.kind != "file":
            try:
                connected(self.target.host, self.target.port, self._tls).close()
            except LinkLost as error:
                found.append(str(error))
        return found

    def run(self, *, until_caught_up: bool = False, seconds: float | None = None) -> None:
        """Send until stopped, or until all that is published is durable at the next store. Raises AnabranchError;
        NotCaughtUp where that has taken longer than `seconds`."""
        end = None if seconds is None else time.monotonic() + seconds
        with Stop() as stop, ExitStack() as stack:
            stack.callback(self._locked().close)

            def is_over() -> bool:
                return stop.asked() or (end is not None and time.monotonic() > end)

            self._pump(stack, is_over).run(is_over, until_caught_up=until_caught_up)
            if until_caught_up:
                stop.exit_if_signalled()
                if is_over():
                    raise NotCaughtUp(f"the next store has not got all of {self.directory}", hint="give it more time")

    def status(self) -> dict[str, Any]:
        """Return how far it is, as `pump_status` has it."""
        return pump_status(self.name, self.directory, str(self.source), str(self.target))

    @property
    def _lock_file(self) -> Path:
        return self.directory / hop_state.FOLDER / f"{quote(self.name, safe='')}.lock"

    def _locked(self) -> OsLock:
        if not exists(self.directory):
            raise StateError(f"there is no trail in {self.directory}", hint="start what writes it first", job=self.name)
        return store_jobs.locked(self._lock_file, self.name)

    def _pump(self, stack: ExitStack, stop: Callable[[], bool]) -> Pump:
        limits, retry, target = self.file.trail, self.file.retry.target, self.target
        limiter, longest = _limiter(limits.bandwidth), float(retry.interval_s or LONGEST_PAUSE)
        give_up = store_jobs.give_up(self.file)
        if isinstance(target, StoreUrl):
            return StorePump(
                self.directory,
                self.name,
                target.name,
                lambda: open_store(target, Side.TARGET),
                to=str(target),
                limiter=limiter,
                compress=limits.compress,
                longest_pause=longest,
                give_up=give_up,
                interval=limits.interval_s,
                keep=limits.retain_hours * 3600.0,
            )
        return Pump(
            self.directory,
            self.name,
            target.path if target.kind != "file" else Path(target.path).name,
            self._local(stack, stop, target) if target.kind == "file" else lambda: self._remote(target),
            to=str(target),
            limiter=limiter,
            compress=limits.compress,
            longest_pause=longest,
            give_up=give_up,
        )

    def _remote(self, target: TrailUrl) -> Link:
        return Link(connected(target.host, target.port, self._tls), f"{target.host}:{target.port}")

    def _local(self, stack: ExitStack, stop: Callable[[], bool], target: TrailUrl) -> Callable[[], Link]:
        """Return a way to a receiver in this process, for a trail of the same machine."""
        folder = Path(target.path).parent
        folder.mkdir(parents=True, exist_ok=True)
        ends = threading.Event()
        stack.callback(ends.set)
        server = Server([], None, (Allowed("*"),), Receiver(self.name, folder, stop=ends.is_set).serve, ends.is_set)

        def connect() -> Link:
            if server.failure is not None:
                raise server.failure
            ours, theirs = socket.socketpair()
            threading.Thread(target=server.have, args=(theirs, str(folder)), name="store", daemon=True).start()
            return Link(ours, str(folder))

        return connect


def receive(path: str | Path, *, check: bool = False, show: Callable[[str], None] = lambda text: None) -> None:
    """Write the trails that reach this process, until stopped. `check`: only say whether it could. Raises ConfigError,
    TrailError where an fsync has failed."""
    file = load_hop_file(ReceiveFile, path)
    folder = Path(_url(path, "[store] url", file.store.url, ("file",)).path)
    with Stop() as stop, ExitStack() as stack:
        _make(folder, path)
        free = int(parse_rate(file.store.min_free)) if file.store.min_free else 0
        receiver = Receiver(
            file.name, folder, min_free=free, limits=RetentionLimits(file.store.retain_hours * 3600.0), stop=stop.asked
        )
        server = _server(path, file.listen, _allowed(file.allow), receiver.serve, stop.asked, stack)
        if check:
            show(f"{path} is good: trails are written below {folder}")
            return
        show(f"anabranch receives at {file.listen.address}, below {folder}")
        server.run()


def route(path: str | Path, *, check: bool = False, show: Callable[[str], None] = lambda text: None) -> None:
    """Pass trails on, until stopped. `check`: only say whether it could, and connect once to each next hop. Raises ConfigError,
    TargetUnavailable where a next hop does not answer."""
    file = load_hop_file(RouteFile, path)
    routes = []
    for number, way in enumerate(file.routes, 1):
        key = f"[[routes]] {number} to"
        secured = bool(file.listen.tls_ca)
        to = _address(path, key, way.to, file.listen if secured else None)
        routes.append(to_route(way.trail, to))
    with Stop() as stop, ExitStack() as stack:
        server = _server(
            path, file.listen, _allowed(file.allow), Router(file.name, routes, stop.asked).serve, stop.asked, stack
        )
        if check:
            for one in routes:
                try:
                    connected(one.host, one.port, one.tls).close()
                except LinkLost as error:
                    raise TargetUnavailable(str(error), hint="check the next hop and the way to it") from None
            show(f"{path} is good: each next hop answers")
            return
        show(f"anabranch routes at {file.listen.address}")
        server.run()


def to_route(trail: str, url: TrailUrl) -> Route:
    return Route(trail, url.host, url.port, _client(url))


def _address(path: str | Path, key: str, text: str, listen: Listen | None) -> TrailUrl:
    """Return the next hop of a router, which shows there what it shows to whoever connects unless the URL says otherwise."""
    if text.startswith("trail+tls://") and "?" not in text and listen:
        files = {"ssl_ca": listen.tls_ca, "ssl_cert": listen.tls_cert, "ssl_key": listen.tls_key}
        text += "?" + "&".join(f"{key}={quote(file or '')}" for key, file in files.items())
    return _url(path, key, text, ("tls", "tcp"), is_named=False)


def _make(folder: Path, path: str | Path) -> None:
    """Make the folder of a receiver. Raises ConfigError for what can be no folder, StateError for one that cannot be made or
    written now: its file system may not be there yet."""
    what, hint = f"{path}: [store] url: {folder}", "let this user write there; look whether its file system is there"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        message = f"{what} cannot be made: {error.strerror}"
        if error.errno in (errno.EEXIST, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP, errno.EINVAL):
            raise ConfigError(message) from None
        raise StateError(message, hint=hint) from None
    if not os.access(folder, os.W_OK | os.X_OK):
        raise StateError(f"{what} cannot be written", hint=hint)


def _server(
    path: str | Path,
    listen: Listen,
    allowed: tuple[Allowed, ...],
    serve: Any,
    stop: Callable[[], bool],
    stack: ExitStack,
) -> Server:
    tls = None
    if listen.tls_ca and listen.tls_cert and listen.tls_key:
        tls = context(Certificates(Path(listen.tls_ca), Path(listen.tls_cert), Path(listen.tls_key)), serves=True)
    sockets = listening(*listen.place)
    for one in sockets:
        stack.callback(one.close)
    log.get().info("hop_listens", address=listen.address, file=str(path))
    return Server(sockets, tls, allowed, serve, stop)


def _allowed(entries: Iterable[Any]) -> tuple[Allowed, ...]:
    return tuple(Allowed(one.trail, one.peer) for one in entries)


def _client(url: TrailUrl) -> ssl.SSLContext | None:
    if url.kind != "tls":
        return None
    return context(Certificates(Path(url.ssl_ca), Path(url.ssl_cert), Path(url.ssl_key)), serves=False)


def _limiter(found: Any) -> Limiter:
    if isinstance(found, str):
        return Limiter(parse_rate(found))
    hours = []
    for one in found:
        start, end = one.minutes
        hours.append(Hours(start, end, parse_rate(one.limit) if one.limit else None))
    return Limiter(None, tuple(hours))


def _target(path: str | Path, text: str) -> TrailUrl | StoreUrl:
    if is_store_url(text):
        return store_jobs.parsed(path, "[target] url", text)
    return _url(path, "[target] url", text, ("file", "tls", "tcp"))


def _url(path: str | Path, key: str, text: str, kinds: tuple[str, ...], *, is_named: bool = True) -> TrailUrl:
    try:
        return parse_trail_url(text, os.environ, kinds, is_named=is_named)
    except ValueError as error:
        problem = Problem("no URL that can stand here", key=key, expected=str(error))
        raise ConfigError(f"{path} has 1 problem", problems=[problem]) from None
