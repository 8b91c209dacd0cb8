"""Files of pumps, receivers and routers, on loopback addresses unless others are given, and the processes that run by them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from anabranch.testing.in_time import PATIENCE, until
from anabranch.transport.tls import Certificates
from rigs import forked_commands
from rigs.forked_commands import ForkedProcess

PACKAGE = Path(__file__).parents[2]
LOOPBACK = "127.0.0.1"
EVERYBODY = '[[allow]]\ntrail = "*"\n'


def listen(port: int, tls: Certificates | None, host: str = LOOPBACK) -> str:
    lines = [f'[listen]\naddress = "{host}:{port}"']
    if tls:
        lines += [f'tls_ca = "{tls.ca}"', f'tls_cert = "{tls.cert}"', f'tls_key = "{tls.key}"']
    return "\n".join(lines) + "\n"


def url(port: int, trail: str, tls: Certificates | None, host: str = LOOPBACK) -> str:
    if tls is None:
        return f"trail+tcp://{host}:{port}/{trail}"
    return f"trail+tls://{host}:{port}/{trail}?ssl_ca={tls.ca}&ssl_cert={tls.cert}&ssl_key={tls.key}"


def receive_file(
    folder: Path, port: int, tls: Certificates | None = None, more: str = "", host: str = LOOPBACK
) -> Path:
    store = f'[store]\nurl = "trail+file://{folder}/in"\n{more}\n'
    return written(folder / "receive.toml", f'name = "in"\n{listen(port, tls, host)}{store}{EVERYBODY}')


def route_file(
    folder: Path,
    port: int,
    to: int,
    tls: Certificates | None = None,
    hosts: tuple[str, str] = (LOOPBACK, LOOPBACK),
    name: str = "dmz",
) -> Path:
    """`hosts`: where it listens, and where it connects to."""
    scheme = "trail+tls" if tls else "trail+tcp"
    way = f'[[routes]]\ntrail = "*"\nto = "{scheme}://{hosts[1]}:{to}"\n'
    return written(folder / "route.toml", f'name = "{name}"\n{listen(port, tls, hosts[0])}{way}{EVERYBODY}')


def pump_file(folder: Path, source: Path, target: str, more: str = "", name: str = "hop") -> Path:
    ends = f'[source]\nurl = "trail+file://{source}"\n[target]\nurl = "{target}"\n'
    return written(folder / "pump.toml", f'name = "{name}"\n{ends}{more}\n[retry.target]\ninterval_s = 1\n')


def fetch_file(folder: Path, store: str, to: Path) -> Path:
    """A pump that brings a trail out of a store of objects."""
    ends = f'[source]\nurl = "{store}"\n[target]\nurl = "trail+file://{to}"\n'
    return written(folder / "fetch.toml", f'name = "fetch"\n{ends}[retry.target]\ninterval_s = 1\n')


def written(file: Path, text: str) -> Path:
    file.write_text(text)
    return file


class Process:
    """`anabranch ARGUMENTS`, started again as often as it is killed. `prefix`: what the command is started with."""

    def __init__(self, *arguments: str | Path, folder: Path, prefix: tuple[str, ...] = ()) -> None:
        self.arguments, self.folder, self.prefix = [str(one) for one in arguments], folder, prefix
        self.process: subprocess.Popen[bytes] | ForkedProcess | None = None

    def start(self, **environment: str) -> None:
        """Start it as a fork (forked_commands.py); with a prefix Python starts it."""
        env = {**os.environ, "PYTHONPATH": str(PACKAGE), "ANABRANCH_HOME": str(self.folder / "home"), **environment}
        file = self.folder / f"{self.arguments[0]}.log"
        if not self.prefix:
            self.process = forked_commands.start(self.arguments, env, file, file, is_quick=False)
            return
        with file.open("ab") as log:
            command = [*self.prefix, sys.executable, "-m", "anabranch", *self.arguments]
            self.process = subprocess.Popen(command, env=env, stdout=log, stderr=log)

    def kill(self) -> None:
        assert self.process
        self.process.kill()
        self.process.wait()

    def end(self) -> int:
        """Ask it to end, as Ctrl-C does; return its exit code."""
        assert self.process
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        return self.process.wait(PATIENCE)


def asked(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    env = {**os.environ, "PYTHONPATH": str(PACKAGE), **environment}
    return forked_commands.run([str(one) for one in arguments], env)


def status(file: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(asked("status", file, "--json").stdout)
    return found


def wait_for(what: Callable[[], Any]) -> None:
    until(what)
