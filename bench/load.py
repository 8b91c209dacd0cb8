"""W1, the initial load: `anabranch load` with Spark running already and one task, against the two clients in a pipe, in the
form in which they are quickest."""

from __future__ import annotations

import json
import shutil

from anabranch.testing.databases import Database, connect
from bench.figures import Figure, middle
from bench.orders import TARGET_TABLE
from bench.processes import Cost, Program, cpu, forget_peak, is_java, measured, peak_rss, python
from bench.stand import Job, Stand

ROWS = 3_000_000
FLOOR = 0.4
ONE_TASK = '[spark]\nmaster = "local[1]"'


def run(stand: Stand, scale: float, repeat: int) -> list[Figure]:
    rows = int(ROWS * scale)
    source, target = stand.databases("load")
    stand.orders(source).create(rows)
    target.execute(TARGET_TABLE.format(name="public.piped"))
    job = stand.job("load", source, target, more=ONE_TASK)
    loads: list[Cost] = []
    pipes: dict[str, list[Cost]] = {form: [] for form in stand.forms}
    with Program(python("bench.loading"), job.environment) as worker:
        _warm_up(stand, worker)
        for _ in range(repeat):
            for form, costs in pipes.items():
                costs.append(_pipe(stand, source, target, form))
            loads.append(_load(worker, job))
            _check(target, rows)
            _forget(job)
        java = peak_rss([pid for pid in worker.tree if is_java(pid)])
    load = middle([cost.seconds for cost in loads])
    pipe, form = min((middle([cost.seconds for cost in costs]), form) for form, costs in pipes.items())
    facts = {
        "rows": rows,
        "rows_per_s": rows / load,
        "pipe_rows_per_s": rows / pipe,
        "cpu_s": middle([cost.cpu for cost in loads]),
        "pipe_cpu_s": middle([cost.cpu for cost in pipes[form]]),
        "python_rss_mb": max(cost.rss for cost in loads),
        "java_rss_mb": java,
    }
    return [Figure("W1 load", stand.name, "ratio", pipe / load, FLOOR, facts=facts)]


def _pipe(stand: Stand, source: Database, target: Database, form: str) -> Cost:
    target.execute("TRUNCATE public.piped")
    connect(target.server).execute("CHECKPOINT")  # as before a load
    reader, environment = stand.rows(source, form)
    writer, more = stand.psql(target, "-c", rf"\copy public.piped from pstdin {form}")
    if stand.schema:  # both are the same program: each says itself where it goes
        reader = [
            "env",
            f"PGHOST={environment['PGHOST']}",
            f"PGPORT={environment['PGPORT']}",
            f"PGDATABASE={source.name}",
            f"PGPASSWORD={stand.source.password}",
            *reader,
        ]
        environment = {}
    return measured([reader, writer], {**more, **environment})


def _load(worker: Program, job: Job) -> Cost:
    others = [pid for pid in worker.tree if not is_java(pid)]
    forget_peak(others)
    before = cpu(worker.tree)
    seconds = float(json.loads(worker.ask(str(job.file)))["seconds"])
    pythons = [pid for pid in worker.tree if not is_java(pid)]
    return Cost(seconds, cpu(worker.tree) - before, peak_rss(pythons))


def _warm_up(stand: Stand, worker: Program) -> None:
    source, target = stand.databases("warm")
    stand.orders(source).create(10)
    job = stand.job("warm", source, target, more=ONE_TASK)
    worker.ask(str(job.file))


def _check(target: Database, rows: int) -> None:
    [(loaded,)] = target.query("SELECT count(*) FROM public.orders")
    assert loaded == rows, f"{loaded} rows loaded, {rows} at the source"


def _forget(job: Job) -> None:
    """As if the job had never run."""
    job.target.execute("DROP TABLE public.orders", "DROP SCHEMA anabranch CASCADE")
    shutil.rmtree(job.home)
    connect(job.target.server).execute("CHECKPOINT")
