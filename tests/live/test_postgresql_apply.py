"""Applying net changes to a real PostgreSQL: every form of a net change, conflicts, single rows, what commits with an epoch."""

from __future__ import annotations

import time
from dataclasses import replace
from decimal import Decimal
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from anabranch.contracts import Conflict, ValueRules
from anabranch.errors import TargetError, TargetUnavailable
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId
from anabranch.model.table_life import TableState
from anabranch.rows.net import RowChange, TableNet, TargetTable, Updates
from rigs.postgresql_writer import (
    BAG,
    INT,
    MONEY,
    PAIR,
    TABLE,
    TEXT,
    Applying,
    applying,
    endpoint,
    keys,
    orders,
    rows,
    three,
)

__all__ = ["applying", "endpoint"]


# --- net changes of tables with a key ---------------------------------------------------------------------------------


def test_every_form_of_a_net_change_in_one_epoch(applying: Applying, target_database: Any) -> None:
    three(applying)
    partial = Updates(keys(2), rows(("new",), names=("no%te",)))
    full = Updates(keys(3), rows((3, None, "full")))
    net = TableNet(TABLE, keys(1), (partial, full), rows((4, Decimal("-0.05"), "x\ny")))
    assert applying.merge(net) == []
    assert orders(target_database) == [(2, None, "new"), (3, None, "full"), (4, "-0.05", "x\ny")]


def test_one_table_twice_in_one_epoch(applying: Applying, target_database: Any) -> None:
    three(applying)
    with applying as writer:
        writer.merge(TableNet(TABLE, deletes=keys(1)))
        writer.merge(TableNet(TABLE, deletes=keys(2)))
    assert [row[0] for row in orders(target_database)] == [3]


def test_composite_keys(applying: Applying, target_database: Any) -> None:
    applying.merge(TableNet(PAIR, inserts=rows((1, "x", 1), (1, "y", 2), (2, "x", 3), of=PAIR)))
    old = rows(("x", 1), of=PAIR, names=("b", "a"))
    gone = rows(("y", 1), of=PAIR, names=("b", "a"))
    applying.merge(TableNet(PAIR, gone, (Updates(old, rows((9,), of=PAIR, names=("v",))),)))
    assert target_database.query("SELECT a, b, v FROM pair ORDER BY 1") == [(1, "x", 9), (2, "x", 3)]


def test_rule_08_columns_of_the_target_alone_are_untouched(applying: Applying, target_database: Any) -> None:
    three(applying)
    target_database.execute("""UPDATE public."Or%ders" SET extra = 'mine' WHERE id < 3""")
    moved = Updates(keys(1), rows((7, "moved"), names=("id", "no%te")), moves_keys=True)
    applying.merge(TableNet(TABLE, updates=(moved, Updates(keys(2), rows((2, None, "upd"))))))
    assert orders(target_database) == [(2, None, "upd", "mine"), (3, "3.50", "\\N\t"), (7, "1.00", "moved", "mine")]


def test_moving_rows_go_before_those_that_stay(applying: Applying, target_database: Any) -> None:
    """Row 1 leaves its key, then another row's insert takes it."""
    three(applying)
    stay = Updates(keys(2), rows(("stay",), names=("no%te",)))
    move = Updates(keys(1), rows((5,), names=("id",)), moves_keys=True)
    applying.merge(TableNet(TABLE, updates=(stay, move), inserts=rows((1, None, "again"))))
    assert [(r[0], r[2]) for r in orders(target_database)] == [(1, "again"), (2, "stay"), (3, "\\N\t"), (5, "a")]


@pytest.mark.parametrize("rows_there", [200, 6_000])
def test_many_rows(applying: Applying, target_database: Any, rows_there: int) -> None:
    """Also beyond the size from which the stage is analysed, and small again afterwards."""
    every = range(rows_there)
    applying.merge(TableNet(TABLE, inserts=rows(*((i, None, "n") for i in every))))
    changed = Updates(keys(*every), rows(*((f"v{i}",) for i in every), names=("no%te",)))
    applying.merge(TableNet(TABLE, updates=(changed,)))
    applying.merge(TableNet(TABLE, updates=(Updates(keys(5), rows(("one",), names=("no%te",))),)))
    applying.merge(TableNet(TABLE, deletes=keys(*(i for i in every if i != 5))))
    assert orders(target_database) == [(5, None, "one")]


