"""Settings that an administrator gave every session, at their worst, and policies on rows: all is exact, or refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import pytest

from anabranch.testing.databases import Database, connect
from anabranch.testing.servers import Server
from anabranch.testing.torture import worst
from rigs.scenario import Scenario

Make = Callable[..., Scenario]
ROWS = "INSERT INTO item SELECT n, CONCAT('row ', n), '2024-01-31 12:00:00' FROM ({}) AS numbers"
NUMBERS = {
    "mysql": "SELECT a.n * 64 + b.n AS n FROM digits a, digits b",
    "postgresql": "SELECT a.n * 64 + b.n AS n FROM digits a, digits b",
}
DIGITS = (
    "CREATE TABLE digits (n INT PRIMARY KEY)",
    f"INSERT INTO digits VALUES {', '.join(f'({n})' for n in range(64))}",
)
ITEM = "CREATE TABLE item (id INT PRIMARY KEY, name VARCHAR(40), at {0})"
# As far from what our statements mean as the server lets an administrator go; without those that only end a session sooner.
WORST_MYSQL: Mapping[str, str] = {
    **worst.MYSQL,
    "net_write_timeout": "1",
    "innodb_table_locks": "0",
    "transaction_isolation": "'READ-UNCOMMITTED'",
    "max_execution_time": "1",
    "max_statement_time": "0.001",
    "old_mode": "'ZERO_DATE_TIME_CAST'",
    "lc_messages": "'de_DE'",
    "lc_time_names": "'ja_JP'",
    "optimizer_switch": "'index_merge=off'",
    "show_gipk_in_create_table_and_information_schema": "0",
    "explain_format": "'JSON'",
}
WORST_POSTGRESQL: Mapping[str, str] = {
    **worst.POSTGRESQL,
    "row_security": "on",
    "idle_session_timeout": "'2s'",
    "wal_sender_timeout": "'2s'",
    "gin_fuzzy_search_limit": "1",
    "check_function_bodies": "off",
    "lc_monetary": "'C'",
    "enable_bitmapscan": "off",
    "enable_tidscan": "off",
    "enable_hashjoin": "off",
    "enable_nestloop": "off",
    "vacuum_cost_delay": "100",
    "client_min_messages": "debug5",
    "zero_damaged_pages": "on",
}


@contextmanager
def given_to_every_session(server: Server, settings: Mapping[str, str]) -> Iterator[None]:
    """SET GLOBAL of those that the server has, put back afterwards."""
    administrator = connect(server)
    with administrator.cursor() as cursor:
        cursor.execute("SHOW GLOBAL VARIABLES")
        before = {name.lower(): value for name, value in cursor.fetchall()}
        there = [name for name in settings if name in before]
        try:
            for name in there:
                cursor.execute(f"SET GLOBAL {name} = {settings[name]}")
            yield
        finally:
            for name in there:
                value = before[name]
                is_number = value.replace(".", "", 1).isdigit()
                cursor.execute(f"SET GLOBAL {name} = {value if is_number else repr(value)}")
    administrator.close()


def given_to_a_database(database: Database, settings: Mapping[str, str]) -> None:
    there = {name for (name,) in database.query("SELECT name FROM pg_settings")}
    with database.connect(options="-c statement_timeout=0") as connection:
        for name in settings:
            if name in there:
                connection.execute(f"ALTER DATABASE {database.name} SET {name} = {settings[name]}")


CHANGES = (
    "UPDATE item SET name = 'changed' WHERE id < 30",
    "DELETE FROM item WHERE id BETWEEN 100 AND 140",
    "INSERT INTO item VALUES (90000, 'it''s \\\\', '2024-02-29 23:59:59')",
)


@pytest.mark.quick
@pytest.mark.one_family
def test_settings_of_every_session_at_their_worst_at_both_ends(mysql_family: Server, scenario: Make) -> None:
    """The input of the report: a low sql_select_limit with 4,096 rows; and everything else with it."""
    made = scenario(mysql_family, *DIGITS, ITEM.format("DATETIME"), ROWS.format(NUMBERS["mysql"]))
    given_to_a_database(made.target, WORST_POSTGRESQL)
    with given_to_every_session(mysql_family, WORST_MYSQL):
        made.run_until_caught_up()
        assert made.cli("verify").code == 0
        with made.source.connect(
            init_command="SET sql_mode = '', max_join_size = DEFAULT, sql_safe_updates = 0 /*M! , max_statement_time = 0 */"
        ) as one:
            for change in CHANGES:
                one.cursor().execute(change)
            one.cursor().execute("COMMIT")
        made.run_until_caught_up()
        assert made.cli("verify").code == 0
    assert count(made) == 4096 - 41 + 1


def count(made: Scenario) -> int:
    with made.target.connect(
        options="-c statement_timeout=0 -c transaction_timeout=0 -c idle_session_timeout=0"
    ) as asked:
        return int(asked.execute("SELECT count(*) FROM public.item").fetchone()[0])


ARRAYS = (
    "CREATE TABLE kinds (id int PRIMARY KEY, words text[], at timestamptz, span interval, raw bytea, x float8)",
    "INSERT INTO kinds VALUES (1, ARRAY['NULL', NULL, 'a']::text[], '2024-03-04 05:06:07.5+02', '-1 day 02:03', '\\x00ff',"
    " 0.1::float8 + 0.2), (2, NULL, 'infinity', NULL, NULL, 'NaN')",
)
MORE_ARRAYS = (
    "UPDATE kinds SET words = ARRAY[NULL, 'null', 'NULL'], span = '1 year -3 days' WHERE id = 2",
    "INSERT INTO kinds SELECT 3, words, at, span, raw, x FROM kinds WHERE id = 1",
)


@pytest.mark.quick
def test_settings_of_every_session_at_their_worst_between_postgresqls(
    logical_postgresql: Server, scenario: Make
) -> None:
    """The input of the report: array_nulls = off at the target; and everything else with it, at both ends."""
    made = scenario(logical_postgresql, *DIGITS, ITEM.format("timestamp"), ROWS.format(NUMBERS["postgresql"]), *ARRAYS)
    for database in (made.source, made.target):
        given_to_a_database(database, WORST_POSTGRESQL)
    made.run_until_caught_up()
    assert made.cli("verify").code == 0
    with made.source.connect(options="-c statement_timeout=0 -c transaction_timeout=0 -c exit_on_error=off") as one:
        for change in (*CHANGES[:2], *MORE_ARRAYS):
            one.execute(change)
    made.run_until_caught_up()
    assert made.cli("verify").code == 0
    assert count(made) == 4096 - 41
    with made.target.connect(options="-c statement_timeout=0 -c transaction_timeout=0 -c array_nulls=on") as asked:
        words = asked.execute("SELECT id, words FROM public.kinds ORDER BY id").fetchall()
    assert words == [(1, ["NULL", None, "a"]), (2, [None, "null", "NULL"]), (3, ["NULL", None, "a"])]


@pytest.mark.quick
def test_row_security_at_the_source_is_refused_and_never_filters(logical_postgresql: Server, scenario: Make) -> None:
    """The input of the report: a policy that shows 5 of 10 rows to the job's user."""
    made = scenario(logical_postgresql, "CREATE TABLE secret (id int PRIMARY KEY, is_open boolean)")
    user = f"{made.source.name}_reader"
    made.source.execute(
        "INSERT INTO secret SELECT n, n % 2 = 0 FROM generate_series(1, 10) AS n",
        f"CREATE ROLE {user} LOGIN REPLICATION PASSWORD 'p'",
        f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {user}",
        f"GRANT CREATE ON DATABASE {made.source.name} TO {user}",
        "ALTER TABLE secret ENABLE ROW LEVEL SECURITY",
        f"CREATE POLICY half ON secret TO {user} USING (is_open)",
    )
    try:
        made.cli("setup", "--execute")
        made.user = (user, "p")
        made.write_job()
        told = made.cli("preflight", code=3).stdout
        assert "row security of public.secret hides rows" in told and "half" in told
        assert "BYPASSRLS" in told
        made.source.execute(f"ALTER ROLE {user} BYPASSRLS")
        made.run_until_caught_up()
        assert made.target.query("SELECT count(*) FROM public.secret") == [(10,)]
        made.source.execute(f"ALTER ROLE {user} NOBYPASSRLS")
        refused = made.cli("verify", code=5)
        assert "row-level security" in refused.stderr and "BYPASSRLS" in refused.stderr
    finally:
        made.source.execute(f"DROP OWNED BY {user}", f"DROP ROLE {user}")


