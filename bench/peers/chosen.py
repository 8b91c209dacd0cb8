"""Which peers take part in which workload, and what ours must be against them.

`ANABRANCH_BENCH_PEERS` names those that take part (`debezium,pgloader`), or `none`; all when it is not set."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Sequence
from typing import TypeVar

from bench.peers import Follower, Loader, Peer, Reader
from bench.peers.chameleon import Chameleon
from bench.peers.debezium import Debezium
from bench.peers.debezium.reader import DebeziumReader
from bench.peers.flink import Flink
from bench.peers.pgloader import Pgloader
from bench.peers.reladiff import Reladiff
from bench.peers.replication import Replication
from bench.peers.spark_jdbc import SparkJdbc
from bench.stand import Stand

VARIABLE = "ANABRANCH_BENCH_PEERS"
NONE = "none"
TUNED_MS = 10
LOADERS: tuple[Loader, ...] = (Chameleon(), Pgloader(), SparkJdbc())
READERS: tuple[Reader, ...] = (DebeziumReader(), Replication())
FOLLOWERS: tuple[Follower, ...] = (Debezium(), Flink())
LIVE: tuple[Follower, ...] = (Debezium(), Debezium(TUNED_MS))
NAMES = frozenset(peer.name for peer in (*LOADERS, *READERS, *FOLLOWERS, *LIVE, Reladiff()))

P = TypeVar("P", bound=Peer)

# How many times quicker ours has to be.
LOAD_GOALS = {"pg_chameleon": 2.0, "pgloader": 3.0, "spark-jdbc": 2.0}
_CATCH_UP_GOALS = {"debezium": 3.8, "flink-cdc": 2.7}
_CATCH_UP_GOALS_ELSEWHERE = {"debezium": 4.0}  # of a PostgreSQL at a MySQL or MariaDB
_CAPTURE_GOALS = {True: {"debezium": 5.0}, False: {"debezium": 1.2}}  # with and without the compiled decoder


def chosen(peers: Sequence[P]) -> list[P]:
    """Those of `peers` that are to take part."""
    named = os.environ.get(VARIABLE)
    if named is None:
        return list(peers)
    wanted = {name.strip() for name in named.split(",") if name.strip()}
    if unknown := wanted - NAMES - {NONE}:
        raise SystemExit(f"{VARIABLE}: no peer {', '.join(sorted(unknown))}; there are {', '.join(sorted(NAMES))}")
    return [peer for peer in peers if peer.name in wanted]


def catch_up_goals(stand: Stand) -> dict[str, float]:
    """None where the target is of the source's kind: what counts there is its own replication."""
    if stand.at.kind == "postgresql":
        return {} if stand.schema else _CATCH_UP_GOALS
    return _CATCH_UP_GOALS_ELSEWHERE if stand.schema else {}


def capture_goals(stand: Stand) -> dict[str, float]:
    """Shown without a verdict where the source is a PostgreSQL, whose server bounds both."""
    if stand.schema:
        return {}
    return _CAPTURE_GOALS[importlib.util.find_spec("anabranch_native") is not None]
