"""MySQL and MariaDB: every check on a server that is right, and on one that is wrong in one thing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from anabranch import connectors
from anabranch.cli.main import exit_code
from anabranch.connectors.mysql import room
from anabranch.connectors.mysql.source import preflight_room
from anabranch.connectors.mysql.source.options import MysqlSourceOptions
from anabranch.contracts import PreflightContext
from anabranch.errors import SourceError
from anabranch.model.checks import CheckResult
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId
from anabranch.testing.databases import Database
from anabranch.testing.features import knows
from anabranch.testing.servers import Server
from anabranch.testing.torture.ends import version_of
from rigs.preflight_mysql import setting

pytestmark = pytest.mark.every_server
Make = Callable[[Server], Database]


def endpoint_of(database: Database, scheme: str = "", user: str = "", password: str = "") -> Endpoint:
    server = database.server
    return Endpoint(scheme or server.name, server.host, server.port, user or server.user, password or server.password)


def checked(
    database: Database,
    endpoint: Endpoint | None = None,
    loaded: tuple[str, ...] = (),
    server_id: int | None = None,
    **choices: str,
) -> dict[str, list[CheckResult]]:
    """Results by check; choices like load__lock="table"."""
    source = connectors.source(endpoint or endpoint_of(database), MysqlSourceOptions(server_id))
    with closing(connectors.source(endpoint_of(database)).catalog()) as catalog:
        tables = catalog.tables(lambda table: table.schema == database.name)
    named = {name.replace("__", "."): value for name, value in choices.items()}
    found: dict[str, list[CheckResult]] = {}
    with closing(source.checks()) as checks:
        done = frozenset(TableId(database.name, name) for name in loaded)
        for result in checks.run(PreflightContext("job", named, tables, {}, loaded=done)):
            found.setdefault(result.check.removeprefix("source."), []).append(result)
    return found


@contextmanager
def user_with(database: Database, *grants: str) -> Iterator[Endpoint]:
    name = database.name[-16:]
    database.execute(f"CREATE USER {name}@'%' IDENTIFIED BY 'pw'")
    try:
        database.execute(*(f"GRANT {grant} TO {name}@'%'" for grant in grants))
        yield endpoint_of(database, user=name, password="pw")
    finally:
        database.execute(f"DROP USER {name}@'%'")


def one(found: dict[str, list[CheckResult]], check: str) -> CheckResult:
    (result,) = found[check]
    return result


def test_a_server_of_the_test_run_is_ready(mysql_family: Server, source_database: Make) -> None:
    database = source_database(mysql_family)
    database.execute("CREATE TABLE t (id int primary key)")
    found = checked(database)
    assert [r for results in found.values() for r in results if r.verdict != "ok"] == []
    assert {
        "family",
        "version",
        "log_bin",
        "binlog_format",
        "server_id",
        "log_retention",
        "grants",
        "engines",
        "keys",
    } <= set(found)


def test_another_family_than_the_scheme_says(mysql_family: Server, source_database: Make) -> None:
    database = source_database(mysql_family)
    other = {"mysql": "mariadb", "mariadb": "mysql"}[mysql_family.name]
    result = one(checked(database, endpoint_of(database, other)), "family")
    assert (result.verdict, result.hint) == ("failed", f"write {mysql_family.name}:// in [source] url")


SETTINGS = [
    ("binlog_format", "'STATEMENT'", "failed", "SET GLOBAL binlog_format = 'ROW'"),
    ("binlog_row_image", "'MINIMAL'", "warning", "SET GLOBAL binlog_row_image = 'FULL'"),
    ("binlog_row_metadata", "'MINIMAL'", "warning", "SET GLOBAL binlog_row_metadata = 'FULL'"),
    ("binlog_expire_logs_seconds", "3600", "warning", "SET GLOBAL binlog_expire_logs_seconds = 604800"),
]
CHECK = {"binlog_expire_logs_seconds": "log_retention"}


def test_settings(mysql_family: Server, source_database: Make) -> None:
    database = source_database(mysql_family)
    known = {name for name, _ in database.query("SHOW GLOBAL VARIABLES")}
    for name, value, verdict, hint in SETTINGS:
        if name in known:
            with setting(mysql_family, name, value):
                result = one(checked(database), CHECK.get(name, name))
            assert result.verdict == verdict, name
            assert result.hint.startswith(hint)


def test_keys_of_the_job_file_that_do_nothing_here(mysql_family: Server, source_database: Make) -> None:
    database = source_database(mysql_family)
    given = "flush_interval_ms, memory_limit_mb, server_id, transaction_staging_timeout_s"
    result = one(checked(database, capture__given=given), "settings")
    assert (
        result.verdict == "warning"
        and "memory_limit_mb, transaction_staging_timeout_s: without effect" in result.message
    )
    assert "settings" not in checked(database, capture__given="server_id")


def test_pitfall_8_differences_of_documents_need_whole_images(mysql: Server, source_database: Make) -> None:
    database = source_database(mysql)
    with setting(mysql, "binlog_row_value_options", "'PARTIAL_JSON'"):
        assert one(checked(database), "binlog_row_value_options").verdict == "ok"
        with setting(mysql, "binlog_row_image", "'MINIMAL'"):
            result = one(checked(database), "binlog_row_value_options")
    assert (result.verdict, result.hint) == ("failed", "SET GLOBAL binlog_row_image = 'FULL'")


@pytest.mark.every_server("row images")
def test_row_image_fails_where_a_filter_needs_whole_rows(mysql_family: Server, source_database: Make) -> None:
    database = source_database(mysql_family)
    with setting(mysql_family, "binlog_row_image", "'NOBLOB'"):
        result = one(checked(database, tables__full_images="shop.orders"), "binlog_row_image")
    assert result.verdict == "failed"
    assert "shop.orders" in result.message


@pytest.mark.every_server("row images")
def test_torture_seed_353_partial_images_of_tables_whose_unique_key_stands_for_the_primary_one(
    mysql_family: Server, source_database: Make
) -> None:
    database = source_database(mysql_family)
    database.execute(
        "CREATE TABLE standing (a int, b int NOT NULL, UNIQUE (b))",
        "CREATE TABLE keyless (a int, b int, UNIQUE (b))",
        "CREATE TABLE keyed (a int PRIMARY KEY, b int NOT NULL, UNIQUE (b))",
    )
    assert all(result.verdict == "warning" for result in checked(database)["keys"])
    with setting(mysql_family, "binlog_row_image", "'MINIMAL'"):
        (result,) = (one for one in checked(database)["keys"] if one.verdict == "failed")
    assert result.names == (f"{database.name}.standing",)
    database.execute(result.hint.partition(";")[0])
    with setting(mysql_family, "binlog_row_image", "'MINIMAL'"):
        assert all(result.verdict == "warning" for result in checked(database)["keys"])


def test_our_server_id_is_theirs(mysql_family: Server, source_database: Make) -> None:
    database = source_database(mysql_family)
    ((theirs,),) = database.query("SELECT @@GLOBAL.server_id")
    assert one(checked(database, server_id=theirs), "server_id").verdict == "failed"


def test_grants_each_by_name(mysql_family: Server, source_database: Make) -> None:
    database = source_database(mysql_family)
    database.execute("CREATE TABLE t (id int primary key)", "CREATE TABLE u (id int primary key)")
    client = {"mysql": "REPLICATION CLIENT", "mariadb": "BINLOG MONITOR"}[mysql_family.name]
    with user_with(database, f"SELECT (id), INSERT ON {database.name}.t", f"SELECT ON {database.name}.u") as endpoint:
        found = checked(database, endpoint)["grants"]
        if not knows(mysql_family, "GTIDs of what is committed"):
            assert "`anabranch`.*" in found[-1].hint
            database.execute(found.pop().hint)
        user = f"'{endpoint.user}'@'%'"
        assert [result.hint for result in found] == [
            f"GRANT REPLICATION SLAVE ON *.* TO {user}",
            f"GRANT {client} ON *.* TO {user}",
            f"GRANT SELECT ON `{database.name}`.`t` TO {user}",
        ]
        assert all(result.verdict == "failed" for result in found)
        database.execute(*(result.hint for result in found))
        assert one(checked(database, endpoint), "grants").verdict == "ok"


def test_what_a_user_is_not_shown_is_told_with_its_grant(mysql_family: Server, source_database: Make) -> None:
    database = source_database(mysql_family)
    database.execute("CREATE TABLE t (id int primary key)")
    client = {"mysql": "REPLICATION CLIENT", "mariadb": "BINLOG MONITOR"}[mysql_family.name]
    everything, single = TableId(database.name, "*"), TableId(database.name, "t")
    with user_with(database, f"REPLICATION SLAVE, {client} ON *.*") as endpoint:
        source = connectors.source(endpoint, MysqlSourceOptions(None))
        with closing(source.catalog()) as catalog:
            assert catalog.tables(lambda table: table.schema == database.name) == {}
        with closing(source.checks()) as checks:
            context = PreflightContext("job", {"load.lock": "global"}, {}, {}, unseen=(everything, single))
            found = [one for one in checks.run(context) if one.check == "source.grants" and "SELECT" in one.message]
            assert [one.verdict for one in found] == ["failed", "failed"]
            assert not {one.check for one in checks.run(context)} & {
                "source.keys",
                "source.engines",
                "source.not_carried",
            }
            database.execute(found[1].hint)
            with closing(source.catalog()) as catalog:
                assert catalog.tables(lambda table: table.schema == database.name).keys() == {single}
            assert f"`{database.name}`.`t`" in found[1].hint
            database.execute(found[0].hint)
            assert not [one for one in checks.run(context) if one.check == "source.grants" and "SELECT" in one.message]
        told = one(checked(database, endpoint), "triggers")
        assert told.verdict == "ok" and "lacks TRIGGER" in told.message
        database.execute(told.message.rpartition("(")[2].rstrip(")"))
        assert "triggers" not in checked(database, endpoint)


def test_a_check_that_may_not_be_asked_names_the_right(mysql: Server, source_database: Make) -> None:
    """The server's own words tell to look for damaged data."""
    database = source_database(mysql)
    database.execute("CREATE TABLE t (id int primary key)")
    with user_with(database, f"SELECT ON `{database.name}`.*") as endpoint:
        told = checked(database, endpoint)
        for check in ("xa", "filters") if version_of(mysql) >= (8, 0) else ("filters",):
            found = one(told, check)
            assert found.verdict == "warning" and "lacks" in found.message and "1401" not in found.message
            database.execute(found.hint)
            assert not [again for again in checked(database, endpoint).get(check, ()) if again.verdict != "ok"]


