"""Blocks in which a real PostgreSQL commits source transactions one by one, beside the pipeline that does what they cannot: how
values are read, where blocks are not allowed, what takes long."""

from __future__ import annotations

from typing import Any

import pytest

from anabranch.connectors.postgresql.target import do_block as block
from anabranch.connectors.postgresql.target.do_block import Block
from anabranch.testing.databases import Database
from rigs import one_by_one
from rigs.one_by_one import alone, insert, item, statements
from rigs.postgresql_applier import Applied

one, way = one_by_one.one, one_by_one.way
pytestmark = pytest.mark.usefixtures("way")

# Types whose text means something else where it is cast ("char": its first byte), or could by
# somebody's own cast; those that have a length, a name that is a word of SQL, elements, labels; and what a text holds there.
READ = [
    ("character(5)", "ab", "ab"),
    ("bit(3)", "101", "101"),
    ('"char"', "A", "A"),
    ("name", "x" * 70, "x" * 63),
    ("integer[]", '{1,NULL,"3"}', "{1,NULL,3}"),
    ("text[]", '{"a,\\"b",NULL,"NULL"}', '{"a,\\"b",NULL,"NULL"}'),
    ("bytea", "\\x00ff", "\\x00ff"),
    ("box", "(1,1),(0,0)", "(1,1),(0,0)"),
    ("public.mood", 'it\'s "ok"', 'it\'s "ok"'),
    ("public.few", "7", "7"),
    ("public.pair", '(1,"a ""b"" \\\\")', '(1,"a ""b"" \\\\")'),
    ("public.odd", "(1,2)", "(1,2)"),
    ("regclass", "1259", "pg_class"),
    ("double precision", "-0", "-0"),
    ("money", "$1.50", "$1.50"),
]


@pytest.mark.parametrize(("type", "text", "shown"), READ)
def test_a_value_is_read_by_its_types_own_input(
    one: Applied, target_database: Database, type: str, text: str, shown: str
) -> None:
    """Neither a cast from text that the server has, nor one that somebody made, stands between."""
    target_database.execute(
        "CREATE TYPE public.mood AS ENUM ('it''s \"ok\"', 'other')",
        "CREATE DOMAIN public.few AS integer CHECK (VALUE < 10)",
        "CREATE TYPE public.pair AS (a integer, b text)",
        "CREATE TYPE public.odd AS (a integer, b integer)",
        "CREATE FUNCTION public.odd(text) RETURNS public.odd LANGUAGE sql AS $$ SELECT ROW(0, 0)::public.odd $$",
        "CREATE CAST (text AS public.odd) WITH FUNCTION public.odd(text)",
        f"ALTER TABLE shop.items ALTER b TYPE {type} USING NULL",
    )
    one.applier.apply(one.append([[insert(item(n, 0, text))] for n in range(20)]))
    assert target_database.query("SELECT DISTINCT b::text FROM shop.items") == [(shown,)]
    assert target_database.query("SELECT count(*) FROM shop.items") == [(20,)]


def test_where_blocks_are_not_allowed_statements_go_alone(
    one: Applied, target_database: Database, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """Without the language; the server is asked again later, not each time."""
    target_database.execute("DROP EXTENSION plpgsql")
    general, piped, sent = alone(one, monkeypatch), statements(monkeypatch), []
    block_sent = Block._send
    monkeypatch.setattr(Block, "_send", lambda *given: sent.append(1) or block_sent(*given))
    for first in (0, 20):
        one.applier.apply(one.append([[insert(item(first + n))] for n in range(20)]))
    assert general == [] and piped == ([] if way == "appliers" else [20, 20]) and len(sent) <= 1
    assert target_database.query("SELECT count(*) FROM shop.items") == [(40,)]


def test_a_block_that_takes_long_is_cut(
    one: Applied, target_database: Database, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """A limit of time is one of a statement; what it cuts off is carried out all the same, and nothing twice."""
    monkeypatch.setattr(block, "LONG_S", 0.0)
    monkeypatch.setattr(block, "LEAST", 2)
    sizes: list[int] = []
    block_sent = Block._send

    def noted(self: Block, transactions: Any, settings: Any) -> str:
        sizes.append(len(transactions))
        return block_sent(self, transactions, settings)

    monkeypatch.setattr(Block, "_send", noted)
    monkeypatch.setattr(one.applier.progress.writer._one_by_one._block, "_most", 16)  # type: ignore[attr-defined]  # of this writer
    one.applier.apply(one.append([[insert(item(n))] for n in range(40)]))
    assert sizes == ([16, 16, 8] if way == "block" else [])
    assert target_database.query("SELECT count(*), count(DISTINCT xmin::text) FROM shop.items") == [(40, 40)]


def test_nothing_of_the_values_stays_in_the_session(one: Applied) -> None:
    """Settings go to every process that works for the session."""
    one.applier.apply(one.append([[insert(item(n, 0, "secret"))] for n in range(20)]))
    session = one.applier.progress.writer._session()  # type: ignore[attr-defined]  # of this writer
    names = [f"anabranch.{name}" for name in (*block.SETTINGS, "v_0_0", "v_0_2")]
    left = session.execute(f"SELECT {', '.join(f'current_setting({name!r}, true)' for name in names)}").fetchone()
    session.commit()
    assert set(left) <= {"", None}
