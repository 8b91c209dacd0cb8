"""The page about metrics (generate.py writes it)."""

from __future__ import annotations

from collections.abc import Iterator

from anabranch.api.metrics import KNOWN
from anabranch.model.metrics import METRICS, OF_MANAGER


def metrics(generated: str) -> Iterator[str]:
    """Yield the lines of the page."""
    yield "# Metrics"
    yield ""
    yield generated
    yield "What `anabranch metrics JOB` prints, and what `anabranch run` answers with `[metrics] listen`"
    yield "([how](../howto/monitor.md)), in Prometheus' text form. Each has the label `job`, and those of the table below;"
    yield "`target` is the target's place or, of several, its name, `table` the source's. A counter begins at 0 again"
    yield "when its part starts again. What depends on an end that cannot be asked is left out, and so is what is not known."
    yield ""
    yield "| metric | kind | labels | meaning |"
    yield "|---|---|---|---|"
    for one in METRICS.values():
        yield f"| `{one.whole_name}` | {one.kind} | {', '.join(f'`{label}`' for label in one.labels)} | {one.meaning} |"
    yield ""
    yield "## Of a manager"
    yield ""
    yield "`anabranch serve` answers `GET /metrics` for all jobs that the token may see ([how](../howto/manager.md)):"
    yield f"of each job {', '.join(f'`{METRICS[name].whole_name}`' for name in KNOWN)}, without"
    yield "asking an end, and the following. Those that begin with `anabranch_manager` have no label `job`."
    yield ""
    yield "| metric | kind | labels | meaning |"
    yield "|---|---|---|---|"
    for one in OF_MANAGER.values():
        yield f"| `{one.whole_name}` | {one.kind} | {', '.join(f'`{label}`' for label in one.labels)} | {one.meaning} |"
    yield ""
