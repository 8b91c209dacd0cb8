"""Tables that a MySQL or MariaDB drops are dropped at the target where the log has the statement, or kept there."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from anabranch import failpoints
from anabranch.errors import ConfigError, StoppedByChange
from anabranch.model.column_changes import TableActions
from anabranch.model.ddl_changes import DdlRule, Outcome
from anabranch.model.ids import TableId
from anabranch.trail import retention
from rigs.job_here import JobHere
from rigs.scenario_mysql_target import MysqlToMysql
from rigs.streams import Streams

PAIRS = [("mysql", "postgresql"), pytest.param(("mariadb", "mariadb"), marks=pytest.mark.long)]
APPLY = """[ddl]
create_table = "apply"
drop_table = "apply"
rename_table = "apply"
[[ddl.rules]]
tables = ["*.stays_*"]
drop_table = "keep"
[[ddl.rules]]
tables = ["*.moves_*"]
drop_table = "rename"
"""
ASKS = '[ddl]\ncreate_table = "apply"\ndrop_table = "ask"\n'
MADE = (
    "item",
    "plain",
    "stays_here",
    "moves_off",
    "parent",
    "child",
    "needed",
    "wide",
    "asked",
    "several_1",
    "several_2",
)
# Each is met on the way of a table that is dropped and made again.
EVERYWHERE = ("capture.statement.noted", "capture.appended", "apply.dropped", "apply.ddl.noted", "apply.committed")
APART = ("apply.dropping", "apply.dropped.apart")


def _made() -> Iterator[str]:
    for name in MADE:
        refers = ", parent INT, FOREIGN KEY (parent) REFERENCES parent (id)" if name == "child" else ""
        values = ", NULL" if refers else ""
        yield f"CREATE TABLE {name} (id INT PRIMARY KEY, v VARCHAR(20), KEY by_v (v){refers})"
        yield f"INSERT INTO {name} VALUES (1, 'one'{values}), (2, 'two'{values})"


@pytest.fixture(params=PAIRS, ids=" to ".join)
def here(request: pytest.FixtureRequest, streams: Streams) -> JobHere:
    return streams(request.param, _made(), APPLY, is_built=True)


def _there(here: JobHere) -> set[str]:
    """The target's tables."""
    found = here.made.target.query(
        f"SELECT table_name FROM information_schema.tables WHERE table_schema = '{here.made.there}'"
    )
    return {str(name) for (name,) in found}


def _outcomes(here: JobHere) -> dict[str, str]:
    return {one.source.name: one.outcome for one in here.job.ddl_changes()}


