"""Whose turn it is at a real PostgreSQL: compare-and-set, claims, sessions, tables that change while they are written to."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from anabranch.connectors.postgresql.target import apply
from anabranch.connectors.postgresql.target.apply import PostgresWriter
from anabranch.contracts import ValueRules
from anabranch.errors import Fenced, StateError, TargetBusy, TargetError, TargetUnavailable
from anabranch.model.endpoint import Endpoint
from anabranch.model.position import Position
from anabranch.model.state import Checkpoint
from anabranch.rows.net import TableNet, Updates
from anabranch.testing.in_time import until
from rigs.postgresql_writer import TABLE, Applying, applying, endpoint, keys, orders, rows, three

# A wrapper that leads nowhere is enough to make foreign tables.
FAR = ("CREATE FOREIGN DATA WRAPPER nothing", "CREATE SERVER nowhere FOREIGN DATA WRAPPER nothing")
__all__ = ["applying", "endpoint"]


def test_rule_09_compare_and_set_tells_open_applied_and_replan(endpoint: Endpoint, target_database: Any) -> None:
    applying = Applying(endpoint)
    start, first = applying.at, applying.next()
    three(applying)
    assert applying.writer.begin(start, first) == "applied"
    second = replace(first, epoch=2, position=Position(9, "x"))
    assert applying.writer.begin(start, second) == "replan"
    assert applying.writer.begin(first, second) == "open"
    applying.writer.rollback()
    assert len(orders(target_database)) == 3
    found = target_database.query("SELECT owner, epoch, sequence, position, commit_time FROM anabranch.checkpoint")
    assert found == [("me", 1, 1, "p1", 1_000_000)]
    applying.writer.close()


def test_rule_09_a_second_owner_ends_and_fences_the_first(endpoint: Endpoint, target_database: Any) -> None:
    first = Applying(endpoint)
    writer = first.__enter__()
    writer.merge(TableNet(TABLE, inserts=rows((1, None, "lost"))))
    second = PostgresWriter(endpoint, ValueRules())
    at = second.claim("shop", "other")
    assert (at.owner, at.epoch) == ("other", 0)
    with pytest.raises(TargetUnavailable):
        writer.commit()
    with pytest.raises(Fenced):
        writer.begin(first.at, first.next())
    assert orders(target_database) == []
    assert second.begin(at, replace(at, epoch=1, position=Position(1, "p"))) == "open"
    second.commit()
    for one in (first.writer, second):
        one.close()


def test_plans_are_made_again_for_a_table_that_has_grown(
    endpoint: Endpoint, target_database: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plan that is kept from when the table was one page reads all of it for each row, until something is analysed."""
    applying = Applying(endpoint)
    three(applying)
    target_database.execute('ALTER TABLE "Or%ders" SET (autovacuum_enabled = false)', 'ANALYZE "Or%ders"')

    def changed(times: int) -> int:
        """So many updates; by how many of them the table was read as a whole."""
        scans = "SELECT seq_scan FROM pg_stat_user_tables WHERE relname = 'Or%ders'"
        [(before,)] = target_database.query(scans)
        for number in range(times):
            updates = Updates(keys(1), rows((Decimal(number),), names=("amount",)))
            applying.merge(TableNet(TABLE, updates=(updates,)))
        applying.writer._session().execute("SELECT pg_stat_force_next_flush()")  # else once a second
        applying.merge(TableNet(TABLE, inserts=rows((times, None, None))))
        [(after,)] = target_database.query(scans)
        return int(after - before)

    assert changed(12) >= 10, "a table of one page is read as a whole; the plan is kept from the eleventh or so on"
    target_database.execute('INSERT INTO "Or%ders" (id) SELECT generate_series(1000, 60000)')
    monkeypatch.setattr(apply, "PLANS_S", 0.0)
    assert changed(10) == 0
    applying.writer.close()


def test_a_column_that_gets_another_type_meanwhile_loses_no_digit(applying: Applying, target_database: Any) -> None:
    """Statements that were made for the old type round to it: to a tenth, to seven digits."""

    def update(value: str, times: int = 1) -> None:
        for _ in range(times):
            updates = Updates(keys(1), rows((Decimal(value),), names=("amount",)))
            applying.merge(TableNet(TABLE, updates=(updates,)))

    def altered(statement: str, value: str) -> Any:
        target_database.execute(f'ALTER TABLE "Or%ders" ALTER amount TYPE {statement}')
        with pytest.raises(TargetBusy, match=r'columns of "public"\."Or%ders" were changed'):
            update(value)
        update(value)  # where the epoch goes on, over a new connection
        [(found,)] = target_database.query('SELECT amount FROM "Or%ders" WHERE id = 1')
        return found

    target_database.execute('ALTER TABLE "Or%ders" ALTER amount TYPE numeric(10,1)')
    three(applying)
    update("0.50", times=8)  # until the statement is a prepared one
    assert altered("numeric(10,2)", "1.25") == Decimal("1.25")
    assert altered("real", "1.25") == 1.25
    update("0.50", times=8)
    assert altered("double precision", "12345678.25") == 12345678.25
    applying.writer.close()


