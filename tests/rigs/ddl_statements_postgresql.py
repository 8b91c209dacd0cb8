"""Statements of tests/ddl/executed/postgresql.txt, each with the outcomes that are expected of it.

What does not live here: running them (tests/live/test_ddl_statements_postgresql.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from rigs.ddl_statements import CORPUS, OUTCOMES

FILE = CORPUS / "postgresql.txt"
_GROUP = re.compile(r"\[(\w+)(?:, noted: (\w+))?\] *(.*)")
_FACT = re.compile(r"\{(table|first|then)\} *(.*)")
# How a whole statement begins; all others follow ALTER TABLE name.
_WHOLE = re.compile(
    r"BEGIN;|CLUSTER t\d|(?:CREATE|REFRESH|COMMENT|GRANT|REVOKE|ANALYZE|VACUUM|REINDEX|LOCK|TRUNCATE|SELECT|INSERT|UPDATE"
    "|DROP (?:TABLE|INDEX|TYPE|VIEW|RULE|POLICY|STATISTICS|PUBLICATION|SCHEMA)"
    r"|ALTER (?:TABLE|VIEW|INDEX|TYPE|DOMAIN|SEQUENCE|SCHEMA))\b"
)


@dataclass(frozen=True)
class Outcomes:
    """`noted`: with notes of ALTER TABLE at the source, where it is another one."""

    usual: str
    noted: str = ""

    def of(self, is_noted: bool) -> str:
        """Return what is expected with notes, or without."""
        return (is_noted and self.noted) or self.usual


@dataclass(frozen=True)
class PostgresCase:
    """A table of its own, made by `made`, and what is run of it. `number`: its line in the file."""

    number: int
    about: str
    outcomes: Outcomes
    made: tuple[str, ...]
    statements: tuple[str, ...]

    @property
    def table(self) -> str:
        return f"t{self.number}"

    @property
    def told(self) -> str:
        return f"line {self.number}: {'; '.join(self.statements)}"


def cases() -> list[PostgresCase]:
    """Return all of the file, in its order."""
    return list(_read())


def _read() -> Iterator[PostgresCase]:
    facts, outcomes, about, is_facts = dict[str, str](), Outcomes(""), "", False
    for number, line in enumerate(FILE.read_text("utf-8").splitlines(), 1):
        if fact := _FACT.fullmatch(line):
            facts = {fact[1]: fact[2], **(facts if is_facts else {})}
        elif group := _GROUP.fullmatch(line):
            outcomes, about = Outcomes(group[1], group[2] or ""), group[3]
            assert {outcomes.usual, outcomes.noted} <= {*OUTCOMES, "unsaid", "stops", ""}, f"line {number}"
        elif line and not line.startswith("#"):
            yield PostgresCase(number, about, outcomes, tuple(_made(facts, number)), tuple(_statements(line, number)))
        is_facts = fact is not None


def _made(facts: dict[str, str], number: int) -> Iterator[str]:
    columns, _, behind = facts["table"].partition("||")
    yield from _statements(facts.get("first", ""), number)
    yield f"CREATE TABLE {{t}} ({columns.strip()}) {behind.strip()}".replace("{t}", f"t{number}")
    yield from _statements(facts.get("then", ""), number)


def _statements(line: str, number: int) -> Iterator[str]:
    for one in filter(None, line.replace("{t}", f"t{number}").split(" ;; ")):
        yield one if _WHOLE.match(one) else f"ALTER TABLE t{number} {one}"