def test_rule_17_tables_go_at_their_place(here: JobHere) -> None:
    """In a backlog, with rows before and tables of the same name behind; then the job dies at every place on the way of one."""
    made, source = here.made, here.made.source
    for name, outcome in ("plain", Outcome.DROPPED), ("stays_here", Outcome.KEPT), ("moves_off", Outcome.KEPT):
        plan = here.job.plan_ddl(f"DROP TABLE {name}")
        assert (plan.outcome, plan.exit_code) == (outcome, 0), plan
    source.execute(
        "UPDATE plain SET v = 'last'",
        "DROP TABLE plain",
        "UPDATE stays_here SET v = 'last'",
        "DROP TABLE IF EXISTS stays_here, never_there",
        "UPDATE moves_off SET v = 'last'",
        "DROP TABLE moves_off",
        "CREATE TEMPORARY TABLE item (id INT)",
        "DROP TEMPORARY TABLE item",
        "CREATE TEMPORARY TABLE item (id INT)",
        "DROP TABLE item",
        "DROP TABLE child, parent",
        "UPDATE item SET v = 'between'",
        "CREATE TABLE plain (id INT PRIMARY KEY, other INT)",
        "INSERT INTO plain VALUES (7, 7)",
        "CREATE TABLE moves_off (id INT PRIMARY KEY, other INT, KEY by_v (other))",
        "INSERT INTO moves_off VALUES (8, 8)",
    )
    here.stream()
    here.apply(is_built=True)
    states = made.states()
    assert not states.keys() & {"stays_here", "child", "parent"} and set(states.values()) == {"streaming"}, (
        made.status()
    )
    made.assert_identical("item", "plain", "moves_off")
    (moved,) = (name for name in _there(here) if name.startswith("moves_off__dropped_20"))
    assert not _there(here) & {"child", "parent"} and len(moved) == len("moves_off__dropped_20261128_031207")
    for name in ("stays_here", moved):
        assert made.target.query(f"SELECT v FROM {made.there}.{name}") == [("last",), ("last",)]
    noted = here.job.ddl_changes(f"{made.schema}.child")
    assert [(one.outcome, one.rule, one.version) for one in noted] == [
        (Outcome.DROPPED, DdlRule("[ddl] drop_table", "apply"), 0)
    ]
    (kept,) = (one for one in here.job.ddl_changes(f"{made.schema}.moves_off") if one.outcome == Outcome.KEPT)
    assert moved in kept.why and kept.rule == DdlRule("[[ddl.rules]] 2 drop_table", "rename")
    first, again = here.job.schema_versions(f"{made.schema}.plain")
    assert first.ended.startswith("dropped at the source") and again.came == "created"
    assert here.verify().identical
    met, places = [], EVERYWHERE + (APART if isinstance(made, MysqlToMysql) else ())
    for number, place in enumerate(places):
        name = ("plain", "moves_off")[number % 2]
        source.execute(f"UPDATE {name} SET other = {number}", f"DROP TABLE {name}")
        failpoints.arm({failpoints.VARIABLE: f"{place}=raise"})
        try:
            here.stream()
        except failpoints.FailpointReached:
            met.append(place)
        finally:
            failpoints.arm({})
        source.execute(
            f"CREATE TABLE {name} (id INT PRIMARY KEY, other INT, nr{number} INT)",
            f"INSERT INTO {name} VALUES (1, {number}, 1)",
        )
        here.stream()
        assert made.states()[name] == "streaming", (place, made.reason(name))
        made.assert_identical(name, "item")
    assert met == list(places)
    there = [name for name in _there(here) if name.startswith("moves_off__dropped_20")]
    assert len(there) == 1 + len(places) // 2, there


def test_rule_17_tables_go_on_under_their_next_names(here: JobHere) -> None:
    """In a backlog, several times; then the job dies at every place on the way of one."""
    made, source = here.made, here.made.source
    assert here.job.plan_ddl("RENAME TABLE plain TO flat").outcome is Outcome.RENAMED
    assert here.job.plan_ddl("RENAME TABLE parent TO father").outcome is Outcome.PARKED
    source.execute(
        "UPDATE plain SET v = 'before'",
        "RENAME TABLE plain TO flat",
        "UPDATE flat SET v = 'behind' WHERE id = 1",
        "ALTER TABLE several_1 RENAME TO one",
        "INSERT INTO one VALUES (3, 'three')",
        "ALTER TABLE one ADD COLUMN more INT DEFAULT 5",
        "RENAME TABLE flat TO even, several_2 TO other",
        "UPDATE even SET v = 'at last' WHERE id = 2",
        "CREATE TABLE plain (id INT PRIMARY KEY)",
        "INSERT INTO plain VALUES (1)",
    )
    here.stream()
    here.apply(is_built=True)
    states = made.states()
    assert {"even", "one", "other", "plain"} < states.keys() and not {"flat", "several_1", "several_2"} & states.keys()
    assert set(states.values()) == {"streaming"}, made.status()
    made.assert_identical("even", "one", "other", "plain")
    assert not {"flat", "several_1", "several_2"} & _there(here) and here.verify().identical
    (noted,) = here.job.ddl_changes(f"{made.schema}.one")[:1]
    assert (noted.outcome, noted.rule) == (Outcome.RENAMED, DdlRule("[ddl] rename_table", "apply"))
    met, name, places = [], "even", EVERYWHERE + (APART if isinstance(made, MysqlToMysql) else ())
    for number, place in enumerate(places):
        source.execute(f"UPDATE {name} SET v = 'before {number}'", f"RENAME TABLE {name} TO even_{number}")
        failpoints.arm({failpoints.VARIABLE: f"{place}=raise"})
        try:
            here.stream()
        except failpoints.FailpointReached:
            met.append(place)
        finally:
            failpoints.arm({})
        name = f"even_{number}"
        source.execute(f"UPDATE {name} SET v = '{number}' WHERE id = 1")
        here.stream()
        assert made.states()[name] == "streaming", (place, made.reason(name))
        made.assert_identical(name)
    assert met == list(places)


