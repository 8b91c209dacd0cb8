"""Histories as they are drawn, written down and read back."""

from __future__ import annotations

import itertools
import json
import random
from collections import Counter

import pytest

from anabranch.testing.torture.draft import Draft
from anabranch.testing.torture.draw import draw_history
from anabranch.testing.torture.events import upsert
from anabranch.testing.torture.expressions import KINDS as COMPUTED
from anabranch.testing.torture.history import Choice, Condition, History, Literal, Plus, Statement, sql
from anabranch.testing.torture.model import Row
from anabranch.testing.torture.order import order_in
from anabranch.testing.torture.run import load, save
from anabranch.testing.torture.schemas import draw_schema
from anabranch.testing.torture.tables import CASCADE, RESTRICT, Table, create_statements
from anabranch.testing.torture.values import KINDS, copied
from rigs.torture_tables import delete, insert, update

VERSIONS = {"mysql": (8, 0, 33), "mariadb": (10, 11, 6)}
SEEDS = range(40)


@pytest.fixture(scope="module", params=["mysql", "mariadb"])
def drawn(request: pytest.FixtureRequest) -> tuple[str, list[History]]:
    return request.param, [draw_history(seed, request.param, VERSIONS[request.param]) for seed in SEEDS]


def test_a_history_is_large_enough_and_the_same_again(drawn: tuple[str, list[History]]) -> None:
    family, histories = drawn
    for history in histories:
        assert len(history.schema.tables) >= 3 and len(history.transactions) >= 30
        assert len({t.session for t in history.transactions}) >= 2
        assert [t.number for t in history.transactions] == list(range(1, len(history.transactions) + 1))
    assert draw_history(7, family, VERSIONS[family]) == histories[7]


@pytest.mark.parametrize("family", VERSIONS)
def test_where_keys_are_enforced_what_others_follow_moves_by_one_key(family: str) -> None:
    """What else there may be is refused by name (K1); of seed 322 it was drawn."""
    histories = [draw_history(seed, family, VERSIONS[family], unchecked=False) for seed in (*SEEDS, 322)]
    for history in histories:
        tables = history.schema.tables
        moving = [[key for key in table.foreign_keys if key.on_update != RESTRICT] for table in tables]
        followed = {key.parent for keys in moving for key in keys}
        assert all(len(keys) < 2 for table, keys in zip(tables, moving, strict=True) if table.name in followed)


def test_a_history_reads_back_from_its_file(drawn: tuple[str, list[History]], tmp_path) -> None:
    for history in drawn[1][:10]:
        assert History.from_json(json.loads(json.dumps(history.to_json()))) == history
    save(tmp_path / "one.json", drawn[1][0], (), None, servers="some")
    assert load(tmp_path / "one.json") == (drawn[1][0], ())
    assert len((tmp_path / "one.json").read_text().splitlines()) > 100


def test_all_that_hurts_is_drawn(drawn: tuple[str, list[History]]) -> None:
    """Over some seeds: every statement, every kind of column, tables of every form, circles of foreign keys."""
    family, histories = drawn
    tables = [table for history in histories for table in history.schema.tables]
    kinds = {column.kind for table in tables for column in table.columns}
    assert kinds == {*COMPUTED} | {name for name, kind in KINDS.items() if kind.is_known_to(family, VERSIONS[family])}
    assert {len(table.uniques) for table in tables} == {0, 1, 2, 3}
    assert {min(len(table.key), 2) for table in tables} == {0, 1, 2}
    keys = [(table.name, key) for table in tables for key in table.foreign_keys]
    assert len({(key.on_delete, key.on_update) for _, key in keys}) == 9
    assert any(key.parent == name and key.on_delete == CASCADE for name, key in keys)
    transactions = [t for history in histories for t in history.transactions]
    does = Counter(s.do for t in transactions for s in t.statements)
    assert set(does) == {
        "insert", "ignore", "replace", "upsert", "update", "delete", "both", "savepoint", "back", "truncate"
    }  # fmt: skip
    assert {t.commits for t in transactions} == {t.checks for t in transactions} == {True, False}
    assert {image for history in histories for image in history.images} == {"", "MINIMAL", "NOBLOB"}
    assert any(not t.statements for t in transactions) and any(t.behind for t in transactions)


def test_no_two_tables_remove_each_other_s_rows(drawn: tuple[str, list[History]]) -> None:
    """A job with them is refused."""
    for history in drawn[1]:
        above = {
            t.name: {k.parent for k in t.foreign_keys if k.on_delete == CASCADE} - {t.name}
            for t in history.schema.tables
        }
        for _ in above:  # as often as the longest way can be
            above = {name: found.union(*(above[parent] for parent in found)) for name, found in above.items()}
        assert all(name not in found for name, found in above.items()), history.seed


