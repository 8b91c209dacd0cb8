"""MySQL and MariaDB as targets: every check of a server and a user that are right, and of those that are wrong in one thing."""

from __future__ import annotations

from contextlib import closing

import pytest

from anabranch.connectors.mysql.target import preflight_cluster, preflight_server
from anabranch.connectors.mysql.target.tables import MysqlTables
from anabranch.contracts import ValueRules
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.schema import Column
from anabranch.testing.databases import Database
from anabranch.testing.servers import Server
from rigs.endpoints import endpoint_of
from rigs.preflight_mysql import (
    ID,
    Make,
    checked,
    one,
    setting,
    table,
    target_of,
    user_with,
    wrong,
)

pytestmark = pytest.mark.every_server("fractions")


@pytest.fixture
def database(mysql_family: Server, source_database: Make) -> Database:
    return source_database(mysql_family)


def test_mysql_target_that_is_ready(database: Database) -> None:
    with setting(database.server, "local_infile", "ON"):
        found = checked(database)
    assert wrong(found) == []
    assert {"version", "connections", "rights", "types"} <= set(found)


def test_mysql_target_of_another_family_than_the_scheme_says(database: Database) -> None:
    other = {"mysql": "mariadb", "mariadb": "mysql"}[database.server.name]
    found = checked(database, family=other)
    assert (one(found, "family").verdict, len(found)) == ("failed", 1)
    assert one(found, "family").hint == f"write {database.server.name}:// in [target] url"


def test_mysql_target_of_a_release_that_no_test_has_seen(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight_server, "TESTED", {"mysql": ((10, 1),), "mariadb": ((11, 8),)})
    assert one(checked(database), "version").verdict == "warning"
    monkeypatch.setattr(preflight_server, "OLDEST", {"mysql": (10, 0, 0), "mariadb": (11, 0, 0)})
    assert one(checked(database), "version").verdict == "failed"


SETTINGS = [  # variable, value, check, verdict, part of the hint
    ("local_infile", "OFF", "local_infile", "warning", "SET GLOBAL local_infile = ON"),
    ("read_only", "ON", "read_only", "warning", "SET GLOBAL read_only = OFF"),
    ("super_read_only", "ON", "super_read_only", "failed", "SET GLOBAL super_read_only = OFF"),
    ("binlog_format", "'STATEMENT'", "binlog_format", "failed", "SET GLOBAL binlog_format = 'ROW'"),
    ("binlog_format", "'MIXED'", "binlog_format", "warning", "SET GLOBAL binlog_format = 'ROW'"),
]


def test_pitfall_62_mysql_target_settings(database: Database) -> None:
    known = {name for name, _ in database.query("SHOW GLOBAL VARIABLES")}
    for name, value, check, verdict, hint in SETTINGS:
        if name not in known:
            continue
        ((before,),) = database.query("SELECT @@GLOBAL.read_only")
        try:
            with setting(database.server, name, value):
                result = one(checked(database), check)
        finally:
            database.execute(f"SET GLOBAL read_only = {before}")  # super_read_only switches it on
        assert result.verdict == verdict and hint in result.hint, result


def test_mysql_target_takes_small_packets_only(database: Database) -> None:
    documents = table(ID, Column("body", LogicalType(Kind.TEXT), "longtext"))
    with setting(database.server, "max_allowed_packet", "4194304"):
        result = one(checked(database, documents), "max_allowed_packet")
        assert (result.verdict, result.names) == ("warning", ("shop.orders.body",))
        assert "SET GLOBAL max_allowed_packet" in result.hint
        assert "max_allowed_packet" not in checked(database)  # its columns are short
    with setting(database.server, "max_allowed_packet", "65536"):
        assert one(checked(database), "max_allowed_packet").verdict == "failed"


@pytest.mark.every_server("keys that are wanted")
def test_pitfall_62_mysql_target_keys_that_the_server_wants(database: Database) -> None:
    name = {"mysql": "sql_require_primary_key", "mariadb": "innodb_force_primary_key"}[database.server.name]
    keyless = table(key=())
    assert name not in checked(database, keyless)
    with setting(database.server, name, "ON"):
        result = one(checked(database, keyless), name)
        assert (result.verdict, result.names) == ("failed", ("shop.orders",))
        assert f"SET GLOBAL {name} = OFF" in result.hint
        assert name not in checked(database)


