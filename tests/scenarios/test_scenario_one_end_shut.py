"""A preflight where one end lets nobody in: it is a failed check, and the other end is checked as ever."""

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
