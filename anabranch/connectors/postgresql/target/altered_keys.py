"""Foreign keys that the source has dropped go at the target, too, inside the epoch.

A key is ours if it has the name and the columns with which a load builds it. What does not live here: building those that come
(`constraints.py`), when it is done (apply engine).
"""

from __future__ import annotations

from collections.abc import Iterator

from anabranch.connectors.postgresql.connection import Connection
from anabranch.connectors.postgresql.quoting import qualified, quote
from anabranch.connectors.postgresql.target.altered_indexes import attempt
from anabranch.connectors.postgresql.target.catalog import read_table
from anabranch.connectors.postgresql.target.ddl import shortened
from anabranch.connectors.postgresql.target.planned import mapped
from anabranch.connectors.postgresql.verbatim import NotCarried
from anabranch.contracts import Conflict
from anabranch.rows.altered import AlteredTable


def alter(connection: Connection, altered: AlteredTable) -> None:
    """Drop foreign keys, in the open transaction. Raises Conflict for one that stays, and may refuse rows that the source has.
    Errors of the driver pass that mean something else than a refusal."""
    for name, statement in dropped(connection, altered):
        if said := attempt(connection, statement):
            raise Conflict(altered.table.source, f"foreign key {name} cannot be dropped, and may refuse rows: {said}")


def dropped(connection: Connection, altered: AlteredTable) -> list[tuple[str, str]]:
    """Return the foreign keys that go and stand here, with the statement."""
    return list(_dropped(connection, altered)) if altered.keys.dropped else []


def _dropped(connection: Connection, altered: AlteredTable) -> Iterator[tuple[str, str]]:
    target = altered.table.target
    existing = read_table(connection, target)
    there = {key.name: key.definition for key in existing.foreign_keys} if existing else {}
    former = {key.name: key for key in altered.former.foreign_keys}
    for name in altered.keys.dropped:
        try:
            columns = ", ".join(mapped(former[name].columns, altered.former_table))
        except NotCarried:
            continue
        own = shortened(name)
        if there.get(own, "").replace('"', "").startswith(f"FOREIGN KEY ({columns}) REFERENCES ".replace('"', "")):
            yield name, f"ALTER TABLE {qualified(target)} DROP CONSTRAINT {quote(own)}"
