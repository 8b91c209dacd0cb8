"""Foreign keys that the source has dropped go at the target, too, between two epochs: ALTER TABLE commits by itself.

A key is ours if it has a name under which a load builds it, and its columns. What is there tells what an attempt before has
done. What does not live here: building those that come (`building.py`), when it is done (apply engine).
"""

from __future__ import annotations

from collections.abc import Iterator

from anabranch.connectors.mysql.target.altered_indexes import attempt
from anabranch.connectors.mysql.target.attempts import IS_GONE
from anabranch.connectors.mysql.target.names import NotMade, mapped, shortened, with_digest
from anabranch.connectors.mysql.target.session import Connection, quoted, table_name
from anabranch.connectors.mysql.target.structures import ExistingTable
from anabranch.contracts import Conflict
from anabranch.rows.altered import AlteredTable


def alter(connection: Connection, altered: AlteredTable, existing: ExistingTable) -> None:
    """Drop foreign keys, each by a statement of its own, as far as that is left to do. Raises Conflict for one that stays, and
    may refuse rows that the source has. Errors of the driver pass that mean something else than a refusal."""
    for name, statement in dropped(altered, existing):
        number, said = attempt(connection, statement)
        if said and number not in IS_GONE:
            raise Conflict(altered.table.source, f"foreign key {name} cannot be dropped, and may refuse rows: {said}")


def dropped(altered: AlteredTable, existing: ExistingTable) -> Iterator[tuple[str, str]]:
    """Yield the foreign keys that go and stand here, with the statement."""
    former = {key.name: key for key in altered.former.foreign_keys}
    for name in altered.keys.dropped:
        try:
            columns = mapped(former[name].columns, altered.former_table)
        except NotMade:
            continue
        own, child = shortened(name), altered.former_table.target
        names = {one.lower() for one in (own, with_digest(own, f"{child}.{own}"))}
        found = (key for key in existing.foreign_keys if key.name.lower() in names and _are(key.columns, columns))
        for key in found:
            yield name, f"ALTER TABLE {table_name(altered.table.target)} DROP FOREIGN KEY {quoted(key.name)}"


def _are(columns: tuple[str, ...], others: tuple[str, ...]) -> bool:
    return [name.lower() for name in columns] == [name.lower() for name in others]
