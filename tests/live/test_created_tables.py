"""Tables that a MySQL or MariaDB makes come to the target where the log has the statement, with their first row."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from anabranch import failpoints
from anabranch.model.column_changes import TableActions
from anabranch.model.ddl_changes import DdlRule, Outcome
from anabranch.model.ids import TableId
from anabranch.testing.databases import Database, create_database, drop_database, unique_name
from anabranch.testing.servers import Server
from rigs.job_here import JobHere
from rigs.scenario import Scenario
from rigs.scenario_mysql_target import MysqlToMysql

PAIRS = [("mysql", "postgresql"), pytest.param(("mariadb", "mariadb"), marks=pytest.mark.long)]
APPLY = '[ddl]\ncreate_table = "apply"\nadd_column = "apply"\n'
PLACES = (
    "capture.statement.noted",
    "capture.appended",
    "apply.created",
    "apply.altered",
    "apply.ddl.noted",
    "apply.committed",
)


@pytest.fixture(params=PAIRS, ids=" to ".join)
def here(
    request: pytest.FixtureRequest, source_database: Callable[[Server], Database], tmp_path: Path
) -> Iterator[JobHere]:
    of, to = request.param
    source = source_database(request.getfixturevalue(of))
    target = create_database(request.getfixturevalue(to), "created")
    source.execute("CREATE TABLE item (id INT PRIMARY KEY, v VARCHAR(20))", "INSERT INTO item VALUES (1, 'one')")
    kind = Scenario if to == "postgresql" else MysqlToMysql
    made = JobHere(kind(source, target, tmp_path, name=unique_name("job")))
    here, there = made.made.schema, made.made.there
    shared = f'[[rules]]\ninclude = ["{here}.item_again"]\ntarget = "{there}.item"\n'
    made.made.write_job(APPLY, rules=f'{shared}[[rules]]\ninclude = ["{here}.*"]\ntarget = "{there}.{{table}}"\n')
    made.load()
    made.stream()
    yield made
    made.job.drop(execute=True)
    drop_database(target)


def _reasons(here: JobHere, *tables: str) -> dict[str, str]:
    states = here.made.states()
    return {table: here.made.reason(table) if states[table] == "parked" else states[table] for table in tables}


def test_rule_17_tables_come_with_their_first_row(here: JobHere) -> None:
    """In a backlog, with indexes and keys; then the job dies at every place on the way of one."""
    made, source = here.made, here.made.source
    source.execute(
        "CREATE TABLE fresh (id INT UNSIGNED NOT NULL AUTO_INCREMENT, name VARCHAR(40) DEFAULT 'x', price DECIMAL(9,2), "
        "at DATETIME DEFAULT CURRENT_TIMESTAMP, PRIMARY KEY (id), UNIQUE KEY by_name (name), KEY (price))",
        "INSERT INTO fresh (name, price) VALUES ('one', 1.5), ('two', NULL)",
        "UPDATE item SET v = 'between'",
        "CREATE TABLE child (id BIGINT PRIMARY KEY, fresh INT UNSIGNED, FOREIGN KEY (fresh) REFERENCES fresh (id))",
        "INSERT INTO child VALUES (1, 1)",
        "DELETE FROM fresh WHERE name = 'two'",
        "CREATE TABLE alike LIKE item",
        "INSERT INTO alike VALUES (1, 'one'), (2, 'two')",
        "CREATE TABLE hollow (id INT PRIMARY KEY)",
        "CREATE TABLE computed (id INT PRIMARY KEY, v TEXT, n BIGINT AS (id + 1) STORED) DEFAULT CHARSET=latin1",
        "INSERT INTO computed (id, v) VALUES (1, 'ä')",
    )
    here.capture()
    source.execute("ALTER TABLE fresh ADD COLUMN later INT DEFAULT 7", "UPDATE fresh SET later = 8")
    here.capture()
    here.apply(is_built=True)
    assert set(made.states().values()) == {"streaming"}, made.status()
    made.assert_identical("item", "fresh", "child", "alike", "hollow", "computed")
    assert here.verify().identical
    noted = here.job.ddl_changes(f"{made.schema}.child")
    assert [(one.outcome, one.rule, one.version) for one in noted] == [
        (Outcome.CREATED, DdlRule("[ddl] create_table", "apply"), 1)
    ]
    (seen,) = here.job.schema_versions(f"{made.schema}.alike")
    assert (seen.came, seen.statement) == ("created", "CREATE TABLE alike LIKE item")
    met = []
    for number, place in enumerate(PLACES):
        source.execute(f"CREATE TABLE t{number} (id INT PRIMARY KEY, v INT)", f"INSERT INTO t{number} VALUES (1, 1)")
        failpoints.arm({failpoints.VARIABLE: f"{place}=raise"})
        try:
            here.stream()
        except failpoints.FailpointReached:
            met.append(place)
        finally:
            failpoints.arm({})
        source.execute(f"UPDATE t{number} SET v = 2")
        here.stream()
        assert made.states()[f"t{number}"] == "streaming"
        made.assert_identical(f"t{number}")
    assert met == list(PLACES)


def test_a_table_that_is_not_certain_or_not_free_parks(here: JobHere) -> None:
    made = here.made
    made.target.execute(
        f"CREATE TABLE {made.there}.taken (id INT PRIMARY KEY)",
        f"INSERT INTO {made.there}.taken VALUES (9)",
        f"CREATE TABLE {made.there}.otherwise (nr INT PRIMARY KEY)",
    )
    made.source.execute(
        "CREATE TABLE taken (id INT PRIMARY KEY)",
        "INSERT INTO taken VALUES (1)",
        "CREATE TABLE otherwise (id INT PRIMARY KEY)",
        "INSERT INTO otherwise VALUES (1)",
        "CREATE TABLE copied (PRIMARY KEY (id)) SELECT id, v FROM item",
        "CREATE TABLE acting (id INT PRIMARY KEY, item INT, FOREIGN KEY (item) REFERENCES item (id) ON DELETE CASCADE)",
        "CREATE TABLE late (id INT PRIMARY KEY)",
        "INSERT INTO late VALUES (1)",
        "ALTER TABLE late ADD n INT",  # the catalogue has it before the job has read the log
        "CREATE TABLE item_again LIKE item",  # goes where item goes
        "CREATE TABLE _item_gho LIKE item",  # of a tool, though the job does not follow what it does
        "CREATE TABLE IF NOT EXISTS perhaps (id INT PRIMARY KEY)",  # logged the same where it was there before, with rows
        "CREATE TABLE acted (id INT PRIMARY KEY, item INT, "
        "CONSTRAINT a FOREIGN KEY (item) REFERENCES item (id) ON DELETE CASCADE)",
        "ALTER TABLE acted DROP FOREIGN KEY a",  # nor does the catalogue show these any more
        "CREATE TABLE spelled (id INT PRIMARY KEY, v VARCHAR(9) CHARACTER SET latin1)",
        "ALTER TABLE spelled MODIFY v VARCHAR(9) CHARACTER SET utf8mb4",
        "CREATE TABLE doubled (id INT PRIMARY KEY, v INT)",
        "INSERT INTO doubled VALUES (1, 1), (2, 1)",
        "DELETE FROM doubled WHERE id = 1",
        "CREATE UNIQUE INDEX u ON doubled (v)",
        "CREATE TABLE turned (id INT PRIMARY KEY)",
        "CREATE TABLE _turned_gho LIKE turned",
        "RENAME TABLE turned TO _turned_del, _turned_gho TO turned",  # no setting follows it
        "CREATE TABLE gone (id INT PRIMARY KEY)",
        "DROP TABLE gone",
    )
    is_mariadb = "mariadb" in made.source.query("SELECT VERSION()")[0][0].lower()
    if is_mariadb:  # unknown to the job so far
        made.source.execute("CREATE OR REPLACE TABLE instead (id INT PRIMARY KEY)", "INSERT INTO instead VALUES (1)")
    here.stream()
    if is_mariadb:
        assert made.states()["instead"] == "parked", made.status()
    new = ("copied", "acting", "late", "item_again", "_item_gho", "perhaps", "acted", "spelled", "doubled")
    found = _reasons(here, "taken", "otherwise", "item", *new)
    assert found["item"] == "streaming"
    assert all(
        found[name].startswith("created at the source, and not at the target") for name in ("taken", "otherwise")
    ), found
    assert all(found[name].startswith("created after start") for name in new), found
    assert _reasons(here, "turned")["turned"].startswith("rename at the source")
    assert made.target.query(f"SELECT id FROM {made.there}.taken") == [(9,)]
    here.load(TableId(made.schema, "late"))
    here.stream()
    assert made.states()["late"] == "streaming"
    made.assert_identical("late", "item")


def test_a_target_that_does_not_want_them_parks_them(here: JobHere) -> None:
    made = here.made
    made.source.execute("CREATE TABLE fresh (id INT PRIMARY KEY)", "CREATE TABLE left_out (id INT PRIMARY KEY)")
    here.capture()
    here.job.skip(str(here.job.schema_versions(f"{made.schema}.left_out")[0].sequence), execute=True)
    here.apply(actions=lambda table: TableActions({}))
    assert '[ddl] create_table = "park"' in _reasons(here, "fresh")["fresh"]
    assert "and not at the target" in _reasons(here, "left_out")["left_out"]
