"""How statements, names and rows are put together for a target that speaks MySQL's protocol; nothing connects."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.connectors.mysql.settings import LEFT, ONE_TABLE, PINNED, pinning
from anabranch.connectors.mysql.target import settings
from anabranch.connectors.mysql.target.session import (
    WRITING,
    _batches,
    _pieces,
    bound,
    column_list,
    quoted,
    session_name,
    table_name,
)
from anabranch.model.ids import TableId


class Literals:
    """A connection as far as `bound` uses it."""

    def literal(self, value: object) -> str:
        return repr(value)


def put(sql: str, *values: object) -> str:
    connection: Any = Literals()
    return bound(connection, sql, values)


def test_values_take_the_places_outside_names_and_texts() -> None:
    sql = "SELECT `a%s``%s`, '%s\\'%s''%s', %s FROM t WHERE y LIKE 'a%' AND z = %s"
    assert put(sql, 1, "b") == "SELECT `a%s``%s`, '%s\\'%s''%s', 1 FROM t WHERE y LIKE 'a%' AND z = 'b'"
    assert put("SELECT '%s', 100 % 3") == "SELECT '%s', 100 % 3"
    with pytest.raises((AssertionError, StopIteration)):
        put("SELECT %s", 1, 2)


def test_names_are_quoted_with_their_ticks() -> None:
    assert quoted("a`b") == "`a``b`"
    assert table_name(TableId("shop", "or.ders")) == "`shop`.`or.ders`"
    assert column_list(["id", "`"]) == "`id`, ````"


@given(st.lists(st.binary(max_size=40)), st.integers(1, 30))
def test_pieces_have_all_bytes_in_order_and_none_is_empty(blocks: list[bytes], most: int) -> None:
    pieces = list(_pieces(blocks, most))
    assert b"".join(pieces) == b"".join(blocks)
    assert all(0 < len(piece) <= most for piece in pieces)


@given(st.lists(st.text("aé;", min_size=1, max_size=20)), st.integers(1, 60))
def test_batches_have_all_statements_in_order(statements: list[str], most: int) -> None:
    assert ";".join(_batches(statements, most)) == ";".join(statements)


def test_session_names_fit_what_a_lock_may_be_called() -> None:
    assert session_name("shop", "0" * 32) == "anabranch:shop:" + "0" * 32
    assert len(session_name("j" * 63, "0" * 32)) <= 64
    assert session_name("j" * 63, "0" * 32) != session_name("j" * 62 + "k", "0" * 32)


def test_what_is_pinned_twice_has_the_value_of_a_session_that_writes() -> None:
    sent = pinning([*PINNED, *WRITING], {**PINNED, **WRITING})
    assert "transaction_isolation = 'READ-COMMITTED'" in sent and "REPEATABLE" not in sent
    assert sent.count("sql_mode = ") == 1 and "STRICT_ALL_TABLES" in sent


def test_what_is_left_because_of_a_sources_one_table_is_decided_for_a_target() -> None:
    left = [name for names in settings.LEFT.values() for name in names]
    assert len(left) == len(set(left)) and not set(left) & {*PINNED, *WRITING}
    assert {*LEFT[ONE_TABLE]} <= {*left, *WRITING}
