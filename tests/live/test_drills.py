"""The fail-back drill: a shadow of the old side takes what the real target gives back, beside the job, and leaves nothing."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from anabranch.connectors.postgresql.source.shadow import PostgresShadow
from anabranch.errors import ConfigError, StateError
from anabranch.job import Job
from anabranch.job.drilling import Drill, Wish, shadow_of
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId
from anabranch.testing.databases import Database, create_database, drop_database, unique_name
from anabranch.testing.in_time import PATIENCE
from anabranch.testing.servers import Server
from anabranch.view.job_view import JobView
from rigs.forked_commands import QUICK
from rigs.job_here import JobHere
from rigs.scenario import Scenario
from rigs.scenario_mysql_target import MysqlToMysql, PostgresToMysql
from rigs.scenario_postgresql import FromPostgres

AT_POSTGRES = (
    "CREATE TABLE customers (id bigint PRIMARY KEY, name text NOT NULL, seen timestamp(3), at timestamptz,"
    ' amount numeric(10,2), tag bytea, "odd %s" varchar(9), CHECK (amount < 1000))',
    "CREATE TABLE orders (customer bigint REFERENCES customers, number smallint, price double precision,"
    " PRIMARY KEY (customer, number))",
    "INSERT INTO customers VALUES (1, 'Ann', '2024-05-06 07:08:09.123', '2024-05-06 07:08:09.123456+00', 1.50, '\\x00ff', 'a'),"
    " (2, 'Bob', NULL, NULL, NULL, NULL, NULL)",
    "INSERT INTO orders VALUES (1, 1, 0.1), (1, 2, 1e300)",
)
AT_MYSQL = (
    "CREATE TABLE customers (id bigint AUTO_INCREMENT PRIMARY KEY, name varchar(40) NOT NULL, seen datetime(3),"
    " at timestamp(6) NULL, amount decimal(10,2), tag varbinary(9), `odd %s` varchar(9),"
    " twice decimal(12,2) AS (amount * 2), kind enum('a', 'b'),"
    " CHECK (amount < 1000))",
    "CREATE TABLE orders (customer bigint, number smallint, price double, PRIMARY KEY (customer, number),"
    " FOREIGN KEY (customer) REFERENCES customers (id) ON DELETE CASCADE)",
    "INSERT INTO customers (id, name, seen, at, amount, tag, `odd %s`, kind) VALUES (1, 'Ann', '2024-05-06 07:08:09.123',"
    " '2024-05-06 07:08:09.123456', 1.50, x'00ff', 'a', 'b'), (2, 'Bob', NULL, NULL, NULL, NULL, NULL, NULL)",
    "INSERT INTO orders VALUES (1, 1, 0.1), (1, 2, 1e300)",
)
WRITES = (
    "UPDATE customers SET amount = amount + 1, name = concat(name, '!')",
    "INSERT INTO customers (id, name) VALUES (3, 'Eve')",
    "DELETE FROM orders WHERE number = 2",
    "INSERT INTO orders VALUES (3, 1, -0.25)",
)
SCHEMAS = "SELECT schema_name FROM information_schema.schemata WHERE schema_name LIKE 'anabranch%' ORDER BY 1"
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

    @property
    def names(self) -> tuple[str, str]:
        return f"{self.made.schema}.customers", f"{self.made.schema}.orders"

    def wish(self) -> Wish:
        return Wish(self.names, stream=PATIENCE, settle=PATIENCE, admits_log=self.made.user is not None)

    def logged(self, since: tuple[str, int]) -> set[str]:
        """Return the databases of this test that the log of a MySQL or MariaDB names behind a place."""
        events = self.made.source.query(f"SHOW BINLOG EVENTS IN '{since[0]}' FROM {since[1]}")
        return {one for one in (self.made.schema, shadow_of(self.made.name)) if any(one in str(e[5]) for e in events)}

    def schemas(self) -> list[str]:
        """At the source: the shadow, and at a PostgreSQL the state of jobs, which other tests have at a MySQL, too."""
        is_one_end = self.made.schema == "public"
        return [str(one) for (one,) in self.made.source.query(SCHEMAS) if is_one_end or one != "anabranch"]


KINDS: dict[str, Callable[..., Scenario]] = {
    "postgresql-postgresql": FromPostgres,
    "postgresql-mysql": PostgresToMysql,
    "mysql-postgresql": Scenario,
    "mariadb-mysql": MysqlToMysql,
}


@pytest.fixture
def drilled(
    request: pytest.FixtureRequest,
    logical_postgresql: Server,
    source_database: Callable[[Server], Database],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Drilled]:
    read, written = (
        logical_postgresql if name == "postgresql" else request.getfixturevalue(name)
        for name in request.param.split("-")
    )
    kept, source, name = create_database(written, "drilled"), source_database(read), unique_name("job")
    user = ordinary_user(source, name) if read.name == "mariadb" else None
    made = KINDS[request.param](source, kept, tmp_path, name=name, user=user)
    made.source.execute(*(AT_POSTGRES if read is logical_postgresql else AT_MYSQL))
    for name, value in made.environment.items():
        monkeypatch.setenv(name, value)
    found = Drilled(made)
    found.forward.load()
    found.forward.stream(is_built=True)
    yield found
    found.forward.job.drop(execute=True)
    made.close()
    drop_database(kept)
    if user:
        made.source.execute(f"DROP USER `{user[0]}`")


def ordinary_user(source: Database, job: str) -> tuple[str, str]:
    """Make one with the rights that a job of both ways and its drill need at a MariaDB, and no more."""
    user, schemas = unique_name("driller")[:32], (source.name, "anabranch", shadow_of(job))
    source.execute(
        f"CREATE USER `{user}` IDENTIFIED BY 'a secret'",
        f"GRANT REPLICATION SLAVE, BINLOG MONITOR, RELOAD, PROCESS ON *.* TO `{user}`",
        *(f"GRANT ALL ON `{schema}`.* TO `{user}`" for schema in schemas),
    )
    return user, "a secret"


@pytest.mark.parametrize("drilled", list(KINDS), indirect=True)
@pytest.mark.one_case("postgresql-postgresql", "mariadb-mysql")
def test_a_drill_shows_that_the_way_back_works_and_leaves_nothing(drilled: Drilled) -> None:
    """The job goes on meanwhile; its own changes are those that come back."""
    made, before = drilled.made, drilled.schemas()
    drilled.before = lambda: made.source.execute(*WRITES)
    at = () if made.schema == "public" else made.source.query("SHOW MASTER STATUS")[0][:2]
    with drilled.forward.running():
        report = drilled.drill().run(drilled.wish())
    assert report.works and report.exit_code == 0, report
    assert {table.source: (table.verdict, table.rows) for table in report.tables} == {
        drilled.names[0]: ("equal", 3),
        drilled.names[1]: ("equal", 2),
    }
    assert all(table.changes >= 2 for table in report.tables) and not report.failed
    assert drilled.schemas() == before and report.removed
    if at:  # a user who may not keep the shadow out of the log
        assert drilled.logged(at) == {made.schema} | ({shadow_of(made.name)} if made.user else set())
    made.assert_identical()


@pytest.mark.parametrize("drilled", ["postgresql-postgresql", "mysql-postgresql"], indirect=True)
@pytest.mark.one_case("postgresql-postgresql")
def test_a_drill_finds_rows_that_come_back_otherwise_and_what_a_killed_one_left(drilled: Drilled) -> None:
    made, before = drilled.made, drilled.schemas()
    slots = made.target.query(SLOTS)

    def spoil() -> None:
        shadow = shadow_of(made.name)
        made.source.execute(*WRITES)
        made.source.execute(f"UPDATE {shadow}.orders SET price = 7 WHERE customer = 1 AND number = 1")
        made.source.execute(f"INSERT INTO {shadow}.customers (id, name) VALUES (99, 'nobody')")

    drilled.before = spoil
    with drilled.forward.running():
        report = drilled.drill().run(drilled.wish())
        assert report.exit_code == 4
        rows = {(t.source, row.kind, *row.key.values(), *row.columns) for t in report.tables for row in t.sample}
        customers, orders = drilled.names
        assert rows == {(orders, "different", "1", "1", "price"), (customers, "extra", "99")}
        assert drilled.schemas() == before

        drilled.before = lambda: (_ for _ in ()).throw(KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt):
            drilled.drill().run(drilled.wish())
        assert drilled.schemas() == before and made.target.query(SLOTS) == slots

        killed = drilled.drill()
        killed._clean = lambda shadow: []  # type: ignore[method-assign]  # what a kill leaves
        with pytest.raises(KeyboardInterrupt):
            killed.run(drilled.wish())
        assert shadow_of(made.name) in drilled.schemas()
    assert drilled.drill().clean() and drilled.schemas() == before and drilled.drill().clean() == []


@pytest.mark.parametrize("drilled", ["postgresql-postgresql"], indirect=True)
def test_a_drill_names_what_is_missing_and_what_is_not_its_own(
    drilled: Drilled, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The drill's job is a process of its own at the end, which starts no Spark: it is `anabranch run` as everywhere."""
    monkeypatch.setenv("PYTHONPATH", str(QUICK), prepend=os.pathsep)
    made, before = drilled.made, drilled.schemas()
    with drilled.forward.running():
        a_right_to_make_schemas_is_asked_for(drilled)
        with pytest.raises(ConfigError, match="no table that goes back"):
            drilled.drill().run(Wish(("elsewhere.*",)))
        made.source.execute(f"CREATE SCHEMA {shadow_of(made.name)}")
        with pytest.raises(StateError, match="not this job's"):
            drilled.drill().run(drilled.wish())
        assert shadow_of(made.name) in drilled.schemas()
        made.source.execute(f"DROP SCHEMA {shadow_of(made.name)}")
        # what the target has let in by itself does not go into the source's table: the job as a process of its own says so
        made.target.execute("ALTER TABLE public.customers DROP CONSTRAINT customers_amount_check")
        made.target.execute("INSERT INTO public.customers (id, name, amount) VALUES (50, 'there', 5000)")
        report = drilled.forward.job.drill(drilled.names, PATIENCE)
    assert report.exit_code == 3 and not report.tables, report
    assert "customers_amount_check" in report.failed[0].message and report.failed[0].hint
    assert drilled.schemas() == before


def a_right_to_make_schemas_is_asked_for(drilled: Drilled) -> None:
    source, user = drilled.made.source, unique_name("driller")
    source.execute(f"CREATE ROLE {user} LOGIN PASSWORD 'a secret'")
    at = Endpoint("postgresql", source.server.host, source.server.port, user, "a secret", source.name)
    with closing(PostgresShadow(at, shadow_of(drilled.made.name), drilled.made.name)) as shadow:
        (lacking,) = shadow.outlook([TableId.parse(name) for name in drilled.names], admits_log=False).findings
        assert f"{user} may not make a schema" in lacking.message
        source.execute(lacking.hint)
        assert not shadow.outlook([TableId.parse(name) for name in drilled.names], admits_log=False).findings
    source.execute(f"DROP OWNED BY {user}", f"DROP ROLE {user}")
