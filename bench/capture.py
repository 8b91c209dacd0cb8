"""W2, capture of a backlog into a durable trail: `anabranch capture` against the vendor's program that copies the log.

From the moment at which the process says that it has started to the moment at which the trail's published end has the
last transaction. The vendor's program is measured as a whole: it starts at once."""

from __future__ import annotations

import shutil
from pathlib import Path

from bench.figures import Figure, middle
from bench.orders import Orders
from bench.processes import Cost, cpu, peak_rss, until
from bench.stand import Job, Stand

CHANGES = 1_000_000
LARGE, FULL_FROM = 3_000_000, 0.1  # rows of the one large transaction, and the scale from which it has them all
FLOOR, MOST_MB = 0.07, 300
STARTED = "capture_started"
PATIENCE = 1800.0


def run(stand: Stand, scale: float, repeat: int) -> list[Figure]:
    source, target = stand.databases("capture")
    orders = stand.orders(source)
    orders.create(1000)
    job = stand.job("capture", source, target)
    return [
        _backlog(stand, job, orders, int(CHANGES * scale), repeat),
        _large(stand, job, orders, int(LARGE * min(1, scale / FULL_FROM))),
    ]


def _backlog(stand: Stand, job: Job, orders: Orders, changes: int, repeat: int) -> Figure:
    begin_trail(job)
    begun = _kept(job)
    place = stand.log_begins(job)
    transactions = orders.backlog(changes)
    copies, captures = [], []
    for _ in range(repeat):
        copies.append(stand.copy_log(job, place))
        captures.append(_capture(job, transactions))
        trail_bytes = sum(file.stat().st_size for file in (job.home / "trail").glob("*.seg*"))
        shutil.rmtree(job.home)
        shutil.copytree(begun, job.home)
        stand.log_again(job)
    copy, capture = middle([cost.seconds for cost in copies]), middle([cost.seconds for cost in captures])
    facts = {
        "changes": changes,
        "rows_per_s": changes / capture,
        "raw_rows_per_s": changes / copy,
        "log_mb": stand.copied().stat().st_size / 1e6,
        "trail_mb": trail_bytes / 1e6,
        "cpu_s": middle([cost.cpu for cost in captures]),
        "raw_cpu_s": middle([cost.cpu for cost in copies]),
        "rss_mb": max(cost.rss for cost in captures),
    }
    return Figure("W2 capture", stand.name, "ratio", copy / capture, FLOOR, facts=facts)


def _large(stand: Stand, job: Job, orders: Orders, rows: int) -> Figure:
    shutil.rmtree(job.home)
    begin_trail(job)
    orders.insert(rows)
    cost = _capture(job, 1)
    facts = {"rows": rows, "rows_per_s": rows / cost.seconds, "cpu_s": cost.cpu}
    return Figure("W2 large-transaction", stand.name, "rss_mb", cost.rss, MOST_MB, is_most=True, facts=facts)


def begin_trail(job: Job) -> None:
    """A trail that starts here."""
    with job.start("capture") as capture:
        until(lambda: job.written() >= 0, 60, "the trail's begin", check=capture.check)


def _kept(job: Job) -> Path:
    kept = job.home.with_name(f"{job.name}.begun")
    shutil.rmtree(kept, ignore_errors=True)
    shutil.copytree(job.home, kept)
    return kept


def _capture(job: Job, transactions: int) -> Cost:
    goal = job.written() + transactions
    with job.start("capture") as capture:
        until(lambda: capture.heard(STARTED), 60, STARTED, check=capture.check)
        begin, before = capture.heard(STARTED) or 0.0, cpu(capture.tree)
        end = until(lambda: job.written() >= goal, PATIENCE, "the end of the backlog", 0.02, capture.check)
        tree = capture.tree
        return Cost(end - begin, cpu(tree) - before, peak_rss(tree[:1]))
