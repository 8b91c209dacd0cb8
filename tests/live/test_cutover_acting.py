"""A cut-over tells what will not act at the target as at the source: triggers that lack or are off, keys and checks that do not
hold. It goes through all the same."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from anabranch import connectors
from anabranch.contracts import Acting, ActingEnd
from anabranch.cutover import acting
from anabranch.cutover.terms import Ends, opened
from anabranch.model.checks import CheckVerdict
from anabranch.model.cutover import Step
from anabranch.model.ids import TableId
from anabranch.testing.databases import Database
from anabranch.testing.servers import Server
from anabranch.view.opened import store_of
from rigs import cutover
from rigs.cutover import Cut, job, running
from rigs.endpoints import endpoint_of
from rigs.users import user_at

NOTHING = "CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RETURN NEW; END$$"
FIRES = {
    "postgresql": "CREATE TRIGGER {0} AFTER INSERT ON {1} FOR EACH ROW EXECUTE FUNCTION nothing()",
    "mysql": "CREATE TRIGGER {0} BEFORE INSERT ON {1} FOR EACH ROW SET @n = @anabranch_applies",
}


def trigger(database: Database, name: str, table: str) -> None:
    """Make a trigger that changes nothing, and at a MySQL leaves rows of a job alone."""
    database.execute(FIRES.get(database.server.name, FIRES["mysql"]).format(name, table))


@pytest.mark.parametrize(
    ("source", "target"),
    [("postgresql", "postgresql"), ("mysql", "postgresql"), ("postgresql", "mariadb"), ("mariadb", "mysql")],
)
@pytest.mark.one_case("postgresql-postgresql", "postgresql-mariadb", "mysql-postgresql")
def test_a_cut_over_names_what_does_not_act_at_the_target(
    source: str, target: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """In its plan, at its step, in its report; and nothing of it once it is mended."""
    with job(request, source, target, tmp_path / "job") as cut, running(cut):
        is_postgresql = target == "postgresql"
        assert planned(cut) == []
        triggers_at_both_ends(cut, asleep=source == "postgresql")
        if is_postgresql:
            cut.made.target.execute("ALTER TABLE public.draft ADD CONSTRAINT small CHECK (v < 3) NOT VALID")
        item, draft = (there(cut, table) for table in ("item", "draft"))
        at_source = TableId(cut.made.schema, "draft")
        expected = [
            f"{draft} has no triggers marks, notes of the name, which {at_source} has at the source",
            *([f"an application does not fire trigger stamps of {item}"] if is_postgresql else []),
            *([f"check small is NOT VALID, of {draft}"] if is_postgresql else []),
        ]
        assert planned(cut) == expected
        assert cut.here.job.plan_cutover().failed == ()

        report = cut.run()
        assert report.state == "finished"
        assert [line for line in expected if not any(told.startswith(line) for told in cut.told)] == []
        facts = report.cutover.facts(Step.CONSTRAINTS)
        assert facts["triggers_lacking"] == [
            {"table": draft, "source": str(at_source), "trigger": name} for name in ("marks", "notes")
        ]
        step = next(one for one in report.to_json()["steps"] if one["step"] == "constraints")
        assert json.loads(json.dumps(step))["triggers_lacking"] == facts["triggers_lacking"]
        status = cut.here.job.cutover_status().to_markdown()
        assert [line for line in expected if f"- {line}: " not in status] == []
        written = next(cut.made.home.glob("cutover-*.md")).read_text()
        assert "What does not act at the target as at the source:" in written
        what_it_says_mends_it(cut, facts)


@pytest.mark.parametrize("source", ["mysql", "mariadb"])
@pytest.mark.one_case("mysql")
def test_a_foreign_key_that_some_rows_break_is_told_once(
    source: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By what the job has said as it built it, with the statement that proves it; by the name of the source's, also where the
    target's is another one."""
    orphans = (
        "CREATE TABLE parent (id INT PRIMARY KEY)",
        "CREATE TABLE child (id INT PRIMARY KEY, p INT, CONSTRAINT of_parent FOREIGN KEY (p) REFERENCES parent (id))",
        "SET SESSION foreign_key_checks = 0",
        "INSERT INTO child VALUES (1, 7)",
    )
    monkeypatch.setattr(cutover, "TABLES", (*cutover.TABLES, *orphans))
    with job(request, source, "postgresql", tmp_path / "job") as cut:
        with running(cut):
            found = [one for one in cut.here.job.plan_cutover().results if "of_parent" in one.message]
            (one,) = found
            assert one.check == "cutover.unproven" and "rows without a parent, as at the source" in one.message
            assert one.hint == 'ALTER TABLE "public"."child" VALIDATE CONSTRAINT "of_parent"'
            shown = cut.here.job.cutover_status(looks=True).to_json()
            assert [one["said"] for one in shown["acting"]] == [one.message] and "acting" not in json.dumps(
                cut.here.job.cutover_status().to_json()
            )
            report = cut.run()
        facts = report.cutover.facts(Step.CONSTRAINTS)
        assert facts["not_built"] == [] and [line["why"] for line in facts["unproven"]] == [one.message]
        assert report.to_markdown().count("of_parent") == 2, "once in what is said, once in its statement"
    key = acting.Unproven(TableId("public", "child"), "foreign key k_1 is NOT VALID", "ALTER")
    said = (
        "foreign key k of public.child stays NOT VALID: rows without a parent, as at the source; there its name is k_1"
    )
    assert acting._unproven(key, ["foreign key k_1 of public.children stays", said])["why"] == said


