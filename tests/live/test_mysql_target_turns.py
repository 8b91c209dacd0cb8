"""Whose turn it is at a real MySQL and MariaDB: claims, fences, answers that are lost, locks of others, keys that act."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pymysql
import pytest

from anabranch.connectors.mysql.target.apply import MysqlWriter
from anabranch.contracts import Begun, Conflict, Emptying, ValueRules
from anabranch.errors import Fenced, TargetBusy, TargetError, TargetUnavailable
from anabranch.rows.net import DELETE, INSERT, UPDATE, RowChange, TableNet, TargetTable
from anabranch.testing.databases import create_database, drop_database
from anabranch.testing.servers import Server
from rigs.mysql_writer import INT, MANY, TEXT, Applying, keys, rows, updates

SINCE_56, SINCE_80 = (pytest.mark.every_server(what) for what in ("row images", "row metadata"))
SIZES = pytest.mark.parametrize("many", [1, MANY], ids=["few", "many"])


@pytest.fixture
def applying(mysql_family: Server, request: pytest.FixtureRequest) -> Iterator[Applying]:
    made = create_database(mysql_family, request.node.name)
    applying = Applying(made, job=made.name[-40:])
    yield applying
    applying.writer.close()
    drop_database(made)


def three(applying: Applying) -> TargetTable:
    of = applying.create("t", "id INT PRIMARY KEY, v INT", {"id": INT, "v": INT})
    applying.merge(TableNet(of, inserts=rows(of, ("id", "v"), (1, 1), (2, 2), (3, 3))))
    return of


@SINCE_56
def test_rule_09_a_claim_ends_the_session_of_the_owner_before(applying: Applying) -> None:
    """Also in the middle of an epoch: its locks are gone with it, and it commits nothing."""
    of = three(applying)
    zombie = applying.begin()
    zombie.merge(TableNet(of, deletes=keys(of, 1)))
    taking = MysqlWriter(applying.endpoint, ValueRules(), True)
    with closing(taking):
        found = taking.claim(applying.job, "other")
        assert (found.owner, found.epoch) == ("other", applying.now.epoch)
        with pytest.raises(TargetUnavailable):
            zombie.commit()
        with pytest.raises(Fenced):
            zombie.begin(applying.now, applying.next)
        assert applying.rows("SELECT COUNT(*) FROM t") == [(3,)]


@SINCE_56
def test_rule_21_an_origin_that_the_log_cannot_tell_is_refused(applying: Applying) -> None:
    with pytest.raises(TargetError, match="come from north"):
        applying.writer.begin(applying.now, applying.next, "north")
    three(applying)  # and epochs without one go on


@SINCE_56
def test_pitfall_44_an_answer_to_commit_that_is_lost_is_told_by_the_row(applying: Applying) -> None:
    of = three(applying)
    for is_done in (True, False):
        writer, now, then = applying.begin(), applying.now, applying.next
        writer.merge(TableNet(of, updates=(updates(of, (1,), ("v",), (int(is_done) + 5,)),)))
        if is_done:
            writer.commit()
        assert writer._open is not None
        applying.database.execute(f"KILL {writer._open.thread_id()}")
        with pytest.raises(TargetUnavailable):
            writer.merge(TableNet(of, deletes=keys(of, 2))) if not is_done else writer.begin(now, then)
        writer.close()
        assert writer.begin(now, then) is (Begun.APPLIED if is_done else Begun.OPEN)
        writer.rollback()
        applying.now = then if is_done else now
    assert applying.rows("SELECT v FROM t WHERE id = 1") == [(6,)]


@SINCE_56
def test_pitfall_44_a_lock_of_others_is_waited_for_outside_and_the_epoch_tried_again(applying: Applying) -> None:
    """1205 takes back the statement alone; what the epoch had done before goes with the session."""
    of = three(applying)
    with closing(applying.database.connect(autocommit=False)) as other, other.cursor() as cursor:
        cursor.execute("UPDATE t SET v = 9 WHERE id = 2")
        writer = applying.begin()
        assert writer._open is not None
        writer._open.query("SET SESSION innodb_lock_wait_timeout = 1")
        writer.merge(TableNet(of, deletes=keys(of, 1)))
        with pytest.raises(TargetBusy):
            writer.merge(TableNet(of, updates=(updates(of, (2,), ("v",), (7,)),)))
        writer.close()
        other.rollback()
    assert applying.rows("SELECT COUNT(*) FROM t") == [(3,)]
    applying.merge(TableNet(of, deletes=keys(of, 1), updates=(updates(of, (2,), ("v",), (7,)),)))
    assert applying.rows("SELECT id, v FROM t ORDER BY id") == [(2, 7), (3, 3)]


@SINCE_56
def test_pitfall_44_a_deadlock_is_tried_again_as_the_same_epoch(applying: Applying) -> None:
    """The server chooses who has changed less; here that is us."""
    of = three(applying)
    with closing(applying.database.connect(autocommit=False)) as other, other.cursor() as cursor:
        cursor.executemany("INSERT INTO t VALUES (%s, 0)", [(number,) for number in range(1000, 1050)])
        cursor.execute("UPDATE t SET v = 9 WHERE id = 2")
        writer = applying.begin()
        writer.merge(TableNet(of, deletes=keys(of, 1)))
        cursor.connection._execute_command(3, "UPDATE t SET v = 9 WHERE id = 1")  # waits for us
        with pytest.raises(TargetBusy):
            writer.merge(TableNet(of, updates=(updates(of, (2,), ("v",), (7,)),)))
        writer.close()
        other._read_query_result()
        other.rollback()
    applying.merge(TableNet(of, deletes=keys(of, 1)))
    assert applying.rows("SELECT COUNT(*) FROM t") == [(2,)]


@SINCE_56
def test_the_session_reads_what_others_have_committed(applying: Applying) -> None:
    of = three(applying)
    writer = applying.begin()
    writer.merge(TableNet(of, updates=(updates(of, (1,), ("v",), (5,)),)))
    applying.database.execute("INSERT INTO t VALUES (4, 4)")
    writer.merge(TableNet(of, updates=(updates(of, (4,), ("v",), (5,)),)))
    applying.commit()
    assert applying.rows("SELECT v FROM t WHERE id = 4") == [(5,)]


@SINCE_80
def test_a_block_that_fails_alone_leaves_the_epoch_as_it_was(applying: Applying) -> None:
    """Rows in staging tables go back with it, too."""
    of = three(applying)
    keyless = applying.create("k", "n INT, w VARCHAR(20)", {"n": INT, "w": TEXT}, key=())
    writer = applying.begin()
    gone: dict[str, str | None] = {"n": "1", "w": "x"}
    with writer.alone():
        writer.change(RowChange(keyless, INSERT, values=gone))
        writer.change(RowChange(keyless, INSERT, values=gone))
    for _ in range(2):
        with pytest.raises(Conflict), writer.alone():
            writer.change(RowChange(keyless, DELETE, old_values=gone))
            writer.change(RowChange(of, DELETE, {"id": "77"}))
    writer.change(RowChange(keyless, UPDATE, values={"w": "y"}, old_values=gone))
    applying.commit()
    assert sorted(applying.rows("SELECT n, w FROM k")) == [(1, "x"), (1, "y")]


# --- keys and triggers of the target -----------------------------------------------------------------------------------


@pytest.fixture
def enforcing(mysql_family: Server, request: pytest.FixtureRequest) -> Iterator[Applying]:
    """A writer whose session asks foreign keys: t, and its children c."""
    made = create_database(mysql_family, request.node.name)
    applying = Applying(made, bypass=False, job=made.name[-40:])
    of = applying.create("t", "id INT PRIMARY KEY, u INT UNIQUE", {"id": INT, "u": INT})
    applying.database.execute(
        "CREATE TABLE c (id INT PRIMARY KEY, t INT, FOREIGN KEY (t) REFERENCES t (id) ON DELETE CASCADE)"
    )
    applying.merge(TableNet(of, inserts=rows(of, ("id", "u"), (1, 1), (2, 2))))
    applying.database.execute("INSERT INTO c VALUES (10, 1), (20, 2)")
    yield applying
    applying.writer.close()
    drop_database(made)


@SINCE_56
def test_rule_07_rows_that_hand_values_on_take_no_children_along(enforcing: Applying) -> None:
    of = enforcing.table("t", {"id": INT, "u": INT})
    swap = updates(of, (1, 2), ("u",), (2,), (1,), contends=True)
    enforcing.merge(TableNet(of, updates=(swap,)))
    assert enforcing.rows("SELECT id, u FROM t ORDER BY id") == [(1, 2), (2, 1)]
    moved = updates(of, (1, 2), ("id",), (2,), (1,), moves=True, contends=True)
    with pytest.raises(Conflict):
        enforcing.merge(TableNet(of, updates=(moved,)))
    assert enforcing.rows("SELECT id, t FROM c ORDER BY id") == [(10, 1), (20, 2)]


@SINCE_56
def test_rule_07_what_a_key_would_do_by_itself_is_a_conflict(enforcing: Applying) -> None:
    of = enforcing.table("t", {"id": INT, "u": INT})
    with pytest.raises(Conflict, match="ON DELETE CASCADE"):
        enforcing.change(RowChange(of, DELETE, {"id": "1"}, keys_off=True))
    with pytest.raises(Conflict, match="ON DELETE CASCADE"):
        enforcing.do(lambda writer: writer.truncate([of], Emptying.DELETE))
    enforcing.change(RowChange(of, DELETE, {"id": "1"}))
    assert enforcing.rows("SELECT id, t FROM c") == [(20, 2)]


@SINCE_56
@SIZES
@SINCE_56
def test_keys_that_are_off_neither_act_nor_refuse(applying: Applying, many: int) -> None:
    of = applying.create("t", "id INT PRIMARY KEY", {"id": INT})
    applying.database.execute(
        "CREATE TABLE c (id INT PRIMARY KEY, t INT, FOREIGN KEY (t) REFERENCES t (id) ON DELETE CASCADE)"
    )
    child = applying.table("c", {"id": INT, "t": INT})
    every = range(1, many + 1)
    applying.merge(TableNet(child, inserts=rows(child, ("id", "t"), *((n, n) for n in every))))
    applying.merge(TableNet(of, inserts=rows(of, ("id",), *((n,) for n in every))))
    applying.merge(TableNet(of, deletes=keys(of, *every)))
    assert applying.rows("SELECT COUNT(*) FROM c") == [(many,)]


@SINCE_56
def test_pitfall_41_rows_do_not_leave_under_the_eyes_of_a_trigger(applying: Applying) -> None:
    of = applying.create("t", "id INT PRIMARY KEY, u INT UNIQUE", {"id": INT, "u": INT})
    applying.merge(TableNet(of, inserts=rows(of, ("id", "u"), (1, 1), (2, 2))))
    applying.database.execute(
        "CREATE TABLE seen (what INT)", "CREATE TRIGGER gone AFTER DELETE ON t FOR EACH ROW INSERT INTO seen VALUES (1)"
    )
    with pytest.raises(Conflict):
        applying.merge(TableNet(of, updates=(updates(of, (1, 2), ("u",), (2,), (1,), contends=True),)))
    assert applying.rows("SELECT COUNT(*) FROM seen") == [(0,)]


@SINCE_56
def test_pitfall_44_a_job_without_a_session_left_is_claimed_at_once(applying: Applying) -> None:
    applying.writer.close()
    with closing(MysqlWriter(applying.endpoint, ValueRules(), True)) as writer:
        assert writer.claim(applying.job, "next").owner == "next"
    with pytest.raises(pymysql.err.OperationalError):
        applying.database.execute("KILL 4294967295")  # what a claim takes for gone
