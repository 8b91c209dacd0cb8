"""The text of a job file for another environment: a copy with other ends, or rules of one job put into another.

What is not replaced stays as it is written, comments too, and what comes out is proven against what TOML reads. What does not
live here: whether a job can have it (`reading.py`), which job is another one's (`manager/promoting.py`).
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from anabranch.config.lines import statements
from anabranch.config.rule_text import SECTIONS, imported, rules_text
from anabranch.config.toml_text import text_of
from anabranch.errors import ConfigError

ENDS = ("name", "source", "target", "targets", "trail")  # what is a job's own, in each environment
_STRING = re.compile(
    r'"""(?:[^\\]|\\.)*?"{3,5}|' + r"'''.*?'{3,5}|" + r'"(?:[^"\\\n]|\\.)*"|' + r"'[^'\n]*'|#[^\n]*", re.DOTALL
)
_VARIABLE = re.compile(r"\$\{([^{}]*)\}")
_NAME = re.compile(r"[A-Za-z0-9_-]+")  # of an end or a variable; a URL, which may have a password, is none
_HINT = "write name and url as plain keys of their own, or copy the file by hand"


def pairs(given: Iterable[str], what: str, hint: str) -> dict[str, str]:
    """Return texts NAME=VALUE by their names. `what`: they are called in messages, which never repeat what could be a URL.
    Raises ConfigError."""
    found: dict[str, str] = {}
    for number, one in enumerate(given, 1):
        name, sign, value = (part.strip() for part in one.partition("="))
        if not _NAME.fullmatch(name):
            raise ConfigError(f"{what} number {number}: no name stands in front of =, or not in full", hint=hint)
        if not (sign and value) or name in found:
            raise ConfigError(f"{what} {name}: told twice, or not in full", hint=hint)
        found[name] = value
    return found


def merged(text: str, came: str, secrets: Mapping[str, str], sections: Collection[str] = SECTIONS) -> str:
    """Return a job file's text with these sections of another one, whose variables are renamed. Raises ConfigError."""
    if wrong := sorted({*sections} & {*ENDS}):
        raise ConfigError(f"{', '.join(wrong)} of a job are its own", hint=f"sections are moved, such as {SECTIONS}")
    return imported(text, _with_strings(rules_text(came, sections), lambda one: _renamed(one, secrets)), sections)


def copied(text: str, name: str, ends: Mapping[str, str], secrets: Mapping[str, str]) -> str:
    """Return a job file's text as that of a new job. `ends`: the URL of each end: `source`, `target`, or a target's name.
    `secrets`: variables by their former names. Raises ConfigError for an end that nobody has given, or that is none."""
    data = tomllib.loads(text)
    urls = _urls(data)
    if urls.keys() != ends.keys():
        missing, unknown = sorted(urls.keys() - ends.keys()), sorted(ends.keys() - urls.keys())
        called = next((repr(end) for end in unknown if _NAME.fullmatch(end)), "called like one of those given")
        raise ConfigError(
            f"the ends of the new job are not told: {', '.join(missing)}" if missing else f"no end is {called}",
            hint=f"give a URL for each of {', '.join(urls)}",
        )
    if same := sorted(end for end, url in urls.items() if end != "source" and ends[end] == url):
        raise ConfigError(f"two jobs would write to the same place: {same[0]}", hint="give another URL")
    gone = set[int]()  # lines, from 0, of values that went over several
    by_url = {url: ends[end] for end, url in urls.items()}
    wanted = _job(data, name, ends, secrets)
    lines = text.split("\n")
    for one in statements(text):
        if one.names == ("name",) or (one.names[0] in ("source", "target", "targets") and one.names[-1] == "url"):
            old = "\n".join(lines[one.first - 1 : one.last])
            is_name = one.names == ("name",)
            lines[one.first - 1] = _with_strings(old, lambda said: name if is_name else by_url.get(said, said))  # noqa: B023 - called at once
            gone |= {*range(one.first, one.last)}
    kept = "\n".join(line for number, line in enumerate(lines) if number not in gone)
    made = _with_strings(kept, lambda said: said if said in by_url.values() else _renamed(said, secrets))
    if tomllib.loads(made) != wanted:
        raise ConfigError("the file cannot be copied as it is written", hint=_HINT)
    return made


def _urls(data: Mapping[str, Any]) -> dict[str, str]:
    """Return the URL of each end by its name."""
    found = {"source": data.get("source", {}).get("url")}
    found |= {"target": data["target"].get("url")} if "target" in data else {}
    found |= {str(one.get("name")): one.get("url") for one in data.get("targets", [])}
    return {name: str(url) for name, url in found.items()}


def _job(data: Mapping[str, Any], name: str, ends: Mapping[str, str], secrets: Mapping[str, str]) -> dict[str, Any]:
    """Return what the new job's file has to say."""
    made: dict[str, Any] = _each(data, lambda one: _renamed(one, secrets))
    made["name"], made["source"]["url"] = name, ends["source"]
    if "target" in made:
        made["target"]["url"] = ends["target"]
    for one, was in zip(made.get("targets", []), data.get("targets", []), strict=True):
        one["url"] = ends[str(was["name"])]
    return made


def _each(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {name: _each(one, change) for name, one in value.items()}
    return [_each(one, change) for one in value] if isinstance(value, list) else value


def _renamed(text: str, secrets: Mapping[str, str]) -> str:
    return _VARIABLE.sub(lambda found: f"${{{secrets.get(found[1], found[1])}}}", text)


def _with_strings(text: str, change: Callable[[str], str]) -> str:
    """Return a text of TOML with its strings changed; those that stay are written as they were."""

    def one(found: re.Match[str]) -> str:
        if found[0].startswith("#"):
            return found[0]
        said = str(tomllib.loads(f"x = {found[0]}")["x"])
        changed = change(said)
        return found[0] if changed == said else text_of(changed)

    return _STRING.sub(one, text)
