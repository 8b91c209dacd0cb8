"""Statements with which a peer tests its own parser, through what decides here what a statement of the log is: each has an
outcome, and none that changes a table's definition or rows is passed over. A real server is the judge: it runs each of them,
and its catalogue and its rows say what was changed.

What does not live here: statements of our own (tests/ddl), what becomes of a target (test_ddl_statements.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import closing

import pytest

from anabranch.connectors.mysql.source.statements import MysqlDialect
from anabranch.model.ids import TableId
from anabranch.rows.log_items import StatementFacts, StatementKind
from anabranch.testing.cache import ServerUnavailable
from anabranch.testing.servers import Server
from rigs.ddl_corpora import CORPORA
from rigs.ddl_ground import DEFINITIONS, SCHEMA, Ground, Ran, may_be_run

K = StatementKind
# What becomes of the tables that a statement of each kind names (capture/definitions.py).
OUTCOMES = {
    K.TRUNCATE: "they are emptied",
    K.DROP: "they go, or are parked",
    K.RENAME: "they get another name, or are parked",
    K.PARTITION: "they go on as the job file says, or are parked",
    K.COLUMNS: "they go on by another definition, or are parked",
    K.CREATE: "they come, or are parked",
    K.ALTER: "definitions are compared",
    K.DATA: "the job stops in front of it",
    K.HARMLESS: "ignored by its kind",
    K.UNKNOWN: "definitions are compared, and what it names is parked",
}
PARKS = frozenset((K.COLUMNS, K.RENAME, K.DROP, K.PARTITION, K.UNKNOWN))
# What a kind is said to change, by what the server's catalogue and rows show.
MAY_CHANGE = {
    "columns": PARKS,
    "primary": PARKS,
    "rows": PARKS | {K.TRUNCATE, K.DATA},
    **{kind: PARKS | {K.ALTER} for kind in DEFINITIONS if kind not in ("columns", "primary")},
}
COMES, GOES = PARKS | {K.CREATE}, frozenset((K.DROP, K.RENAME, K.PARTITION, K.UNKNOWN))
SLICE = 25  # one of so many statements, where there is no time for all


@pytest.fixture(scope="module")
def statements() -> list[str]:
    try:
        return list(dict.fromkeys(one for corpus in CORPORA for one in corpus.statements()))
    except ServerUnavailable as error:
        return pytest.fail(str(error), pytrace=False)


def test_every_statement_of_a_peer_has_an_outcome(statements: list[str]) -> None:
    dialect, found = MysqlDialect(), Counter[str]()
    for sql in statements:
        facts = dialect.facts(sql, SCHEMA)
        assert OUTCOMES[facts.kind] and isinstance(dialect.shown(sql), str), sql
        found[facts.kind] += 1
    assert len(statements) > 700 and all(found[kind] for kind in OUTCOMES if kind is not K.PARTITION), found


@pytest.mark.parametrize("every", [SLICE, pytest.param(1, marks=pytest.mark.long)])
def test_none_that_changes_a_table_is_passed_over(every: int, statements: list[str], own_source: Server) -> None:
    """Each is judged as the log has it, which is not always as it was sent."""
    taken, wrong, refused = Counter[str](), list[str](), list[str]()
    with closing(Ground(own_source)) as ground:
        for sql in [one for one in statements if may_be_run(one)][::every]:
            ran = ground.run(sql)
            if ran.error:
                refused.append(f"{sql} -> {ran.error}")
                continue
            facts = [MysqlDialect().facts(*one) for one in ran.logged]
            taken[facts[0].kind if facts else "not logged"] += 1
            wrong += [f"{sql}\n    {ran.logged}\n    {why}" for why in passed_over(ran, facts)]
    print(taken, *(one.replace("\n", " ")[:300] for one in refused), sep="\n")
    assert not wrong, "\n".join(wrong)
    assert taken[K.COLUMNS] and taken.total() > len(refused), (taken, refused)


def passed_over(ran: Ran, logged: list[StatementFacts]) -> Iterator[str]:
    """Yield what was changed and is not said of any statement that the log has."""
    for table, kinds in ran.changed():
        told = {one.kind for one in logged if is_named(table, one)}
        if table not in ran.behind:
            is_told = bool(told & GOES)
        elif table not in ran.before:
            is_told = bool(told & COMES)
        else:
            is_told = all(told & MAY_CHANGE[kind] for kind in kinds)
        if not is_told:
            yield f"{table}: {', '.join(sorted(kinds))}; told: {sorted(told)}"


def is_named(table: TableId, facts: StatementFacts) -> bool:
    is_of_all = facts.kind is K.DATA and not facts.tables  # whoever has called something stops the job
    return is_of_all or table in facts.tables or table.schema == facts.schema