def test_grants_for_locks(mysql: Server, source_database: Make) -> None:
    database = source_database(mysql)
    database.execute("CREATE TABLE t (id int primary key)")
    rights = ("REPLICATION SLAVE, REPLICATION CLIENT ON *.*", f"SELECT ON `{database.name}`.*")
    with user_with(database, *rights) as endpoint:
        for lock, missing in (
            ("global", "RELOAD ON *.*"),
            ("table", f"LOCK TABLES ON `{database.name.replace('_', chr(92) + '_')}`.*"),
        ):
            result = one(checked(database, endpoint, load__lock=lock), "grants")
            assert result.hint == f"GRANT {missing} TO '{endpoint.user}'@'%'"
            database.execute(result.hint)
            assert one(checked(database, endpoint, load__lock=lock), "grants").verdict == "ok"


def test_what_the_user_may_not_ask_is_a_warning(mysql: Server, source_database: Make) -> None:
    database = source_database(mysql)
    with user_with(database, "REPLICATION SLAVE, REPLICATION CLIENT ON *.*") as endpoint:
        result = one(checked(database, endpoint), "xa")
    assert (result.verdict, result.hint) == ("warning", f"GRANT XA_RECOVER_ADMIN ON *.* TO '{endpoint.user}'@'%'")


def test_prepared_xa_transaction(mysql_family: Server, source_database: Make) -> None:
    database = source_database(mysql_family)
    database.execute("CREATE TABLE t (id int primary key)")
    name = database.name[-20:]
    with closing(database.connect()) as connection, closing(connection.cursor()) as cursor:
        for statement in (f"XA START '{name}'", "INSERT INTO t VALUES (1)", f"XA END '{name}'", f"XA PREPARE '{name}'"):
            cursor.execute(statement)
        try:
            assert one(checked(database), "xa").verdict == "warning"
        finally:
            cursor.execute(f"XA ROLLBACK '{name}'")


