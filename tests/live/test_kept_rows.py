"""Tables get the definition of now with the rows that they have (`load --table --recreate --keep-rows`), from the exact place
at which they were parked; those of which nobody knows which rows they have are refused."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import pytest
from click.testing import CliRunner

from anabranch import failpoints
from anabranch.cli.load import load
from anabranch.errors import ConfigError, JobChanged, StateError
from anabranch.model.ddl_changes import DdlChange, Outcome
from anabranch.model.ids import TableId
from anabranch.model.verified import Verified
from anabranch.testing.in_time import until
from anabranch.trail import retention
from anabranch.trail.lock import OsLock
from anabranch.view.opened import store_of
from anabranch.view.running import RUN_LOCK
from rigs.job_here import JobHere
from rigs.scenario_mysql_target import MysqlToMysql
from rigs.scenario_postgresql import FromPostgres
from rigs.streams import Streams

TABLES = (
    "CREATE TABLE item (id INT PRIMARY KEY, v VARCHAR(20), goes INT)",
    "CREATE TABLE other (id INT PRIMARY KEY, v INT)",
    "CREATE TABLE parent (id INT PRIMARY KEY)",
    "CREATE TABLE child (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES parent (id))",
    "INSERT INTO item VALUES (1, 'one', 1), (2, 'two', 2)",
    "INSERT INTO parent VALUES (1), (2)",
)
DEATHS = (
    "load.rows.held",
    "load.rows.kept",
    "apply.altering",
    "apply.altered.apart",
    "apply.altered.behind",
    "apply.ddl.noted",
    "apply.committed",
    "apply.caught.up",
)
PAIRS = [
    ("mariadb", "postgresql"),
    ("mysql", "mariadb"),
    pytest.param(("logical_postgresql", "postgresql"), marks=pytest.mark.long),
]


@pytest.fixture(params=PAIRS, ids=" to ".join)
def here(request: pytest.FixtureRequest, streams: Streams) -> JobHere:
    """A job that streams; of what its file says of changes the tests say more."""
    return streams(request.param, TABLES, '[ddl]\naction = "apply"\n', is_built=True)


def dies(do: Callable[[], object], place: str) -> list[str]:
    failpoints.arm({failpoints.VARIABLE: f"{place}=raise"})
    try:
        do()
    except failpoints.FailpointReached:
        return [place]
    finally:
        failpoints.arm({})
    return []


def typed(here: JobHere, *options: str) -> str:
    """Give the command, and return what it says."""
    words = [str(here.made.job_file), "--table", name_of(here), "--recreate", "--keep-rows", *options]
    result = CliRunner().invoke(load, words, env=dict(here.made.environment), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def name_of(here: JobHere, table: str = "item") -> str:
    return f"{here.made.schema}.{table}"


def noted(here: JobHere, table: str = "item") -> list[DdlChange]:
    return here.job.ddl_changes(name_of(here, table))


def values(here: JobHere, column: str) -> list[object]:
    return [one for (one,) in here.made.target.query(f"SELECT {column} FROM {here.made.there}.item ORDER BY id")]


def streams(here: JobHere) -> None:
    here.stream(is_built=True)
    assert set(here.made.states().values()) == {"streaming"}, here.made.status()
    here.made.assert_identical("item", "other", "parent", "child")


def note_verified(here: JobHere, *tables: str) -> None:
    """Keep a result of `verify --watch` for each."""
    with store_of(here.job) as store:
        for name in tables:
            found = Verified(TableId(here.made.schema, name), 1, 1, "identical", 1, ("", ""), 0, 0, 0, True)
            store.verifications.note_verified(here.job.config.name, found)


def in_the_way(here: JobHere, table: str, column: str) -> None:
    """Give the target a column that the source is about to add."""
    here.made.target.execute(f"ALTER TABLE {here.made.there}.{table} ADD COLUMN {column} int")


def out_of_the_way(here: JobHere, table: str, column: str) -> None:
    here.made.target.execute(f"ALTER TABLE {here.made.there}.{table} DROP COLUMN {column}")


@pytest.mark.one_case("mariadb to postgresql")
def test_a_table_whose_target_could_not_be_altered_goes_on_from_there(here: JobHere) -> None:
    """Bring the table what was written behind the change and meanwhile, further changes among it, without a load."""
    made = here.made
    in_the_way(here, "item", "n")
    made.source.execute(
        "UPDATE item SET v = 'before' WHERE id = 1",
        "ALTER TABLE item ADD n INT",
        "UPDATE item SET v = 'behind', n = 5 WHERE id = 1",
        "ALTER TABLE item ADD m INT DEFAULT 7",
        "INSERT INTO item (id, v, m) VALUES (3, 'three', 8)",
        "DELETE FROM item WHERE id = 2",
        "INSERT INTO other VALUES (1, 1)",
    )
    here.stream()
    assert made.states()["item"] == "parked"
    command = f"anabranch load JOB --table {name_of(here)} --recreate --keep-rows"
    assert f"; {command} lets it go on from here" in made.reason("item")
    assert values(here, "v") == ["before", "two"]
    assert here.job.names.table(TableId(made.schema, "item")) not in retention.readers(here.job.trail), (
        "it costs no room"
    )
    found, plans = here.job.plan_keep_rows(name_of(here))
    assert [str(one) for one in found.tables] == [name_of(here)] and made.states()["item"] == "parked"
    assert plans[0].outcome is Outcome.PARKED and "n" in plans[0].why
    here.job.keep_rows(name_of(here))
    here.stream()
    assert made.states()["item"] == "parked" and "keep-rows is not possible" in made.reason("item")
    out_of_the_way(here, "item", "n")
    _, plans = here.job.plan_keep_rows(name_of(here))
    assert [one.outcome for one in plans] == [Outcome.ALTERED] * 2
    assert [one.altering is not None and bool(one.altering.statements) for one in plans][:1] == [True]
    made.source.execute("INSERT INTO item (id, v) VALUES (4, 'meanwhile')")
    shown = typed(here, "--plan")
    assert f"{name_of(here)} would go on behind " in shown and 'ADD COLUMN "n" ' in shown
    assert made.states()["item"] == "parked"
    assert f"{name_of(here)} goes on behind " in typed(here)
    with pytest.raises(ConfigError, match="on its way already"):
        here.job.keep_rows(name_of(here))
    streams(here)
    assert values(here, "m") == [7, 8, 7] and values(here, "n") == [5, None, None]
    assert [one.outcome for one in noted(here)] == [Outcome.ALTERED] * 2
    assert all("keep-rows, decided by" in one.why for one in noted(here))
    assert here.job.names.table(TableId(made.schema, "item")) not in retention.readers(here.job.trail)
    made.write_job('[ddl]\nadd_column = "ask"\n')
    made.source.execute("ALTER TABLE item ADD later INT", "UPDATE item SET later = 1")
    here.stream()
    assert made.states()["item"] == "parked" and "waits for a decision" in made.reason("item"), (
        "the word was for changes up to where it joined"
    )
    here.job.keep_rows(name_of(here))
    streams(here)


@pytest.mark.one_case("mysql to mariadb")
def test_it_goes_on_once_wherever_it_dies(here: JobHere) -> None:
    met = []
    for number, place in enumerate(DEATHS):
        column = f"c{number}"
        in_the_way(here, "item", column)
        here.made.source.execute(
            f"ALTER TABLE item ADD {column} INT NOT NULL DEFAULT 3",
            f"UPDATE item SET {column} = {number}, v = 'behind' WHERE id = 1",
            f"ALTER TABLE item ADD d{number} INT",
            f"UPDATE item SET d{number} = {number} WHERE id = 2",
        )
        here.stream()
        assert here.made.states()["item"] == "parked"
        out_of_the_way(here, "item", column)
        met += dies(lambda: here.job.keep_rows(name_of(here)), place)
        if here.made.states()["item"] == "parked":
            here.job.keep_rows(name_of(here))
        met += dies(here.stream, place)
        streams(here)
    apart = isinstance(here.made, MysqlToMysql)
    assert set(met) == {one for one in DEATHS if apart or one not in ("apply.altering", "apply.altered.apart")}
    assert {one.outcome for one in noted(here)} == {Outcome.ALTERED} and len(noted(here)) == 2 * len(DEATHS)


@pytest.mark.parametrize("place", ["load.rows.held", "load.rows.kept"])
@pytest.mark.one_case("mariadb to postgresql-load.rows.held", "mysql to mariadb-load.rows.kept")
def test_tables_that_were_parked_together_go_on_together_wherever_it_dies(here: JobHere, place: str) -> None:
    """None of those that foreign keys connect goes on alone, and none is left."""
    in_the_way(here, "parent", "n")
    here.made.source.execute(
        "ALTER TABLE parent ADD n INT",
        "INSERT INTO parent (id, n) VALUES (3, 3)",
        "INSERT INTO child VALUES (1, 3)",
    )
    here.stream()
    states = here.made.states()
    assert {t for t, state in states.items() if state == "parked"} == {"parent", "child"}
    out_of_the_way(here, "parent", "n")
    note_verified(here, "parent", "child", "other")
    assert dies(lambda: here.job.keep_rows(name_of(here, "child")), place) == [place]
    assert here.made.states()["child"] == "parked", "the one that was asked for is the last"
    found = here.job.keep_rows(name_of(here, "child"))
    assert {table.name for table in found.tables} == {"parent", "child"}
    with store_of(here.job) as store:
        left = [one.source.name for one in store.verifications.verified(here.job.config.name)]
    assert left == ["other"], "what was found of rows that are to change does not hold"
    streams(here)


@pytest.mark.one_case("mariadb to postgresql")
def test_it_comes_up_while_rows_are_written_and_others_stream(here: JobHere) -> None:
    made = here.made
    in_the_way(here, "item", "n")
    made.source.execute("ALTER TABLE item ADD n INT", "UPDATE item SET n = 1")
    here.stream()
    out_of_the_way(here, "item", "n")
    with here.running():
        for number in range(10, 30):
            made.source.execute(f"INSERT INTO item (id, n) VALUES ({number}, {number})")
            if number == 20:
                here.job.keep_rows(name_of(here))
        until(lambda: made.states()["item"] == "streaming", "it streams")
    streams(here)


@pytest.mark.one_case("mysql to mariadb")
def test_what_the_job_file_parks_is_altered_and_what_it_drops_is_kept(here: JobHere) -> None:
    """Only up to where the table joins, and not where the job file has a way."""
    made = here.made
    made.source.execute("ALTER TABLE item DROP goes, ADD n INT", "INSERT INTO item VALUES (3, 'three', 3)")
    here.capture()
    made.write_job('[ddl]\naction = "park"\n')
    here.apply()
    assert made.states()["item"] == "parked" and 'action = "park"' not in made.reason("item")
    if isinstance(
        made, FromPostgres
    ):  # without notes its log does not tell a column that goes from one that is renamed
        with pytest.raises(
            ConfigError, match="goes was dropped, and whether before these rows or behind them is not told"
        ):
            here.job.plan_keep_rows(name_of(here))
        return
    found, plans = here.job.plan_keep_rows(name_of(here))
    assert found.after is not None and [one.outcome for one in plans] == [Outcome.ALTERED]
    here.job.keep_rows(name_of(here))
    here.apply()
    made.write_job('[ddl]\naction = "apply"\n')
    streams(here)
    assert values(here, "goes") == [1, 2, None] and values(here, "n") == [None, None, 3]


@pytest.mark.one_case("mariadb to postgresql", "mysql to mariadb")
@pytest.mark.parametrize("here", [("mariadb", "postgresql"), ("mysql", "mariadb")], indirect=True, ids=" to ".join)
def test_a_table_that_streams_gets_what_was_not_followed(here: JobHere) -> None:
    """Indexes, unique keys and checks that came beside a column while the job file ignored them, and those that somebody has
    taken off; and no column: what rows have in one only a load knows."""
    made = here.made
    made.source.execute(
        "ALTER TABLE item ADD n INT, ADD INDEX by_v (v), ADD UNIQUE by_goes (goes), ADD CONSTRAINT few CHECK (id < 1000)",
        "INSERT INTO item VALUES (3, 'three', 3, 3)",
    )
    here.stream(is_built=True)
    before = indexed(here)
    with closing(OsLock(here.job.config.home / RUN_LOCK)), pytest.raises(StateError, match="running"):
        here.job.keep_rows(name_of(here))
    found = here.job.keep_rows(name_of(here))
    assert found.after is None and here.job.plan_keep_rows(name_of(here))[1] == []
    streams(here)
    assert indexed(here) - before == {"v", "goes"}
    with pytest.raises(Exception, match=r"few|check"):
        made.target.execute(f"INSERT INTO {made.there}.item VALUES (5000, '', 5000, 1)")
    retype(here, "bytea", "blob")
    with pytest.raises(ConfigError, match=r"other columns: .*n ") as refused:
        here.job.keep_rows(name_of(here))
    assert "--recreate" in refused.value.hint
    retype(here, "int", "int")
    here.job.keep_rows(name_of(here))
    made.write_job('[ddl]\nadd_column = "ignore"\n')
    made.source.execute("ALTER TABLE other ADD n INT", "INSERT INTO other VALUES (1, 1, 1)")
    here.stream(is_built=True)
    with pytest.raises(ConfigError, match="without n, and rows that are there have values in it"):
        here.job.keep_rows(name_of(here, "other"))


def retype(here: JobHere, postgresql: str, mysql: str) -> None:
    """Give a column of the target's table, without values, another type."""
    table = f"{here.made.there}.item"
    ends = f"ALTER COLUMN n TYPE {postgresql} USING NULL", f"MODIFY n {mysql}"
    here.made.target.execute(
        f"UPDATE {table} SET n = NULL", f"ALTER TABLE {table} {ends[isinstance(here.made, MysqlToMysql)]}"
    )
    if postgresql == "int":
        here.made.target.execute(f"UPDATE {table} SET n = 3 WHERE id = 3")