@pytest.mark.quick
def test_a_policy_that_is_made_at_the_source_while_it_streams_filters_nothing(
    logical_postgresql: Server, scenario: Make
) -> None:
    """The log has every row; a table that is loaded again, and verify, are refused with the policy's name."""
    made = scenario(logical_postgresql, "CREATE TABLE secret (id int PRIMARY KEY, is_open boolean)")
    user = f"{made.source.name[-20:]}_reader"
    made.source.execute(
        "INSERT INTO secret SELECT n, n % 2 = 0 FROM generate_series(1, 10) AS n",
        f"CREATE ROLE {user} LOGIN REPLICATION PASSWORD 'p'",
        f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {user}",
        f"GRANT CREATE ON DATABASE {made.source.name} TO {user}",
    )
    made.cli("setup", "--execute")
    made.user = (user, "p")
    made.write_job()
    try:
        made.run_until_caught_up()
        run = made.start("run")
        made.sync(run)
        made.source.execute(
            "ALTER TABLE secret ENABLE ROW LEVEL SECURITY",
            f"CREATE POLICY half ON secret TO {user} USING (is_open)",
            "INSERT INTO secret VALUES (11, false)",
            "UPDATE secret SET is_open = NOT is_open WHERE id = 1",
        )
        made.sync(run)
        for command in (
            ("verify",),
            ("load", "--table", "public.secret"),
            ("load", "--table", "public.secret", "--recreate"),
        ):
            said = made.cli(*command, code=None)
            assert said.code in (3, 5), said
            assert "policies half" in said.stderr and f'ALTER ROLE "{user}" BYPASSRLS' in said.stderr, said
        made.source.execute("INSERT INTO secret VALUES (12, false)")
        made.sync(run)
        assert made.target.query("SELECT count(*) FROM public.secret") == [(12,)]
        made.source.execute(f"ALTER ROLE {user} BYPASSRLS")
        made.cli("load", "--table", "public.secret")
        made.sync(run)
        made.wait_streaming(run)
        made.assert_identical("secret")
        run.stop()
    finally:
        made.close()
        made.source.execute(f"DROP OWNED BY {user}", f"DROP ROLE {user}")
