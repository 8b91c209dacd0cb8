"""The variables of a job: the manager's secrets that it may use, then the manager's own environment.

What does not live here: secrets (`secrets.py`), who starts processes (`supervising.py`, `operations.py`).
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

from anabranch.manager.secret_keys import VARIABLE
from anabranch.manager.secrets import NAME, Secrets

STORE = "ANABRANCH_STORE"  # the URL of a store that several machines share
KEPT_BACK = frozenset({VARIABLE, STORE})  # of the manager alone
_NAMED = re.compile(r"\$\{([^{}]*)\}")
_NAME = re.compile(NAME)


def without_key(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment as a process of a job may have it: without the key of the secrets, and the store."""
    return {name: value for name, value in environment.items() if name not in KEPT_BACK}


class JobEnvironment(Mapping[str, str]):
    """The variables in which `${…}` in the file of a job is looked up. Raises ConfigError for a secret that cannot be read."""

    def __init__(self, secrets: Secrets, job: str, below: Mapping[str, str]) -> None:
        self._secrets, self._job, self._below = secrets, job, below

    def __getitem__(self, name: str) -> str:
        found = self.secret(name)
        if found is not None:
            return found
        if name in KEPT_BACK:
            raise KeyError(name)
        return self._below[name]

    def __iter__(self) -> Iterator[str]:
        return iter(without_key(self._below))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def secret(self, name: str) -> str | None:
        """Return the value of a secret, None where there is none for this job."""
        return self._secrets.find(name, self._job) if _NAME.fullmatch(name) else None

    def of_process(self, text: str, below: Mapping[str, str]) -> dict[str, str]:
        """Return the variables of a process that is started for this job: the secrets that its file's `text` names, and those
        of `below`."""
        found = {name: value for name in sorted(named_in(text)) if (value := self.secret(name)) is not None}
        return without_key(below) | found


def variables_in(text: str) -> set[str]:
    """Return the names of the variables in a value, such as a URL."""
    return set(_NAMED.findall(text))


def named_in(text: str) -> set[str]:
    """Return the names of all variables in the text of a job file; none where it is no TOML."""
    try:
        return {name for value in _texts(tomllib.loads(text)) for name in variables_in(value)}
    except tomllib.TOMLDecodeError:
        return set()


def name_in(text: str) -> str:
    """Return the name of the job whose file this is the text of; "" where it says none."""
    try:
        return str(tomllib.loads(text).get("name", ""))
    except tomllib.TOMLDecodeError:
        return ""


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _texts(one)