def indexed(here: JobHere) -> set[str]:
    """Return the first columns of the indexes that the target's table has."""
    query = {
        True: "SELECT a.attname FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]"
        f" WHERE i.indrelid = '{here.made.there}.item'::regclass",
        False: "SELECT column_name FROM information_schema.statistics WHERE table_name = 'item' AND seq_in_index = 1"
        f" AND table_schema = '{here.made.there}'",
    }
    return {name for (name,) in here.made.target.query(query[type(here.made) is not MysqlToMysql])}


@pytest.mark.one_case("mariadb to postgresql")
def test_a_table_of_which_nobody_knows_the_rows_is_refused(here: JobHere) -> None:
    """By one message that says what to do; a load is not in the way, and ends what was parked."""
    made = here.made
    made.write_job('[ddl]\ndrop_column = "park"\n')
    made.source.execute("ALTER TABLE item DROP goes", "INSERT INTO item VALUES (3, 'three')")
    here.stream()
    why = "no statement of the log says so" if isinstance(made, FromPostgres) else "altered"
    with pytest.raises(ConfigError, match=rf"capture has read none of its rows behind that: .*{why}") as refused:
        here.job.keep_rows(name_of(here))
    assert "--from POSITION" in refused.value.hint and "--recreate" in refused.value.hint
    here.load(TableId(made.schema, "item"), recreate=True)
    streams(here)
    in_the_way(here, "item", "n")
    made.source.execute("ALTER TABLE item ADD n INT", "INSERT INTO item VALUES (4, 'four', 4)")
    here.stream()
    here.load(TableId(made.schema, "item"), recreate=True)
    streams(here)
    in_the_way(here, "item", "m")
    made.source.execute("ALTER TABLE item ADD m INT", "INSERT INTO item VALUES (5, 'five', 5, 5)")
    here.stream()
    end = here.job.plan_keep_rows(name_of(here))[0].after
    assert end is not None
    with pytest.raises(ConfigError, match="has no rows of it"):
        here.job.keep_rows(name_of(here, "unknown"))


