"""Every setting that an administrator can give to sessions is decided in a table, and what is pinned is so in our sessions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pymysql
import pytest

from anabranch.connectors.mysql import settings as mysql_settings
from anabranch.connectors.mysql.connection import ask
from anabranch.connectors.mysql.connection import connect as connect_mysql
from anabranch.connectors.postgresql import settings
from anabranch.connectors.postgresql.connection import connect
from anabranch.connectors.postgresql.source import connector as source
from anabranch.connectors.postgresql.source.connection import open_session
from anabranch.connectors.postgresql.source.wal_stream import WalStream
from anabranch.contracts import Bounds, PreflightContext, ValueRules
from anabranch.errors import SourceError, TargetError
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId
from anabranch.testing.databases import Database, create_database, drop_database
from anabranch.testing.databases import connect as administrator_of
from anabranch.testing.servers import Server
from rigs.endpoints import endpoint_of

NO_SESSION_VARIABLE = (1238, 1228, 1229)  # read-only, or of another scope
SET_BY_OTHERS = "context IN ('user', 'superuser', 'backend', 'superuser-backend') AND name NOT LIKE '%.%'"


@pytest.fixture
def database(postgresql_source: Server, request: pytest.FixtureRequest) -> Iterator[Database]:
    made = create_database(postgresql_source, request.node.name[:40])
    yield made
    drop_database(made)


def test_settings_of_postgresql_are_all_decided(database: Database) -> None:
    """A release with a setting that the table does not know fails here."""
    there = {
        name for (name,) in database.query(f"SELECT name FROM pg_settings WHERE {SET_BY_OTHERS.replace('%', '%%')}")
    }
    assert there - settings.decided() == set()
    assert len(there) > 100


@pytest.mark.every_server
def test_settings_of_mysql_are_all_decided(mysql_family: Server) -> None:
    """A variable counts that a session may set."""
    with closing(administrator_of(mysql_family)) as connection, connection.cursor() as cursor:
        cursor.execute("SHOW SESSION VARIABLES")
        names = {str(name).lower() for name, _ in cursor.fetchall()}
        undecided = [name for name in sorted(names - mysql_settings.decided()) if _may_set(cursor, name)]
    assert undecided == [], f"not decided: {undecided}"
    assert len(names) > 100


def _may_set(cursor: Any, name: str) -> bool:
    try:
        cursor.execute(f"SET SESSION {name} = @@SESSION.{name}")
    except pymysql.err.MySQLError as error:
        return error.args[0] not in NO_SESSION_VARIABLE
    return True


@pytest.mark.every_server
def test_settings_of_mysql_are_pinned_for_a_user_without_rights(mysql_family: Server) -> None:
    user = "settings_nobody"
    with closing(administrator_of(mysql_family)) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE USER {user} IDENTIFIED BY 'p'")
        try:
            cursor.execute("SELECT @@GLOBAL.sql_select_limit")
            (before,) = cursor.fetchone()
            cursor.execute("SET GLOBAL sql_select_limit = 1000")
            try:
                endpoint = Endpoint(mysql_family.name, mysql_family.host, mysql_family.port, user, "p")
                with closing(connect_mysql(endpoint)) as ours:
                    shown = {str(n).lower(): str(v) for n, v in ask(ours, "SHOW SESSION VARIABLES")}
            finally:
                cursor.execute(f"SET GLOBAL sql_select_limit = {before}")
        finally:
            cursor.execute(f"DROP USER {user}")
    assert shown["sql_select_limit"] == mysql_settings.MOST
    for name, pin in mysql_settings.PINNED.items():
        if name in shown and name not in ("optimizer_switch", "max_join_size"):  # these are shown in words
            value = {"ON": "1", "OFF": "0", "NO_CHAIN": "0"}.get(shown[name], shown[name])
            assert value.removesuffix(".000000") == pin.value.strip("'"), name


def test_settings_of_postgresql_are_pinned_in_every_kind_of_session(database: Database) -> None:
    """Of a target, a source and the log; also what only later releases have, and what only a superuser may set."""
    version = int(database.query("SHOW server_version_num")[0][0])
    wanted = {name: pin.value for name, pin in settings.PINNED.items() if pin.since <= version}
    there = {name for (name,) in database.query("SELECT name FROM pg_settings")}
    for name in (*settings.DEMANDED.keys() & there, *wanted):
        database.execute(f"ALTER DATABASE {database.name} SET {name} = {_other(name)}")
    endpoint = endpoint_of(database)
    wanted |= {name: demand.value for name, demand in settings.DEMANDED.items() if name in there}
    with closing(connect(endpoint, "a test", autocommit=True)) as ours:
        assert _shown(ours, wanted) == _plain(wanted)
    wanted = {name: value for name, value in wanted.items() if name != "session_replication_role"}
    with closing(open_session(endpoint)) as ours:
        assert _shown(ours, wanted) == _plain(wanted)
    log = WalStream(endpoint)
    try:
        for name, value in _plain({**wanted, **settings.later_pins(version, walsender=True)}).items():
            shown = log._pg.exec_(f"SHOW {name}".encode()).get_value(0, 0) or b""
            assert _alike(shown.decode()) == value, name
    finally:
        log.close()


def _other(name: str) -> str:
    """Another value than ours, with which a session can still begin."""
    return {
        "search_path": "public",
        "TimeZone": "'Asia/Tokyo'",
        "DateStyle": "'SQL,DMY'",
        "IntervalStyle": "sql_standard",
        "bytea_output": "escape",
        "extra_float_digits": "'0'",
        "lc_monetary": "'POSIX'",
        "xmlbinary": "hex",
        "xmloption": "document",
        "client_min_messages": "error",
        "default_transaction_isolation": "serializable",
        "gin_fuzzy_search_limit": "7",
        "vacuum_cost_delay": "7",
        "plan_cache_mode": "force_custom_plan",
        "session_replication_role": "replica",
        "composite_type_mismatch": "disabled",
    }.get(name, _other_plain(name))


def _other_plain(name: str) -> str:
    value = {**settings.PINNED, **settings.DEMANDED}[name].value
    return {"on": "off", "off": "on"}.get(value, "'1h'")


def _shown(connection: Any, names: Any) -> dict[str, str]:
    return {name: _alike(connection.execute(f"SHOW {name}").fetchone()[0]) for name in names}


def _plain(wanted: dict[str, str]) -> dict[str, str]:
    return {name: _alike(value) for name, value in wanted.items()}


def _alike(value: str) -> str:
    return value.replace(", ", ",").replace("60s", "1min")


def test_what_only_a_superuser_may_set_refuses_others_by_name(database: Database) -> None:
    """Also where a pooler leaves the settings of the startup packet out."""
    user = f"{database.name}_user"
    database.execute(f"CREATE ROLE {user} LOGIN PASSWORD 'p'")
    endpoint = endpoint_of(database, user, "p")
    try:
        connect(endpoint, "a test").close()
        database.execute(f"ALTER DATABASE {database.name} SET zero_damaged_pages = on")
        with pytest.raises(TargetError, match="zero_damaged_pages = on: rows of damaged pages") as refused:
            connect(endpoint, "a test")
        with pytest.raises(SourceError, match="zero_damaged_pages = on"):
            open_session(endpoint)
        database.execute(str(refused.value.hint).partition(";")[0])
        connect(endpoint, "a test").close()
        database.execute(f"ALTER ROLE {user} SET session_replication_role = replica")
        with pytest.raises(TargetError, match="session_replication_role = replica: at a target, triggers"):
            connect(endpoint, "a test")
        open_session(endpoint).close()  # of rows that are read it says nothing
    finally:
        database.execute(f"DROP ROLE {user}")


def test_row_security_at_the_source_is_named_and_never_filters(database: Database) -> None:
    """A policy that shows 5 of 10 rows to the job's user: an error and no part of the rows, until the user may see all."""
    user, table = f"{database.name}_reader", TableId("public", "secret")
    database.execute(
        "CREATE TABLE secret (id int PRIMARY KEY, is_open boolean)",
        "INSERT INTO secret SELECT n, n % 2 = 0 FROM generate_series(1, 10) AS n",
        f"CREATE ROLE {user} LOGIN PASSWORD 'p'",
        f"GRANT SELECT ON secret TO {user}",
        "ALTER TABLE secret ENABLE ROW LEVEL SECURITY",
        f"CREATE POLICY half ON secret TO {user} USING (is_open)",
    )
    ends = source(endpoint_of(database, user, "p"))
    try:
        with closing(ends.catalog()) as catalog:
            tables = catalog.tables(lambda one: one == table)
        with closing(ends.checks()) as checks:
            found = checks.run(PreflightContext("job", {}, tables, {}))
        (said,) = [one for one in found if one.check == "source.row_security"]
        assert said.verdict == "failed" and "public.secret hides rows" in said.message and "half" in said.message
        with closing(ends.snapshot()) as snapshot, pytest.raises(SourceError, match="row-level security") as refused:
            list(snapshot.lines(tables[table], ["id"], Bounds(), ValueRules()))
        assert refused.value.hint == said.hint and said.message in str(refused.value)
        with closing(ends.snapshot()) as snapshot, pytest.raises(SourceError, match="policies half"):
            snapshot.bounds(tables[table], 3)
        database.execute(said.hint)
        with closing(ends.snapshot()) as snapshot:
            assert b"".join(snapshot.lines(tables[table], ["id"], Bounds(), ValueRules())).count(b"\n") == 10
    finally:
        database.execute(f"DROP OWNED BY {user}", f"DROP ROLE {user}")
