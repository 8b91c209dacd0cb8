"""`preflight --scan`: planted values of every kind are told, and nothing else; a load then refuses exactly these tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

import pytest

from anabranch.connectors.postgresql.target.trial import PostgresTrial
from anabranch.errors import AnabranchError, ConfigError, PreflightFailed
from anabranch.job.scanning import scan
from anabranch.model.schema import Need
from anabranch.scan.report import ScanReport
from anabranch.testing.databases import Database, unique_name
from anabranch.testing.servers import Server
from anabranch.testing.torture.local import LocalEngine, Small
from anabranch.verify.wanted import Sample
from rigs.endpoints import endpoint_of
from rigs.job_here import JobHere
from rigs.postgresql_load import ORDER, ORDERS, RULES
from rigs.scenario import Scenario
from rigs.scenario_mysql_target import AtMysql, job_at_mysql

Told = set[tuple[str, str, str, int]]
LOOSE = "SET SESSION sql_mode = 'ALLOW_INVALID_DATES'"


def scanned(made: Scenario) -> ScanReport:
    return scan(JobHere(made).job, engine=LocalEngine(Small()))


def told(report: ScanReport) -> Told:
    """Table, outcome, column and rows of every finding."""
    return {(one.table.name, one.outcome.value, one.column, one.rows) for one in report.findings}


def of(report: ScanReport, table: str) -> str:
    """All that is said of a table."""
    return "\n".join(f"{one.message} -> {one.hint} {one.decides}" for one in report.findings if one.table.name == table)


def refused_by_load(made: Scenario, tables: list[str]) -> set[str]:
    """The tables of which a load alone is refused."""
    found = set()
    for table in tables:
        made.write_job(rules=f'[[rules]]\ninclude = ["{made.schema}.{table}"]\ntarget = "{made.there}.{{table}}"\n')
        try:
            JobHere(made).load()
        except PreflightFailed as error:
            assert table in str(error), error  # of a standing table whose columns are narrower it says so by itself
            found.add(table)
        except AnabranchError as error:
            assert error.table == f"{made.schema}.{table}", error
            found.add(table)
        made.cli("drop", "--execute")
    return found


MYSQL = (
    LOOSE,
    "CREATE TABLE good (id int PRIMARY KEY, t varchar(20), n bigint unsigned, d datetime(6), j json, f float, e enum('a', ''),"
    " b varbinary(9), m time(6), UNIQUE KEY t (t))",
    "INSERT INTO good VALUES (1, 'x', 18446744073709551615, '2024-01-02 03:04:05.678901', '{\"a\": 1.5}', 1.1, 'a', X'00FF',"
    " '-838:59:59.000000'), (2, NULL, 0, '0001-01-01 00:00:00', '[1e10, 2]', -0.0, '', '', '838:59:59.000000')",
    "CREATE TABLE dates (id int PRIMARY KEY, d date, ts timestamp NULL)",
    "INSERT INTO dates VALUES (1, '0000-00-00', NULL), (2, '2024-02-31', 0), (3, '2024-00-15', '2024-01-01 00:00:00'),"
    " (4, '2024-01-01', NULL)",
    "CREATE TABLE nul (id int PRIMARY KEY, t text)",
    "INSERT INTO nul VALUES (1, 'fine'), (2, 'a\\0b'), (3, '\\0')",
    "CREATE TABLE json_nul (id int PRIMARY KEY, j json)",
    "INSERT INTO json_nul VALUES (1, '{\"a\": \"\\\\u0000\"}'), (2, '{}'), (3, '[\"\\\\u0000\"]')",
    "CREATE TABLE json_zero (id int PRIMARY KEY, j json)",
    "INSERT INTO json_zero VALUES (1, '[-0.0]'), (2, '[0.0]')",
    "CREATE TABLE narrow (id int PRIMARY KEY, n bigint unsigned, v varchar(99))",
    "INSERT INTO narrow VALUES (1, 9223372036854775808, 'short'), (2, 7, 'too long for the column'), (3, 8, 'short')",
)
AT_POSTGRESQL = "CREATE TABLE narrow (id integer PRIMARY KEY, n bigint, v varchar(10), extra serial)"


def test_mysql_to_postgresql(mysql: Server, scenario: Callable[..., Scenario]) -> None:
    made = scenario(mysql, *MYSQL)
    made.target.execute(AT_POSTGRESQL)
    before = made.target.query("SELECT relname::text FROM pg_class ORDER BY 1")
    report = scanned(made)
    assert told(report) == {
        ("dates", "refused", "d", 3),
        ("dates", "refused", "ts", 1),
        ("nul", "refused", "t", 2),
        ("json_nul", "refused", "j", 2),
        ("json_zero", "changed", "j", 1),
        ("narrow", "refused", "n", 1),
        ("narrow", "refused", "v", 1),
    }, report.findings
    assert not any(table.not_seen for table in report.tables), report.tables
    assert "[types] zero_date" in of(report, "dates") and "key id=1; id=2; id=3" in of(report, "dates")
    assert '[types] nul = "strip"' in of(report, "nul")
    assert made.target.query("SELECT relname::text FROM pg_class ORDER BY 1") == before
    assert made.target.query("SELECT is_called FROM narrow_extra_seq") == [(False,)]
    tables = ["good", "dates", "nul", "json_nul", "json_zero", "narrow"]
    assert refused_by_load(made, tables) == {"dates", "nul", "json_nul", "narrow"}


@pytest.fixture
def at_mysql(source_database: Callable[[Server], Database], tmp_path: Path) -> Iterator[Callable[..., AtMysql]]:
    """`at_mysql(source, target, *statements)`: a job of a new database there."""
    with ExitStack() as open_:

        def make(source: Server, target: Server, *statements: str) -> AtMysql:
            database = source_database(source)
            database.execute(*statements)
            return open_.enter_context(job_at_mysql(database, target, tmp_path / "job", is_quick=True))

        yield make


POSTGRESQL = (
    "CREATE TABLE good (id int PRIMARY KEY, t text, n numeric(20,5), d timestamp, j jsonb, f real, b bytea, u uuid,"
    " m interval, z timestamptz, flag boolean, k varchar(20) UNIQUE)",
    "INSERT INTO good VALUES (1, 'x\\y', 1.50000, '2024-01-02 03:04:05.678901', '{\"a\": 1.5}', 1.1, '\\x00ff',"
    " gen_random_uuid(), '1 day', '2024-01-02 03:04:05+00', true, 'a'),"
    " (2, NULL, 0, '0001-01-01', '[1e10]', '-0', '', NULL, NULL, NULL, NULL, 'A')",
    "CREATE TABLE dates (id int PRIMARY KEY, d date, ts timestamp)",
    "INSERT INTO dates VALUES (1, 'infinity', NULL), (2, '0044-03-15 BC', '-infinity'), (3, '2024-01-01', '12024-01-01'),"
    " (4, NULL, NULL)",
    "CREATE TABLE numbers (id int PRIMARY KEY, n numeric(20, 5), f float8)",
    "INSERT INTO numbers VALUES (1, 'NaN', 'NaN'), (2, 1.5, 'Infinity'), (4, 7, '-0')",
    "CREATE TABLE doc (id int PRIMARY KEY, j json)",
    "INSERT INTO doc VALUES (1, '{\"a\": 1, \"a\": 2}'), (2, '[1e400]'), (3, '[1]'),"
    " (4, (repeat('[', 200) || repeat(']', 200))::json)",
    "CREATE TABLE long_key (k text PRIMARY KEY, n int)",
    "INSERT INTO long_key VALUES (repeat('x', 4000), 1), ('short', 2)",
    "CREATE TABLE equal (k varchar(20) PRIMARY KEY, n int)",
    "INSERT INTO equal VALUES ('a', 1), ('A', 2), ('b', 3)",
)


def test_postgresql_to_mysql(logical_postgresql: Server, mysql: Server, at_mysql: Callable[..., AtMysql]) -> None:
    made = at_mysql(logical_postgresql, mysql, *POSTGRESQL)
    made.target.execute("CREATE TABLE equal (k varchar(20) COLLATE utf8mb4_0900_ai_ci PRIMARY KEY, n int)")
    report = scanned(made)
    assert told(report) == {
        ("dates", "refused", "d", 2),
        ("dates", "refused", "ts", 2),
        ("numbers", "refused", "n", 1),
        ("numbers", "refused", "f", 2),
        ("doc", "refused", "j", 1),
        ("doc", "refused", "", 1),
        ("doc", "changed", "j", 1),
        ("long_key", "refused", "k", 1),
        ("equal", "refused", "", 1),
    }, report.findings
    assert not any(table.not_seen for table in report.tables), report.tables
    assert "x" * 100 not in of(report, "long_key") and "NaN" not in of(report, "numbers")
    assert made.target.query("SHOW TABLES") == [("equal",)]
    tables = ["good", "dates", "numbers", "doc", "long_key", "equal"]
    assert refused_by_load(made, tables) == {"dates", "numbers", "doc", "long_key", "equal"}


MARIADB = (
    LOOSE,
    "CREATE TABLE good (id int PRIMARY KEY, t varchar(20), n bigint unsigned, d datetime(6), j json, f float, e enum('a', ''),"
    " b varbinary(9), m time(6), UNIQUE KEY t (t))",
    "INSERT INTO good VALUES (1, 'x', 18446744073709551615, '2024-01-02 03:04:05.678901', '{\"a\": 1.5}', 1.1, 'a', X'00FF',"
    " '-838:59:59.000000'), (2, NULL, 0, '0001-01-01 00:00:00', '[1e10, 2]', -0.0, '', '', '838:59:59.000000')",
    "CREATE TABLE nul (id int PRIMARY KEY, t text, d date)",
    "INSERT INTO nul VALUES (1, 'fine', NULL), (2, 'a\\0b', '2024-01-01'), (3, '', '0000-00-00')",
    "CREATE TABLE equal (k varchar(20) COLLATE utf8mb4_bin PRIMARY KEY, n int)",
    "INSERT INTO equal VALUES ('a', 1), ('A', 2), ('b', 3)",
)


@pytest.mark.long
def test_mysql_to_mariadb(mysql: Server, mariadb: Server, at_mysql: Callable[..., AtMysql]) -> None:
    made = at_mysql(mysql, mariadb, *MARIADB)
    made.target.execute("CREATE TABLE equal (k varchar(20) COLLATE utf8mb4_general_ci PRIMARY KEY, n int) ENGINE=Aria")
    report = scanned(made)
    assert told(report) == {
        ("nul", "refused", "t", 1),
        ("nul", "refused", "d", 1),
        ("equal", "refused", "", 1),
    }, report.findings
    assert not any(table.not_seen for table in report.tables), report.tables
    assert made.target.query("SHOW TABLES") == [("equal",)]
    assert refused_by_load(made, ["good", "nul", "equal"]) == {"nul", "equal"}


def test_without_the_right_to_temporary_tables_it_says_so(
    mysql: Server, mariadb: Server, scenario: Callable[..., Scenario], at_mysql: Callable[..., AtMysql]
) -> None:
    role = unique_name("scans")
    made = scenario(mysql, "CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    made.target.execute(
        f"CREATE ROLE {role} LOGIN PASSWORD 'less'", f'REVOKE TEMPORARY ON DATABASE "{made.target.name}" FROM PUBLIC'
    )
    there = at_mysql(made.source.server, mariadb, "CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    there.target.execute(f"CREATE USER {role} IDENTIFIED BY 'less'", f"GRANT SELECT ON `{there.there}`.* TO {role}")
    try:
        for one, grant in ((made, "GRANT TEMPORARY ON DATABASE"), (there, "GRANT CREATE TEMPORARY TABLES")):
            one.target_user = (role, "less")
            one.write_job()
            (seen,) = (table for table in scanned(one).tables if table.table.name == "t")
            assert seen.rows == 0 and grant in "".join(seen.not_seen), seen
            one.target_user = None
            one.write_job()
    finally:
        made.target.execute(f"DROP ROLE {role}")
        there.target.execute(f"DROP USER {role}")


def test_names_and_keys_as_the_job_has_them(mysql: Server, scenario: Callable[..., Scenario]) -> None:
    """Renamed and dropped columns, a unique key beside the primary one, a table without a key, ranges that are drawn."""
    made = scenario(
        mysql,
        LOOSE,
        "CREATE TABLE own (Id int PRIMARY KEY, Bad text, Gone text, u varchar(9) COLLATE utf8mb4_bin, UNIQUE KEY u (u))",
        "INSERT INTO own VALUES (1, 'a\\0', 'b\\0', 'x'), (2, 'fine', 'c\\0', 'x\\0'), (3, 'fine', NULL, NULL),"
        " (4, '', '', NULL)",
        "CREATE TABLE loose (d date, t varchar(9))",
        "INSERT INTO loose VALUES ('0000-00-00', 'a'), ('0000-00-00', 'a'), ('2024-01-01', 'b'), ('2024-01-01', 'b')",
    )
    made.write_job(
        f'[types]\nnul = "strip"\n[[tables]]\nname = "{made.schema}.own"\n'
        'columns.rename = { Bad = "better" }\ncolumns.drop = ["Gone"]\n'
    )
    found = scanned(made)
    assert told(found) == {
        ("own", "changed", "Bad", 1),
        ("own", "changed", "u", 1),
        ("own", "refused", "", 1),
        ("loose", "refused", "d", 2),
    }, found.findings
    assert (
        "the unique key u (u)" in of(found, "own")
        and "key Id=2" in of(found, "own")
        and "key" not in of(found, "loose")
    )
    some = scan(JobHere(made).job, ["*.own"], Sample(0.01, 7), engine=LocalEngine(Small()))
    assert [(one.table.name, one.part) for one in some.tables] == [("own", (1, 1))] and some.seed == 7
    with pytest.raises(ConfigError, match="no part of the rows"):
        scan(JobHere(made).job, sample=Sample(0.0, 7))


def test_a_piece_at_postgresql_keeps_no_load_waiting_and_counts_as_far_as_the_column(target_database: Database) -> None:
    mood = Need("enum", "mood", "public", "CREATE TYPE public.mood AS ENUM ('a')")
    with closing(PostgresTrial(endpoint_of(target_database), RULES)) as trial:
        trial.begin(replace(ORDERS, needs=(mood,)), ORDER)
        assert target_database.query("SELECT pg_try_advisory_xact_lock(7168357)") == [(True,)]
        with pytest.raises(AnabranchError):
            trial.begin(replace(ORDERS, needs=(replace(mood, definition="CREATE NONSENSE"),)), ORDER)
        assert target_database.query("SELECT pg_try_advisory_xact_lock(7168357)") == [(True,)]
        target_database.execute(
            "CREATE SCHEMA dest",
            "CREATE TABLE dest.orders (id bigint PRIMARY KEY, customer int, n serial UNIQUE, s smallserial)",
        )
        trial.begin(ORDERS, ORDER)
        block = b"".join(b"%d\t1\n" % number for number in range(40_000))
        for _ in range(2):
            assert not trial.take(block, 10)
            trial.empty()
    assert target_database.query("SELECT to_regtype('public.mood')") == [(None,)]


def test_a_zero_character_is_told_at_a_mysql_where_the_job_leaves_it_out(
    mariadb: Server, mysql: Server, source_database: Callable[[Server], Database], tmp_path: Path
) -> None:
    """The target's text has such characters: without the setting nothing becomes of them."""
    source = source_database(mariadb)
    source.execute("CREATE TABLE t (id int PRIMARY KEY, v text)", "INSERT INTO t VALUES (1, 'a\\0b'), (2, 'c')")
    with job_at_mysql(source, mysql, tmp_path / "job", is_quick=True) as made:
        assert told(scanned(made)) == set()
        made.write_job('[types]\nnul = "strip"\n')
        report = scanned(made)
        assert told(report) == {("t", "changed", "v", 1)}
        assert "a zero character in text, which is left out" in of(report, "t")
