"""Statements in one piece on a real PostgreSQL: what stands behind an error, names that are gone, lines that are cut."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest
from applying import TABLE, Applying, keys, orders, prepared, rows

from anabranch.connectors.postgresql.connection import Connection, connect
from anabranch.connectors.postgresql.together import KEPT, PREFIX, Statement, Together
from anabranch.errors import TargetUnavailable
from anabranch.model.endpoint import Endpoint
from anabranch.rows.net import TableNet, Updates

PUT, SET = b"INSERT INTO public.kept VALUES ($1, $2)", b"UPDATE public.kept SET b = $2 WHERE a = $1"
NAMES = f"SELECT count(*) FROM pg_prepared_statements WHERE starts_with(name, '{PREFIX}')"
KILL = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = '{}'"


@pytest.fixture
def endpoint(target_database: Any) -> Endpoint:
    target_database.execute("CREATE TABLE public.kept (a int PRIMARY KEY, b text)")
    return prepared(target_database)


@pytest.fixture
def line(endpoint: Endpoint) -> Iterator[Connection]:
    with closing(connect(endpoint, "together")) as made:
        yield made


def put(*numbers: int) -> list[Statement]:
    return [Statement(PUT, [str(number), "x"]) for number in numbers]


def kept(database: Any) -> list[int]:
    return [a for (a,) in database.query("SELECT a FROM public.kept ORDER BY a")]


def test_each_says_how_many_rows_it_hit_and_is_prepared_once(line: Connection, target_database: Any) -> None:
    together = Together(line)
    assert together.run([*put(1, 2), Statement(SET, ["1", None]), Statement(SET, ["7", "y"])]) == [1, 1, 1, 0]
    assert together.run([Statement(b"DELETE FROM public.kept", is_kept=False), *put(5)]) == [2, 1]
    assert line.execute(NAMES).fetchone() == (2,)
    assert kept(target_database) == []
    together.commit(put(6))
    assert kept(target_database) == [5, 6]
    together.commit(put(7))
    assert kept(target_database) == [5, 6, 7]


def test_behind_an_error_nothing_is_carried_out_and_nothing_commits(line: Connection, target_database: Any) -> None:
    together = Together(line)
    together.commit(put(1))
    with pytest.raises(psycopg.errors.UniqueViolation) as met:
        together.commit(put(2, 1, 3))
    assert met.value.diag.constraint_name == "kept_pkey"
    with pytest.raises(psycopg.errors.InFailedSqlTransaction):
        together.commit(put(3))
    with pytest.raises(psycopg.errors.InFailedSqlTransaction, match="rolled back"):
        Together(line).commit([])  # COMMIT itself is not refused: the server answers ROLLBACK
    together.doubt()
    assert kept(target_database) == [1]
    together.commit(put(4))
    assert kept(target_database) == [1, 4]


def test_names_that_psycopg_drops_are_made_again(line: Connection, target_database: Any) -> None:
    """It drops all of them behind a rollback, where it has prepared something itself."""
    together = Together(line)
    together.commit(put(1))
    for number in range(2, 6):
        line.execute("SELECT %s", [number], prepare=True)
        line.rollback()
        together.doubt()
        assert line.execute(NAMES).fetchone() == (0,)
        together.commit(put(number))
    assert kept(target_database) == [1, 2, 3, 4, 5]


def test_a_statement_that_could_not_be_prepared_is_prepared_later(line: Connection, target_database: Any) -> None:
    together, later = Together(line), Statement(b"INSERT INTO public.later VALUES ($1)", ["1"])
    with pytest.raises(psycopg.errors.UndefinedTable):
        together.run([*put(1), later, *put(2)])
    line.rollback()
    target_database.execute("CREATE TABLE public.later (a int)")
    together.commit([*put(1), later])
    assert target_database.query("SELECT a FROM public.later") == [(1,)]


def test_prepared_statements_are_bounded(line: Connection) -> None:
    together = Together(line)
    for number in range(KEPT + 20):
        assert together.run([Statement(b"SELECT %d" % number), Statement(b"SELECT 0")]) == [1, 1]
    assert line.execute(NAMES).fetchone() == (KEPT,)
    assert together.run([Statement(b"SELECT 1"), Statement(b"SELECT 0")]) == [1, 1]


def test_a_zero_character_is_refused_before_anything_is_sent(line: Connection, target_database: Any) -> None:
    """libpq would send what stands before it."""
    together = Together(line)
    with pytest.raises(psycopg.DataError, match="NUL"):
        together.run([*put(1), Statement(PUT, ["2", "a\0b"])])
    assert line.info.transaction_status is psycopg.pq.TransactionStatus.IDLE
    together.commit(put(3))
    assert kept(target_database) == [3]


def test_more_than_a_socket_takes_at_once(line: Connection, target_database: Any) -> None:
    together, large = Together(line), "x" * 3_000_000
    together.commit([Statement(PUT, [str(number), large]) for number in range(20)])
    assert target_database.query("SELECT count(*), min(length(b)) FROM public.kept") == [(20, len(large))]


def test_a_line_that_is_cut_while_the_server_works(line: Connection, target_database: Any) -> None:
    together = Together(line)
    cut = threading.Timer(0.5, target_database.execute, [KILL.format("together")])
    cut.start()
    with pytest.raises(psycopg.OperationalError):
        together.commit([*put(1), Statement(b"SELECT pg_sleep(60)", is_kept=False)])
    cut.join()
    assert line.closed and kept(target_database) == []
    with pytest.raises(psycopg.OperationalError):
        together.run(put(1))


def test_an_interrupt_ends_the_line(line: Connection, target_database: Any) -> None:
    """Answers that are still to come are nobody's."""
    together = Together(line)
    former = signal.signal(signal.SIGALRM, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    try:
        with pytest.raises(KeyboardInterrupt):
            together.commit([*put(1), Statement(b"SELECT pg_sleep(60)", is_kept=False)])
    finally:
        signal.signal(signal.SIGALRM, former)
    assert line.closed and kept(target_database) == []


# --- as the writer uses it --------------------------------------------------------------------------------------------


def test_rule_09_a_line_cut_while_the_commit_is_under_way(endpoint: Endpoint, target_database: Any) -> None:
    """Nobody knows the outcome; the checkpoint row does."""
    target_database.execute(
        "CREATE FUNCTION public.slow() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN PERFORM pg_sleep(60); RETURN NULL; END$$",
        'CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON public."Or%ders" DEFERRABLE INITIALLY DEFERRED'
        " FOR EACH ROW EXECUTE FUNCTION public.slow()",
    )
    applying = Applying(endpoint)
    cut = threading.Timer(1.0, target_database.execute, [KILL.format("anabranch:shop:me")])
    cut.start()
    with pytest.raises(TargetUnavailable):
        applying.merge(TableNet(TABLE, inserts=rows((1, None, "a"))))
    cut.join()
    target_database.execute('DROP TRIGGER slow ON public."Or%ders"')
    assert applying.writer.begin(applying.at, applying.next()) == "open"
    applying.writer.merge(TableNet(TABLE, inserts=rows((1, None, "b"))))
    applying.writer.commit()
    assert applying.writer.begin(applying.at, applying.next()) == "applied"
    assert orders(target_database) == [(1, None, "b")]
    applying.writer.close()


def test_small_and_large_epochs_take_turns(endpoint: Endpoint, target_database: Any) -> None:
    """Staging tables, rollbacks and savepoints in between: statements that are prepared go on or are prepared again."""
    applying = Applying(endpoint)
    for number in range(12):
        applying.merge(TableNet(TABLE, inserts=rows((number, None, "a"))))
        note = Updates(keys(number), rows(("b",), names=("no%te",)))
        applying.merge(TableNet(TABLE, updates=(note,)))
        first = 1000 * (number + 1)
        applying.merge(TableNet(TABLE, inserts=rows(*((first + one, None, "c") for one in range(200)))))
        applying.merge(TableNet(TABLE, deletes=keys(*range(first, first + 200))))
        with pytest.raises(ZeroDivisionError), applying as writer, writer.alone():
            writer.merge(TableNet(TABLE, inserts=rows((first, None, "lost"))))
            raise ZeroDivisionError
    assert orders(target_database) == [(number, None, "b") for number in range(12)]
    applying.writer.close()


def test_an_epoch_of_few_rows_asks_the_server_for_nothing_else(endpoint: Endpoint, target_database: Any) -> None:
    """No name is looked up, nothing is prepared again."""
    applying = Applying(endpoint)
    applying.merge(TableNet(TABLE, inserts=rows((0, None, "a"))))
    made = applying.writer._together._names.copy()
    for number in range(1, 8):
        applying.merge(TableNet(TABLE, inserts=rows((number, None, "a"))))
    assert applying.writer._together._names.keys() == made.keys() and not applying.writer._together._is_in_doubt
    assert len(orders(target_database)) == 8
    applying.writer.close()