def triggers_at_both_ends(cut: Cut, asleep: bool) -> None:
    """At the source `stamps`, `notes`, `marks`, and one that is off there; at the target the first, off where that can be."""
    made = cut.made
    for database in (made.source, made.target):
        if database.server.name == "postgresql":
            database.execute(NOTHING)
    for name, table in (("stamps", "item"), ("notes", "draft"), ("marks", "draft")):
        trigger(made.source, name, table)
    trigger(made.target, "stamps", cut.there("item"))
    if made.target.server.name == "postgresql":
        made.target.execute("ALTER TABLE public.item DISABLE TRIGGER stamps")
    if asleep:
        trigger(made.source, "asleep", "draft")
        made.source.execute("ALTER TABLE draft DISABLE TRIGGER asleep")


def what_it_says_mends_it(cut: Cut, facts: dict[str, list[dict[str, str]]]) -> None:
    """Its statements are those of the server; a check that a row breaks is found by its own."""
    mend = [one["do"] for one in (*facts.get("triggers_off", ()), *facts.get("unproven", ()))]
    if cut.made.target.server.name == "postgresql":
        with pytest.raises(psycopg.errors.CheckViolation):
            cut.made.target.execute(*mend)
        cut.made.target.execute("DELETE FROM public.draft WHERE v >= 3", *mend)
    for name in ("notes", "marks"):
        trigger(cut.made.target, name, cut.there("draft"))
    with ends_of(cut) as ends:
        assert acting.look(ends) == {}


def there(cut: Cut, table: str) -> str:
    is_postgresql = cut.made.target.server.name == "postgresql"
    return str(TableId("public" if is_postgresql else cut.made.target.name, table))


def planned(cut: Cut) -> list[str]:
    """The findings of the plan, each a warning with a remedy."""
    checks = ("cutover.triggers", "cutover.unproven")
    found = [one for one in cut.here.job.plan_cutover().results if one.check in checks]
    assert all(one.verdict == CheckVerdict.WARNING and one.hint for one in found)
    return [one.message for one in found]


@contextmanager
def ends_of(cut: Cut) -> Iterator[Ends]:
    with store_of(cut.here.job) as store:
        ends = opened(cut.here.job, store)
        yield ends
        ends.fence.close()


# --- what an end tells of itself --------------------------------------------------------------------------------------


def end_of(database: Database, role: str, user: str = "", password: str = "") -> ActingEnd:
    endpoint = endpoint_of(database, user, password)
    end = connectors.source(endpoint) if role == "source" else connectors.target(endpoint)
    assert isinstance(end, ActingEnd)
    return end


