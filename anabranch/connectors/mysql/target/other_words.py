"""Conditions and expressions in PostgreSQL's words, as far as they mean the same here: checks, computed columns.

A CHECK that is wrong refuses rows: what is not in the tables below is told, and not made.
https://www.postgresql.org/docs/current/functions.html
What does not live here: defaults (`other_defaults.py`), SQL of this target (`clauses.py`). Who imports it waits for a parser.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from anabranch.connectors.mysql.target.names import NotMade
from anabranch.model.datatype import Kind
from anabranch.model.schema import Column, TableSchema
from anabranch.model.term import Term

PARSED_AS = {"postgresql": "postgres"}  # TableSchema.dialect -> what the parser calls it
WHOLE = frozenset({Kind.INT8, Kind.INT16, Kind.INT32, Kind.INT64})
EXACT = WHOLE | {Kind.DECIMAL}
NUMBERS = EXACT | {Kind.FLOAT32, Kind.FLOAT64}
COMPARISONS: dict[type[Any], str] = {exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}
ARITHMETIC: dict[type[Any], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*"}
JUNCTIONS: dict[type[Any], str] = {exp.And: "and", exp.Or: "or"}
PADDED = ("character(", "char(", "bpchar")  # blanks at the end do not count there
_TAILS = (" NOT ENFORCED", " NOT VALID", " NO INHERIT")


# --- checks and computed columns --------------------------------------------------------------------------------------


def check(text: str, schema: TableSchema) -> tuple[Term, bool]:
    """Return what `CHECK (…)` means, and whether the source has asked all its rows. Raises NotMade."""
    is_asked = True
    for tail in _TAILS:
        if text.endswith(tail):
            if tail == _TAILS[0]:
                raise NotMade("the source does not enforce it")
            text, is_asked = text.removesuffix(tail), is_asked and tail != _TAILS[1]
    return _Reader(schema).condition(_parsed(text.removeprefix("CHECK "), schema.dialect)), is_asked


def computed(column: Column, schema: TableSchema) -> Term:
    """Return what a column is computed by, of exact numbers. Raises NotMade."""
    text = re.sub(r"\s+(STORED|VIRTUAL)\s*$", "", column.expression)
    return _Reader(schema).number(_parsed(text, schema.dialect), EXACT)


def _parsed(text: str, dialect: str) -> exp.Expr:
    try:
        tree = sqlglot.parse_one(text, dialect=PARSED_AS[dialect])
    except SqlglotError:
        raise NotMade("it is not understood") from None
    return tree


class _Reader:
    """Trees to terms, with the types of the columns at hand. Raises NotMade."""

    def __init__(self, schema: TableSchema) -> None:
        self.columns = {column.name: column for column in schema.columns}

    def condition(self, tree: exp.Expr) -> Term:
        tree = _bare(tree)
        readers: tuple[tuple[tuple[type[Any], ...], Callable[[Any], Term]], ...] = (
            (tuple(JUNCTIONS), self._junction),
            ((exp.EQ,), self._equal),
            (tuple(COMPARISONS), self._comparison),
            ((exp.Not,), lambda t: Term("not", (self.condition(t.this),))),
            ((exp.Is,), self._is_null),
            ((exp.In,), lambda t: Term("in", self._alike("in", t.this, *t.expressions))),
            ((exp.Between,), lambda t: Term("between", self._alike("<", t.this, t.args["low"], t.args["high"]))),
        )
        for kinds, read in readers:
            if isinstance(tree, kinds):
                return read(tree)
        raise _unknown(tree)

    def _junction(self, tree: Any) -> Term:
        return Term(JUNCTIONS[type(tree)], (self.condition(tree.this), self.condition(tree.expression)))

    def _is_null(self, tree: Any) -> Term:
        if not isinstance(tree.expression, exp.Null):
            raise _unknown(tree)
        return Term("is null", (self._column(tree.this),))

    def _equal(self, tree: Any) -> Term:
        """Read `a = b`, and `a = ANY (ARRAY[…])`, which is how IN is printed."""
        right = _bare(tree.expression)
        if not isinstance(right, exp.Any):
            return self._comparison(tree)
        listed = _bare(right.this)
        while isinstance(listed, exp.Cast):
            listed = _bare(listed.this)
        if not isinstance(listed, exp.Array) or not listed.expressions:
            raise _unknown(tree)
        return Term("in", self._alike("in", tree.this, *listed.expressions))

    def _comparison(self, tree: Any) -> Term:
        op = COMPARISONS[type(tree)]
        return Term(op, self._alike(op, tree.this, tree.expression))

    def _alike(self, op: str, *trees: exp.Expr) -> tuple[Term, ...]:
        """Return the operands, if both databases compare them in the same way."""
        found = [self._source(tree) for tree in trees if isinstance(_uncast(tree), exp.Column)]
        kinds = {column.type.kind for column in found if column.type}
        if not kinds or kinds <= NUMBERS:
            return tuple(self.number(tree) for tree in trees)
        if kinds == {Kind.TEXT} and op in ("=", "<>", "in"):
            return tuple(self._text(tree) for tree in trees)
        if kinds == {Kind.DATE}:
            return tuple(self._date(tree) for tree in trees)
        raise NotMade(f"{' and '.join(sorted(kinds))} in a comparison")

    def _text(self, tree: exp.Expr) -> Term:
        tree = _uncast(tree)
        if isinstance(tree, exp.Literal) and tree.is_string:
            return Term("text", text=tree.name)
        column = self._source(tree)
        if column.native.startswith(PADDED) or column.native in ("character", "char"):
            raise NotMade(f"{column.name} ({column.native}) is compared without the blanks at its end")
        return Term("column", text=column.name)

    def _date(self, tree: exp.Expr) -> Term:
        inner = _bare(tree)
        if not isinstance(inner, exp.Cast) or not inner.to.is_type("date"):
            return self._column(inner)
        constant = _bare(inner.this)
        try:
            return Term("text", text=date.fromisoformat(constant.name).isoformat())
        except ValueError:
            raise NotMade(f"{constant.name}, which is no date") from None

    def number(self, tree: exp.Expr, kinds: frozenset[Kind] = NUMBERS) -> Term:
        tree = _bare(tree)
        if isinstance(tree, exp.Cast):
            tree = self._uncast_number(tree)
        if isinstance(tree, exp.Literal) and re.fullmatch(r"\d+(\.\d+)?", tree.name):
            return Term("number", text=tree.name)
        if isinstance(tree, exp.Neg):
            return Term("negative", (self.number(tree.this, EXACT),))
        if type(tree) in ARITHMETIC:
            return Term(ARITHMETIC[type(tree)], (self.number(tree.this, EXACT), self.number(tree.expression, EXACT)))
        if isinstance(tree, exp.Length) and not tree.args.get("binary") and isinstance(_uncast(tree.this), exp.Column):
            return Term("characters", (self._text(tree.this),))
        column = self._source(tree)
        if column.type is None or column.type.kind not in kinds:
            raise NotMade(f"{column.name} ({column.native}) as a number")
        return Term("column", text=column.name)

    def _uncast_number(self, tree: exp.Cast) -> exp.Expr:
        """Return what a cast says again: a constant, or a whole number as one of more digits."""
        inner = _bare(tree.this)
        is_number = tree.to.is_type("int", "bigint", "smallint", "decimal", "double")
        is_plain = isinstance(inner, exp.Literal) or (isinstance(inner, exp.Column) and tree.to.is_type("bigint"))
        if isinstance(inner, exp.Column) and tree.to.is_type("decimal") and not tree.to.expressions:
            is_plain = True
        if not (is_number and is_plain) or (tree.to.expressions and not isinstance(inner, exp.Literal)):
            raise _unknown(tree)
        return inner

    def _column(self, tree: exp.Expr) -> Term:
        return Term("column", text=self._source(tree).name)

    def _source(self, tree: exp.Expr) -> Column:
        tree = _uncast(tree)
        if not isinstance(tree, exp.Column) or tree.table or tree.name not in self.columns:
            raise _unknown(tree)
        return self.columns[tree.name]


def _bare(tree: exp.Expr) -> exp.Expr:
    while isinstance(tree, exp.Paren):
        tree = tree.this
    return tree


def _uncast(tree: exp.Expr) -> exp.Expr:
    """Return a column or a constant without a cast to a text of any length."""
    tree = _bare(tree)
    while isinstance(tree, exp.Cast) and tree.to.is_type("text", "varchar") and not tree.to.expressions:
        tree = _bare(tree.this)
    return tree


def _unknown(tree: exp.Expr) -> NotMade:
    return NotMade(f"{tree.sql(dialect='postgres')[:80]} is not known to mean the same here")
