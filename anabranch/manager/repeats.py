"""Requests that may come twice: one with the key of an earlier one changes nothing, and gets that one's answer.

What a request changes and its answer are one transaction, so a kill leaves both or none. What does not live here: the header
(`api/repeating.py`), what is done.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping
from typing import Any

from anabranch.errors import ConfigError
from anabranch.manager.callers import Caller
from anabranch.manager.store import ManagerStore

KEPT_S = 24 * 3600.0


class Repeats:
    """The answers of one manager that are kept."""

    def __init__(self, store: ManagerStore) -> None:
        self._store = store

    def once(
        self, caller: Caller, key: str | None, asked: Mapping[str, Any], act: Callable[[], dict[str, Any]]
    ) -> tuple[dict[str, Any], bool]:
        """Act, or return what `act` returned when this caller gave this key before; and whether it was so.

        `asked`: what is asked for, as JSON has it; `act` changes nothing but the store, takes no lock beside that, and is taken
        back as a whole where it raises. Raises ConfigError for a key that was given with something else.
        """
        if key is None:
            return act(), False
        who, digest = f"{caller.how}:{caller.name}", _digest(caller, asked)
        with self._store.writing() as connection:  # who comes meanwhile with the same key waits here
            connection.execute("DELETE FROM repeat WHERE at < ?", (time.time() - KEPT_S,))
            row = connection.execute("SELECT * FROM repeat WHERE caller = ? AND key = ?", (who, key)).fetchone()
            if row is None:
                answer = act()
                values = (who, key, digest, json.dumps(answer), time.time())
                connection.execute("INSERT INTO repeat VALUES (?, ?, ?, ?, ?)", values)
                return answer, False
        if row["digest"] != digest:
            raise ConfigError(
                "this Idempotency-Key came with another request before", hint="give each request a key of its own"
            )
        found: dict[str, Any] = json.loads(row["answer"])
        return found, True


def _digest(caller: Caller, asked: Mapping[str, Any]) -> str:
    """Return what differs between two requests, also where somebody with other rights has the same name."""
    text = json.dumps([caller.role, *caller.jobs, *map(str, caller.more), asked], sort_keys=True)
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