def test_pitfall_40_generated_and_identity_columns(applying: Applying, target_database: Any) -> None:
    target_database.execute(
        "CREATE TABLE public.auto (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, v int,"
        " twice int GENERATED ALWAYS AS (v * 2) STORED)"
    )
    auto = TargetTable(TableId("shop", "auto"), TableId("public", "auto"), ("id", "v"), (INT, INT), ("id",))
    applying.merge(TableNet(auto, inserts=rows((7, 1), (8, 2), of=auto)))
    upsert = TableNet(auto, inserts=rows((8, 3), (9, 4), of=auto), checked=False)
    applying.merge(upsert)
    applying.merge(TableNet(auto, updates=(Updates(rows((7,), of=auto, names=("id",)), rows((7, 5), of=auto)),)))
    with applying as writer:
        writer.change(RowChange(auto, "insert", values={"id": "10", "v": "6"}))
        writer.change(RowChange(auto, "update", {"id": "10"}, {"id": "10", "v": "7"}))
    assert target_database.query("SELECT id, v, twice FROM auto ORDER BY id") == [
        (7, 5, 10), (8, 3, 6), (9, 4, 8), (10, 7, 14)
    ]  # fmt: skip
    move = Updates(rows((7,), of=auto, names=("id",)), rows((70,), of=auto, names=("id",)), moves_keys=True)
    with pytest.raises(TargetError, match="GENERATED BY DEFAULT"):
        applying.merge(TableNet(auto, updates=(move,)))


def test_a_table_whose_columns_are_all_key(applying: Applying, target_database: Any) -> None:
    target_database.execute("CREATE TABLE public.tag (a int PRIMARY KEY)")
    tag = TargetTable(TableId("shop", "tag"), TableId("public", "tag"), ("a",), (INT,), ("a",))
    applying.merge(TableNet(tag, inserts=rows((1,), of=tag)))
    applying.merge(TableNet(tag, inserts=rows((1,), (2,), of=tag), checked=False))
    same = Updates(rows((1,), of=tag), rows((1,), of=tag))
    applying.merge(TableNet(tag, updates=(same,)))
    assert target_database.query("SELECT a FROM tag ORDER BY a") == [(1,), (2,)]


# --- conflicts --------------------------------------------------------------------------------------------------------


def conflict(applying: Applying, net: TableNet) -> str:
    with pytest.raises(Conflict) as found:
        applying.merge(net)
    assert found.value.table == net.table.source
    return found.value.what


def test_rule_28_counts_are_checked(applying: Applying, target_database: Any) -> None:
    three(applying)
    what = conflict(applying, TableNet(TABLE, deletes=keys(1, 9)))
    assert what == "expected 2 deletes, found 1" or what.endswith("the row is not there")
    missing = Updates(keys(9), rows(("x",), names=("no%te",)))
    what = conflict(applying, TableNet(TABLE, updates=(missing,)))
    assert what == "expected 1 updates, found 0" or what.endswith("the row is not there")
    assert len(orders(target_database)) == 3
    applying.merge(TableNet(TABLE, deletes=keys(1, 2, 3)))


@pytest.mark.parametrize("number", [5, 50])
def test_rule_28_inserts_that_a_trigger_leaves_out_are_counted(
    applying: Applying, target_database: Any, number: int
) -> None:
    """Few rows go by statements, more by COPY into the table."""
    target_database.execute(
        "CREATE FUNCTION leave_out() RETURNS trigger LANGUAGE plpgsql AS"
        " $$BEGIN IF NEW.id = 3 THEN RETURN NULL; END IF; RETURN NEW; END$$",
        'CREATE TRIGGER thinner BEFORE INSERT ON "Or%ders" FOR EACH ROW EXECUTE FUNCTION leave_out()',
        'ALTER TABLE "Or%ders" ENABLE ALWAYS TRIGGER thinner',
    )
    what = conflict(applying, TableNet(TABLE, inserts=rows(*((n, None, None) for n in range(number)))))
    assert what == f"expected {number} inserts, found {number - 1}" or what.startswith("insert in"), what
    assert orders(target_database) == []


