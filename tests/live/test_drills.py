"""The fail-back drill: a shadow of the old side takes what the real target gives back, beside the job, and leaves nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from anabranch.errors import ConfigError, StateError
from anabranch.job import Job
from anabranch.job.drilling import Drill, Wish, shadow_of
from anabranch.testing.databases import Database, create_database, drop_database, unique_name
from anabranch.testing.in_time import PATIENCE
from anabranch.testing.servers import Server
from anabranch.view.job_view import JobView
from rigs.job_here import JobHere
from rigs.scenario import Scenario
from rigs.scenario_mysql_target import PostgresToMysql
from rigs.scenario_postgresql import FromPostgres

TABLES = (
    "CREATE TABLE customers (id bigint PRIMARY KEY, name text NOT NULL, seen timestamp(3), at timestamptz,"
    ' amount numeric(10,2), tag bytea, "odd %s" varchar(9), CHECK (amount < 1000))',
    "CREATE TABLE orders (customer bigint REFERENCES customers, number smallint, price double precision,"
    " PRIMARY KEY (customer, number))",
    "INSERT INTO customers VALUES (1, 'Ann', '2024-05-06 07:08:09.123', '2024-05-06 07:08:09.123456+00', 1.50, '\\x00ff', 'a'),"
    " (2, 'Bob', NULL, NULL, NULL, NULL, NULL)",
    "INSERT INTO orders VALUES (1, 1, 0.1), (1, 2, 1e300)",
)
WRITES = (
    "UPDATE customers SET amount = amount + 1, name = name || '!'",
    "INSERT INTO customers (id, name) VALUES (3, 'Eve')",
    "DELETE FROM orders WHERE number = 2",
    "INSERT INTO orders VALUES (3, 1, -0.25)",
)
NAMES = ("public.customers", "public.orders")
ALL = Wish(NAMES, stream=PATIENCE, settle=PATIENCE)
SCHEMAS = "SELECT nspname::text FROM pg_namespace WHERE nspname LIKE 'anabranch%' ORDER BY 1"
SLOTS = "SELECT count(*) FROM pg_replication_slots WHERE database = current_database()"


@dataclass
class _Turned:
    """Give JobHere a job by its file and the secrets that the file names."""

    job_file: Path
    environment: dict[str, str]


@dataclass
class Drilled:
    """A job that has loaded and streams, and its drill. `before`: called when the shadow streams."""

    made: Scenario
    before: Callable[[], object] = lambda: None

    @property
    def forward(self) -> JobHere:
        return JobHere(self.made)

    def drill(self) -> Drill:
        return Drill(self.forward.job, Job.from_file, self._running, lambda line: None)

    @contextmanager
    def _running(self, job: JobView) -> Iterator[Callable[[], str]]:
        here = JobHere(_Turned(job.path, self.made.environment))  # type: ignore[arg-type]  # it has what a job needs of one
        here.load()
        with here.running():
            self.before()
            yield lambda: ""

    def schemas(self) -> list[str]:
        return [str(row[0]) for row in self.made.source.query(SCHEMAS)]


@pytest.fixture
def drilled(
    request: pytest.FixtureRequest,
    logical_postgresql: Server,
    source_database: Callable[[Server], Database],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Drilled]:
    is_mysql = request.param == "mysql"
    server = request.getfixturevalue("mysql") if is_mysql else logical_postgresql
    kept = create_database(server, "drilled")
    kind = PostgresToMysql if is_mysql else FromPostgres
    made = kind(source_database(logical_postgresql), kept, tmp_path, name=unique_name("job"))
    made.source.execute(*TABLES)
    for name, value in made.environment.items():
        monkeypatch.setenv(name, value)
    found = Drilled(made)
    found.forward.load()
    found.forward.stream(is_built=True)
    yield found
    found.forward.job.drop(execute=True)
    made.close()
    drop_database(kept)


@pytest.mark.parametrize("drilled", ["postgresql", "mysql"], indirect=True)
def test_a_drill_shows_that_the_way_back_works_and_leaves_nothing(drilled: Drilled) -> None:
    """The job goes on meanwhile; its own changes are those that come back."""
    made, before = drilled.made, drilled.schemas()
    drilled.before = lambda: made.source.execute(*WRITES)
    with drilled.forward.running():
        report = drilled.drill().run(ALL)
    assert report.works and report.exit_code == 0, report
    assert {table.source: (table.verdict, table.rows) for table in report.tables} == {
        "public.customers": ("equal", 3),
        "public.orders": ("equal", 2),
    }
    assert all(table.changes >= 2 for table in report.tables) and not report.failed
    assert drilled.schemas() == before and report.removed
    made.assert_identical()


@pytest.mark.parametrize("drilled", ["postgresql"], indirect=True)
def test_a_drill_finds_rows_that_come_back_otherwise_and_what_a_killed_one_left(drilled: Drilled) -> None:
    made, before = drilled.made, drilled.schemas()
    slots = made.source.query(SLOTS)

    def spoil() -> None:
        shadow = shadow_of(made.name)
        made.source.execute(*WRITES)
        made.source.execute(f"UPDATE {shadow}.orders SET price = 7 WHERE (customer, number) = (1, 1)")
        made.source.execute(f"INSERT INTO {shadow}.customers (id, name) VALUES (99, 'nobody')")

    drilled.before = spoil
    with drilled.forward.running():
        report = drilled.drill().run(ALL)
        assert report.exit_code == 4
        rows = {(t.source, row.kind, *row.key.values(), *row.columns) for t in report.tables for row in t.sample}
        assert rows == {("public.orders", "different", "1", "1", "price"), ("public.customers", "extra", "99")}
        assert drilled.schemas() == before

        drilled.before = lambda: (_ for _ in ()).throw(KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt):
            drilled.drill().run(ALL)
        assert drilled.schemas() == before and made.source.query(SLOTS) == slots

        killed = drilled.drill()
        killed._clean = lambda shadow: []  # type: ignore[method-assign]  # what a kill leaves
        with pytest.raises(KeyboardInterrupt):
            killed.run(ALL)
        assert shadow_of(made.name) in drilled.schemas()
    assert drilled.drill().clean() and drilled.schemas() == before and drilled.drill().clean() == []


@pytest.mark.parametrize("drilled", ["postgresql"], indirect=True)
def test_a_drill_names_what_is_missing_and_what_is_not_its_own(drilled: Drilled) -> None:
    made, before = drilled.made, drilled.schemas()
    with drilled.forward.running():
        with pytest.raises(ConfigError, match="no table that goes back"):
            drilled.drill().run(Wish(("elsewhere.*",)))
        made.source.execute(f"CREATE SCHEMA {shadow_of(made.name)}")
        with pytest.raises(StateError, match="not this job's"):
            drilled.drill().run(ALL)
        assert shadow_of(made.name) in drilled.schemas()
        made.source.execute(f"DROP SCHEMA {shadow_of(made.name)}")
        # what the target has let in by itself does not go into the source's table: the job as a process of its own says so
        made.target.execute("ALTER TABLE public.customers DROP CONSTRAINT customers_amount_check")
        made.target.execute("INSERT INTO public.customers (id, name, amount) VALUES (50, 'there', 5000)")
        report = drilled.forward.job.drill(NAMES, PATIENCE)
    assert report.exit_code == 3 and not report.tables, report
    assert "customers_amount_check" in report.failed[0].message and report.failed[0].hint
    assert drilled.schemas() == before