def test_a_table_that_is_made_anew_with_other_types_loses_no_digit(endpoint: Endpoint, target_database: Any) -> None:
    applying = Applying(endpoint)
    target_database.execute('ALTER TABLE "Or%ders" ALTER amount TYPE numeric(10,1)')
    three(applying)
    target_database.execute(
        'DROP TABLE "Or%ders"', 'CREATE TABLE "Or%ders" (id int PRIMARY KEY, amount numeric, "no%te" text, extra text)'
    )
    insert = TableNet(TABLE, inserts=rows((7, Decimal("1.25"), "n")))
    with pytest.raises(TargetBusy):
        applying.merge(insert)
    applying.merge(insert)
    assert orders(target_database) == [(7, "1.25", "n", None)]
    applying.writer.close()


def test_a_table_from_which_others_inherit_is_not_written_to(applying: Applying, target_database: Any) -> None:
    """Rows of the heirs would change with it, by each way of writing, also where they came to inherit meanwhile."""
    three(applying)
    target_database.execute(
        'CREATE TABLE heir () INHERITS ("Or%ders")', "INSERT INTO heir VALUES (1, 5, 'its own')", "CREATE TABLE above ()",
        'ALTER TABLE "Or%ders" INHERIT above',
    )  # fmt: skip
    update = TableNet(TABLE, updates=(Updates(keys(2), rows((Decimal(9),), names=("amount",))),))
    with pytest.raises(TargetBusy, match="tables came below it"):
        applying.merge(update)  # the epoch is tried again, and asks what they are
    for net in (update, TableNet(TABLE, inserts=rows((7, None, None))), TableNet(TABLE, deletes=keys(3))):
        with pytest.raises(TargetError, match=r'inherit from "public"\."Or%ders"'):
            applying.merge(net)
    for how in ("truncate", "delete"):
        with pytest.raises(TargetError, match="inherit from"), applying as writer:
            writer.truncate([TABLE], how)
    assert target_database.query("SELECT id, amount::text FROM heir") == [(1, "5.00")]
    assert len(orders(target_database)) == 4
    target_database.execute('ALTER TABLE heir NO INHERIT "Or%ders"')
    applying.merge(update)  # a table that inherits itself is as any other
    assert [row[1] for row in orders(target_database)] == ["1.00", "9.00", "3.50"]


def test_a_table_of_which_a_partition_is_another_server_s_is_not_written_to(
    endpoint: Endpoint, target_database: Any
) -> None:
    """A foreign table may lead to the source. Rows of other partitions do not get in either."""
    applying = Applying(endpoint)
    target_database.execute(
        'DROP TABLE "Or%ders"',
        'CREATE TABLE "Or%ders" (id int, amount numeric(8,2), "no%te" text, extra text) PARTITION BY RANGE (id)',
        'CREATE TABLE near PARTITION OF "Or%ders" FOR VALUES FROM (0) TO (100) PARTITION BY RANGE (id)',
        "CREATE TABLE nearer PARTITION OF near FOR VALUES FROM (0) TO (50)",
    )
    three(applying)
    target_database.execute(
        *FAR, "CREATE FOREIGN TABLE far PARTITION OF near FOR VALUES FROM (50) TO (100) SERVER nowhere"
    )
    insert = TableNet(TABLE, inserts=rows((7, Decimal("1.25"), "n")))
    with pytest.raises(TargetError, match="partitions of it are foreign tables"):
        applying.merge(insert)
    with pytest.raises(TargetError, match="foreign"), applying as writer:
        writer.truncate([TABLE], "truncate")
    assert target_database.query("SELECT count(*) FROM nearer") == [(3,)]
    target_database.execute("ALTER TABLE near DETACH PARTITION far")
    applying.merge(insert)
    assert len(orders(target_database)) == 4
    applying.writer.close()


def test_a_table_that_is_gone_is_told_as_such(endpoint: Endpoint, target_database: Any) -> None:
    applying = Applying(endpoint)
    three(applying)
    target_database.execute('DROP TABLE "Or%ders"')
    with pytest.raises(TargetError, match="does not exist"):
        three(applying)
    applying.writer.close()


def test_rule_09_sessions_carry_job_and_owner_and_line_settings(applying: Applying, target_database: Any) -> None:
    sessions = "SELECT pid FROM pg_stat_activity WHERE application_name = 'anabranch:shop:me'"
    until(lambda: len(target_database.query(sessions)) == 1, "one session, and none of a test before")
    with applying as writer:
        settings = writer._open.execute(
            "SELECT current_setting('lock_timeout'), current_setting('idle_in_transaction_session_timeout')"
        ).fetchone()
    assert settings == ("30s", "10min")


def test_claim_without_a_checkpoint_and_begin_without_a_claim(endpoint: Endpoint) -> None:
    writer = PostgresWriter(endpoint, ValueRules())
    with pytest.raises(StateError, match="no checkpoint"):
        writer.claim("unknown", "me")
    writer.close()
    with pytest.raises(StateError, match="claimed"):
        PostgresWriter(endpoint, ValueRules()).begin(Checkpoint("", 0, Position(0)), Checkpoint("", 1, Position(1)))


def test_pitfall_44_a_line_lost_at_commit_is_resolved_by_the_row(applying: Applying, target_database: Any) -> None:
    with pytest.raises(TargetUnavailable), applying as writer:
        writer.merge(TableNet(TABLE, inserts=rows((1, None, "a"))))
        target_database.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'anabranch:shop:me'"
        )
    assert applying.writer.begin(applying.at, applying.next()) == "open"
    applying.writer.merge(TableNet(TABLE, inserts=rows((1, None, "a"))))
    applying.writer.commit()
    applying.writer.close()
    assert applying.writer.begin(applying.at, applying.next()) == "applied"
    assert orders(target_database) == [(1, None, "a")]
