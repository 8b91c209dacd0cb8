"""A job file that is edited (K32): refused at a start, told table by table, taken over; only what changed is loaded again."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from anabranch.testing.servers import Server
from rigs.scenario import Scenario

Make = Callable[..., Scenario]
TABLES = (
    "CREATE TABLE keep (id INT PRIMARY KEY, v INT)",
    "CREATE TABLE narrow (id INT PRIMARY KEY, v INT)",
    "CREATE TABLE log (id INT PRIMARY KEY, v INT)",
    "CREATE TABLE parent (id INT PRIMARY KEY, v INT, w INT)",
    "CREATE TABLE child (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES parent (id) ON DELETE CASCADE)",
    "CREATE TABLE fresh (id INT PRIMARY KEY, v INT)",
    *(f"INSERT INTO {name} VALUES (1, 1), (2, 2), (3, 3)" for name in ("keep", "narrow", "log", "fresh")),
    "INSERT INTO parent VALUES (1, 1, 1), (2, 2, 2)",
    "INSERT INTO child VALUES (10, 1), (20, 2)",
)
FIRST = ("keep", "narrow", "log", "parent", "child", "scenario_mark")
LATER = ("keep", "narrow", "parent", "child", "scenario_mark", "fresh")


def write(made: Scenario, names: tuple[str, ...], text: str = "") -> None:
    include = ", ".join(f'"{made.source.name}.{name}"' for name in names)
    made.write_job(text, rules=f'[[rules]]\ninclude = [{include}]\ntarget = "public.{{table}}"\n')


def edited(made: Scenario) -> None:
    of = f'[[tables]]\nname = "{made.source.name}.'
    write(made, LATER, f'{of}narrow"\nwhere = "id > 1"\n{of}parent"\ncolumns = {{ drop = ["w"] }}\n')


@pytest.mark.quick
def test_rule_32_a_job_file_that_is_edited(mariadb: Server, scenario: Make) -> None:
    made = scenario(mariadb, *TABLES)
    write(made, FIRST)
    assert "has not run yet" in made.cli("plan").stdout
    made.run_until_caught_up()
    assert made.cli("plan").stdout == "the job file has not changed since the job last ran\n"
    it_is_refused_and_told(made)
    it_is_taken_over(made)
    what_changed_is_loaded_again(made)


def it_is_refused_and_told(made: Scenario) -> None:
    edited(made)
    assert "anabranch plan JOB" in made.cli("run", "--until-caught-up", code=2).stderr
    found = made.cli("plan", "--json").json
    kinds = {one["table"].partition(".")[2]: (one["kind"], one["recreates"]) for one in found["changes"]}
    assert kinds == {
        "log": ("left out", False),
        "narrow": ("changed", False),
        "parent": ("changed", True),
        "child": ("connected", False),
        "fresh": ("new", False),
    }
    text = made.cli("plan").stdout
    assert "rows: every row -> 'id > 1'" in text and "column w: w int32 -> left out" in text and "--execute" in text
    write(made, FIRST, f'[[tables]]\nname = "{made.source.name}.narrow"\ncolumns = {{ rename = {{ v = "value" }} }}\n')
    refused = made.cli("run", "--until-caught-up", code=2)
    told = refused.stdout + refused.stderr
    assert "job.edited" in told and "renamed columns: was absent, is v = value" in told and "ALTER TABLE" not in told
    write(made, FIRST)
    made.run_until_caught_up()  # put back, nothing has happened


def rules_of_another_job_come(made: Scenario) -> None:
    """Import the rules of another job's file: they mean what they would mean if they were written here."""
    write(made, FIRST)
    before = made.job_file.read_text()
    found = made.cli("rules", "import", str(made.directory / "rules.toml"), "--check", "--json", code=4).json
    plan = found["plans"]["target"]
    assert plan["has_run"] and {one["kind"] for one in plan["changes"]} == {"new", "left out", "changed", "connected"}
    assert not found["written"] and made.job_file.read_text() == before
    text = made.cli("rules", "import", str(made.directory / "rules.toml")).stdout
    assert "log  left out" in text and f"next: anabranch plan {made.job_file} --execute" in text


