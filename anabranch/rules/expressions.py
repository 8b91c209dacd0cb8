"""Spark SQL conditions of the job file: which columns they name, and whether they may be used as a filter.

A filter decides about one row from that row alone, the same way in load, stream and verification. What does not live
here: evaluating them (Spark does).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from difflib import get_close_matches

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

# Functions whose result is not the row's alone. https://spark.apache.org/docs/latest/api/sql/
_UNSTABLE = {
    *("rand", "randn", "random", "randstr", "uniform", "uuid", "shuffle", "monotonically_increasing_id"),
    *("now", "current_timestamp", "localtimestamp", "current_date", "curdate", "current_timezone"),
    *("current_user", "user", "session_user", "current_database", "current_schema", "current_catalog", "version"),
    *("spark_partition_id", "input_file_name", "input_file_block_start", "input_file_block_length"),
    *("java_method", "reflect", "try_reflect"),
}
_NOT_A_FILTER = {
    exp.Query: "a subquery",
    exp.Subquery: "a subquery",
    exp.AggFunc: "an aggregate function",
    exp.Window: "a window function",
    exp.Star: "a *",
    exp.Placeholder: "a placeholder",
    exp.Parameter: "a variable",
}


def columns_of(text: str, known: Collection[str]) -> tuple[str, ...]:
    """Return the columns that a condition names, each once, in the order of `known`. Raises ValueError with the reason."""
    tree = _parse(text)
    for reason in _refusals(tree):
        raise ValueError(f"has {reason}: a filter names columns of one row, nothing else")
    named = {column.name for column in tree.find_all(exp.Column)}
    for name in sorted(named - set(known)):
        nearest = get_close_matches(name, known, 1)
        raise ValueError(f"names the unknown column {name}" + "".join(f"; did you mean {n}?" for n in nearest))
    if not named:
        raise ValueError("names no column")
    return tuple(name for name in known if name in named)


def check_syntax(text: str) -> None:
    """Check what can be checked without the table. Raises ValueError."""
    for reason in _refusals(_parse(text)):
        raise ValueError(f"has {reason}: a filter names columns of one row, nothing else")


def _parse(text: str) -> exp.Expr:
    try:
        trees = sqlglot.parse(text, dialect="spark")
    except SqlglotError as error:
        place = getattr(error, "errors", None) or [{}]
        at = f" at {place[0]['highlight']!r}" if place[0].get("highlight") else ""
        raise ValueError(f"is not Spark SQL{at}") from None
    if len(trees) != 1 or trees[0] is None:
        raise ValueError("is not one condition")
    tree = trees[0]
    if not isinstance(tree, exp.Condition | exp.Query | exp.Star):  # the latter two have messages of their own
        raise ValueError("is not a condition")
    return tree


def _refusals(tree: exp.Expr) -> Iterator[str]:
    for node in tree.walk():
        yield from (reason for kind, reason in _NOT_A_FILTER.items() if isinstance(node, kind))
        if isinstance(node, exp.Func) and _function(node) in _UNSTABLE:
            yield f"{_function(node)}(), whose result changes"
        if isinstance(node, exp.Column) and node.table:
            yield f"the qualified name {node.sql(dialect='spark')}"


def _function(node: exp.Func) -> str:
    return (node.name if isinstance(node, exp.Anonymous) else node.sql_name()).lower()
