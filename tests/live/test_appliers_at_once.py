"""`[apply] appliers` at a real PostgreSQL, MySQL and MariaDB: transactions that are carried out at once and commit in the
source's order, and what becomes of those that meet."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from anabranch import failpoints
from anabranch.errors import Fenced
from anabranch.testing.databases import Database, unique_name
from anabranch.testing.in_time import until
from anabranch.testing.servers import Server
from rigs.chunks import ITEMS
from rigs.drawn import Transactions, drawn
from rigs.mysql_applier import Carried
from rigs.one_by_one import ITEMS as ROWS
from rigs.one_by_one import alone, insert, item, options
from rigs.postgresql_applier import TABLES, Applied


@pytest.fixture
def one(target_database: Database, tmp_path: Path) -> Iterator[Applied]:
    target_database.execute(*TABLES, "ALTER TABLE shop.items ADD UNIQUE (a)")
    with closing(Applied(target_database, tmp_path / "trail", options=options("appliers"))) as made:
        yield made
    failpoints.arm({})


@pytest.fixture
def carried(mysql_family: Server, source_database: Callable[[Server], Database], tmp_path: Path) -> Iterator[Carried]:
    database = source_database(mysql_family)
    database.execute("CREATE TABLE items (id bigint PRIMARY KEY, a bigint UNIQUE, b text)")
    with closing(Carried(database, tmp_path / "trail", [ITEMS], options=options("appliers"))) as made:
        yield made
    failpoints.arm({})


@pytest.mark.parametrize("seed", [1, 2])
def test_gg_30_a_postgresql_ends_as_by_one_session(one: Applied, target_database: Database, seed: int) -> None:
    """Keys that move, unique values that go from row to row, of which nobody has told the appliers."""
    transactions, rows = drawn(seed, 150)
    one.applier.apply(one.append(transactions))
    assert target_database.query(ROWS) == rows
    assert target_database.query("SELECT sequence, epoch >= 150 FROM anabranch.checkpoint") == [(150, True)]


def test_gg_30_a_mysql_ends_as_by_one_session(carried: Carried) -> None:
    transactions, rows = drawn(3, 60)
    carried.apply(*transactions)
    assert list(carried.database.query("SELECT id, a, b FROM items ORDER BY id")) == rows
    assert carried.checkpoint == 60


PGOUTPUT = "'proto_version', '1', 'publication_names', 'everything'"


def is_taken(database: Database, value: int) -> bool:
    """Return whether a transaction that is open has this unique value: whoever wants it as well waits for that."""
    with psycopg.connect(database.url) as other:
        other.execute("SET lock_timeout = '1s'")
        try:
            other.execute("INSERT INTO shop.items VALUES (-1, %s, 'never')", [value])
        except psycopg.errors.LockNotAvailable:
            return True
        finally:
            other.rollback()
    return False


def test_rule_22_a_later_one_that_has_what_an_earlier_one_wants_is_undone(
    one: Applied, target_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first waits for a foreign session; the third has a unique value by then that the first takes and the second gives up.
    Only the first waits in the target, the third one for its turn: no server sees that circle."""
    target_database.execute("INSERT INTO shop.items VALUES (100, 100, 'held')")
    steps: Transactions = [
        [("items", "u", item(100, 100, "held"), item(100, 100, "mine")), insert(item(5, 7))],
        [("items", "d", item(5, 7))],
        [insert(item(6, 7))],
        [insert(item(8, 8))],
    ]
    general = alone(one, monkeypatch)
    upto = one.append([*steps, *([insert(item(n, n))] for n in range(200, 220))])
    with psycopg.connect(target_database.url) as foreign:
        foreign.execute("SELECT FROM shop.items WHERE id = 100 FOR UPDATE")
        thread = threading.Thread(target=one.applier.apply, args=[upto])
        thread.start()
        until(lambda: is_taken(target_database, 7) or bool(general), "the third waits for its turn")
    thread.join()
    assert general and general[0] == 1
    assert [number for number, *_ in target_database.query(ROWS)] == [6, 8, 100, *range(200, 220)]
    assert target_database.query("SELECT sequence FROM anabranch.checkpoint") == [(24,)]


def test_rule_22_at_a_mysql_too_nobody_waits_for_ever(carried: Carried) -> None:
    """Undo the later of two that meet in a unique value, where it came first: the earlier one is refused what it wants."""
    steps: Transactions = [[insert(item(1, 1))], [("items", "d", item(1, 1))], [insert(item(2, 1))]]
    carried.apply(*[one for _ in range(5) for one in [*steps, [("items", "d", item(2, 1))]]])
    assert list(carried.database.query("SELECT id FROM items")) == [] and carried.checkpoint == 20


@pytest.mark.parametrize("point", ["apply.carried", "apply.in.turn"])
@pytest.mark.parametrize("at", [1, 30])
def test_rule_09_a_postgresql_has_a_beginning_whatever_dies(
    one: Applied, target_database: Database, point: str, at: int
) -> None:
    upto = one.append([[insert(item(n, n))] for n in range(60)])
    failpoints.arm({failpoints.VARIABLE: f"{point}=raise@{at}"})
    with pytest.raises(failpoints.FailpointReached):
        one.applier.apply(upto)
    failpoints.arm({})
    [(place,)] = target_database.query("SELECT sequence FROM anabranch.checkpoint")
    assert target_database.query("SELECT id FROM shop.items ORDER BY id") == [(n,) for n in range(place)] and place < 60
    one.applier.apply(upto)
    assert target_database.query("SELECT count(*), max(id) FROM shop.items") == [(60, 59)]


