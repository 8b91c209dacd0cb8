"""The relations of a log: what their messages hold, by the definitions in force; None where a table's rows are left out.

What does not live here: transactions (assemble.py), the bytes of messages (pgoutput.py, row_images.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from anabranch.connectors.postgresql.source.binary_values import Reader
from anabranch.connectors.postgresql.source.message_buffer import SKIPPED, Layout, MessageBuffer
from anabranch.connectors.postgresql.source.noted_columns import Compared, compared
from anabranch.connectors.postgresql.source.pgoutput import ROW_HEAD, ROWS, Relation
from anabranch.connectors.postgresql.source.statement_notes import NEW, Note, read_note
from anabranch.contracts import Select
from anabranch.model.column_changes import ColumnChange
from anabranch.model.ids import TableId
from anabranch.model.markers import MARKERS
from anabranch.model.schema import Column, Partition, TableSchema
from anabranch.rows.log_items import SourceNote

TypeText = Callable[[int, int], str]
"""(oid, modifier) -> the type as format_type() spells it."""
ReaderOf = Callable[[int, int], Reader | None]
"""(oid, modifier) -> who reads the type's binary form; None: its text is needed."""
Known = tuple[MessageBuffer, Layout] | None
Former = Mapping[TableId, Sequence[TableSchema]]
"""As RedefinedReader.expect_former has it."""
Redefined = Callable[[TableId, tuple[tuple[str, str], ...], str, SourceNote | None], None]
"""Is told of a table, the columns that its rows have (LogRedefined.columns), how they differ, and LogRedefined.note."""
Parted = Callable[[TableId, Partition], None]
"""Is told of a table that is followed, and of a partition that rows of it are of."""


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
    `reader`: set where values come in binary form; `former`: as RedefinedReader.expect_former has them;
    `by_notes`: kinds of changes that notes tell of, as noted_columns.BY_NOTES, and that are followed; `parted`: is told of
    partitions.
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
        former: Former | None = None,
        by_notes: frozenset[ColumnChange] = frozenset(),
        parted: Parted = lambda table, part: None,
    ) -> None:
        self._parted = parted
        self._divided: tuple[int, TableId] | None = None  # announced by the last message, if its rows are in partitions
        self._leaf: tuple[int, TableId, Partition] | None = None  # that one, and what was announced behind it
        self.waits = False  # for the message behind one of both
        self.known: dict[bytes, Known] = {}
        self.markers: set[bytes] = set()  # relations whose rows say which job has written a transaction
        self.tell: Callable[[bytes, Known], None] = lambda name, known: None  # what a relation is from here on
        self._select, self._type_text, self._buffer, self._park = select, type_text, buffer, park
        self._numbers, self._head, self._reader = numbers, head, reader
        self._redefined, self._former, self._by_notes = redefined, dict(former or {}), by_notes
        self._seen: dict[int, tuple[int, Relation]] = {}
        self._schemas: dict[TableId, TableSchema | None] = {}
        self._reached_at: dict[TableId, int] = {}  # places in the former definitions and that in force, by notes

    @property
    def has_former(self) -> bool:
        """Return whether rows may come by definitions before those in force, until the open transaction ends."""
        return bool(self._former)

    def ended(self) -> None:
        """Take note that the open transaction is committed."""
        self._former.clear()
        self._reached_at.clear()

    def noted(self, content: bytes, is_first: bool) -> None:
        """Take a note that the source has written of a statement, at its place. `is_first`: the transaction has no row before
        it; else a column that takes NULL no longer goes on as it was, since rows before may have had some."""
        note = read_note(content)
        if note is None or self._redefined is None:
            return
        table = note.table
        if table not in self._schemas:
            self._schemas[table] = self._select(table)
        schema = self._schemas[table]
        if schema is None or schema.oid != note.oid or not all(column.number for column in schema.columns):
            return
        how = self._reached(schema, note)
        if how is Compared.OTHER or note.values == NEW or (how is Compared.STRICTER and is_first):
            self._schemas[table] = None
            columns = tuple((column.name, column.native) for column in note.columns)
            strict = how is Compared.STRICTER
            self._redefined(table, columns, "it was altered", SourceNote(content.decode(), strict))

    def _reached(self, schema: TableSchema, note: Note) -> Compared:
        """Go on in the definitions that lead to the one in force, as far as the note says, and compare with that."""
        chain, at = [*self._former.get(schema.id, ()), schema], self._reached_at.get(schema.id, 0)
        found = [compared(one, note, self._by_notes) for one in chain]
        while found[at] is Compared.OTHER and at + 1 < len(chain):
            at += 1
        if found[at] is not Compared.OTHER:
            self._reached_at[schema.id] = at
        return found[at] if at + 1 == len(chain) else Compared.SAME

    def announce(self, relation: Relation) -> None:
        """Note how a relation's rows look from here on. Raises NeedsText.

        The rows of a partition come as those of the whole. Where the server names it, it names the whole just before it, and
        the row comes just behind (maybe_send_schema in pgoutput.c; seen: 13 to 18). Tables that one TRUNCATE empties are named
        one behind the other as well, and that comes behind them."""
        table = TableId(relation.schema, relation.name)
        divided, is_behind = self._divided, self._divided is not None
        self._leaf = (*divided, Partition(str(table), table, oid=relation.oid)) if divided is not None else None
        self._divided = None
        self._hold(next(self._numbers), relation, self._park, self._redefined)
        schema = self._schemas[table]
        if not is_behind and schema is not None and schema.partition_key and schema.oid in (0, relation.oid):
            self._divided = relation.oid, schema.id
        self.waits = is_behind or self._divided is not None

    def passed(self, message: bytes, head: int = ROW_HEAD) -> None:
        """Take note of a message that is no relation, nor the name of a type. `head`: as row messages have it."""
        leaf, self._leaf, self._divided, self.waits = self._leaf, None, None, False
        if leaf is not None and message[0] in ROWS and int.from_bytes(message[head - 4 : head]) == leaf[0]:
            self._parted(*leaf[1:])

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
                made = layout(relation, schema, self._type_text, self._head, self._reader, self._former.get(table, ()))
                buffer = self._buffer(schema)
                found = buffer, buffer.ready(made)
            except Unfit as unfit:
                self._schemas[table] = None
                if redefined is not None and isinstance(unfit, OtherColumns):
                    columns = ((one.name, self._type_text(one.type, one.modifier)) for one in relation.columns)
                    redefined(table, tuple(columns), str(unfit), None)
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
    former: Sequence[TableSchema] = (),
) -> Layout:
    """Find where the relation's columns stand in the definition. `former`: definitions by which the relation may come as well,
    which led to this one. Raises Unfit where it is another one, NeedsText."""
    if schema.oid and relation.oid != schema.oid:
        raise Unfit("another table has its name now")
    told = [(one.name, type_text(one.type, one.modifier)) for one in relation.columns]
    others = [one for one in former if not difference(one, told)]
    behind = max((at for at, one in enumerate(former, 1) if not difference(one, told)), default=0)
    why = difference(schema, told)
    if why and not others:
        raise OtherColumns(why)
    from_which = schema if not why else others[-1]
    places, filled = _carried(from_which, schema, told, former[behind:])
    if any(_places(one, schema, told) != places for one in others):
        raise Unfit("its columns are called as others were in the same transaction, which rows are whose is not told")
    readers = _readers(relation, reader) if reader is not None else ()
    in_identity = tuple(one.in_identity for one in relation.columns)
    return Layout(places, in_identity, head, readers, filled=filled, is_former=from_which is not schema)