@pytest.mark.every_server
@pytest.mark.parametrize(
    "role",
    ["source", pytest.param("target", marks=pytest.mark.every_server("fractions"))],  # older ones can be no target
)
def test_who_lacks_the_right_to_see_triggers_is_told_which(
    mysql_family: Server, role: str, source_database: Callable[[Server], Database]
) -> None:
    """The statement that it says is enough. A table whose triggers nobody sees is not said to lack some."""
    database = source_database(mysql_family)
    database.execute("CREATE TABLE item (id INT PRIMARY KEY)", "CREATE TABLE `od``d` (id INT PRIMARY KEY)")
    trigger(database, "stamps", "item")
    item, odd = TableId(database.name, "item"), TableId(database.name, "od`d")
    tables = [item, odd, TableId(database.name, "gone")]
    assert [(one.table, one.name, one.enable) for one in end_of(database, role).acting(tables).triggers] == [
        (item, "stamps", "")
    ]
    with user_at(database) as (user, password):
        database.execute(f"GRANT SELECT ON `{database.name}`.* TO '{user}'@'%'")
        limited = end_of(database, role, user, password)
        found = limited.acting(tables)
        assert found.triggers == () and set(found.unseen) == set(tables)
        database.execute(found.unseen[item], found.unseen[odd])
        found = limited.acting(tables)
        assert [one.name for one in found.triggers] == ["stamps"] and set(found.unseen) == {tables[2]}


