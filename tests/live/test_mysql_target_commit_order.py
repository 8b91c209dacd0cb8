"""Changes of a PostgreSQL at a MySQL or MariaDB in the order in which they were committed, and the same rows for fewer
statements where many source transactions become one of the target.

What does not live here: transactions that are refused in the middle (test_mysql_target_one_by_one.py).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from anabranch.testing.databases import Database
from anabranch.testing.servers import Server
from rigs.job_here import JobHere
from rigs.scenario_mysql_target import job_at_mysql

Make = Callable[[Server], Database]
BY_TARGET = pytest.mark.parametrize("target", ["mysql", "mariadb"])
ONE_BY_ONE = '[apply]\nmode = "transaction"\n'
FIRES = 'triggers = "fire"\n'
TABLES = ("CREATE TABLE p (id int PRIMARY KEY, v text)", "CREATE TABLE q (id int PRIMARY KEY, v text)")
AUDIT = "CREATE TABLE audit (n int AUTO_INCREMENT PRIMARY KEY, what varchar(40))"


def trigger(table: str, verb: str) -> str:
    row = "OLD" if verb == "DELETE" else "NEW"
    note = f"INSERT INTO audit (what) VALUES (CONCAT('{table} {verb} ', {row}.id))"
    return f"CREATE TRIGGER {table}_{verb.lower()} AFTER {verb} ON {table} FOR EACH ROW {note}"


@pytest.mark.parametrize("target", ["mysql", "mariadb", pytest.param("mysql56", marks=pytest.mark.servers)])
def test_changes_of_a_postgresql_come_in_commit_order(
    target: str, postgresql_source: Server, request: pytest.FixtureRequest, source_database: Make, tmp_path: Path
) -> None:
    """Inserts, updates and deletes of two tables. The transaction that has begun first is committed last; what a rolled-back
    one did does not come."""
    source = source_database(postgresql_source)
    source.execute(*TABLES, "INSERT INTO p VALUES (1, 'a'), (2, 'b')", "INSERT INTO q VALUES (1, 'a')")
    with job_at_mysql(source, request.getfixturevalue(target), tmp_path / "job", is_quick=True) as made:
        made.write_job(ONE_BY_ONE + FIRES)
        here = JobHere(made)
        here.load()
        here.stream()
        made.target.execute(AUDIT, *(trigger(t, verb) for t in ("p", "q") for verb in ("INSERT", "UPDATE", "DELETE")))
        with closing(source.connect()) as early, closing(source.connect()) as gone:
            early.autocommit = gone.autocommit = False
            early.execute("INSERT INTO q VALUES (10, 'begun first')")
            gone.execute("DELETE FROM p WHERE id = 2")
            gone.rollback()
            source.execute("UPDATE p SET v = 'c' WHERE id = 1")
            source.execute("DELETE FROM q WHERE id = 1")
            source.execute("INSERT INTO p VALUES (3, 'd')")
            early.execute("UPDATE p SET v = 'last' WHERE id = 2")
            source.execute("INSERT INTO q VALUES (1, 'again')")
            early.execute("DELETE FROM p WHERE id = 2")
            early.commit()
        source.execute("UPDATE q SET v = 'behind' WHERE id = 10")
        here.stream()
        assert [what for (what,) in made.target.query("SELECT what FROM audit ORDER BY n")] == [
            "p UPDATE 1",
            "q DELETE 1",
            "p INSERT 3",
            "q INSERT 1",
            "q INSERT 10",
            "p UPDATE 2",
            "p DELETE 2",
            "q UPDATE 10",
        ]
        assert here.verify().identical


@BY_TARGET
def test_many_transactions_as_one_give_the_same_rows_for_fewer_statements(
    target: str, logical_postgresql: Server, request: pytest.FixtureRequest, source_database: Make, tmp_path: Path
) -> None:
    there, found = request.getfixturevalue(target), {}
    for mode in ("transaction", "epoch"):
        source = source_database(logical_postgresql)
        source.execute(*TABLES, "INSERT INTO p SELECT n, 'a' FROM generate_series(1, 100) n")
        with job_at_mysql(source, there, tmp_path / mode, is_quick=True) as made:
            made.write_job(f'[apply]\nmode = "{mode}"\n')
            here = JobHere(made)
            here.load()
            here.stream()
            source.execute(*(f"UPDATE p SET v = 'b{n}' WHERE id = {n}" for n in range(1, 61)))
            source.execute(*(f"INSERT INTO q VALUES ({n}, 'c')" for n in range(1, 61)), "DELETE FROM p WHERE id > 80")
            here.capture()
            before = statements(made.target)
            here.apply()
            rows = [made.target.query(f"SELECT * FROM `{made.there}`.{table} ORDER BY id") for table in ("p", "q")]
            found[mode] = rows, statements(made.target) - before
            assert here.verify().identical
    assert found["epoch"][0] == found["transaction"][0]
    assert found["epoch"][1] * 3 < found["transaction"][1], [count for _, count in found.values()]


def statements(database: Database) -> int:
    """Return how many the server has carried out that change rows, in whatever session."""
    verbs = ("insert", "insert_select", "update", "update_multi", "delete", "delete_multi", "load", "do")
    named = ", ".join(f"'Com_{verb}'" for verb in verbs)
    return sum(int(count) for _, count in database.query(f"SHOW GLOBAL STATUS WHERE Variable_name IN ({named})"))
