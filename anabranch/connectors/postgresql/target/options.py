"""Options of a PostgreSQL as a target: `[target.options]` of the job file. No driver is imported here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from anabranch.databases import Options, whole_number


@dataclass(frozen=True)
class PostgresTargetOptions(Options):
    NEEDS_LOAD: ClassVar[frozenset[str]] = frozenset(("json", "geometry", "vector"))

    json: Literal["jsonb", "json", "text"] = "jsonb"
    """The type for JSON."""
    geometry: Literal["bytea", "geometry"] = "bytea"
    """The type for geometry: EWKB as bytes, or PostGIS's own."""
    vector: Literal["real[]", "vector"] = "real[]"
    """The type for vectors: an array, or pgvector's own."""
    retain_changes_hours: int = whole_number(72, 0)
    """How long a target [that keeps changes](../howto/change-tables.md) has each of them, in hours for which apply has run
    since; 0 for ever. A target that keeps rows has no use for it."""
    heartbeat_s: int = whole_number(300, 0)
    """Seconds between two notes of the time at a target [that keeps changes](../howto/change-tables.md), while the source has
    none; 0: none. A target that keeps rows has no use for it."""


USUAL = PostgresTargetOptions()