def it_is_taken_over(made: Scenario) -> None:
    edited(made)
    made.cli("rules", "export", "-o", str(made.directory / "rules.toml"))
    rules_of_another_job_come(made)
    made.source.execute("INSERT INTO log VALUES (4, 4)", "UPDATE keep SET v = 9", "UPDATE narrow SET v = 9")
    text = made.cli("plan", "--execute").stdout
    linked = " ".join(f"--table {made.source.name}.{name}" for name in ("parent", "child"))
    assert f"anabranch load JOB {linked} --recreate\n" in text
    assert made.cli("plan").stdout == "the job file has not changed since the job last ran\n"
    states = made.states()
    assert states == {"keep": "streaming", "scenario_mark": "streaming"} | dict.fromkeys(
        ("narrow", "parent", "child"), "parked"
    )


def what_changed_is_loaded_again(made: Scenario) -> None:
    run = made.start("run")
    made.sync(run)
    made.assert_identical("keep")
    assert "the job is running" in made.cli("plan", "--execute", code=7).stderr
    names = {name: f"{made.source.name}.{name}" for name in LATER}
    assert "--recreate" in made.cli("load", "--table", names["parent"], code=2).stderr
    made.cli("load", "--table", names["parent"], "--recreate")
    made.wait_streaming(run)
    for name in ("child", "narrow", "fresh"):
        made.cli("load", "--table", names[name])
    made.source.execute(
        "ALTER TABLE log ADD x INT", "DELETE FROM parent WHERE id = 1", "INSERT INTO fresh VALUES (5, 5)"
    )
    made.source.execute("UPDATE narrow SET id = 9 WHERE id = 1", "INSERT INTO log VALUES (6, 6, 6)")
    made.wait_streaming(run)
    made.sync(run)
    made.assert_identical("keep", "child", "fresh")
    assert made.target_rows("narrow") == [(2, 9), (3, 9), (9, 9)]
    assert made.target_rows("parent", ["id", "v"]) == [(2, 2)]
    columns = (
        "SELECT column_name FROM information_schema.columns WHERE table_name = 'parent' AND table_schema = 'public'"
    )
    assert sorted(made.target.query(columns)) == [("id",), ("v",)]
    assert made.target.query("SELECT id FROM public.log ORDER BY id") == [(1,), (2,), (3,)]
    assert set(made.states().values()) == {"streaming"} and "log" not in made.states()
    run.stop()
    made.run_until_caught_up()


@pytest.mark.quick
def test_an_exclusion_that_takes_tables_from_another_rule_is_said(mariadb: Server, scenario: Make) -> None:
    made = scenario(mariadb, "CREATE TABLE keep (id INT PRIMARY KEY)", "CREATE TABLE tmp_a (id INT PRIMARY KEY)")
    name = made.source.name
    first = f'[[rules]]\ninclude = ["{name}.none"]\nexclude = ["*.tmp_*"]\ntarget = "public.{{table}}"\n'
    made.write_job("", rules=first + f'[[rules]]\ninclude = ["{name}.*"]\ntarget = "public.{{table}}"\n')
    said = f"'*.tmp_*' of rule 1 leaves out {name}.tmp_a, which rule 2 (line "
    checks = made.cli("preflight", "--json").json["checks"]
    [found] = [one for one in checks if said in one["message"]]
    assert (found["check"], found["verdict"]) == ("job.rules", "warning") and "holds for all rules" in found["hint"]
    assert said in made.cli("setup").stderr
    assert said in made.run_until_caught_up().stderr
    assert set(made.states()) == {"keep", "scenario_mark"}
    named = made.cli("load", "--table", f"{name}.tmp_a", code=2).stderr
    assert f"rule 1 excludes {name}.tmp_a" in named and "'*.tmp_*' leaves it out, for all rules" in named
