"""The page about size and its plots (generate.py writes them), from what the benchmark W5 recorded.

What does not live here: measuring (bench/size.py), what is asserted in every test run (tests/scenarios/test_scenario_size.py).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

RECORD = Path(__file__).parents[1] / "bench" / "size.json"
KINDS = {
    "run": "`run`, which supervises",
    "capture": "capture",
    "apply": "apply",
    "worker": "a Spark worker of apply",
    "java": "the JVM of apply",
    "packer": "packing segments",
}
STEPS = ("insert", "update", "delete")
LIMITS = {"java": 1024}
PYTHON_MB = 300
COLOURS = ("#1b6ca8", "#c8553d", "#3a7d44", "#7b4b94", "#8a6d1d", "#555555")
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 860, 250, 60, 150, 24, 34
Line = Sequence[tuple[float, float]]


def size_pages(generated: str) -> dict[str, str]:
    """File name, beside the other explanations -> text."""
    known = json.loads(RECORD.read_text())
    plots = {f"size-{name}.svg": plot(run) for name, run in known.items() if "samples" in run}
    return {"size.md": "\n".join(_page(generated, known)), **plots}


def _page(generated: str, known: Mapping[str, Any]) -> Iterator[str]:
    yield "# Size: what bounds memory and disk"
    yield ""
    yield generated
    yield HEAD.strip()
    yield from ("", "| what | bounded by | where it lies |", "|---|---|---|")
    yield from (f"| {' | '.join(row)} |" for row in BOUNDS)
    yield ""
    yield TEXT.strip()
    for name, run in known.items():
        if "samples" in run:
            yield from _large(name, run)
    for kind, title, text, lines in PARTS:
        runs = {name.removesuffix(kind): run for name, run in known.items() if name.endswith(kind)}
        if runs:
            yield from ("", f"## {title}", "", *text.strip().splitlines())
        for name, run in runs.items():
            yield from ("", *lines(name, run))
    yield ""


def _large(name: str, run: Mapping[str, Any]) -> Iterator[str]:
    yield ""
    yield f"## One transaction of {run['rows']:,} rows ({name}, {run['date']})"
    yield ""
    yield f"![Memory of each process and disk over time](size-{name}.svg)"
    yield ""
    steps = ", ".join(f"{step} {run['seconds'][step]:.0f} s" for step in STEPS if step in run["seconds"])
    yield f"From the source's commit until it was visible, all at once: {steps}."
    yield ""
    yield "| process | most memory resident, MB | limit |"
    yield "|---|---|---|"
    for kind, most in run["peaks_mb"].items():
        yield f"| {KINDS.get(kind, kind)} | {most} | {LIMITS.get(kind, PYTHON_MB)} |"
    trail = [sample[2]["trail"] for sample in run["samples"]]
    target = [sample[2]["target"] for sample in run["samples"]]
    yield ""
    yield f"The trail had {max(trail)} MB at most and {trail[-1]} MB at the end (`retain_hours = 0`), the target's database"
    yield f"{max(target)} MB at most and {target[-1]} MB at the end."


def _tiny(name: str, run: Mapping[str, Any]) -> Iterator[str]:
    yield f"{name}, {run['date']}: {run['transactions']:,} transactions in {run['segments']} segments. Per second, captured in"
    yield f"each tenth of the way: {', '.join(f'{rate:,}' for rate in run['captured'])}. Applied, in each epoch:"
    most = run["peaks_mb"]
    yield f"{', '.join(f'{rate:,}' for rate in run['applied'])}."
    yield f"Most memory resident: capture {most['capture']} MB, apply {most['apply']} MB, its JVM {most['java']} MB."


def _compared(name: str, run: Mapping[str, Any]) -> Iterator[str]:
    yield f"{name}, {run['date']}: {run['rows']:,} rows in one transaction were captured in {run['captured_s']:.1f} s and"
    yield f"applied in {run['applied_s']:.1f} s; as many rows in transactions of 10,000 in {run['many_captured_s']:.1f} s and"
    yield f"{run['many_applied_s']:.1f} s."


HEAD = """
No process holds a transaction, a table or a backlog; each holds a piece of bounded size. What a job needs on disk follows what
is waiting, and is given back.
"""
# What, bounded by what, where it lies.
BOUNDS = (
    (
        "rows that capture has read and not written",
        "a chunk: 20,000 images, or 4 MB of log or of values",
        "memory of capture",
    ),
    (
        "rows of open transactions (logs with uncommitted work)",
        "`[capture] memory_limit_mb`, `transaction_staging_timeout_s`; beyond, their own size",
        "memory of capture; `staging/` of the trail",
    ),
    (
        "rows of prepared transactions (XA)",
        "their own size",
        "`staging/` of the trail, until they are decided",
    ),
    (
        "rows that are planned together",
        "100,000 images or 32 MB as Arrow, a few times over",
        "memory of apply and of each Spark worker",
    ),
    (
        "lines on their way into a COPY",
        "20,000 rows or 8 MB",
        "the same",
    ),
    (
        "a transaction in the trail",
        "its own size, compressed; segments of `segment_mb`",
        "the trail",
    ),
    (
        "segments that everybody is past",
        "`retain_hours`, `retain_mb`, `retain_segments`; the newest stays",
        "the trail; capture looks every ten seconds",
    ),
    (
        "parts of a transaction that capture was killed in",
        "their own size",
        "removed at the next start",
    ),
    (
        "an epoch that executors stage",
        "its own size, once",
        "unlogged tables at the target, dropped in its transaction",
    ),
    (
        "what an attempt of apply that was killed has staged",
        "its own size",
        "the target, swept by the next attempt",
    ),
    (
        "one value",
        "what both databases take: 1 GB of text form; as `bytea` its text form is twice as long",
        "a few times in each process on its way",
    ),
)
TEXT = """
What grows with a transaction is at the target: new row versions, WAL, and until the commit the staged rows. That is the
price of one commit there. Vacuum gives back what an UPDATE or DELETE leaves.