def test_pitfall_43_a_row_that_is_there_already(applying: Applying) -> None:
    three(applying)
    what = conflict(applying, TableNet(TABLE, inserts=rows((9, None, None), (3, None, None))))
    assert "duplicate key" in what and "Or%ders_pkey" in what


def test_values_that_do_not_fit_are_named_without_the_value(applying: Applying) -> None:
    what = conflict(applying, TableNet(TABLE, inserts=rows((1, None, "much too long a secret"))))
    assert "too long" in what and "secret" not in what
    three(applying)
    wide = replace(TABLE, types=(INT, MONEY, TEXT))
    note = Updates(keys(1), rows(("another long secret",), names=("no%te",)))
    what = conflict(applying, TableNet(wide, updates=(note,)))
    assert "too long" in what and "secret" not in what


def test_pitfall_36_zero_characters_stop_or_are_stripped(endpoint: Endpoint, target_database: Any) -> None:
    applying = Applying(endpoint)
    assert "nul" in conflict(applying, TableNet(TABLE, inserts=rows((1, None, "a\0b"))))
    with pytest.raises(Conflict) as found, applying as writer:
        writer.change(RowChange(TABLE, "insert", values={"id": "1", "no%te": "a\0b"}))
    assert found.value.key == {"id": "1"}
    applying.writer.close()
    stripping = Applying(endpoint, ValueRules(nul="strip"))
    stripping.merge(TableNet(TABLE, inserts=rows((1, None, "a\0b"))))
    with stripping as writer:
        writer.change(RowChange(TABLE, "insert", values={"id": "2", "amount": None, "no%te": "\0c"}))
    stripping.writer.close()
    assert orders(target_database) == [(1, None, "ab"), (2, None, "c")]


def test_a_missing_table_is_no_conflict(applying: Applying, target_database: Any) -> None:
    target_database.execute('DROP TABLE public."Or%ders"')
    with pytest.raises(TargetError, match="load it again"):
        applying.merge(TableNet(TABLE, inserts=rows((1, None, None))))


def test_a_lock_that_is_held_too_long_is_tried_again(applying: Applying, target_database: Any) -> None:
    three(applying)
    other = target_database.connect(autocommit=False)
    other.execute('LOCK TABLE public."Or%ders"')
    with pytest.raises(TargetUnavailable, match="lock"), applying as writer:
        writer._open.execute("SET LOCAL lock_timeout = '50ms'")
        writer.merge(TableNet(TABLE, deletes=keys(1)))
    other.close()
    applying.merge(TableNet(TABLE, deletes=keys(1)))


# --- inside a load's window -------------------------------------------------------------------------------------------


def test_rule_03_window_mode_is_idempotent(applying: Applying, target_database: Any) -> None:
    three(applying)
    net = TableNet(TABLE, keys(1, 99), (), rows((2, Decimal(2), "new"), (5, None, None)), checked=False)
    for _ in range(2):
        assert applying.merge(net) == []
        assert [(r[0], r[2]) for r in orders(target_database)] == [(2, "new"), (3, "\\N\t"), (5, None)]


def test_rule_03_pitfall_03_partial_updates_that_meet_no_row_are_reported(
    applying: Applying, target_database: Any
) -> None:
    three(applying)
    some = Updates(keys(1, 50, 51), rows(("x",), ("y",), ("z",), names=("no%te",)))
    found = applying.merge(TableNet(TABLE, updates=(some,), checked=False))
    assert sorted(one["id"] or "" for one in found) == ["50", "51"]
    assert orders(target_database)[0] == (1, "1.00", "x")


