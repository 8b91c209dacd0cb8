"""Jobs with Spark to a MariaDB and a PostgreSQL: executors stage epochs, one is killed where it hurts, one target is away
while the other goes on; one is edited, and goes on one transaction at a time."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from anabranch import failpoints
from anabranch.testing import faults
from anabranch.testing.databases import Database
from anabranch.testing.faults import Proxy
from anabranch.testing.servers import Server
from rigs.scenario import Running, wait_until
from rigs.scenario_busy import busy
from rigs.scenario_mysql_target import AtMysql, job_at_mysql

SOON = 900.0  # seconds: five processes with Spark begin at once
TABLES = (
    "CREATE TABLE parent (id INT PRIMARY KEY, name VARCHAR(40), UNIQUE KEY (name))",
    "CREATE TABLE item (id INT PRIMARY KEY, p INT, n INT, note VARCHAR(40), FOREIGN KEY (p) REFERENCES parent (id)"
    " ON DELETE CASCADE)",
    "CREATE TABLE noise (n INT, text VARCHAR(40))",
    "CREATE TABLE log (id INT PRIMARY KEY, day INT, text VARCHAR(40))",
    "CREATE TABLE tick (id INT PRIMARY KEY, n INT)",
    *(f"INSERT INTO parent VALUES ({n}, 'parent {n}')" for n in range(1, 21)),
    "INSERT INTO item VALUES " + ", ".join(f"({n}, {1 + n % 20}, 0, 'item {n}')" for n in range(1, 400)),
    "INSERT INTO noise VALUES (1, 'x'), (1, 'x'), (NULL, NULL)",
    "INSERT INTO log VALUES " + ", ".join(f"({n}, {n % 10}, 'day {n}')" for n in range(1, 200)),
)
ALL = ("parent", "item", "noise", "log", "tick")
STAGED = '[apply]\nrunner = "continuous"\nstage_rows = 10\n'
ALONE = '[apply]\nmode = "transaction"\n'


def changes(n: int) -> list[str]:
    """Change rows of every table, some of them many at once, and let two parents swap their names, which are unique."""
    return [
        f"INSERT INTO parent VALUES ({n}, 'parent {n}')",
        f"INSERT INTO item VALUES ({n}, {n}, 0, NULL), ({n + 100_000}, {1 + n % 20}, 1, 'more')",
        f"UPDATE item SET n = n + 1 WHERE id % 20 = {n % 20}",
        f"DELETE FROM parent WHERE id = {n - 3} AND id > 1000",
        "UPDATE parent SET name = 'aside' WHERE id = 1",
        f"UPDATE parent SET name = CONCAT('first ', {n}) WHERE id = 2",
        f"UPDATE parent SET name = CONCAT('second ', {n}) WHERE id = 1",
        f"INSERT INTO noise VALUES ({n % 5}, 'n'), ({n % 5}, 'n')",
        f"DELETE FROM noise WHERE n = {n % 5} LIMIT 1",
        f"INSERT INTO log VALUES ({n}, {n % 10}, 'day')",
        f"UPDATE log SET day = day + 1 WHERE id = {n - 1}",
        *(f"INSERT INTO tick VALUES ({n * 10 + k}, {k})" for k in range(10)),  # alone one by one, in a run
    ]


@dataclass
class Both:
    """The job at its two targets: `made` compares at the MariaDB, this at the PostgreSQL (`elder`)."""

    made: AtMysql
    elder: Database
    line: Proxy

    def write(self, text: str) -> None:
        self.made.write_job(f'[[targets]]\nname = "elder"\nurl = "{self.elder.url}"\n{text}')

    def states(self) -> dict[str, str]:
        if not self.elder.query("SELECT to_regclass('anabranch.table_state') IS NOT NULL")[0][0]:
            return {}
        rows = self.elder.query("SELECT source_table, state FROM anabranch.table_state")
        return {table.partition(".")[2]: state for table, state in rows}

    def wait_streaming(self, run: Running) -> None:
        self.made.wait_streaming(run, SOON)
        wait_until(lambda: set(self.states().values()) == {"streaming"}, SOON, "elder streams", run.tail, run)

    def wait_mark(self, run: Running) -> None:
        """The last mark of `made` has come to the elder, too."""
        query = f'SELECT count(*) FROM "{self.made.there}".scenario_mark WHERE id = {self.made._marks}'
        wait_until(lambda: self.elder.query(query)[0][0] == 1, SOON, "a mark at elder", run.tail, run)

    def sync(self, run: Running) -> None:
        self.made.sync(run, SOON)
        self.wait_mark(run)

    def assert_identical(self, *tables: str) -> None:
        self.made.assert_identical(*tables or ALL)
        for table in tables or ALL:
            wanted = sorted(self.made.source.query(f"SELECT * FROM {table}"), key=repr)
            found = sorted(self.elder.query(f'SELECT * FROM "{self.made.there}".{table}'), key=repr)
            assert wanted == found, table

    def apply_of(self, run: Running, target: str) -> int:
        words = f"-m anabranch apply {self.made.job_file} --target {target}"
        return int(
            wait_until(lambda: next(iter(faults.find(run.pid, words)), None), SOON, f"apply of {target}", run.tail, run)
        )


@pytest.fixture
def both(
    mysql: Server,
    mariadb: Server,
    source_database: Callable[[Server], Database],
    target_database: Database,
    tmp_path: Path,
) -> Iterator[Both]:
    source = source_database(mysql)
    source.execute(*TABLES)
    with ExitStack() as stack:
        line = stack.enter_context(Proxy(mariadb.host, mariadb.port))
        place = ("127.0.0.1", line.port)
        made = stack.enter_context(job_at_mysql(source, mariadb, tmp_path / "job", is_quick=False, target_at=place))
        stack.callback(line.restore)
        yield Both(made, target_database, line)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_executors_stage_for_a_mariadb_and_a_postgresql(
    both: Both, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made = both.made
    both.write(STAGED)
    with monkeypatch.context() as armed:
        armed.setenv(failpoints.VARIABLE, "apply.merged.staged=exit@3")  # as SIGKILL, in an epoch that executors staged
        armed.setenv(failpoints.LOG_VARIABLE, str(tmp_path / "reached"))
        run = made.start("run")
        both.wait_streaming(run)
        with busy(made, changes, rest=0.2):
            executors_stage_and_apply_dies_in_the_middle(both, run, tmp_path / "reached")
            run.kill()
            run = made.start("run")
            both.sync(run)
            one_is_away_and_the_other_is_killed(both, run)
        both.sync(run)
        both.assert_identical()
        run.stop()


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_an_edited_job_with_spark_goes_on_one_transaction_at_a_time(
    both: Both, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    both.write("")
    both.made.run_until_caught_up(SOON)
    both.assert_identical()
    it_is_edited(both)
    one_transaction_at_a_time_and_killed(both, monkeypatch, tmp_path / "reached")
    both.made.cli("verify", seconds=SOON)


def executors_stage_and_apply_dies_in_the_middle(both: Both, run: Running, reached: Path) -> None:
    died = "apply.merged.staged=exit@3"
    wait_until(lambda: reached.exists() and died in reached.read_text(), SOON, "apply dies", run.tail, run)
    both.sync(run)


def one_is_away_and_the_other_is_killed(both: Both, run: Running) -> None:
    made = both.made
    both.line.refuse()
    wait_until(lambda: phases(made)["target"] == "waiting", SOON, "the MariaDB is waited for", run.tail, run)
    shown = made.cli("status").stdout
    assert "\ntarget      elder  postgresql://" in shown and "mariadb://" in shown and "cannot connect" in shown
    before = both.apply_of(run, "elder")
    os.kill(before, signal.SIGKILL)
    wait_until(lambda: both.apply_of(run, "elder") != before, SOON, "another apply of elder", run.tail, run)
    made._marks += 1
    made.source.execute(f"INSERT INTO scenario_mark VALUES ({made._marks})")
    both.wait_mark(run)
    assert phases(made)["target"] == "waiting"
    both.line.restore()
    both.sync(run)


def phases(made: AtMysql) -> dict[str, str]:
    return {one["name"]: one["phase"] for one in made.status()["targets"]}


def it_is_edited(both: Both) -> None:
    """A filter, and a column with another name, at both targets."""
    made = both.made
    of = f'[[tables]]\nname = "{made.schema}.'
    rules = f'{of}log"\nwhere = "id % 2 = 0"\n{of}noise"\ncolumns.rename = {{ text = "words" }}\n'
    both.write(ALONE + rules)
    shown = made.cli("plan").stdout
    assert "rows: every row -> 'id % 2 = 0'" in shown and "--execute" in shown
    made.cli("plan", "--execute")
    assert made.states()["log"] == made.states()["noise"] == both.states()["log"] == "parked"


def one_transaction_at_a_time_and_killed(both: Both, monkeypatch: pytest.MonkeyPatch, reached: Path) -> None:
    made = both.made
    with monkeypatch.context() as armed:
        armed.setenv(failpoints.VARIABLE, "apply.pipelined=exit@2")
        armed.setenv(failpoints.LOG_VARIABLE, str(reached))
        run = made.start("run")
        with busy(made, lambda n: changes(n + 10_000), rest=2.0):
            for target in ("target", "elder"):
                made.cli("load", "--table", f"{made.schema}.log", "--target", target, seconds=SOON)
                made.cli("load", "--table", f"{made.schema}.noise", "--recreate", "--target", target, seconds=SOON)
            both.wait_streaming(run)
            died = "apply.pipelined=exit@2"
            wait_until(lambda: reached.exists() and died in reached.read_text(), SOON, "apply dies", run.tail, run)
            both.sync(run)
            run.kill()
            run = made.start("run")
            both.sync(run)
        both.sync(run)
        run.stop()
    both.assert_identical("parent", "item", "tick")
    kept = [row for row in made.source_rows("log") if row[0] % 2 == 0]
    assert made.target_rows("log") == kept and kept
    kept = sorted(made.source.query("SELECT * FROM log WHERE id % 2 = 0"), key=repr)
    assert sorted(both.elder.query(f'SELECT * FROM "{made.there}".log'), key=repr) == kept
    words = sorted(made.source.query("SELECT n, text FROM noise"), key=repr)
    assert sorted(made.target.query("SELECT n, words FROM noise"), key=repr) == words
    assert sorted(both.elder.query(f'SELECT n, words FROM "{made.there}".noise'), key=repr) == words
