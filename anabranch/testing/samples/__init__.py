"""Three databases as people have them, with rows and with somebody who works in them: a film rental, an employer, and one
that has grown since MySQL 4. The same rows and changes for the same seed.

`films.py`, `employer.py`, `legacy.py` have one each; definitions are in the `.sql` file beside. What does not live here:
changes that are made to hurt (workload.py), a shop for the demo (demo/).
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from anabranch.testing.databases import Database

SETTINGS = "SET SESSION sql_mode = '', time_zone = '+00:00'"  # the old one stores what it does not understand
ROWS_PER_INSERT = 200
Statements = Iterator[str]


@dataclass(frozen=True)
class Sample:
    """`fill(scale)` gives the first rows; `transaction(random)` one of those that follow. `beside`: names of what is no
    table, by kind."""

    name: str
    fill: Callable[[int], Statements]
    transaction: Callable[[random.Random], Statements]
    beside: dict[str, tuple[str, ...]]

    def create(self, database: Database, scale: int = 1) -> None:
        """Each statement by itself: with GTIDs a table without transactions cannot be written in one."""
        database.execute(SETTINGS, *definitions(self.name), *self.fill(scale))

    def work(self, database: Database, seed: int, transactions: int) -> None:
        """So many transactions; one that the server refuses is rolled back, as an application does it."""
        chance = random.Random(f"{self.name} {seed}")
        with closing(database.connect(autocommit=False)) as connection, closing(connection.cursor()) as cursor:
            cursor.execute(SETTINGS)
            for _ in range(transactions):
                _one(connection, cursor, self.transaction(chance))


def _one(connection: Any, cursor: Any, statements: Iterable[str]) -> None:
    from pymysql.err import IntegrityError

    try:
        for statement in statements:
            cursor.execute(statement)
        connection.commit()
    except IntegrityError:
        connection.rollback()


def definitions(name: str) -> list[str]:
    """The statements of `name`.sql. One ends with a semicolon at the end of a line; one that begins a block, with END;."""
    text = re.sub(r"^--.*\n", "", files(__package__).joinpath(f"{name}.sql").read_text(), flags=re.MULTILINE)
    found = re.findall(
        r"(CREATE (?:TRIGGER|PROCEDURE|FUNCTION)[^\n]*\bBEGIN\n.*?^END|.+?);$", text, re.MULTILINE | re.DOTALL
    )
    return [statement.strip() for statement in found]


def insert(table: str, rows: Iterable[Iterable[object]]) -> Statements:
    """INSERT statements of many rows each."""
    held: list[str] = []
    for row in rows:
        held.append(f"({', '.join(map(literal, row))})")
        if len(held) == ROWS_PER_INSERT:
            yield f"INSERT INTO {table} VALUES {', '.join(held)}"
            held = []
    if held:
        yield f"INSERT INTO {table} VALUES {', '.join(held)}"


def literal(value: object) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if isinstance(value, int | float):
        return repr(value)
    return "'" + str(value).replace("\\", "\\\\").replace("'", "''") + "'"
