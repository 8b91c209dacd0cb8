"""Checks of `[target]` and `[[targets]]` beyond single values: none at all, a name twice, a database twice.

What does not live here: single values (`sections/`). Whether two addresses are one server cannot be told here: the second
load finds the first one's state.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from anabranch.config.entries import Found
from anabranch.config.job import ONLY, JobConfig
from anabranch.databases import registry
from anabranch.errors import Problem
from anabranch.model.endpoint import Endpoint

HERE = ("localhost", "127.0.0.1", "::1")


def names_in(data: Mapping[str, Any]) -> Iterator[Found]:
    """Yield problems of targets' names in the file as it was read. Values of a wrong type are skipped."""
    entries = data.get("targets", [])
    if "target" not in data and entries in ([], None):
        yield ("target",), Problem("is missing", expected="a section [target]")
    seen = {ONLY} if "target" in data else set[str]()
    for number, entry in enumerate(entries if isinstance(entries, list) else []):
        name = entry.get("name") if isinstance(entry, dict) else None
        if not isinstance(name, str):
            continue
        if name == ONLY:
            yield ("targets", number, "name"), Problem(f"{name!r} is the name of [target]", expected="another name")
        elif name in seen:
            yield ("targets", number, "name"), Problem(f"{name!r} is there already", expected="a name of its own")
        seen.add(name)


def shared_in(config: JobConfig) -> Iterator[Found]:
    """Yield targets that share a database with another one, whose state they would overwrite."""
    seen: dict[tuple[object, ...], str] = {}
    for name, end in config.ends.items():
        places = [(end.scheme, _host_of(one), one.port, _database_of(end)) for one in end.each]
        if place := next((place for place in places if place in seen), None):
            number = next(number for number, one in enumerate(config.targets) if one.name == name)
            what = "server" if registry()[end.scheme].is_one_end else "database"
            problem = Problem(f"{name} is the {what} of {seen[place]}", expected=f"a {what} for each target")
            yield ("targets", number, "url"), problem
        for place in places:
            seen.setdefault(place, name)


def _host_of(end: Endpoint) -> str:
    return end.option("unix_socket") or ("localhost" if end.host.lower() in HERE else end.host.lower())


def _database_of(end: Endpoint) -> str:
    """Return what tells this end from others on its server: nothing where a server is one end."""
    return "" if registry()[end.scheme].is_one_end else end.database or end.user