def test_rule_03_moves_that_the_load_has_seen_half(applying: Applying, target_database: Any) -> None:
    """Moves 1->11, 2->12, 3->13, 4->14 where the load met: the old place, both, the new one, neither."""
    existing = rows((1, None, "one"), (2, None, "two"), (12, None, "later"), (13, None, "there"))
    applying.merge(TableNet(TABLE, inserts=existing))
    moves = rows((11, "set"), (12, "set"), (13, "set"), (14, "set"), names=("id", "no%te"))
    net = TableNet(TABLE, updates=(Updates(keys(1, 2, 3, 4), moves, moves_keys=True),), checked=False)
    assert applying.merge(net) == [{"id": "14"}]
    assert [(r[0], r[2]) for r in orders(target_database)] == [(11, "set"), (12, "set"), (13, "set")]
    assert sorted(str(one["id"]) for one in applying.merge(net)) == ["14"]
    chain = Updates(keys(11, 12), rows((12,), (15,), names=("id",)), moves_keys=True)
    assert "moves" in conflict(applying, TableNet(TABLE, updates=(chain,), checked=False))


# --- tables without a key ---------------------------------------------------------------------------------------------

ONE = (1, '{"a": 1.0}', -0.0, "t", b"\x00\xff")
NULLS = (None, None, None, None, None)


def bag(*entries: tuple[tuple[Any, ...], int]) -> TableNet:
    table = rows(*(values for values, _ in entries), of=BAG)
    return TableNet(BAG, multiset=table.append_column("_delta", pa.array([n for _, n in entries], pa.int64())))


def bag_rows(database: Any) -> list[tuple[Any, ...]]:
    return sorted(database.query("SELECT n, j::text, f::text, t, count(*) FROM bag GROUP BY 1, 2, 3, 4"), key=str)


def test_rule_28_multisets_take_exactly_as_many(applying: Applying, target_database: Any) -> None:
    other, plus = (1, '{"a": 1}', -0.0, "t", b""), (*ONE[:2], 0.0, *ONE[3:])
    applying.merge(bag((ONE, 5), (NULLS, 3), (other, 1), (plus, 2)))
    applying.merge(bag((ONE, -3), (NULLS, -2), (plus, -1), (other, 1)))
    assert bag_rows(target_database) == [
        (1, '{"a": 1.0}', "-0", "t", 2),
        (1, '{"a": 1.0}', "0", "t", 1),
        (1, '{"a": 1}', "-0", "t", 2),
        (None, None, None, None, 1),
    ]
    assert "expected 3 deletes of whole rows, found 2" in conflict(applying, bag((ONE, -3)))
    assert target_database.query("SELECT DISTINCT extra FROM bag") == [("kept",)]


def test_pitfall_06_single_changes_of_equal_rows_hit_one(applying: Applying, target_database: Any) -> None:
    applying.merge(bag((ONE, 3), (NULLS, 2)))
    old: dict[str, str | None] = {"n": "1", "j": '{"a": 1.0}', "f": "-0", "t": "t", "raw": "\\x00ff"}
    nulls: dict[str, str | None] = dict.fromkeys(BAG.columns)
    with applying as writer:
        writer.change(RowChange(BAG, "delete", old_values=old))
        writer.change(RowChange(BAG, "update", values={**old, "t": "new"}, old_values=old))
        writer.change(RowChange(BAG, "update", values={**nulls, "n": "5"}, old_values=nulls))
        writer.change(RowChange(BAG, "insert", values=nulls))
    assert bag_rows(target_database) == [
        (1, '{"a": 1.0}', "-0", "new", 1),
        (1, '{"a": 1.0}', "-0", "t", 1),
        (5, None, None, None, 1),
        (None, None, None, None, 2),
    ]
    with pytest.raises(Conflict, match="not there"), applying as writer:
        writer.change(RowChange(BAG, "delete", old_values={**old, "f": "0"}))


def test_keyless_removal_is_one_join_however_large(applying: Applying, target_database: Any) -> None:
    target_database.execute(
        "INSERT INTO bag (n, j, f, t, raw) SELECT i % 50000, '{}', i % 7, NULL, '' FROM generate_series(1, 200000) i",
        "ANALYZE bag",
    )
    some = target_database.query("SELECT n, f, count(*) FROM bag WHERE n < 1000 GROUP BY 1, 2")
    started = time.monotonic()
    applying.merge(bag(*(((n, "{}", f, None, b""), -count) for n, f, count in some)))
    assert time.monotonic() - started < 60
    assert target_database.query("SELECT min(n), count(*) FROM bag") == [(1000, 200_000 - 4_000)]


