"""Foreign keys that change rows, added and dropped at a real MySQL and MariaDB: the log says whose they are only where no open
transaction has written to their tables (K1, K21)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from anabranch.connectors.mysql.target import acting_keys, attempts
from anabranch.connectors.mysql.target.attempts import LOCK_WAIT
from anabranch.connectors.mysql.target.session import Connection, connect, run
from anabranch.connectors.mysql.target.structures import ExistingForeignKey, read_table
from anabranch.errors import TargetUnavailable
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId
from anabranch.testing.databases import Database
from anabranch.testing.servers import Server
from rigs.users import user_at

_SHOWN_ALONE = re.compile(r" /\* xid=\d+ \*/$")  # which MySQL shows, and which is no part of the statement
JOB, COMMENT = "shop", "/* anabranch:shop */"
TABLES = (
    "CREATE TABLE parent (id int PRIMARY KEY, u int UNIQUE)",
    "CREATE TABLE child (id int PRIMARY KEY, up int, KEY (up))",
    "INSERT INTO parent VALUES (1, 10), (2, 20), (3, 30)",
    "INSERT INTO child VALUES (1, 1), (2, 2)",
)
WRITES = (
    "DELETE FROM parent WHERE id = 3",
    "UPDATE parent SET u = 11 WHERE id = 1",
    "INSERT INTO parent VALUES (4, 40)",
    "DELETE FROM child WHERE id = 1",
    "INSERT INTO child VALUES (9, NULL)",
)


@pytest.fixture
def database(mysql_family: Server, source_database: Callable[[Server], Database]) -> Database:
    made = source_database(mysql_family)
    made.execute(*TABLES)
    return made


@pytest.fixture
def connection(database: Database) -> Iterator[Connection]:
    with closing(_session(database)) as made:
        yield made


def _session(database: Database, user: str = "", password: str = "") -> Connection:
    server = database.server
    endpoint = Endpoint(
        "mysql", server.host, server.port, user or server.user, password or server.password, database.name
    )
    made = connect(endpoint, "anabranch-keys", autocommit=True, checks_keys=False)
    run(made, LOCK_WAIT)
    return made


def _add(
    connection: Connection, database: Database, action: str = "ON DELETE CASCADE ON UPDATE NO ACTION"
) -> list[str]:
    child, parent = f"`{database.name}`.`child`", f"`{database.name}`.`parent`"
    statement = f"ALTER TABLE {child} ADD CONSTRAINT `k` FOREIGN KEY (`up`) REFERENCES {parent} (`id`) {action}"
    return acting_keys.add_key(connection, JOB, statement, TableId(database.name, "child"), "key k")


def _key(connection: Connection, database: Database) -> ExistingForeignKey | None:
    found = read_table(connection, TableId(database.name, "child"))
    return next(iter(found.foreign_keys), None) if found else None


@pytest.fixture
def begun(database: Database) -> tuple[str, int]:
    """Give where the log ended before the test: what stands in front can be unreadable, for other tests kill the server."""
    file, size, *_ = database.query("SHOW BINARY LOGS")[-1]
    return str(file), int(size)


def _logged(database: Database, begun: tuple[str, int]) -> str:
    """Return the last ALTER TABLE of this database behind that place in the server's log."""
    first, place = begun
    files = [str(name) for name, *_ in database.query("SHOW BINARY LOGS") if str(name) >= first]
    for name in reversed(files):
        events = database.query(f"SHOW BINLOG EVENTS IN '{name}'" + f" FROM {place}" * (name == first))
        found = [str(info) for *_, info in events if "ALTER TABLE" in str(info) and database.name in str(info)]
        if found:
            return _SHOWN_ALONE.sub("", found[-1])
    raise AssertionError("no ALTER TABLE of this database is in the log")


@pytest.mark.parametrize("write", WRITES, ids=["deletes", "changes", "inserts", "deletes_child", "inserts_child"])
def test_rule_01_21_a_key_waits_for_whoever_has_written_to_its_tables(
    connection: Connection,
    database: Database,
    begun: tuple[str, int],
    monkeypatch: pytest.MonkeyPatch,
    write: str,
) -> None:
    """Such a transaction would stand behind the statement in the log, and the key would not have acted on it, or would have."""
    monkeypatch.setattr(attempts, "LOCK_TRIES", 1)
    with closing(database.connect()) as user, user.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute(write)
        with pytest.raises(TargetUnavailable, match="its tables are locked"):
            _add(connection, database)
        assert _key(connection, database) is None
        cursor.execute("COMMIT")
        assert _add(connection, database) == []
        key = _key(connection, database)
        assert key is not None and _logged(database, begun).endswith(COMMENT)
        cursor.execute("BEGIN")
        cursor.execute(f"UPDATE {'parent SET u = u + 500' if 'parent' in write else 'child SET up = NULL'}")
        with pytest.raises(TargetUnavailable, match="its tables are locked"):
            acting_keys.drop_key(connection, JOB, key)
        cursor.execute("COMMIT")
    assert acting_keys.drop_key(connection, JOB, key) == [] and _key(connection, database) is None
    assert _logged(database, begun).endswith(f"DROP FOREIGN KEY `k` {COMMENT}")
    database.execute("INSERT INTO child VALUES (77, NULL)")  # nothing is locked any more


def test_a_key_that_only_refuses_has_no_comment_and_locks_nothing(
    connection: Connection, database: Database, begun: tuple[str, int]
) -> None:
    assert _add(connection, database, "ON DELETE NO ACTION ON UPDATE NO ACTION") == []
    key = _key(connection, database)
    assert key is not None and COMMENT not in _logged(database, begun)
    assert acting_keys.drop_key(connection, JOB, key) == [] and COMMENT not in _logged(database, begun)


def test_what_a_server_refuses_for_good_is_told_and_no_table_stays_locked(
    connection: Connection, database: Database
) -> None:
    database.execute("ALTER TABLE child MODIFY up bigint")
    (said,) = _add(connection, database)
    assert said.startswith("key k could not be built")
    database.execute("INSERT INTO child VALUES (77, NULL)", "INSERT INTO parent VALUES (77, 77)")


def test_a_user_who_may_lock_no_table_adds_the_key_and_does_not_say_whose_it_is(
    database: Database, begun: tuple[str, int]
) -> None:
    """A reader of the log then parks the table. A MySQL of now makes ALTER TABLE itself wait."""
    with user_at(database) as (user, password):
        database.execute(
            f"GRANT SELECT, INSERT, ALTER, INDEX, CREATE, DROP, REFERENCES ON `{database.name}`.* TO '{user}'@'%'"
        )
        with closing(_session(database, user, password)) as connection:
            assert _add(connection, database) == []
            assert _key(connection, database) is not None
    assert _logged(database, begun).endswith(COMMENT) is (database.server.name == "mysql")
