"""Columns that a table has and no catalogue shows: they are in its table maps or not, and the table can be parked, brought in
again and followed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from anabranch.testing.servers import Server
from rigs.scenario import PARKS_ADDED, Scenario

Make = Callable[..., Scenario]
# MariaDB keeps a hash of long unique values in a hidden column.
# https://mariadb.com/kb/en/getting-started-with-indexes/#unique-index
HASHED = {
    "one": "CREATE TABLE one (id INT PRIMARY KEY, url TEXT, UNIQUE (url))",
    "two": "CREATE TABLE two (id INT PRIMARY KEY, url TEXT, other TEXT, UNIQUE (url, other))",
    "bare": "CREATE TABLE bare (id INT, url TEXT, UNIQUE (url))",
    "bare_two": "CREATE TABLE bare_two (id INT, url TEXT, other BLOB, n INT, UNIQUE (url, n), UNIQUE (other))",
    "needed": "CREATE TABLE needed (id INT NOT NULL, url TEXT NOT NULL, UNIQUE (url))",
    "short": "CREATE TABLE short (id INT PRIMARY KEY, url VARCHAR(30), UNIQUE (url) USING HASH)",
    "prefix": "CREATE TABLE prefix (id INT PRIMARY KEY, url TEXT, UNIQUE (url(2000)))",
    "mixed": "CREATE TABLE mixed (id INT PRIMARY KEY, url TEXT, low TEXT AS (LOWER(url)) VIRTUAL,"
    " UNIQUE (url), UNIQUE (low))",
    "kept": "CREATE TABLE kept (id INT PRIMARY KEY, url TEXT, UNIQUE (url)) WITH SYSTEM VERSIONING",
    "kept_bare": "CREATE TABLE kept_bare (id INT, url TEXT, UNIQUE (url)) WITH SYSTEM VERSIONING",
    "memory": "CREATE TABLE memory (id INT PRIMARY KEY, url VARCHAR(99), UNIQUE (url)) ENGINE=MEMORY",
    "worded": "CREATE TABLE worded (id INT PRIMARY KEY, url TEXT, FULLTEXT (url), UNIQUE (url))",
}
AGAIN = ("one", "bare_two", "kept")  # brought in again; each takes seconds


@pytest.mark.quick
def test_tables_with_hidden_hash_columns_are_parked_and_brought_in(mariadb: Server, scenario: Make) -> None:
    made = scenario(mariadb, *HASHED.values(), *(fill(name, 1) for name in HASHED))
    made.write_job(PARKS_ADDED)
    running = made.start("run")
    made.wait_streaming(running)
    made.source.execute(*(fill(name, 3) for name in HASHED), *(change(name) for name in HASHED))
    made.sync(running)
    assert set(made.states().values()) == {"streaming"}, [made.reason(name) for name in HASHED]
    made.assert_identical()
    alter = "SET STATEMENT system_versioning_alter_history = KEEP FOR ALTER TABLE {} ADD COLUMN later VARCHAR(9)"
    made.source.execute(*(alter.format(name) for name in HASHED))
    made.sync(running)
    assert {made.states()[name] for name in HASHED} == {"parked"}
    for name in AGAIN:
        made.cli("load", "--table", f"{made.schema}.{name}", "--recreate", seconds=60)
    made.source.execute(*(fill(name, 5) for name in HASHED), "CREATE UNIQUE INDEX at_last ON short (later)")
    made.wait_streaming(running)
    made.sync(running)
    assert {made.states()[name] for name in AGAIN} == {"streaming"}, [made.reason(name) for name in AGAIN]
    made.assert_identical(*AGAIN)
    running.stop()


def fill(table: str, number: int) -> str:
    return f"INSERT INTO {table} (id, url) VALUES ({number}, 'http://{number}/ü'), ({number + 1}, '{number + 1}')"


def change(table: str) -> str:
    return f"UPDATE {table} SET url = CONCAT(url, id) WHERE id = 3"


# Functional indexes have hidden columns, dropped ones stay in the rows, keys that the server made by itself are not shown.
# https://dev.mysql.com/doc/refman/8.0/en/create-index.html#create-index-functional-key-parts
# https://dev.mysql.com/doc/refman/8.0/en/create-table-gipks.html · https://dev.mysql.com/doc/refman/8.0/en/invisible-columns.html
OF_MYSQL = (
    "CREATE TABLE func (id INT PRIMARY KEY, a INT, url TEXT, KEY k ((a + 1)),"
    " UNIQUE u ((CAST(SUBSTR(url, 1, 40) AS CHAR(40)))))",
    "CREATE TABLE func_bare (a INT, b VARCHAR(20), UNIQUE k ((a * 2)))",
    "CREATE TABLE dropped (id INT PRIMARY KEY, a INT, b INT, c VARCHAR(9))",
    "INSERT INTO dropped VALUES (1, 1, 1, 'x')",
    "ALTER TABLE dropped DROP COLUMN b, ALGORITHM=INSTANT",
    "ALTER TABLE dropped ADD COLUMN d INT DEFAULT 7 FIRST, ALGORITHM=INSTANT",
    "CREATE TABLE invisible (id INT PRIMARY KEY, a INT INVISIBLE DEFAULT 5, b INT)",
    "SET SESSION sql_generate_invisible_primary_key = ON",
    "CREATE TABLE keyed (a INT, b VARCHAR(9))",
    "INSERT INTO func VALUES (1, 1, 'http://a'), (2, NULL, NULL)",
    "INSERT INTO func_bare VALUES (1, 'x'), (2, 'y')",
    "INSERT INTO keyed VALUES (1, 'x'), (1, 'x')",
    "INSERT INTO invisible (id, b) VALUES (1, 1)",
)
CHANGES = (
    "INSERT INTO func (id, a, url) VALUES ({0}, {0}, 'http://{0}')",
    "UPDATE func SET a = 10 * a, url = CONCAT(url, '{0}') WHERE id = 1",
    "INSERT INTO func_bare VALUES ({0}, 'z')",
    "UPDATE func_bare SET b = CONCAT(b, '{0}') WHERE a = 1",
    "INSERT INTO dropped (id, a, c) VALUES ({0}, 2, 'y')",
    "UPDATE dropped SET c = 'z{0}' WHERE id = 1",
    "INSERT INTO keyed (a, b) VALUES ({0}, 'y')",
    "UPDATE keyed SET b = 'w{0}' ORDER BY my_row_id LIMIT 1",
    "DELETE FROM keyed ORDER BY my_row_id DESC LIMIT 1",
    "INSERT INTO invisible (id, a, b) VALUES ({0}, 6, 1)",
    "UPDATE invisible SET a = {0} WHERE id = 1",
)


@pytest.mark.quick
def test_tables_with_hidden_columns_of_mysql_are_followed_and_brought_in(mysql: Server, scenario: Make) -> None:
    made = scenario(mysql, *OF_MYSQL)
    made.write_job(PARKS_ADDED)
    running = made.start("run")
    made.wait_streaming(running)
    made.source.execute(*(change.format(30) for change in CHANGES))
    made.sync(running)
    assert set(made.states().values()) == {"streaming"}
    made.assert_identical()
    made.source.execute("ALTER TABLE func ADD COLUMN n INT", "ALTER TABLE keyed ADD COLUMN n INT")
    made.sync(running)
    for name in ("func", "keyed"):
        made.cli("load", "--table", f"{made.schema}.{name}", "--recreate", seconds=60)
    made.source.execute(*(change.format(40) for change in CHANGES))
    made.wait_streaming(running)
    made.sync(running)
    assert set(made.states().values()) == {"streaming"}
    made.assert_identical()
    running.stop()
