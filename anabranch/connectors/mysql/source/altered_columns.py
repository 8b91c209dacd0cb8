"""Definitions of tables behind an ALTER TABLE of the log that adds, drops, renames or defines columns anew and does nothing
else.

The statement says which columns come and go, and where; the catalogue says what each new one is, in the form of all other
definitions. Both have to agree: a later statement may have changed the column by now. What rows that are there get has to be
known, too: a constant, NULL, or what the server takes for nothing (`implicit_defaults.py`).

What does not live here: the statement's words (`column_clauses.py`), telling statements apart (`statements.py`), other
changes, which park the table.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from anabranch.connectors.mysql.source import check_clauses, comment_clauses, foreign_key_clauses, index_clauses
from anabranch.connectors.mysql.source.column_clauses import (
    Adds,
    Changes,
    Clause,
    Defaults,
    Drops,
    Number,
    Renames,
    Said,
    Unknown,
    read,
    sizes,
)
from anabranch.connectors.mysql.source.defaults import constant
from anabranch.connectors.mysql.source.implicit_defaults import implicit
from anabranch.connectors.mysql.source.statement_tokens import Token, tokens
from anabranch.connectors.mysql.source.typemap import INTEGERS
from anabranch.connectors.mysql.source.widened import appends_labels, widens
from anabranch.model.column_changes import Altered, ColumnChange, Untold, differences, kinds_beside, with_those
from anabranch.model.datatype import Kind
from anabranch.model.schema import Column, Index, TableSchema

ALSO = {"json": ("longtext",)}  # of a MariaDB
# What the catalogue prints in parentheses where a statement says nothing.
USUAL = {"decimal": ("10", "0"), "char": ("1",), "binary": ("1",), "bit": ("1",)}
WITH_WIDTHS = frozenset((*INTEGERS, "year"))  # which change no value, and not every release prints them
UTF8 = {"utf8": "utf8mb3"}
# What a constant means is not in its text alone: a time zone, or whether bits were written as a number or as bytes. Of texts
# with a backslash it is the sql_mode. A number is a label's place, or bits; of a year two digits are one of 2000 or of 1970.
BY_SESSION = frozenset((Kind.INSTANT, Kind.BIT))
BY_NUMBER = frozenset((Kind.ENUM, Kind.SET))


def behind(clauses: Sequence[Sequence[Token]], then: TableSchema, now: TableSchema, family: str = "") -> Altered | None:
    """Return a table behind a statement with these clauses, that was `then` before it, and has since become `now`. None where
    that is not certain, or where the statement does anything else; so are checks, if no `family` is named."""
    if then.row_end or not clauses:
        return None
    try:
        return _Behind(then, now, family).through(clauses)
    except Unknown:
        return None


def indexed(
    clauses: Sequence[Sequence[Token]],
    then: TableSchema,
    now: TableSchema,
    family: str,
    table_of: foreign_key_clauses.Read,
) -> Altered | None:
    """Return a table behind a statement that changes no column, nor any key but indexes: what else is in it is passed over
    but the table's comment, checks and foreign keys, and indexes that are not read. None where an index is over a column
    that is not known, where there is nothing of these, where there is but a comment or a check that the catalogue may not
    show yet, where it is not certain which check goes, and where rows of the table may be told apart by a unique key that
    the statement is about. Beside an index such a comment stays as it was."""
    about, comment = list(filter(index_clauses.is_about_index, clauses)), comment_clauses.comment_of(clauses)
    checks, said = list(filter(check_clauses.is_about_check, clauses)), _read_indexes(about)
    keys = [clause for clause in clauses if foreign_key_clauses.is_about_key(clause, then)]
    if not (about or checks or keys or comment is not None) or said is None or index_clauses.is_late(said, then, now):
        return None
    if not (about or checks or keys) and comment_clauses.is_late(comment, then, now):
        return None
    if not then.primary_key and index_clauses.may_change_unique(clauses, then):
        return None
    try:
        table = index_clauses.with_added(index_clauses.without_gone(then, said), said, then, now)
        of_checks, waits = check_clauses.read(checks), not (about or keys) and comment is None
        table = check_clauses.without_gone(table, of_checks, now)
        table = check_clauses.with_added(table, of_checks, then, now, family, waits)
        table = foreign_key_clauses.behind(table, keys, now, table_of, not (about or checks or comment is not None))
    except Unknown:
        return None
    table = comment_clauses.with_comment(table, comment, now)
    kinds = kinds_beside(then, table, {})
    return Altered(table if kinds or table.checks != then.checks else then, kinds)


def _read_indexes(clauses: Sequence[Sequence[Token]]) -> list[index_clauses.IndexClause] | None:
    """Return what clauses about indexes say, without those that come and are not read; None where one of the others is not:
    what goes has to be known."""
    said = []
    for clause in clauses:
        try:
            said.append(index_clauses.read(clause))
        except (Unknown, IndexError, ValueError):
            if clause[0].word != "ADD":
                return None
    return said


class _Behind:
    """A definition on its way through the clauses of a statement, which all name the columns of before: first columns go, then
    others come, as the server does it."""

    def __init__(self, then: TableSchema, now: TableSchema, family: str) -> None:
        self.then, self.now, self.table, self.family = then, now, then, family
        self.kinds: set[ColumnChange] = set()
        self.filled: list[tuple[str, str]] = []
        self.renamed: list[tuple[str, str]] = []

    def through(self, clauses: Sequence[Sequence[Token]]) -> Altered | None:
        comment = comment_clauses.comment_of(clauses)
        clauses = [one for one in clauses if not comment_clauses.is_comment(one)]
        checks, clauses = check_clauses.apart(clauses, self.then) if self.family else ([], clauses)
        indexes = [index_clauses.read(one) for one in clauses if index_clauses.is_about_index(one)]
        said = read([one for one in clauses if not index_clauses.is_about_index(one)])
        names = [name.lower() for one in said for name in _names(one)]
        if not said or len(set(names)) < len(names):  # a column that goes and one of its name that comes look alike
            return None
        if not self.then.primary_key and index_clauses.may_change_unique(clauses, self.then):
            raise Unknown  # rows may be told apart by it
        index_clauses.refuse_others(indexes, self.then)
        self.table = index_clauses.without_gone(self.table, indexes)
        self.table = check_clauses.without_gone(self.table, checks, self.now)
        for dropped in (one for one in said if isinstance(one, Drops)):
            self._drop(dropped.name)
        for renamed in (one for one in said if isinstance(one, Renames)):
            self._rename(renamed.name, replace(_alone(self.table, renamed.name), name=renamed.to))
        for changed in (one for one in said if isinstance(one, Changes)):
            self._change(changed.name, changed.said)
        for given in (one for one in said if isinstance(one, Defaults)):
            self._default(given.name, given.default)
        for added in (one for one in said if isinstance(one, Adds)):
            self._add(added.said)
        self.table = index_clauses.with_added(self.table, indexes, self.then, self.now)
        self.table = check_clauses.with_added(self.table, checks, self.then, self.now, self.family)
        self.table = comment_clauses.with_comment(self.table, comment, self.now)
        beside = kinds_beside(self.then, self.table, dict(self.renamed))
        self.kinds |= beside if indexes else beside & {ColumnChange.COMMENTS, ColumnChange.CHECKS}
        return Altered(self.table, frozenset(self.kinds), Untold(tuple(self.renamed), tuple(self.filled)))

    def _add(self, said: Said) -> None:
        column, columns = _agreed(said, self.then, self.now), list(self.table.columns)
        if any(_is(column.name, other.name) for other in self.then.columns):
            raise Unknown
        columns.insert(_place(said, columns), comment_clauses.commented(column, said.comment))
        self.table = replace(self.table, columns=tuple(columns))
        self.kinds.add(ColumnChange.ADD)
        if column.default is None and not column.nullable:
            self.filled.append((column.name, _filled(column, said)))

    def _change(self, name: str, said: Said) -> None:
        """Follow a column that is defined anew, in its place. A MariaDB drops a check that was written with the column."""
        column, former = _agreed(said, self.then, self.now), _plain(self.table, name)
        if any(_word(former.name).search(check.text) for check in self.table.checks):
            raise Unknown
        if (
            column == former and column.comment == former.comment
        ):  # or the catalogue is late, and does not show yet what is unsaid
            raise Unknown
        if column.charset and not _is_certain(column, said, self.then):
            raise Unknown
        kinds, column = _followed(self.table, former, column), comment_clauses.commented(column, said.comment)
        if _is(name, said.name) and column.name == former.name:
            self.table = _with(self.table, former, column)
        else:
            self._rename(name, column)
        self.kinds |= kinds

    def _default(self, name: str, default: str | None) -> None:
        former = _plain(self.table, name)
        column = next((column for column in self.now.columns if column.name == former.name), None)
        if column is None or not has_default(column, default) or column.default_is_expression:
            raise Unknown
        if not _followed(self.table, former, column) <= {ColumnChange.DEFAULT}:
            raise Unknown
        self.table = _with(self.table, former, replace(column, comment=former.comment))
        self.kinds.add(ColumnChange.DEFAULT)

    def _rename(self, name: str, column: Column) -> None:
        former = _alone(self.table, name)
        if any(_is(column.name, other.name) for other in self.then.columns):
            raise Unknown
        indexes = tuple(_renamed(index, former.name, column.name) for index in self.table.indexes)
        self.table = replace(_with(self.table, former, column), indexes=indexes)
        self.renamed.append((former.name, column.name))
        self.kinds.add(ColumnChange.RENAME)

    def _drop(self, name: str) -> None:
        column = _alone(self.table, name)
        columns = tuple(other for other in self.table.columns if other is not column)
        indexes = tuple(left for index in self.table.indexes if (left := _without(index, column.name)) is not None)
        self.table = replace(self.table, columns=columns, indexes=indexes)
        self.kinds.add(ColumnChange.DROP)


def _names(clause: Clause) -> Sequence[str]:
    match clause:
        case Adds():
            return [clause.said.name]
        case Drops() | Defaults():
            return [clause.name]
        case Renames():
            return [clause.name, clause.to]
        case Changes():
            return [clause.name] if _is(clause.name, clause.said.name) else [clause.name, clause.said.name]


def _is(name: str, other: str) -> bool:
    return name.lower() == other.lower()


# --- columns of before ------------------------------------------------------------------------------------------------


def _plain(table: TableSchema, name: str) -> Column:
    """Return a column whose values are those that are written to it."""
    column = next((column for column in table.columns if _is(column.name, name)), None)
    if column is None or column.generated or column.auto_increment or column.set_by_server:
        raise Unknown
    return column


def _followed(table: TableSchema, former: Column, column: Column) -> frozenset[ColumnChange]:
    """Return the kinds of changes of a column that stays. Raises Unknown for any that is not one of them, a type that does not
    widen, and a key's NULL or type."""
    kinds = differences(former, column)
    if replace(with_those(column, former, frozenset(ColumnChange)), name=former.name) != former:
        raise Unknown
    if column.invisible is not former.invisible:
        raise Unknown
    if ColumnChange.TYPE in kinds:
        kinds = _retyped(table, former, column)
    if ColumnChange.NULLABILITY in kinds and former.name in table.keyed:
        raise Unknown
    return kinds


