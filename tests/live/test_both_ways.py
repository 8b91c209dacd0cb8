"""Two jobs between the same tables, one each way, at the same time: no row goes round, both ends are equal in the end (K21)."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from anabranch.connectors.mysql.source import endings
from anabranch.connectors.postgresql.source import assemble
from anabranch.errors import SourceError
from anabranch.model.ids import TableId
from anabranch.testing.databases import Database, create_database, drop_database
from anabranch.testing.in_time import PATIENCE, until
from rigs.both_ways import End, Way, are_at_rest, at_once, built, pair, rest, settle, writing
from rigs.postgresql_capture import small_memory

TABLES = (
    "CREATE TABLE t (id int PRIMARY KEY, v varchar(2000))",
    "CREATE TABLE emptied (id int PRIMARY KEY)",
)
KEYED = "CREATE TABLE kept (id int PRIMARY KEY, u int UNIQUE, t int, FOREIGN KEY (t) REFERENCES t (id))"
LARGE = (
    600  # rows of 640 bytes: more than a chunk has here, and more than a PostgreSQL keeps in memory while it decodes
)
# Servers, and what the job files say besides: transactions carried out one by one, a TRUNCATE that commits by itself.
PAIRS = {
    "mariadb and postgresql": ("mariadb", "logical_postgresql", ""),
    "mysql and postgresql": ("mysql", "logical_postgresql", '[apply]\nmode = "transaction"\nappliers = 3\n'),
    "postgresql and postgresql": ("logical_postgresql", "logical_postgresql", ""),
    "mariadb and mysql": ("mariadb", "mysql", '[apply]\ntruncate = "truncate"\n'),
}
LACKS = "anabranch.checkpoint, anabranch.load_chunk, which say what comes from"
NOT_SHOWN = r"does not show anabranch\.checkpoint, anabranch\.load_chunk, or not all the time"
Ends = Callable[..., list[End]]


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    for one in (endings, assemble):
        monkeypatch.setattr(one, "FULL_BYTES", 100_000)


@pytest.fixture
def ends(request: pytest.FixtureRequest) -> Iterator[Ends]:
    """Databases on the servers of these fixtures, with the tables."""
    made: list[Database] = []

    def make(*fixtures: str) -> list[End]:
        for fixture in fixtures:
            database = create_database(request.getfixturevalue(fixture), "end")
            made.append(database)
            database.execute(*TABLES)
            if End(database).is_postgresql:
                small_memory(database)
        return [End(database) for database in made]

    yield make
    for database in made:
        drop_database(database)


def rows_of(first: int, count: int, text: str) -> str:
    return "INSERT INTO t VALUES " + ", ".join(f"({n}, '{text}')" for n in range(first, first + count))


@pytest.mark.parametrize(("one_end", "other_end", "settings"), PAIRS.values(), ids=PAIRS)
def test_rule_21_pitfall_46_two_jobs_between_the_same_tables(
    ends: Ends, tmp_path: Path, one_end: str, other_end: str, settings: str
) -> None:
    """Writers at both ends on keys of their own, rows of the one changed at the other, a transaction that is read in parts, a
    TRUNCATE, a table that is loaded again: what each job reads is what users have written there, and nothing else."""
    here, there = ends(one_end, other_end)
    for end in (here, there):
        end.database.execute(KEYED)
    out, back = pair(here, there, tmp_path, text=f"{settings}[load]\ndefer_constraints = true\n")
    try:
        out.here.load()
        back.here.load()
        settle(out, back)
        expected = {out: Counter[str](), back: Counter[str]()}

        def by(way: Way, *statements: tuple[str, str, int]) -> None:
            for statement, table, images in statements:
                way.source.database.execute(statement)
                expected[way][table] += images

        def one(way: Way, first: int) -> Callable[[int], list[tuple[Database, str]]]:
            return lambda number: [(way.source.database, rows_of(first + 2 * number, 2, "live"))]

        with writing(one(out, 1_000_000), one(back, 2_000_000)) as counts:
            for number in range(3):  # each is a new start of both
                by(
                    out,
                    (rows_of(10 * number, 5, "out"), "t", 5),
                    (f"INSERT INTO emptied VALUES ({number})", "emptied", 1),
                )
                by(back, (rows_of(1000 + 10 * number, 5, "back"), "t", 5))
                at_once(out, back)
        for way, count in zip((out, back), counts, strict=True):
            expected[way]["t"] += 2 * count
        settle(out, back)
        by(out, ("UPDATE t SET v = 'changed here' WHERE id = 1000", "t", 2), ("DELETE FROM t WHERE id = 1001", "t", 1))
        by(back, ("UPDATE t SET v = 'changed there' WHERE id = 0", "t", 2), ("TRUNCATE TABLE emptied", "emptied", 1))
        by(out, ("INSERT INTO kept VALUES (1, 1, 1)", "kept", 1))
        by(out, (rows_of(10_000, LARGE, "x" * 640), "t", LARGE))
        by(back, (rows_of(20_000, LARGE, "y" * 640), "t", LARGE))
        settle(out, back)
        equal(here, there)
        found = {way: Counter(table for table, _ in way.images()) for way in (out, back)}
        assert found == expected
        assert {origin for way in (out, back) for _, origin in way.images()} == {None}
        loaded_again(out, back, by)
        found = {way: Counter(table for table, _ in way.images()) for way in (out, back)}
        assert found == expected
    finally:
        out.drop()
        back.drop()


def loaded_again(out: Way, back: Way, by: Callable[..., None]) -> None:
    """The load's emptying and its rows do not go back; a row of it that a user changes then does (pitfall 65). Keys of the
    tables go for the load, and come again behind it: the job that reads there follows the tables on."""
    for table in ("t", "kept"):
        out.here.load(TableId(out.source.schema, table))
        built(out, back)
    settle(out, back)
    equal(out.source, out.target)
    assert out.source.rows("kept") == out.target.rows("kept") == [(1, 1, 1)]
    by(back, ("UPDATE t SET v = 'after the load' WHERE id = 1", "t", 2))
    by(back, ("DELETE FROM t WHERE id = 2", "t", 1))
    settle(out, back)
    equal(out.source, out.target)
    assert out.source.database.query("SELECT v FROM t WHERE id = 1") == [("after the load",)]


def equal(one: End, other: End) -> None:
    for table in ("t", "emptied"):
        assert one.rows(table) == other.rows(table), table


def test_rule_21_two_jobs_at_rest_do_not_wake_each_other(ends: Ends, tmp_path: Path) -> None:
    """One transaction moves one checkpoint; the other end's log then has that, which moves nothing."""
    here, there = ends("mariadb", "logical_postgresql")
    out, back = pair(here, there, tmp_path)
    try:
        out.here.load()
        back.here.load()
        built(out, back)
        until(lambda: are_at_rest(out, back), "the jobs do not wake each other")
        before = out.epoch(), back.epoch()
        here.database.execute(rows_of(1, 1, "once"))
        settle(out, back)
        assert (out.epoch(), back.epoch()) == (before[0] + 1, before[1])
        assert are_at_rest(out, back)
        until(
            lambda: lags(out, back) == [0, 0] or rest(out, back), "both have read all, also what a server notes itself"
        )
    finally:
        out.drop()
        back.drop()


