"""Enums of a PostgreSQL as enum(…): which ones can be, and what the servers would take for a label that it is not.

A strict server takes a text that is no label for one in two cases: a whole number is the place of a label, and blanks at the
end do not count. So no enum with such labels becomes an enum(…), and such values are refused. A column in a key stays a text,
because InnoDB compares places of labels there, which two tables may have otherwise (rules/rule_set.py leaves it one).
https://dev.mysql.com/doc/refman/8.0/en/enum.html · https://mariadb.com/kb/en/enum/
What does not live here: labels that the source has got since (labels.py).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from anabranch.model.datatype import Kind, LogicalType

# Bytes of all labels. They stand in the definition of the table, for which MariaDB and MySQL before 8.0 have 64 KB.
# https://dev.mysql.com/doc/refman/5.7/en/limits-frm-file.html
MOST = 8192
NO_LABEL = r"^[[:space:]]*[-+]?[0-9]+[[:space:]]*$|[[:space:]]$|^$"
# Letters that every release shows in a table's definition as they are told: no control characters, none beyond the BMP.
_LABEL = re.compile(r"[^\x00-\x1f\x7f-\x9f\u2028\u2029\U00010000-\U0010ffff]+")
_PLACE = re.compile(r"\s*[-+]?\d+\s*")
LABELLED = ("enum", "set")  # chosen without labels, for columns that have some
QUOTED = re.compile(r"'(?:[^'\\]|''|\\.)*'", re.DOTALL)  # a label in a definition


@lru_cache(1000)
def are_fit(labels: tuple[str, ...]) -> bool:
    """Return whether an enum(…) holds these labels, and takes no other value for one of them."""
    return bool(labels) and sum(len(label.encode()) + 3 for label in labels) <= MOST and all(map(_is_fit, labels))


def _is_fit(label: str) -> bool:
    return bool(_LABEL.fullmatch(label)) and label == label.rstrip() and not _PLACE.fullmatch(label)


def is_enum(type: LogicalType) -> bool:
    """Return whether a column of this type is an enum(…) made of a PostgreSQL's enum."""
    return type.kind is Kind.ENUM and type.printed and not type.target and are_fit(type.values)


def declared(native: str) -> list[str]:
    """Return the labels of a column as its definition spells them."""
    return QUOTED.findall(native)


def takes_texts(native: str) -> bool:
    """Return whether a column that stands as `enum(…)` or `set(…)` takes no text for another label than the one it spells."""
    labels = [label[1:-1].replace("''", "'") for label in declared(native)]
    return bool(labels) and all(label == label.strip() and label and not _PLACE.fullmatch(label) for label in labels)


def are_alike(native: str, other: str) -> bool:
    """Return whether two types that are printed by a server, or made here, have the same labels, as far as every release shows
    them."""
    here, there = declared(native), declared(other)
    is_shown = all(map(_LABEL.fullmatch, (*here, *there)))
    return here == there if is_shown else len(here) == len(there)


def is_part(some: Sequence[str], all_of: Sequence[str]) -> bool:
    """Return whether `all_of` has the labels of `some`, in the same order, and perhaps others between."""
    rest = iter(all_of)
    return all(label in rest for label in some)


def merged(here: Sequence[str], there: Sequence[str]) -> list[str]:
    """Return the labels of both, each one's in its order; [] where those that both have stand in another order."""
    if [label for label in here if label in there] != [label for label in there if label in here]:
        return []
    found: list[str] = []
    rest, coming = list(here), list[str]()
    for label in there:
        if label in rest:
            place = rest.index(label)
            found += [*rest[:place], *coming, label]
            rest, coming = rest[place + 1 :], []
        else:
            coming.append(label)
    return [*found, *rest, *coming]


def guarded(value: str) -> str:
    """Return SQL for a label; of what the server would take for one it makes a text that is none."""
    return f"IF({value} REGEXP '{NO_LABEL}', CONCAT({value}, '\\0'), {value})"