@pytest.mark.parametrize("point", ["apply.carried", "apply.in.turn"])
def test_rule_09_a_mysql_has_a_beginning_whatever_dies(carried: Carried, point: str) -> None:
    upto = carried.append([[insert(item(n, n))] for n in range(60)])
    failpoints.arm({failpoints.VARIABLE: f"{point}=raise@20"})
    with pytest.raises(failpoints.FailpointReached):
        carried.applier.apply(upto)
    failpoints.arm({})
    place = carried.checkpoint
    assert [n for (n,) in carried.database.query("SELECT id FROM items ORDER BY id")] == list(range(place))
    carried.applier.apply(upto)
    assert list(carried.database.query("SELECT count(*), max(id) FROM items")) == [(60, 59)]


def test_rule_09_a_mysql_that_is_claimed_by_another_ends_the_sessions_of_all_appliers(carried: Carried) -> None:
    carried.apply(*([insert(item(n, n))] for n in range(20)))
    writer: Any = carried.applier.progress.writer
    sessions = [one._stages.connection for one in writer._appliers._opened.values()]
    assert len(sessions) == 3
    with closing(carried.begin("another").progress.writer):
        for session in sessions:
            with pytest.raises(Exception, match=r"(?i)gone away|lost|killed|closed"):
                session.query("SELECT 1")
        with pytest.raises(Fenced):
            carried.apply(*([insert(item(n, n))] for n in range(20, 40)))
    assert list(carried.database.query("SELECT count(*) FROM items")) == [(20,)]


def test_rule_21_the_log_of_a_postgresql_says_first_which_job_it_was(
    postgresql_source: Server, source_database: Callable[[Server], Database], tmp_path: Path
) -> None:
    """Whoever leaves a job out looks at the first change of a transaction."""
    database, slot = source_database(postgresql_source), unique_name("first")
    database.execute(*TABLES)
    read = f"SELECT data FROM pg_logical_slot_get_binary_changes('{slot}', NULL, NULL, {PGOUTPUT})"
    with closing(Applied(database, tmp_path / "trail", options=options("appliers"))) as one:
        database.execute("CREATE PUBLICATION everything FOR TABLE anabranch.checkpoint, shop.items")
        database.execute(f"SELECT pg_create_logical_replication_slot('{slot}', 'pgoutput')")
        try:
            one.applier.apply(one.append([[insert(item(n, n))] for n in range(12)]))
            messages = [bytes(data) for (data,) in database.query(read)]
        finally:
            database.execute(f"SELECT pg_drop_replication_slot('{slot}')")
    tables = {one[1:5]: one[5:].split(b"\0")[1] for one in messages if one[:1] == b"R"}
    changes = [one for one in messages if one[:1] in b"BIUD"]
    firsts = [then for before, then in itertools.pairwise(changes) if before[:1] == b"B" != then[:1]]
    assert len(firsts) >= 12 and {tables[one[1:5]] for one in firsts} == {b"checkpoint"}
    assert {one[:1] for one in firsts} == {b"I", b"U"} and sum(one[:1] == b"I" for one in firsts) == 12
    assert database.query("SELECT count(*) FROM anabranch.checkpoint") == [(1,)]


def test_rule_21_the_log_of_a_mysql_says_first_which_job_it_was(carried: Carried) -> None:
    """Whoever leaves a job out looks at the first change of a transaction."""
    [(file, place)] = [row[:2] for row in carried.database.query("SHOW MASTER STATUS")]
    carried.apply(*([insert(item(n, n))] for n in range(12)))
    events = carried.database.query(f"SHOW BINLOG EVENTS IN '{file}' FROM {place}")
    steps = [(row[2], row[5]) for row in events if row[2] in ("Table_map", "Xid")]
    pairs = itertools.pairwise([("Xid", ""), *steps])
    firsts = [info for (before, _), (kind, info) in pairs if (before, kind) == ("Xid", "Table_map")]
    ours = [info for info in firsts if "anabranch.checkpoint" in info or f"{carried.database.name}." in info]
    assert len(ours) >= 12 and all("anabranch.checkpoint" in info for info in ours)


def test_what_a_trigger_of_a_postgresql_may_read_is_there_in_order(one: Applied, target_database: Database) -> None:
    """Each row notes how many there were before it: one session does it."""
    target_database.execute(
        "CREATE FUNCTION public.counted() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " SELECT count(*) INTO NEW.b FROM shop.items; RETURN NEW; END $$",
        "CREATE TRIGGER counted BEFORE INSERT ON shop.items FOR EACH ROW EXECUTE FUNCTION public.counted()",
    )
    one.applier.apply(one.append([[insert(item(n, n))] for n in range(40)]))
    assert target_database.query("SELECT id, b::int FROM shop.items ORDER BY id") == [(n, n) for n in range(40)]
