"""Types that changed at the source since a definition was read. The log has no statement of that, and often no row: every
row that holds a renamed label has another value now, and none of them is logged.

https://www.postgresql.org/docs/current/sql-altertype.html, sql-alterdomain.html
What does not live here: reading types (needed_objects.py), who asks and when (set_up.py, capture/run.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from anabranch.connectors.postgresql.labels import missing_labels
from anabranch.connectors.postgresql.needed_objects import ENUM, EXTENSION, FUNCTION, labels
from anabranch.model.schema import Need, TableSchema

LABEL = re.compile(r"(\d+)=(E?'(?:[^']|'')*')")  # in the state of an enum: needs.TYPES


def changed_types(then: TableSchema, now: TableSchema) -> str:
    """Say why rows of the table may hold other values than the log has shown; "" where none does.

    A type that only one of the two names is no change of a type: the column has another one, which is seen by its name.
    """
    return next(_changes(then, now), "")


def _changes(then: TableSchema, now: TableSchema) -> Iterator[str]:
    states = dict(then.type_states)
    for what, state in now.type_states:
        if states.get(what, state) != state:
            yield from _change(what, states[what], state)
    before = {(need.kind, need.name): need for need in then.needs}
    pairs = [(before[need.kind, need.name], need) for need in now.needs if (need.kind, need.name) in before]
    for was, need in pairs:
        if need.kind == ENUM and not states:  # a trail of an earlier release: its definitions have the labels alone
            yield from _changed_definition(was, need)
        if need.kind == FUNCTION and now.computed and was.definition != need.definition:
            yield (
                f"the function {need.name} was replaced at the source, which computes other values by it than the target"
                " (at the target, too: CREATE OR REPLACE FUNCTION as at the source)"
            )


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


def _changed_definition(was: Need, need: Need) -> Iterator[str]:
    before, now = labels(was.definition), labels(need.definition)
    if before and not missing_labels(before, now) and before != now:
        lost = ", ".join(label for label in before if label not in now) or "their order"
        yield (
            f"labels of the enum {need.name} were renamed at the source, and with them rows: {lost} of before"
            f" (at the target, too: ALTER TYPE {need.name} RENAME VALUE … TO …)"
        )


def _changed_labels(name: str, before: dict[str, str], now: dict[str, str]) -> Iterator[str]:
    """Say which labels of an enum were renamed. A label has a number, which it keeps; labels that are only added change
    no row.
    """
    renamed = [(label, now.get(number, "nothing")) for number, label in before.items() if now.get(number) != label]
    if renamed:
        mend = "; ".join(f"ALTER TYPE {name} RENAME VALUE {old} TO {new}" for old, new in renamed)
        mend += ", by way of a third name" if set(now.values()) & {old for old, _ in renamed} else ""
        yield (
            f"labels of the enum {name} were renamed at the source, and with them rows (the load renames them at the target,"
            f" too, if only parked tables of this job have them there: {mend})"
        )
