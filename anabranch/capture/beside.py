"""Changes of a table beside its columns, as a statement has them: kinds that the job follows, and those that it only notes.

What does not live here: reading statements (the source's dialect), indexes that are followed (`altered.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch.model.column_changes import CONSTRAINTS, OF_INDEXES, ColumnChange
from anabranch.model.foreign_key_changes import foreign_key_changes, refuses
from anabranch.model.index_changes import is_followed

if TYPE_CHECKING:
    from anabranch.model.schema import TableSchema
    from anabranch.rows.chunk import Barrier
    from anabranch.rows.log_items import StatementFacts


UNCERTAIN_KEY = (
    "the source drops or renames its unique key {name}, and what becomes of it is not certain: the target's may refuse "
    "rows; load the table again"
)

UNCERTAIN_CHECK = (
    "the source drops or changes its check {name}, and what becomes of it is not certain: the target's may refuse rows; load "
    "the table again"
)

UNCERTAIN_FOREIGN_KEY = (
    "the source drops its foreign key {name}, and what becomes of it is not certain: the target's may refuse rows; load the "
    "table again"
)


def foreign_key_that_goes(facts: StatementFacts, table: TableSchema) -> str:
    """Return the reason to park a table of which a foreign key goes that refuses rows, "" for any other."""
    gone = {name.lower() for name in facts.dropped_keys}
    names = [key.name for key in table.foreign_keys if refuses(key) and key.name.lower() in gone]
    return UNCERTAIN_FOREIGN_KEY.format(name=names[0]) if names else ""


def key_that_goes(facts: StatementFacts, table: TableSchema, is_certain: bool) -> str:
    """Return the reason to park a table of which a statement drops or renames a unique key, or may do so, "" for any other.
    `is_certain`: what becomes of the keys that are followed is known."""
    gone = {name.lower() for name in facts.gone_indexes}
    going = (index for index in table.indexes if index.unique and index.name.lower() in gone)
    names = [index.name for index in going if not (is_certain and is_followed(index))]
    return UNCERTAIN_KEY.format(name=names[0]) if names else ""


def check_that_goes(facts: StatementFacts, table: TableSchema) -> str:
    """Return the reason to park a table of which a check may go, and nobody knows which, "" for any other."""
    names, known = {name.lower() for name in facts.gone_checks}, {check.name.lower() for check in table.checks}
    others = {key.name.lower() for key in table.foreign_keys} | {index.name.lower() for index in table.indexes}
    others &= {name.lower() for name in facts.dropped_keys}  # DROP CHECK takes none of these
    is_certain = not table.checks or names <= others - known
    return "" if is_certain else UNCERTAIN_CHECK.format(name=facts.gone_checks[0])


def about_beside(facts: StatementFacts) -> frozenset[ColumnChange]:
    """Return the kinds of BESIDE_COLUMNS that a statement may change."""
    found = {ColumnChange.COMMENTS} if ColumnChange.COMMENTS in facts.beside else set()
    found |= OF_INDEXES.keys() if facts.indexes else set()
    is_about_checks = facts.gone_checks or not {ColumnChange.CHECKS, CONSTRAINTS}.isdisjoint(facts.beside)
    is_about_keys = not {ColumnChange.FOREIGN_KEYS, CONSTRAINTS}.isdisjoint(facts.beside)
    found |= {ColumnChange.FOREIGN_KEYS} if is_about_keys else set()
    return frozenset(found | ({ColumnChange.CHECKS} if is_about_checks else set()))


def kinds_of(facts: StatementFacts, table: TableSchema) -> list[str]:
    """Return the kinds of what a statement changes beside columns. `table`: as it is defined before it, which says what a
    constraint is that goes by its name alone."""
    found = [kind for kind in facts.beside if kind != CONSTRAINTS]
    if CONSTRAINTS in facts.beside:
        gone = {name.lower() for name in facts.dropped_keys}
        names = {
            str(ColumnChange.UNIQUE_KEYS): (index.name for index in table.indexes if index.unique),
            str(ColumnChange.FOREIGN_KEYS): (key.name for key in table.foreign_keys),
            str(ColumnChange.CHECKS): (check.name for check in table.checks),
        }
        found += [kind for kind, some in names.items() if any(name.lower() in gone for name in some)] or [CONSTRAINTS]
    return list(dict.fromkeys(found))


def without_keys(beside: str, facts: StatementFacts, then: TableSchema, noted: Barrier) -> str:
    """Return what is noted of a statement beside what is followed of it, with foreign keys where none of them is, or with
    those that `noted` says were left out."""
    kind, now = ColumnChange.FOREIGN_KEYS, noted.schema
    is_left = now is not None and kind in kinds_of(facts, then) and not foreign_key_changes(then, now)
    return ", ".join(filter(None, [beside, noted.reason or (str(kind) if is_left else "")]))
