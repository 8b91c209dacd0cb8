"""Places of the log: the number of the last transaction that is contained. A mark names the folder, too."""

from __future__ import annotations

import json
from collections.abc import Mapping

from anabranch.model.position import LogMark


def mark(identity: str, number: int, time: int = 0) -> LogMark:
    return LogMark(str(number), json.dumps({"identity": identity, "number": number}), time)


class FolderOrder:
    """LogOrder."""

    def mark(self, resume: str) -> LogMark:
        return LogMark(str(json.loads(resume)["number"]), resume)

    def includes(self, mark: LogMark, native: str, gtid: str | None) -> bool:
        return int(native) <= int(mark.native)

    def is_set(self, mark: LogMark) -> bool:
        return False

    def bytes_between(self, native: str, later: LogMark, sizes: Mapping[str, int] | None = None) -> int | None:
        return None
