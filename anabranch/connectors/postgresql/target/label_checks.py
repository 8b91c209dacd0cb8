"""Checks that admit the labels of an ENUM, and get those that the source has appended. A check of another form is its maker's:
it stays, and rows that it refuses are refused.

What does not live here: the check of a table that is made (`ddl.py`), enums of a source that is a PostgreSQL (`labels.py`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from anabranch.connectors.postgresql.connection import Connection
from anabranch.connectors.postgresql.quoting import literal, qualified, quote
from anabranch.connectors.postgresql.target import ddl
from anabranch.contracts import Conflict
from anabranch.model.datatype import Kind, LogicalType
from anabranch.rows.altered import AlteredTable, ColumnRetyped

CHECKS = """
SELECT a.attname::text, k.conname::text, pg_catalog.pg_get_constraintdef(k.oid)
FROM pg_catalog.pg_constraint k
JOIN pg_catalog.pg_attribute a ON a.attrelid = k.conrelid AND k.conkey = ARRAY[a.attnum]
WHERE k.conrelid = to_regclass({table}) AND k.contype = 'c'
ORDER BY 2
"""
_CONSTANT = r"E?'(?:[^']|'')*'::text"
# As the server prints `column IN ('a', 'b')` of a text; behind it stand NO INHERIT, NOT VALID, NOT ENFORCED.
_COLUMN = r'(?:"(?:[^"]|"")+"|[^\s"()]+)'
_LIST = re.compile(
    rf"CHECK \(\({_COLUMN} = (?:ANY \(ARRAY\[(?P<some>{_CONSTANT}(?:, {_CONSTANT})*)\]\)|(?P<one>{_CONSTANT}))\)\)"
    r"(?P<tail>[A-Z ]*)",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class LabelCheck:
    """A check that stands. `column`: as the target calls it now; `tail`: what stands behind the condition."""

    column: str
    name: str
    labels: frozenset[str]
    tail: str = ""


def standing(connection: Connection, altered: AlteredTable) -> list[LabelCheck]:
    """Return the checks of columns that get labels. Where none does, nothing is asked."""
    names = {altered.former_of(step.name) for step in appended(altered)}
    if not names:
        return []
    asked = CHECKS.format(table=literal(qualified(altered.table.target)))
    found = connection.execute(asked.encode()).fetchall()
    read = (read_check(str(column), str(name), str(text)) for column, name, text in found if column in names)
    return [check for check in read if check is not None]


def read_check(column: str, name: str, text: str) -> LabelCheck | None:
    """Return what a check says that is printed so; None for one that is no list of labels."""
    found = _LIST.fullmatch(text)
    if found is None:
        return None
    constants = re.findall(_CONSTANT, found["some"] or found["one"], re.DOTALL)
    return LabelCheck(column, name, frozenset(map(_label, constants)), found["tail"])


def _label(constant: str) -> str:
    text = constant.removesuffix("::text")
    inner = text[text.index("'") + 1 : -1].replace("''", "'")
    return inner.replace("\\\\", "\\") if text.startswith("E") else inner


def appended(altered: AlteredTable) -> Iterator[ColumnRetyped]:
    """Yield the steps of columns that have a check of their labels where they are made here."""
    for step in altered.steps:
        if isinstance(step, ColumnRetyped):
            types = [table.type_of(target) for _, table, _, target in altered.both(step.name)]
            if all(type.carried is Kind.ENUM and not type.target for type in types):
                yield step


def lines(altered: AlteredTable, step: ColumnRetyped, checks: Collection[LabelCheck]) -> Iterator[str]:
    """Yield the clauses that let the labels in which have come. Raises Conflict for a check that admits others than those that
    the column was made with."""
    if step not in appended(altered):
        return
    was, now = (table.type_of(target) for _, table, _, target in altered.both(step.name))
    for check in checks:
        if check.column != altered.former_of(step.name) or check.labels >= set(now.values):
            continue
        if check.labels | {""} != set(ddl.admitted(was)):
            raise Conflict(
                altered.table.source,
                f"check {check.name} of the target's table admits other labels than column {check.column} was made with",
            )
        yield f"DROP CONSTRAINT {quote(check.name)}"
        yield f"ADD CONSTRAINT {quote(check.name)} {_check(altered.target(step.name), now)}{check.tail}"


def _check(column: str, type: LogicalType) -> str:
    return f"CHECK ({quote(column)} IN ({', '.join(map(literal, ddl.admitted(type)))}))"