# --- single rows ------------------------------------------------------------------------------------------------------


def test_single_changes_and_their_conflicts(applying: Applying, target_database: Any) -> None:
    with applying as writer:
        writer.change(RowChange(TABLE, "insert", values={"id": "1", "amount": "1.5", "no%te": None}))
        writer.change(RowChange(TABLE, "insert", values={"id": "2", "amount": None, "no%te": "b"}))
        writer.change(RowChange(TABLE, "update", {"id": "1"}, {"id": "4", "no%te": "moved"}))
        writer.change(RowChange(TABLE, "update", {"id": "2"}, {"id": "2", "amount": "2"}))
        writer.change(RowChange(TABLE, "delete", {"id": "4"}))
    assert orders(target_database) == [(2, "2.00", "b")]
    bad = [
        (RowChange(TABLE, "insert", values={"id": "2"}), "duplicate key"),
        (RowChange(TABLE, "delete", {"id": "9"}), "not there"),
        (RowChange(TABLE, "update", {"id": "9"}, {"no%te": "x"}), "not there"),
        (RowChange(TABLE, "update", {"id": "2"}, {"no%te": "far too long a secret"}), "too long"),
        (RowChange(TABLE, "update", {"id": "2"}, {"amount": "secret"}), "invalid input syntax"),
    ]
    for change, words in bad:
        with pytest.raises(Conflict) as found, applying as writer:
            writer.change(change)
        assert words in found.value.what and "secret" not in str(found.value)
        assert found.value.key == {"id": (change.old_key or change.values)["id"]}


def test_single_changes_in_a_window(applying: Applying, target_database: Any) -> None:
    with applying as writer:
        for value in ("a", "b"):
            row: dict[str, str | None] = {"id": "1", "amount": None, "no%te": value}
            writer.change(RowChange(TABLE, "insert", values=row, checked=False))
        writer.change(RowChange(TABLE, "delete", {"id": "77"}, checked=False))
        writer.change(RowChange(TABLE, "update", {"id": "77"}, {"no%te": "x"}, checked=False))
        writer.change(RowChange(TABLE, "insert", values={"id": "2", "no%te": "two"}))
        writer.change(RowChange(TABLE, "update", {"id": "2"}, {"id": "1", "no%te": "won"}, checked=False))
    assert orders(target_database) == [(1, None, "won")]


def test_keys_in_any_order(applying: Applying, target_database: Any) -> None:
    with applying as writer:
        writer.change(RowChange(PAIR, "insert", values={"a": "1", "b": "x", "v": "1"}))
        writer.change(RowChange(PAIR, "update", {"a": "1", "b": "x"}, {"v": "2"}))
        writer.change(RowChange(PAIR, "update", {"b": "x", "a": "1"}, {"b": "y"}))
    assert target_database.query("SELECT a, b, v FROM pair") == [(1, "y", 2)]


# --- the rest of an epoch ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["truncate", "delete"])
def test_truncate_also_where_others_refer_to_the_table(endpoint: Endpoint, target_database: Any, how: str) -> None:
    target_database.execute('CREATE TABLE public.child (id int REFERENCES public."Or%ders")')
    applying = Applying(endpoint, bypass=True)
    three(applying)
    target_database.execute("INSERT INTO public.child VALUES (1)")
    with applying as writer:
        writer.truncate([TABLE], how)
        writer.truncate([PAIR], how)
    applying.writer.close()
    assert orders(target_database) == [] and target_database.query("SELECT id FROM child") == [(1,)]