The times of the 20,000,000 rows are of a machine whose two cores had much other work; memory and disk do not depend on that.

The plots are of `python -m bench W5`, which keeps what it sees in `bench/size.json`; `tests/scenarios/test_scenario_size.py`
asserts the limits in every test run, with 300,000 rows, values of 64 MB and tables of 1,017 columns, and with processes
killed in the middle in `make test-faults`.
"""
TINY = """
Nothing is read twice and nothing is looked for from the beginning: a segment has an index, a reader knows its place. The
backlog is captured into segments of 1 MB while apply is away, then applied in epochs of up to 500,000.
"""
COMPARED = """
One transaction costs what the same rows cost in many. Both are captured while apply is away, then applied; the times have the
start of the process in them, with that of Spark.
"""
# The end of the record's name, title, text, the lines of one run.
PARTS = (
    ("-compared", "One transaction, or many", COMPARED, _compared),
    ("-tiny", "Many small transactions", TINY, _tiny),
)


# --- the plot ---------------------------------------------------------------------------------------------------------


def plot(run: Mapping[str, Any]) -> str:
    """Memory above, disk below, over the same time; where each step began, was committed and was visible."""
    samples, notes = run["samples"], run["notes"]
    end = max(samples[-1][0], 1.0)
    memory = _lines(samples, 1)
    disk = _lines(samples, 2)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {2 * HEIGHT}" font-family="sans-serif" font-size="11">',
        f'<rect width="{WIDTH}" height="{2 * HEIGHT}" fill="#ffffff"/>',
        *_panel(0, "MB resident, per process", memory, end, notes, {"JVM limit": 1024, "Python limit": PYTHON_MB}),
        *_panel(HEIGHT, "MB on disk", disk, end, notes, {}),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _lines(samples: Sequence[Any], place: int) -> dict[str, Line]:
    names = sorted({name for sample in samples for name in sample[place]})
    return {name: [(s[0], s[place][name]) for s in samples if name in s[place]] for name in names}


def _panel(
    top: int, title: str, lines: Mapping[str, Line], end: float, notes: Sequence[Any], limits: Mapping[str, float]
) -> Iterator[str]:
    most = max([*limits.values(), *(value for line in lines.values() for _, value in line), 1.0]) * 1.05
    right, floor = WIDTH - RIGHT, top + HEIGHT - BOTTOM

    def x(seconds: float) -> float:
        return LEFT + (right - LEFT) * seconds / end

    def y(value: float) -> float:
        return floor - (HEIGHT - TOP - BOTTOM) * value / most

    yield f'<text x="{LEFT}" y="{top + 14}" font-weight="bold">{title}</text>'
    for step in range(5):
        value = most / 1.05 * step / 4
        yield f'<line x1="{LEFT}" y1="{y(value):.1f}" x2="{right}" y2="{y(value):.1f}" stroke="#dddddd"/>'
        yield f'<text x="{LEFT - 6}" y="{y(value) + 4:.1f}" text-anchor="end">{value:,.0f}</text>'
        yield f'<text x="{x(end * step / 4):.1f}" y="{floor + 14}" text-anchor="middle">{end * step / 4:.0f} s</text>'
    for at, text in notes:
        yield f'<line x1="{x(at):.1f}" y1="{top + TOP}" x2="{x(at):.1f}" y2="{floor}" stroke="#999999" stroke-dasharray="2 3"/>'
        if text not in ("committed", "visible"):
            yield f'<text x="{x(at) + 3:.1f}" y="{floor + 27}" fill="#555555">{text}</text>'
    for name, value in limits.items():
        line = f'x1="{LEFT}" y1="{y(value):.1f}" x2="{right}" y2="{y(value):.1f}"'
        yield f'<line {line} stroke="#cc0000" stroke-dasharray="6 4"/>'
        yield f'<text x="{right + 6}" y="{y(value) + 4:.1f}" fill="#cc0000">{name} {value:.0f}</text>'
    for number, (name, points_) in enumerate(lines.items()):
        colour = COLOURS[number % len(COLOURS)]
        points = " ".join(f"{x(at):.1f},{y(value):.1f}" for at, value in points_)
        yield f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.4"/>'
        yield f'<text x="{right + 6}" y="{top + TOP + 62 + 14 * number}" fill="{colour}">{name}</text>'
