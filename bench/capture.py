"""W2, capture of a backlog into a durable trail: `anabranch capture` against the vendor's program that copies the log.

From the moment at which the process says that it has started to the moment at which the trail's published end has the
last transaction. The vendor's program is measured as a whole: it starts at once."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from bench.figures import Figure, Side, compared
from bench.meter import Meter
from bench.orders import Orders
from bench.peers.chosen import READERS, capture_goals, chosen
from bench.peers.ring import Readers
from bench.processes import Cost, until
from bench.stand import HIDDEN, Job, Stand

CHANGES = 1_000_000
LARGE, FULL_FROM = 3_000_000, 0.1  # rows of the one large transaction, and the scale from which it has them all
GOALS = {"mariadb": 0.5, "mysql": 0.5, "postgresql": 0.85}
GOAL_ENCRYPTED = 0.9  # of the rate without encryption, in the same run
ENCRYPTED = "/encrypted"
PROGRAMS = {"mariadb": "mariadb-binlog --raw", "mysql": "mysqlbinlog --raw", "postgresql": "pg_recvlogical"}
MOST_MB, MOST_OF_LARGE_MB = 150, 300
STARTED = "capture_started"
PATIENCE = 1800.0


def run(stand: Stand, scale: float, repeat: int) -> list[Figure]:
    source, target = stand.databases("capture")
    orders = stand.orders(source)
    orders.create(1000)
    job = stand.job("capture", source, target)
    return [
        *_backlog(stand, job, orders, int(CHANGES * scale), repeat),
        _large(stand, job, orders, int(LARGE * min(1, scale / FULL_FROM))),
    ]


def _backlog(stand: Stand, job: Job, orders: Orders, changes: int, repeat: int) -> list[Figure]:
    with Readers("W2 capture", stand, stand.name, chosen(READERS)) as peers:
        peers.begin(orders)
        return _in_turns(stand, job, orders, changes, repeat, peers)


def _in_turns(stand: Stand, job: Job, orders: Orders, changes: int, repeat: int, peers: Readers) -> list[Figure]:
    begin_trail(job)
    begun = _kept(job)
    place = stand.log_begins(job)
    transactions = orders.backlog(changes)
    copies: list[Cost] = []
    sides = {**job.decoders(), ENCRYPTED: _encrypting(job)}
    captures: dict[str, list[Cost]] = {decoder: [] for decoder in sides}
    for _ in range(repeat):
        copies.append(stand.copy_log(job, place))
        peers.each(lambda peer: peer.read(changes))
        for decoder, one in sides.items():
            captures[decoder].append(_capture(stand, one, transactions))
            trail_bytes = sum(file.stat().st_size for file in (job.home / "trail").glob("*.seg*"))
            shutil.rmtree(job.home)
            shutil.copytree(begun, job.home)
            stand.log_again(job)
    facts = {
        "changes": changes,
        "log_mb": stand.copied().stat().st_size / 1e6,
        "trail_mb": trail_bytes / 1e6,
    }
    costs_encrypted = captures.pop(ENCRYPTED)
    ours, *hidden = (
        Side(f"anabranch{decoder}", f"anabranch capture{HIDDEN * bool(decoder)}", changes, costs)
        for decoder, costs in captures.items()
    )
    encrypted = Side(f"anabranch{ENCRYPTED}", "anabranch capture, the trail encrypted", changes, costs_encrypted)
    ceiling = Side("ceiling", PROGRAMS[stand.name], changes, copies)
    return [
        compared("W2 capture", stand.name, ours, ceiling, GOALS[stand.name], facts=facts),
        Figure("W2 memory", stand.name, "rss_mb", ours.rss, MOST_MB, is_most=True),
        compared("W2 capture/encrypted", stand.name, encrypted, ours, GOAL_ENCRYPTED),
        *(compared("W2 capture/python", stand.name, one, ceiling, None) for one in hidden),
        *peers.figures(ours, capture_goals(stand)),
    ]


def _encrypting(job: Job) -> Job:
    """Return the same job, with a key for its trail."""
    key = job.file.with_suffix(".key")
    key.touch(mode=0o600)
    key.write_text("5a" * 32)
    file = job.file.with_suffix(".encrypted.toml")
    file.write_text(f'{job.file.read_text()}\n[trail]\nencrypt = {{ key_file = "{key}" }}\n')
    return replace(job, file=file)


def _large(stand: Stand, job: Job, orders: Orders, rows: int) -> Figure:
    shutil.rmtree(job.home)
    begin_trail(job)
    orders.insert(rows)
    cost = _capture(stand, job, 1)
    side = Side("anabranch", "anabranch capture", rows, [cost])
    facts = {"rows": rows}
    return Figure(
        "W2 large-transaction",
        stand.name,
        "rss_mb",
        cost.rss,
        MOST_OF_LARGE_MB,
        is_most=True,
        facts=facts,
        sides=[side],
    )


def begin_trail(job: Job) -> None:
    """A trail that starts here."""
    with job.start("capture") as capture:
        until(lambda: job.written() >= 0, 60, "the trail's begin", check=capture.check)


def _kept(job: Job) -> Path:
    kept = job.home.with_name(f"{job.name}.begun")
    shutil.rmtree(kept, ignore_errors=True)
    shutil.copytree(job.home, kept)
    return kept


def _capture(stand: Stand, job: Job, transactions: int) -> Cost:
    goal = job.written() + transactions
    with job.start("capture") as capture:
        until(lambda: capture.heard(STARTED), 60, STARTED, check=capture.check)
        meter = Meter([capture], {"source server": stand.source})
        begin = capture.heard(STARTED) or 0.0
        end = until(lambda: job.written() >= goal, PATIENCE, "the end of the backlog", 0.02, capture.check)
        return replace(meter.cost(), seconds=end - begin)
