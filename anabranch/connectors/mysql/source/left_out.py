"""Origins whose transactions a reader does not give (LogOptions.leave_out): servers, and sources of GTIDs. Pure.

What does not live here: where the log says whose a transaction is (`transactions.py`).
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from anabranch.connectors.mysql.source.gtid_bytes import uuid_text
from anabranch.errors import ConfigError

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_LARGEST = (1 << 32) - 1


@dataclass(frozen=True, slots=True)
class LeftOutOrigins:
    """Origins to leave out, by `server_id` and by the 16 bytes of the uuid that MySQL's GTIDs begin with."""

    servers: frozenset[int] = frozenset()
    sources: frozenset[bytes] = frozenset()

    def has(self, server: int, source: bytes = b"") -> bool:
        return server in self.servers or source in self.sources


NOBODY = LeftOutOrigins()


def left_out(names: Collection[str]) -> LeftOutOrigins:
    """Parse names of origins. Raises ConfigError for a name that is neither a server id nor a uuid."""
    servers, sources = set(), set()
    for name in names:
        text = name.strip().lower()
        if text.isascii() and text.isdigit() and 0 < int(text) <= _LARGEST:
            servers.add(int(text))
        elif _UUID.fullmatch(text):
            sources.add(bytes.fromhex(text.replace("-", "")))
        else:
            raise ConfigError(
                f"{name!r} is no origin that a binary log names",
                hint=f"name a server_id, or the uuid that a GTID of MySQL begins with (such as {uuid_text(bytes(16))})",
            )
    return LeftOutOrigins(frozenset(servers), frozenset(sources))
