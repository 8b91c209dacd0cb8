"""W9: a backlog of single-row transactions under `mode = "transaction"`, each committed by itself at the target, beside native
logical replication of the same, and our processor time for each."""

from __future__ import annotations

from bench.at_target import Looking
from bench.catchup import REPLICAS, catch_up, stopped, target_rows, wait_for_stream
from bench.figures import Figure, Side, compared, middle
from bench.postgresql import PostgresStand
from bench.processes import Cost, until
from bench.stand import Stand

BASE, TRANSACTIONS = 100_000, 300_000
GOAL, MOST_MS = 0.3, 0.1
MODE = '[apply]\nmode = "transaction"'


def run(stand: Stand, scale: float, repeat: int) -> list[Figure]:
    assert isinstance(stand, PostgresStand)
    source, target = stand.databases("transactions")
    runs: tuple[list[Cost], list[Cost]] = ([], [])
    orders, number = stand.orders(source), int(TRANSACTIONS * scale)
    orders.create(BASE)
    replica = stand.replica(source)
    job = stand.job("transactions", source, target, more=MODE)
    with job.start("capture") as capture, Looking(target) as looking:
        until(lambda: job.written() >= 0, 60, "the trail's begin", check=capture.check)
        with job.start("load") as load:
            load.process.wait()
        assert load.process.returncode == 0, "\n".join(line for _, line in load.said)
        with job.start("apply") as apply:
            wait_for_stream(job, looking, orders, apply)
            replica.catch_up()
            for _ in range(repeat):
                with stopped(capture):
                    goal = job.written() + orders.singles(number)
                runs[0].append(catch_up(stand, job, looking, goal, capture, apply))
                runs[1].append(Cost(replica.catch_up(), 0.0, 0.0))
    found, ours = source.query("SELECT count(*), sum(amount) FROM orders"), target_rows(job)
    assert found == ours, f"source {found}, target {ours}"
    mine = Side("anabranch", "anabranch capture and apply, one commit for each", number, runs[0])
    theirs = Side("replica", REPLICAS[stand.name], number, runs[1])
    facts = {"transactions": number, "base_rows": orders.base}
    each_ms = middle([cost.cpu for cost in runs[0]]) / number * 1000
    return [
        compared("W9 transactions", stand.pair, mine, theirs, GOAL, facts=facts),
        Figure("W9 transactions/processor", stand.pair, "ms", each_ms, MOST_MS, is_most=True, facts=facts),
    ]
