"""Labels that the source's enums have and the target's lack are added at the target, at the same place among the others.

https://www.postgresql.org/docs/current/sql-altertype.html: a label can be used once the transaction that added it is committed,
so it is added by a session of its own. What does not live here: renamed labels, which park their tables (changed_types.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import closing

import psycopg

from anabranch import log
from anabranch.connectors.postgresql.connection import connect
from anabranch.connectors.postgresql.errors import WAITED_FOR, describe, meaning, translate, translated
from anabranch.connectors.postgresql.needed_objects import ENUM, labels, present
from anabranch.model.endpoint import Endpoint
from anabranch.model.schema import Need

UNKNOWN = "22P02"  # a type does not know a value


def add_labels(endpoint: Endpoint, needs: Iterable[Need]) -> list[str]:
    """Return the statements that were carried out: those before one that the target refuses. Raises TargetUnavailable or
    TargetBusy, where it would take them later."""
    enums = [need for need in needs if need.kind == ENUM and need.definition]
    if not enums:
        return []
    with closing(connect(endpoint, "anabranch-labels", autocommit=True)) as connection:
        with translated("read the labels of the target's types"):
            there = present(connection, enums)
        wanted = [
            f"ALTER TYPE {need.name} ADD VALUE IF NOT EXISTS {label}"
            for need in enums
            if need in there
            for label in missing_labels(labels(there[need]), labels(need.definition))
        ]
        for number, statement in enumerate(wanted):
            try:
                connection.execute(statement.encode())
            except psycopg.Error as error:
                if meaning(error)[0] in WAITED_FOR:
                    raise translate(error, "add a label to a type") from None
                log.get().warning("label_is_not_added", reason=describe(error), statement="; ".join(wanted[number:]))
                return wanted[:number]
            log.get().warning("label_added", statement=statement)
    return wanted


def missing_labels(here: Sequence[str], there: Sequence[str]) -> list[str]:
    """Return the labels that `there` has more than `here`, each with its place.

    [] where `here` has others, or another order: nobody can say which of them stands for which.
    """
    if [label for label in there if label in here] != list(here):
        return []
    first = f" BEFORE {here[0]}" if here else ""
    return [label + (f" AFTER {there[at - 1]}" if at else first) for at, label in enumerate(there) if label not in here]