def test_names_that_are_not_free_or_not_taken_park(here: JobHere) -> None:
    made = here.made
    made.target.execute(f"CREATE TABLE {made.there}.theirs (id INT PRIMARY KEY)")
    made.source.execute(
        "RENAME TABLE plain TO theirs",  # the target has one
        "RENAME TABLE several_1 TO aside, several_2 TO several_1",
        "RENAME TABLE needed TO _needed_del",  # a name that tools use
        "RENAME TABLE parent TO father",  # a foreign key refers to it
        "UPDATE item SET v = 'on'",
    )
    here.stream()
    parked = {name for name, state in made.states().items() if state == "parked"}
    assert parked >= {"plain", "theirs", "several_1", "several_2", "needed", "parent", "child", "father"}, made.status()
    assert "has a table" in made.reason("theirs") and made.reason("plain").startswith("dropped at the source")
    made.assert_identical("item")
    here.load(TableId(made.schema, "father"))
    here.stream()
    assert made.states()["father"] == "streaming"


def test_rule_17_a_person_decides_about_a_drop(here: JobHere) -> None:
    """The job dies at every place on the way there and back."""
    made, source, met = here.made, here.made.source, []
    made.write_job(ASKS)
    places = ("apply.drop.asking", "apply.dropped.behind", "apply.ddl.noted", "apply.committed")
    places += APART if isinstance(made, MysqlToMysql) else ()
    names = ("plain", "asked", "several_1", "several_2", "moves_off", "stays_here")
    assert here.job.plan_ddl("DROP TABLE plain").outcome is Outcome.WAITING
    source.execute("UPDATE wide SET v = 'kept'", "DROP TABLE wide")
    for name, place in zip(names, places, strict=False):
        source.execute(f"UPDATE {name} SET v = 'last'", f"DROP TABLE {name}", f"UPDATE item SET v = '{name}'")
        for way in ("there", "back"):
            if way == "back":
                assert made.states()[name] == "parked" and name in _there(here), made.status()
                (waits,) = [
                    one for one in here.job.ddl_changes(f"{made.schema}.{name}") if one.outcome == Outcome.WAITING
                ]
                here.job.decide_ddl(waits.number, "apply")
            if place != "apply.drop.asking" or way == "there":
                failpoints.arm({failpoints.VARIABLE: f"{place}=raise"})
            try:
                here.stream()
            except failpoints.FailpointReached:
                met.append(place)
            finally:
                failpoints.arm({})
            here.stream()
        assert name not in made.states() and name not in _there(here)
        assert _outcomes(here)[name] == Outcome.DROPPED
    assert set(met) == set(places)
    made.assert_identical("item")
    source.execute("CREATE TABLE wide (id INT PRIMARY KEY)")
    here.stream()
    (waits,) = here.job.ddl_changes(f"{made.schema}.wide")[:1]
    here.job.decide_ddl(waits.number, "skip")
    here.stream()
    here.stream()
    assert made.target.query(f"SELECT v FROM {made.there}.wide") == [("kept",), ("kept",)]
    assert made.reason("wide").startswith("created at the source, and not at the target")


