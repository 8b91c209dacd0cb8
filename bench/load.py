"""W1, the initial load: `anabranch load` with Spark running already and one task, against the two clients in a pipe, in the
form in which they are quickest."""

from __future__ import annotations

import json
import shutil
from contextlib import ExitStack
from dataclasses import replace

from anabranch.testing.databases import Database
from bench.figures import Figure, Side, compared
from bench.meter import Meter
from bench.mysql_target import MysqlTarget
from bench.peers.chosen import LOAD_GOALS, LOADERS, chosen
from bench.peers.ring import Loaders
from bench.processes import Cost, Program, forget_peak, piped, python
from bench.stand import HIDDEN, Job, Stand

ROWS = 3_000_000
GOAL = 0.8
ONE_TASK = '[spark]\nmaster = "local[1]"'


def run(stand: Stand, scale: float, repeat: int) -> list[Figure]:
    rows = int(ROWS * scale)
    source, target = stand.databases("load")
    stand.orders(source).create(rows)
    target.execute(stand.at.orders("piped"))
    decoders = stand.job("load", source, target, more=ONE_TASK).decoders()
    loads: dict[str, list[Cost]] = {decoder: [] for decoder in decoders}
    pipes: dict[str, list[Cost]] = {form: [] for form in stand.forms}
    inserts: list[Cost] = []
    peers = Loaders("W1 load", stand, stand.pair, chosen(LOADERS))
    with ExitStack() as stack:
        warm = {
            decoder: stack.enter_context(Program(python("bench.warm"), job.environment))
            for decoder, job in decoders.items()
        }
        few = _few(stand)
        for worker in warm.values():
            _warm_up(worker, few)
        peers.start(few.source)
        for _ in range(repeat):
            for form, costs in pipes.items():
                costs.append(_pipe(stand, source, target, form))
            peers.load(source)
            _warm_up(warm[""], few)  # Spark ends a Python worker that has had nothing to do for a minute
            loads[""].append(_turn(stand, warm[""], decoders[""], rows))
        for decoder in decoders.keys() - {""}:  # behind all others, which would pay for what it leaves to be written
            for _ in range(repeat):
                loads[decoder].append(_turn(stand, warm[decoder], decoders[decoder], rows))
        if isinstance(stand.at, MysqlTarget):
            with stand.at.without_local():
                inserts = [_turn(stand, warm[""], decoders[""], rows) for _ in range(repeat)]
    ours, *hidden = (
        Side(
            f"anabranch{decoder}",
            f"anabranch load, one task, Spark running already{HIDDEN * bool(decoder)}",
            rows,
            costs,
        )
        for decoder, costs in loads.items()
    )
    ceilings = [
        Side("pipe", f"the vendors' clients in a pipe {form}".strip(), rows, costs) for form, costs in pipes.items()
    ]
    ceiling, *others = sorted(ceilings, key=lambda side: -side.rate)
    figure = compared("W1 load", stand.pair, ours, ceiling, GOAL, facts={"rows": rows}, others=others)
    without = [compared("W1 load/python", stand.pair, one, ceiling, None) for one in hidden]
    if inserts:
        side = Side("anabranch/inserts", "anabranch load, the target takes no LOAD DATA LOCAL", rows, inserts)
        without.append(compared("W1 load/inserts", stand.pair, side, ceiling, None))
    return [figure, *without, *peers.figures(ours, LOAD_GOALS)]


def _clear(stand: Stand, target: Database) -> None:
    """Nobody pays for what the one before has left to be written."""
    target.execute(f"TRUNCATE TABLE {stand.at.table('piped')}")
    stand.at.flush()


def _pipe(stand: Stand, source: Database, target: Database, form: str) -> Cost:
    _clear(stand, target)
    return piped(stand.rows(source, form), stand.at.writes(target, "piped", form))


def _turn(stand: Stand, worker: Program, job: Job, rows: int) -> Cost:
    """Load once, as if the job had never run before or after."""
    _clear(stand, job.target)
    cost = _load(stand, worker, job)
    _check(job, rows)
    _forget(job)
    return cost


def _load(stand: Stand, worker: Program, job: Job) -> Cost:
    forget_peak(worker.tree)
    meter = Meter([worker], stand.servers)
    seconds = float(json.loads(worker.ask(f"load {job.file}"))["seconds"])
    return replace(meter.cost(), seconds=seconds)


def _few(stand: Stand) -> Job:
    """A job of a few rows."""
    source, target = stand.databases("warm")
    stand.orders(source).create(10)
    return stand.job("warm", source, target, more=ONE_TASK)


def _warm_up(worker: Program, few: Job) -> None:
    worker.ask(f"load {few.file}")
    _forget(few)


def _check(job: Job, rows: int) -> None:
    [(loaded,)] = job.target.query(f"SELECT count(*) FROM {job.at.table('orders')}")
    assert loaded == rows, f"{loaded} rows loaded, {rows} at the source"


def _forget(job: Job) -> None:
    """As if the job had never run."""
    job.at.forget(job.target, "orders")
    shutil.rmtree(job.home)