def test_mysql_target_key_that_the_server_makes_up(mysql: Server, source_database: Make) -> None:
    """A keyless table that the job has made there has one at the next start."""
    database, keyless = source_database(mysql), table(key=())
    with setting(mysql, "sql_generate_invisible_primary_key", "ON"):
        with closing(MysqlTables(endpoint_of(database), ValueRules(), "mysql")) as tables:
            tables.create_table(keyless, target_of(keyless, database.name), ValueRules(), False)
        assert "my_row_id" in str(database.query("SHOW CREATE TABLE orders"))
        assert [r for r in wrong(checked(database, keyless)) if r.table] == []
    assert "my_row_id" in one(checked(database), "key").message


# --- rights -----------------------------------------------------------------------------------------------------------


def test_mysql_target_rights_and_the_grants_that_give_them(database: Database) -> None:
    with user_with(database, f"SELECT, INSERT ON `{database.name}`.*", "SELECT ON `anabranch`.*") as endpoint:
        found = checked(database, endpoint=endpoint)
        rights, state = one(found, "rights"), one(found, "state")
        assert rights.verdict == state.verdict == "failed"
        assert "UPDATE" in rights.message and "lacks SELECT" not in rights.message
        database.execute(rights.hint, state.hint)
        found = checked(database, endpoint=endpoint)
        assert one(found, "rights").verdict == "ok" and "state" not in found


def test_mysql_target_rights_on_a_database_that_is_not_there(database: Database) -> None:
    with user_with(database) as endpoint:
        found = checked(database, endpoint=endpoint, place=f"{database.name[:50]}_new")
        result = one(found, "rights")
        assert result.verdict == "failed"
        database.execute(result.hint, one(found, "state").hint)
        assert one(checked(database, endpoint=endpoint, place=f"{database.name[:50]}_new"), "rights").verdict == "ok"


def test_mysql_target_truncate_needs_a_right_more(database: Database) -> None:
    with user_with(database) as endpoint:
        lacking = checked(database, endpoint=endpoint, apply__truncate="truncate")["truncate"]
        assert [result.verdict for result in lacking] == ["failed", "failed"]
        database.execute(*(result.hint for result in lacking))
        assert "truncate" not in checked(database, endpoint=endpoint, apply__truncate="truncate")
        assert "truncate" not in checked(database, endpoint=endpoint, apply__truncate="delete")


def test_mysql_target_read_only_holds_for_an_ordinary_user(database: Database) -> None:
    with user_with(database, "SELECT ON *.*") as endpoint, setting(database.server, "read_only", "ON"):
        assert one(checked(database, endpoint=endpoint), "read_only").verdict == "failed"


# --- clusters: what their variables say -------------------------------------------------------------------------------


def test_mysql_target_in_a_cluster() -> None:
    keyless = [target_of(table(key=()), "shop")]
    galera = {"wsrep_on": "ON", "wsrep_max_ws_size": "1048576", "wsrep_max_ws_rows": "1000"}
    group = {"group_replication_group_name": "aaaa", "group_replication_transaction_size_limit": "1000000"}
    for variables, verdicts in ((galera, ["failed", "warning", "warning"]), (group, ["failed", "warning"])):
        found = list(preflight_cluster.limits(variables, keyless))
        assert [result.verdict for result in found] == verdicts
        assert all(result.hint for result in found)
        tested = {"ON": ("mariadb", (10, 11))}.get(variables.get("wsrep_on", ""), ("mysql", (8, 0)))
        for server, is_seen in ((tested, True), (("mysql", (8, 4)), False)):
            (node,) = preflight_cluster.one_node({**variables, "hostname": "north"}, server)
            assert node.verdict == "warning" and "here of north" in node.message and "one node" in node.hint
            assert ("no test has seen" in node.message) is not is_seen
    assert list(preflight_cluster.one_node({"wsrep_on": "OFF"}, ("mariadb", (10, 11)))) == []
    assert list(preflight_cluster.limits({"wsrep_on": "OFF"}, keyless)) == []
    (order,) = preflight_cluster.commit_order({"wsrep_on": "ON"}, "relaxed")
    assert (order.verdict, order.hint) == ("failed", '[apply] commit_order = "kept"')
    assert not [*preflight_cluster.commit_order({"wsrep_on": "ON"}, "kept")]
    assert not [*preflight_cluster.commit_order({"wsrep_on": "OFF"}, "relaxed")]
    splits = {"wsrep_on": "ON", "wsrep_load_data_splitting": "ON"}
    (split,) = preflight_cluster.limits(splits, [])
    assert (split.verdict, split.hint) == ("failed", "SET GLOBAL wsrep_load_data_splitting = OFF")
    for name in splits:
        assert list(preflight_cluster.limits({**splits, name: "OFF"}, [])) == []
    assert (
        list(preflight_cluster.limits({**galera, "wsrep_max_ws_size": "2147483647", "wsrep_max_ws_rows": "0"}, []))
        == []
    )
