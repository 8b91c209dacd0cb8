"""The three networks of the demo of a DMZ: a directory for each, with the files of its processes, which run by them.

Whatever a process needs is in its directory, and nothing else is: the job that captures does not know the target, the one
that applies does not know the source, the router knows neither. What does not live here: the story (moving.py).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from anabranch.demo.certificates import HOST, Authority
from anabranch.demo.child import Child
from anabranch.demo.pipeline import JOB_FILE, PASSWORDS, STOP_SECONDS, DemoFailed, Pipeline
from anabranch.demo.shop import ACCOUNT, NAME, End, schema_at
from anabranch.testing.servers import free_port
from anabranch.transport.tls import Certificates

SOURCE_SITE, DMZ, TARGET_SITE, BOTH = "source-network", "dmz", "target-network", "between"
OUT, PUMP, ROUTER, RECEIVER, IN = f"{NAME}-out", f"{NAME}-pump", "dmz", "inner", f"{NAME}-in"
TAIL = 2000  # characters of a log that are shown when its process has failed

CAPTURE_FILE = """\
name = "{name}"

[source]
url = "{source}"

[target]
url = "trail+file://{trail}"

[[rules]]
include = ["{schema}.*"]
"""
PUMP_FILE = """\
name = "{name}"

[source]
url = "trail+file://{trail}"

[target]
url = "trail+tls://{host}:{port}/{shop}?ssl_ca={tls.ca}&ssl_cert={tls.cert}&ssl_key={tls.key}"

[trail]
compress = true

[retry.target]
interval_s = 1
"""
LISTEN = """\
name = "{name}"

[listen]
address = "{host}:{port}"
tls_ca = "{tls.ca}"
tls_cert = "{tls.cert}"
tls_key = "{tls.key}"

[[allow]]
peer = "{peer}"
trail = "{shop}"
"""
ROUTES = """
[[routes]]
trail = "{shop}"
to = "trail+tls://{host}:{port}"
"""
STORE = """
[store]
url = "trail+file://{store}"
"""


@dataclass(frozen=True, slots=True)
class Hop:
    """A process of the way: `anabranch VERB FILE` in a site's directory. `log`: where it writes what it says."""

    verb: str
    file: Path
    variables: Mapping[str, str]

    @property
    def log(self) -> Path:
        return self.file.with_suffix(".log")

    @property
    def words(self) -> str:
        return f"anabranch {self.verb} {self.file.name}"


class Running:
    """A hop's process; leaving the context kills it. It may be killed and started again."""

    def __init__(self, hop: Hop) -> None:
        self.hop = hop
        self._child = self._started()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.kill()

    def kill(self) -> None:
        self._child.kill()

    def start_anew(self) -> None:
        self._child = self._started()

    def check(self) -> None:
        """Raise DemoFailed if it has ended by itself, and show the end of its log."""
        if (code := self._child.process.poll()) is not None:
            self._failed(code)

    def stop(self) -> None:
        """Ask it to end. Raises DemoFailed if it ends with an error."""
        if code := self._child.stop(STOP_SECONDS):
            self._failed(code)

    def _failed(self, code: int) -> None:
        print(self.hop.log.read_text(errors="replace")[-TAIL:], file=sys.stderr)
        raise DemoFailed(f"{self.hop.verb} {self.hop.file}", code)

    def _started(self) -> Child:
        command = [sys.executable, "-m", "anabranch", self.hop.verb, str(self.hop.file)]
        with self.hop.log.open("ab") as log:
            return Child(command, self.hop.variables, stdout=log, stderr=log)


