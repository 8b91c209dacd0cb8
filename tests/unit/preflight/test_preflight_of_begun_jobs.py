"""Preflight of a job that has begun: what changed at the source since parks tables, and refuses nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from anabranch.config import load_job
from anabranch.connectors.kafka.target.typemap import KafkaTypes
from anabranch.model.ids import TableId
from anabranch.model.schema import Column, Index, TableSchema
from anabranch.preflight import Report
from anabranch.preflight.known import KnownJob
from anabranch.rules.rule_set import RuleSet
from rigs.preflight import ALL, End, failures, run, table

A, B = table("shop.a"), table("shop.b")


def begun(*tables: TableSchema, parked: tuple[str, ...] = ()) -> KnownJob:
    ids = frozenset(schema.id for schema in tables)
    return KnownJob({schema.id: schema for schema in tables}, ids, frozenset(TableId("shop", name) for name in parked))


def warnings(report: Report) -> list[str]:
    return [f"{r.check} {r.table}: {r.message}" for r in report.warnings]


def test_a_changed_table_is_checked_as_it_was_loaded_and_will_be_parked(tmp_path: Path) -> None:
    now = replace(A, columns=(*A.columns, Column("place", None, "point", refusal="geometry")), primary_key=())
    source, target = End([now, B]), End()
    report = run(tmp_path, ALL, source, target, lambda: begun(A, B))
    assert failures(report) == []
    assert warnings(report) == ["job.definitions shop.a: its definition changed at the source: it will be parked"]
    assert "anabranch load JOB --table shop.a" in report.warnings[0].hint
    assert source.seen[0].tables == target.seen[0].tables == {A.id: A, B.id: B}
    assert target.seen[0].targets[A.id].key == ("id",)


def test_a_job_that_keeps_changes_is_told_of_no_load_and_of_no_keys(tmp_path: Path) -> None:
    changed, keyed = replace(A, primary_key=()), replace(B, indexes=(Index("u", ("id",), unique=True),))
    (tmp_path / "job.toml").write_text(ALL.replace("postgresql://u:p@h/d", "kafka://h"))
    rules = RuleSet(load_job(tmp_path / "job.toml"), KafkaTypes())
    found = list(begun(A, B).differences(rules, {A.id: changed, B.id: keyed}))
    assert [(one.table, "begins again brings it in" in one.hint, "load" in one.hint) for one in found] == [
        ("shop.a", True, False)
    ]


def test_columns_that_were_altered_are_told_apart(tmp_path: Path) -> None:
    """The job file says whether they come to the target, too; whatever else has changed parks the table."""
    more = Column("more", A.columns[0].type, "int")
    report = run(tmp_path, ALL, End([replace(A, columns=(more, *A.columns)), B]), End(), lambda: begun(A, B))
    (told,) = warnings(report)
    assert (
        "its columns were altered at the source: it will be parked, unless [ddl] of the job file" in told
        and failures(report) == []
    )


def test_keys_that_came_or_went_are_told(tmp_path: Path) -> None:
    """The table goes on, the target's keys stay as they are."""
    now = replace(A, indexes=(Index("u", ("id",), unique=True), Index("plain", ("id",))))
    report = run(tmp_path, ALL, End([now, B]), End(), lambda: begun(A, B))
    told = "its keys changed at the source, the target's did not: unique index u is new"
    assert failures(report) == [] and warnings(report) == [f"job.definitions shop.a: {told}"]


def test_a_table_that_is_gone_will_be_parked(tmp_path: Path) -> None:
    report = run(tmp_path, ALL, End([B]), End(), lambda: begun(A, B))
    assert failures(report) == []
    assert warnings(report) == ["job.definitions shop.a: it is no longer at the source: it will be parked"]


def test_a_new_table_with_a_refused_type_will_be_parked(tmp_path: Path) -> None:
    target = End()
    report = run(tmp_path, ALL, End([A, table("shop.b", "place")]), target, lambda: begun(A))
    assert failures(report) == []
    assert warnings(report) == [
        "job.definitions shop.b: it is new at the source: it will be parked, unless [ddl] create_table follows it"
    ]
    assert target.seen[0].tables == {A.id: A}


def test_parked_tables_are_left_alone_and_named(tmp_path: Path) -> None:
    source = End([table("shop.a", "place"), B])
    report = run(tmp_path, ALL, source, End(), lambda: begun(A, B, parked=("a",)))
    assert failures(report) == []
    assert warnings(report) == ["job.parked : 1 tables are parked, their changes do not arrive: shop.a"]
    assert source.seen[0].tables == {B.id: B}


def test_a_job_may_go_on_with_every_table_parked(tmp_path: Path) -> None:
    report = run(tmp_path, ALL, End([A]), End(), lambda: begun(A, parked=("a",)))
    assert failures(report) == []
    assert "job.rules : no table is followed at present" in warnings(report)


def test_an_edited_job_file_is_named_and_what_stands_at_the_target_is_no_fault(tmp_path: Path) -> None:
    """Check no table to which the edited file gives another form: `plan` loads it again, ALTER TABLE would be wrong advice."""
    target = End()
    known = replace(
        begun(A, B), edited=("table shop.a renamed columns: was absent, is n = m",), reshaped=frozenset({A.id})
    )
    report = run(tmp_path, ALL, End([A, B]), target, lambda: known)
    (said,) = report.failed
    assert said.check == "job.edited" and "renamed columns" in said.message and "anabranch plan JOB" in said.hint
    assert warnings(report) == [] and target.seen[0].tables == {B.id: B}
    report = run(tmp_path, ALL, End([A, B]), End(), lambda: replace(known, reshaped=frozenset({A.id, B.id})))
    assert failures(report) == ["job.edited : the job file differs from the job as last run: " + known.edited[0]]


def test_refused_types_of_what_was_captured_but_never_loaded_fail(tmp_path: Path) -> None:
    """Capture was started first, and nobody has looked yet."""
    known = KnownJob({A.id: table("shop.a", "place")})
    report = run(tmp_path, ALL, End([table("shop.a", "place")]), End(), lambda: known)
    assert failures(report) == ["job.types shop.a: column place point: refused, geometry"]
