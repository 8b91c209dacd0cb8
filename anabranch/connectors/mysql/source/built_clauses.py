"""Foreign keys and defaults that a job of ours builds at its target, or takes off there, as the log of that server has them.

The statements are those of `mysql/target`, which ends them with the job's comment (`model/markers.py`); of a foreign key that
changes rows itself it writes that comment only where no transaction that is open has written to a table of the key. So what
stands behind the statement in the log was done with the key, and what stands before it without it. The statement says all of a
key; what a default is the catalogue says, if it does not show a later one by now.

What does not live here: the words of other statements (`statements.py`), columns (`altered_columns.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from anabranch.connectors.mysql.source.column_clauses import Number, Unknown, constant_of, parts
from anabranch.connectors.mysql.source.defaults import constant
from anabranch.connectors.mysql.source.statement_tokens import Token
from anabranch.model.column_changes import Altered, ColumnChange, Untold, with_those
from anabranch.model.datatype import Kind
from anabranch.model.ids import TableId
from anabranch.model.schema import Action, Column, ForeignKey, TableSchema

BUILT = Untold(built=True)
ADDS_KEY = ["ADD", "CONSTRAINT", None, "FOREIGN", "KEY"]
DROPS_KEY = ["DROP", "FOREIGN", "KEY", None]
SETS_DEFAULT = ["ALTER", None, "SET", "DEFAULT"]
ACTIONS = {"CASCADE": Action.CASCADE, "SET": Action.SET_NULL, "NO": Action.RESTRICT, "RESTRICT": Action.RESTRICT}
WORDS_OF = {"SET": 2, "NO": 2}  # SET NULL, NO ACTION
WHOLE = (Kind.INT8, Kind.INT16, Kind.INT32, Kind.INT64, Kind.UINT8, Kind.UINT16, Kind.UINT32, Kind.UINT64)
Read = Callable[[Sequence[Token]], TableId]


def behind(clauses: Sequence[Sequence[Token]], then: TableSchema, now: TableSchema, table_of: Read) -> Altered | None:
    """Return a table behind a statement with these clauses, that was `then` before it and has since become `now`; None where
    one of them is no such clause, or it is not certain. `table_of`: reads the name of a table at the beginning of tokens."""
    table = then
    try:
        for clause in clauses:
            table = _through(table, clause, now, table_of)
    except Unknown:
        return None
    return Altered(table, frozenset(), BUILT) if clauses else None


def _through(table: TableSchema, clause: Sequence[Token], now: TableSchema, table_of: Read) -> TableSchema:
    if _begins(clause, ADDS_KEY):
        key = key_of(clause[2].text, clause[len(ADDS_KEY) :], table, table_of)
        if key in table.foreign_keys:
            return table
        others = tuple(one for one in table.foreign_keys if not _is(one.name, key.name))
        if len(others) < len(table.foreign_keys):
            raise Unknown
        return replace(table, foreign_keys=(*others, key))
    if _begins(clause, DROPS_KEY) and len(clause) == len(DROPS_KEY):
        left = tuple(one for one in table.foreign_keys if not _is(one.name, clause[3].text))
        if len(left) == len(table.foreign_keys):
            raise Unknown
        return replace(table, foreign_keys=left)
    if _begins(clause, SETS_DEFAULT):
        former, column = (_column(one, clause[1].text) for one in (table, now))
        if replace(with_those(column, former, frozenset({ColumnChange.DEFAULT})), comment=former.comment) != former:
            raise Unknown
        given = _given(former, column, clause[len(SETS_DEFAULT) :])
        return replace(table, columns=tuple(given if one is former else one for one in table.columns))
    raise Unknown


def _given(former: Column, now: Column, text: Sequence[Token]) -> Column:
    """Return a column with the default that a statement gives it: a constant that is certain by the statement. Else what the
    catalogue shows, the former one perhaps; or the former one, if what is shown is certainly of a later statement, which tells
    of it. Two expressions are not told apart."""
    shown = with_those(former, now, frozenset({ColumnChange.DEFAULT}))
    is_inside = text[0].kind == "mark" and text[0].text == "("
    if shown.type is None or shown.type.kind not in (*WHOLE, Kind.TEXT) or (is_inside and now.default_is_expression):
        return shown
    try:
        said = constant_of(text[1:-1] if is_inside else text)
    except Unknown:  # an expression
        return former if is_inside else shown
    if not _is_exact(said, shown.type.kind):
        return shown
    given = former if said is None else constant(former, said)
    given = replace(given, has_default=True, default=None if said is None else given.default)
    given = replace(given, default_is_expression=False, default_term=None)
    return former if is_inside and shown != given else given


def _is_exact(said: str | None, kind: Kind) -> bool:
    """Return whether the server keeps a constant as it is written."""
    if said is None:
        return True
    if isinstance(said, Number):
        return kind in WHOLE and "." not in said
    return kind is Kind.TEXT and "\\" not in said and not said.endswith(" ")


def _begins(clause: Sequence[Token], words: Sequence[str | None]) -> bool:
    """Return whether a clause begins with these words; None: any name."""
    found = zip(clause, words, strict=False)
    return len(clause) >= len(words) and all(
        token.word == word if word else token.kind in ("word", "name") for token, word in found
    )


def key_of(name: str, tokens: Sequence[Token], table: TableSchema, table_of: Read) -> ForeignKey:
    """Read what follows FOREIGN KEY: (…) REFERENCES table (…) ON DELETE … ON UPDATE …, and no more. Raises Unknown."""
    columns, rest = _names(tokens)
    if not rest or rest[0].word != "REFERENCES":
        raise Unknown
    opens = next((at for at, token in enumerate(rest) if token.kind == "mark" and token.text == "("), 0)
    parent_columns, behind = _names(rest[opens:])
    actions = {"DELETE": Action.RESTRICT, "UPDATE": Action.RESTRICT}
    while behind:
        if len(behind) < 3 or behind[0].word != "ON" or behind[1].word not in actions or behind[2].word not in ACTIONS:
            raise Unknown
        actions[behind[1].word] = ACTIONS[behind[2].word]
        length = 2 + WORDS_OF.get(behind[2].word, 1)
        if behind[2].word == "SET" and (len(behind) < length or behind[3].word != "NULL"):
            raise Unknown
        behind = behind[length:]
    return ForeignKey(
        name,
        tuple(_column(table, one).name for one in columns),
        table_of(rest[1:opens]),
        tuple(parent_columns),
        actions["DELETE"],
        actions["UPDATE"],
    )


def _names(tokens: Sequence[Token]) -> tuple[list[str], Sequence[Token]]:
    """Return the names that stand in parentheses at the beginning of tokens, and what follows these."""
    if not tokens or tokens[0].kind != "mark" or tokens[0].text != "(":
        raise Unknown
    ends = next((at for at, token in enumerate(tokens[1:], 1) if token.depth <= tokens[0].depth), 0)
    found = list(parts(tokens[1:ends], tokens[0].depth + 1))
    if not ends or any(len(part) != 1 for part in found):
        raise Unknown
    return [part[0].text for part in found], tokens[ends + 1 :]


def _column(table: TableSchema, name: str) -> Column:
    found = next((column for column in table.columns if _is(column.name, name)), None)
    if found is None:
        raise Unknown
    return found


def _is(name: str, other: str) -> bool:
    return name.lower() == other.lower()
