"""A job tells a collector of OpenTelemetry how long its chunks and epochs take, and goes on while the collector is away."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest

from anabranch.testing.servers import Server
from rigs.otlp_collector import Collector, collector
from rigs.scenario import Running, Scenario, wait_until

Make = Callable[..., Scenario]
VALUE = "a value that stays at home"
TABLES = (
    "CREATE TABLE item (id INT PRIMARY KEY, word VARCHAR(40))",
    f"INSERT INTO item VALUES (1, '{VALUE}'), (2, 'b')",
)


def told_upto(there: Collector, made: Scenario, run: Running) -> None:
    """Wait until the collector has heard of everything that is at the target now."""
    sequence = made.checkpoint()[2]
    wait_until(
        lambda: max((one.facts["upto"] for one in there.named("epoch")), default=0) >= sequence,
        60, "spans of all epochs", run.tail, run,
    )  # fmt: skip


@pytest.mark.quick
def test_a_job_sends_spans_of_chunks_and_epochs_and_does_not_need_the_collector(
    mariadb: Server, scenario: Make
) -> None:
    made = scenario(mariadb, *TABLES)
    with collector() as there:
        made.write_job(f'[observe]\ntraces = "{there.url}"\n')
        run = made.start("run")
        made.wait_streaming(run)
        made.source.execute("INSERT INTO item VALUES (3, 'c')", "UPDATE item SET word = 'd' WHERE id = 1")
        made.sync(run)
        told_upto(there, made, run)
        chunks = [one for one in there.named("chunk") if one.facts["table"] == f"{made.schema}.item"]
        assert [one.facts["rows"] for one in chunks] == [2] and chunks[0].began < chunks[0].ended
        assert chunks[0].resource["part"] == "load"
        epochs = [one for one in there.named("epoch") if one.facts.get("rows")]
        assert {"plan", "apply", "commit"} <= set(there.below(epochs[0])) and epochs[0].resource["job"] == "shop"
        at = sorted((one.facts["after"], one.facts["upto"]) for one in there.named("epoch"))
        assert all(left[1] <= right[0] for left, right in pairwise(at)), "none comes twice"
        assert VALUE.encode() not in there.raw
    made.source.execute("DELETE FROM item WHERE id = 2")  # the collector is no more
    made.sync(run)
    made.assert_identical("item")
    run.stop()
