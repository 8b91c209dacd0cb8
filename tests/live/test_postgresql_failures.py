"""A target that fails in every way that we can make it fail: what the applier does about it, and that nothing is lost or
there twice afterwards. Below the command line; scenarios/ and faults/ have whole jobs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from itertools import product
from pathlib import Path
from typing import Any, cast

import pytest

from anabranch import connectors
from anabranch.apply.staging import Executors
from anabranch.connectors.postgresql import settings
from anabranch.connectors.postgresql.target import stage_sweep
from anabranch.contracts import ValueRules
from anabranch.errors import RowRefused, TargetBusy, TargetError, TargetFull, TargetUnavailable
from anabranch.testing.databases import Database, connect, create_database, unique_name
from anabranch.testing.faults import Proxy
from anabranch.testing.in_time import until
from anabranch.testing.servers import start_postgresql
from rigs.disk import fill, small_disk
from rigs.endpoints import endpoint_of
from rigs.postgresql_applier import TABLES, Applied
from rigs.waiting import Doing

Make = Callable[..., Applied]
OURS = "application_name = 'anabranch:shop:me'"
END_SESSIONS = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {OURS}"
WAITS_FOR_A_LOCK = f"SELECT pid FROM pg_stat_activity WHERE {OURS} AND wait_event_type = 'Lock'"


@pytest.fixture
def apply_to(tmp_path: Path) -> Iterator[Make]:
    made: list[Applied] = []

    def make(database: Database, **options: Any) -> Applied:
        database.execute(*TABLES)
        made.append(Applied(database, tmp_path / f"trail{len(made)}", **options))
        return made[-1]

    yield make
    for one in made:
        one.close()


# --- the line at COMMIT -----------------------------------------------------------------------------------------------

CUTS = ("unheard", "heard", "answered")
COMMIT = b"COMMIT\0"  # as a message of its own, not ON COMMIT DELETE ROWS


@pytest.mark.parametrize("per_transaction", [False, True])
def test_pitfall_44_a_line_cut_before_at_and_after_commit(
    target_database: Database, apply_to: Make, per_transaction: bool
) -> None:
    """The row decides: what was not heard is done again, what was done and not answered is not."""
    server = target_database.server
    with Proxy(server.host, server.port) as line:
        options = {"per_transaction": per_transaction}
        one = apply_to(target_database, endpoint=endpoint_of(target_database, port=line.port), options=options)
        for number, when in enumerate((*CUTS, *CUTS), 1):
            line.cut_at(COMMIT, when)
            one.add(3)
            assert line.cuts == number and len(one.waits) >= number
            one.assert_once()


class Here:
    """Where tasks are done: in this process. `staged` is called before their results are given."""

    def __init__(self, staged: Callable[[], object]) -> None:
        self.staged = staged

    def each(self, tasks: Sequence[Callable[[], Any]]) -> list[Any]:
        found = [task() for task in tasks]
        self.staged()
        return found


def by_executors(one: Applied, here: Here) -> None:
    """Every epoch from now on is staged by tasks."""
    assert one.endpoint is not None
    target, rules = connectors.target(one.endpoint), ValueRules()
    one.applier.carrier.executors = Executors("shop", one.directory, target, rules, here, 1)
    one.applier.progress.sweep = one.applier.progress.writer.sweep


def test_rule_10_a_staged_epoch_whose_line_breaks_is_staged_again(target_database: Database, apply_to: Make) -> None:
    """Nothing that an attempt has staged is merged by another one, nor left behind."""
    server, attempts = target_database.server, list[str]()
    tables = "SELECT tablename FROM pg_tables WHERE tablename LIKE 'stage%'"
    with Proxy(server.host, server.port) as line:
        one = apply_to(target_database, endpoint=endpoint_of(target_database, port=line.port))
        by_executors(one, Here(lambda: attempts.extend(name for (name,) in target_database.query(tables))))
        for number, (words, when) in enumerate(product((b"LOCK TABLE", COMMIT), ("unheard", "answered")), 1):
            attempts.clear()
            one.on_wait = lambda waits: line.restore()
            line.cut_at(words, when)
            one.add(10)
            one.assert_once()
            assert line.cuts == number and (words == COMMIT or len(set(attempts)) >= 4)

        def is_swept() -> bool:
            """A table that a session holds, which the server has not seen ending, is left to the next sweep."""
            one.applier.progress.writer.sweep()
            return target_database.query(tables) == []

        until(is_swept)


def test_rule_10_what_a_failed_attempt_has_staged_is_gone_before_the_next(
    target_database: Database, apply_to: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else each try would take more of a disk that is full. A session's end, which the server sees some moments later, is
    waited for here: a table that it holds would be left to the next sweep."""
    monkeypatch.setattr(stage_sweep, "SWEEP_WAIT", "SET LOCAL lock_timeout = '120s'")
    one, left = apply_to(target_database), list[int]()
    count = "SELECT count(*) FROM pg_tables WHERE tablename LIKE 'stage%'"

    def fails() -> None:
        left.append(target_database.query(count)[0][0])
        if len(left) < 4:
            raise TargetFull("no room")

    by_executors(one, Here(fails))
    one.add(3)
    assert len(set(left)) == 1 and target_database.query(count) == [(0,)]
    one.assert_once()


