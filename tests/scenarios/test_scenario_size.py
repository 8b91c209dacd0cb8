"""Large things: one transaction of many rows, values of 64 MB, tables of 1,017 columns. What each process needs is bounded, a
transaction is visible at once, and disk is given back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import pytest

from anabranch.demo.child import descendants
from anabranch.testing import faults
from anabranch.testing.databases import Database
from anabranch.testing.servers import Server
from anabranch.testing.usage import Usage, folder_size
from anabranch.trail.reader import TrailReader
from anabranch.trail.retention import readers
from rigs.scenario import Running, Scenario, repeating, wait_until

Make = Callable[..., Scenario]
PYTHON_MB, JAVA_MB = 300, 1024
ROWS = 300_000
DIGITS = ("CREATE TABLE digit (n INT PRIMARY KEY)", "INSERT INTO digit VALUES (0),(1),(2),(3),(4),(5),(6),(7),(8),(9)")
BIG = "CREATE TABLE big (id INT PRIMARY KEY, n INT NOT NULL, word VARCHAR(60) NOT NULL)"
NUMBERS = (
    "(SELECT a.n + 10*b.n + 100*c.n + 1000*d.n + 10000*e.n + 100000*f.n AS n FROM digit a, digit b, digit c, digit d,"
    " digit e, digit f) AS numbers"
)
INSERT = f"INSERT INTO big SELECT n, 0, CONCAT('row ', MD5(n)) FROM {NUMBERS} WHERE n < {ROWS}"
SMALL = "[capture]\nsegment_mb = 1\nretain_hours = 0\n[apply]\nstage_rows = 150000\n"  # executors stage it
STAGES = "SELECT count(*) FROM pg_tables WHERE schemaname = 'anabranch' AND starts_with(tablename, 'stage_')"
EPOCH_IS_OPEN = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'anabranch:%'"
    " AND xact_start IS NOT NULL AND query ~ 'big'"
)


def assert_bounded(peaks: Mapping[str, float], python: float = PYTHON_MB) -> None:
    """`peaks`: MB of the largest process of each kind."""
    assert {"capture", "apply", "worker", "java"} <= peaks.keys()
    assert peaks["java"] <= JAVA_MB and max(mb for kind, mb in peaks.items() if kind != "java") <= python, str(peaks)


@contextmanager
def measured(run: Running) -> Iterator[Usage]:
    with Usage(lambda: [run.pid, *descendants(run.pid)]) as usage:
        yield usage


@contextmanager
def pitfall_14_all_or_nothing(made: Scenario, *counts: int) -> Iterator[None]:
    """Whoever looks meanwhile finds so many rows in `big`, and no other number."""
    seen: set[int] = set()

    def look() -> None:
        seen.add(made.target.query("SELECT count(*) FROM public.big")[0][0])
        assert seen <= set(counts), seen

    with repeating(look, 0.3):
        yield
        wait_until(lambda: counts[-1] in seen, 30, "a look at the end")


def assert_given_back(made: Scenario, megabytes: float) -> None:
    """At rest: of the trail little is left, of staging nothing."""
    wait_until(lambda: folder_size(made.trail) < megabytes, 60, "the trail is small again", lambda: segments(made))
    wait_until(lambda: made.target.query(STAGES) == [(0,)], 60, "no staging table is left")
    assert [file.name for file in (made.trail / "staging").glob("*")] == []


def segments(made: Scenario) -> str:
    return f"{sorted(file.name for file in made.trail.iterdir())}, {readers(made.trail)}"


@pytest.mark.timeout(1200)
def test_pitfall_14_one_transaction_of_300_000_rows_in_bounded_memory(mariadb: Server, scenario: Make) -> None:
    made = scenario(mariadb, *DIGITS, BIG, is_forked=False)
    made.write_job(SMALL)
    run = made.start("run")
    made.wait_streaming(run, 240)
    made.sync(run)
    with measured(run) as usage:
        with pitfall_14_all_or_nothing(made, 0, ROWS):
            made.source.execute(INSERT)
            made.sync(run, 240)
        made.source.execute("UPDATE big SET n = n + 1")
        made.sync(run, 240)
        assert made.target.query("SELECT count(*), sum(n), sum(id) FROM public.big") == [
            (ROWS, ROWS, ROWS * (ROWS - 1) // 2)
        ]
        with pitfall_14_all_or_nothing(made, ROWS, 0):
            made.source.execute("DELETE FROM big")
            made.sync(run, 240)
    assert_bounded(usage.peaks)
    assert_given_back(made, 4)
    run.stop()


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_pitfall_23_capture_and_apply_killed_inside_a_large_transaction(mariadb: Server, scenario: Make) -> None:
    """What they leave, segments of half a transaction and tables of staged rows, is given back, too."""
    made = scenario(mariadb, *DIGITS, BIG, is_forked=False)
    made.write_job(SMALL)
    run = made.start("run")
    made.wait_streaming(run, 240)
    made.sync(run)
    before = folder_size(made.trail)
    with measured(run) as usage, pitfall_14_all_or_nothing(made, 0, ROWS):
        with faults.frozen(run.part("apply")):  # what comes is not applied before capture is killed
            made.source.execute(INSERT)
            wait_until(lambda: folder_size(made.trail) > before + 2, 60, "a part is in the trail", run.tail, run)
            faults.kill_tree(run.part("capture"))
        wait_until(lambda: made.target.query(STAGES)[0][0] > 2, 120, "it is staged", run.tail, run)
        wait_until(lambda: made.target.query(EPOCH_IS_OPEN)[0][0], 60, "an epoch is open", run.tail, run)
        faults.kill_tree(run.part("apply"))
        made.sync(run, 240)
    made.source.execute("UPDATE big SET n = n + 1 WHERE id % 2 = 0", "DELETE FROM big WHERE id % 3 = 0")
    made.sync(run, 240)
    made.assert_identical("big")
    assert_bounded(usage.peaks)
    assert_given_back(made, 4)
    run.stop()


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_rule_05_a_large_transaction_inside_the_loads_window(mysql_family: Server, scenario: Make) -> None:
    """The load stands between its chunks while every row is changed in one transaction."""
    made = scenario(mysql_family, *DIGITS, BIG, INSERT, is_forked=False)
    made.write_job("[load]\nparallel = 1\n" + SMALL)
    run = made.start("run")
    with measured(run) as usage:
        ledger = "SELECT count(*) FROM anabranch.load_chunk"
        wait_until(lambda: made.states().get("big") == "loading", 120, "the load begins", run.tail, run)
        wait_until(lambda: made.target.query(ledger)[0][0], 120, "a chunk is loaded", run.tail, run)
        with faults.frozen(run.part("load")):
            made.source.execute("UPDATE big SET n = n + 1", "DELETE FROM big WHERE id % 10 = 0")
            made.source.execute("UPDATE big SET id = id + 1000000 WHERE id % 10 = 1")
        made.wait_streaming(run, 240)
        made.sync(run, 240)
    made.assert_identical("big")
    assert_bounded(usage.peaks)
    run.stop()


MEGABYTES = 64
BYTES = f"REPEAT(UNHEX(MD5(1)), {MEGABYTES << 16})"
WORDS = f"REPEAT('0123456789abcdef', {MEGABYTES << 16})"
FACTS = "SELECT id, length(bytes), md5(bytes), length(words), md5(words) FROM {} ORDER BY id"
VALUE_MB = (
    PYTHON_MB + 12 * MEGABYTES
)  # the text form of bytes is twice as long, and is copied while a line is made of it


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("own_source", ["mariadb"], indirect=True)
def test_values_of_64_megabytes(own_source: Server, scenario: Make) -> None:
    """Loaded, inserted, before and after a change, deleted."""
    made = scenario(own_source, is_forked=False)
    made.source.execute("SET GLOBAL max_allowed_packet = 1073741824")
    made.source.execute("CREATE TABLE wide (id INT PRIMARY KEY, bytes LONGBLOB, words LONGTEXT CHARACTER SET latin1)")
    made.source.execute(f"INSERT INTO wide VALUES (1, {BYTES}, NULL), (2, NULL, 'short')")
    run = made.start("run")
    with measured(run) as usage:
        made.wait_streaming(run, 240)
        made.source.execute(f"INSERT INTO wide VALUES (3, NULL, {WORDS})", f"INSERT INTO wide VALUES (4, {BYTES}, 'x')")
        made.source.execute("UPDATE wide SET words = 'long' WHERE id = 1", "DELETE FROM wide WHERE id = 4")
        made.sync(run, 240)
    assert made.source.query(FACTS.format("wide")) == made.target.query(FACTS.format("public.wide"))
    assert_bounded(usage.peaks, VALUE_MB)
    run.stop()


COLUMNS = 1017  # InnoDB's limit
NULLS = 3_000  # 12 MB in memory, 3 MB in the log


@pytest.mark.quick
def test_tables_of_1017_columns(mariadb: Server, scenario: Make) -> None:
    made = scenario(mariadb, *DIGITS, is_forked=False)
    names = [f"c{number}" for number in range(1, COLUMNS)]
    made.source.execute(f"CREATE TABLE broad (id INT PRIMARY KEY, {', '.join(f'{name} INT NULL' for name in names)})")
    made.source.execute(f"INSERT INTO broad VALUES {', '.join(row(number) for number in range(10))}")
    run = made.start("run")
    made.wait_streaming(run, 240)
    made.sync(run)
    with TrailReader(made.trail) as trail:
        begin = trail.end().position.sequence
    with measured(run) as usage:
        made.source.execute(f"INSERT INTO broad (id) SELECT n + 100 FROM {NUMBERS} WHERE n < {NULLS}")
        made.source.execute(f"INSERT INTO broad VALUES {', '.join(row(number) for number in range(10, 20))}")
        made.source.execute("UPDATE broad SET c1016 = id WHERE id < 1000", "UPDATE broad SET id = id + 1 WHERE id = 19")
        made.source.execute("DELETE FROM broad WHERE id BETWEEN 3 AND 7")
        made.sync(run, 240)
    there, here = (end.query(f"SELECT * FROM {table} ORDER BY id") for end, table in ends(made))
    is_identical = there == here  # three million values are no good message
    assert is_identical and len(here) == NULLS + 15
    with TrailReader(made.trail) as trail:
        assert max(ref.bytes for ref in trail.descriptors(begin)) < 8 << 20, "a chunk of NULLs is as large as others"
    assert usage.peaks["capture"] <= PYTHON_MB and usage.peaks["apply"] <= PYTHON_MB, usage.peaks
    run.stop()


def ends(made: Scenario) -> tuple[tuple[Database, str], ...]:
    return (made.source, "broad"), (made.target, "public.broad")


def row(number: int) -> str:
    return f"({number}, {', '.join(str(number * 1000 + place) for place in range(1, COLUMNS))})"
