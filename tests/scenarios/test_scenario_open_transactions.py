"""A large transaction that is open at a PostgreSQL: its rows are here before it commits, and nobody sees them before."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import pytest

from anabranch.testing.servers import Server
from rigs.scenario import wait_until
from rigs.scenario_postgresql import FromPostgres

FILL = "INSERT INTO item SELECT g, repeat('w', 100) FROM generate_series({}, {}) g"
DECODED = "SELECT stream_bytes > 1000000, spill_bytes FROM pg_stat_replication_slots WHERE slot_name = %s"


@pytest.mark.quick
def test_rule_06_rows_of_an_open_transaction_wait_beside_the_trail(
    logical_postgresql: Server, scenario: Callable[..., FromPostgres]
) -> None:
    made = scenario(logical_postgresql, "CREATE TABLE item (id int PRIMARY KEY, words text)", FILL.format(1, 10))
    made.write_job("[capture]\nstreaming = true\nmemory_limit_mb = 1\n")
    running = made.start("run")
    made.wait_streaming(running)
    with closing(made.source.connect(autocommit=False)) as large:
        for statement in (FILL.format(1001, 20_000), "SAVEPOINT a", FILL.format(20_001, 40_000), "ROLLBACK TO a"):
            large.execute(statement)
            made.source.execute("INSERT INTO item SELECT max(id) + 1 FROM item WHERE id < 1000")
        wait_until(lambda: list(made.trail.glob("staging/*.kept")), 30, "rows wait beside the trail")
        made.sync(running)
        wait_until(
            lambda: made.source.query(DECODED, [made.slot]) == [(True, 0)], 60, "the server says what it has sent"
        )
        running.kill()
        made.write_job(
            "[capture]\nstreaming = true\ntransaction_staging_timeout_s = 1\n"
        )  # far below the limit of memory
        running = made.start("run")
        large.execute(FILL.format(40_001, 60_000))
        wait_until(
            lambda: "transaction_staged" in running.stderr, 60, "rows go to disk because they are old", running.tail
        )
        made.source.execute("UPDATE item SET words = 'x' WHERE id = 1")
        made.sync(running)
        assert max(int(row[0]) for row in made.target_rows("item")) < 1000
        large.commit()
    made.sync(running)
    running.stop()
    made.assert_identical()
    assert len(made.target_rows("item")) == 14 + 19_000 + 20_000 and not list(made.trail.glob("staging/*.kept"))