@pytest.mark.parametrize("family", sorted(VERSIONS))
def test_seed_228_an_upsert_meets_one_row_at_most(family: str) -> None:
    """Which of two rows the server changes depends on one that it may not find yet, and holds no lock on then."""
    meets = Counter[int]()
    for seed in SEEDS:
        r = random.Random(seed)
        draft = Draft(r, draw_schema(r, family, VERSIONS[family]), family, is_big=False)
        for table in draft.schema.tables:
            draft.filling(table, 8)
        before = {t.name: draft.rows(t) for t in draft.schema.tables}
        for statement in upsert(draft):
            table = draft.schema[statement.table]
            for literals in statement.rows:
                given = dict(zip(statement.columns, literals, strict=True))
                ways = itertools.product(before[table.name], table.unique_keys)
                meets[sum(_has(table, row, unique, given, family) for row, unique in ways)] += 1
    assert set(meets) == {0, 1} and meets[1] > 10


def _has(table: Table, row: Row, unique: tuple[str, ...], given: dict[str, Literal], family: str) -> bool:
    kinds = [table.column(name).of for name in unique]
    texts = [kind.folded(kind.text(given[name], family)) for kind, name in zip(kinds, unique, strict=True)]
    return None not in texts and texts == [k.folded(row[table.place(n)]) for k, n in zip(kinds, unique, strict=True)]


def test_statements_are_what_the_source_takes() -> None:
    where = (Condition("id", "between", ("1", "3")),)
    turn = Choice("id", (("1", "NULL"), ("2", None)))
    assert [
        sql(insert("child", ("1", None), do="upsert", p="7")),
        sql(insert("child", ("1", "2"), do="ignore")),
        sql(Statement("update", "t", assigned=(("id", Plus(-1)),), where=where, order="id DESC", limit=2)),
        sql(Statement("update", "t", assigned=(("u", turn), ("v", None)))),
        sql(Statement("both", parts=(update("a", "1", v="2"), update("b", "3", w=None)))),
        sql(Statement("both", parts=(delete("a", "1"), delete("b", "3", "4")))),
    ] == [
        "INSERT INTO child (id, p) VALUES (1, NULL) ON DUPLICATE KEY UPDATE p = 7",
        "INSERT IGNORE INTO child (id, p) VALUES (1, 2)",
        "UPDATE t SET id = id - 1 WHERE id BETWEEN 1 AND 3 ORDER BY id DESC LIMIT 2",
        "UPDATE t SET u = CASE id WHEN 1 THEN NULL WHEN 2 THEN NULL END, v = NULL",
        "UPDATE a, b SET a.v = 2, b.w = NULL WHERE a.id <=> 1 AND b.id <=> 3",
        "DELETE a, b FROM a, b WHERE a.id IN (1) AND b.id IN (3, 4)",
    ]


def test_tables_are_made_with_keys_and_defaults(drawn: tuple[str, list[History]]) -> None:
    family, histories = drawn
    text = "\n".join(s for history in histories for s in create_statements(history.schema, family, VERSIONS[family]))
    for part in ("PRIMARY KEY (a, b)", "UNIQUE KEY", " NOT NULL DEFAULT ", "ON DELETE SET NULL ON UPDATE CASCADE"):
        assert part in text
    assert "{exact}" not in text and "null NOT NULL" not in text and "NULL NULL" not in text


def test_the_order_of_commits_is_read_from_what_the_vendor_s_reader_prints() -> None:
    dump = b"""\
#Q> INSERT INTO ledger VALUES (99)
### INSERT INTO `torture_7`.`ledger`
### SET
###   @1=12
# at 4711
TRUNCATE TABLE t1 /* 8 */
### INSERT INTO `torture_7`.`t1`
### SET
###   @1=13
### INSERT INTO `torture_70`.`ledger`
### SET
###   @1=14
### DELETE FROM `torture_7`.`ledger`
### WHERE
###   @1=15
### INSERT INTO `torture_7`.`ledger`
### SET
###   @1=3 /* INT meta=0 nullable=0 is_null=0 */
"""
    assert order_in(dump, "torture_7") == [12, 8, 3]


def test_texts_are_as_copy_prints_them() -> None:
    assert [copied(None), copied(""), copied("\\N"), copied("a\tb\\\n\x01")] == ["\\N", "", "\\\\N", "a\\tb\\\\\\n\x01"]
    for kind in KINDS.values():
        for literal in kind.texts:
            for family in ("mysql", "mariadb"):
                text = kind.text(literal, family)
                assert kind.text(kind.literal(text), family) == text, (kind.name, literal)
        texts = [kind.text(kind.nth(n), "mysql") for n in range(5000)] if kind.nth else []
        assert len({kind.folded(text) for text in texts}) == len(texts), kind.name
