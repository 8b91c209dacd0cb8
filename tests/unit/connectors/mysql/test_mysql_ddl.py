"""Statements -> facts, as tables in text: tests/ddl/mysql/*.txt."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.connectors.mysql.source.statements import MysqlDialect
from anabranch.model.ids import TableId
from anabranch.rows.log_items import StatementFacts

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
    told = [*schema, *engine, *(f"-{key}" for key in facts.dropped_keys), *["rows-go"] * facts.rows_go]
    return " ".join([facts.kind, *map(str, facts.tables), *told])


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


@pytest.mark.parametrize(
    ("statement", "shown"),
    [
        ("UPDATE item SET n = n + 1", "UPDATE item SET n = n + 1"),
        (
            "INSERT INTO `card` VALUES (4111111111111111, 'Zoë''s' , 0xCAFE, X'41', _utf8mb4\"x\", 12.5, 1e9)",
            "INSERT INTO `card` VALUES (…, '…' , …, X'…', _utf8mb4\"…\", ….5, …)",
        ),
        (
            "CREATE TABLE f (id INT(11), t VARCHAR(40) DEFAULT 'secret') ENGINE=FEDERATED CONNECTION='mysql://u:pw@h/d'",
            "CREATE TABLE f (id INT(11), t VARCHAR(40) DEFAULT '…') ENGINE=FEDERATED CONNECTION='…'",
        ),
        ("ALTER TABLE 2024_orders MODIFY c DECIMAL(14,3)", "ALTER TABLE 2024_orders MODIFY c DECIMAL(14,3)"),
        ("DELETE FROM 2024_orders WHERE id = 17", "DELETE FROM 2024_orders WHERE id = …"),
        ("CREATE USER a@b IDENTIFIED BY 'pw'", "CREATE USER a@b IDENTIFIED BY '…'"),
        ("DROP TABLE `gone` /* asked by zoe@example.org */", "DROP TABLE `gone`"),
        ("DROP TABLE a -- of zoe\n, b # of joe", "DROP TABLE a  \n, b"),
        ("INSERT INTO t VALUES ('never closed", "INSERT INTO t VALUES ('…'"),
        (r"INSERT INTO t VALUES ('a\', 'S3cret')", "INSERT INTO t VALUES ('…'"),
        ("WHAT IS 'this' 1234", "WHAT IS '…' …"),
    ],
)
def test_what_people_are_shown_has_no_values(statement: str, shown: str) -> None:
    assert MysqlDialect().shown(statement) == shown


@given(st.text(alphabet="ab'\"\\`#-/* \n0x", max_size=60), st.booleans())
def test_no_text_of_a_statement_is_shown_whatever_it_is(text: str, has_escapes: bool) -> None:
    """Whatever the session's sql_mode made of backslashes."""
    quoted = (text.replace("\\", "\\\\") if has_escapes else text).replace("'", "''")
    assert "S3cret" not in MysqlDialect().shown(f"INSERT INTO t VALUES ('{quoted}', 'S3cret{quoted}')")


def test_long_statements_are_cut() -> None:
    assert len(MysqlDialect().shown("ALTER TABLE t " + ", ".join(f"ADD c{n} INT" for n in range(9999)))) < 510
