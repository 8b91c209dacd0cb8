"""Sessions at a MySQL target: pinned, fed with the rows of a running statement and with nothing else, errors told apart."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from typing import Any

import pytest

from anabranch.connectors.mysql.settings import PINNED
from anabranch.connectors.mysql.target.errors import translated
from anabranch.connectors.mysql.target.session import (
    FED,
    SQL_MODE,
    WRITING,
    Connection,
    ask,
    connect,
    one,
    quoted,
    run,
    transaction,
    warned,
)
from anabranch.contracts import Conflict
from anabranch.errors import TargetBusy, TargetError, TargetUnavailable
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId
from anabranch.testing.databases import Database, create_database, drop_database
from anabranch.testing.in_time import PATIENCE, until
from anabranch.testing.servers import Server
from rigs.mysql_administrator import administer, endpoint_at
from rigs.waiting import Doing

OTHERS = [pytest.param(name, marks=pytest.mark.servers) for name in ("mysql56", "mysql9")]
SOURCE = TableId("shop", "orders")


@pytest.fixture(params=["mysql", "mariadb", *OTHERS])
def database(request: pytest.FixtureRequest) -> Iterator[Database]:
    made = create_database(request.getfixturevalue(request.param), request.node.name[:40])
    made.execute(
        "SET GLOBAL local_infile = 1", "CREATE TABLE orders (id INT PRIMARY KEY, word VARCHAR(10)) ENGINE=InnoDB"
    )
    yield made
    drop_database(made)


@pytest.fixture
def opened(database: Database) -> Iterator[Callable[..., Connection]]:
    made: list[Connection] = []

    def make(**options: Any) -> Connection:
        made.append(connect(endpoint_at(database.server), "a test", **{"autocommit": True, **options}))
        return made[-1]

    yield make
    for connection in made:
        connection._force_close()


def orders(database: Database) -> str:
    return f"{quoted(database.name)}.orders"


def load(database: Database, file: str = FED) -> str:
    return f"LOAD DATA LOCAL INFILE '{file}' INTO TABLE {orders(database)} CHARACTER SET utf8mb4 (id, word)"


def rows(database: Database) -> list[tuple[Any, ...]]:
    return database.query("SELECT id, word FROM orders ORDER BY id")


# --- settings ---------------------------------------------------------------------------------------------------------


def test_a_session_of_a_user_without_rights_is_pinned_whatever_others_get(database: Database) -> None:
    server = database.server
    before = administer(server, "SELECT @@GLOBAL.sql_mode, @@GLOBAL.time_zone, @@GLOBAL.foreign_key_checks")[0]
    nobody = endpoint_at(server, "session_nobody", "p")
    administer(server, "CREATE USER session_nobody IDENTIFIED BY 'p'")
    ours = None
    try:
        administer(
            server, "SET GLOBAL sql_mode = 'ANSI,NO_BACKSLASH_ESCAPES', time_zone = '+05:00', foreign_key_checks = 0"
        )
        ours = connect(nobody, "a test", autocommit=True)
        shown = {str(n).lower(): str(v) for n, v in ask(ours, "SHOW SESSION VARIABLES")}
        for checks in (True, False):
            with closing(connect(nobody, "a test", checks_keys=checks)) as other:
                assert ask(other, "SELECT @@autocommit, @@foreign_key_checks") == [(0, int(checks))]
    finally:
        administer(
            server,
            f"SET GLOBAL sql_mode = '{before[0]}', time_zone = '{before[1]}', foreign_key_checks = {before[2]}",
            "DROP USER session_nobody",
        )
        if ours is not None:
            ours._force_close()
    words = {"ON": "1", "OFF": "0", "NO_CHAIN": "0"}
    for name, pin in {**PINNED, **WRITING}.items():
        if name in shown and name not in ("optimizer_switch", "max_join_size", "sql_mode"):  # shown in other words
            assert words.get(shown[name], shown[name]).removesuffix(".000000") == pin.value.strip("'"), name
    assert set(shown["sql_mode"].split(",")) == set(SQL_MODE.split(","))


def test_a_session_knows_its_server_and_has_no_database(opened: Callable[..., Connection], database: Database) -> None:
    connection = opened()
    assert one(connection, "SELECT DATABASE()") is None
    assert connection.packet >= 1 << 20 and connection.takes_files
    shown = one(connection, "SELECT @@explicit_defaults_for_timestamp")
    is_refused = bool(shown) and database.server.name == "mysql"  # a MariaDB does not refuse it all the same
    assert connection.explicit_timestamps is is_refused
    table = f"{quoted(database.name)}.moments"
    run(connection, f"CREATE TABLE {table} (id INT PRIMARY KEY, at TIMESTAMP NOT NULL) ENGINE=InnoDB")
    insert = f"INSERT INTO {table} VALUES (1, NULL)"
    if not is_refused:
        assert run(connection, insert) == 1
        return
    with pytest.raises(Conflict), translated("write a row", SOURCE):
        run(connection, insert)


@pytest.mark.parametrize("text", ["0000-00-00 00:00:00", "2004-02-31 01:02:03", "2004-00-00 00:00:00"])
def test_pitfall_32_dates_that_a_source_has_stand_as_they_are(
    opened: Callable[..., Connection], database: Database, text: str
) -> None:
    connection, table = opened(), f"{quoted(database.name)}.dates"
    run(connection, f"CREATE TABLE {table} (id INT AUTO_INCREMENT PRIMARY KEY, at DATETIME NOT NULL) ENGINE=InnoDB")
    assert run(connection, f"INSERT INTO {table} VALUES (%s, %s)", 0, text) == 1
    assert ask(connection, f"SELECT id, CAST(at AS CHAR) FROM {table}") == [(0, text)]


# --- statements -------------------------------------------------------------------------------------------------------


def test_values_are_literals_and_names_stay_as_they_are(opened: Callable[..., Connection], database: Database) -> None:
    connection = opened()
    strange = "back\\slash 'single' \"double\" `tick` %s %d % \0 \x1a \n\r\t 😀 ünï"
    column = "odd `%s` 'column' %"
    table = f"{quoted(database.name)}.{quoted('a%s`b')}"
    run(connection, f"CREATE TABLE {table} ({quoted(column)} LONGTEXT, data LONGBLOB) CHARACTER SET utf8mb4")
    every = bytes(range(256))
    insert = f"INSERT INTO {table} ({quoted(column)}, data) VALUES (%s, %s), ('literal %s', NULL)"
    assert run(connection, insert, strange, every) == 2
    assert ask(connection, f"SELECT * FROM {table}") == [(strange, every), ("literal %s", None)]
    assert ask(connection, f"SELECT data FROM {table} WHERE {quoted(column)} = %s", strange) == [(every,)]
    assert ask(connection, f"SELECT 1 FROM {table} WHERE {quoted(column)} LIKE 'literal%'") == [(1,)]


def test_rows_are_counted_as_found_not_as_changed(opened: Callable[..., Connection], database: Database) -> None:
    connection = opened()
    run(connection, f"INSERT INTO {orders(database)} VALUES (1, 'a'), (2, 'b')")
    assert run(connection, f"UPDATE {orders(database)} SET word = 'a' WHERE id < 9") == 2
    assert run(connection, f"UPDATE {orders(database)} SET word = 'a' WHERE id < 9") == 2


def test_several_statements_go_together_up_to_the_first_error(
    opened: Callable[..., Connection], database: Database
) -> None:
    connection, table = opened(), orders(database)
    insert, update = f"INSERT INTO {table} VALUES ({{}}, 'a')", f"UPDATE {table} SET word = 'b'"
    assert connection.together([insert.format(1), insert.format(2), update, f"SELECT * FROM {table}"]) == [1, 1, 2, 2]
    assert connection.together([]) == []
    with pytest.raises(Conflict), translated("a test", SOURCE):
        connection.together([insert.format(3), insert.format(1), insert.format(4)])
    assert [id for id, _ in rows(database)] == [1, 2, 3]
    assert run(connection, insert.format(5)) == 1, "the session goes on"
    connection.packet = 1000
    many = [insert.format(number) for number in range(100, 400)]
    assert connection.together(many) == [1] * 300


def test_a_transaction_ends_with_its_block(opened: Callable[..., Connection], database: Database) -> None:
    connection, insert = opened(), f"INSERT INTO {orders(database)} VALUES (%s, 'a')"
    with transaction(connection):
        run(connection, insert, 1)
    with pytest.raises(ZeroDivisionError), transaction(connection):
        run(connection, insert, 2)
        raise ZeroDivisionError
    assert rows(database) == [(1, "a")]


# --- rows by LOAD DATA LOCAL ------------------------------------------------------------------------------------------


def test_rows_come_from_memory_in_pieces_of_any_size(opened: Callable[..., Connection], database: Database) -> None:
    connection = opened()
    lines = [f"{number}\tw{number % 7}😀\n".encode() for number in range(60_000)]
    large = b"".join(lines[:50_000])
    blocks = [b"", large, b"", *lines[50_000:59_999], lines[-1][:3], lines[-1][3:], b""]
    assert connection.load_local(load(database), iter(blocks)) == (60_000, 0)
    assert database.query("SELECT COUNT(*), SUM(id) FROM orders") == [(60_000, sum(range(60_000)))]
    assert database.query("SELECT word FROM orders WHERE id IN (49999, 50000, 59999)") == [
        ("w5😀",),
        ("w6😀",),
        ("w2😀",),
    ]
    assert connection.load_local(load(database), []) == (0, 0)
    assert ask(connection, "SELECT 1") == [(1,)]


def test_an_error_of_a_row_is_a_warning_with_local(opened: Callable[..., Connection], database: Database) -> None:
    connection = opened()
    stored = connection.load_local(load(database), [b"1\ta\n", b"1\tb\n2\tfar too long for it\n"])
    numbers = {warning.number for warning in warned(connection)}
    assert stored.rows == 2, "the second of a key is left out"
    if database.server.version.startswith("5.6"):  # which does not even warn of it
        assert stored.warnings == 1 and numbers == {1265}
    else:
        assert stored.warnings == 2 and numbers == {1062, 1265}


@pytest.mark.parametrize("file", ["/etc/hostname", "rows of anabranch2", ""])
def test_a_file_that_no_statement_of_ours_names_is_not_sent(
    opened: Callable[..., Connection], database: Database, file: str
) -> None:
    connection = opened()
    with pytest.raises(TargetError, match="it gets none"):
        connection.load_local(load(database, file or "nothing"), [b"1\ta\n"])
    assert not connection.open and rows(database) == []


def test_a_server_that_asks_without_a_load_gets_nothing(opened: Callable[..., Connection], database: Database) -> None:
    connection = opened()
    with pytest.raises(TargetError, match="it gets none"):
        run(connection, load(database))
    assert not connection.open and rows(database) == []
    again = opened()
    assert again.load_local(load(database), [b"1\ta\n"]).rows == 1
    with pytest.raises(TargetError, match="it gets none"):
        run(again, load(database))


def test_rows_that_end_in_an_error_leave_none_there(opened: Callable[..., Connection], database: Database) -> None:
    """Whether the session commits by itself or not."""

    def broken() -> Iterator[bytes]:
        yield b"1\ta\n" * 1
        yield b"x" * (1 << 20)
        raise ZeroDivisionError

    for autocommit in (True, False):
        connection = opened(autocommit=autocommit)
        with pytest.raises(ZeroDivisionError):
            connection.load_local(load(database), broken())
        assert not connection.open
        there = f"SELECT 1 FROM information_schema.PROCESSLIST WHERE ID = {connection.thread_id()}"
        until(partial(_is_empty, database, there), "the session has not ended")
        assert rows(database) == []


def _is_empty(database: Database, query: str) -> bool:
    return not database.query(query)


def test_a_server_that_is_killed_while_rows_are_sent_is_away(
    opened: Callable[..., Connection], database: Database
) -> None:
    connection = opened(autocommit=False)

    def endless() -> Iterator[bytes]:
        yield b"1\ta\n"
        administer(database.server, f"KILL {connection.thread_id()}")
        number, give_up = 2, time.monotonic() + PATIENCE
        while time.monotonic() < give_up:
            yield b"".join(f"{one}\ta\n".encode() for one in range(number, number + 10_000))
            number += 10_000

    with pytest.raises(TargetUnavailable), translated("load a chunk", SOURCE):
        connection.load_local(load(database), endless())
    assert rows(database) == []


# --- errors -----------------------------------------------------------------------------------------------------------


def test_pitfall_44_a_deadlock_is_busy(opened: Callable[..., Connection], database: Database) -> None:
    one, two = opened(), opened()
    run(one, f"INSERT INTO {orders(database)} VALUES (1, 'a'), (2, 'b')")
    update = f"UPDATE {orders(database)} SET word = 'x' WHERE id = %s"
    found: list[BaseException] = []

    def cross(connection: Connection, number: int) -> None:
        try:
            with translated("change a row", SOURCE), transaction(connection):
                run(connection, update, number)
                barrier.wait(PATIENCE)
                run(connection, update, 3 - number)
        except TargetBusy as error:
            found.append(error)

    barrier = threading.Barrier(2)
    crossing = [Doing(partial(cross, *pair)) for pair in ((one, 1), (two, 2))]
    for each in crossing:
        each.done()
    assert len(found) == 1 and "[1213]" in str(found[0])
    assert [ask(connection, "SELECT 1") for connection in (one, two)] == [[(1,)]] * 2


def test_pitfall_44_a_lock_that_is_not_given_is_busy(opened: Callable[..., Connection], database: Database) -> None:
    """Rows that others hold, and a table."""
    holder, waiter = opened(autocommit=False), opened()
    run(holder, f"INSERT INTO {orders(database)} VALUES (1, 'a')")
    run(waiter, "SET SESSION innodb_lock_wait_timeout = 1, lock_wait_timeout = 1")
    with pytest.raises(TargetBusy, match="1205"), translated("add a row", SOURCE):
        run(waiter, f"INSERT INTO {orders(database)} VALUES (1, 'b')")
    with pytest.raises(TargetBusy, match="1205"), translated("alter the table"):
        run(waiter, f"ALTER TABLE {orders(database)} ADD COLUMN more INT")


def refused(database: Database) -> dict[str, tuple[str, str]]:
    """Return, by fault, a statement that makes it, and the server's words that name the place."""
    table = orders(database)
    return {
        "duplicate": (f"INSERT INTO {table} VALUES (1, 'secret')", "for key"),
        "too long": (f"INSERT INTO {table} VALUES (3, 'secret and too long')", "column 'word'"),
        "no number": (f"INSERT INTO {table} VALUES ('secret', 'a')", "column"),
        "out of range": (f"INSERT INTO {table} VALUES (12345678901, 'a')", "column 'id'"),
        "no parent": (f"INSERT INTO {quoted(database.name)}.child VALUES (1, 77)", "foreign key"),
        "has children": (f"DELETE FROM {table} WHERE id = 2", "foreign key"),
        "null": (f"INSERT INTO {table} VALUES (NULL, 'secret')", "'id' cannot be null"),
    }


