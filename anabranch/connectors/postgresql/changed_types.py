"""Types that changed at the source since a definition was read. The log has no statement of that, and often no row: every
row that holds a renamed label has another value now, and none of them is logged.

https://www.postgresql.org/docs/current/sql-altertype.html, sql-alterdomain.html
What does not live here: reading types (needs.py), who asks and when (set_up.py, capture/run.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from anabranch.connectors.postgresql.needs import ENUM, EXTENSION
from anabranch.model.schema import TableSchema

LABEL = re.compile(r"(\d+)=(E?'(?:[^']|'')*')")  # in the state of an enum: needs.TYPES


def changed_types(then: TableSchema, now: TableSchema) -> str:
    """Why rows of the table may hold other values than the log has shown; "" where none does. A type that only one of the two
    names is no change of a type: the column has another one, which is seen by its name."""
    states = dict(then.type_states)
    found = (
        why
        for what, state in now.type_states
        if states.get(what, state) != state
        for why in _change(what, states[what], state)
    )
    return next(found, "")


def _change(what: str, before: str, now: str) -> Iterator[str]:
    kind, _, name = what.partition(" ")
    if kind == ENUM:
        yield from _changed_labels(name, dict(LABEL.findall(before)), dict(LABEL.findall(now)))
    elif kind == EXTENSION:
        yield (
            f"{what} went from version {before} to {now} at the source, which may show values otherwise"
            f" (at the target, too: ALTER EXTENSION {name} UPDATE)"
        )
    else:
        yield f"{what} was altered at the source (at the target, too, if its definition differs: anabranch preflight JOB)"


def _changed_labels(name: str, before: dict[str, str], now: dict[str, str]) -> Iterator[str]:
    """A label has a number, which it keeps. Labels that are only added change no row that is there."""
    renamed = [(label, now.get(number, "nothing")) for number, label in before.items() if now.get(number) != label]
    if renamed:
        mend = "; ".join(f"ALTER TYPE {name} RENAME VALUE {old} TO {new}" for old, new in renamed)
        mend += ", by way of a third name" if set(now.values()) & {old for old, _ in renamed} else ""
        yield f"labels of the enum {name} were renamed at the source, and with them rows (at the target, too: {mend})"