@pytest.mark.parametrize("here", [("mariadb", "postgresql")], indirect=True, ids=" to ".join)
@pytest.mark.parametrize(
    ("before", "now"), [('columns.drop = ["goes"]', ""), ("", 'where = "goes < 2"')], ids=["a column", "a condition"]
)
def test_rows_that_a_former_job_file_has_made_do_not_stay(here: JobHere, before: str, now: str) -> None:
    """Neither once the file is taken over, nor before that."""
    made, item = here.made, TableId(here.made.schema, "item")
    file = f'[ddl]\naction = "apply"\n[[tables]]\nname = "{item}"\n'
    made.write_job(file + before)
    here.job.plan(execute=True)
    if before:
        here.load(item, recreate=True)
    here.stream(is_built=True)
    in_the_way(here, "item", "n")
    made.source.execute("ALTER TABLE item ADD n INT", "INSERT INTO item VALUES (3, 'three', 3, 3)")
    here.stream()
    assert made.states()["item"] == "parked"
    out_of_the_way(here, "item", "n")
    assert here.job.plan_keep_rows(name_of(here))[0].after is not None, "by the file of then it could go on"
    made.write_job(file + now)
    with pytest.raises(JobChanged, match="the job file differs"):
        here.job.keep_rows(name_of(here))
    here.job.plan(execute=True)
    assert made.states()["item"] == "parked" and "the job file was changed" in made.reason("item")
    for keeps in (here.job.plan_keep_rows, here.job.keep_rows):
        with pytest.raises(ConfigError, match=r"cannot keep its rows: .*the job file was changed"):
            keeps(name_of(here))
    assert here.job.names.table(item) not in retention.readers(here.job.trail)
    made.write_job(file)
    here.job.plan(execute=True)
    here.load(item, recreate=True)
    streams(here)


