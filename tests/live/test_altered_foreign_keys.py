"""Foreign keys that only refuse, and that a MySQL or MariaDB makes and drops, come to the target where the job file says so."""

from __future__ import annotations

from contextlib import suppress

import pytest

from anabranch import failpoints
from anabranch.model.ddl_changes import DdlChange, DdlRule, Outcome
from rigs.job_here import JobHere
from rigs.streams import Streams

TABLES = (
    "CREATE TABLE parent (id INT PRIMARY KEY, code INT NOT NULL, UNIQUE KEY codes (code))",
    'CREATE TABLE child (id INT PRIMARY KEY, `p"` INT, c INT, d INT, KEY by_c (c),'
    ' CONSTRAINT of_parent FOREIGN KEY (`p"`) REFERENCES parent (id))',
    "INSERT INTO parent VALUES (1, 11), (2, 12)",
    "INSERT INTO child VALUES (1, 1, 11, 1), (2, 2, 12, 2)",
)
PAIRS = [("mariadb", "postgresql"), ("mysql", "mariadb"), pytest.param(("mariadb", "mysql"), marks=pytest.mark.long)]
APPLY = '[ddl]\nforeign_keys = "apply"\nindexes = "apply"\n'
KEYS = {
    "postgresql": """
        SELECT k.conname FROM pg_constraint k WHERE k.conrelid = (%s || '.child')::regclass AND k.contype = 'f'""",
    "mysql": """
        SELECT CONSTRAINT_NAME FROM information_schema.TABLE_CONSTRAINTS WHERE CONSTRAINT_SCHEMA = %s AND TABLE_NAME = 'child'
           AND CONSTRAINT_TYPE = 'FOREIGN KEY'""",
}


@pytest.fixture(params=PAIRS, ids=" to ".join)
def here(request: pytest.FixtureRequest, streams: Streams) -> JobHere:
    """A job that streams two tables, with the key that they have."""
    return streams(request.param, TABLES, APPLY, is_built=True)


def _keys(here: JobHere) -> set[str]:
    kind = "postgresql" if here.made.target.server.name == "postgresql" else "mysql"
    return {str(name) for (name,) in here.made.target.query(KEYS[kind], [here.made.there])}


def _noted(here: JobHere) -> list[DdlChange]:
    return here.job.ddl_changes(f"{here.made.schema}.child")


def _builds(here: JobHere) -> None:
    here.capture()
    here.apply(is_built=True)
    assert set(here.made.states().values()) == {"streaming"}, here.made.status()
    here.made.assert_identical("parent", "child")


def test_foreign_keys_come_and_go_with_those_of_the_source(here: JobHere) -> None:
    """By every way to write them, beside an index, and one without a name; one that goes is gone for the rows behind it."""
    assert _keys(here) == {"of_parent"}
    planned = here.job.plan_ddl("ALTER TABLE child DROP FOREIGN KEY of_parent")
    assert planned.outcome is Outcome.ALTERED and planned.altering and len(planned.altering.statements) == 1
    here.made.source.execute(
        "ALTER TABLE child ADD CONSTRAINT of_code FOREIGN KEY (c) REFERENCES parent (code) ON DELETE RESTRICT",
        "ALTER TABLE child DROP FOREIGN KEY of_parent",
        'UPDATE child SET `p"` = 77 WHERE id = 1',
        "ALTER TABLE child ADD INDEX by_d (d), ADD FOREIGN KEY (d) REFERENCES parent (id) ON UPDATE NO ACTION",
        "INSERT INTO child VALUES (3, 78, 11, 1)",
    )
    _builds(here)
    found = _keys(here)
    assert "of_code" in found and "of_parent" not in found and len(found) == 2
    noted = _noted(here)
    assert {one.outcome for one in noted} == {Outcome.ALTERED}
    assert noted[0].rule == DdlRule("[ddl] foreign_keys", "apply") and noted[0].why == "built while rows go on: of_code"
    assert "by_d" in noted[2].why and noted[2].rule == DdlRule("[ddl] foreign_keys, indexes", "apply")
    here.made.source.execute(
        "ALTER TABLE child DROP CONSTRAINT of_code"
        if here.made.source.server.name == "mariadb"
        else "ALTER TABLE child DROP FOREIGN KEY of_code",
        "UPDATE child SET c = 99 WHERE id = 2",
        "ALTER TABLE child ADD CONSTRAINT of_code FOREIGN KEY (d) REFERENCES parent (id)",
    )
    _builds(here)
    assert "of_code" in _keys(here) and len(_keys(here)) == 2
    child = f"{here.made.schema}.child"
    here.made.source.execute(
        "INSERT INTO parent VALUES (3, 13)",
        "USE information_schema",
        f"ALTER TABLE {child} ADD CONSTRAINT by_session FOREIGN KEY (id) REFERENCES parent (id)",
        f'INSERT INTO {child} VALUES (1, 1, 11, 1) ON DUPLICATE KEY UPDATE `p"` = 1',
    )
    _builds(here)
    assert "by_session" in _keys(here), "its parent is in the table's own database, not in the session's"


