"""A preflight where one end lets nobody in: the other end is checked as ever. A home that is not there is told."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from anabranch.testing.servers import Server
from rigs.scenario import Scenario


@pytest.mark.quick
def test_the_other_end_is_checked(mariadb: Server, scenario: Callable[..., Scenario]) -> None:
    made = scenario(mariadb, "CREATE TABLE item (id INT PRIMARY KEY)")
    made.user = ("nobody_", "n0t-it")
    made.write_job()
    found = made.cli("preflight", code=5).stdout
    assert "failed  source.reached: " in found and "Access denied" in found and "n0t-it" not in found
    assert "ok      target.version: PostgreSQL" in found
    made.user, made.target_user = None, ("nobody_", "n0t-it")
    made.write_job()
    found = made.cli("preflight", code=6).stdout
    assert "failed  target.reached: " in found and "warning job.begun: " in found
    assert "ok      source.keys: " in found and "the rules select 2 tables" in found


@pytest.mark.quick
def test_a_home_that_is_not_there_is_told_where_the_job_has_run(
    mariadb: Server, scenario: Callable[..., Scenario], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = scenario(mariadb, "CREATE TABLE item (id INT PRIMARY KEY)")
    assert not made.home.parent.exists()
    assert "never started" in made.cli("status").stdout, "both ends answer, and know nothing of it"
    made.run_until_caught_up()
    assert made.cli("status").code == 0
    made.home.parent.rename(made.directory / "elsewhere")
    told = made.cli("status", code=2).stderr
    assert str(made.home.parent) in told and "does not exist" in told
    assert "does not exist" in made.cli("trace", code=2).stderr
    assert not made.home.parent.exists()
    (made.directory / "elsewhere").rename(made.home.parent)
    assert made.cli("status").code == made.cli("trace").code == 0
