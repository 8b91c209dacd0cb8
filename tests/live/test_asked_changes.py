"""Tables wait in front of a change of their definition until a person decides, and come up with the others from there."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from anabranch import failpoints
from anabranch.errors import ConfigError, StoppedByChange, TargetError
from anabranch.model.ddl_changes import DdlChange, Outcome
from anabranch.model.ids import TableId
from anabranch.model.table_life import open_window
from anabranch.trail import retention
from anabranch.view.opened import store_of
from rigs.job_here import JobHere
from rigs.scenario_mysql_target import MysqlToMysql
from rigs.streams import Streams

ASKS = '[ddl]\naction = "ask"\n'
TABLES = (
    "CREATE TABLE item (id INT PRIMARY KEY, v VARCHAR(20), goes INT)",
    "CREATE TABLE other (id INT PRIMARY KEY, v INT)",
    "CREATE TABLE parent (id INT PRIMARY KEY)",
    "CREATE TABLE child (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES parent (id))",
    "INSERT INTO item VALUES (1, 'one', 1), (2, 'two', 2)",
    "INSERT INTO parent VALUES (1), (2)",
)
PLACES = (
    "apply.asking",
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
    """A job that streams, and asks about each change."""
    return streams(request.param, TABLES, ASKS)


def noted(here: JobHere, table: str = "item") -> list[DdlChange]:
    return here.job.ddl_changes(f"{here.made.schema}.{table}")


def values(here: JobHere, column: str) -> list[object]:
    return [one for (one,) in here.made.target.query(f"SELECT {column} FROM {here.made.there}.item ORDER BY id")]


def streams(here: JobHere) -> None:
    here.stream()
    assert set(here.made.states().values()) == {"streaming"}, here.made.status()
    here.made.assert_identical("item", "other", "parent", "child")


@pytest.mark.one_case("mariadb to postgresql")
def test_rule_17_a_table_waits_for_a_decision_and_catches_up_from_there(here: JobHere) -> None:
    """Also in front of a second change behind the first. Nobody else waits."""
    made, item = here.made, TableId(here.made.schema, "item")
    made.source.execute(
        "UPDATE item SET v = 'before' WHERE id = 1",
        "ALTER TABLE item ADD n INT",
        "UPDATE item SET v = 'behind', n = 5 WHERE id = 1",
        "INSERT INTO other VALUES (1, 1)",
        "ALTER TABLE item ADD m INT NOT NULL DEFAULT 7",
        "UPDATE item SET m = 8 WHERE id = 2",
        "DELETE FROM item WHERE id = 1",
        "ALTER TABLE child ADD n INT",
        "INSERT INTO child (id, p, n) VALUES (1, 1, 1)",
        "INSERT INTO parent VALUES (3)",
    )
    here.stream()
    assert {t for t, s in made.states().items() if s == "parked"} == {"item", "parent", "child"}
    assert "waits for a decision" in made.reason("item") and "anabranch ddl approve JOB N" in made.reason("item")
    assert "foreign keys connect it with" in made.reason("parent")
    made.assert_identical("other")
    assert values(here, "v") == ["before", "two"]
    first, second = noted(here)
    assert [one.outcome for one in (first, second)] == [Outcome.WAITING] * 2 and "earlier" in second.why
    assert here.job.names.table(item) in retention.readers(here.job.trail), "the trail is held for it"
    planned = [(one.sequence, one.table.name, one.outcome) for one in here.job.plan_ddl_backlog()]
    (third,) = noted(here, "child")
    assert planned == [(one.sequence, one.source.name, Outcome.WAITING) for one in (first, second, third)]
    tables, child = here.job.status()["targets"][0]["tables"], f"{made.schema}.child"
    told = {table["source"]: table["undecided"] for table in tables if "undecided" in table}
    assert {name: (one["number"], one["table"], one["statement"]) for name, one in told.items()} == {
        str(item): (first.number, str(item), first.statement),
        child: (third.number, child, third.statement),
        f"{made.schema}.parent": (third.number, child, third.statement),
    }
    assert told[str(item)]["since"] and told[str(item)]["since"] <= told[child]["since"]
    with pytest.raises(ConfigError, match="waits for a decision"):
        here.job.resume(str(item))
    with pytest.raises(ConfigError, match="nothing waits in front of change"):
        here.job.decide_ddl(second.number)
    assert here.job.decide_ddl(first.number) == [item]
    assert [one.outcome for one in here.job.plan_ddl_backlog()] == [Outcome.ALTERED, *[Outcome.WAITING] * 2]
    with pytest.raises(ConfigError, match="nothing waits"):
        here.job.decide_ddl(first.number)
    here.stream()
    assert made.states()["item"] == "parked" and (values(here, "v"), values(here, "n")) == (
        ["behind", "two"],
        [5, None],
    )
    first, second = noted(here)
    assert (first.outcome, second.outcome) == (Outcome.ALTERED, Outcome.WAITING) and "decided by" in first.why
    (of_child,) = noted(here, "child")
    assert set(here.job.decide_ddl(of_child.number)) == {TableId(made.schema, name) for name in ("parent", "child")}
    here.job.decide_ddl(second.number)
    streams(here)
    assert not any("undecided" in table for table in here.job.status()["targets"][0]["tables"])
    assert [one.outcome for one in noted(here)] == [Outcome.ALTERED] * 2
    assert here.job.names.table(item) not in retention.readers(here.job.trail)


@pytest.mark.one_case("mysql to mariadb")
def test_rule_17_a_decision_is_carried_out_once_wherever_the_job_dies(here: JobHere) -> None:
    source, met = here.made.source, []
    for number, place in enumerate(PLACES):
        source.execute(
            "UPDATE item SET v = 'before' WHERE id = 1",
            f"ALTER TABLE item ADD c{number} INT NOT NULL DEFAULT 3",
            f"UPDATE item SET c{number} = {number}, v = 'behind' WHERE id = 1",
        )
        met += dies(here, place)
        here.stream()
        assert here.made.states()["item"] == "parked" and values(here, "v") == ["before", "two"]
        here.job.decide_ddl(noted(here)[-1].number)
        met += dies(here, place)
        streams(here)
    apart = isinstance(here.made, MysqlToMysql)
    assert set(met) == {one for one in PLACES if apart or one not in ("apply.altering", "apply.altered.apart")}
    changes = noted(here)
    assert {one.outcome for one in changes} == {Outcome.ALTERED} and len(changes) == len(PLACES)


@pytest.mark.parametrize("asked", ["parent", "child"])
@pytest.mark.one_case("mariadb to postgresql-child", "mysql to mariadb-parent")
def test_rule_17_a_decision_that_dies_half_way_is_made_again(here: JobHere, asked: str) -> None:
    here.made.source.execute(f"ALTER TABLE {asked} ADD n INT", f"INSERT INTO {asked} (id, n) VALUES (7, 7)")
    here.stream()
    (change,) = noted(here, asked)
    assert dies(here, "ddl.decided", lambda: here.job.decide_ddl(change.number))
    states, rest = here.made.states(), {"parent": "child", "child": "parent"}[asked]
    assert (states[asked], states[rest]) == ("parked", "loading")
    assert set(here.job.decide_ddl(change.number)) == {TableId(here.made.schema, t) for t in ("parent", "child")}
    streams(here)
    assert [one.outcome for one in noted(here, asked)] == [Outcome.ALTERED]


@pytest.mark.one_case("mariadb to postgresql")
def test_tables_that_wait_with_one_that_is_loaded_are_loaded_too(here: JobHere) -> None:
    """Whichever of them goes first: no command lets the rest go on without it."""
    made, parent, child = here.made, *(TableId(here.made.schema, t) for t in ("parent", "child"))
    for gone, left in ((parent, child), (child, parent)):
        made.source.execute(
            f"ALTER TABLE parent ADD n{gone.name} INT", f"INSERT INTO parent (id) VALUES (1{len(gone.name)})"
        )
        here.stream()
        (change,) = [one for one in noted(here, "parent") if one.outcome is Outcome.WAITING]
        assert "load this one, too" in made.reason("child")
        here.load(gone, recreate=gone == parent)
        here.stream()
        with pytest.raises(ConfigError, match="nothing waits" if gone == parent else "was loaded again"):
            here.job.decide_ddl(change.number)
        with pytest.raises(
            ConfigError, match="cannot go on where it stood" if gone == parent else "waits for a decision"
        ):
            here.job.resume(str(left))
        here.load(left, recreate=left == parent)
        streams(here)


@pytest.mark.parametrize("here", [("mariadb", "postgresql")], indirect=True, ids=" to ".join)
def test_a_table_in_a_window_waits_for_no_decision_and_stops_nevertheless(here: JobHere) -> None:
    made, name, item = here.made, here.job.config.name, TableId(here.made.schema, "item")
    with store_of(here.job) as store:
        state, checkpoint = store.states.tables(name)[item], store.jobs.checkpoint(name)
        assert checkpoint is not None
        at = checkpoint.position.sequence
        store.states.save_table(name, open_window(state, at, at + 3), state)
    made.write_job('[ddl]\nadd_column = "stop"\n')
    made.source.execute("ALTER TABLE item ADD n INT", *(f"INSERT INTO other VALUES ({n}, {n})" for n in range(4)))
    with pytest.raises(StoppedByChange):
        here.stream()
    made.write_job(ASKS)
    here.stream()
    assert made.states()["item"] == "parked" and "its rows were being read again" in made.reason("item")


@pytest.mark.long
@pytest.mark.parametrize("here", [("logical_postgresql", "postgresql")], indirect=True, ids=" to ".join)
def test_rule_17_a_transaction_that_alters_several_tables_which_wait_is_asked_for_one_by_one(here: JobHere) -> None:
    """Each is altered once, also where the job dies between them."""
    source = here.made.source
    source.execute("ALTER TABLE child ADD n INT", "INSERT INTO child (id, p, n) VALUES (1, 1, 1)")
    source.execute(
        "BEGIN; ALTER TABLE parent ADD a INT; ALTER TABLE child ADD b INT; INSERT INTO parent (id, a) VALUES (3, 3);"
        " INSERT INTO child (id, p, n, b) VALUES (2, 3, 2, 2); COMMIT"
    )
    here.stream()
    for number, table in enumerate(("child", "parent", "child")):
        (change,) = [
            one for one in noted(here, table) if one.outcome is Outcome.WAITING and not one.why.startswith("the")
        ]
        here.job.decide_ddl(change.number)
        assert dies(here, "apply.committed") or number == 0
        here.stream()
    streams(here)
    assert {one.outcome for t in ("parent", "child") for one in noted(here, t)} == {Outcome.ALTERED}
    assert [len(noted(here, table)) for table in ("parent", "child")] == [1, 2]


def dies(here: JobHere, place: str, do: Callable[[], object] | None = None) -> list[str]:
    failpoints.arm({failpoints.VARIABLE: f"{place}=raise"})
    try:
        (do or here.stream)()
    except failpoints.FailpointReached:
        return [place]
    finally:
        failpoints.arm({})
    return []


@pytest.mark.one_case("mysql to mariadb")
def test_a_change_that_cannot_be_made_waits_on_and_a_load_ends_the_waiting(here: JobHere) -> None:
    made = here.made
    made.source.execute("ALTER TABLE item ADD mine INT", "UPDATE item SET mine = 1")
    here.stream()
    made.target.execute(f"ALTER TABLE {made.there}.item ADD COLUMN mine int")
    (change,) = noted(here)
    here.job.decide_ddl(change.number)
    here.stream()
    assert made.states()["item"] == "parked" and "apply is not possible" in made.reason("item")
    made.target.execute(f"ALTER TABLE {made.there}.item DROP COLUMN mine")
    here.job.decide_ddl(change.number)
    streams(here)
    made.source.execute("ALTER TABLE item ADD more INT")
    made.source.execute("UPDATE item SET more = 1")
    here.stream()
    here.load(TableId(made.schema, "item"), recreate=True)
    streams(here)
    assert [one.outcome for one in noted(here)] == [Outcome.ALTERED, Outcome.PASSED]
    with pytest.raises(ConfigError, match="nothing waits"):
        here.job.decide_ddl(noted(here)[-1].number)


@pytest.mark.one_case("mariadb to postgresql")
def test_a_row_that_is_refused_on_the_way_parks_behind_the_change_that_was_made(here: JobHere) -> None:
    """It goes on from there: nothing is made or applied twice."""
    made, item = here.made, f"{here.made.schema}.item"
    made.target.execute(f"ALTER TABLE {made.there}.item ADD CONSTRAINT small CHECK (id < 100)")
    made.source.execute(
        "ALTER TABLE item ADD a INT",
        "UPDATE item SET a = 1 WHERE id = 1",
        "INSERT INTO item (id, a) VALUES (200, 2)",
        "ALTER TABLE item ADD b INT",
        "UPDATE item SET b = 3 WHERE id = 2",
    )
    here.stream()
    here.job.decide_ddl(noted(here)[0].number)
    here.stream()
    assert made.states()["item"] == "parked" and "still refused" in made.reason("item")
    assert values(here, "a") == [None, None] and noted(here)[0].outcome is Outcome.ALTERED
    made.target.execute(f"ALTER TABLE {made.there}.item DROP CONSTRAINT small")
    here.job.resume(item)
    here.stream()
    assert made.states()["item"] == "parked" and values(here, "a") == [1, None, 2]
    here.job.decide_ddl(noted(here)[-1].number)
    streams(here)
    assert [one.outcome for one in noted(here)] == [Outcome.ALTERED] * 2


@pytest.mark.parametrize("here", [("mariadb", "postgresql"), ("mysql", "mariadb")], indirect=True, ids=" to ".join)
@pytest.mark.one_case("mariadb to postgresql")
def test_a_refused_row_in_front_of_a_change_does_not_cost_a_load(here: JobHere) -> None:
    """The table resumes from its place, and is altered on the way."""
    made = here.made
    made.write_job('[ddl]\naction = "apply"\n')
    made.target.execute(f"ALTER TABLE {made.there}.item ADD CONSTRAINT small CHECK (id < 100)")
    made.source.execute("INSERT INTO item (id) VALUES (200)")
    here.stream(parks=True)
    made.source.execute("ALTER TABLE item ADD a INT, DROP goes", "INSERT INTO item (id, a) VALUES (3, 3)")
    here.stream()
    assert made.states()["item"] == "parked"
    made.target.execute(f"ALTER TABLE {made.there}.item DROP CONSTRAINT small")
    made.write_job(f'[ddl]\naction = "apply"\n[[tables]]\nname = "{made.schema}.item"\nwhere = "a > 0"\n')
    here.job.resume(f"{made.schema}.item")
    here.stream()
    assert made.states()["item"] == "parked" and "unknown column a" in made.reason("item"), (
        "the file does not fit its place"
    )
    made.write_job('[ddl]\naction = "apply"\n')
    here.job.resume(f"{made.schema}.item")
    streams(here)


@pytest.mark.parametrize("here", [("mariadb", "postgresql"), ("mysql", "mariadb")], indirect=True, ids=" to ".join)
@pytest.mark.one_case("mysql to mariadb")
def test_a_dropped_column_may_be_kept(here: JobHere) -> None:
    made = here.made
    made.source.execute("ALTER TABLE item DROP goes", "INSERT INTO item VALUES (3, 'three')")
    here.stream()
    here.job.decide_ddl(noted(here)[-1].number, "skip")
    streams(here)
    assert values(here, "goes") == [1, 2, None] and "skip, decided by" in noted(here)[-1].why
    made.source.execute("ALTER TABLE item CHANGE v w VARCHAR(20)", "INSERT INTO item VALUES (4, 'four')")
    here.stream()
    with pytest.raises(ConfigError, match="rename_column cannot be skipped"):
        here.job.decide_ddl(noted(here)[-1].number, "skip")


@pytest.mark.parametrize("here", [("mariadb", "postgresql"), ("mysql", "mariadb")], indirect=True, ids=" to ".join)
@pytest.mark.one_case("mariadb to postgresql")
def test_a_decision_is_about_the_kinds_that_are_asked_for(here: JobHere) -> None:
    """The job file has the word about the others of the same statement, whatever is decided."""
    made = here.made
    made.write_job('[ddl]\nadd_column = "ask"\ndrop_column = "keep"\n')
    made.source.execute("ALTER TABLE item ADD n INT, DROP goes", "INSERT INTO item VALUES (3, 'three', 3)")
    here.stream()
    here.job.decide_ddl(noted(here)[-1].number)
    streams(here)
    assert (values(here, "goes"), values(here, "n")) == ([1, 2, None], [None, None, 3])
    made.write_job('[ddl]\naction = "apply"\ncolumn_default = "ask"\n')
    made.source.execute(
        "ALTER TABLE item ADD m INT, ALTER v SET DEFAULT 'new'", "INSERT INTO item (id, n, m) VALUES (4, 4, 4)"
    )
    here.stream()
    here.job.decide_ddl(noted(here)[-1].number, "skip")
    streams(here)
    assert values(here, "m") == [None, None, None, 4] and "skip, decided by" in noted(here)[-1].why


@pytest.mark.parametrize("here", [("mariadb", "postgresql"), ("mysql", "mariadb")], indirect=True, ids=" to ".join)
@pytest.mark.one_case("mysql to mariadb")
def test_a_person_may_alter_the_target_in_place_of_a_change(here: JobHere) -> None:
    """By statements of the command, or before it; what does not take the rows behind the change is refused."""
    made, there = here.made, f"{here.made.there}.item"
    made.source.execute("ALTER TABLE item ADD n INT, DROP goes", "INSERT INTO item VALUES (3, 'three', 3)")
    here.stream()
    change = noted(here)[-1]
    for statements, why in (([], "column n is missing"), ([f"ALTER TABLE {there} ADD n smallint"], "needed is int")):
        with pytest.raises(ConfigError, match=why):
            here.job.decide_ddl(change.number, "replace", statements)
        assert made.states()["item"] == "parked"
    with pytest.raises(TargetError, match="no_such"):
        here.job.decide_ddl(change.number, "replace", [f"ALTER TABLE {there} DROP COLUMN no_such"])
    made.target.execute(f"ALTER TABLE {there} DROP COLUMN n")
    mine = f"ALTER TABLE {there} ADD n bigint"
    here.job.decide_ddl(change.number, "replace", [mine])
    here.stream()
    assert made.states()["item"] == "streaming" and values(here, "n") == [None, None, 3]
    assert values(here, "goes") == [1, 2, None] and "bigint" in mine
    (change,) = noted(here)
    assert change.outcome is Outcome.ALTERED and change.why.startswith("replace, decided by ") and mine in change.why
    made.source.execute("ALTER TABLE item ADD m INT NOT NULL DEFAULT 7", "INSERT INTO item VALUES (4, 'four', 4, 5)")
    here.stream()
    change, mine = noted(here)[-1], f"ALTER TABLE {there} ADD m int NOT NULL DEFAULT 7"
    assert dies(here, "ddl.replaced", lambda: here.job.decide_ddl(change.number, "replace", [mine]))
    assert made.states()["item"] == "parked"
    here.job.decide_ddl(change.number, "replace")
    assert dies(here, "apply.altered.behind")
    here.stream()
    assert made.states()["item"] == "streaming" and values(here, "m") == [7, 7, 7, 5]
    assert noted(here)[-1].version == change.version + 1
    made.write_job('[ddl]\ndrop_table = "ask"\n')
    here.apply(is_built=True)
    made.source.execute("DROP TABLE other")
    here.stream()
    with pytest.raises(ConfigError, match="only a change of columns"):
        here.job.decide_ddl(noted(here, "other")[-1].number, "replace")