def test_rule_21_a_cascade_and_its_way_back(ends: Ends, tmp_path: Path) -> None:
    """A to B to C and C to B to A: each job leaves out its twin alone, and says of all others where they come from."""
    a, b, c = ends("mariadb", "logical_postgresql", "mysql")
    beside = {"text": '[load]\nexisting = "keep"\n'}  # two jobs write to B, each its own keys
    (ab, ba), (bc, cb) = pair(a, b, tmp_path, **beside), pair(b, c, tmp_path, **beside)
    ways = ab, bc, cb, ba
    try:
        for way in ways:
            way.here.load()
            built(way)  # another job waits for that
        settle(*ways)
        for number, end in enumerate((a, b, c)):
            end.database.execute(rows_of(100 * number, 10, f"of {number}"))
        settle(*ways)
        a.database.execute("UPDATE t SET v = 'of a' WHERE id IN (0, 100, 200)")
        c.database.execute("UPDATE t SET v = 'of c' WHERE id IN (1, 101, 201)", "DELETE FROM t WHERE id = 102")
        settle(*ways)
        equal(a, b)
        equal(b, c)
        found = [Counter(origin for _, origin in way.images()) for way in ways]
        here, there = 10 + 2 * 3, 10 + 2 * 3 + 1  # of A's users, of C's
        assert found == [
            {None: here},
            {None: 10, f"anabranch:{ab.name}": here},
            {None: there},
            {None: 10, f"anabranch:{cb.name}": there},
        ]
    finally:
        for way in ways:
            way.drop()