def test_a_value_that_a_task_of_an_epoch_cannot_stage_is_named_by_its_row(
    target_database: Database, apply_to: Make
) -> None:
    one = apply_to(target_database)
    by_executors(one, Here(lambda: None))
    one.add(2)
    with pytest.raises(RowRefused, match="row id = 9"):
        one.applier.apply(one.append([[("items", "i", {"id": 9, "a": 9, "b": "a\0z"})]]))
    one.assert_once()


def test_pitfall_44_rule_09_a_commit_that_goes_on_without_us(target_database: Database, apply_to: Make) -> None:
    """The line is gone, the server still works at the COMMIT: what the row says at that moment is not the last word."""
    server = target_database.server
    with Proxy(server.host, server.port) as line:
        one = apply_to(target_database, endpoint=endpoint_of(target_database, port=line.port))
        one.add(2)
        target_database.execute(
            "CREATE FUNCTION public.slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
            " WHILE NOT pg_try_advisory_xact_lock(44) LOOP PERFORM pg_sleep(0.05); END LOOP; RETURN NULL; END $$",
            "CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON shop.items DEFERRABLE INITIALLY DEFERRED"
            " FOR EACH ROW EXECUTE FUNCTION public.slow()",
        )
        with closing(target_database.connect()) as holder:
            holder.execute("SELECT pg_advisory_lock(44)")

            def go_on() -> None:
                until(lambda: target_database.query(WAITS_FOR_A_LOCK), "the next try waits for the row")
                holder.execute("SELECT pg_advisory_unlock(44)")

            line.cut_at(COMMIT, "heard")
            going_on = Doing(go_on)
            one.add(1)
            going_on.done()
        assert line.cuts == 1 and any("not at" in why for why in one.waits)
        one.assert_once()


def test_pitfall_44_lines_that_break_anywhere_in_an_epoch(target_database: Database, apply_to: Make) -> None:
    """At the compare-and-set, while rows are staged, at each part of a merge, at the row of a table's state."""
    server = target_database.server
    with Proxy(server.host, server.port) as line:
        one = apply_to(target_database, endpoint=endpoint_of(target_database, port=line.port))
        one.add(20)
        said = (b"UPDATE anabranch.checkpoint", b"COPY ", b"DELETE FROM", b"INSERT INTO", b"anabranch.table_state")
        for number, (words, when) in enumerate(product(said, ("unheard", "answered")), 1):
            one.applier.progress.writer.close()  # what a session has prepared it does not say again
            line.cut_at(words, when)
            one.add(15)
            assert line.cuts == number, words
            one.assert_once()


