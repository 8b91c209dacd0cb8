"""`types`: every type of a source makes the round trip, as the type map declares it; one that does not is told."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from anabranch.cli import main as shell
from anabranch.connectors.postgresql.target.typemap import PostgresTypes
from anabranch.job.certifying import certificate
from anabranch.model.datatype import Fidelity, Fit, Kind, LogicalType
from anabranch.scan.certificate import Certificate, PairSeen
from anabranch.testing.databases import Database
from anabranch.testing.features import spelled, takes
from anabranch.testing.in_time import until
from anabranch.testing.servers import Server
from rigs.job_here import JobHere
from rigs.mysql_types import ALL
from rigs.postgresql_types import values_of
from rigs.scenario import SOURCE_SECRET, TARGET_SECRET, Scenario
from rigs.scenario_mysql_target import job_at_mysql

LEFT = "SELECT count(*) FROM pg_class WHERE relname LIKE 'anabranch%%'"


def everything(server: Server) -> list[str]:
    """Statements for a table of each type."""
    if server.name == "postgresql":
        natives = list(values_of(int(server.version.partition(".")[0])))
    else:
        natives = [spelled(server, native) for native in ALL if takes(server, native)]
    return [f"CREATE TABLE t{number} (id int PRIMARY KEY, v {native})" for number, native in enumerate(natives)]


def pairs(found: Certificate) -> dict[str, PairSeen]:
    return {one.pair.source: one for one in found.pairs}


def test_each_type_to_postgresql(mysql_family: Server, scenario: Callable[..., Scenario]) -> None:
    made = scenario(mysql_family, *everything(mysql_family))
    found = certificate(JobHere(made).job, 40, 7)
    assert not [one for one in found.pairs if one.is_worse or one.why or not one.values], found.markdown()
    assert all(one.values > 40 for name, one in pairs(found).items() if name in ("int", "int(11)", "double", "date")), (
        found
    )
    assert mysql_family.version in found.source
    until(lambda: made.target.query(LEFT) == [(0,)], "the session has ended, and its table with it")


def test_each_type_from_postgresql_to_postgresql(logical_postgresql: Server, scenario: Callable[..., Scenario]) -> None:
    made = scenario(logical_postgresql, *everything(logical_postgresql))
    found = certificate(JobHere(made).job, 40, 7)
    assert not [one for one in found.pairs if one.refused or one.changed or one.why], found.markdown()
    for end in (made.source, made.target):
        until(lambda end=end: end.query(LEFT) == [(0,)], "the sessions have ended, and their tables with them")  # type: ignore[misc]


def test_each_type_from_postgresql_to_mysql(
    logical_postgresql: Server, mysql: Server, source_database: Callable[[Server], Database], tmp_path: Path
) -> None:
    database = source_database(logical_postgresql)
    database.execute(*everything(logical_postgresql))
    with job_at_mysql(database, mysql, tmp_path / "job", is_quick=True) as made:
        found = pairs(certificate(JobHere(made).job, 40, 7))
        assert not [one for one in found.values() if one.is_worse]
        assert found["numeric"].why and "digits" in found["numeric"].why
        assert (found["date"].refused, found["double precision"].refused, found["json"].changed) == (4, 2, 1)
        made.write_job('[types.map]\n"numeric()" = "decimal(65,30)"\n')
        chosen = pairs(certificate(JobHere(made).job, 40, 7))["numeric"]
        assert chosen.refused and not chosen.is_worse  # the declaration says that more digits stop the job


def test_a_type_that_fares_worse_than_declared_is_told(
    mysql: Server, scenario: Callable[..., Scenario], monkeypatch: pytest.MonkeyPatch
) -> None:
    fit = PostgresTypes.fit

    def lying(self: PostgresTypes, type: LogicalType, rules: Any) -> Fit:
        return Fit("real", Fidelity.EXACT) if type.kind is Kind.FLOAT64 else fit(self, type, rules)

    monkeypatch.setattr(PostgresTypes, "fit", lying)
    made = scenario(mysql, "CREATE TABLE t (id int PRIMARY KEY, f double, g double, d date)")
    found = certificate(JobHere(made).job, 20, 7)
    (worse,) = (one for one in found.pairs if one.is_worse)
    assert worse.pair.fit.native == "real" and worse.changed and worse.refused
    assert worse.pair.columns == (f"{made.schema}.t.f", f"{made.schema}.t.g")
    assert found.is_worse and "**" in found.markdown() and found.to_json()["pairs"][0]["seen"]
    again = certificate(JobHere(made).job, 20, 7)
    assert replace(again, when="") == replace(found, when="")  # the same seed draws the same values


@pytest.mark.parametrize("source", ["mysql", "mariadb", "logical_postgresql"])
@pytest.mark.one_case("mariadb", "logical_postgresql")
def test_each_type_of_a_source_without_a_job(
    source: str,
    scenario: Callable[..., Scenario],
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As many as with a table for each."""
    server = request.getfixturevalue(source)
    made = scenario(server)
    urls = [line.partition('"')[2][:-1] for line in made.job_file.read_text().splitlines() if line.startswith("url = ")]
    for name in (SOURCE_SECRET, TARGET_SECRET):
        monkeypatch.setenv(name, made.environment[name])
    assert shell.exit_code(["types", "--source", urls[0], "--target", urls[1], "--values", "5", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["pairs"]
    assert not [one for one in found if one["is_worse"] or one["not_tried"] or not one["values"]], found
    assert len(found) >= len(everything(server)) - 2


@pytest.mark.quick
def test_the_command_writes_a_page(mysql: Server, scenario: Callable[..., Scenario], tmp_path: Path) -> None:
    made = scenario(mysql, "CREATE TABLE t (id int PRIMARY KEY, e enum('a|b', 'c'))")
    page = tmp_path / "types.md"
    assert made.cli("types", "--values", "5", "-o", str(page)).stdout == ""
    assert "No pair fares worse" in page.read_text() and "`enum('a\\|b','c') utf8mb4`" in page.read_text()
    found = made.cli("types", "--json", "--seed", "3").json
    assert (found["seed"], found["is_worse"], {one["declared"] for one in found["pairs"]}) == (3, False, {"exact"})
