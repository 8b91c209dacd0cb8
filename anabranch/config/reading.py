"""Job file -> JobConfig, or one ConfigError with every problem: line, key, what was expected, the nearest right key.

What does not live here: the rules of single values (`sections/`), and of what stands in `[[tables]]` (`entries.py`).
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from anabranch.config.entries import found_in
from anabranch.config.job import JobConfig
from anabranch.config.lines import Path as KeyPath
from anabranch.config.lines import key_lines, line_of
from anabranch.config.options import FORMER, classes, keys, settle
from anabranch.config.section import Section
from anabranch.config.targets import names_in, shared_in
from anabranch.databases import OPTIONS, SOURCE, TARGET
from anabranch.errors import ConfigError, Problem

# pydantic's error type -> (message, expected); {…} come from the error's context, {value} is what stands in the file.
EXPECTED = {
    "missing": ("is missing", ""),
    "string_type": ("{value} is not text", "text in quotes"),
    "int_type": ("{value} is not a whole number", "a whole number, without quotes"),
    "bool_type": ("{value} is neither true nor false", "true or false, without quotes"),
    "list_type": ("is not a list", 'a list, like ["…"]'),
    "dict_type": ("is not a table", "a table, like {{ a = … }}"),
    "model_type": ("is not a section", "a section"),
    "model_attributes_type": ("is not a section", "a section"),
    "greater_than_equal": ("{value} is too small", "at least {ge}"),
    "less_than_equal": ("{value} is too large", "at most {le}"),
    "literal_error": ("{value} is no choice here", "{expected}"),
    "too_short": ("is empty", "at least {min_length} entry"),
    "string_too_short": ("is empty", "text"),
}


def load_job(
    path: str | Path, env: Mapping[str, str] = os.environ, check_filter: Callable[[str], None] = lambda text: None
) -> JobConfig:
    """Read and check a job file. Raises ConfigError. `check_filter` raises ValueError for what is no filter."""
    return parse_job(_text(Path(path)), Path(path), env, check_filter)


class AnyVariable(dict[str, str]):
    """An environment in which every variable has a value: one that may be a port, too."""

    def __contains__(self, name: object) -> bool:
        return True

    def get(self, name: str, otherwise: object = None) -> str:
        return "1"


def raw_job(file: Path) -> dict[str, Any]:
    """Return what a job file says as it is written: variables stay as they are named. Raises ConfigError."""
    text = _text(file)
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{file} is not TOML", problems=[_syntax(error, text)]) from None


def parse_job(
    text: str, file: Path, env: Mapping[str, str] = os.environ, check_filter: Callable[[str], None] = lambda text: None
) -> JobConfig:
    """Check the text of a job file, as `load_job` does. `file`: where it stands, or will stand."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{file} is not TOML", problems=[_syntax(error, text)]) from None
    lines = key_lines(text)
    settled = settle(data)
    problems = [*found_in(data, check_filter), *names_in(data), *settled.problems]
    problems += [p for detail in settled.wrong for p in _problems(detail)]
    try:
        config = JobConfig.model_validate(settled.data, context={"env": env})
        problems += shared_in(config)
    except ValidationError as error:
        details = error.errors(include_url=False)
        problems += [p for detail in details for p in _problems(detail)]
    placed = [replace(p, line=line_of(lines, key), key=_key_text(key)) for key, p in problems]
    if placed:
        placed.sort(key=lambda p: p.line or 0)
        raise ConfigError(f"{file} has {len(placed)} problem{'s' * (len(placed) > 1)}", problems=placed)
    config._home = Path(env.get("ANABRANCH_HOME") or ".anabranch").absolute()
    config._file = file.absolute()
    config._lines, config._unused, config._former = lines, tuple(settled.unused), settled.former
    return config


def _text(file: Path) -> str:
    try:
        return file.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise ConfigError(f"there is no job file {file}", hint="JOB is the path of a job file") from None
    except IsADirectoryError:
        raise ConfigError(f"{file} is a directory", hint="JOB is the path of a job file") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file} is not UTF-8 (byte {error.start})", hint="save it as UTF-8") from None
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}") from None