# --- what a server says -----------------------------------------------------------------------------------------------

SAYS = """
CREATE FUNCTION public.says() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF nextval('public.tries') <= TG_ARGV[1]::int THEN RAISE 'on purpose' USING ERRCODE = TG_ARGV[0]; END IF;
  RETURN NEW;
END $$
"""
# The server's own words come in the tests below; here every class of the table is met, also those that are hard to make.
WAITED_FOR = {
    "40001": "in the way",
    "40P01": "in the way",
    "55P03": "another session holds a lock",
    "57014": "ends our statements",
    "25006": "point the job at the primary",
    "53200": "running and reachable",
    "53300": "raise max_connections",
    "53100": "make room",
    "58030": "look at the log",
}


def test_pitfall_44_what_is_waited_for_is_done_once(target_database: Database, apply_to: Make) -> None:
    one = apply_to(target_database)
    one.add(2)
    target_database.execute("CREATE SEQUENCE public.tries", SAYS)
    for state, hint in WAITED_FOR.items():
        one.waits.clear()
        target_database.execute(
            "ALTER SEQUENCE public.tries RESTART",
            f"CREATE TRIGGER says BEFORE INSERT ON shop.heap FOR EACH ROW EXECUTE FUNCTION public.says('{state}', '1')",
        )
        one.add(2)
        target_database.execute("DROP TRIGGER says ON shop.heap")
        assert len(one.waits) == 1 and f"[{state}]" in one.waits[0] and hint in one.waits[0], one.waits
        one.assert_once()


def test_what_a_person_has_to_change_ends_the_epoch_at_once(target_database: Database, apply_to: Make) -> None:
    """And a start goes on from there."""
    one = apply_to(target_database)
    one.add(2)
    breaks = {
        ("ALTER TABLE shop.heap RENAME TO gone", "ALTER TABLE shop.gone RENAME TO heap"): "load it again",
        ("ALTER TABLE shop.heap RENAME b TO c", "ALTER TABLE shop.heap RENAME c TO b"): "bring the column back",
        (
            "CREATE PUBLICATION p FOR TABLE shop.heap",
            "DROP PUBLICATION p",
        ): "REPLICA IDENTITY FULL",
    }
    for (breaking, mending), hint in breaks.items():
        target_database.execute(breaking)
        upto = one.log(2)
        with pytest.raises(TargetError) as refused:
            one.applier.apply(upto)
        assert hint in str(refused.value) and not isinstance(refused.value, TargetUnavailable) and not one.waits
        target_database.execute(mending)
        one.applier.apply(upto)
        one.assert_once()


# --- made on purpose --------------------------------------------------------------------------------------------------


def test_pitfall_44_a_deadlock_is_tried_again(target_database: Database, apply_to: Make) -> None:
    """Somebody at the target holds row 1 and wants row 2, which the epoch has changed before it comes to row 1.

    A server looks for a deadlock once, a second after a wait begins: who is late then meets none, and does it again."""
    one = apply_to(target_database)
    one.add(1)
    for _ in range(10):
        with closing(target_database.connect(autocommit=False)) as other:
            other.execute("SET deadlock_timeout = '10min'")
            other.execute(f"SELECT FROM shop.items WHERE id = {one.rows} FOR UPDATE")

            def meet(other: Any = other) -> None:
                until(lambda: target_database.query(WAITS_FOR_A_LOCK), "the epoch waits for the row")
                other.execute("SELECT FROM anabranch.checkpoint FOR UPDATE")
                other.rollback()

            meeting = Doing(meet)
            one.add(1)
            meeting.done()
        if any("deadlock detected" in why for why in one.waits):
            break
    assert any("deadlock detected [40P01]" in why for why in one.waits), one.waits
    one.assert_once()


