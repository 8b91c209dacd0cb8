"""Names that come and go: the statements of gh-ost and of pt-online-schema-change, tables that were there for a moment. What
the target never had is forgotten, what it has is shown as dropped at the source."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from anabranch.testing.databases import Database, create_database, drop_database, unique_name
from anabranch.testing.servers import Server
from rigs.scenario import Running, Scenario, wait_until
from rigs.scenario_postgresql import FromPostgres
from rigs.scenario_targets import Several

pytestmark = [pytest.mark.quick, pytest.mark.timeout(1200)]
Make = Callable[..., Scenario]
MARK = {"scenario_mark": "streaming"}
# https://github.com/github/gh-ost/blob/master/doc/cut-over.md
GH_OST = (
    "CREATE TABLE _orders_ghc (id BIGINT AUTO_INCREMENT PRIMARY KEY, hint VARCHAR(64) NOT NULL, value TEXT)",
    "CREATE TABLE _orders_gho LIKE orders",
    "ALTER TABLE _orders_gho ADD COLUMN later INT",
    "INSERT INTO _orders_ghc (hint, value) VALUES ('state', 'Migrated')",
    "INSERT IGNORE INTO _orders_gho (id, n) SELECT id, n FROM orders",
    "CREATE TABLE _orders_del (id INT PRIMARY KEY)",
    "DROP TABLE _orders_del",
    "RENAME TABLE orders TO _orders_del, _orders_gho TO orders",
    "DROP TABLE _orders_ghc",
    "DROP TABLE _orders_del",
)
# https://docs.percona.com/percona-toolkit/pt-online-schema-change.html
PT_OSC = (
    "CREATE TABLE _items_new LIKE items",
    "ALTER TABLE _items_new ADD COLUMN later INT",
    "CREATE TRIGGER pt_osc_del AFTER DELETE ON items FOR EACH ROW DELETE IGNORE FROM _items_new WHERE id <=> OLD.id",
    "CREATE TRIGGER pt_osc_ins AFTER INSERT ON items FOR EACH ROW REPLACE INTO _items_new (id, n) VALUES (NEW.id, NEW.n)",
    "INSERT LOW_PRIORITY IGNORE INTO _items_new (id, n) SELECT id, n FROM items LOCK IN SHARE MODE",
    "INSERT INTO items VALUES (7, 7)",
    "RENAME TABLE items TO _items_old, _items_new TO items",
    "DROP TABLE IF EXISTS _items_old",
)
TABLES = ("orders", "items", "left_over", "moved", "again", "altered", "kept")


@pytest.mark.one_family
def test_names_that_came_and_went_at_a_mysql(mysql_family: Server, scenario: Make) -> None:
    made = scenario(
        mysql_family,
        *(f"CREATE TABLE {name} (id INT PRIMARY KEY, n INT)" for name in TABLES),
        "INSERT INTO left_over VALUES (1, 1)",
    )
    depot = unique_name("depot")
    running = made.start("run")
    made.wait_streaming(running)
    made.source.execute(f"CREATE DATABASE {depot}")
    try:
        expected = while_it_runs(made, running, depot)
        they_come_back(made, running, expected)
        running.stop()
        while_it_stands(made, expected)
    finally:
        made.source.execute(f"DROP DATABASE {depot}")


def while_it_runs(made: Scenario, running: Running, depot: str) -> dict[str, str]:
    made.source.execute(
        *GH_OST,
        *PT_OSC,
        "DROP TABLE left_over",
        f"RENAME TABLE moved TO {depot}.moved",
        "DROP TABLE again",
        "CREATE TABLE again (id INT PRIMARY KEY, n INT)",
        "ALTER TABLE altered ADD COLUMN later INT",
        "DROP TABLE altered",
        "CREATE TABLE stays (id INT PRIMARY KEY)",
    )
    found = dict.fromkeys(("orders", "items", "again", "stays"), "parked") | {"kept": "streaming"} | MARK
    expected = found | dict.fromkeys(("left_over", "moved", "altered"), "dropped")
    shows(made, running, expected)
    assert states(made) == expected
    assert running.stderr.count("table_forgotten") >= 4
    for name, statement in {"left_over": "DROP TABLE", "moved": "RENAME TABLE", "altered": "DROP TABLE"}.items():
        reason = made.reason(name)
        assert reason.startswith("dropped at the source") and statement in reason and "load JOB" not in reason, reason
    return expected


def they_come_back(made: Scenario, running: Running, expected: dict[str, str]) -> None:
    made.source.execute("CREATE TABLE left_over (id INT PRIMARY KEY, n INT)", "CREATE TABLE _orders_gho LIKE orders")
    expected |= {"left_over": "parked", "_orders_gho": "parked"}
    shows(made, running, expected)
    made.source.execute("INSERT INTO left_over VALUES (2, 2)")
    made.cli("load", "--table", f"{made.schema}.left_over", "--recreate")
    expected["left_over"] = "streaming"
    shows(made, running, expected)
    made.sync(running)
    made.assert_identical("left_over")


def while_it_stands(made: Scenario, expected: dict[str, str]) -> None:
    """Rows that are in the log before the table is dropped are applied."""
    made.source.execute(
        "INSERT INTO kept VALUES (3, 3)",
        "DROP TABLE kept",
        "CREATE TABLE brief (id INT PRIMARY KEY)",
        "INSERT INTO brief VALUES (1)",
        "DROP TABLE brief",
        "DROP TABLE _orders_gho",
        "DROP TABLE stays",
        "CREATE VIEW stays AS SELECT 1 AS id",
    )
    result = made.run_until_caught_up(code=8)
    assert f"{made.schema}.kept" in result.stderr
    assert made.target.query("SELECT id, n FROM public.kept") == [(3, 3)]
    for name in ("_orders_gho", "stays"):
        del expected[name]
    assert states(made) == expected | {"kept": "dropped"}
    it_is_left_out(made, expected)


def it_is_left_out(made: Scenario, expected: dict[str, str]) -> None:
    """As the reason of a dropped table says."""
    left = ["kept", "moved", "altered"]
    rules = f'[[rules]]\ninclude = ["{made.schema}.*"]\nexclude = {[f"{made.schema}.{name}" for name in left]}\n'
    made.write_job(rules=rules.replace("'", '"') + 'target = "public.{table}"\n')
    made.cli("plan", "--execute")
    assert stored(made.target) == {name: state for name, state in expected.items() if name not in left}


def test_names_that_came_and_went_at_a_postgresql(
    logical_postgresql: Server, scenario: Callable[..., FromPostgres]
) -> None:
    names = ("orders", "had", "moved", "again")
    made = scenario(
        logical_postgresql,
        *(f"CREATE TABLE {name} (id int PRIMARY KEY)" for name in names),
        "CREATE TABLE root (id int PRIMARY KEY) PARTITION BY RANGE (id)",
    )
    names = (*names, "root")
    known = dict.fromkeys((*names, *MARK), "streaming")
    running = made.start("run")
    made.wait_streaming(running)
    made.source.execute("CREATE TABLE fleeting (id int PRIMARY KEY)")
    shows(made, running, known | {"fleeting": "parked"})
    running.stop()
    made.source.execute("DROP TABLE fleeting")
    assert "table_forgotten" in made.run_until_caught_up(code=0).stderr and made.states() == known
    running = made.start("run")
    made.source.execute("CREATE TABLE fleeting (id int PRIMARY KEY)")
    shows(made, running, known | {"fleeting": "parked"})
    made.source.execute(
        "INSERT INTO had VALUES (1)",
        "DROP TABLE fleeting, had",
        "CREATE SCHEMA elsewhere",
        "ALTER TABLE moved SET SCHEMA elsewhere",
        "DROP TABLE again",
        "CREATE TABLE again (id int PRIMARY KEY)",
    )
    known |= {"had": "dropped", "moved": "dropped", "again": "parked"}
    shows(made, running, known)
    assert made.target.query("SELECT id FROM public.had") == [(1,)]
    made.source.execute("CREATE TABLE had (id int PRIMARY KEY)", "CREATE TABLE part (id int PRIMARY KEY)")
    shows(made, running, known | {"had": "parked", "part": "parked"})
    made.source.execute("ALTER TABLE root ATTACH PARTITION part FOR VALUES FROM (0) TO (9)", "DROP TABLE had")
    shows(made, running, known | {"root": "parked"})
    running.stop()


def test_each_target_forgets_what_it_never_had(mariadb: Server, scenario: Make, target_database: Database) -> None:
    made = scenario(mariadb, "CREATE TABLE orders (id INT PRIMARY KEY)")
    south = create_database(target_database.server, unique_name("targets"))
    several = Several(made, {"north": target_database, "south": south})
    try:
        several.write_job("north", "south")
        running = made.start("run")
        each_shows(several, running, dict.fromkeys(("orders", *MARK), "streaming"))
        made.source.execute("CREATE TABLE extra (id INT PRIMARY KEY)")
        each_shows(several, running, dict.fromkeys(("orders", *MARK), "streaming") | {"extra": "parked"})
        made.cli("load", "--table", f"{made.schema}.extra", "--target", "north")
        wait_until(lambda: several.states("north")["extra"] == "streaming", 60, "it streams", running.tail, running)
        made.source.execute("INSERT INTO extra VALUES (1)", "DROP TABLE extra")
        wait_until(lambda: "extra" not in several.states("south"), 60, "south forgets it", running.tail, running)
        north = several.ends["north"]
        wait_until(lambda: stored(north)["extra"] == "dropped", 60, "north shows it", running.tail, running)
        assert several.rows("north", "extra") == {(1,): 1}
        running.stop()
    finally:
        made.close()
        drop_database(south)


def each_shows(several: Several, running: Running, expected: dict[str, str]) -> None:
    for name in several.ends:
        wait_until(lambda name=name: several.states(name) == expected, 90, f"{name}: {expected}", running.tail, running)


def stored(target: Database) -> dict[str, str]:
    """As `status` is to show them; asked of the target, which costs less."""
    query = "SELECT source_table, state, reason LIKE 'dropped at the source%' FROM anabranch.table_state"
    rows = target.query(query)
    return {table.split(".", 1)[1]: "dropped" if is_dropped else state for table, state, is_dropped in rows}


def states(made: Scenario) -> dict[str, str]:
    """As `status` shows them."""
    return {one["source"].split(".", 1)[1]: one["state"] for one in made.status()["targets"][0]["tables"]}


def shows(made: Scenario, running: Running, expected: dict[str, str]) -> None:
    wait_until(
        lambda: stored(made.target) == expected,
        60,
        f"the target has {expected}",
        lambda: f"{stored(made.target)}\n{running.tail()}",
        running,
    )
