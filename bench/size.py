"""W5, one transaction of 10 million rows: inserted, changed and deleted while a job runs, each visible at once at the target;
memory of every process and disk over time. The same number of rows in one transaction and in many: what does one cost more?
And transactions of one row, in a trail of more than a hundred segments: do the last come through as fast as the first?

What was seen at full size is kept in size.json, of which docs/explanation/size.md is made (docs/generate.py)."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from anabranch.testing.databases import Database
from anabranch.testing.usage import Usage
from anabranch.trail.retention import readers
from bench.at_target import Looking
from bench.capture import begin_trail
from bench.figures import Figure
from bench.processes import Program, until
from bench.stand import Job, Stand

ROWS, COMPARED, TINY = 10_000_000, 2_000_000, 2_200_000
PIECE = 10_000  # rows of each of many transactions: what one number of INSERT's `a` gives
SLOWER = 1.5  # times what many take
PYTHON_MB, JAVA_MB, LEFT_MB = 300, 1024, 100
SLOWEST_TENTH = 0.5  # of the first tenth's rate
PATIENCE = 7200.0
REST_SECONDS = 60.0
MOMENT = 0.001  # seconds: nothing takes less
RECORD = Path(__file__).with_name("size.json")
TABLE = "CREATE TABLE big (id int NOT NULL PRIMARY KEY, n int NOT NULL, word varchar(40) NOT NULL)"
NUMBERS = "CREATE TABLE numbers (n int PRIMARY KEY)"
DIGITS = "(SELECT 0 d UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4 UNION ALL SELECT 5"
DIGITS += " UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8 UNION ALL SELECT 9)"
TEN_THOUSAND = f"INSERT INTO numbers SELECT a.d + 10*b.d + 100*c.d + 1000*e.d FROM {DIGITS} a, {DIGITS} b, {DIGITS} c, "
TEN_THOUSAND += f"{DIGITS} e"
INSERT = (
    "INSERT INTO big SELECT a.n * 10000 + b.n, 0, CONCAT('row ', a.n * 10000 + b.n) FROM numbers a CROSS JOIN numbers b"
)
CHANGED = "count(*) = sum(CASE WHEN n = 1 THEN 1 ELSE 0 END)"
# The statement at the source, what is so at the target as soon as a part of it is visible, and when all of it is.
STEPS = {
    "insert": (
        INSERT + " WHERE a.n * 10000 + b.n < {rows}",
        "EXISTS (SELECT 1 FROM big WHERE id = 0)",
        "count(*) = {rows}",
    ),
    "update": (
        "UPDATE big SET n = n + 1",
        "EXISTS (SELECT 1 FROM big WHERE id = 0 AND n = 1)",
        CHANGED,
    ),
    "delete": ("DELETE FROM big", "NOT EXISTS (SELECT 1 FROM big WHERE id = 0)", "count(*) = 0"),
}


def run(stand: Stand, scale: float, repeat: int) -> list[Figure]:
    """`repeat` counts for nothing: each step is done once. Only full sizes are recorded."""
    return [
        *_large(stand, int(ROWS * scale)),
        _compared(stand, max(PIECE, int(COMPARED * scale))),
        *_tiny(stand, int(TINY * scale)),
    ]


# --- one transaction --------------------------------------------------------------------------------------------------


def _large(stand: Stand, rows: int) -> list[Figure]:
    source, target = stand.databases("size")
    source.execute(TABLE, NUMBERS, TEN_THOUSAND)
    job = stand.job("size", source, target, table="big", more="[capture]\nretain_hours = 0\n")
    seconds: dict[str, float] = {}
    with (
        Looking(target) as looking,
        Looking(target) as sizing,
        job.start("run") as program,
    ):
        _wait_for_stream(job, looking, program)
        places: dict[str, Path | Callable[[], float]] = {
            "trail": job.home / "trail",
            "spark": job.home / "spark",
            "target": lambda: stand.at.megabytes(sizing),
        }
        with Usage(lambda: program.tree, places, every=0.5) as usage:
            for name in STEPS:
                seconds[name] = _step(name, rows, source, looking, program, usage)
            usage.note("rest")
            time.sleep(REST_SECONDS)
    if rows >= ROWS:
        _record(stand.of, {"rows": rows, "seconds": seconds, **usage.to_json()})
    return _figures(stand.of, rows, seconds, usage)


def _wait_for_stream(job: Job, looking: Looking, program: Program) -> None:
    """A change is through: everything is warm."""
    warm = "SELECT count(*) FROM big WHERE id = -1"
    until(lambda: job.at.streaming(looking, job.name) == 1, 180, "the stream", check=program.check)
    for statement, found in (("INSERT INTO big VALUES (-1, 1, 'warm')", 1), ("DELETE FROM big", 0)):
        job.source.execute(statement)
        until(lambda: looking.one(warm) == found, 60, "a change", check=program.check)  # noqa: B023  # called before the loop goes on


def _step(name: str, rows: int, source: Database, looking: Looking, program: Program, usage: Usage) -> float:
    """Seconds from the source's commit until it is visible. Raises where the target showed a part of it."""
    statement, seen, whole = STEPS[name]
    usage.note(name)
    source.execute(statement.format(rows=rows))
    usage.note("committed")
    begin = time.monotonic()
    query = f"SELECT {seen}"
    end = until(lambda: looking.one(query), PATIENCE, name, 0.05, program.check)
    usage.note("visible")
    found = looking.one(f"SELECT {whole.format(rows=rows)} FROM big")
    assert found, f"{name}: the target showed a part of the transaction"
    return end - begin


