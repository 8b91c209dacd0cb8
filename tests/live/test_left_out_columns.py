"""`[ddl] add_column = "ignore"`: the target's table stays without columns that come, and everything else goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from anabranch import failpoints
from anabranch.errors import AnabranchError, ConfigError
from anabranch.model.ddl_changes import Outcome
from anabranch.model.ids import TableId
from anabranch.testing.databases import Database, create_database, drop_database, unique_name
from anabranch.testing.servers import Server
from rigs.job_here import JobHere
from rigs.scenario import Scenario
from rigs.scenario_mysql_target import MysqlToMysql
from rigs.scenario_postgresql import FromPostgres

IGNORES = '[ddl]\naction = "apply"\nadd_column = "ignore"\nrename_table = "apply"\n'
KINDS: dict[tuple[str, str], type[Scenario]] = {
    ("mariadb", "postgresql"): Scenario,
    ("mysql", "mariadb"): MysqlToMysql,
    ("logical_postgresql", "postgresql"): FromPostgres,
}
PAIRS = [pytest.param(pair, marks=pytest.mark.long) if "logical" in pair[0] else pair for pair in KINDS]
TABLES = (
    "CREATE TABLE item (id INT PRIMARY KEY, v VARCHAR(20), goes INT)",
    "CREATE TABLE keyless (v INT)",
    "INSERT INTO item VALUES (1, 'one', 1), (2, 'two', 2)",
    "INSERT INTO keyless VALUES (1), (2)",
)


@pytest.fixture(params=PAIRS, ids=" to ".join)
def here(
    request: pytest.FixtureRequest, source_database: Callable[[Server], Database], tmp_path: Path
) -> Iterator[JobHere]:
    """A job that streams, and leaves out what is added."""
    of, to = request.param
    source = source_database(request.getfixturevalue(of))
    target = create_database(request.getfixturevalue(to), "left")
    source.execute(*TABLES)
    made = JobHere(KINDS[request.param](source, target, tmp_path, name=unique_name("job")))
    made.made.write_job(IGNORES)
    made.load()
    made.stream()
    yield made
    made.job.drop(execute=True)
    drop_database(target)


def rows(here: JobHere, columns: str, table: str = "item") -> tuple[list[tuple[object, ...]], list[tuple[object, ...]]]:
    """Return these columns of a table at both ends."""
    made = here.made
    return tuple(  # type: ignore[return-value] # two of them
        sorted(map(tuple, end.query(f"SELECT {columns} FROM {name}{table}")), key=str)
        for end, name in ((made.source, ""), (made.target, f"{made.there}."))
    )


def columns_there(here: JobHere, table: str = "item") -> set[str]:
    which = f"table_schema = '{here.made.there}' AND table_name = '{table}'"
    found = here.made.target.query(f"SELECT column_name FROM information_schema.columns WHERE {which}")
    return {str(name) for (name,) in found}


def left_out(here: JobHere) -> dict[str, list[str]]:
    tables = here.job.status()["targets"][0]["tables"]
    return {table["source"].split(".")[1]: table["left_out"] for table in tables if "left_out" in table}


def streams(here: JobHere) -> None:
    here.stream()
    assert set(here.made.states().values()) == {"streaming"}, here.made.status()
    assert here.verify().identical


def test_the_target_stays_without_columns_that_come(here: JobHere) -> None:
    """Whatever becomes of them later; others are dropped and renamed in the same statement. Verify compares what is there."""
    made, source = here.made, here.made.source
    source.execute(
        "UPDATE item SET v = 'before' WHERE id = 1",
        "ALTER TABLE item ADD note VARCHAR(9)",
        "UPDATE item SET note = 'x', v = 'behind' WHERE id = 1",
        "UPDATE item SET note = 'only' WHERE id = 2",
    )
    streams(here)
    source.execute(
        "ALTER TABLE item RENAME COLUMN note TO remark",
        "INSERT INTO item VALUES (3, 'three', 3, 'y')",
        "ALTER TABLE keyless ADD n INT",
        "INSERT INTO keyless VALUES (2, 5), (3, 6)",
        "UPDATE keyless SET n = 7 WHERE v = 1",
        "DELETE FROM keyless WHERE v = 3",
    )
    streams(here)
    assert columns_there(here) == {"id", "v", "goes"} and columns_there(here, "keyless") == {"v"}
    for columns, table in (("id, v, goes", "item"), ("v", "keyless")):
        of_source, there = rows(here, columns, table)
        assert of_source == there
    assert left_out(here) == {"item": ["remark"], "keyless": ["n"]}
    changes = here.job.ddl_changes(f"{made.schema}.item")
    assert [one.outcome for one in changes] == [Outcome.ALTERED] * 2
    assert changes[0].why == "left out at the target: note" and changes[0].rule.action == "ignore"
    source.execute("ALTER TABLE item RENAME COLUMN goes TO went", "UPDATE item SET went = 4, remark = 'z' WHERE id = 3")
    streams(here)
    source.execute("ALTER TABLE item DROP COLUMN remark", "INSERT INTO item VALUES (4, 'four', 4)")
    streams(here)
    assert columns_there(here) == {"id", "v", "went"} and left_out(here) == {"keyless": ["n"]}
    made.assert_identical("item")


def test_a_load_takes_left_out_columns_in(here: JobHere) -> None:
    """One that makes the table anew; what the file says next is for what comes next."""
    made, item = here.made, TableId(here.made.schema, "item")
    made.source.execute("ALTER TABLE item ADD note VARCHAR(9)", "INSERT INTO item VALUES (3, 'three', 3, 'y')")
    streams(here)
    made.write_job('[ddl]\naction = "apply"\n')
    made.source.execute("ALTER TABLE item ADD more INT", "UPDATE item SET note = 'z', more = 1 WHERE id = 1")
    streams(here)
    assert columns_there(here) == {"id", "v", "goes", "more"} and left_out(here) == {"item": ["note"]}
    with pytest.raises(ConfigError, match="--recreate would drop"):
        here.load(item)
    here.load(item, recreate=True)
    streams(here)
    made.assert_identical("item")
    assert left_out(here) == {}


@pytest.mark.parametrize("here", [("mariadb", "postgresql")], indirect=True, ids=" to ".join)
def test_a_left_out_column_is_told_from_another_one_of_its_name(here: JobHere) -> None:
    """A way back waits for what has not come yet; a load needs no word for a column that the job leaves out by now."""
    made, item = here.made, TableId(here.made.schema, "item")
    made.source.execute("ALTER TABLE item ADD note VARCHAR(9)", "INSERT INTO item VALUES (3, 'three', 3, 'y')")
    streams(here)
    here.apply(is_built=True)
    entry = f'[[tables]]\nname = "{item}"\ncolumns = {{ drop = ["note"] }}\n'
    made.write_job(f"{IGNORES}{entry}")
    here.job.plan(execute=True)
    here.load(item)
    streams(here)
    assert columns_there(here) == {"id", "v", "goes"} and left_out(here) == {}
    made.write_job(f'{IGNORES}[reverse]\nexclude = ["*.keyless"]\n{entry}')
    made.source.execute("ALTER TABLE item ADD more VARCHAR(20)")
    streams(here)
    made.source.execute("ALTER TABLE item DROP COLUMN more, RENAME COLUMN v TO more")
    with pytest.raises(AnabranchError, match="has not come there yet"):
        here.job.reverse()


@pytest.mark.parametrize("here", [("mariadb", "postgresql"), ("mysql", "mariadb")], indirect=True, ids=" to ".join)
@pytest.mark.one_case("mariadb to postgresql")
def test_what_is_left_out_is_kept_by_whatever_comes_next(here: JobHere) -> None:
    """A plan, a rename of the table, a way back to a place before, a kill, and a person who skips."""
    made, source = here.made, here.made.source
    plan = here.job.plan_ddl("ALTER TABLE item ADD note VARCHAR(9)")
    assert (plan.outcome, plan.why, plan.columns) == (Outcome.ALTERED, "left out at the target: note", ())
    source.execute(
        "ALTER TABLE item ADD note VARCHAR(9), DROP goes", "UPDATE item SET note = 'x', v = 'b' WHERE id = 1"
    )
    here.capture()
    (planned,) = here.job.plan_ddl_backlog()
    assert planned.why == "left out at the target: note"
    failpoints.arm({failpoints.VARIABLE: "apply.altered=raise"})
    with pytest.raises(failpoints.FailpointReached):
        here.apply()
    failpoints.arm({})
    streams(here)
    assert columns_there(here) == {"id", "v"} and left_out(here) == {"item": ["note"]}
    place = here.job.status()["targets"][0]["applied"]["text"]
    source.execute("INSERT INTO item VALUES (5, 'five', 'y')", "UPDATE item SET v = 'c', note = 'w' WHERE id = 1")
    streams(here)
    here.job.rewind(place, execute=True)
    streams(here)
    here.apply(is_built=True)  # a table whose keys are not back yet is not renamed
    source.execute("RENAME TABLE item TO thing", "INSERT INTO thing VALUES (3, 'three', 'y')")
    streams(here)
    assert columns_there(here, "thing") == {"id", "v"} and left_out(here) == {"thing": ["note"]}
    made.write_job('[ddl]\nadd_column = "ask"\n')
    source.execute("ALTER TABLE thing ADD more INT", "INSERT INTO thing VALUES (4, 'four', 'y', 4)")
    here.stream()
    change = here.job.ddl_changes(f"{made.schema}.thing")[-1]
    assert change.outcome is Outcome.WAITING
    here.job.decide_ddl(change.number, "skip")
    streams(here)
    assert columns_there(here, "thing") == {"id", "v"} and left_out(here) == {"thing": ["note", "more"]}
    of_source, there = rows(here, "id, v", "thing")
    assert of_source == there
    made.write_job(f'{IGNORES}indexes = "apply"\nunique_keys = "apply"\n')
    source.execute("CREATE INDEX by_note ON thing (note)", "CREATE UNIQUE INDEX by_both ON thing (v, note)")
    source.execute("INSERT INTO thing VALUES (6, 'b', 'other', 1), (7, 'b', NULL, 1)")
    streams(here)
    here.apply(is_built=True)
    (told,) = here.job.status()["targets"][0]["tables"][-1:]
    assert all("is not a replicated column" in one for one in told["not_built"]) and len(told["not_built"]) == 2
