"""A slot of a PostgreSQL that is read over SQL: what pgoutput sends, without a connection for replication."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from anabranch.connectors.postgresql.source.pgoutput import (
    ROW_HEAD,
    ROWS,
    Item,
    Relation,
    StreamStart,
    StreamStop,
    parse,
)
from anabranch.connectors.postgresql.source.row_images import ABSENT, NULL, UNCHANGED, images
from anabranch.rows.chunk import Op
from anabranch.testing.databases import Database


@dataclass
class Slot:
    """A publication of everything, and a slot that begins where it was made."""

    database: Database
    options: dict[str, str]
    two_phase: bool = False
    relations: dict[int, Relation] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.database.execute(
            "CREATE PUBLICATION everything FOR ALL TABLES",
            f"SELECT pg_create_logical_replication_slot('{self.database.name}', 'pgoutput', false, {self.two_phase})",
        )

    def take(self) -> list[bytes]:
        asked = {"publication_names": "everything", "proto_version": "1", "messages": "true", **self.options}
        words = ", ".join(f"'{one}'" for pair in asked.items() for one in pair)
        query = f"SELECT data FROM pg_logical_slot_get_binary_changes('{self.database.name}', NULL, NULL, {words})"
        return [bytes(data) for (data,) in self.database.query(query)]

    def items(self, messages: Sequence[bytes]) -> Iterator[tuple[Item, int]]:
        """All but rows; relations are kept."""
        in_stream = False
        for message in messages:
            if message[0] in ROWS:
                continue
            item, xid = parse(message, in_stream)
            if isinstance(item, (StreamStart, StreamStop)):
                in_stream = isinstance(item, StreamStart)
            if isinstance(item, Relation):
                self.relations[item.oid] = item
            yield item, xid

    def rows(self, messages: Sequence[bytes], table: str, head: int = ROW_HEAD) -> list[tuple[Op, tuple[Any, ...]]]:
        """The images of one table: text of each value, "u" for one that was left as it was, "-" for one that is not there."""
        oid = next(oid for oid, relation in self.relations.items() if relation.name == table)
        mine = [one for one in messages if one[0] in ROWS and int.from_bytes(one[head - 4 : head]) == oid]
        found = images(mine, [column.in_identity for column in self.relations[oid].columns], head)
        columns = [found.column(place).to_pylist() for place in range(found.cells.tags.shape[1])]
        none: dict[int, Any] = {ABSENT: "-", UNCHANGED: "u", NULL: None}
        return [
            (Op(op), tuple(none.get(int(t), columns[c][r] and columns[c][r].decode()) for c, t in enumerate(tags)))
            for r, (op, tags) in enumerate(zip(found.op, found.cells.tags, strict=True))
        ]
