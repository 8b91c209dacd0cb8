"""Columns that a MySQL or MariaDB adds to its tables come to the target just there, between rows of both definitions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from anabranch import failpoints
from anabranch.model.ddl_changes import PARKS, DdlChange, DdlRule, Outcome, digest_of
from anabranch.model.ids import TableId
from anabranch.testing.databases import Database, create_database, drop_database, unique_name
from anabranch.testing.servers import Server
from rigs.job_here import JobHere
from rigs.scenario import Scenario
from rigs.scenario_mysql_target import MysqlToMysql

TABLES = (
    "CREATE TABLE item (id INT PRIMARY KEY, v VARCHAR(20))",
    "CREATE TABLE other (id INT PRIMARY KEY, v INT)",
    "INSERT INTO item VALUES (1, 'one'), (2, 'two')",
)
PAIRS = [("mariadb", "postgresql"), ("mysql", "postgresql"), ("mysql", "mariadb"), ("mariadb", "mysql")]
APPLY = '[ddl]\nadd_column = "apply"\n'


@pytest.fixture(params=PAIRS, ids=" to ".join)
def here(
    request: pytest.FixtureRequest, source_database: Callable[[Server], Database], tmp_path: Path
) -> Iterator[JobHere]:
    """A job that streams two tables."""
    of, to = request.param
    source = source_database(request.getfixturevalue(of))
    target = create_database(request.getfixturevalue(to), "added")
    source.execute(*TABLES)
    kind = Scenario if to == "postgresql" else MysqlToMysql
    made = JobHere(kind(source, target, tmp_path, name=unique_name("job")))
    made.made.write_job(APPLY)
    made.load()
    made.stream()
    yield made
    made.job.drop(execute=True)
    drop_database(target)


BACKLOG = (
    "INSERT INTO item VALUES (3, 'three')",
    "CREATE INDEX by_v ON item (v)",  # definitions are compared, and the catalogue is ahead
    "ALTER TABLE item ADD COLUMN n INT NOT NULL DEFAULT 5",
    "INSERT INTO item (id, v, n) VALUES (4, 'four', 6)",
    "UPDATE item SET n = 7 WHERE id = 1",
    "ALTER TABLE item ADD note TEXT NULL COMMENT 'it''s new' AFTER id, "
    "ADD (price DECIMAL(9,2) DEFAULT 1.5, day DATE DEFAULT '2024-02-29')",
    "INSERT INTO item (id, note, v, n, price, day) VALUES (5, 'x', 'five', 8, -0.25, NULL)",
    "UPDATE item SET id = 20, note = 'moved' WHERE id = 2",
    "ALTER TABLE item ADD word VARCHAR(9) CHARACTER SET latin1 NOT NULL DEFAULT '\u00e9' FIRST, ALGORITHM=INPLACE",
    "DELETE FROM item WHERE id = 3",
    "INSERT INTO other VALUES (1, 1)",
)
PLACES = (
    "capture.statement.noted",
    "capture.appended",
    "apply.altering",
    "apply.altered.apart",
    "apply.altered",
    "apply.ddl.noted",
    "apply.committed",
)


ADD_COLUMN = DdlRule("[ddl] add_column", "apply")


def _noted(here: JobHere, table: str) -> list[DdlChange]:
    """Return what the target has noted of a table, in its order; of each transaction once."""
    found = here.job.ddl_changes(f"{here.made.schema}.{table}")
    assert len({one.sequence for one in found}) == len(found)
    assert all(one.position.startswith(f"{one.sequence}@") and one.commit_time and one.noted_at for one in found)
    return found


def _streams(here: JobHere) -> None:
    here.stream()
    assert set(here.made.states().values()) == {"streaming"}, here.made.status()
    here.made.assert_identical("item", "other")


def test_rule_17_columns_come_between_the_rows_of_both_definitions(here: JobHere) -> None:
    """Several statements in a backlog, whose catalogue shows the last of them only, with rows of each definition between. Then
    the job dies at every place on a statement's way, and goes on."""
    source = here.made.source
    source.execute(*BACKLOG)
    _streams(here)
    assert here.verify().identical
    columns = [column.name for column in here.job.schema_versions(f"{here.made.schema}.item")[-1].schema.columns]
    assert columns == ["word", "id", "note", "v", "n", "price", "day"]
    met = []
    for number, place in enumerate(PLACES):
        source.execute(
            f"ALTER TABLE item ADD c{number} INT DEFAULT {number}", f"UPDATE item SET c{number} = -1 WHERE id = 4"
        )
        failpoints.arm({failpoints.VARIABLE: f"{place}=raise"})
        try:
            here.stream()
        except failpoints.FailpointReached:
            met.append(place)
        finally:
            failpoints.arm({})
        _streams(here)
    apart = isinstance(here.made, MysqlToMysql)
    assert met == [place for place in PLACES if apart or place not in ("apply.altering", "apply.altered.apart")]
    versions, noted = here.job.schema_versions(f"{here.made.schema}.item")[1:], _noted(here, "item")
    assert [(one.statement, one.sequence, one.version, one.digest, one.outcome) for one in noted] == [
        (one.statement, one.sequence, one.schema.version, digest_of(one.schema), Outcome.ALTERED) for one in versions
    ]
    assert {(one.rule, one.why, one.source_user) for one in noted} == {(ADD_COLUMN, "", None)}
    assert here.job.ddl_changes() == noted


