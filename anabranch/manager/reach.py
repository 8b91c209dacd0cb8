"""Names what in a job file reaches beyond its job: programs that it has run, files of the manager's machine,
and hosts that get what the manager's environment has for them.

What does not live here: who may say so (`manager.py`).
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from anabranch.databases import SSL_FILES

FILES = frozenset(SSL_FILES) - {"ssl_mode"}


def reach_of(text: str) -> dict[str, str]:
    """Return the keys of a job file, which has been checked, that run programs or name files, with what they say."""
    job = tomllib.loads(text)
    master = str(job.get("spark", {}).get("master", "local"))
    found = {
        "[cutover] flip": job.get("cutover", {}).get("flip"),
        "[spark] conf": job.get("spark", {}).get("conf"),  # programs, classes and files among others
        "[spark] archive": job.get("spark", {}).get("archive"),
        "[spark] master": None if master.startswith("local") else master,
        "[trail] encrypt": job.get("trail", {}).get("encrypt"),  # a command, files, variables of the manager
        "[observe] traces": job.get("observe", {}).get("traces"),  # gets headers of the environment
        **dict(_files(job)),
        **dict(_of_hop(job)),
        **dict(_trails(job)),
    }
    return {key: json.dumps(said, sort_keys=True, default=str) for key, said in found.items() if said}


def _of_hop(job: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield what a hop of a trail does to its machine: ports that listen, directories that are read and written, who may."""
    yield from ((f"[{key}]", job.get(key)) for key in ("listen", "store", "routes", "allow"))


def _trails(job: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the trails that a job or a pump reads or writes: files of the machine, which may be another job's."""
    for place, end in _ends(job):
        if (url := str(end.get("url", ""))).strip().lower().startswith("trail+"):
            yield f"{place} url", url


def _files(job: Mapping[str, Any]) -> Iterator[tuple[str, list[str]]]:
    for place, end in _ends(job):
        options = urlsplit(str(end.get("url", ""))).query.split("&")
        yield f"{place} url, the options for files", [one for one in options if one.partition("=")[0] in FILES]


def _ends(job: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    yield from ((f"[{end}]", job.get(end, {})) for end in ("source", "target"))
    yield from ((f"[[targets]] {number}", one) for number, one in enumerate(job.get("targets", []), 1))
