"""A job that runs is asked for its metrics, as a monitoring system does it, and so is one that does not run."""

from __future__ import annotations

import re
from collections.abc import Callable
from urllib.request import urlopen

import pytest

from anabranch.testing import faults
from anabranch.testing.servers import Server, free_port
from rigs.scenario import Scenario, wait_until

Make = Callable[..., Scenario]


def read(text: str) -> dict[str, float]:
    """Return each value by the metric's name with its labels, but for the job and the target."""
    found = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            name, value = line.rsplit(" ", 1)
            found[re.sub(r'(job|target)="[^"]*",?', "", name).replace(",}", "}")] = float(value)
    return found


@pytest.mark.quick
def test_a_running_job_tells_its_metrics(mariadb: Server, scenario: Make) -> None:
    """Also how often a part was started again, and what was done by then."""
    made = scenario(mariadb, "CREATE TABLE item (id INT PRIMARY KEY)", "INSERT INTO item VALUES (1), (2)")
    port = free_port()
    made.write_job(f'[metrics]\nlisten = "127.0.0.1:{port}"\n')
    run = made.start("run")
    made.wait_streaming(run)

    def metrics() -> dict[str, float]:
        with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
            return read(answer.read().decode())

    made.source.execute("INSERT INTO item VALUES (3)", "UPDATE item SET id = 4 WHERE id = 3")
    made.sync(run)
    item = f'table="{made.schema}.item"'

    def counted() -> dict[str, float]:
        found = metrics()
        lags = found.get("anabranch_lag_transactions{}", 1) > 0
        return found if found.get("anabranch_apply_changes_total{}", 0) >= 3 and not lags else {}

    told = wait_until(counted, 60, "apply has counted, and is at the trail's end", run.tail, run)
    assert told[f"anabranch_table_changes_applied_total{{{item}}}"] == 2
    assert told[f"anabranch_table_rows_loaded{{{item}}}"] == 2
    assert told['anabranch_tables{state="streaming"}'] >= 1 and told['anabranch_tables{state="parked"}'] == 0
    assert told["anabranch_lag_seconds{}"] < 60
    assert told["anabranch_job_active{}"] == 1 and told["anabranch_ends_unreachable{}"] == 0
    assert told["anabranch_trail_bytes{}"] > 0 and told["anabranch_trail_segments{}"] >= 1
    assert told["anabranch_apply_busy_seconds_total{}"] > 0 and told["anabranch_apply_epochs_total{}"] >= 1
    assert told["anabranch_part_restarts_total{}"] == 0 and told['anabranch_part_running{part="capture"}'] == 1
    faults.kill(run.part("capture"))
    wait_until(lambda: metrics().get("anabranch_part_restarts_total{}") == 1, 60, "it was started again", run.tail, run)
    made.sync(run)
    run.stop()
    told = read(made.cli("metrics").stdout)
    assert told["anabranch_job_active{}"] == 0 and told[f"anabranch_table_changes_applied_total{{{item}}}"] == 2
