"""Origins whose transactions a reader does not give (LogOptions.leave_out): servers, sources of GTIDs, jobs. Pure.

What does not live here: where the log says whose a transaction is (`transactions.py`).
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from anabranch.connectors.mysql.source.gtid_bytes import uuid_text
from anabranch.errors import ConfigError
from anabranch.model.markers import jobs_among, native_among, origin_of

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_LARGEST = (1 << 32) - 1


@dataclass(frozen=True, slots=True)
class LeftOutOrigins:
    """Origins to leave out: by `server_id`, by the 16 bytes of the uuid that MySQL's GTIDs begin with, by the name of the job
    whose marker a transaction begins with."""

    servers: frozenset[int] = frozenset()
    sources: frozenset[bytes] = frozenset()
    jobs: frozenset[str] = frozenset()

    def has(self, server: int, source: bytes = b"") -> bool:
        return server in self.servers or source in self.sources


NOBODY = LeftOutOrigins()


def left_out(names: Collection[str]) -> LeftOutOrigins:
    """Parse names of origins. Raises ConfigError for a name that is neither a server id nor a uuid, nor that of a job."""
    servers, sources = set(), set()
    for name in sorted(native_among(names)):
        text = name.strip().lower()
        if text.isascii() and text.isdigit() and 0 < int(text) <= _LARGEST:
            servers.add(int(text))
        elif _UUID.fullmatch(text):
            sources.add(bytes.fromhex(text.replace("-", "")))
        else:
            raise ConfigError(
                f"{name!r} is no origin that a binary log names",
                hint=f"name a server_id, the uuid that a GTID of MySQL begins with (such as {uuid_text(bytes(16))}), or a job"
                f" ({origin_of('NAME')})",
            )
    return LeftOutOrigins(frozenset(servers), frozenset(sources), jobs_among(names))
