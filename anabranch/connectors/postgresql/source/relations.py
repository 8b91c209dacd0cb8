"""The relations of a log: what their messages hold, by the definitions in force; None where a table's rows are left out.

What does not live here: transactions (assemble.py), the bytes of messages (pgoutput.py, row_images.py).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

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
Redefined = Callable[[TableId, tuple[tuple[str, str], ...], str], None]
"""Is told of a table, the columns that its rows have (LogRedefined.columns), and how they differ."""


class Unfit(Exception):
    """The relation is not as its definition in force: the table has to be parked."""


class OtherColumns(Unfit):
    """The relation has other columns: the table may have been altered."""


class NeedsText(Exception):
    """Rows come in binary form, and have values that are read as text alone."""


class Relations:
    """The relations of a log, by the four bytes that name one in row messages.

    `park` is told of a table that has to be parked, and why; `redefined`, where it is given, in its place of one that comes
    by other columns. `numbers`: rise with what is announced in a log; `head`: of its row messages, as in row_images.images;
    `reader`: set where values come in binary form; `former`: as RedefinedReader.expect_former has them.
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
        redefined: Redefined | None = None,
        former: Collection[TableId] = (),
    ) -> None:
        self.known: dict[bytes, Known] = {}
        self.markers: set[bytes] = set()  # relations whose rows say which job has written a transaction
        self.tell: Callable[[bytes, Known], None] = lambda name, known: None  # what a relation is from here on
        self._select, self._type_text, self._buffer, self._park = select, type_text, buffer, park
        self._numbers, self._head, self._reader = numbers, head, reader
        self._redefined, self._former = redefined, set(former)
        self._seen: dict[int, tuple[int, Relation]] = {}
        self._schemas: dict[TableId, TableSchema | None] = {}

    def announce(self, relation: Relation) -> None:
        """Note how a relation's rows look from here on. Raises NeedsText."""
        self._hold(next(self._numbers), relation, self._park, self._redefined)

    def adopt(self, committed: Relations) -> None:
        """Take over what a streamed transaction announced, where it commits, unless it was announced anew since.

        What did not fit the transaction has parked itself.
        """
        for oid, (number, relation) in committed._seen.items():
            if oid not in self._seen or self._seen[oid][0] < number:
                self._hold(number, relation, lambda table, reason: None)

    def _hold(
        self,
        number: int,
        relation: Relation,
        park: Callable[[TableId, str], None],
        redefined: Redefined | None = None,
    ) -> None:
        self._seen[relation.oid] = number, relation
        table = TableId(relation.schema, relation.name)
        if table not in self._schemas:
            self._schemas[table] = self._select(table)
        schema, found = self._schemas[table], None
        if schema is not None:
            try:
                made = layout(relation, schema, self._type_text, self._head, self._reader, table in self._former)
                buffer = self._buffer(schema)
                found = buffer, buffer.ready(made)
                if not made.filled:
                    self._former.discard(table)
            except Unfit as unfit:
                self._schemas[table] = None
                if redefined is not None and isinstance(unfit, OtherColumns):
                    columns = ((one.name, self._type_text(one.type, one.modifier)) for one in relation.columns)
                    redefined(table, tuple(columns), str(unfit))
                else:
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
    relation: Relation,
    schema: TableSchema,
    type_text: TypeText,
    head: int = ROW_HEAD,
    reader: ReaderOf | None = None,
    is_former: bool = False,
) -> Layout:
    """Find where the relation's columns stand in the definition. `is_former`: it may lack the last of them. Raises Unfit where
    it is another one, NeedsText."""
    if schema.oid and relation.oid != schema.oid:
        raise Unfit("another table has its name now")
    there = {one.name for one in relation.columns}
    every = [place for place, column in enumerate(schema.columns) if not column.generated or column.name in there]
    logged = every[: len(relation.columns)] if is_former else every
    lacking = [(place, schema.columns[place]) for place in every[len(logged) :]]
    if len(logged) != len(relation.columns) or any(column.default_is_expression for _, column in lacking):
        raise OtherColumns(f"the log has {len(relation.columns)} columns, the definition {len(every)}")
    for place, one in zip(logged, relation.columns, strict=True):
        _compare(schema.columns[place], one, type_text)
    readers = _readers(relation, reader) if reader is not None else ()
    filled = tuple((place, None if c.default is None else c.default.encode()) for place, c in lacking)
    return Layout(tuple(logged), tuple(one.in_identity for one in relation.columns), head, readers, filled=filled)


def _readers(relation: Relation, reader: ReaderOf) -> tuple[Reader, ...]:
    found = [reader(one.type, one.modifier) for one in relation.columns]
    if None in found:
        lacking = ", ".join(column.name for column, one in zip(relation.columns, found, strict=True) if one is None)
        raise NeedsText(f"{relation.schema}.{relation.name}: {lacking}")
    return tuple(one for one in found if one is not None)


def _compare(column: Column, one: RelationColumn, type_text: TypeText) -> None:
    if column.name != one.name:
        raise OtherColumns(f"the log has a column {one.name} where the definition has {column.name}")
    if (text := type_text(one.type, one.modifier)) != column.native:
        raise OtherColumns(f"column {column.name} is {text} in the log and {column.native} in the definition")
