"""The relations of a log: what their messages hold, by the definitions in force; None where a table's rows are left out.

What does not live here: transactions (assemble.py), the bytes of messages (pgoutput.py, row_images.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from anabranch.connectors.postgresql.source.binary_values import Reader
from anabranch.connectors.postgresql.source.message_buffer import Layout, MessageBuffer
from anabranch.connectors.postgresql.source.pgoutput import ROW_HEAD, Relation, RelationColumn
from anabranch.contracts import Select
from anabranch.model.ids import TableId
from anabranch.model.markers import MARKERS
from anabranch.model.schema import Column, TableSchema

TypeText = Callable[[int, int], str]
"""(oid, modifier) -> the type as format_type() spells it."""
ReaderOf = Callable[[int, int], Reader | None]
"""(oid, modifier) -> who reads the type's binary form; None: its text is needed."""
Known = tuple[MessageBuffer, Layout] | None


class Unfit(Exception):
    """The relation is not as its definition in force: the table has to be parked."""


class NeedsText(Exception):
    """Rows come in binary form, and have values that are read as text alone."""


class Relations:
    """The relations of a log, by the four bytes that name one in row messages.

    `park` is told of a table that has to be parked, and why. `numbers`: rise with what is announced in a log; `head`:
    of its row messages, as in row_images.images; `reader`: set where values come in binary form.
    """

    def __init__(
        self,
        select: Select,
        type_text: TypeText,
        buffer: Callable[[TableSchema], MessageBuffer],
        park: Callable[[TableId, str], None],
        numbers: Iterator[int],
        head: int = ROW_HEAD,
        reader: ReaderOf | None = None,
    ) -> None:
        self.known: dict[bytes, Known] = {}
        self.markers: set[bytes] = set()  # relations whose rows say which job has written a transaction
        self.tell: Callable[[bytes, Known], None] = lambda name, known: None  # what a relation is from here on
        self._select, self._type_text, self._buffer, self._park = select, type_text, buffer, park
        self._numbers, self._head, self._reader = numbers, head, reader
        self._seen: dict[int, tuple[int, Relation]] = {}
        self._schemas: dict[TableId, TableSchema | None] = {}

    def announce(self, relation: Relation) -> None:
        """Note how a relation's rows look from here on. Raises NeedsText."""
        self._hold(next(self._numbers), relation, self._park)

    def adopt(self, committed: Relations) -> None:
        """Take over what a streamed transaction announced, where it commits, unless it was announced anew since.

        What did not fit the transaction has parked itself.
        """
        for oid, (number, relation) in committed._seen.items():
            if oid not in self._seen or self._seen[oid][0] < number:
                self._hold(number, relation, lambda table, reason: None)

    def _hold(self, number: int, relation: Relation, park: Callable[[TableId, str], None]) -> None:
        self._seen[relation.oid] = number, relation
        table = TableId(relation.schema, relation.name)
        if table not in self._schemas:
            self._schemas[table] = self._select(table)
        schema, found = self._schemas[table], None
        if schema is not None:
            try:
                made, buffer = layout(relation, schema, self._type_text, self._head, self._reader), self._buffer(schema)
                found = buffer, buffer.ready(made)
            except Unfit as unfit:
                self._schemas[table] = None
                park(table, str(unfit))
        name = relation.oid.to_bytes(4)
        self.known[name] = found
        if table in MARKERS:
            self.markers.add(name)  # nobody else is told: each of their rows is looked at here
        else:
            self.tell(name, found)

    def table(self, oid: int) -> TableId | None:
        """Return a table that is followed."""
        found = self.known.get(oid.to_bytes(4))
        return found[0].schema.id if found else None

    def reselect(self) -> None:
        """Ask for definitions anew. A server names its relations once in a connection: what it said is kept."""
        self._schemas.clear()
        for number, relation in self._seen.values():
            self._hold(number, relation, self._park)


def layout(
    relation: Relation, schema: TableSchema, type_text: TypeText, head: int = ROW_HEAD, reader: ReaderOf | None = None
) -> Layout:
    """Find where the relation's columns stand in the definition. Raises Unfit where it is another one, NeedsText."""
    if schema.oid and relation.oid != schema.oid:
        raise Unfit("another table has its name now")
    there = {one.name for one in relation.columns}
    logged = [place for place, column in enumerate(schema.columns) if not column.generated or column.name in there]
    if len(logged) != len(relation.columns):
        raise Unfit(f"the log has {len(relation.columns)} columns, the definition {len(logged)}")
    for place, one in zip(logged, relation.columns, strict=True):
        _compare(schema.columns[place], one, type_text)
    readers = _readers(relation, reader) if reader is not None else ()
    return Layout(tuple(logged), tuple(one.in_identity for one in relation.columns), head, readers)


def _readers(relation: Relation, reader: ReaderOf) -> tuple[Reader, ...]:
    found = [reader(one.type, one.modifier) for one in relation.columns]
    if None in found:
        lacking = ", ".join(column.name for column, one in zip(relation.columns, found, strict=True) if one is None)
        raise NeedsText(f"{relation.schema}.{relation.name}: {lacking}")
    return tuple(one for one in found if one is not None)


def _compare(column: Column, one: RelationColumn, type_text: TypeText) -> None:
    if column.name != one.name:
        raise Unfit(f"the log has a column {one.name} where the definition has {column.name}")
    if (text := type_text(one.type, one.modifier)) != column.native:
        raise Unfit(f"column {column.name} is {text} in the log and {column.native} in the definition")
