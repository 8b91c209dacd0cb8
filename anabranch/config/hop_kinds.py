"""The kinds of files that a manager keeps running: jobs, and the hops of a trail; each known by its sections.

The URLs of a hop's file are read here as the hop itself reads them, so that a wrong one is refused before anything runs. What
does not live here: the sections (`hop_files.py`, `job.py`), what a hop does (`transport/`).
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from enum import StrEnum
from pathlib import Path

from anabranch.config.hop_files import PumpFile, ReceiveFile, RouteFile, is_pump, parse_hop_text, parse_trail_url
from anabranch.config.lines import Path as KeyPath
from anabranch.config.lines import key_lines, line_of
from anabranch.config.store_urls import is_store_url, parse_store_url
from anabranch.errors import ConfigError, Problem

HopFile = PumpFile | ReceiveFile | RouteFile


class Kind(StrEnum):
    """The kind of process that a file describes."""

    JOB = "job"
    PUMP = "pump"
    ROUTE = "route"
    RECEIVE = "receive"

    @property
    def verb(self) -> str:
        """Return the command that runs such a file."""
        return self.value if self in (Kind.ROUTE, Kind.RECEIVE) else "run"

    @property
    def noun(self) -> str:
        """Return what people call it."""
        return {Kind.ROUTE: "router", Kind.RECEIVE: "receiver"}.get(self, self.value)


def kind_of(text: str) -> Kind:
    """Return what the text of a file describes; of one that is no TOML, a job: whoever reads it says what is wrong."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return Kind.JOB
    if "listen" in data:
        return Kind.ROUTE if "routes" in data and "store" not in data else Kind.RECEIVE
    return Kind.PUMP if is_pump(data) else Kind.JOB


def parse_hop(kind: Kind, text: str, file: Path, env: Mapping[str, str]) -> HopFile:
    """Read and check the text of a hop's file. Raises ConfigError with every problem."""
    found: HopFile
    if kind is Kind.PUMP:
        found = parse_hop_text(PumpFile, text, file, env)
    elif kind is Kind.RECEIVE:
        found = parse_hop_text(ReceiveFile, text, file, env)
    else:
        found = parse_hop_text(RouteFile, text, file, env)
    lines = key_lines(text)
    problems = [replace(problem, line=line_of(lines, key)) for key, problem in _wrong_urls(found, env)]
    if problems:
        raise ConfigError(f"{file} has {len(problems)} problem{'s' * (len(problems) > 1)}", problems=problems)
    return found


def _wrong_urls(found: HopFile, env: Mapping[str, str]) -> Iterator[tuple[KeyPath, Problem]]:
    key: KeyPath
    for key, shown, url, kinds, is_named in _urls(found):
        try:
            if is_store_url(url) and isinstance(found, PumpFile):
                parse_store_url(url, env)
            else:
                parse_trail_url(url, env, kinds, is_named=is_named)
        except ValueError as error:
            yield key, Problem("no URL that can stand here", key=shown, expected=str(error))


def _urls(found: HopFile) -> Iterator[tuple[KeyPath, str, str, tuple[str, ...], bool]]:
    """Yield each URL with its key, how the key is shown, the kinds that may stand there, and whether it names a trail."""
    if isinstance(found, ReceiveFile):
        yield ("store", "url"), "[store] url", found.store.url, ("file",), True
    elif isinstance(found, RouteFile):
        for number, way in enumerate(found.routes):
            to = way.to
            if to.startswith("trail+tls://") and "?" not in to and found.listen.tls_ca:
                to += "?ssl_ca=listen&ssl_cert=listen&ssl_key=listen"  # those of [listen] are shown there, too
            yield ("routes", number, "to"), f"[[routes]] {number + 1} to", to, ("tls", "tcp"), False
    else:
        into = ("file",) if is_store_url(found.source.url) else ("file", "tls", "tcp")
        yield ("source", "url"), "[source] url", found.source.url, ("file",), True
        yield ("target", "url"), "[target] url", found.target.url, into, True