def _figures(source: str, rows: int, seconds: dict[str, float], usage: Usage) -> list[Figure]:
    java = usage.peaks.get("java", 0.0)
    pythons = {kind: size for kind, size in usage.peaks.items() if kind != "java"}
    facts = {"rows": rows, **{f"{name}_s": s for name, s in seconds.items()}}
    facts |= {f"{kind}_mb": size for kind, size in pythons.items()} | {"trail_mb": usage.most("trail")}
    left = usage.samples[-1].disk["trail"]
    most = True
    return [
        Figure("W5 one-transaction", source, "python_rss_mb", max(pythons.values()), PYTHON_MB, most, facts),
        Figure("W5 one-transaction", source, "java_rss_mb", java, JAVA_MB, most),
        Figure("W5 one-transaction", source, "trail_left_mb", left, LEFT_MB, most),
    ]


# --- one and many -----------------------------------------------------------------------------------------------------


def _compared(stand: Stand, rows: int) -> Figure:
    """Captured while apply is away, then applied: many transactions first, then as many rows in one."""
    source, target = stand.databases("compared")
    source.execute(TABLE, NUMBERS, TEN_THOUSAND, f"{INSERT} WHERE a.n = 0 AND b.n < 1000")
    job = stand.job("compared", source, target, table="big")
    begin_trail(job)
    with job.start("load") as load:
        load.process.wait()
    first, last = rows // PIECE, 2 * rows // PIECE
    with Looking(target) as looking:
        many = _both_ways(job, looking, source, [f"{INSERT} WHERE a.n = {piece}" for piece in range(first, last)])
        one = _both_ways(job, looking, source, [f"{INSERT} WHERE a.n >= {last} AND a.n < {last + last - first}"])
    facts = {
        "rows": rows,
        "captured_s": one[0],
        "applied_s": one[1],
        "many_captured_s": many[0],
        "many_applied_s": many[1],
    }
    if rows >= COMPARED:
        _record(f"{stand.of}-compared", facts)
    return Figure("W5 one-of-many", stand.of, "of_many", sum(one) / sum(many), SLOWER, True, facts)


def _both_ways(job: Job, looking: Looking, source: Database, statements: list[str]) -> tuple[float, float]:
    """Seconds that capture, then apply, need for what was committed while both were away, with their starts."""
    before = job.written()
    source.execute(*statements)
    goal = before + len(statements)
    captured = _timed(job, "capture", job.written, goal)
    return captured, _timed(job, "apply", lambda: job.applied(looking), goal)