def test_rule_17_a_person_decides_about_another_name(here: JobHere) -> None:
    """The job dies on the way there and back. Rows under the next name, and a column of it, come when it is approved."""
    made, source, met = here.made, here.made.source, []
    made.write_job('[ddl]\nrename_table = "ask"\n')
    places = ("apply.drop.asking", "apply.renamed.behind", "apply.committed")
    places += APART if isinstance(made, MysqlToMysql) else ()
    assert here.job.plan_ddl("RENAME TABLE plain TO other").outcome is Outcome.WAITING
    for name, place in zip(("plain", "asked", "several_1", "several_2", "wide"), places, strict=False):
        to = f"{name}_next"
        source.execute(f"UPDATE {name} SET v = 'last'", f"RENAME TABLE {name} TO {to}", f"UPDATE {to} SET v = 'first'")
        for way in ("there", "back"):
            if way == "back":
                source.execute(
                    f"ALTER TABLE {to} ADD COLUMN more INT DEFAULT 7", f"INSERT INTO {to} (id, v) VALUES (9, '9')"
                )
                here.stream()
                assert made.states()[name] == "parked" and to not in made.states(), made.status()
                (waits,) = [
                    one for one in here.job.ddl_changes(f"{made.schema}.{name}") if one.outcome == Outcome.WAITING
                ]
                with pytest.raises(ConfigError, match="cannot go on by its former one"):
                    here.job.decide_ddl(waits.number, "skip")
                here.job.decide_ddl(waits.number, "apply")
            if (place == "apply.drop.asking") is (way == "there"):
                failpoints.arm({failpoints.VARIABLE: f"{place}=raise"})
            try:
                here.stream()
            except failpoints.FailpointReached:
                met.append(place)
            finally:
                failpoints.arm({})
            here.stream()
        here.stream()
        assert made.states()[to] == "streaming" and name not in made.states() and name not in _there(here), (
            made.status()
        )
        made.assert_identical(to)
        holds = retention.readers(here.job.trail)
        assert not [hold for hold in holds if hold.endswith((f".{name}", f".{to}"))], holds
    assert set(met) == set(places)


def test_a_table_that_others_need_or_write_parks(here: JobHere) -> None:
    made, there = here.made, here.made.there
    made.target.execute(
        f"CREATE TABLE {there}.theirs (id INT PRIMARY KEY, needed INT, FOREIGN KEY (needed) REFERENCES {there}.needed (id))",
        f"ALTER TABLE {there}.wide ADD COLUMN own INT",
    )
    made.write_job(APPLY.replace('"keep"', '"park"'))
    made.source.execute(
        "DROP TABLE needed",
        "DROP TABLE wide",
        "DROP TABLE stays_here",
        "SET foreign_key_checks = 0",
        "DROP TABLE parent",
    )
    here.stream()
    states = made.states()
    reasons = {name: made.reason(name) for name, state in states.items() if state == "parked"}
    assert reasons.keys() == {"needed", "wide", "stays_here", "parent", "child"}, made.status()
    assert "theirs refer to it" in reasons["needed"] and reasons["needed"].startswith("dropped at the source")
    assert "columns that the job does not write: own" in reasons["wide"]
    assert "child refer to it" in reasons["parent"]
    assert _there(here) > {"needed", "wide", "stays_here", "parent", "child"}
    assert _outcomes(here)["needed"] == Outcome.PARKED


def test_all_tables_of_a_schema_go_or_a_target_parks_them(here: JobHere) -> None:
    made = here.made
    made.source.execute("DROP TABLE asked")
    here.capture()
    with pytest.raises(StoppedByChange):
        here.apply(actions=lambda table: TableActions({"drop_table": "stop"}))
    here.apply(actions=lambda table: TableActions({}))
    assert '[ddl] drop_table = "park"' in made.reason("asked") and "asked" in _there(here)
    made.source.execute(f"DROP DATABASE {made.schema}", f"CREATE DATABASE {made.schema}")
    here.stream()
    left = {"asked", "stays_here"} | {name for name in _there(here) if name.startswith("moves_off__dropped_")}
    assert made.states() == {"asked": "parked"} and _there(here) == left
    assert len(left) == 3