def test_rule_33_engines_and_keys(mysql_family: Server, source_database: Make) -> None:
    database = source_database(mysql_family)
    database.execute("CREATE TABLE i (id int)", "CREATE TABLE h (id int primary key) ENGINE=MEMORY")
    found = checked(database)
    engines, keys = one(found, "engines"), one(found, "keys")
    assert engines.verdict == keys.verdict == "warning"
    assert f"{database.name}.h:" in engines.message
    assert f"{database.name}.i:" in keys.message
    assert ("waits for a moment" in keys.message) is (mysql_family.name == "mysql")
    database.execute(*(result.hint.split("; or ")[0] for result in (engines, keys)))
    found = checked(database)
    assert one(found, "engines").verdict == one(found, "keys").verdict == "ok"


def test_hints_for_tables_without_keys_can_be_run(mysql_family: Server, source_database: Make) -> None:
    """One key for each: of a unique index, of the column that counts, of a new column whose name is free."""
    database = source_database(mysql_family)
    database.execute(
        "CREATE TABLE a (id int, code varchar(9) NOT NULL, UNIQUE KEY (id), UNIQUE KEY (code))",
        "CREATE TABLE b (n int NOT NULL AUTO_INCREMENT, KEY (n))",
        "CREATE TABLE c (ID int)",
        "CREATE TABLE d (t text NOT NULL, UNIQUE KEY (t(9))) ENGINE=MyISAM",
    )
    found = checked(database)
    assert one(found, "keys").names == tuple(f"{database.name}.{table}" for table in "abcd")
    refused = one(found, "engines")
    transactions, key, _ = refused.hint.split("; or ")
    assert refused.names == (f"{database.name}.d",)
    database.execute(transactions, *one(found, "keys").hint.split("; or ")[0].split("; "))
    assert key in one(found, "keys").hint
    found = checked(database)
    assert one(found, "engines").verdict == one(found, "keys").verdict == "ok"