@pytest.mark.parametrize("here", PAIRS[::2], indirect=True, ids=" to ".join)
def test_a_table_that_cannot_be_altered_parks_just_there(here: JobHere) -> None:
    """The target has such a column of its own: nobody knows what its rows have."""
    made = here.made
    made.target.execute(f"ALTER TABLE {made.there}.item ADD COLUMN mine int")
    made.source.execute(
        "UPDATE item SET v = 'before' WHERE id = 1",
        "ALTER TABLE item ADD mine INT",
        "UPDATE item SET v = 'x' WHERE id = 1",
        "INSERT INTO other VALUES (1, 1)",
    )
    here.stream()
    states = made.states()
    assert (states["item"], states["other"]) == ("parked", "streaming")
    assert "altered at the source" in made.reason("item") and "already" in made.reason("item")
    assert made.target.query(f"SELECT v FROM {made.there}.item WHERE id = 1") == [("before",)]
    made.assert_identical("other")
    (refused,), first = _noted(here, "item"), here.job.schema_versions(f"{made.schema}.item")[0]
    assert (refused.outcome, refused.rule) == (Outcome.PARKED, ADD_COLUMN) and "already" in refused.why
    assert (refused.version, refused.digest) == (1, digest_of(first.schema))
    made.source.execute("ALTER TABLE item ADD later INT")
    here.stream()
    *_, passed = _noted(here, "item")
    assert (passed.outcome, passed.why, passed.version) == (Outcome.PASSED, "the table is parked", 1)
    here.load(TableId(made.schema, "item"), recreate=True)
    _streams(here)
    assert len(_noted(here, "item")) == 2


@pytest.mark.parametrize("here", PAIRS[::2], indirect=True, ids=" to ".join)
def test_rule_17_a_change_that_no_setting_takes_is_noted_where_it_parks_its_table(here: JobHere) -> None:
    """Also where the job dies before and behind the commit."""
    statements = {
        "other": "ALTER TABLE other DROP COLUMN v",
        "item": "ALTER TABLE item MODIFY v VARCHAR(30)",
        "fresh": "CREATE TABLE fresh (id INT PRIMARY KEY)",
    }
    here.made.source.execute(*statements.values())
    for place, state in (("apply.ddl.noted", "streaming"), ("apply.committed", "parked")):
        failpoints.arm({failpoints.VARIABLE: f"{place}=raise"})
        try:
            with suppress(failpoints.FailpointReached):  # behind the commit all is done, and it may end by that
                here.stream()
        finally:
            failpoints.arm({})
        assert here.made.states()["item"] == state
    here.stream()
    parked = {table: _noted(here, table) for table in statements}
    assert {table: [one.statement for one in found] for table, found in parked.items()} == {
        table: [statement] for table, statement in statements.items()
    }
    assert {(one.outcome, one.rule) for (one,) in parked.values()} == {(Outcome.PARKED, PARKS)}
    assert "altered at the source" in parked["other"][0].why and parked["fresh"][0].digest == ""


@pytest.mark.parametrize("here", PAIRS[::2], indirect=True, ids=" to ".join)
def test_an_alteration_that_is_left_out_parks_its_table(here: JobHere) -> None:
    """Its rows come by the next definition from then on."""
    made = here.made
    made.source.execute("ALTER TABLE item ADD left_out INT", "INSERT INTO item VALUES (9, 'nine', 9)")
    here.capture()
    here.job.skip(str(here.job.schema_versions(f"{made.schema}.item")[-1].sequence), execute=True)
    here.apply()
    assert made.states()["item"] == "parked" and "the target's were not" in made.reason("item")
    assert (9,) not in made.target.query(f"SELECT id FROM {made.there}.item")
    (left,) = _noted(here, "item")
    assert left.outcome is Outcome.PARKED and "the target's were not" in left.why and "left_out" in left.statement
