"""Names of what is made at the target: how long they may be, what is taken instead, which name a source's column has here.

https://dev.mysql.com/doc/refman/8.0/en/identifiers.html · https://mariadb.com/kb/en/identifier-names/
What does not live here: quoting (`session.py`).
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256

from anabranch.rows.net import TargetTable

NAME_CHARACTERS = 64  # of a database, table, column, index or constraint: https://dev.mysql.com/doc/refman/8.0/en/identifier-length.html
HIGHEST = "\uffff"  # of the characters that a name may have
RESERVED = ("primary", "gen_clust_index")  # as names of indexes, whatever their case


class NotMade(Exception):
    """Something of the source that the target does not get; the text says why."""


def fits(name: str) -> bool:
    """Return whether the servers take the name. Characters beyond U+FFFF, a space at the end and NUL they do not."""
    is_known = all("\0" < character <= HIGHEST for character in name)
    return 0 < len(name) <= NAME_CHARACTERS and is_known and not name.endswith(" ")


def shortened(name: str) -> str:
    """Return a name that is taken, told apart from its neighbours by a digest when it had to be changed."""
    return name if fits(name) and name.lower() not in RESERVED else with_digest(name, name)


def with_digest(name: str, of: str) -> str:
    digest = sha256(of.encode()).hexdigest()[:8]
    known = "".join(character if "\0" < character <= HIGHEST else "_" for character in name)
    return known[: NAME_CHARACTERS - 9] + "_" + digest


def refused_names(table: TargetTable) -> list[str]:
    """Return the names of the table that the servers do not take. Nobody shortens these: the job file names others."""
    own = (*table.columns, *(name for _, name in table.computed))
    return [name for name in (table.target.schema, table.target.name, *own) if not fits(name)]


def target_columns(table: TargetTable) -> dict[str, str]:
    """Return source column -> target column, for those that the job replicates."""
    return dict(zip(table.source_columns or table.columns, table.columns, strict=True))


def mapped(columns: Iterable[str], table: TargetTable) -> tuple[str, ...]:
    """Return source columns by their names at the target. Raises NotMade."""
    names = target_columns(table) | dict(table.computed)
    columns = tuple(columns)
    missing = [column for column in columns if column not in names]
    if missing:
        raise NotMade(f"{', '.join(missing)} of {table.source} is not a replicated column")
    return tuple(names[column] for column in columns)