def _retyped(table: TableSchema, former: Column, column: Column) -> frozenset[ColumnChange]:
    """Return the kinds of changes of a column with another type. Its default is told in the form of the new one."""
    _alone(table, former.name)
    if former.type is None or column.type is None:
        raise Unknown
    is_shown_otherwise = former.type == column.type and _integer(former) and _integer(former) == _integer(column)
    is_wider = widens(former.native, column.native) or appends_labels(former, column)
    if not is_shown_otherwise and not is_wider:
        raise Unknown
    default, is_decimal = former.default, column.type.kind is Kind.DECIMAL
    if is_decimal and default is not None and not former.default_is_expression:
        default = constant(column, default).default
    kinds = differences(replace(former, type=column.type, native=column.native, default=default), column)
    return kinds if is_shown_otherwise else kinds | {ColumnChange.TYPE}


def _integer(column: Column) -> str:
    """Return the name of an integer's type, "" of any other."""
    name = next(tokens(column.native)).text.lower()
    return name if name in INTEGERS else ""


def _with(table: TableSchema, former: Column, column: Column) -> TableSchema:
    return replace(table, columns=tuple(column if other is former else other for other in table.columns))


def _alone(table: TableSchema, name: str) -> Column:
    """Return a column on which nothing of the table depends but indexes that are not unique: keys, checks and computed columns
    would change with it."""
    column = _plain(table, name)
    computed = {named for other in table.columns if other.generated for named in table.named_by(other)}
    texts = [check.text for check in table.checks] + [table.partition_key]
    texts += [part for index in table.indexes for part in index.parts]
    if column.name in table.keyed | computed or any(map(_word(column.name).search, texts)):
        raise Unknown
    return column