def test_rule_04_without_key_and_transactions_a_table_is_refused(mysql_family: Server, source_database: Make) -> None:
    database = source_database(mysql_family)
    database.execute("CREATE TABLE m (id int) ENGINE=MyISAM", "CREATE TABLE h (id int primary key) ENGINE=MEMORY")
    refused, warned = checked(database)["engines"]
    assert (refused.verdict, warned.verdict) == ("failed", "warning")
    assert f"in {database.name}.m:" in refused.message and "ENGINE = InnoDB" in refused.hint
    assert f"in {database.name}.h:" in warned.message
    assert one(checked(database, loaded=("m",)), "engines").verdict == "warning"
    with closing(connectors.source(endpoint_of(database)).catalog()) as catalog:
        tables = {table.name: schema for table, schema in catalog.tables(lambda t: t.schema == database.name).items()}
    with closing(connectors.source(endpoint_of(database)).snapshot()) as snapshot:
        snapshot.open(tables["h"], "none")
        with pytest.raises(SourceError, match="neither transactions nor a primary key"):
            snapshot.open(tables["m"], "table")


def test_rule_02_mysql_without_gtids_needs_a_watermark(mysql: Server, source_database: Make) -> None:
    database = source_database(mysql)
    database.execute("CREATE TABLE t (id int primary key)")
    rights = ("REPLICATION SLAVE, REPLICATION CLIENT ON *.*", f"SELECT ON `{database.name}`.*")
    down, up = ("ON_PERMISSIVE", "OFF_PERMISSIVE", "OFF"), ("OFF_PERMISSIVE", "ON_PERMISSIVE", "ON")
    with user_with(database, *rights) as endpoint:
        try:
            database.execute(*(f"SET GLOBAL gtid_mode = {mode}" for mode in down))
            found = checked(database, endpoint)
            assert (
                one(found, "grants").hint
                == f"GRANT CREATE, SELECT, INSERT, DELETE ON `anabranch`.* TO '{endpoint.user}'@'%'"
            )
            with setting(mysql, "binlog_order_commits", "OFF"):
                assert one(checked(database, endpoint), "binlog_order_commits").verdict == "failed"
        finally:
            database.execute(*(f"SET GLOBAL gtid_mode = {mode}" for mode in up))


