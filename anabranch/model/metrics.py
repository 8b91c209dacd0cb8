"""Metrics of a job and of a manager: every name with its meaning, once, and their text form for Prometheus.

The form: https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format
What does not live here: what is measured (`job/measuring.py`), who is told (`job/scraping.py`, `api/metrics.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
PREFIX = "anabranch_"
RESTARTS = "restarts"  # what the part `run` counts
PARKED = "parked"  # a gauge of `run`: tables that are, at all targets
# Gauges of apply, for `status` alone: up to which sequence the epoch goes that it has begun last, and when that was (ms)
EPOCH_END, EPOCH_BEGAN = "epoch_end", "epoch_began_ms"
BUSY = "busy_ms"  # a gauge of apply, though it only rises: milliseconds that it has spent on epochs


class Kind(StrEnum):
    """GAUGE: goes up and down. COUNTER: only rises, and begins at 0 again when its part of the job starts again."""

    GAUGE = "gauge"
    COUNTER = "counter"


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric. `name`: without PREFIX; `labels`: beside `job`, which those of a job have, in this order."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    meaning: str
    is_of_job: bool = True

    @property
    def whole_name(self) -> str:
        return PREFIX + self.name


@dataclass(frozen=True, slots=True)
class Sample:
    """A value of a metric now, with its labels. `job`: where the text is of several jobs."""

    metric: str
    value: float
    labels: Mapping[str, str] = field(default_factory=dict)
    job: str = ""


_TARGET, _TABLE = ("target",), ("target", "table")
_ALL = (
    Metric("job_active", Kind.GAUGE, (), "1 if a part of the job runs, else 0"),
    Metric("job_state", Kind.GAUGE, ("state", "sub_state"), "1, with the state of the job, as status has it"),
    Metric("ends_unreachable", Kind.GAUGE, (), "ends that could not be asked: what depends on them is left out"),
    Metric("part_running", Kind.GAUGE, ("part", "target"), "1 of each part that lives: run, capture, load, apply"),
    Metric("part_start_time_seconds", Kind.GAUGE, ("part", "target"), "when the part started, in seconds since 1970"),
    Metric("part_restarts_total", Kind.COUNTER, (), "how often run has started a part again that had ended"),
    Metric("waits", Kind.GAUGE, (), "parts that wait for somebody's lock or transaction"),
    Metric("capture_transactions_total", Kind.COUNTER, (), "transactions that capture has written to the trail"),
    Metric("capture_changes_total", Kind.COUNTER, (), "row changes in them"),
    Metric("capture_bytes_total", Kind.COUNTER, (), "bytes that capture has written to the trail"),
    Metric("capture_open_transactions", Kind.GAUGE, (), "transactions that wait for their end"),
    Metric("trail_bytes", Kind.GAUGE, (), "size of the trail's segments on disk"),
    Metric("trail_segments", Kind.GAUGE, (), "segments of the trail"),
    Metric("source_log_held_bytes", Kind.GAUGE, (), "log that the source keeps for the job, where it says so"),
    Metric(
        "lag_seconds", Kind.GAUGE, _TARGET, "age of the oldest transaction that is not applied; 0 where there is none"
    ),
    Metric(
        "lag_stage_seconds",
        Kind.GAUGE,
        ("target", "stage"),
        "time that the oldest transaction that is not applied has spent in the stage",
    ),
    Metric("lag_stage_bytes", Kind.GAUGE, ("target", "stage"), "bytes of the source's log that are in the stage now"),
    Metric("lag_bytes", Kind.GAUGE, _TARGET, "bytes of the source's log between what is applied and its end"),
    Metric("lag_transactions", Kind.GAUGE, _TARGET, "transactions of the trail that are not applied"),
    Metric("apply_transactions_total", Kind.COUNTER, _TARGET, "transactions that apply has carried out"),
    Metric("apply_changes_total", Kind.COUNTER, _TARGET, "row changes in them"),
    Metric("apply_epochs_total", Kind.COUNTER, _TARGET, "transactions of the target in which that was done"),
    Metric("apply_slow_epochs_total", Kind.COUNTER, _TARGET, "epochs that went row by row"),
    Metric("apply_busy_seconds_total", Kind.COUNTER, _TARGET, "time that apply has spent on epochs"),
    Metric("tables", Kind.GAUGE, ("target", "state"), "tables in this state"),
    Metric("table_parked", Kind.GAUGE, _TABLE, "1 of each table that is parked"),
    Metric("table_undecided", Kind.GAUGE, _TABLE, "1 of each table that waits for a person's decision about a change"),
    Metric("table_changes_applied_total", Kind.COUNTER, _TABLE, "row changes applied to the table since its load"),
    Metric("table_rows_loaded", Kind.GAUGE, _TABLE, "rows that its load has copied"),
    Metric("table_rows_set_aside", Kind.GAUGE, _TABLE, "row changes that are set aside, of tables that have some"),
    Metric("table_conflicts_total", Kind.COUNTER, _TABLE, "conflicts settled since its load, of tables that have some"),
    Metric(
        "table_columns_left_out", Kind.GAUGE, _TABLE, "columns that the target stays without, of tables that have some"
    ),
)
METRICS: Mapping[str, Metric] = {one.name: one for one in _ALL}
# What only a manager tells; of each job it also tells those metrics of METRICS that it knows without asking an end.
_OF_MANAGER = (
    Metric("job_wanted", Kind.GAUGE, (), "1 of a job that the manager keeps running, else 0"),
    Metric("job_running", Kind.GAUGE, (), "1 while the manager sees the job's process, else 0"),
    Metric("job_restarts_total", Kind.COUNTER, (), "how often the manager has started the job again that had died"),
    Metric("job_tables_parked", Kind.GAUGE, (), "tables that are parked, at all targets, as run has told"),
    Metric("job_changes_per_second", Kind.GAUGE, (), "row changes applied in a second, of the last five"),
    Metric("job_rows_loaded_per_second", Kind.GAUGE, (), "rows that loads have copied in a second, of the last five"),
    Metric("manager_start_time_seconds", Kind.GAUGE, (), "when the manager began, in seconds since 1970", False),
    Metric(
        "manager_http_requests_total",
        Kind.COUNTER,
        ("method", "route", "code"),
        "requests that the manager has answered",
        False,
    ),
    Metric("manager_http_seconds_total", Kind.COUNTER, ("method", "route"), "time that it took for them", False),
    Metric("manager_disk_free_bytes", Kind.GAUGE, (), "room on the disk where jobs have their homes", False),
    Metric("manager_disk_bytes", Kind.GAUGE, (), "size of that disk", False),
)
OF_MANAGER: Mapping[str, Metric] = {one.name: one for one in _OF_MANAGER}
_EVERY = {**METRICS, **OF_MANAGER}


def text_of(job: str, samples: Iterable[Sample]) -> str:
    """Return the samples of a job in Prometheus' text form, metric by metric; a metric without one is left out."""
    return text_of_all(replace(sample, job=job) for sample in samples)


def text_of_all(samples: Iterable[Sample]) -> str:
    """Return samples of several jobs, and of their manager, in the same form."""
    by_metric: dict[str, list[Sample]] = {name: [] for name in _EVERY}
    for sample in samples:
        by_metric[sample.metric].append(sample)
    return "".join(line for name, some in by_metric.items() if some for line in _lines(_EVERY[name], some))


def _lines(metric: Metric, samples: Iterable[Sample]) -> Iterator[str]:
    yield f"# HELP {metric.whole_name} {metric.meaning}\n# TYPE {metric.whole_name} {metric.kind}\n"
    for sample in samples:
        assert set(sample.labels) <= set(metric.labels), sample
        labels = {"job": sample.job} if metric.is_of_job else {}
        labels |= {name: sample.labels.get(name, "") for name in metric.labels}
        told = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())
        yield f"{metric.whole_name}{f'{{{told}}}' if told else ''} {_number(sample.value)}\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(float(value))
