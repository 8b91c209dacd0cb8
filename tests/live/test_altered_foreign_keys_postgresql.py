"""Foreign keys that only refuse, and that a PostgreSQL makes and drops, come to the target where the job file says so."""

from __future__ import annotations

import pytest

from anabranch import failpoints
from anabranch.errors import StoppedByChange
from anabranch.model.ddl_changes import DdlChange, DdlRule, Outcome
from anabranch.testing.in_time import until
from rigs.altered_postgresql import Make, jobs_with
from rigs.job_here import JobHere

APPLY = '[ddl]\nforeign_keys = "apply"\n'
TARGETS = ["postgresql", "mysql", pytest.param("mariadb", marks=pytest.mark.long)]
TABLES = (
    "CREATE TABLE parent (id int PRIMARY KEY, code int NOT NULL UNIQUE)",
    "CREATE TABLE child (id int PRIMARY KEY, p int CONSTRAINT of_parent REFERENCES parent, c int, d int)",
    "INSERT INTO parent VALUES (1, 11), (2, 12)",
    "INSERT INTO child VALUES (1, 1, 11, 1), (2, 2, 12, 2)",
)
KEYS = {
    "postgresql": """
        SELECT k.conname FROM pg_constraint k WHERE k.conrelid = (%s || '.child')::regclass AND k.contype = 'f'""",
    "mysql": """
        SELECT CONSTRAINT_NAME FROM information_schema.TABLE_CONSTRAINTS WHERE CONSTRAINT_SCHEMA = %s AND TABLE_NAME = 'child'
           AND CONSTRAINT_TYPE = 'FOREIGN KEY'""",
}


make = jobs_with(APPLY)


def _keys(here: JobHere) -> set[str]:
    kind = "postgresql" if here.made.target.server.name == "postgresql" else "mysql"
    return {str(name) for (name,) in here.made.target.query(KEYS[kind], [here.made.there])}


def _noted(here: JobHere) -> list[DdlChange]:
    return here.job.ddl_changes("public.child")


def _gets(here: JobHere, notes: int, *keys: str) -> None:
    """Run until so many changes are noted, and the target's table has these keys and no other."""
    here.looks = True
    with here.running():
        until(lambda: len(_noted(here)) == notes and _keys(here) == {*keys}, "the keys are there")
    assert here.made.states()["child"] == "streaming", here.made.reason("child")
    here.made.assert_identical("parent", "child")


@pytest.mark.parametrize("to", TARGETS)
def test_foreign_keys_come_and_go_with_those_of_the_source(make: Make, to: str) -> None:
    """Also another one of a name that there was; not one that acts, nor one to a table that is not followed."""
    here = make(to, *TABLES)
    here.apply(is_built=True)
    assert _keys(here) == {"of_parent"}
    source = here.made.source
    source.execute(
        "ALTER TABLE child DROP CONSTRAINT of_parent",
        "UPDATE child SET p = 77 WHERE id = 1",
        "ALTER TABLE child ADD CONSTRAINT of_code FOREIGN KEY (c) REFERENCES parent (code)",
        "ALTER TABLE child ADD CONSTRAINT acts FOREIGN KEY (d) REFERENCES parent ON DELETE CASCADE",
        "INSERT INTO child VALUES (3, 78, 11, 1)",
    )
    _gets(here, 2, "of_code")
    assert {one.outcome for one in _noted(here)} == {Outcome.ALTERED} and len(_noted(here)) == 2
    assert _noted(here)[1].rule == DdlRule("[ddl] foreign_keys", "apply")
    assert _noted(here)[1].why == "built while rows go on: of_code"
    source.execute(
        "ALTER TABLE child DROP CONSTRAINT of_code",
        "UPDATE child SET c = 99 WHERE id = 2",
        "CREATE TABLE elsewhere (id int PRIMARY KEY)",
        "INSERT INTO elsewhere VALUES (2)",
        "ALTER TABLE child ADD CONSTRAINT of_code FOREIGN KEY (d) REFERENCES parent (id)",
        "INSERT INTO child VALUES (4, 78, 2, 1)",
        "ALTER TABLE child ADD CONSTRAINT outside FOREIGN KEY (id) REFERENCES elsewhere NOT VALID",
    )
    _gets(here, 4, "of_code")
    here.capture()  # and looks again
    here.apply()
    assert len(_noted(here)) == 4 and _keys(here) == {"of_code"}