@pytest.mark.parametrize("here", [("mariadb", "postgresql")], indirect=True, ids=" to ".join)
def test_a_trail_that_was_held_in_vain_is_let_go(here: JobHere) -> None:
    """No state says that it is held, so that nobody else would let it go."""
    in_the_way(here, "item", "n")
    here.made.source.execute("ALTER TABLE item ADD n INT", "INSERT INTO item VALUES (3, 'three', 3, 3)")
    here.stream()
    out_of_the_way(here, "item", "n")
    assert dies(lambda: here.job.keep_rows(name_of(here)), "load.rows.holding") == ["load.rows.holding"]
    assert here.made.states()["item"] == "parked"
    assert here.job.names.table(TableId(here.made.schema, "item")) not in retention.readers(here.job.trail)
    here.job.keep_rows(name_of(here))
    streams(here)


@pytest.mark.parametrize("here", [("mariadb", "postgresql")], indirect=True, ids=" to ".join)
def test_who_waits_in_front_of_being_dropped_is_told_to_decide(here: JobHere) -> None:
    here.made.write_job('[ddl]\naction = "apply"\ndrop_table = "ask"\n')
    here.made.source.execute("DROP TABLE other")
    here.stream()
    for keeps in (here.job.plan_keep_rows, here.job.keep_rows):
        with pytest.raises(ConfigError, match="decision about a statement that drops or renames") as refused:
            keeps(name_of(here, "other"))
        assert "anabranch ddl approve" in refused.value.hint and "--from" not in refused.value.hint
    (change,) = noted(here, "other")
    assert here.made.states()["other"] == "parked" and change.outcome is Outcome.WAITING


@pytest.mark.one_case("mysql to mariadb")
def test_a_place_that_the_trail_has_no_more_is_refused(here: JobHere) -> None:
    made = here.made
    in_the_way(here, "item", "n")
    made.source.execute("ALTER TABLE item ADD n INT", "INSERT INTO item VALUES (4, 'four', 4, 4)")
    here.stream()
    made.source.execute("INSERT INTO other VALUES (1, 1)")
    here.stream()
    made.source.execute("INSERT INTO other VALUES (2, 2)")
    here.stream()
    pruned = here.job.prune(hours=0, megabytes=0, segments=0, execute=True)
    assert pruned
    with pytest.raises(ConfigError, match="does not reach back"):
        here.job.keep_rows(name_of(here))
    assert here.job.names.table(TableId(made.schema, "item")) not in retention.readers(here.job.trail)
    here.load(TableId(made.schema, "item"), recreate=True)
    streams(here)
