"""Takes out of values, of JSON's own kinds, what nobody else may see: each key is either known to hold no value of a row, or
its text is cut.

What does not live here: how a text is cut (`cutting.py`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from anabranch.job.bundle.cutting import Cutter, kind_of
from anabranch.job.bundle.secrets import HIDDEN, Secrets

# Keys whose texts are names, times, places or words of this release.
PLAIN = frozenset(
    (
        *(
            "about",
            "active",
            "at",
            "check",
            "class",
            "code",
            "commit_time",
            "created",
            "event",
            "exit_code",
            "file",
            "host",
        ),
        *(
            "how",
            "id",
            "is",
            "is_here",
            "job",
            "kind",
            "level",
            "life",
            "name",
            "noted_at",
            "outcome",
            "part",
            "pid",
            "phase",
        ),
        *(
            "phase_since",
            "position",
            "result",
            "retry",
            "rule",
            "seen",
            "segment",
            "setting",
            "side",
            "since",
            "source",
            "state",
        ),
        *("software_version", "sub_state", "table", "target", "task", "verdict", "version"),
    )
)
PLACES = frozenset(
    ("text", "position", "positions", "native", "read", "written", "applied", "source_end", "first", "last")
)
STATEMENTS = frozenset(("statement", "statements", "sql"))
# Keys under which rows, people and transactions of applications are named.
NEVER = frozenset(
    ("key", "keys", "values", "before", "after", "row", "user", "source_user", "by", "xid", "gtid", "digest")
)
_PLACE = re.compile(r"[\w.:/,@+-]{1,200}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z")
_LONGEST = 300


class Shown:
    """The view of values that a bundle has."""

    def __init__(self, secrets: Secrets, cutter: Cutter) -> None:
        self.secrets, self._cutter = secrets, cutter

    def of(self, value: Any, key: str = "") -> Any:
        """Return what may be seen of a value that stands under `key`."""
        if value is None or isinstance(value, bool):
            return value
        if key in NEVER:
            return HIDDEN
        if isinstance(value, Mapping):
            return {self._key(str(name)): self.of(one, str(name)) for name, one in value.items()}
        if isinstance(value, list | tuple | set | frozenset):
            return [self.of(one, key) for one in value]
        if isinstance(value, int | float):
            return value
        return self._text(str(value), key)

    def hidden(self, value: Any) -> Any:
        """Return a value whose keys and texts are no values of rows, without secrets."""
        if isinstance(value, Mapping):
            return {self.secrets.hide(str(name)): self.hidden(one) for name, one in value.items()}
        if isinstance(value, list | tuple):
            return [self.hidden(one) for one in value]
        return self.secrets.hide(value) if isinstance(value, str) else value

    def text(self, text: str) -> str:
        """Return what may be seen of a text that anybody may have written."""
        return self._cutter.cut(self.secrets.hide(text))

    def _text(self, text: str, key: str) -> str:
        if key in STATEMENTS:
            return kind_of(text) or (text and HIDDEN)
        if key == "url":
            return self.secrets.url(text)
        if key.endswith("_at") and _TIME.fullmatch(text):
            return text
        is_plain = len(text) <= _LONGEST and (key in PLAIN or (key in PLACES and _PLACE.fullmatch(text)))
        return self.secrets.hide(text) if is_plain else self.text(text)

    def _key(self, name: str) -> str:
        return self.secrets.hide(name) if self._cutter.is_plain(name) else self.text(name)