@pytest.mark.parametrize("what", refused(Database(None, "x")))  # type: ignore[arg-type]  # for the names alone
def test_rows_that_do_not_fit_are_conflicts_without_their_values(
    opened: Callable[..., Connection], database: Database, what: str
) -> None:
    connection = opened()
    child = f"{quoted(database.name)}.child"
    run(connection, f"INSERT INTO {orders(database)} VALUES (1, 'a'), (2, 'b')")
    run(
        connection,
        f"CREATE TABLE {child} (id INT PRIMARY KEY, o INT, FOREIGN KEY (o) REFERENCES orders (id)) ENGINE=InnoDB",
    )
    run(connection, f"INSERT INTO {child} VALUES (9, 2)")
    statement, words = refused(database)[what]
    with pytest.raises(Conflict) as found, translated("write a row", SOURCE, {"id": "1"}):
        run(connection, statement)
    assert words in found.value.what and "secret" not in str(found.value) and found.value.key == {"id": "1"}
    with pytest.raises(TargetError, match="write a row"), translated("write a row"):
        run(connection, statement)


def test_a_broken_check_is_a_conflict(opened: Callable[..., Connection], database: Database) -> None:
    connection, table = opened(), f"{quoted(database.name)}.checked"
    run(connection, f"CREATE TABLE {table} (id INT, CONSTRAINT few CHECK (id < 9)) ENGINE=InnoDB")
    insert = f"INSERT INTO {table} VALUES (10)"
    if database.server.version.startswith("5."):  # it reads checks and forgets them
        assert run(connection, insert) == 1
        return
    with pytest.raises(Conflict, match="few"), translated("write a row", SOURCE):
        run(connection, insert)