@pytest.mark.every_server("of two releases")
def test_rule_01_cascades_over_texts_that_differ_and_are_equal_are_refused(
    mysql_family: Server, source_database: Make
) -> None:
    """The source deletes the children of 'a' with its parent 'A'; at the target only equal values are found."""
    exact = {"mysql": "utf8mb4_0900_bin", "mariadb": "utf8mb4_nopad_bin"}[mysql_family.name]
    types = {
        "folding": "varchar(9) COLLATE utf8mb4_general_ci",
        "padding": "varchar(9) COLLATE utf8mb4_bin",
        "bytes": "varbinary(9)",
        "strict": f"varchar(9) COLLATE {exact}",
        "spaceless": "char(9) COLLATE utf8mb4_bin",
        "labels": "enum('a','b') COLLATE utf8mb4_general_ci",
        "numbers": "int",
    }
    database = source_database(mysql_family)
    for name, type_ in types.items():
        database.execute(
            f"CREATE TABLE {name} (id {type_} PRIMARY KEY, p {type_},"
            f" CONSTRAINT {name}_up FOREIGN KEY (p) REFERENCES {name} (id) ON DELETE SET NULL)"
        )
    database.execute(
        "CREATE TABLE harmless (id int PRIMARY KEY, p varchar(9) COLLATE utf8mb4_general_ci,"
        " FOREIGN KEY (p) REFERENCES folding (id))",
        "INSERT INTO folding VALUES ('A', NULL), ('b', 'a ')",
        "INSERT INTO padding VALUES ('a', NULL), ('b', 'a ')",
        "DELETE FROM folding WHERE id = 'A'",
        "DELETE FROM padding WHERE id = 'a'",
    )
    assert database.query("SELECT p FROM folding UNION ALL SELECT p FROM padding") == [(None,), (None,)]
    refused = checked(database)["foreign_keys"]
    assert [(r.table, r.verdict) for r in refused] == [
        (f"{database.name}.{n}", "failed") for n in ("folding", "padding")
    ]
    assert "p (utf8mb4_general_ci)" in refused[0].message and exact in refused[0].hint
    database.execute(
        f"ALTER TABLE padding DROP FOREIGN KEY padding_up, MODIFY id varchar(9) COLLATE {exact} NOT NULL,"
        f" MODIFY p varchar(9) COLLATE {exact}",
        "ALTER TABLE padding ADD FOREIGN KEY (p) REFERENCES padding (id) ON DELETE SET NULL",
    )
    assert [r.table for r in checked(database)["foreign_keys"]] == [f"{database.name}.folding"]