def _syntax(error: tomllib.TOMLDecodeError, text: str) -> Problem:
    message = str(error)
    match = re.search(r" \(at line (\d+), column (\d+)\)$", message)
    line = int(match[1]) if match else text.count("\n") + 1
    # tomllib quotes single characters and key names only, never a value
    return Problem(message[: match.start()] if match else message.removesuffix(" (at end of document)"), line=line)


def _problems(detail: ErrorDetails) -> Iterator[tuple[KeyPath, Problem]]:
    key, kind, context = detail["loc"], detail["type"], detail.get("ctx", {})
    if kind == "refused":
        yield from ((key, problem) for problem in context["problems"])
    elif kind == "extra_forbidden":
        yield key, _unknown(key, is_section=isinstance(detail["input"], dict | list))
    elif kind == "missing":
        yield key, _missing(key)
    else:
        yield key, _wrong(kind, detail, context)


def _wrong(kind: str, detail: ErrorDetails, context: dict[str, Any]) -> Problem:
    value = detail["input"]
    message, expected = EXPECTED.get(kind, (detail["msg"], ""))
    choices = re.findall(r"'([^']*)'", str(context.get("expected", "")))
    nearest = get_close_matches(str(value), choices, 1) if isinstance(value, str) else []
    facts = {**context, "value": repr(value)}
    return Problem(message.format(**facts), expected=expected.format(**facts), nearest="".join(map(repr, nearest)))


def _unknown(key: KeyPath, is_section: bool) -> Problem:
    section, name = _section(key[:-1]), str(key[-1])
    names = _keys(section) if section else []
    kind = "section" if is_section and len(key) == 1 else "key"
    former = {one: f"[{role}.{OPTIONS}] {one}" for (where, one), role in FORMER.items() if (where,) == key[:-1]}
    nearest = [former.get(one, one) for one in get_close_matches(name, [*names, *former], 1)] or [_elsewhere(name)]
    return Problem(f"unknown {kind}", expected=f"one of {', '.join(names)}", nearest=nearest[0])


def _missing(key: KeyPath) -> Problem:
    section = _section(key)
    return Problem("is missing", expected=_example(key) if section is None else f"a section {_key_text(key)}")


def _example(key: KeyPath) -> str:
    examples = {
        "name": 'a name, like name = "shop"',
        "url": 'url = "scheme://user:${PASSWORD}@host:port/database"',
        "include": 'patterns, like include = ["shop.*"]',
        "rules": 'at least one [[rules]] with include = ["shop.*"]',
    }
    return examples.get(str(key[-1]), "")


def _section(path: KeyPath) -> type[BaseModel] | None:
    """Return the model that a path leads to, or None where it leads to a value."""
    model: type[BaseModel] = JobConfig
    for part in path:
        if isinstance(part, int):
            continue
        annotation = next((f.annotation for n, f in model.model_fields.items() if part in (n, f.alias)), None)
        inner = [a for a in (annotation, *get_args(annotation)) if isinstance(a, type) and issubclass(a, Section)]
        is_several = get_origin(annotation) not in (None, Union, UnionType)  # a section that may be left out is one
        if not inner or (is_several and path[-1] == part):
            return None
        model = inner[0]
    return model


def _keys(model: type[BaseModel]) -> list[str]:
    return [field.alias or name for name, field in model.model_fields.items()]


def _elsewhere(name: str) -> str:
    """Return the same key in another section, as `[load] parallel`."""
    for section in JobConfig.model_fields:
        model = _section((section,)) or _section((section, 0))
        if model and name in _keys(model):
            return _key_text((section, name))
    owners = (role for role in (SOURCE, TARGET) for kind in classes(role) if name in keys(kind))
    return "".join(_key_text((role, OPTIONS, name)) for role in islice(owners, 1))


_LISTS = {"rules", "tables", "targets"}


def _key_text(key: KeyPath) -> str:
    """Return a path as the file writes it: `[load] lock`, `[[rules]] include`, `name`."""
    names = [str(part) for part in key if not isinstance(part, int)]
    if not names or (len(names) == 1 and names[0] not in JobConfig.model_fields):
        return "".join(names)
    if len(names) == 1 and names[0] == "name":
        return "name"
    if names[1:2] == [OPTIONS]:
        return " ".join([f"[{names[0]}.{OPTIONS}]", *names[2:]])
    head = f"[[{names[0]}]]" if names[0] in _LISTS else f"[{names[0]}]"
    return " ".join([head, ".".join(names[1:])]).strip()
