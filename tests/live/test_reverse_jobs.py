"""The way back, for each pair of databases: what the product says of it before a row moves, the job file that it writes, and
changes of the old target that arrive at the old source."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from anabranch.errors import ConfigError, PreflightFailed, RowRefused, StateError
from anabranch.job import Job
from anabranch.testing.databases import Database, create_database, drop_database, unique_name
from anabranch.testing.servers import Server
from anabranch.view.opened import target_of
from rigs.job_here import JobHere
from rigs.scenario import Scenario
from rigs.scenario_mysql_target import MysqlToMysql, PostgresToMysql
from rigs.scenario_postgresql import FromPostgres

MYSQL_TABLES = (
    "CREATE TABLE customers (id INT UNSIGNED PRIMARY KEY AUTO_INCREMENT, name VARCHAR(50) NOT NULL, is_new TINYINT(1),"
    " seen DATETIME(3), at TIMESTAMP(6) NULL, note MEDIUMTEXT, amount DECIMAL(10,2), tag VARBINARY(16))",
    "CREATE TABLE orders (customer INT UNSIGNED, number SMALLINT UNSIGNED, price DOUBLE, PRIMARY KEY (customer, number),"
    " CONSTRAINT of_customer FOREIGN KEY (customer) REFERENCES customers (id))",
    "INSERT INTO customers VALUES (1, 'Ann', 1, '2024-05-06 07:08:09.123', '2024-05-06 07:08:09.123456', 'a', 1.50, 0x00FF),"
    " (4000000000, 'Bob', NULL, NULL, NULL, NULL, NULL, NULL)",
    "INSERT INTO orders VALUES (1, 1, 0.1), (1, 2, 1e300)",
)
# Types that only a MySQL has.
KINDS_OF_MYSQL = (
    "CREATE TABLE kinds (id INT PRIMARY KEY, code CHAR(5), raw BINARY(4), kind ENUM('a','b','it''s'), tags SET('x','y'),"
    " took TIME(3), made YEAR, big BIGINT UNSIGNED, of_day DATE, text_ TINYTEXT, bits BIT(5), mid MEDIUMINT, real_ FLOAT)",
    "INSERT INTO kinds VALUES (1, 'abc', 0x01020304, 'a', 'x,y', '-30:00:01.5', 2001, 18446744073709551615, '2024-01-02',"
    " 'short', b'10101', -8388608, 0.1), (2, 'de', 0x00000000, 'b', '', '00:00:00', 0, 0, NULL, NULL, NULL, NULL, NULL)",
)
KINDS_THERE = (
    "UPDATE public.kinds SET code = 'zz', raw = '\\xffeeddcc', kind = 'it''s', tags = 'y', took = '100:59:59.125', made = 1999,"
    " big = 9223372036854775808, of_day = '2020-02-29', text_ = 'other', bits = B'00001', mid = 7, real_ = 2.5 WHERE id = 1",
    "UPDATE public.kinds SET made = 2155, tags = 'x,y', took = '-00:00:01' WHERE id = 2",
    "INSERT INTO public.kinds (id, made, kind) VALUES (3, 0, 'a')",
)
# Texts, numbers and intervals that a column of the old source would take for others.
NOT_OF_KIND = {"tags": "'3'", "made": "5", "took": "'1 day'", "big": "-1"}
POSTGRESQL_TABLES = (
    "CREATE TABLE customers (id bigint PRIMARY KEY, name text NOT NULL, is_new boolean, seen timestamp(3), at timestamptz,"
    " note varchar(90), amount numeric(10,2), tag bytea)",
    "CREATE TABLE orders (customer bigint REFERENCES customers, number smallint, price double precision,"
    " PRIMARY KEY (customer, number))",
    "INSERT INTO customers VALUES (1, 'Ann', true, '2024-05-06 07:08:09.123', '2024-05-06 07:08:09.123456+00', 'a', 1.50,"
    " '\\x00ff'), (2, 'Bob', NULL, NULL, NULL, NULL, NULL, NULL)",
    "INSERT INTO orders VALUES (1, 1, 0.1), (1, 2, 1e300)",
)
# What an application does at the old target, after the switch.
THERE = (
    "INSERT INTO {0}.customers (id, name, amount) VALUES (3, 'Eve', -7.25)",
    "INSERT INTO {0}.orders (customer, number, price) VALUES (3, 1, 2.5)",
    "UPDATE {0}.customers SET name = 'Anne', note = 'changed there' WHERE id = 1",
    "DELETE FROM {0}.orders WHERE customer = 1 AND number = 2",
)
PAIRS = ("mariadb-postgresql", "postgresql-mysql", "postgresql-postgresql", "mysql-mariadb")
KINDS: dict[tuple[bool, bool], type[Scenario]] = {
    (False, True): Scenario,
    (True, True): FromPostgres,
    (True, False): PostgresToMysql,
    (False, False): MysqlToMysql,
}


@dataclass
class There:
    """A job that has loaded and streams, and its way back."""

    forward: JobHere
    back: JobHere

    @property
    def made(self) -> Scenario:
        return self.forward.made

    def write_back(self, *more: str) -> Path:
        """Write the job file of the way back, by the command."""
        file = self.back.made.job_file
        self.made.cli("reverse", "-o", str(file), *more)
        return file


@dataclass
class _Turned:
    """Give JobHere a job by its file and the secrets that the file names."""

    job_file: Path
    environment: dict[str, str]


@pytest.fixture
def there(
    request: pytest.FixtureRequest, source_database: Callable[[Server], Database], tmp_path: Path
) -> Iterator[There]:
    source, target = (_server(request, name) for name in request.param.split("-"))
    made_of = KINDS[source.name == "postgresql", target.name == "postgresql"]
    kept = create_database(target, "way_back")
    made = made_of(source_database(source), kept, tmp_path, name=unique_name("job"))
    made.source.execute(*(POSTGRESQL_TABLES if source.name == "postgresql" else MYSQL_TABLES))
    turned = _Turned(tmp_path / "back.toml", made.environment)
    found = There(JobHere(made), JobHere(turned))  # type: ignore[arg-type]  # it has what a job needs of one
    yield found
    for one in (found.back, found.forward):
        if one.made.job_file.exists():
            one.job.drop(execute=True)
    made.close()
    drop_database(kept)


def _server(request: pytest.FixtureRequest, name: str) -> Server:
    server: Server = request.getfixturevalue("logical_postgresql" if name == "postgresql" else name)
    return server


def refused(job: Job, reverse: bool = False) -> list[str]:
    return [f"{one.check} {one.table}: {one.message}" for one in job.preflight(reverse).failed]


@pytest.mark.parametrize("there", PAIRS, indirect=True)
@pytest.mark.one_case("postgresql-postgresql", "mariadb-postgresql", "mysql-mariadb")
def test_pitfall_47_changes_of_the_old_target_arrive_at_the_old_source(there: There) -> None:
    """Beside the job itself, which goes on: no change of one side comes back to it."""
    made, forward, back = there.made, there.forward, there.back
    _let_leave_out(made)
    assert refused(forward.job, reverse=True) == []  # before a row has moved
    with pytest.raises(StateError, match="does not have"):
        forward.job.reverse()
    forward.load()
    _stream_until_built(forward)
    assert refused(forward.job, reverse=True) == []
    text = there.write_back().read_text()
    assert "${" in text and not any(secret in text for secret in _secrets(made))
    the_old_source_has_to_stand(made, back)
    assert refused(back.job) == []
    armed = back.job.arm()
    assert back.job.arm().was_armed and len(armed.tables) == 3
    before = _applied(forward)
    made.source.execute("INSERT INTO customers (id, name) VALUES (7, 'of the source')")
    made.target.execute(*(one.format(made.there) for one in THERE))
    for _ in range(2):  # an echo would come in the second round
        forward.stream()
        back.stream()
    made.assert_identical()
    assert (_applied(forward) - before, _applied(back)) == (1, len(THERE))
    assert back.verify().identical
    with pytest.raises(ConfigError, match="never loads"):
        back.job.load(table=str(armed.tables[0]))


def the_old_source_has_to_stand(made: Scenario, back: JobHere) -> None:
    """A table that is not there is named, before anything begins."""
    unseen = () if made.source.server.name == "postgresql" else ("SET SESSION sql_log_bin = 0",)
    made.source.execute(*unseen, "ALTER TABLE customers RENAME TO elsewhere")
    (said,) = refused(back.job)
    assert said.startswith("target.standing ") and ".customers is not there, and this job loads nothing" in said
    with pytest.raises(PreflightFailed):
        back.job.arm()
    made.source.execute(*unseen, "ALTER TABLE elsewhere RENAME TO customers")


# Keys of the old target that change rows which its log does not show, as a MySQL before 9.6 and a MariaDB have them.
KEYS_THAT_ACT = {
    True: (
        "CREATE TABLE lines (id int PRIMARY KEY, customer bigint REFERENCES customers ON DELETE CASCADE ON UPDATE CASCADE)",
        "CREATE TABLE visits (id int PRIMARY KEY, customer bigint REFERENCES customers ON DELETE SET NULL ON UPDATE CASCADE)",
    ),
    False: (
        "CREATE TABLE `lines` (id INT PRIMARY KEY, customer INT UNSIGNED,"
        " FOREIGN KEY (customer) REFERENCES customers (id) ON DELETE CASCADE ON UPDATE CASCADE)",
        "CREATE TABLE visits (id INT PRIMARY KEY, customer INT UNSIGNED,"
        " FOREIGN KEY (customer) REFERENCES customers (id) ON DELETE SET NULL ON UPDATE CASCADE)",
    ),
}
CHILDREN = (
    "INSERT INTO {0}customers (id, name) VALUES (10, 'goes'), (11, 'stays')",
    "INSERT INTO {0}`lines` VALUES (1, 10), (2, 10), (3, 11)",
    "INSERT INTO {0}visits VALUES (1, 10), (2, 11)",
)


@pytest.mark.parametrize("there", ("postgresql-mysql", "mysql-mariadb"), indirect=True)
@pytest.mark.one_case("postgresql-mysql")
def test_pitfall_47_what_keys_of_the_old_target_do_unseen_goes_back_too(there: There) -> None:
    """The way back knows the keys that stand where it is armed: children go, or lose their parent, at the old source too."""
    made, forward, back = there.made, there.forward, there.back
    quote = '"' if made.source.server.name == "postgresql" else "`"
    made.source.execute(*KEYS_THAT_ACT[made.source.server.name == "postgresql"])
    made.source.execute(*(one.format("").replace("`", quote) for one in CHILDREN))
    _let_leave_out(made)
    forward.load()
    _stream_until_built(forward)
    there.write_back()
    assert refused(back.job) == []
    back.job.arm()
    made.target.execute(f"UPDATE {made.there}.customers SET id = 12 WHERE id = 11")
    made.target.execute(f"INSERT INTO {made.there}.`lines` VALUES (4, 12), (5, 10)")
    made.target.execute(f"DELETE FROM {made.there}.customers WHERE id = 10")
    back.stream()
    assert made.target.query(f"SELECT * FROM {made.there}.`lines` ORDER BY id") == [(3, 12), (4, 12)]
    made.assert_identical()
    assert back.verify().identical
    forward.stream()
    made.assert_identical()


def _let_leave_out(made: Scenario) -> None:
    """Let the job leave out what its way back will write."""
    text, origin = made.job_file.read_text(), f"anabranch:{made.name}-reverse"
    made.job_file.write_text(text.replace("[target]\n", f'leave_out = ["{origin}"]\n[target]\n', 1))


def _applied(one: JobHere) -> int:
    with closing(target_of(one.job).store()) as store:
        return sum(state.changes_applied for state in store.states.tables(one.job.config.name).values())


def _stream_until_built(here: JobHere) -> None:
    """What is built later would park tables of the way back."""
    here.stream(is_built=True)


def _secrets(made: Scenario) -> list[str]:
    return [one for one in (made.source.server.password, made.target.server.password) if one]


@pytest.mark.parametrize("there", PAIRS[:1], indirect=True)
def test_values_of_types_that_only_a_mysql_has_come_back_or_are_refused(there: There) -> None:
    made, back = there.made, there.back
    made.source.execute(*KINDS_OF_MYSQL)
    assert refused(there.forward.job, reverse=True) == []  # told by how the target's types are spelled
    there.forward.load()
    _stream_until_built(there.forward)
    text = there.write_back().read_text()
    for chosen in ('kind = "enum"', 'tags = "set"', 'took = "time(3)"', 'made = "year"', 'big = "bigint unsigned"'):
        assert chosen in text
    there.forward.job.drop(execute=True)
    back.job.arm()
    made.target.execute(*KINDS_THERE)
    back.stream()
    made.assert_identical()
    assert back.verify().identical
    before = made.source_rows("kinds")
    for number, (column, value) in enumerate(NOT_OF_KIND.items(), 10):
        made.target.execute(f"INSERT INTO public.kinds (id, {column}) VALUES ({number}, {value})")
        back.capture()
        with pytest.raises(RowRefused):
            back.apply()
        assert made.source_rows("kinds") == before, column
        _skip_next(back.job)


def _skip_next(job: Job) -> None:
    """Leave out the transaction behind the one that the target has."""
    with closing(target_of(job).store()) as store:
        now = store.jobs.checkpoint(job.config.name)
    assert now is not None
    job.skip(str(now.position.sequence + 1), execute=True)


@pytest.mark.parametrize("there", PAIRS[:1], indirect=True)
def test_the_file_of_the_way_back_is_not_written_over(there: There) -> None:
    there.forward.load()
    _stream_until_built(there.forward)
    file = there.write_back()
    file.write_text("mine")
    result = there.made.cli("reverse", "-o", str(file), code=2)
    assert "is there already" in result.stderr and file.read_text() == "mine"
    there.write_back("--force")
    assert there.back.job.config.name == f"{there.made.name}-reverse"
    spaced = file.with_name("the way back.toml")
    assert f"anabranch preflight '{spaced}'" in there.made.cli("reverse", "-o", str(spaced)).stdout


def test_what_cannot_go_back_is_refused_when_the_job_is_made(
    mariadb: Server, postgresql: Server, source_database: Callable[[Server], Database], tmp_path: Path
) -> None:
    """Of the target a setting that needs a restart, of tables what they lack, before a row has moved."""
    source, target = source_database(mariadb), create_database(postgresql, "way_back")
    source.execute("CREATE TABLE keyless (v INT)", "CREATE TABLE documents (id INT PRIMARY KEY, doc JSON, of_day TIME)")
    made = Scenario(source, target, tmp_path, name=unique_name("job"), is_quick=True)
    made.write_job("[reverse]\nenabled = true\n")
    try:
        found = {one.check: one for one in JobHere(made).job.preflight().failed}
        assert found.keys() == {"reverse.keys", "reverse.types", "reverse.source.wal_level"}
        why = found["reverse.source.wal_level"]
        assert why.message.startswith("the target, as the source of the way back") and "restart" in why.hint
        result = made.cli("run", "--until-caught-up", code=3)
        assert "reverse.keys" in result.stderr and made.states() == {}
    finally:
        drop_database(target)
