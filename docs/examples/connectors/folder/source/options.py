"""Options of the folder: `[source.options]` of the job file."""

from __future__ import annotations

from dataclasses import dataclass

from anabranch.databases import Options, whole_number


@dataclass(frozen=True)
class FolderOptions(Options):
    poll_ms: int = whole_number(50, 1, 60000)
    """How often the folder is looked at for the next transaction."""