def difference(schema: TableSchema, told: Sequence[tuple[str, str]]) -> str:
    """Say how a relation's columns, names and types, differ from those of the definition; "" where they do not."""
    columns = [schema.columns[place] for place in _logged(schema, told)]
    if len(columns) != len(told):
        return f"the log has {len(told)} columns, the definition {len(columns)}"
    for column, (name, native) in zip(columns, told, strict=True):
        if column.name != name:
            return f"the log has a column {name} where the definition has {column.name}"
        if column.native != native:
            return f"column {name} is {native} in the log and {column.native} in the definition"
    return ""


def _logged(schema: TableSchema, told: Sequence[tuple[str, str]]) -> list[int]:
    """Return the places of the columns that a log has: computed ones only where it names them."""
    there = {name for name, _ in told}
    return [place for place, column in enumerate(schema.columns) if not column.generated or column.name in there]


def _carried(
    former: TableSchema, schema: TableSchema, told: Sequence[tuple[str, str]], between: Sequence[TableSchema] = ()
) -> tuple[tuple[int, ...], tuple[tuple[int, bytes | None], ...]]:
    """Return the places of a former definition's columns in the one in force, and what rows of before have in the others: the
    default by which a column came, in the first definition `between` that has it. Raises OtherColumns where that is not a
    constant."""
    now = _logged(schema, told)
    if former is schema:
        return tuple(now), ()
    places, by_number = _places(former, schema, told), _by_number(former, schema, told)
    came = {_known_by(c, by_number): c for one in (schema, *reversed(between)) for c in one.columns}
    lacking = [(place, came[_known_by(schema.columns[place], by_number)]) for place in now if place not in places]
    if any(column.default_is_expression for _, column in lacking):
        raise OtherColumns("rows of before have in a new column what only the source can compute")
    return places, tuple((place, None if c.default is None else c.default.encode()) for place, c in lacking)


def _places(former: TableSchema, schema: TableSchema, told: Sequence[tuple[str, str]]) -> tuple[int, ...]:
    """Return the places of a former definition's columns in the one in force."""
    by_number = _by_number(former, schema, told)
    there = {_known_by(schema.columns[place], by_number): place for place in _logged(schema, told)}
    logged = (former.columns[place] for place in _logged(former, told))
    return tuple(there.get(_known_by(column, by_number), SKIPPED) for column in logged)


def _by_number(former: TableSchema, schema: TableSchema, told: Sequence[tuple[str, str]]) -> bool:
    """Return whether numbers tell which columns of the two are the same."""
    return all(one.columns[place].number for one in (former, schema) for place in _logged(one, told))


def _known_by(column: Column, by_number: bool) -> object:
    """Return what tells a column from others of its table; a trail of before has no numbers."""
    return column.number if by_number else column.name


def _readers(relation: Relation, reader: ReaderOf) -> tuple[Reader, ...]:
    found = [reader(one.type, one.modifier) for one in relation.columns]
    if None in found:
        lacking = ", ".join(column.name for column, one in zip(relation.columns, found, strict=True) if one is None)
        raise NeedsText(f"{relation.schema}.{relation.name}: {lacking}")
    return tuple(one for one in found if one is not None)
