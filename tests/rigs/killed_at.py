"""`anabranch VERB …`, ended by SIGKILL just before its n-th statement that makes or removes a drill's shadow at a MySQL:
`python tests/rigs/killed_at.py WORDS N VERB …`, where WORDS are the beginnings of the statements that count.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from anabranch.cli.main import main
from anabranch.connectors.mysql.source import shadow

_real = shadow.ask
_words, _left = tuple(sys.argv[1].split(",")), int(sys.argv[2])


def _ask(connection: Any, sql: str, *values: object) -> list[tuple[Any, ...]]:
    global _left
    if sql.startswith(_words):
        if _left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        _left -= 1
    return _real(connection, sql, *values)


if __name__ == "__main__":
    shadow.ask = _ask
    main(sys.argv[3:])
