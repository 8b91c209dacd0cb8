"""Statements of tests/ddl/executed/*.txt, each with the outcome that is expected of it.

What does not live here: running them (tests/live/test_ddl_statements.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

CORPUS = Path(__file__).parents[1] / "ddl" / "executed"
OUTCOMES = ("altered", "same", "parked")
_GROUP = re.compile(r"\[(\w+)\] *(.*)")
_ONLY = re.compile(r"(mysql|mariadb)> *(.*)")


@dataclass(frozen=True)
class Case:
    """A table of its own, with these columns behind `id` and `rest` behind those, and what is run of it. `number`: its line
    in the file."""

    number: int
    about: str
    outcome: str
    columns: str
    statements: tuple[str, ...]
    rest: str = ""

    @property
    def table(self) -> str:
        return f"t{self.number}"

    @property
    def told(self) -> str:
        return f"line {self.number}: {'; '.join(self.statements)}"


def cases(dialect: str, source: str) -> list[Case]:
    """Return what runs at a kind of source. `dialect`: the file."""
    found = list(_read(CORPUS / f"{dialect}.txt", source))
    assert {one.outcome for one in found} <= set(OUTCOMES)
    return found


def _read(file: Path, source: str) -> Iterator[Case]:
    columns = rest = outcome = about = ""
    for number, line in enumerate(file.read_text("utf-8").splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        if line.startswith("{table}"):
            columns, _, rest = line.removeprefix("{table}").strip().partition(" || ")
        elif group := _GROUP.fullmatch(line):
            outcome, about = group.groups()
        else:
            only = _ONLY.fullmatch(line)
            if only is None or only[1] == source:
                yield Case(number, about, outcome, columns, tuple(_statements(only[2] if only else line, number)), rest)


def _statements(line: str, number: int) -> Iterator[str]:
    for one in line.split(";;"):
        is_whole = "{t}" in one or one.startswith(("SET ", "UNLOCK "))
        yield (one if is_whole else f"ALTER TABLE {{t}} {one}").replace("{t}", f"t{number}")