def _word(name: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w$]){re.escape(name)}(?![\w$])", re.IGNORECASE)


def _without(index: Index, name: str) -> Index | None:
    """Return what is left of an index whose column goes, None where it had no other."""
    kept = [place for place, column in enumerate(index.columns) if column != name]
    if len(kept) == len(index.columns):
        return index
    parts = {"prefixes": index.prefixes, "descending": index.descending}
    left = {what: tuple(values[place] for place in kept) for what, values in parts.items() if values}
    columns = tuple(index.columns[place] for place in kept)
    return replace(index, columns=columns, **left) if kept else None  # type: ignore[arg-type] # fields of Index


def _renamed(index: Index, former: str, name: str) -> Index:
    return replace(index, columns=tuple(name if column == former else column for column in index.columns))


# --- columns of now ---------------------------------------------------------------------------------------------------


def _agreed(said: Said, then: TableSchema, now: TableSchema) -> Column:
    """Return the column as the catalogue has it, if that is what the statement says: a later one may have changed it."""
    column = next((column for column in now.columns if _is(column.name, said.name)), None)
    if column is None or column.type is None or column.generated or column.auto_increment or column.set_by_server:
        raise Unknown
    if column.invisible or column.default_is_expression or column.nullable is not said.nullable:
        raise Unknown
    if not (has_type(column, said) and _has_charset(column, said, then) and has_default(column, said.default)):
        raise Unknown
    return column