def test_tables_that_refer_to_each_other_are_truncated_at_once(endpoint: Endpoint, target_database: Any) -> None:
    target_database.execute('ALTER TABLE pair ADD r int REFERENCES public."Or%ders"')
    applying = Applying(endpoint, bypass=True)
    three(applying)
    file = "SELECT pg_relation_filenode('public.\"Or%ders\"'::regclass)"
    before = target_database.query(file.replace("%", "%%"), [])
    with applying as writer:
        writer.truncate([TABLE, PAIR], "truncate")
    applying.writer.close()
    assert orders(target_database) == [] and target_database.query("SELECT a FROM pair") == []
    assert target_database.query(file.replace("%", "%%"), []) != before  # no DELETE


def test_rule_07_pitfall_41_triggers_and_foreign_keys_are_off_by_choice(
    endpoint: Endpoint, target_database: Any
) -> None:
    target_database.execute(
        'CREATE TABLE public.child (id int PRIMARY KEY REFERENCES public."Or%ders" ON DELETE CASCADE)',
        "CREATE FUNCTION public.no() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RAISE 'a secret'; END$$",
        "CREATE TRIGGER no BEFORE INSERT ON public.child FOR EACH ROW EXECUTE FUNCTION public.no()",
    )
    child = TargetTable(TableId("shop", "child"), TableId("public", "child"), ("id",), (INT,), ("id",))
    enforcing = Applying(endpoint)
    what = conflict(enforcing, TableNet(child, inserts=rows((1,), of=child)))
    assert "public.no()" in what and "secret" not in what
    enforcing.writer.close()
    bypassing = Applying(endpoint, bypass=True)
    bypassing.merge(TableNet(child, inserts=rows((1,), of=child)))
    bypassing.merge(TableNet(TABLE, inserts=rows((1, None, None))))
    bypassing.merge(TableNet(TABLE, deletes=keys(1)))
    bypassing.writer.close()
    assert target_database.query("SELECT id FROM child") == [(1,)]


def test_table_states_commit_with_the_epoch(applying: Applying, target_database: Any) -> None:
    state = TableState(TABLE.source, TABLE.target, "parked", reason="DDL")
    with pytest.raises(ZeroDivisionError), applying as writer:
        writer.save_table("shop", state)
        raise ZeroDivisionError
    assert target_database.query("SELECT FROM anabranch.table_state") == []
    with applying as writer:
        writer.save_table("shop", state)
    assert target_database.query("SELECT state, reason FROM anabranch.table_state") == [("parked", "DDL")]


def test_a_state_that_is_refused_takes_the_commit_with_it(applying: Applying, target_database: Any) -> None:
    """They are sent together: the server does not come to the commit."""
    target_database.execute("ALTER TABLE anabranch.table_state ADD CHECK (reason <> 'no')")
    with pytest.raises(Conflict, match="commit an epoch"), applying as writer:
        writer.merge(TableNet(TABLE, inserts=rows((1, None, "lost"))))
        writer.save_table("shop", TableState(TABLE.source, TABLE.target, "parked", reason="no"))
    assert applying.writer.begin(applying.at, applying.next()) == "open"
    applying.writer.commit()
    assert orders(target_database) == []


def test_staging_tables_survive_rollbacks_and_are_bounded(applying: Applying, target_database: Any) -> None:
    three(applying)
    with pytest.raises(ZeroDivisionError), applying as writer:
        writer.merge(TableNet(TABLE, deletes=keys(1)))
        raise ZeroDivisionError
    applying.merge(TableNet(TABLE, deletes=keys(1)))
    with pytest.raises(ZeroDivisionError), applying as writer:
        writer.merge(TableNet(TABLE, deletes=keys(2)))
        raise ZeroDivisionError
    applying.merge(TableNet(TABLE, deletes=keys(2)))
    for number in range(110):
        target = TargetTable(TableId("shop", f"t{number}"), TABLE.target, TABLE.columns, TABLE.types, TABLE.key)
        note = Updates(keys(3), rows(("x",), names=("no%te",)))
        applying.merge(TableNet(replace(target, target=TABLE.target), updates=(note,)))
    assert [row[0] for row in orders(target_database)] == [3]


def test_driver_errors_never_pass(applying: Applying) -> None:
    with pytest.raises(TargetUnavailable), applying as writer:
        writer._open.close()
        writer.merge(TableNet(TABLE, deletes=keys(1)))
    assert not issubclass(Conflict, psycopg.Error)
