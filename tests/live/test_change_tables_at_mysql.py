"""Change tables at a MySQL and a MariaDB: what SQL Server's readers ask of them, while the job dies."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pymysql
import pytest

from anabranch import failpoints
from anabranch.errors import AnabranchError, PreflightFailed, RowRefused
from anabranch.testing.databases import Database, create_database, drop_database, unique_name
from anabranch.testing.servers import Server
from rigs.change_readers import ITEM, Asked, Reader, keep_changes, transaction, whole_rows
from rigs.job_here import JobHere
from rigs.scenario_mysql_target import AtMysql, MysqlToMysql, PostgresToMysql

LONG = pytest.mark.long
WAYS = [
    ("logical_postgresql", "mysql"),
    ("mysql", "mariadb"),
    pytest.param(("logical_postgresql", "mariadb"), marks=LONG),
    pytest.param(("mariadb", "mysql"), marks=LONG),
    pytest.param(("mysql", "mysql"), marks=LONG),
    pytest.param(("mysql", "mysql56"), marks=pytest.mark.servers),
    pytest.param(("mysql", "mysql9"), marks=pytest.mark.servers),
]
PLACES = ("apply.appended", "apply.commit", "apply.committed")
NONE = bytes(10)


@pytest.fixture(params=WAYS, ids=lambda way: "-".join(way))
def here(
    request: pytest.FixtureRequest, source_database: Callable[[Server], Database], tmp_path: Path
) -> Iterator[JobHere]:
    source = source_database(request.getfixturevalue(request.param[0]))
    target = create_database(request.getfixturevalue(request.param[1]), "changes")
    target.execute("DROP DATABASE IF EXISTS cdc")
    kind = PostgresToMysql if request.param[0] == "logical_postgresql" else MysqlToMysql
    made = kind(source, target, tmp_path, name=unique_name("job"))
    keep_changes(made)
    source.execute(ITEM, *whole_rows(made, "item", "scenario_mark"))
    yield JobHere(made)
    made.cli("drop", "--execute", code=None)
    target.execute("DROP DATABASE IF EXISTS cdc")
    drop_database(target)


@pytest.mark.one_case("mysql-mariadb")
def test_a_reader_gets_every_change_once_while_the_job_dies(here: JobHere) -> None:
    made, draw, rows = here.made, random.Random(20261128), dict[int, tuple[str | None, int]]()
    for place in ("changes.noted", "changes.made", "changes.known"):
        failpoints.arm({failpoints.VARIABLE: f"{place}=raise"})
        with pytest.raises(failpoints.FailpointReached):
            here.load()
        failpoints.arm({})
    here.load()
    reader, met = Reader(made), []
    begin = reader.one("fn_cdc_get_min_lsn('public_item')")
    for number in range(9):
        for _ in range(3):
            made.source.execute("BEGIN", *transaction(draw, rows), "COMMIT")
        failpoints.arm({failpoints.VARIABLE: f"{PLACES[number % 3]}=raise"} if number % 2 else {})
        try:
            here.stream()
        except failpoints.FailpointReached:
            met.append(PLACES[number % 3])
        finally:
            failpoints.arm({})
        reader.look()
    here.stream()
    reader.look()
    assert set(met) == set(PLACES)
    assert (
        reader.rows_read == rows == {key: tuple(rest) for key, *rest in made.source.query("SELECT id, v, n FROM item")}
    )
    assert reader.seen == sorted(set(reader.seen)), "in the log's order, none twice"
    assert reader.net(begin, reader.read) == {(2, key, *rest) for key, rest in rows.items()}


def test_rows_have_the_layout_and_the_functions_the_answers_of_sql_server(here: JobHere) -> None:
    made, source, asked = here.made, here.made.source, Asked(here.made)
    here.load()
    first = asked.one("fn_cdc_get_max_lsn()")
    source.execute("INSERT INTO item VALUES (1, 'one', 1), (2, 'two', 2)", "UPDATE item SET v = 'ONE' WHERE id = 1")
    here.stream()
    middle = asked.one("fn_cdc_get_max_lsn()")
    source.execute("UPDATE item SET id = 9 WHERE id = 2")
    source.execute(
        "BEGIN",
        "DELETE FROM item WHERE id = 1",
        "INSERT INTO item VALUES (1, 'again', 5)",
        "INSERT INTO item VALUES (3, 'gone', 3)",
        "DELETE FROM item WHERE id = 3",
        "COMMIT",
    )
    here.stream()
    last = asked.one("fn_cdc_get_max_lsn()")
    columns = [row[0] for row in made.target.query("SHOW COLUMNS FROM cdc.`public_item_CT`")]
    head = ["__$start_lsn", "__$end_lsn", "__$seqval", "__$operation", "__$update_mask"]
    assert columns == [*head, "id", "v", "n", "__$command_id"]
    shown = [row[2:] for row in asked.changes(first, middle, "all update old")]
    came = [(2, b"\x07", 1, "one", 1), (2, b"\x07", 2, "two", 2)]
    assert shown == [*came, (3, b"\x02", 1, "one", 1), (4, b"\x02", 1, "ONE", 1)]
    assert [row[2] for row in asked.changes(first, middle)] == [2, 2, 4]
    pairs = [row[1] for row in asked.changes(first, middle, "all update old")[2:]]
    assert pairs[0] == pairs[1], "the two images of an update have one place"
    changed = "fn_cdc_has_column_changed('public_item', %s, %s)"
    assert [asked.one(changed, name, b"\x02") for name in ("id", "V", "n")] == [0, 1, 0]
    behind = asked.one("fn_cdc_increment_lsn(%s)", middle)
    assert asked.net(behind, last) == {(1, 2, "two", 2), (2, 9, "two", 2), (4, 1, "again", 5)}
    assert {row[0] for row in asked.net(behind, last, "all with merge")} == {1, 5}
    assert asked.one("fn_cdc_decrement_lsn(%s)", behind) == middle
    times = made.target.query("SELECT start_lsn, tran_end_time, `position` FROM cdc.lsn_time_mapping ORDER BY 1")
    assert times[-1][0] == last and times[-1][2].startswith(f"{len(times) - 1}@")
    assert asked.one("fn_cdc_map_time_to_lsn('largest less than or equal', %s)", times[-1][1]) == last
    first_then = asked.one("fn_cdc_map_time_to_lsn('smallest greater than or equal', %s)", times[-1][1])
    assert asked.one("fn_cdc_map_lsn_to_time(%s)", first_then) == times[-1][1], "a MariaDB counts whole seconds"
    assert asked.one("fn_cdc_map_lsn_to_time(%s)", last) == times[-1][1]
    recent = made.target.query("SELECT ABS(TIMESTAMPDIFF(SECOND, UTC_TIMESTAMP(), %s))", [times[-1][1]])[0][0]
    assert recent < 3600
    far = asked.one("fn_cdc_increment_lsn(%s)", last)
    for since, to, option in ((first, far, "all"), (NONE, last, "all"), (last, first, "all"), (first, last, "some")):
        for ask in (asked.changes, asked.net):
            with pytest.raises(pymysql.Error, match="insufficient number of arguments") as refused:
                ask(since, to, option)
            assert refused.value.args[0] == 313
    for place, behind in ((b"\0" * 9 + b"\xff", b"\0" * 8 + b"\1\0"), (b"\0\1" + b"\xff" * 8, b"\0\2" + b"\0" * 8)):
        assert asked.one("fn_cdc_increment_lsn(%s)", place) == behind
        assert asked.one("fn_cdc_decrement_lsn(%s)", behind) == place
    assert asked.one("fn_cdc_increment_lsn(%s)", b"\xff" * 10) == b"\xff" * 10
    assert asked.one("fn_cdc_decrement_lsn(%s)", NONE) == NONE


def test_many_rows_come_by_load_data_and_values_as_they_were(here: JobHere) -> None:
    made, source, asked = here.made, here.made.source, Asked(here.made)
    is_postgresql = source.server.name == "postgresql"
    raw, clock = ("BYTEA", "TIMESTAMP") if is_postgresql else ("VARBINARY(9)", "DATETIME(6)")
    source.execute(f"CREATE TABLE felt (id INT PRIMARY KEY, t TEXT, b {raw}, d NUMERIC(12, 3), c {clock})")
    source.execute(*whole_rows(made, "felt"))
    here.load()
    begin = asked.one("fn_cdc_get_max_lsn()")
    written = r"decode('00ff5c', 'hex')" if is_postgresql else "UNHEX('00FF5C')"
    values = ", ".join(f"({key}, 'a\tb''{key}', {written}, {key}.125, '2024-02-29 01:02:03.4')" for key in range(200))
    source.execute(f"INSERT INTO felt VALUES {values}", "UPDATE felt SET t = NULL, c = NULL WHERE id < 100")
    here.stream()
    end = asked.one("fn_cdc_get_max_lsn()")
    found = asked.changes(begin, end, "all update old", of="felt")
    assert [row[2] for row in found] == [2] * 200 + [3, 4] * 100
    assert {row[3] for row in found} == {b"\x1f", b"\x12"}
    assert [str(value) for value in found[7][4:]] == [
        "7",
        "a\tb'7",
        str(b"\x00\xff\\"),
        "7.125",
        "2024-02-29 01:02:03.400000",
    ]
    assert found[-1][5] is None and found[-1][8] is None
    assert len(asked.net(begin, end, of="felt")) == 200


@pytest.mark.one_case("logical_postgresql-mysql")
def test_what_has_no_row_stops_and_what_changes_its_definition_ends(here: JobHere) -> None:
    made, source, asked = here.made, here.made.source, Asked(here.made)
    source.execute("CREATE TABLE other (id INT PRIMARY KEY)", *whole_rows(made, "other"))
    here.load()
    here.load()  # nothing to do
    source.execute(
        "INSERT INTO item VALUES (1, 'one', 1)", "ALTER TABLE other ADD v INT", "INSERT INTO other VALUES (1, 1)"
    )
    source.execute("INSERT INTO item VALUES (2, 'two', 2)")
    here.stream()
    assert (made.states()["item"], made.states()["other"]) == ("streaming", "parked")
    assert made.target.query("SELECT id FROM cdc.`public_item_CT` ORDER BY 1") == [(1,), (2,)]
    last, parked = asked.one("fn_cdc_get_max_lsn()"), asked.one("fn_cdc_get_min_lsn('public_other')")
    with pytest.raises(pymysql.Error, match="insufficient number of arguments"):
        asked.changes(parked, last, of="other")
    source.execute("INSERT INTO item VALUES (3, 'three', 3)", "TRUNCATE TABLE item")
    with pytest.raises(RowRefused, match="TRUNCATE, which change tables have no row for") as stopped:
        here.stream()
    assert made.target.query("SELECT id FROM cdc.`public_item_CT` ORDER BY 1") == [(1,), (2,), (3,)]
    assert stopped.value.position is not None
    here.job.skip(stopped.value.position, execute=True)
    source.execute("INSERT INTO item VALUES (1, 'new', 1)")
    here.stream()
    rows = made.target.query("SELECT v FROM cdc.`public_item_CT` WHERE id = 1 ORDER BY `__$start_lsn`")
    assert rows == [("one",), ("new",)]


def test_net_changes_tell_keys_apart_as_the_source_does(here: JobHere) -> None:
    made, source, asked = here.made, here.made.source, Asked(here.made)
    text = "TEXT" if source.server.name == "postgresql" else "VARCHAR(700) COLLATE utf8mb4_bin"
    source.execute(f"CREATE TABLE word (k {text} PRIMARY KEY, n INT)", *whole_rows(made, "word"))
    if source.server.name != "postgresql":
        source.execute("CREATE TABLE loose (k VARCHAR(9) COLLATE utf8mb4_general_ci PRIMARY KEY, n INT)")
    here.load()
    begin = asked.one("fn_cdc_get_max_lsn()")
    long = "ä" * 600  # more bytes than a server sorts by
    keys = ["a", "A", "ä", long + "1", long + "2", *(["a "] if source.server.name == "postgresql" else [])]
    for key in keys:
        source.execute(f"INSERT INTO word VALUES ('{key}', 0)")
    for key in reversed(keys):
        source.execute(f"UPDATE word SET n = n + 1 WHERE k = '{key}'")
    here.stream()
    end = asked.one("fn_cdc_get_max_lsn()")
    assert asked.net(begin, end, of="word") == {(2, key, 1) for key in keys}
    if source.server.name != "postgresql":
        source.execute("INSERT INTO loose VALUES ('a', 1)")
        here.stream()
        begin = asked.one("fn_cdc_increment_lsn(%s)", asked.one("fn_cdc_get_max_lsn()"))
        source.execute("UPDATE loose SET k = 'A' WHERE k = 'a'")
        here.stream()
        rows = asked.rows("fn_cdc_get_net_changes_public_loose", begin, asked.one("fn_cdc_get_max_lsn()"), "all")
        assert [(row[1], *row[3:]) for row in rows] == [(1, "a", 1), (2, "A", 1)], "the old key first"


def test_rights_on_single_routines_stay_when_change_tables_are_made_again(here: JobHere) -> None:
    made, user = here.made, unique_name("r")
    failpoints.arm({failpoints.VARIABLE: "changes.made=raise"})
    with pytest.raises(failpoints.FailpointReached):
        here.load()
    failpoints.arm({})
    all_changes, net = (f"PROCEDURE cdc.fn_cdc_get_{which}_changes_public_item" for which in ("all", "net"))
    made.target.execute(
        f"CREATE USER '{user}'@'%' IDENTIFIED BY 'Read-3r'",
        f"GRANT EXECUTE ON {all_changes} TO '{user}'@'%'",
        f"GRANT EXECUTE ON FUNCTION cdc.fn_cdc_get_max_lsn TO '{user}'@'%'",
        f"ALTER {net} COMMENT 'of another release'",
    )
    try:
        here.load()
        shown = "\n".join(row[0] for row in made.target.query(f"SHOW GRANTS FOR '{user}'@'%'"))
        assert "fn_cdc_get_all_changes_public_item" in shown and "fn_cdc_get_max_lsn" in shown
        comments = made.target.query(
            "SELECT ROUTINE_COMMENT FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA = 'cdc'"
        )
        assert all(comment.startswith("anabranch ") for (comment,) in comments), "another release's is made anew"
    finally:
        made.target.execute(f"DROP USER '{user}'@'%'")


@pytest.mark.parametrize("isolation", ["REPEATABLE READ", "READ COMMITTED"])
@pytest.mark.one_case("logical_postgresql-mysql-READ COMMITTED", "mysql-mariadb-REPEATABLE READ")
def test_a_reader_waits_for_nobody_and_nobody_for_a_reader(here: JobHere, isolation: str) -> None:
    made, asked = here.made, Asked(here.made)
    here.load()
    made.source.execute("INSERT INTO item VALUES (1, 'one', 1)")
    here.stream()
    begin, end = asked.one("fn_cdc_get_min_lsn('public_item')"), asked.one("fn_cdc_get_max_lsn()")
    reader, epoch = made.target.connect(autocommit=False), made.target.connect(autocommit=False)
    try:
        _run(reader, f"SET SESSION TRANSACTION ISOLATION LEVEL {isolation}", "SET SESSION innodb_lock_wait_timeout = 1")
        _run(epoch, "SET SESSION innodb_lock_wait_timeout = 1", *_epoch("item"))
        calls = [f"CALL cdc.fn_cdc_get_{which}_changes_public_item(%s, %s, 'all')" for which in ("all", "net")]
        for call in calls:
            assert [row[-3:] for row in _rows(reader, call, begin, end)] == [(1, "one", 1)], "while an epoch is open"
        assert _rows(reader, "SELECT cdc.fn_cdc_get_max_lsn()") == [(end,)]
        epoch.rollback()
        _run(epoch, *_epoch("item"))  # which waits for no lock of the reader, whose transaction is open
        epoch.rollback()
        made.source.execute("INSERT INTO item VALUES (2, 'two', 2)")
        here.stream()
        for call in calls:
            assert [row[-3:] for row in _rows(reader, call, begin, end)] == [(1, "one", 1)]
        newest = end if isolation == "REPEATABLE READ" else asked.one("fn_cdc_get_max_lsn()")
        assert _rows(reader, "SELECT cdc.fn_cdc_get_max_lsn()") == [(newest,)], "a view of its own, or the newest"
    finally:
        reader.close()
        epoch.close()


def _epoch(table: str) -> list[str]:
    """Return statements that write what an epoch does: rows, their place, the end of an instance."""
    return [
        f"INSERT INTO cdc.`public_{table}_CT` (`__$start_lsn`, `__$seqval`, `__$operation`)"
        " VALUES (REPEAT(X'EE', 10), REPEAT(X'EE', 10), 2)",
        "INSERT INTO cdc.lsn_time_mapping (start_lsn, tran_end_time, `position`)"
        " VALUES (REPEAT(X'EE', 10), UTC_TIMESTAMP(6), 'x')",
        f"UPDATE cdc.change_tables SET end_lsn = REPEAT(X'EE', 10) WHERE capture_instance = 'public_{table}'",
    ]


def _run(connection: Any, *statements: str) -> None:
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def _rows(connection: Any, sql: str, *values: object) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
        return list(cursor.fetchall())


def test_a_reader_needs_the_rights_that_the_page_names(here: JobHere) -> None:
    made, reader = here.made, unique_name("r")
    made.source.execute("CREATE TABLE hidden (id INT PRIMARY KEY)", *whole_rows(made, "hidden"))
    here.load()
    made.source.execute("INSERT INTO item VALUES (4, 'x', 4)")
    here.stream()
    made.target.execute(
        f"CREATE USER '{reader}'@'%' IDENTIFIED BY 'Read-3r'",
        f"GRANT EXECUTE ON cdc.* TO '{reader}'@'%'",
        f"GRANT SELECT ON cdc.change_tables TO '{reader}'@'%'",
        f"GRANT SELECT ON cdc.captured_columns TO '{reader}'@'%'",
        f"GRANT SELECT ON cdc.lsn_time_mapping TO '{reader}'@'%'",
        f"GRANT SELECT ON cdc.`public_item_CT` TO '{reader}'@'%'",
    )
    asked, there = Asked(made), Database(made.target.server, "cdc")
    call, account = "CALL fn_cdc_get_all_changes_public_{}(%s, %s, 'all')", {"user": reader, "password": "Read-3r"}
    begin, end = asked.one("fn_cdc_get_min_lsn('public_item')"), asked.one("fn_cdc_get_max_lsn()")
    try:
        found = there.query(call.format("item"), [begin, end], **account)
        assert [row[2:] for row in found] == [(2, b"\x07", 4, "x", 4)]
        with pytest.raises(pymysql.Error, match="denied"):
            there.query(call.format("hidden"), [begin, end], **account)
    finally:
        made.target.execute(f"DROP USER '{reader}'@'%'")


def test_preflight_says_what_change_tables_lack(here: JobHere) -> None:
    made, source, user = here.made, here.made.source, unique_name("job")
    long = "x" * 60
    source.execute(f"CREATE TABLE {long} (id INT PRIMARY KEY)", *whole_rows(made, long))
    made.target.execute(
        "CREATE DATABASE cdc",
        "CREATE TABLE cdc.`public_item_CT` (id int)",
        f"CREATE USER '{user}'@'%' IDENTIFIED BY 'Wr1te-r'",
        f"GRANT SELECT, INSERT, CREATE ON cdc.* TO '{user}'@'%'",
    )
    try:
        with pytest.raises(PreflightFailed):
            here.load()
        found = "\n".join(map(str, here.job.preflight().results))
        assert f"public_{long} is longer than 41 characters" in found and "[[rules]] include" not in found
        assert "public_item_CT is there, and is no change table of" in found
        made.target_user = (user, "Wr1te-r")
        keep_changes(made)
        found = "\n".join(map(str, here.job.preflight().results))
        assert "lacks CREATE ROUTINE, ALTER ROUTINE on the database cdc" in found
        assert ("log_bin_trust_function_creators = OFF" in found) == _distrusts(made)
        made.target.execute(f"GRANT CREATE ROUTINE ON cdc.* TO '{user}'@'%'")
        attempt = "CREATE FUNCTION cdc.tried() RETURNS INT DETERMINISTIC NO SQL RETURN 1"
        with nullcontext() if not _distrusts(made) else pytest.raises(pymysql.Error, match="SUPER"):
            Database(made.target.server, "cdc").query(attempt, user=user, password="Wr1te-r")
    finally:
        made.target_user = None
        made.target.execute(f"DROP USER '{user}'@'%'")


def _distrusts(made: AtMysql) -> bool:
    """Return whether a server that logs lets no ordinary user make functions."""
    return made.target.query("SELECT @@log_bin, @@log_bin_trust_function_creators")[0] == (1, 0)


def test_a_server_has_the_changes_of_one_job(here: JobHere, tmp_path: Path) -> None:
    made = here.made
    here.load()
    second = JobHere(type(made)(made.source, made.target, tmp_path / "second", name=unique_name("job")))
    keep_changes(second.made)
    with pytest.raises(AnabranchError, match=r"change tables of another job|is there, and is no change table"):
        second.load()
