"""Names of files and folders of tables, for which every file system has room.

What does not live here: what is in them.
"""

from __future__ import annotations

from hashlib import sha256
from urllib.parse import quote

from anabranch.model.ids import TableId

LONGEST = 200  # bytes of a name; a file system has room for 255, and a file that is being written gets a longer one
ASKED = 225  # of a request: a release before cut none, and they wait


def named(table: TableId, longest: int = LONGEST) -> str:
    """Return the name of a table's file or folder, without an ending. A long one is cut, with a digest at its end."""
    name = quote(str(table), safe="")
    if len(name) <= longest:
        return name
    return f"{name[:LONGEST].rpartition('%')[0]}~{sha256(str(table).encode()).hexdigest()[:16]}"