def test_rule_21_a_ring_is_refused_by_the_jobs_that_lead_back(ends: Ends, tmp_path: Path) -> None:
    """A to B to C: the one from C to A would bring A's rows back, of which C's log says that B's job has written them."""
    a, b, c = ends("mariadb", "logical_postgresql", "mysql")
    ab, bc = (Way(*way, tmp_path).write() for way in ((a, b), (b, c)))
    ca = Way(c, a, tmp_path, leave_out=(ab.name,)).write()
    try:
        for way in (ab, bc):
            way.here.load()
        found = loops(ca)
        assert f"the job {ab.name}, over the job {bc.name}, brings back what is written here" in found
        assert "both ways, each to its neighbour" in found
    finally:
        ab.drop()
        bc.drop()


def test_rule_21_a_pair_is_refused_unless_both_leave_the_other_out(ends: Ends, tmp_path: Path) -> None:
    """The first one runs already; what it lacks is said to the second one, and mended by its next start."""
    here, there = ends("logical_postgresql", "logical_postgresql")
    out, back = pair(here, there, tmp_path)
    theirs, out.leave_out = out.leave_out, ()
    out.write()
    try:
        out.here.load()
        back.leave_out = ()
        assert 'let both go on: [source] leave_out = ["anabranch:' in loops(back.write())
        back.leave_out = (out.name,)
        assert "and does not leave out what this job has written" in loops(back.write())
        out.leave_out = theirs
        out.write()
        assert LACKS in said(out, "source.publication")
        out.here.capture()  # the other one has not begun: nothing keeps this one from going on
        out.here.load()  # notes it for the other one
        assert loops(back) == said(out, "source.publication") == ""
        back.here.load()
        assert loops(out) == loops(back) == ""
        settle(out, back)
        taken_out_of_the_publication(out, back)
    finally:
        out.drop()
        back.drop()


def taken_out_of_the_publication(out: Way, back: Way) -> None:
    """While capture runs: it ends before it gives on what the other job writes from then on, and does not start again."""
    here, is_over = out.source.database, threading.Event()
    with ThreadPoolExecutor(1) as pool:
        captured = pool.submit(out.here._capture, out.job, lambda _: is_over.is_set())
        try:
            before = len(out.images())
            here.execute("INSERT INTO t VALUES (5000, 'a user')")
            until(lambda: len(out.images()) == before + 1, "capture reads")
            ((name,),) = here.query("SELECT pubname::text FROM pg_publication WHERE pubname LIKE 'anabranch%'")
            here.execute(f"ALTER PUBLICATION {name} DROP TABLE anabranch.checkpoint, anabranch.load_chunk")
            back.source.database.execute("INSERT INTO t VALUES (6000, 'the other job')")
            back.here.stream()
            with pytest.raises(SourceError, match=NOT_SHOWN):
                captured.result(PATIENCE)
        finally:
            is_over.set()
    with pytest.raises(SourceError, match=NOT_SHOWN):
        out.here.capture()
    assert len(out.images()) == before + 1, "what the other job has written did not enter the trail"
    assert LACKS in said(out, "source.publication")
    assert "cannot see which transactions are this job's" in loops(back)
    here.execute(f"ALTER PUBLICATION {name} ADD TABLE anabranch.checkpoint WHERE (job = ''), anabranch.load_chunk")
    with pytest.raises(
        SourceError, match=r"does not show anabranch\.checkpoint, or not"
    ):  # with a filter it shows not all
        out.here.capture()
    here.execute(f"ALTER PUBLICATION {name} DROP TABLE anabranch.checkpoint, anabranch.load_chunk")
    out.job.setup(execute=True)  # a person says by it that nothing was written meanwhile
    assert loops(back) == said(out, "source.publication") == ""


def lags(*ways: Way) -> list[int | None]:
    return [way.job.status()["targets"][0]["lag"]["bytes"] for way in ways]


def loops(way: Way) -> str:
    return said(way, "target.loop")


def said(way: Way, check: str) -> str:
    """Run preflight; return what it says of a check, with the hints."""
    return "; ".join(f"{one.message} — {one.hint}" for one in way.job.preflight().results if one.check == check)
