"""A target that is put back: from a backup, or by `rewind`; and a job whose home moves to another place."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import closing

import pytest

from anabranch import failpoints
from anabranch.testing.databases import connect
from anabranch.testing.servers import Server
from rigs.scenario import Scenario

Make = Callable[..., Scenario]
TABLES = (
    "CREATE TABLE item (id INT PRIMARY KEY, u INT, v INT, UNIQUE KEY (u))",
    "CREATE TABLE parent (id INT PRIMARY KEY, v INT)",
    "CREATE TABLE child (id INT PRIMARY KEY, p INT, v INT, FOREIGN KEY (p) REFERENCES parent (id)"
    " ON DELETE CASCADE ON UPDATE CASCADE)",
    "CREATE TABLE log (v INT, w INT)",
    "CREATE TABLE still (id INT PRIMARY KEY, v INT)",
    *(f"INSERT INTO {name} VALUES ({n}, {n}, 0)" for n in range(10) for name in ("item",)),
    *(f"INSERT INTO parent VALUES ({n}, 0)" for n in range(10)),
    *(f"INSERT INTO child VALUES ({n}, {n % 10}, 0)" for n in range(40)),
    "INSERT INTO still VALUES (1, 1)",
)
KEYS = "SELECT count(*) FROM pg_constraint WHERE contype IN ('f', 'u') AND connamespace = 'public'::regnamespace"
UNIQUE = "SELECT count(*) FROM pg_indexes WHERE tablename = 'item' AND indexdef LIKE '%UNIQUE%'"


def changes(n: int) -> list[str]:
    """Rows that take values and keys from each other, go, come again; children that follow unseen."""
    return [
        "UPDATE item SET u = u + 100 ORDER BY u DESC",
        f"DELETE FROM item WHERE id = {n}",
        f"INSERT INTO item VALUES ({n + 50}, {n + 100}, {n})",
        f"UPDATE parent SET id = id + 100 WHERE id = {n}",
        f"DELETE FROM parent WHERE id = {n + 1}",
        f"INSERT INTO parent VALUES ({n + 1}, {n})",
        f"INSERT INTO child VALUES ({n + 500}, {n + 1}, {n})",
        f"INSERT INTO log VALUES ({n}, 1), ({n}, 1)",
        "DELETE FROM log LIMIT 1",
    ]


def copy(server: Server, name: str, template: str) -> None:
    with closing(connect(server)) as connection, closing(connection.cursor()) as cursor:
        cursor.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        cursor.execute(f"CREATE DATABASE {name} TEMPLATE {template}")


@pytest.mark.quick
@pytest.mark.timeout(1800)  # with Spark it starts it a dozen times
def test_going_back(mariadb: Server, scenario: Make) -> None:
    made = scenario(mariadb, *TABLES)
    assert "start capture first" in made.cli("rewind", "--to", "1", code=7).stderr
    made.run_until_caught_up()
    backup = made.checkpoint()[2]
    copy(made.target.server, f"{made.target.name[:50]}_b", made.target.name)
    for n in (1, 4, 7):
        made.source.execute(*changes(n))
    made.run_until_caught_up()
    made.assert_identical()
    a_restored_target_catches_up(made, backup)
    the_home_moves(made)
    it_is_rewound(made, backup)
    a_copy_of_the_home_is_refused(made)


def a_restored_target_catches_up(made: Scenario, backup: int) -> None:
    name = made.target.name
    copy(made.target.server, name, f"{name[:50]}_b")
    assert made.checkpoint()[2] == backup
    made.run_until_caught_up()
    made.assert_identical()


def the_home_moves(made: Scenario) -> None:
    made.source.execute("UPDATE still SET v = 2")
    moved = made.directory.with_name(made.directory.name + "_moved")
    made.directory.rename(moved)
    made.directory = moved
    made.run_until_caught_up()
    made.assert_identical()


def it_is_rewound(made: Scenario, backup: int) -> None:
    now = made.checkpoint()[2]
    assert "the trail reaches back to" in made.cli("rewind", "--to", str(now), code=2).stderr
    assert "is no position" in made.cli("rewind", "--to", "yesterday", code=2).stderr
    shown = made.cli("rewind", "--to", str(backup), "--json").json
    assert (shown["executed"], shown["transactions"]) == (False, now - backup)
    of = made.source.name
    assert set(shown["tables"]) == {f"{of}.{name}" for name in ("item", "parent", "child", "still")}
    assert list(shown["left"]) == [f"{of}.log"]
    assert made.checkpoint()[2] == now
    keys = made.target.query(KEYS), made.target.query(UNIQUE)
    made.target.execute(
        "SET session_replication_role = replica; DELETE FROM item; UPDATE parent SET v = -1; DELETE FROM child WHERE id > 400"
    )
    for place in ("rewind.held", "rewind.opened", "rewind.commit"):
        with pytest.MonkeyPatch.context() as armed:
            armed.setenv(failpoints.VARIABLE, f"{place}=exit")
            made.cli("rewind", "--to", str(backup), "--execute", code=failpoints.EXIT_CODE)
        assert made.checkpoint()[2] == now
    with pytest.MonkeyPatch.context() as armed:
        armed.setenv(failpoints.VARIABLE, "rewind.committed=exit")
        made.cli("rewind", "--to", str(backup + 1), "--execute", code=failpoints.EXIT_CODE)
    assert made.checkpoint()[2] == backup + 1
    assert "have not finished loading" in made.cli("rewind", "--to", str(backup), "--execute", code=7).stderr
    made.run_until_caught_up()
    text = made.cli("rewind", "--to", str(backup), "--execute").stdout
    assert "the target is back there" in text and "no key" in text
    assert made.checkpoint()[2] == backup
    made.source.execute(*changes(8))
    made.run_until_caught_up()
    lost = set(made.source_rows("item")) - set(made.target_rows("item"))
    assert not set(made.target_rows("item")) - set(made.source_rows("item"))
    assert all(row[0] < 10 for row in lost), lost  # what no change between the two places says anything of
    made.assert_identical("child", "log", "still")
    assert (made.target.query(KEYS), made.target.query(UNIQUE)) == keys
    assert set(made.states().values()) == {"streaming"}


def a_copy_of_the_home_is_refused(made: Scenario) -> None:
    """Both go on from where they were copied; one of them gets a transaction of our own, so that numbers differ."""
    copied = made.directory.with_name("copied")
    shutil.copytree(made.directory, copied)
    capture = made.start("capture")
    made.cli("load", "--table", f"{made.source.name}.still")
    capture.stop()
    made.source.execute("UPDATE still SET v = 3", "UPDATE still SET v = 4")
    made.run_until_caught_up()
    made.directory, original = copied, made.directory
    made.source.execute("UPDATE still SET v = 5", "UPDATE still SET v = 6")
    capture = made.capture()
    made.captured(capture)  # past the target's place: else it is refused as past the trail's end
    capture.stop()
    refused = made.run_until_caught_up(code=7)
    assert "in this trail" in refused.stderr
    made.directory = original
    made.run_until_caught_up()
    made.assert_identical("still")