def test_a_parent_that_is_dropped_with_its_childs_key_ends_no_part(make: Make) -> None:
    """One look may find both: that the child has lost its key, and that the parent is gone."""
    here = make("postgresql", *TABLES)
    here.apply(is_built=True)
    here.made.source.execute("DROP TABLE parent CASCADE", "INSERT INTO scenario_mark VALUES (7)")
    here.looks = True
    with here.running() as ends:
        until(lambda: here.made.states()["parent"] == "parked", "the parent is parked")
        mark = f"SELECT 1 FROM {here.made.there}.scenario_mark WHERE id = 7"
        until(lambda: here.made.target.query(mark), "rows of other tables go on")
        assert not any(end.part.done() for end in ends)


@pytest.mark.parametrize("runs", [True, False], ids=["running", "stopped"])
def test_a_child_goes_on_where_its_parent_is_dropped_with_its_key(make: Make, runs: bool) -> None:
    """Capture may run meanwhile, or find it at its start; what is dropped with the parent is told as dropped as well."""
    here = make("postgresql", *TABLES, "CREATE TABLE other (id int PRIMARY KEY REFERENCES parent)")
    here.apply(is_built=True)
    here.looks = True
    drop = ("DROP TABLE parent, other CASCADE", "INSERT INTO child VALUES (9, 9, 9, 9)")
    if not runs:
        here.made.source.execute(*drop)
    with here.running():
        if runs:
            here.made.source.execute("INSERT INTO scenario_mark VALUES (7)")
            mark = f"SELECT 1 FROM {here.made.there}.scenario_mark WHERE id = 7"
            until(lambda: here.made.target.query(mark), "the job is at work")
            here.made.source.execute(*drop)
        until(
            lambda: all("dropped" in here.made.reason(name) for name in ("parent", "other")), "both are told as dropped"
        )
        there = f"SELECT 1 FROM {here.made.there}.child WHERE id = 9"
        until(lambda: here.made.states()["child"] == "parked" or here.made.target.query(there), "its rows go on")
    assert here.made.states()["child"] == "streaming", here.made.reason("child")
    here.made.assert_identical("child")
    assert _keys(here) == set()


@pytest.mark.parametrize("to", ["postgresql"])
def test_rule_17_a_kill_on_the_way_of_a_foreign_key_is_made_good(make: Make, to: str) -> None:
    here = make(to, *TABLES)
    here.apply(is_built=True)
    here.looks = True
    for number, place in enumerate(("capture.appended", "apply.altered", "apply.committed")):
        before = f"k{number - 1}" if number else "of_parent"
        here.made.source.execute(
            f"ALTER TABLE child DROP CONSTRAINT {before}",
            f"ALTER TABLE child ADD CONSTRAINT k{number} FOREIGN KEY (c) REFERENCES parent (code)",
        )
        failpoints.arm({failpoints.VARIABLE: f"{place}=raise"})
        with pytest.raises(failpoints.FailpointReached), here.running() as ends:
            until(lambda: any(end.part.done() for end in ends), "one of them has died")
        failpoints.arm({})
        _gets(here, 2 * (number + 1), f"k{number}")


def test_rows_without_a_parent_are_told_and_the_file_may_stop(make: Make) -> None:
    here = make("postgresql", *TABLES)
    here.apply(is_built=True)
    here.made.source.execute(
        "SET session_replication_role = replica; INSERT INTO child VALUES (9, 1, 999, 1); RESET session_replication_role",
        "ALTER TABLE child ADD CONSTRAINT of_code FOREIGN KEY (c) REFERENCES parent (code) NOT VALID",
    )
    _gets(here, 1, "of_parent", "of_code")
    here.made.write_job('[ddl]\nforeign_keys = "ignore"\n')
    here.made.source.execute("ALTER TABLE child DROP CONSTRAINT of_code", "UPDATE child SET d = 5 WHERE id = 1")
    with here.running():
        until(
            lambda: here.made.target.query(f"SELECT d FROM {here.made.there}.child WHERE id = 1") == [(5,)],
            "rows go on",
        )
    assert _keys(here) == {"of_parent", "of_code"}
    here.made.write_job('[ddl]\nforeign_keys = "stop"\n')
    with pytest.raises(StoppedByChange), here.running() as ends:
        until(ends[1].part.done, "apply has ended")
    here.made.write_job(APPLY)
    _gets(here, 2, "of_parent")
