"""CHECK clauses and default expressions as terms (model/term.py): only what means the same everywhere.

Left out on purpose: texts that a collation compares in its own way, division, dates that depend on a time zone, functions
beside a handful. A CHECK that is wrong at the target refuses rows; one that is missing is told.
https://dev.mysql.com/doc/refman/8.0/en/create-table-check-constraints.html · https://mariadb.com/kb/en/constraint/
What does not live here: reading them from the server (`structures.py`), constant defaults (`defaults.py`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from anabranch.connectors.mysql.charsets import is_utf8
from anabranch.connectors.mysql.collations import compares_exactly
from anabranch.connectors.mysql.source.typemap import INTEGERS
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.schema import Check, Column
from anabranch.model.term import Term

WHOLE = frozenset(kind for pair in INTEGERS.values() for kind in pair)
EXACT = WHOLE | {Kind.DECIMAL}
NUMBERS = EXACT | {Kind.FLOAT32, Kind.FLOAT64}
# Kinds whose columns may be compared with each other, beside numbers with numbers and equal texts.
SAME_CLOCK = frozenset((Kind.DATE, Kind.TIMESTAMP, Kind.INSTANT, Kind.DURATION))
# Kinds that a text constant of the given form may stand for; an instant would need the time zone of a session.
CLOCK_FORMS = {Kind.DATE: r"\d{4}-\d\d-\d\d", Kind.TIMESTAMP: r"\d{4}-\d\d-\d\d( \d\d:\d\d:\d\d(\.\d{1,6})?)?"}
COMPARISONS: dict[type[Any], str] = {
    exp.EQ: "=", exp.NEQ: "<>", exp.NullSafeEQ: "is not distinct from",
    exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=",
}  # fmt: skip
EQUALITIES = ("=", "<>", "is not distinct from", "in")
ARITHMETIC: dict[type[Any], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Mod: "%"}
JUNCTIONS: dict[type[Any], str] = {exp.And: "and", exp.Or: "or"}

# Default expressions, as the servers print them in COLUMN_DEFAULT.
_NOW = re.compile(r"(?:current_timestamp|now|localtime|localtimestamp)(?:\((\d?)\))?", re.IGNORECASE)
_TODAY = re.compile(r"(?:curdate|current_date)(?:\(\))?", re.IGNORECASE)
_UUID = re.compile(r"uuid\(\)", re.IGNORECASE)
_EMPTY_JSON = {"json_array()": "[]", "json_object()": "{}"}


class NotUnderstood(Exception):
    """An expression that a target might evaluate otherwise; the text names it."""


def of_mysql(name: str, clause: str, columns: Mapping[str, Column]) -> Check:
    """Parse a check of MySQL, which prints the clause as the text of a string: quotes and backslashes have a backslash
    before them.
    """
    return of_mariadb(name, re.sub(r"\\(.)", r"\1", clause, flags=re.DOTALL), columns)


def of_mariadb(name: str, clause: str, columns: Mapping[str, Column]) -> Check:
    try:
        return Check(name, clause, _Reader(columns).condition(_parsed(clause)))
    except NotUnderstood as why:
        return Check(name, clause, refusal=str(why))


def default_term(told: str, type: LogicalType | None) -> Term | None:
    """Return the term of a default expression, None where only the source can evaluate it."""
    if type is None:
        return None
    if (now := _NOW.fullmatch(told)) and type.kind in (Kind.TIMESTAMP, Kind.INSTANT):
        return Term("now", text=now[1] or "0")
    if _TODAY.fullmatch(told) and type.kind is Kind.DATE:
        return Term("today")
    if _UUID.fullmatch(told) and type.kind is Kind.TEXT:
        return Term("uuid")
    if told.lower() in _EMPTY_JSON and type.kind is Kind.JSON:
        return Term("text", text=_EMPTY_JSON[told.lower()])
    return None


def _parsed(clause: str) -> exp.Expr:
    try:
        tree = sqlglot.parse_one(clause, dialect="mysql")
    except SqlglotError:
        raise NotUnderstood("it is not understood") from None
    return tree


class _Reader:
    """Trees to terms, with the types of the columns at hand."""

    def __init__(self, columns: Mapping[str, Column]) -> None:
        self.columns = {name.lower(): column for name, column in columns.items()}

    # --- conditions ---------------------------------------------------------------------------------------------------

    def condition(self, tree: exp.Expr) -> Term:
        tree = _bare(tree)
        for kinds, read in (
            (tuple(JUNCTIONS), self._junction),
            (tuple(COMPARISONS), self._comparison),
            ((exp.Not,), lambda t: Term("not", (self.condition(t.this),))),
            ((exp.Is,), self._is_null),
            ((exp.In,), self._in),
            ((exp.Between,), self._between),
            ((exp.Like,), self._like),
        ):
            if isinstance(tree, kinds):
                found: Term = read(tree)
                return found
        raise _unknown(tree)

    def _junction(self, tree: exp.Expr) -> Term:
        return Term(JUNCTIONS[type(tree)], (self.condition(tree.this), self.condition(tree.expression)))

    def _is_null(self, tree: exp.Expr) -> Term:
        if not isinstance(tree.expression, exp.Null):
            raise _unknown(tree)
        return Term("is null", (self._column(tree.this),))

    def _comparison(self, tree: exp.Expr) -> Term:
        return Term(COMPARISONS[type(tree)], self._alike(COMPARISONS[type(tree)], tree.this, tree.expression))

    def _in(self, tree: exp.Expr) -> Term:
        if tree.args.get("query") or not tree.expressions:
            raise _unknown(tree)
        return Term("in", self._alike("in", tree.this, *tree.expressions))

    def _between(self, tree: exp.Expr) -> Term:
        return Term("between", self._alike("between", tree.this, tree.args["low"], tree.args["high"]))

    def _like(self, tree: exp.Expr) -> Term:
        column, pattern = self._source(tree.this), _text(tree.expression)
        if pattern is None or "\\" in pattern or tree.args.get("escape"):
            raise NotUnderstood("a pattern with an escape")
        _require_exact(column)
        return Term("like", (Term("column", text=column.name), Term("text", text=pattern)))

    # --- what is compared ---------------------------------------------------------------------------------------------

    def _alike(self, op: str, *trees: exp.Expr) -> tuple[Term, ...]:
        """Return the operands, if every database compares them in the same way."""
        columns = [self._source(tree) for tree in map(_bare, trees) if isinstance(tree, exp.Column)]
        kinds = {column.type.kind for column in columns if column.type}
        if not kinds or kinds <= NUMBERS:
            return tuple(self._number(tree) for tree in trees)
        if kinds <= {Kind.TEXT, Kind.ENUM}:
            return self._texts(op, columns, trees)
        if len(kinds) == 1 and kinds <= SAME_CLOCK:
            (kind,) = kinds
            return tuple(self._clock(kind, tree) for tree in trees)
        raise NotUnderstood(f"{' and '.join(sorted(kinds))} in a comparison")

    def _texts(self, op: str, columns: list[Column], trees: tuple[exp.Expr, ...]) -> tuple[Term, ...]:
        if op not in EQUALITIES:
            raise NotUnderstood("texts in an order, which depends on the collation")
        constants = [text for tree in trees if (text := _text(tree)) is not None]
        if len(constants) + len(columns) != len(trees):
            raise NotUnderstood("a text that is not a column or a constant")
        for column in columns:
            if column.type and column.type.kind is Kind.ENUM:
                _require_labels(column, constants, len(columns))
            else:
                _require_exact(column)
        if any(text.endswith(" ") for text in constants):
            raise NotUnderstood("a text with a space at its end")
        texts = (_text(tree) for tree in trees)
        return tuple(
            Term("text", text=text) if text is not None else self._column(tree)
            for text, tree in zip(texts, trees, strict=True)
        )

    def _clock(self, kind: Kind, tree: exp.Expr) -> Term:
        tree = _bare(tree)
        if isinstance(tree, exp.Column):
            return self._column(tree)
        inner = tree.this if isinstance(tree, exp.Cast) and tree.to.is_type("date") else tree
        text = _text(inner)
        if text is None or kind not in CLOCK_FORMS or not re.fullmatch(CLOCK_FORMS[kind], text):
            raise NotUnderstood(f"{tree.sql(dialect='mysql')} beside a column of kind {kind}")
        try:
            datetime.fromisoformat(text)
        except ValueError:
            raise NotUnderstood(f"{text}, which is no date") from None
        return Term("text", text=text)

    def _number(self, tree: exp.Expr, exact: bool = False) -> Term:
        tree = _bare(tree)
        if isinstance(tree, exp.Literal) and not tree.is_string and re.fullmatch(r"\d+(\.\d+)?", tree.name):
            return Term("number", text=tree.name)
        if isinstance(tree, exp.Neg):
            return Term("negative", (self._number(tree.this, exact=True),))
        if isinstance(tree, exp.Column):
            return self._number_column(tree, EXACT if exact else NUMBERS)
        if type(tree) in ARITHMETIC:
            return self._arithmetic(tree)
        if isinstance(tree, exp.Length) or (isinstance(tree, exp.Anonymous) and tree.name.lower() == "octet_length"):
            return self._length(tree)
        raise _unknown(tree)

    def _arithmetic(self, tree: exp.Expr) -> Term:
        """Render arithmetic of integers, and sums of decimals: products and quotients are rounded in each database's
        own way."""
        op = ARITHMETIC[type(tree)]
        operands = tuple(self._number(t, exact=True) for t in (tree.this, tree.expression))
        if op in "*%" and not all(self._is_whole(term) for term in operands):
            raise NotUnderstood(f"{op} of numbers that are not whole")
        if op == "%" and (operands[1].op != "number" or not operands[1].text.strip("0")):
            raise NotUnderstood("a remainder whose divisor may be zero")
        return Term(op, operands)

    def _is_whole(self, term: Term) -> bool:
        if term.op == "number":
            return term.text.isdigit()
        kinds = (self.columns[name.lower()].type for name in term.columns())
        return all(kind is not None and kind.kind in WHOLE for kind in kinds) and all(map(self._is_whole, term.of))

    def _number_column(self, tree: exp.Expr, kinds: frozenset[Kind]) -> Term:
        column = self._source(tree)
        if column.type is None or column.type.kind not in kinds:
            raise NotUnderstood(f"{column.name} ({column.native}) as a number")
        return Term("column", text=column.name)

    def _length(self, tree: exp.Expr) -> Term:
        argument = tree.this if isinstance(tree, exp.Length) else tree.expressions[0]
        column = self._source(argument)
        if column.type is None or column.type.kind is not Kind.TEXT or not is_utf8(column.charset):
            raise NotUnderstood(f"the length of {column.name} ({column.native})")
        counts_bytes = isinstance(tree, exp.Anonymous) or tree.args.get("binary")
        return Term("bytes" if counts_bytes else "characters", (Term("column", text=column.name),))

    def _column(self, tree: exp.Expr) -> Term:
        return Term("column", text=self._source(tree).name)

    def _source(self, tree: exp.Expr) -> Column:
        tree = _bare(tree)
        if not isinstance(tree, exp.Column) or tree.table or tree.name.lower() not in self.columns:
            raise _unknown(tree)
        return self.columns[tree.name.lower()]


def _bare(tree: exp.Expr) -> exp.Expr:
    while isinstance(tree, exp.Paren):
        tree = tree.this
    return tree


def _text(tree: exp.Expr) -> str | None:
    """Return a text constant, with or without the name of a character set before it; None where the catalogue may print
    another one: a question mark stands for a character beyond U+FFFF, too."""
    tree = _bare(tree)
    if isinstance(tree, exp.Introducer):
        if not tree.expression.name.isascii():  # MySQL prints its bytes as if they were latin1
            return None
        tree = tree.expression
    is_told = isinstance(tree, exp.Literal) and tree.is_string and "?" not in tree.name
    return tree.name if is_told else None


def _require_exact(column: Column) -> None:
    if column.type is None or column.type.kind is not Kind.TEXT or not compares_exactly(column):
        raise NotUnderstood(f"{column.name} is compared by {column.collation or column.native}, which is not by bytes")


def _require_labels(column: Column, constants: list[str], columns: int) -> None:
    """Raise NotUnderstood unless each constant is written exactly like a label: the collation may take others for equal."""
    known = column.type.values if column.type else ()
    if columns > 1 or any(text not in known for text in constants):
        raise NotUnderstood(f"{column.name} beside what is none of its labels")


def _unknown(tree: exp.Expr) -> NotUnderstood:
    return NotUnderstood(f"{tree.sql(dialect='mysql')[:80]} is not known to mean the same elsewhere")


Reader = Callable[[str, str, Mapping[str, Column]], Check]
READERS: Mapping[str, Reader] = {"mysql": of_mysql, "mariadb": of_mariadb}