def test_a_target_that_shows_no_triggers_is_not_said_to_lack_them(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    with job(request, "postgresql", "mariadb", tmp_path / "job") as cut, user_at(cut.made.target) as (user, password):
        cut.made.source.execute(NOTHING)
        trigger(cut.made.source, "stamps", "item")
        cut.made.target.execute(f"GRANT SELECT ON `{cut.made.target.name}`.* TO '{user}'@'%'")
        with ends_of(cut) as ends:
            limited = replace(ends, target=end_of(cut.made.target, "target", user, password))  # type: ignore[arg-type]  # a target
            found = acting.look(limited)
            assert set(found) == {"unseen"} and {one["end"] for one in found["unseen"]} == {"target"}
            assert all(one.hint.startswith("GRANT TRIGGER ON ") for one in acting.told(found))
            refused = replace(ends, target=end_of(cut.made.target, "target", user, "wrong"))  # type: ignore[arg-type]  # a target
            (one,) = acting.told(acting.look(refused))
            assert one.said.startswith("triggers at the target are not known: ") and one.table == ""


@pytest.mark.parametrize("role", ["source", pytest.param("target", marks=pytest.mark.since(12))])
def test_what_does_not_hold_at_a_postgresql(
    postgresql_source: Server, role: str, source_database: Callable[[Server], Database]
) -> None:
    """A trigger that is off, or fires for a replica only, a key whose own triggers are off, a key and a check that some rows
    may break. What a fence makes, and what belongs to another table, is left out."""
    database = source_database(postgresql_source)
    database.execute(
        NOTHING,
        "CREATE TABLE parent (id int PRIMARY KEY)",
        'CREATE TABLE child (id int PRIMARY KEY, parent int CONSTRAINT "its Parent" REFERENCES parent)',
        "CREATE TABLE other (id int PRIMARY KEY REFERENCES parent)",
        "ALTER TABLE child DISABLE TRIGGER ALL",
        "ALTER TABLE child ADD CONSTRAINT late FOREIGN KEY (id) REFERENCES parent NOT VALID",
        "ALTER TABLE child ADD CONSTRAINT few CHECK (id < 9) NOT VALID",
        "ALTER TABLE other ADD CONSTRAINT more CHECK (id < 9) NOT VALID",
        "CREATE SCHEMA anabranch_fence",
        "CREATE FUNCTION anabranch_fence.refuses() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RETURN NEW; END$$",
        "CREATE TRIGGER fences BEFORE INSERT ON child FOR EACH ROW EXECUTE PROCEDURE anabranch_fence.refuses()",
    )
    for name in ("on", "off", "of replicas"):
        trigger(database, f'"{name}"', "child")
    trigger(database, "elsewhere", "other")
    database.execute(
        'ALTER TABLE child DISABLE TRIGGER "off"', 'ALTER TABLE child ENABLE REPLICA TRIGGER "of replicas"'
    )
    end, child = end_of(database, role), TableId("public", "child")
    tables = [child, TableId("public", "absent")]
    found = end.acting(tables)
    assert {(one.table, one.name, one.enable) for one in found.triggers} == {
        (child, "on", ""),
        (child, "off", 'ALTER TABLE "public"."child" ENABLE TRIGGER "off"'),
        (child, "of replicas", 'ALTER TABLE "public"."child" ENABLE TRIGGER "of replicas"'),
    }
    assert [one.said for one in found.unproven] == [
        "check few is NOT VALID",
        "foreign key late is NOT VALID",
        "the triggers of foreign key its Parent are off on public.child: it refuses nothing",
    ]
    mended(database, found)
    assert len(end.acting(tables).triggers) == 3 and end.acting([]) == Acting()
    assert end.acting(tables).unproven == () and not any(one.enable for one in end.acting(tables).triggers)


def mended(database: Database, found: Acting) -> None:
    """Do what it says."""
    mend = [one.mend.split(", as a superuser")[0].split(", and add")[0] for one in found.unproven]
    database.execute(*(one.enable for one in found.triggers if one.enable), *mend)


@pytest.mark.since(13)
def test_what_does_not_hold_on_a_partition(
    postgresql_source: Server, source_database: Callable[[Server], Database]
) -> None:
    """It is told of the table that the job knows, with the partition in the statement; what is off on all of them, once."""
    database = source_database(postgresql_source)
    database.execute(
        NOTHING,
        "CREATE TABLE part (id int PRIMARY KEY) PARTITION BY RANGE (id)",
        "CREATE TABLE part_1 PARTITION OF part FOR VALUES FROM (0) TO (10)",
        "CREATE TABLE part_2 PARTITION OF part FOR VALUES FROM (10) TO (20)",
        "ALTER TABLE part_1 ADD CONSTRAINT few CHECK (id < 9) NOT VALID",
        "ALTER TABLE part ADD CONSTRAINT less CHECK (id < 19) NOT VALID",
    )
    for name, table in (("whole", "part"), ("off", "part"), ("alone", "part_1")):
        trigger(database, f'"{name}"', table)
    database.execute(
        'ALTER TABLE part DISABLE TRIGGER "off"',
        "ALTER TABLE part_1 DISABLE TRIGGER alone",
        'ALTER TABLE part_2 DISABLE TRIGGER "whole"',
    )
    end, part = end_of(database, "target"), TableId("public", "part")
    found = end.acting([part])
    assert sorted((one.name, one.enable) for one in found.triggers if one.table == part) == [
        ("alone", 'ALTER TABLE "public"."part_1" ENABLE TRIGGER "alone"'),
        ("off", 'ALTER TABLE "public"."part" ENABLE TRIGGER "off"'),
        ("whole", ""),
        ("whole", 'ALTER TABLE "public"."part_2" ENABLE TRIGGER "whole"'),
    ]
    assert [one.said for one in found.unproven] == ["check less is NOT VALID", "check few is NOT VALID"]
    mended(database, found)
    found = end.acting([part])
    assert found.unproven == () and sorted(found.triggers, key=str) == sorted(set(found.triggers), key=str)
    assert not any(one.enable for one in found.triggers) and len(found.triggers) == 3


@pytest.mark.parametrize("kind", ["check", "foreign key"])
def test_a_constraint_that_is_not_enforced(
    kind: str, logical_postgresql: Server, source_database: Callable[[Server], Database]
) -> None:
    """It cannot be validated, so another statement mends it. https://www.postgresql.org/docs/18/sql-altertable.html"""
    database = source_database(logical_postgresql)
    what = {"check": "CHECK (id > 0)", "foreign key": "FOREIGN KEY (id) REFERENCES parent"}[kind]
    database.execute(
        "CREATE TABLE parent (id int PRIMARY KEY)",
        f"CREATE TABLE child (id int, CONSTRAINT loose {what} NOT ENFORCED)",
    )
    (found,) = end_of(database, "target").acting([TableId("public", "child")]).unproven
    assert found.said == f"{kind} loose is NOT ENFORCED"
    mended(database, Acting((), (found,)))
    assert end_of(database, "target").acting([TableId("public", "child")]).unproven == ()