def test_rule_17_a_kill_on_the_way_of_a_foreign_key_is_made_good(here: JobHere) -> None:
    apart = () if here.made.target.server.name == "postgresql" else ("apply.altering", "apply.altered.apart")
    places = ("capture.statement.noted", *apart, "apply.altered", "apply.committed", "apply.built")
    for number, place in enumerate(places, 100):
        before = f"k{number - 1}" if number > 100 else "of_parent"
        here.made.source.execute(
            f"ALTER TABLE child DROP FOREIGN KEY {before}",
            f"UPDATE child SET d = {number}",
            f"ALTER TABLE child ADD CONSTRAINT k{number} FOREIGN KEY (c) REFERENCES parent (code)",
            f"INSERT INTO child VALUES ({number}, 1, 11, 1)",
        )
        failpoints.arm({failpoints.VARIABLE: f"{place}=raise"})
        dies = failpoints.FailpointReached
        try:
            # What builds may be a thread of its own: whether this one hears of its death is a matter of time.
            with pytest.raises(dies) if place != "apply.built" else suppress(dies):
                here.capture()
                here.apply(is_built=True)
        finally:
            failpoints.arm({})
        _builds(here)
        assert _keys(here) == {f"k{number}"}, place
    assert len(_noted(here)) == 2 * len(places)


def test_rows_without_a_parent_are_told_and_the_table_goes_on(here: JobHere) -> None:
    here.made.source.execute(
        "SET SESSION foreign_key_checks = 0",
        "INSERT INTO child VALUES (9, 1, 999, 1)",
        "ALTER TABLE child ADD CONSTRAINT of_code FOREIGN KEY (c) REFERENCES parent (code)",
        "SET SESSION foreign_key_checks = 1",
        "UPDATE child SET d = 5 WHERE id = 1",
    )
    _builds(here)
    (told,) = [t for t in here.job.status()["targets"][0]["tables"] if t["source"].endswith(".child")]
    assert any("of_code" in line for line in told["not_built"]), told
    assert "of_code" in _keys(here)


@pytest.mark.one_case("mariadb to postgresql")
def test_keys_that_are_not_followed_are_noted(here: JobHere) -> None:
    """One to a table that the job does not have, and all where the file says nothing; what acts parks."""
    made = here.made
    made.source.execute("CREATE TABLE elsewhere (id INT PRIMARY KEY)", "INSERT INTO elsewhere VALUES (1), (2), (5)")
    here.stream()
    made.source.execute(
        "ALTER TABLE child ADD INDEX other (d), ADD CONSTRAINT out_of_it FOREIGN KEY (d) REFERENCES elsewhere (id)",
        "UPDATE child SET d = 5 WHERE id = 1",
    )
    here.capture()
    here.apply(is_built=True)
    assert made.states()["child"] == "streaming" and _keys(here) == {"of_parent"}
    assert "foreign_keys" in _noted(here)[-1].why
    made.write_job('[ddl]\nindexes = "apply"\n')
    made.source.execute(
        "ALTER TABLE child ADD INDEX third (d, id), ADD CONSTRAINT of_code FOREIGN KEY (c) REFERENCES parent (code)",
        "ALTER TABLE child DROP FOREIGN KEY of_parent",
    )
    here.capture()
    here.apply(is_built=True)
    assert made.states()["child"] == "streaming" and _keys(here) == {"of_parent"}
    noted = _noted(here)
    assert noted[-2].why.endswith("foreign_keys") and (noted[-1].outcome, noted[-1].rule.action) == (
        Outcome.IGNORED,
        "ignore",
    )
    made.write_job(APPLY)
    made.source.execute(
        'ALTER TABLE child ADD CONSTRAINT acts FOREIGN KEY (`p"`) REFERENCES parent (id) ON DELETE CASCADE',
    )
    here.stream()
    assert made.states()["child"] == "parked"