def _filled(column: Column, said: Said) -> str:
    """Return what rows that are there have in a column that is NOT NULL and has no default."""
    value = None if said.type == "json" else implicit(column)  # to MariaDB it is a text that is checked
    if value is None:
        raise Unknown
    return value


def _is_certain(column: Column, said: Said, then: TableSchema) -> bool:
    """Return whether a text that is defined anew has the character set and collation that the catalogue shows: what is not said
    is its table's own."""
    there = (column.charset, column.collation)
    if not said.charset and any(other.charset and (other.charset, other.collation) != there for other in then.columns):
        return False
    return not said.collates and (not said.collation or has_collation(column, said.collation))


def has_collation(column: Column, said: str) -> bool:
    return _collation(said) == _collation(column.collation)


def _collation(name: str) -> str:
    family, _, rest = name.lower().partition("_")
    return f"{UTF8.get(family, family)}_{rest}"


def has_type(column: Column, said: Said) -> bool:
    native = list(tokens(column.native))
    name, there = native[0].text.lower(), sizes(native[1:])
    if name != said.type and name not in ALSO.get(said.type, ()):
        return False
    if said.unsigned is not any(token.word in ("UNSIGNED", "ZEROFILL") for token in native):
        return False
    is_plain = not any("\\" in text for text in said.sizes)  # else a label depends on the sql_mode of whoever wrote it
    return name in WITH_WIDTHS or (is_plain and there == (said.sizes or USUAL.get(name, ())))


def _has_charset(column: Column, said: Said, then: TableSchema) -> bool:
    """Return whether the column has the character set that is said; where none is, one that the table's other texts have."""
    if said.type == "json":
        return True  # a text of MariaDB's own choice
    if said.charset or not column.charset:
        return not said.charset or UTF8.get(said.charset, said.charset) == UTF8.get(column.charset, column.charset)
    return any(other.charset == column.charset for other in then.columns)


def has_default(column: Column, said: str | None) -> bool:
    if said is None:
        return column.default is None
    kind = column.type.kind if column.type else None
    if "\\" in said or kind in BY_SESSION or (kind in BY_NUMBER and isinstance(said, Number)):
        return False
    if kind is Kind.YEAR and len(said) != 4:
        return False
    try:
        return column.default is not None and constant(column, said).default == column.default
    except (ValueError, ArithmeticError):  # the server has rounded it, or read it in another way
        return False


def _place(said: Said, columns: Sequence[Column]) -> int:
    if said.after is None:
        return len(columns)
    if said.after == "":
        return 0
    found = next((place for place, column in enumerate(columns) if _is(column.name, said.after)), None)
    if found is None:
        raise Unknown
    return found + 1
