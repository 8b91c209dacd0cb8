"""`[load]` of the job file."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from anabranch.config.section import Section


class Load(Section):
    """The initial load."""

    parallel: int = Field(default=4, ge=1, le=1024)
    """Chunks that are copied at the same time."""
    existing: Literal["refuse", "empty", "keep", "take_over"] = "refuse"
    """Treat target tables that hold rows so: refuse to start, empty them, or keep the rows: for tables that several
    jobs write to, each its own keys. `take_over`: the tables have the source's rows already, and nothing is ever loaded;
    `anabranch arm` lets such a job begin ([the way back](../howto/migrate-with-a-way-back.md))."""
    lock: Literal["none", "table", "global"] = "none"
    """A short read lock at the source where nothing else gives a consistent snapshot (no key; no GTIDs; XA on MariaDB)."""
    format: Literal["auto", "text"] = "auto"
    """How rows travel: `auto` passes those of a table on unread, in the databases' own binary form, where both ends have one
    for all its columns ([which do](../explanation/initial-load.md#rows-that-nobody-reads)); `text` never does."""
    defer_constraints: bool = False
    """Take unique and foreign keys off existing target tables for the load and put them back after it."""
