"""Keys, indexes and checks built at a real MySQL and MariaDB: what has no counterpart is named, what rows break is told, and
whatever a process that died has left is gone on from."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from anabranch.connectors.mysql.target import attempts
from anabranch.connectors.mysql.target.session import connect, run
from anabranch.errors import TargetError, TargetUnavailable
from anabranch.model.ids import TableId
from anabranch.model.schema import Check, Column, Index
from anabranch.testing.in_time import until
from rigs.mysql_tables import (
    CUSTOMERS,
    ORDERS,
    RULES,
    TEXT,
    WORD,
    Place,
    number,
    table,
)
from rigs.waiting import Doing

pytestmark = pytest.mark.every_server("fractions")


def test_pitfall_64_indexes_without_a_counterpart_are_named(place: Place) -> None:
    indexes = (
        Index("live", ("word",), True, definition="USING btree (word) WHERE (id > 0)"),
        Index("lowered", ("word",), definition="USING btree (lower(word))"),
        Index("found", ("word",), kind="gin", definition="USING gin (word)"),
        Index("apart", ("word",), True, constraint="EXCLUDE USING gist (word WITH =)", kind="gist"),
        Index("plain", ("word",)),
    )
    schema = table("strange", number(), Column("word", TEXT, "text"), indexes=indexes, dialect="postgresql")
    place.create(schema)
    problems = place.build(schema)
    assert [problem.split(" ")[1] for problem in problems] == ["live", "lowered", "found", "apart"]
    assert {index.name for index in place.existing("strange").indexes} == {"PRIMARY", "plain"}


def test_mysql_and_mariadb_names_of_65_characters_are_shortened_or_refused(place: Place) -> None:
    long = "x" * 65
    schema = table("named", number(), Column("word", WORD, "varchar(40)"), indexes=(Index(long, ("word",)),))
    place.create(schema)
    for _ in range(2):
        assert place.build(schema) == []
    (made,) = [index.name for index in place.existing("named").indexes if index.name != "PRIMARY"]
    assert len(made) == 64 and made.startswith("x" * 50)
    with pytest.raises(TargetError, match=r"longer than 64 characters.*rename"):
        place.create(table(long, number()))


@pytest.mark.every_server("checks")
def test_mysql_and_mariadb_a_check_that_rows_break_is_told_and_not_kept(place: Place) -> None:
    text = "(`n` > 0)"
    schema = table("checked", number(), number("n"), checks=(Check("low", text, refusal="x"),), engine="InnoDB")
    place.create(schema)
    place.database.execute("INSERT INTO checked VALUES (1, 5), (2, -5)")
    for _ in range(2):
        assert place.build(schema) == [
            f"check low of {place.database.name}.checked is not built: rows break it, as at the source"
        ]
        assert not place.existing("checked").checks
    place.database.execute("DELETE FROM checked WHERE id = 2")
    for _ in range(2):
        assert place.build(schema) == []
    assert list(place.existing("checked").checks) == ["low"]


@pytest.mark.every_server("checks")
def test_mysql_and_mariadb_a_check_that_a_dead_process_added_is_asked(place: Place) -> None:
    """MariaDB adds it first: who died then has left one that rows break. Another check of that name, which they keep, stays."""
    schema = table("checked", number(), number("n"), checks=(Check("low", "(`n` > 0)", refusal="x"),), engine="InnoDB")
    place.create(schema)
    place.database.execute("INSERT INTO checked VALUES (1, 5), (2, -5)")
    if place.database.server.name == "mariadb":
        with closing(connect(place.endpoint, "died", autocommit=True)) as died:
            run(died, "SET SESSION check_constraint_checks = 0")
            run(died, f"ALTER TABLE {place.database.name}.checked ADD CONSTRAINT low CHECK (n > 0)")
    said = f"check low of {place.database.name}.checked is not built: rows break it, as at the source"
    for _ in range(2):
        assert place.build(schema) == [said]
        assert not place.existing("checked").checks
    place.database.execute("ALTER TABLE checked ADD CONSTRAINT low CHECK (n > -10)")
    assert place.build(schema) == []
    assert list(place.existing("checked").checks) == ["low"]


def test_rule_29_orphans_are_counted_and_the_key_stands_unvalidated(place: Place) -> None:
    place.create(CUSTOMERS, ORDERS)
    place.database.execute("INSERT INTO orders VALUES (1, 99), (2, 98), (3, NULL)")
    key = f"foreign key customer_of of {place.database.name}.orders"
    said = f"{key} stands unvalidated: 2 rows without a parent, as at the source"
    for _ in range(2):
        assert place.build(CUSTOMERS, ORDERS) == [said]
    with pytest.raises(Exception, match="customer_of"):
        place.database.execute("INSERT INTO orders VALUES (4, 97)")


def test_mysql_and_mariadb_a_key_that_the_source_has_not_validated_is_told(place: Place) -> None:
    """NOT VALID, in PostgreSQL's words: its old rows may have no parent, which is asked for all the same."""
    (key,) = ORDERS.foreign_keys
    orders = replace(ORDERS, foreign_keys=(replace(key, options="ON DELETE SET NULL NOT VALID"),))
    place.create(CUSTOMERS, orders)
    said = f"foreign key customer_of of {place.database.name}.orders stands unvalidated"
    assert place.build(CUSTOMERS, orders) == [f"{said}, as at the source"]
    place.database.execute("SET foreign_key_checks = 0", "INSERT INTO orders VALUES (1, 99)")
    for _ in range(2):
        assert place.build(CUSTOMERS, orders) == [f"{said}: 1 row without a parent, as at the source"]


