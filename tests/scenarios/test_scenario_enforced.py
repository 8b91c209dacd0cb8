"""A job whose user at the target may not switch foreign keys and triggers off: load while somebody writes, stream, both ends
the same."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import closing

import pymysql
import pytest

from anabranch.testing.databases import Database
from anabranch.testing.servers import Server
from anabranch.testing.workload import SCHEMA, Writer, fill
from rigs.foreign_keys_postgresql import ordinary_user
from rigs.scenario import Scenario, repeating, wait_until

Make = Callable[..., Scenario]
CIRCLES = (
    "CREATE TABLE tree (id INT PRIMARY KEY, up INT NULL, FOREIGN KEY (up) REFERENCES tree (id) ON DELETE CASCADE)",
    "CREATE TABLE husband (id INT PRIMARY KEY, wife INT NULL)",
    "CREATE TABLE wife (id INT PRIMARY KEY, husband INT NULL,"
    " FOREIGN KEY (husband) REFERENCES husband (id) ON DELETE SET NULL)",
    "ALTER TABLE husband ADD FOREIGN KEY (wife) REFERENCES wife (id) ON DELETE SET NULL",
)
NUMBERS = 40


@pytest.mark.long
def test_rule_07_pitfall_16_a_job_of_an_ordinary_user(
    mariadb: Server, scenario: Make, target_database: Database
) -> None:
    with ordinary_user(target_database) as user:
        target_database.execute(f"GRANT CREATE ON SCHEMA public TO {user}")
        made = scenario(mariadb, *SCHEMA, *fill(2), *CIRCLES, target_user=(user, "p"))
        told = made.cli("preflight").stdout
        assert f"{user} may not set it: changes are applied in an order that foreign keys accept" in told
        assert "GRANT SET ON PARAMETER session_replication_role" in told
        pick = random.Random(7)
        with Writer(made.source, seed=7, rate=30), repeating(lambda: write(made, pick), 0.02):
            running = made.start("run")
            made.wait_streaming(running, seconds=200)
            wait_until(lambda: keys_of(made) == 5, 60, "all keys are built", running.tail, running)
            made.sync(running)
            wait_until(lambda: keys_act(made), 30, "status says that keys act", running.tail, running)
        made.sync(running)
        made.assert_identical()
        running.stop()
        made.close()


def write(made: Scenario, pick: random.Random) -> None:
    """A transaction over the circles; what the source refuses is left out."""
    number, other = pick.randrange(1, NUMBERS), pick.choice([None, *range(1, NUMBERS)])
    shown = "NULL" if other is None else other
    statements = [
        f"INSERT INTO tree VALUES ({number}, {shown})",
        f"UPDATE tree SET up = {shown} WHERE id = {number}",
        f"DELETE FROM tree WHERE id = {number}",
        f"INSERT INTO husband VALUES ({number}, NULL)",
        f"INSERT INTO wife VALUES ({number}, {shown})",
        f"UPDATE husband SET wife = {shown} WHERE id = {number}",
        f"DELETE FROM {pick.choice(['husband', 'wife'])} WHERE id = {number}",
    ]
    with closing(made.source.connect(autocommit=False)) as connection, closing(connection.cursor()) as cursor:
        for statement in pick.sample(statements, 4):
            try:
                cursor.execute(statement)
            except pymysql.err.IntegrityError:
                continue
        connection.commit()


def keys_of(made: Scenario) -> int:
    """Foreign keys that stand, each of which can be asked at the end of a transaction."""
    query = "SELECT count(*) FROM pg_constraint WHERE contype = 'f' AND condeferrable AND convalidated"
    return int(made.target.query(query)[0][0])


def keys_act(made: Scenario) -> bool:
    return "foreign keys and triggers of the target act" in made.status()["detail"]