@dataclass(frozen=True, slots=True)
class Sites:
    """All five processes of the way, in the order in which they are named on the screen. `both`: a job file that names both
    databases, and by its name the job that applies: nothing runs by it, it only compares."""

    capture: Hop
    pump: Hop
    router: Hop
    receiver: Hop
    apply: Hop
    both: Pipeline
    trail: Path
    replica: Path

    @classmethod
    def write(cls, directory: Path, source: End, target: End, java: Mapping[str, str]) -> Sites:
        """Write the directories of all sites, with certificates of one authority."""
        out, dmz, into = (directory / name for name in (SOURCE_SITE, DMZ, TARGET_SITE))
        for place in (out, dmz, into, directory / BOTH):
            place.mkdir()
        authority = Authority("demo-hops")
        tls = {name: authority.issue(place, name) for name, place in ((PUMP, out), (ROUTER, dmz), (RECEIVER, into))}
        outer, inner = free_port(), free_port()
        schema, source_url, target_url = _ends(source, target)
        trail, replica = out / "trails" / NAME, into / "trails" / NAME
        there = schema_at(target.database.server.name)
        applied = {"name": IN, "schema": schema, "target": target_url, "there": there}
        passwords = dict(zip(PASSWORDS, (source.password, target.password), strict=True))
        both = Pipeline(directory / BOTH, {**passwords, "ANABRANCH_HOME": str(directory / BOTH), **java}, IN)
        files = {
            out / f"{OUT}.toml": CAPTURE_FILE.format(name=OUT, source=source_url, trail=trail, schema=schema),
            out / f"{PUMP}.toml": PUMP_FILE.format(
                name=PUMP, trail=trail, host=HOST, port=outer, shop=NAME, tls=tls[PUMP]
            ),
            dmz / f"{ROUTER}.toml": _listening(ROUTER, outer, tls[ROUTER], PUMP)
            + ROUTES.format(shop=NAME, host=HOST, port=inner),
            into / f"{RECEIVER}.toml": _listening(RECEIVER, inner, tls[RECEIVER], ROUTER)
            + STORE.format(store=replica.parent),
            into / f"{IN}.toml": JOB_FILE.format(source=f"trail+file://{replica}", **applied),
            both.job_file: JOB_FILE.format(source=source_url, **applied),
        }
        for file, text in files.items():
            file.write_text(text)
        at_source = {PASSWORDS[0]: source.password, "ANABRANCH_HOME": str(out), **java}
        at_target = {PASSWORDS[1]: target.password, "ANABRANCH_HOME": str(into), **java}
        verbs: list[tuple[str, Mapping[str, str]]] = [
            ("run", at_source),
            ("run", {}),
            ("route", {}),
            ("receive", {}),
            ("run", at_target),
        ]
        hops = (Hop(verb, file, variables) for file, (verb, variables) in zip(files, verbs, strict=False))
        capture, pump, router, receiver, apply = hops
        return cls(capture, pump, router, receiver, apply, both, trail, replica)

    @property
    def applying(self) -> Pipeline:
        """The job that applies, to look at it and to ask for its status."""
        return Pipeline(self.apply.file.parent, dict(self.apply.variables), IN)

    def map(self) -> Iterator[str]:
        """Yield lines that say which file is in which network."""
        named = {
            SOURCE_SITE: (self.capture, self.pump),
            DMZ: (self.router,),
            TARGET_SITE: (self.receiver, self.apply),
        }
        for site, hops in named.items():
            yield f"  {site:<16}{', '.join(hop.words for hop in hops)}"


@contextmanager
def started(hops: Sequence[Hop], running: list[Running]) -> Iterator[list[Running]]:
    """Start processes and add them to `running`; they are killed at the end."""
    here: list[Running] = []
    try:
        for hop in hops:
            here.append(Running(hop))
            running.append(here[-1])
        yield here
    finally:
        for one in reversed(here):
            one.kill()


def _ends(source: End, target: End) -> tuple[str, str, str]:
    """Return the shop's schema at the source, and both URLs, with variables for passwords."""
    family, there = source.database.server.name, target.database.server.name
    schema, path = ("public", f"/{NAME}") if family == "postgresql" else (NAME, "")
    return (
        schema,
        f"{family}://{ACCOUNT}:${{{PASSWORDS[0]}}}@{source.address}{path}",
        f"{there}://{ACCOUNT}:${{{PASSWORDS[1]}}}@{target.address}/{NAME}",
    )


def _listening(name: str, port: int, tls: Certificates, peer: str) -> str:
    return LISTEN.format(name=name, host=HOST, port=port, tls=tls, peer=peer, shop=NAME)
