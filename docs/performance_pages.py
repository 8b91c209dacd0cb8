"""The page about speed and its plots (generate.py writes them), from what the benchmark kept in bench/results.

What does not live here: measuring (bench/), what bounds each figure (bench/README.md)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from plots import bars, lines

RESULTS = Path(__file__).parents[1] / "bench" / "results"
TITLES = {
    "W1": "Initial load",
    "W2": "Capture of a backlog",
    "W3": "Catching up, end to end",
    "W4": "Latency",
    "W5": "One large transaction",
    "W6": "Conflicts in every epoch",
    "W7": "Verification",
    "W8": "Growth",
    "W9": "Transactions one by one",
    "W10": "Many tables",
    "presence": "Being there",
    "cutover": "Downtime of a cut-over",
    "cutover-verified": "Downtime of a cut-over that verifies at the fence",
    "managed": "Many jobs under one manager",
    "reverse": "Latency of the way back",
    "beside": "Verification beside writers",
    "altering": "Changes of definitions under load",
    "through": "A load through a trail",
    "hop": "A hop between two sites",
    "stage": "Staging of an epoch",
}
# A figure's curve: its title, what is across, whether it goes up by powers of ten, what its goals are lines of.
CURVES = {
    "latency": ("Milliseconds from the source's commit to visible at the target", "percent of the changes", True),
    "memory": ("MB resident", "seconds", False),
    "growth": ("Seconds", "times the smallest size", False),
}
HEAD = """
Each figure is measured beside its ceiling (what the databases' own programs do) and its peers (what others do), in turns, in
one run; a ratio is of the medians. Absolute numbers belong to one machine on one day. What is measured how, and what bounds
each figure, stands in [bench](../../bench/README.md); `make bench` measures it on yours.
"""
POSTGRESQL = "postgresql"
NOT_MEASURED = "not measured"  # as bench/peers/ring.py says it
Run = Mapping[str, Any]


def performance_pages(generated: str) -> dict[str, str]:
    """File name, beside the other explanations -> text."""
    runs = [json.loads(file.read_text()) for file in sorted(RESULTS.glob("*.json"), key=lambda file: file.stem)]
    plots = {name: plot for title in TITLES for name, plot in _plots(title, _of(title, runs))}
    return {"performance.md": "\n".join(_page(generated, runs, plots)), **plots}


def _of(workload: str, runs: Sequence[Run]) -> list[Run]:
    return [run for run in runs if run["workload"] == workload]


def _page(generated: str, runs: Sequence[Run], plots: Mapping[str, str]) -> Iterator[str]:
    yield "# Performance"
    yield ""
    yield generated
    yield HEAD.strip()
    yield ""
    if not runs:
        yield "Nothing has been measured yet."
        yield ""
        return
    yield from ("| figure | of | measured | goal | |", "|---|---|---|---|---|")
    for title in TITLES:
        yield from (_verdict(figure) for run in _of(title, runs) for figure in run["figures"])
    for workload, title in TITLES.items():
        if found := _of(workload, runs):
            yield from _section(workload, title, found, plots)
    yield ""


def _verdict(figure: Run) -> str:
    bound = "≤" if figure["is_most"] else "≥"
    goal = f"{bound} {figure['goal']:g}" if figure["goal"] is not None else ""
    is_known = figure["verdict"] != NOT_MEASURED
    value = f"{figure['unit'].replace('_', ' ')} {_number(figure['value'])}" if is_known else ""
    return f"| {figure['workload']} | {figure['source']} | {value} | {goal} | {figure['verdict']} |"


def _section(workload: str, title: str, runs: Sequence[Run], plots: Mapping[str, str]) -> Iterator[str]:
    yield from ("", f"## {workload}: {title}" if workload[0] == "W" else f"## {title}")
    for name in plots:
        if name.startswith(f"performance-{workload}-"):
            yield from ("", f"![{title}]({name})")
    for run in runs:
        machine = run["machine"]
        system = f"{machine['cores']} cores, {machine['memory_gb']} GB, load {machine['load']} at the end"
        versions = ", ".join(f"{name} {version}" for name, version in run["versions"].items())
        yield from (
            "",
            f"{_ends(run)}, {run['date']}, size {run['size']}, runs of each: {run['repeat']} ({system}; {versions})",
        )
        yield from _sides([side for figure in run["figures"] for side in figure["sides"]])
        for figure in run["figures"]:
            if figure["facts"]:
                facts = ", ".join(
                    f"{name.replace('_', ' ')} {_number(value)}" for name, value in figure["facts"].items()
                )
                yield from ("", f"{figure['workload']}: {facts}.")


def _ends(run: Run) -> str:
    """The source, and the target where it is no PostgreSQL."""
    target = run.get("target", POSTGRESQL)
    return str(run["source"]) if target == POSTGRESQL else f"{run['source']} to {target}"


def _sides(sides: Sequence[Run]) -> Iterator[str]:
    known = {
        side["name"] + side["what"]: side for side in sides
    }  # one that stands beside several figures is told of once
    if known:
        yield from ("", "| | per second: median (least to most) | processor, s | MB |", "|---|---|---|---|")
    for side in known.values():
        rates = sorted(side["work"] / seconds for seconds in side["seconds"])
        spread = f"{rates[len(rates) // 2]:,.0f} ({rates[0]:,.0f} to {rates[-1]:,.0f})"
        cpu = sorted(side["cpu_s"])[len(side["cpu_s"]) // 2]
        yield f"| **{side['name']}** ({side['what']}) | {spread} | {cpu:.2f} | {side['rss_mb']:.0f} |"
        for kind, use in side["processes"].items():
            yield f"| … {kind} | | {use['cpu_s']:.2f} | {use['rss_mb']:.0f} |"


def _plots(workload: str, runs: Sequence[Run]) -> Iterator[tuple[str, str]]:
    rows = [
        (f"{figure['source']}: {side['name']}", [side["work"] / seconds for seconds in side["seconds"]])
        for run in runs
        for figure in run["figures"]
        for side in figure["sides"]
        if len(figure["sides"]) > 1
    ]
    if rows:
        rows = list(dict(rows).items())
        yield f"performance-{workload}-rate.svg", bars(f"{workload} {TITLES[workload]}", rows, "per second")
    for kind, (title, across, is_log) in CURVES.items():
        for run in runs:
            curves = {
                f"{figure['workload'].partition('/')[2] or name}" if name == kind else name: curve
                for figure in run["figures"]
                for name, curve in figure["curves"].items()
                if name.startswith(kind)
            }
            if curves:
                name = f"performance-{workload}-{kind}-{_ends(run).replace(' to ', '-')}.svg"
                yield name, lines(f"{title}, {_ends(run)}", across, curves, is_log=is_log, limits={})


def _number(value: object) -> str:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return str(value)
    return f"{value:,.0f}" if abs(value) >= 1000 or value == int(value) else f"{value:.3g}"
