"""Columns that come to a table of a pair while both sites write it, at a MySQL target: whether one that stands is the one that
comes, and what rows have in it that were written without it.

What does not live here: when they come (apply engine), adding them (`altered_columns.py`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from anabranch.connectors.mysql.target.altered_columns import made_column
from anabranch.connectors.mysql.target.clauses import as_written
from anabranch.connectors.mysql.target.conditions import holds
from anabranch.connectors.mysql.target.conflicts import stripped
from anabranch.connectors.mysql.target.defaults import BYTES, CLOCKS, NUMBERS
from anabranch.connectors.mysql.target.errors import translated
from anabranch.connectors.mysql.target.fits import takes
from anabranch.connectors.mysql.target.held_rows import HeldRows
from anabranch.connectors.mysql.target.known_columns import assigned
from anabranch.connectors.mysql.target.release import Release
from anabranch.connectors.mysql.target.session import Connection, ask, run, table_name
from anabranch.connectors.mysql.target.staging import StagingTables
from anabranch.connectors.mysql.target.structures import ExistingColumn, read_table
from anabranch.connectors.mysql.target.words import bare, literal
from anabranch.contracts import ValueRules
from anabranch.rows.altered import AlteredTable, ColumnAdded
from anabranch.rows.net import TargetTable

# A constant as a server prints it: text, perhaps behind its character set, bits, bytes, a number; `+ 0` is that of our FLOATs.
_CONSTANT = re.compile(
    r"(?:b|x|_utf8mb[34])?'(?:[^'\\]|''|\\.)*'|0x[0-9a-f]*|-?\d+(?:\.\d+)?(?:e[-+]?\d+)?(?: \+ 0)?",
    re.IGNORECASE | re.DOTALL,
)
_NOT_READ = ("(", "b'", "x'", "0x")  # how a default begins that a reader of the log does not take for a constant
_ZEROS = re.compile(r"(\.\d*?)0+$")  # 1.50 is 1.5, and a second is the same with more digits behind it


@dataclass(frozen=True)
class Coming:
    """`outside`: returns the session while no epoch is open, `inside`: the staging tables of an open one, `held`: the rows that
    it has taken out of others' way."""

    outside: Callable[[], Connection]
    inside: Callable[[], StagingTables]
    held: Callable[[], HeldRows | None]
    rules: ValueRules

    def standing(self, altered: AlteredTable) -> dict[str, str]:
        connection, table = self.outside(), altered.table
        with translated(f"look at {table.target}", table.source):
            release, existing = Release.of(connection), read_table(connection, table.target)
            found = {}
            for step in altered.steps:
                if not isinstance(step, ColumnAdded) or existing is None:
                    continue
                if (column := existing.column(altered.target(step.name))) is not None:
                    made = made_column(altered, step, self.rules, release)
                    found[step.name] = _unlike(connection, column, made.native, made.default, release)
            connection.commit()
        return found

    def kept_back(self, altered: AlteredTable) -> Mapping[str, str]:
        connection, found = self.outside(), {}
        with translated(f"look at {altered.table.target}", altered.table.source):
            release = Release.of(connection)
            connection.commit()
        for step in altered.steps:
            if isinstance(step, ColumnAdded):
                default = made_column(altered, step, self.rules, release).default
                if default is not None and default.lower().startswith(_NOT_READ):
                    found[step.name] = f"DEFAULT {default}"
        return found

    def beside(self, table: TargetTable) -> Sequence[str]:
        stages = self.inside()
        with translated(f"look at {table.target}", table.source):
            return stages.known.whole(table.target).beside(table.columns)

    def fill(self, table: TargetTable, key: Mapping[str, str | None], columns: Sequence[str]) -> None:
        stages = self.inside()
        with translated(f"update in {table.target}", table.source, dict(key)):
            if (held := self.held()) is not None:
                held.let_in(table, key)
            known, values = (
                stages.known.of(table.target),
                tuple(stripped(key[name], self.rules.nul) for name in table.key),
            )
            sets = assigned(known, tuple(columns), ("DEFAULT",) * len(columns))
            where = holds(stages.connection, table, table.key, values)
            run(stages.connection, f"UPDATE {table_name(table.target)} SET {sets} WHERE {where}")


def _unlike(connection: Connection, column: ExistingColumn, native: str, default: str | None, release: Release) -> str:
    if column.generated or column.auto_increment or column.changes_itself:
        return f"{column.name} is computed there"
    if not takes(column.type, native):
        return f"{column.name} is {column.type} there, and would be {native}"
    if not _is_equal(connection, bare(column.type), _printed(column, release), default):
        return f"{column.name} has the default {column.default} there, and would have {default or 'none'}"
    return ""


def _printed(column: ExistingColumn, release: Release) -> str | None:
    """Return the default that stands, as an expression."""
    text = column.default
    if text is None or (release.family == "mariadb" and text.upper() == "NULL"):
        return None
    if release.family == "mariadb":
        return text
    if "default_generated" in column.extra:
        return as_written(text)
    is_bits = text.startswith("b'") and bare(column.type) == "bit"
    # MySQL 8 shows bytes so, older ones as they are.
    is_bytes = text.startswith("0x") and bare(column.type) in BYTES and release.has("expression defaults")
    return text if is_bits or is_bytes else literal(text)


def _is_equal(connection: Connection, kind: str, one: str | None, other: str | None) -> bool:
    """Return whether two defaults are the same constant of a column of this kind. One that is computed is like none: rows that
    are there, and rows that come, would have other values in it."""
    if one is None or other is None:
        return one is other
    if not all(_CONSTANT.fullmatch(text.strip("()")) for text in (one, other)):
        return False
    form = "HEX({})" if kind in BYTES else "CAST({} AS CHAR)"
    here, there = ask(connection, f"SELECT {form.format(one)}, {form.format(other)}")[0]
    if here is None or there is None:
        return False  # a text that this server cannot read
    has_zeros = kind in (*NUMBERS, *CLOCKS) and _is_number(here)
    return bool(here == there or (has_zeros and _plain(here) == _plain(there)))


def _is_number(text: str) -> bool:
    return re.fullmatch(r"[-\d.: ]+", text) is not None


def _plain(text: str) -> str:
    return _ZEROS.sub(r"\1", text).rstrip(".")
