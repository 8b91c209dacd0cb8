"""Terms (model/term.py) as SQL: what SQL databases write alike, and where each has words of its own.

What does not live here: which terms a source makes of its conditions, where they stand in a definition.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from anabranch.model.term import Term

ARITHMETIC = ("+", "-", "*", "%")
BETWEEN_OPERANDS = ("=", "<>", "<", "<=", ">", ">=", "and", "or", "like", "is not distinct from", *ARITHMETIC)
SINGLE = ("column", "number", "text")


@dataclass(frozen=True, slots=True)
class TermForms:
    """`functions`: a call of each, with {} for the operand; `operators`: what stands between operands, where that is not the
    term's own word in capitals; `computed`: an operand of arithmetic, with {} for it."""

    literal: Callable[[str], str]
    functions: Mapping[str, str]
    operators: Mapping[str, str]
    computed: str = "{}"


def written(term: Term, names: Mapping[str, str], forms: TermForms) -> str:
    """Write a term as SQL. `names`: source column -> column as SQL. Raises KeyError with the name of one that is missing."""
    of = [written(operand, names, forms) for operand in term.of]
    if term.op == "column":
        return names[term.text]
    if term.op == "number":
        return term.text
    if term.op == "text":
        return forms.literal(term.text)
    if term.op in forms.functions:
        return forms.functions[term.op].format(of[0])
    operands = _wrapped(term, of, forms)
    if term.op in BETWEEN_OPERANDS:
        form = forms.computed if term.op in ARITHMETIC else "{}"
        between = forms.operators.get(term.op, term.op.upper())
        return f" {between} ".join(form.format(operand) for operand in operands)
    first, *others = operands
    else_written = {
        "in": f"{first} IN ({', '.join(others)})",
        "between": f"{first} BETWEEN {' AND '.join(others)}",
        "not": f"NOT {first}",
        "is null": f"{first} IS NULL",
        "negative": f"-{first}",
    }
    return else_written[term.op]


def _wrapped(term: Term, of: list[str], forms: TermForms) -> list[str]:
    """Return the operands, in parentheses unless they are a single thing."""
    single = (*SINGLE, *forms.functions)
    return [text if operand.op in single else f"({text})" for operand, text in zip(term.of, of, strict=True)]