def test_rule_01_foreign_keys_are_seen_or_the_definition_is_refused(
    mysql_family: Server, source_database: Make
) -> None:
    """MariaDB hides them from a user with SELECT alone: what they cascade would be lost in silence."""
    database = source_database(mysql_family)
    database.execute(
        "CREATE TABLE parent (id INT PRIMARY KEY)",
        "CREATE TABLE child (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES parent (id) ON DELETE CASCADE)",
    )

    def keys(endpoint: Endpoint) -> int:
        with closing(connectors.source(endpoint).catalog()) as catalog:
            found = catalog.tables(lambda table: table.schema == database.name)
        return sum(len(schema.foreign_keys) for schema in found.values())

    with user_with(database, f"SELECT ON {database.name}.*") as endpoint:
        if mysql_family.name == "mariadb":
            with pytest.raises(SourceError, match="hidden") as refused:
                keys(endpoint)
            assert refused.value.hint.startswith("GRANT REFERENCES ON `")
            assert refused.value.hint.endswith(f"`.* TO '{endpoint.user}'@'%'")
            hidden = one(checked(database, endpoint), "hidden_keys")
            assert (hidden.verdict, hidden.hint) == ("failed", refused.value.hint)
            assert hidden.message.startswith(f"{database.name}.child: foreign keys are hidden")
            database.execute(hidden.hint)
        assert "hidden_keys" not in checked(database, endpoint)
        assert keys(endpoint) == 1


def test_a_user_that_does_not_see_foreign_keys_is_one_finding_of_preflight(
    mariadb: Server,
    source_database: Make,
    target_database: Database,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    database, target = source_database(mariadb), target_database.server
    database.execute(
        "CREATE TABLE parent (id INT PRIMARY KEY, place ENUM('a') CHARACTER SET binary)",
        "CREATE TABLE child (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES parent (id) ON DELETE CASCADE)",
    )
    file = tmp_path / "job.toml"
    with user_with(database, f"SELECT ON {database.name}.*") as user:
        file.write_text(
            f'name = "shop"\n[source]\nurl = "mariadb://{user.user}:{user.password}@{user.host}:{user.port}"\n'
            f'[target]\nurl = "postgresql://{target.user}:{target.password}@{target.host}:{target.port}'
            f'/{target_database.name}"\n[[rules]]\ninclude = ["{database.name}.*"]\n'
        )
        with pytest.raises(SystemExit, match="3"):
            exit_code(["preflight", str(file), "--json"])
    checks = [c["check"] for c in json.loads(capsys.readouterr().out)["checks"] if c["verdict"] == "failed"]
    assert checks == ["job.types", "source.grants", "source.grants", "source.hidden_keys"]


def test_connections_of_the_server_and_of_the_user(mysql_family: Server, source_database: Make) -> None:
    """What can never be enough fails, what is enough for a load of fewer pieces is a warning."""
    database, most = source_database(mysql_family), preflight_room.OUR_CONNECTIONS + 4
    database.execute("CREATE TABLE t (id int primary key)")
    with user_with(database, "SELECT ON *.*") as user:
        name = f"'{user.user}'@'%'"

        def found() -> CheckResult:
            return one(checked(database, user), "connections")

        assert found().verdict == "ok" and f"opens up to {most}" in found().message
        limit = f"ALTER USER {name} WITH MAX_USER_CONNECTIONS"
        if version_of(mysql_family) < room.ALTERS_LIMITS[mysql_family.name]:
            limit = f"GRANT USAGE ON *.* TO {name} WITH MAX_USER_CONNECTIONS"
        for number, verdict in ((most - 4, "failed"), (most - 3, "warning"), (most - 1, "warning"), (most, "ok")):
            database.execute(f"{limit} {number}")
            result = found()
            assert result.verdict == verdict, result
            if verdict != "ok":
                assert f"{name} may have {number} connections" in result.message
                assert result.hint.startswith(f"{limit} {most};") and "lower [load] parallel" in result.hint
        database.execute(f"{limit} 0")
        with setting(mysql_family, "max_connections", "20"):
            result = one(checked(database, user, load__parallel="20"), "connections")
            assert result.verdict == "warning" and "max_connections = 20, others have " in result.message
            assert result.hint.startswith("SET GLOBAL max_connections = ") and "parallel, which is 20" in result.hint
