"""Tables that a job leaves out because a tool for online changes works with them, whatever pattern matches them.

What does not live here: the names (`model/ghost_names.py`), what becomes of the table that such a tool changes (capture).
"""

from __future__ import annotations

from anabranch.config import JobConfig
from anabranch.config.patterns import Pattern
from anabranch.model.ids import TableId

KEY = "ghost_tables"
HINT = (
    "[ddl] ghost_tables says which names are theirs; a table that the job file names in full is replicated in any case"
)
_WILD = frozenset("*?[")


class Ghosts:
    """Made once for a job's configuration."""

    def __init__(self, config: JobConfig) -> None:
        self.names = config.ddl.ghosts
        texts = [text for rule in config.rules for text in rule.include if not _WILD & set(text)]
        self._named = [Pattern.parse(text) for text in texts]
        self._entries = {entry.id for entry in config.tables}

    def pattern_of(self, table: TableId) -> str:
        """Return the pattern of `[ddl] ghost_tables` that leaves a table out; "" where none does, and for a table that the job
        file names in full."""
        found = self.names.pattern_of(table.name)
        is_named = table in self._entries or any(pattern.matches(table) for pattern in self._named)
        return "" if is_named else found
