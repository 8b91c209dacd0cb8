"""Statements -> facts, as tables in text: tests/ddl/mysql/*.txt."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.abc import StatementFacts
from anabranch.connectors.mysql.ddl import MysqlDialect
from anabranch.model.ids import TableId

CASES = Path(__file__).parents[3] / "ddl" / "mysql"


def cases() -> Iterator[tuple[str, str]]:
    for file in sorted(CASES.glob("*.txt")):
        for block in file.read_text().split("\n\n"):
            statements, _, expected = block.strip().rpartition("\n-> ")
            lines = statements.splitlines()
            if lines[0].startswith("# ") and file.read_text().startswith(lines[0]):
                lines = lines[1:]
            yield from ((statement, expected) for statement in _joined(lines))


def _joined(lines: list[str]) -> Iterator[str]:
    """A line that is indented or closes one goes on from the line before."""
    held: list[str] = []
    for line in lines:
        if (held and not line.startswith((" ", ")"))) or (held and line.startswith("))")):
            yield "\n".join(held)
            held = []
        held.append(line)
    if held:
        yield "\n".join(held)


def spelled(facts: StatementFacts) -> str:
    schema = [f"{facts.schema}.*"] if facts.schema else []
    engine = [f"({facts.engine})"] if facts.engine else []
    return " ".join([facts.kind, *map(str, facts.tables), *schema, *engine])


@pytest.mark.parametrize(("statement", "expected"), list(cases()))
def test_statement(statement: str, expected: str) -> None:
    assert spelled(MysqlDialect().facts(statement, "shop")) == expected


@given(st.text(alphabet="abTRUNCATE DROPALTER`'\"/*!-#(),.;\n\\0", max_size=60))
def test_never_raises(text: str) -> None:
    for start in ("", "DROP TABLE ", "ALTER TABLE a ", "RENAME TABLE ", "CREATE ", "UPDATE ", "/*!"):
        assert MysqlDialect().facts(start + text, "shop").kind


def test_names_are_folded_where_the_server_folds_them() -> None:
    dialect = MysqlDialect()
    dialect.folds_names = True
    assert dialect.facts("TRUNCATE TABLE Shop.Orders", "x").tables == (TableId("shop", "orders"),)