def lock_timeout(limit: str, one: Applied, monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on our sessions wait that long for a lock; the one that is open ends."""
    monkeypatch.setitem(cast(Any, settings.PINNED), "lock_timeout", settings.Pin(limit, "as a test needs it"))
    one.applier.progress.writer.close()


def test_pitfall_44_limits_of_roles_and_databases_do_not_count(target_database: Database, apply_to: Make) -> None:
    """What a session of ours waits for is our own affair. A `transaction_timeout` counts until the session has set its own,
    which takes longer than this on a busy machine: test_settings.py has that one."""
    one = apply_to(target_database)
    limits = ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout")
    with closing(connect(target_database.server)) as admin:
        for limit in limits:
            admin.execute(f"ALTER DATABASE {target_database.name} SET {limit} = '3ms'")
        one.applier.progress.writer.close()
        one.add(200)
        assert not one.waits
        admin.execute(f"ALTER DATABASE {target_database.name} RESET ALL")
    one.assert_once()


def test_pitfall_44_our_lock_timeout_and_a_cancel_are_tried_again(
    target_database: Database, apply_to: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first is short, so that the test is; who cancels has all the time it needs."""
    one = apply_to(target_database)
    one.add(200)
    with closing(target_database.connect(autocommit=False)) as other:
        lock_timeout("100ms", one, monkeypatch)
        other.execute("LOCK TABLE shop.items")
        one.on_wait = lambda waits: len(waits) == 2 and other.rollback()
        one.add(2)
        assert len(one.waits) == 2 and "lock timeout [55P03] — another session holds a lock" in one.waits[0]
        lock_timeout("10min", one, monkeypatch)
        other.execute("LOCK TABLE shop.heap")
        one.on_wait = lambda waits: other.rollback()
        cancel = f"SELECT pg_cancel_backend(pid) FROM ({WAITS_FOR_A_LOCK}) AS ours"
        cancelling = Doing(lambda: until(lambda: target_database.query(cancel), "the epoch waits"))
        one.add(2)
        cancelling.done()
    assert "due to user request [57014]" in one.waits[-1]
    one.assert_once()


def test_pitfall_44_no_connection_left(target_database: Database, apply_to: Make) -> None:
    """The limits of role and database say so in words alone: a connection that is refused has no code."""
    user, server = unique_name("app"), target_database.server
    target_database.execute(
        f"CREATE ROLE {user} LOGIN PASSWORD 'secret'", f"GRANT ALL ON DATABASE {target_database.name} TO {user}"
    )
    try:
        target_database.execute(
            f"ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO {user}",
            f"ALTER DEFAULT PRIVILEGES GRANT ALL ON SCHEMAS TO {user}",
        )
        one = apply_to(target_database, endpoint=endpoint_of(target_database, user=user, password="secret"))
        one.add(2)
        for limited in (f"ROLE {user}", f"DATABASE {target_database.name}"):
            one.waits.clear()
            with closing(connect(server)) as admin:
                admin.execute(f"ALTER {limited} CONNECTION LIMIT 0")
                admin.execute(END_SESSIONS)
                one.on_wait = lambda waits, c=admin, x=limited: (
                    len(waits) == 3 and c.execute(f"ALTER {x} CONNECTION LIMIT -1")
                )
                one.add(2)
            assert "too many connections" in one.waits[1] and "raise max_connections" in one.waits[1]
            one.assert_once()
    finally:
        one.close()
        target_database.execute(f"DROP OWNED BY {user}", f"DROP ROLE {user}")


def test_pitfall_44_a_target_that_is_read_only_for_a_while(target_database: Database, apply_to: Make) -> None:
    one = apply_to(target_database)
    one.add(2)
    with closing(connect(target_database.server)) as admin:
        admin.execute(f"ALTER DATABASE {target_database.name} SET default_transaction_read_only = on")
        admin.execute(END_SESSIONS)
        reset = f"ALTER DATABASE {target_database.name} RESET default_transaction_read_only"
        one.on_wait = lambda waits: len(waits) == 3 and admin.execute(reset)
        one.add(2)
    assert "read-only transaction [25006] — the target is read-only: point the job at the primary" in one.waits[-1]
    one.assert_once()


def test_pitfall_45_a_full_target_is_waited_for(
    target_database: Database, apply_to: Make, servers_directory: Path
) -> None:
    """Longer than anything else is, and nothing of an epoch that found no room is there."""
    one = apply_to(target_database)
    one.add(2)
    place = servers_directory / unique_name("disk")
    place.mkdir()
    owner = target_database.server.datadir.stat().st_uid if target_database.server.datadir else 0
    with small_disk(place, 2, owner) as disk, closing(target_database.connect()) as admin:
        tablespace, ballast = unique_name("small"), disk / "ballast"
        admin.execute(f"CREATE TABLESPACE {tablespace} LOCATION '{disk}'")
        admin.execute(f"ALTER TABLE shop.heap SET TABLESPACE {tablespace}")
        fill(ballast)

        def make_room(waits: list[str]) -> None:
            one.applier.progress.patience._failures[:] = [0.0] * 20
            if len(waits) == 12:
                ballast.unlink()

        one.on_wait = make_room
        one.add(200)
        one.assert_once()
        admin.execute("ALTER TABLE shop.heap SET TABLESPACE pg_default")
        admin.execute(f"DROP TABLESPACE {tablespace}")
    assert len(one.waits) == 12 and "[53100] — make room on the target's disk" in one.waits[0]


def test_busy_targets_are_given_up_by_name(target_database: Database, apply_to: Make) -> None:
    """Without a commit for five minutes and ten tries."""
    one = apply_to(target_database)
    target_database.execute("CREATE SEQUENCE public.tries", SAYS)
    target_database.execute(
        "CREATE TRIGGER says BEFORE INSERT ON shop.heap FOR EACH ROW EXECUTE FUNCTION public.says('40001', '1000')"
    )
    one.on_wait = lambda waits: one.applier.progress.patience._failures.__setitem__(0, time.monotonic() - 301)
    with pytest.raises(TargetBusy, match="in the way"):
        one.add(1)
    assert len(one.waits) == 9


# --- servers that go away ---------------------------------------------------------------------------------------------


def loses_commits(one: Applied, database: Database) -> bool:
    """Apply something to a server that dies then. False where ten seconds went by before: it has written all down."""
    database.execute("SET synchronous_commit = on; SELECT pg_switch_wal(); CHECKPOINT")
    kept = one.rows
    one.add(5)
    database.server.stop(immediate=True)
    database.server.start()
    return database.query("SELECT sequence FROM anabranch.checkpoint") == [(kept,)]


def test_rule_09_10_a_target_restarts_loses_commits_and_is_a_standby(servers_directory: Path, apply_to: Make) -> None:
    """Commits that the server did not write down before it died are applied again, rows that were staged in it are staged
    again; a standby is waited for until it is promoted."""
    options = ("--synchronous-commit=off", "--wal-writer-delay=10s", "--wal-writer-flush-after=0")
    with start_postgresql(servers_directory / unique_name("target"), options=options) as server:
        database = create_database(server, "target")
        one = apply_to(database)
        one.add(5)
        server.stop()
        server.start()
        one.add(5)
        one.assert_once()
        until(lambda: loses_commits(one, database), "the server writes all commits down before it dies")
        one.add(5)
        one.assert_once()
        crashes = iter([True])

        def crash() -> None:
            if next(crashes, False):  # what was staged is empty afterwards
                server.stop(immediate=True)
                server.start()
                one.applier.progress.writer.close()

        by_executors(one, Here(crash))
        one.add(5)
        one.assert_once()
        one.applier.carrier.executors = None
        server.stop()
        (server.datadir / "standby.signal").touch()
        server.start()
        one.waits.clear()
        one.on_wait = lambda waits: len(waits) == 3 and database.query("SELECT pg_promote()")
        one.add(5)
        assert "[25006]" in one.waits[1]
        one.assert_once()