def test_mysql_and_mariadb_keys_of_one_name_in_two_tables(place: Place) -> None:
    other = replace(ORDERS, id=TableId("shop", "former"))
    place.create(CUSTOMERS, ORDERS, other)
    for _ in range(2):
        assert place.build(CUSTOMERS, ORDERS, other) == []
    assert len(place.existing("customers").referenced_by) == 2


def test_mysql_and_mariadb_what_a_dead_process_left_is_gone_on_from(place: Place) -> None:
    """It died between the note and the DROP, or between the key and the note's end."""
    place.create(CUSTOMERS, ORDERS)
    assert place.build(CUSTOMERS, ORDERS) == []
    place.tables.take_off_keys(place.job, place.table(CUSTOMERS))
    assert not place.existing("customers").has_actions
    name = place.database.name
    place.database.execute("ALTER TABLE customers ADD UNIQUE KEY by_name (name)")
    place.tables.take_off_keys(place.job, place.table(CUSTOMERS))
    assert not place.existing("customers").secondary_unique
    place.database.execute(
        "ALTER TABLE orders ADD CONSTRAINT customer_of FOREIGN KEY (customer) REFERENCES customers (id) ON DELETE SET NULL"
    )
    assert place.build(CUSTOMERS, ORDERS) == []
    assert [key.on_delete for key in place.existing("customers").referenced_by] == ["SET NULL"]
    kept = f"SELECT COUNT(*) FROM anabranch.taken_off WHERE table_schema = '{name}'"
    assert place.database.query(kept) == [(0,)]


BUILDS = """
import sys
from anabranch.model.endpoint import Endpoint
from rigs.mysql_tables import CUSTOMERS, ORDERS, Place
from anabranch.testing.databases import Database
from anabranch.testing.servers import server_from_dsn
place = Place(Database(server_from_dsn(sys.argv[1]), sys.argv[2]))
while True:
    place.create(CUSTOMERS, ORDERS)
    place.build(CUSTOMERS, ORDERS)
    place.tables.take_off_keys(place.job, place.table(CUSTOMERS))
"""


def sessions(place: Place) -> set[int]:
    """A server carries out a statement to its end, also when its client is gone."""
    asks = "SELECT ID FROM information_schema.PROCESSLIST WHERE USER = %s AND ID <> CONNECTION_ID()"
    return {int(id) for (id,) in place.database.query(asks, [place.database.server.user])}


def test_mysql_and_mariadb_tables_survive_a_kill_between_any_statements(place: Place) -> None:
    """Each kill is a moment later than the one before. What is there then is gone on from, with the same end."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", BUILDS, place.database.server.url(), place.database.name]
    for wait in range(6):
        before = sessions(place)
        with subprocess.Popen(command, env=environment) as process:
            until(lambda: place.database.query("SHOW TABLES LIKE 'orders'"), "the tables are not made")
            time.sleep(0.11 * wait)
            process.kill()
        until(lambda ours=before: sessions(place) <= ours, "what the process has asked for last is still done")
        place.create(CUSTOMERS, ORDERS)
        assert place.build(CUSTOMERS, ORDERS) == []
        assert [index.name for index in place.existing("customers").secondary_unique] == ["by_name"]
        (key,) = place.existing("customers").referenced_by
        assert (key.name, key.on_delete) == ("customer_of", "SET NULL")
        if wait < 5:
            place.database.execute("DROP TABLE orders", "DROP TABLE customers")


def test_mysql_and_mariadb_keys_to_a_table_that_is_made_anew_come_back(place: Place) -> None:
    place.create(CUSTOMERS, ORDERS)
    assert place.build(CUSTOMERS, ORDERS) == []
    place.tables.create_table(CUSTOMERS, place.table(CUSTOMERS), RULES, True, load=(place.job, 1))
    assert not place.existing("customers").referenced_by
    assert place.build(CUSTOMERS) == []
    assert [key.name for key in place.existing("customers").referenced_by] == ["customer_of"]


def test_mysql_and_mariadb_keys_come_back_to_a_table_that_could_not_be_dropped(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.create(CUSTOMERS)
    place.database.execute("ALTER TABLE customers ADD UNIQUE KEY mine (name)")
    customers = place.table(CUSTOMERS)
    place.tables.take_off_keys(place.job, customers)
    with closing(place.database.connect(autocommit=False)) as holder, closing(holder.cursor()) as cursor:
        cursor.execute("INSERT INTO customers VALUES (1, 'Ann')")
        with monkeypatch.context() as once, pytest.raises(TargetUnavailable, match="locked"):
            once.setattr(attempts, "LOCK_TRIES", 1)
            place.tables.create_table(CUSTOMERS, customers, RULES, True, load=(place.job, 1))
        holder.commit()
    assert place.build(CUSTOMERS) == []
    assert [index.name for index in place.existing("customers").secondary_unique] == ["mine"]


def test_mysql_and_mariadb_build_waits_for_who_is_at_the_table(place: Place) -> None:
    place.create(CUSTOMERS)
    found: list[Any] = []
    with closing(place.database.connect(autocommit=False)) as holder, closing(holder.cursor()) as cursor:
        cursor.execute("INSERT INTO customers VALUES (1, 'Ann')")
        building = Doing(lambda: found.append(place.build(CUSTOMERS)))
        waiting = "SELECT 1 FROM information_schema.PROCESSLIST WHERE STATE LIKE '%%metadata lock%%' AND INFO LIKE %s"
        until(lambda: place.database.query(waiting, [f"ALTER%{place.job}%"]), "ALTER TABLE does not wait")
        holder.commit()
        building.done()
    assert found == [[]]
    assert place.existing("customers").secondary_unique
