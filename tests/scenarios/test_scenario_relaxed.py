"""Appliers that keep no order, by the command line: killed behind a commit out of turn, and started again, also in the source's
order, they end with what the source has, and `status` says what readers may rely on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from anabranch import failpoints
from anabranch.testing.databases import create_database, drop_database, unique_name
from rigs.scenario import Scenario
from rigs.scenario_mysql_target import PostgresToMysql

APPLY = '[apply]\nmode = "transaction"\nappliers = 4\ncommit_order = "{}"\n'
TABLES = (
    "CREATE TABLE parent (id INT PRIMARY KEY, n INT)",
    "CREATE TABLE child (id INT PRIMARY KEY, parent INT REFERENCES parent (id), code INT UNIQUE)",
)
ROUNDS = 60


def write(scenario: Scenario, first: int) -> None:
    """Commit transactions that depend on each other, and such that do not."""
    for number in range(first, first + ROUNDS):
        scenario.source.execute(
            f"INSERT INTO parent VALUES ({number}, 0)",
            f"INSERT INTO child VALUES ({number}, {number}, {number + 1_000_000})",
            f"UPDATE parent SET n = n + 1 WHERE id = {number - number % 7 or number}",
            f"DELETE FROM child WHERE id = {number - 3}",
        )


@pytest.mark.quick
@pytest.mark.parametrize("pair", [("mariadb", "postgresql"), ("logical_postgresql", "mysql")], ids=" to ".join)
def test_it_goes_on_once_behind_a_kill_and_in_another_order(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pair: tuple[str, str]
) -> None:
    there, to = (request.getfixturevalue(name) for name in pair)
    source, target = create_database(there, "relaxed"), create_database(to, "relaxed")
    source.execute(*TABLES)
    kind: Any = PostgresToMysql if there.name == "postgresql" else Scenario
    made = kind(source, target, tmp_path, name=unique_name("job"), is_quick=True)
    try:
        made.write_job(APPLY.format("relaxed"))
        made.cli("run", "--until-caught-up")
        for first, order in ((1, "relaxed"), (1_001, "kept")):
            write(made, first)
            monkeypatch.setenv("ANABRANCH_FAILPOINTS", "apply.out.of.turn=exit@9")
            capture, killed = made.capture(), made.start("apply")
            assert killed.wait().code == failpoints.EXIT_CODE, "it has died behind a commit"
            capture.stop()
            [(beyond,)] = target.query("SELECT max(sequence) FROM anabranch.applied")
            [told] = made.cli("trace", "--position", str(beyond), "--json").json["targets"]
            assert told["state"] == "applied" and "beyond the checkpoint" in told["why"]
            monkeypatch.delenv("ANABRANCH_FAILPOINTS")
            made.write_job(APPLY.format(order))
            made.cli("run", "--until-caught-up")
            assert made.cli("verify", "--json").json["identical"]
        assert "consistency" not in made.cli("status", "--json").json["targets"][0]
        made.write_job(APPLY.format("relaxed"))
        assert made.cli("status", "--json").json["targets"][0]["consistency"] == "between_barriers"
        assert "between barriers only" in made.cli("status").stdout
    finally:
        made.close()
        made.cli("drop", "--execute")
        drop_database(source)
        drop_database(target)