def test_what_a_trigger_raises_is_a_conflict(opened: Callable[..., Connection], database: Database) -> None:
    database.execute(
        "CREATE TRIGGER no_more BEFORE INSERT ON orders FOR EACH ROW SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'secret'"
    )
    connection = opened()
    with pytest.raises(Conflict, match="trigger") as found, translated("write a row", SOURCE):
        run(connection, f"INSERT INTO {orders(database)} VALUES (1, 'a')")
    assert "secret" not in str(found.value)


def test_a_session_that_is_killed_is_away_and_so_is_a_server_that_is_not_there(
    opened: Callable[..., Connection], database: Database
) -> None:
    connection = opened()
    administer(database.server, f"KILL {connection.thread_id()}")
    with pytest.raises(TargetUnavailable), translated("ask"):
        ask(connection, "SELECT 1")
    with pytest.raises(TargetUnavailable), translated("ask"):
        ask(connection, "SELECT 1")
    with pytest.raises(TargetUnavailable, match="cannot connect") as lost:
        connect(Endpoint("mysql", "127.0.0.1", 1, "u", "secret-word"), "t")
    assert "secret-word" not in str(lost.value)


def test_who_is_refused_gets_the_reason(opened: Callable[..., Connection], database: Database) -> None:
    server: Server = database.server
    with pytest.raises(TargetError, match="Access denied") as found:
        connect(endpoint_at(server, "session_stranger", "secret-word"), "t")
    assert not isinstance(found.value, TargetUnavailable) and "secret-word" not in str(found.value)
    with pytest.raises(TargetError, match="no_such") as gone, translated("read", SOURCE):
        run(opened(), f"SELECT * FROM {quoted(database.name)}.no_such")
    assert "load it again" in gone.value.hint