def _timed(job: Job, verb: str, at: Callable[[], int], goal: int) -> float:
    begin = time.monotonic()
    with job.start(verb) as program:
        return until(lambda: at() >= goal, PATIENCE, verb, 0.02, program.check) - begin


# --- very many --------------------------------------------------------------------------------------------------------


def _tiny(stand: Stand, transactions: int) -> list[Figure]:
    """Captured into segments of 1 MB while apply is away, then applied."""
    source, target = stand.databases("tiny")
    orders = stand.orders(source)
    orders.create(1000)
    job = stand.job("tiny", source, target, more="[capture]\nsegment_mb = 1\n")
    begin_trail(job)
    with job.start("load") as load:
        load.process.wait()
    before = job.written()
    source.execute(f"CALL one_by_one({orders.next}, {orders.next + transactions})")
    with job.start("capture") as capture, Looking(target) as looking:
        captured = _tenths(job.written, before, transactions, capture)
        segments = len(list((job.home / "trail").glob("0*")))
        with job.start("apply") as apply, Usage(lambda: [*capture.tree, *apply.tree]) as usage:
            until(lambda: "apply" in readers(job.home / "trail"), PATIENCE, "apply", 0.02, apply.check)
            applied = _epochs(lambda: job.applied(looking), before + transactions, apply)
    facts = {"transactions": transactions, "segments": segments, "peaks_mb": usage.to_json()["peaks_mb"]}
    rates = {"captured": [round(one) for one in captured], "applied": [round(one) for one in applied]}
    if transactions >= TINY:
        _record(f"{stand.of}-tiny", facts | rates)
    return [
        Figure(
            "W5 tiny " + name, stand.of, "last_of_first", found[-1] / found[0], SLOWEST_TENTH, facts={**facts, **more}
        )
        for name, found, more in (
            ("captured", captured, {"per_s": captured[-1]}),
            ("applied", applied, {"per_s": applied[-1]}),
        )
    ]


def _tenths(at: Callable[[], int], before: int, transactions: int, program: Program) -> list[float]:
    """Transactions per second in each tenth of the way. The first begins when something has moved: a start is not a rate. One
    rate alone where all of it came before the second look."""
    begin = time.monotonic()
    until(lambda: at() > before, PATIENCE, "the first transaction", 0.02, program.check)
    looks = [(time.monotonic(), at())]
    while looks[-1][1] < before + transactions:
        time.sleep(0.05)
        program.check()
        looks.append((time.monotonic(), at()))
    size = (looks[-1][1] - looks[0][1]) / 10
    if not size:
        return [transactions / (looks[0][0] - begin)]
    edges = [_when(looks, looks[0][1] + size * tenth) for tenth in range(11)]
    return [size / max(MOMENT, later - former) for former, later in pairwise(edges)]


def _when(looks: Sequence[tuple[float, int]], count: float) -> float:
    """The moment at which so many were there, as if they came evenly between two looks."""
    later = next((n for n, look in enumerate(looks) if look[1] >= count), len(looks) - 1)
    (start, few), (end, many) = looks[max(0, later - 1)], looks[later]
    return end if many == few else start + (end - start) * (count - few) / (many - few)


def _epochs(at: Callable[[], int], goal: int, program: Program) -> list[float]:
    """Transactions per second in each step that is seen: an epoch has up to 500,000. One alone where no step was seen."""
    begin = time.monotonic()
    steps = [(begin, at())]
    while steps[-1][1] < goal:
        time.sleep(0.02)
        program.check()
        if (now := at()) > steps[-1][1]:
            steps.append((time.monotonic(), now))
    rates = [(later[1] - former[1]) / (later[0] - former[0]) for former, later in pairwise(steps)]
    return rates or [goal / max(MOMENT, time.monotonic() - begin)]


def _record(name: str, facts: dict[str, Any]) -> None:
    known = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    known[name] = facts | {"date": time.strftime("%Y-%m-%d")}
    RECORD.write_text(json.dumps(known, separators=(",", ":"), sort_keys=True) + "\n")
