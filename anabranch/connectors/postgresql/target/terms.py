"""Terms (model/term.py) as SQL of PostgreSQL.

What does not live here: which terms a source makes of its conditions, where they stand in a definition (ddl.py).
https://www.postgresql.org/docs/current/functions.html
"""

from __future__ import annotations

from collections.abc import Mapping

from anabranch.connectors.postgresql.quoting import literal
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.term import Term

UUID_SINCE = 130000  # gen_random_uuid: https://www.postgresql.org/docs/release/13.0/
_BETWEEN_OPERANDS = ("=", "<>", "<", "<=", ">", ">=", "and", "or", "like", "is not distinct from")
_FUNCTIONS = {"characters": "char_length", "bytes": "octet_length"}
_ARITHMETIC = ("+", "-", "*", "%")


def condition(term: Term, names: Mapping[str, str]) -> str:
    """Write a term as SQL. `names`: source column -> column as SQL. Raises KeyError with the name of one that is missing."""
    of = [condition(operand, names) for operand in term.of]
    if term.op == "column":
        return names[term.text]
    if term.op == "number":
        return term.text
    if term.op == "text":
        return literal(term.text)
    if term.op in _FUNCTIONS:
        return f"{_FUNCTIONS[term.op]}({of[0]})"
    if term.op in _ARITHMETIC:  # the source computes in its widest type: so do we
        return f" {term.op} ".join(f"{operand}::numeric" for operand in _wrapped(term, of))
    if term.op in _BETWEEN_OPERANDS:
        return f" {term.op.upper()} ".join(_wrapped(term, of))
    first, *others = _wrapped(term, of)
    forms = {
        "in": f"{first} IN ({', '.join(others)})",
        "between": f"{first} BETWEEN {' AND '.join(others)}",
        "not": f"NOT {first}",
        "is null": f"{first} IS NULL",
        "negative": f"-{first}",
    }
    return forms[term.op]


def _wrapped(term: Term, of: list[str]) -> list[str]:
    """Return the operands, in parentheses unless they are a single thing."""
    single = ("column", "number", "text", *_FUNCTIONS)
    return [text if operand.op in single else f"({text})" for operand, text in zip(term.of, of, strict=True)]


def default(term: Term, type: LogicalType, version: int) -> str | None:
    """Write a default's expression; None for one that a server of this version does not have, or of a type that the job
    chose.
    """
    if type.target:
        return None
    if term.op == "now":
        function = "CURRENT_TIMESTAMP" if type.kind is Kind.INSTANT else "LOCALTIMESTAMP"
        return f"{function}({term.text})"
    if term.op == "today":
        return "CURRENT_DATE"
    if term.op == "uuid":
        return "gen_random_uuid()::text" if version >= UUID_SINCE else None
    return literal(term.text) if term.op == "text" and "\x00" not in term.text else None
