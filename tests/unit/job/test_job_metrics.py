"""The metrics of a job: what `status` tells as numbers, printed, written to a file, and asked for over HTTP."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from anabranch.cli import main as shell
from anabranch.config import load_job
from anabranch.connectors.memory.database import forget
from anabranch.errors import ConfigError
from anabranch.job import Job
from anabranch.job.measuring import of_status
from anabranch.job.scraping import listening
from anabranch.model.metrics import BUSY, CONTENT_TYPE, METRICS, RESTARTS, text_of
from anabranch.model.position import HeldLog
from anabranch.model.status import (
    LagStatus,
    PartStatus,
    PhaseStatus,
    PlaceStatus,
    PositionsStatus,
    StageStatus,
    StateStatus,
    Status,
    TableStatus,
    TargetStatus,
    UndecidedStatus,
)
from anabranch.state.store import StateStore

FILE = """name = "shop"
[source]
url = "mysql://u:p@127.0.0.1:9"
[target]
url = "memory:///metrics-target"
[[rules]]
include = ["shop.*"]
"""
AT = "2026-11-28T10:00:00.000Z"
CAPTURED = {"transactions_completed": 9, "changes_read": 20, "bytes_written": 700}
APPLIED = {"transactions_applied": 6, "changes_applied": 12, "epochs": 4}


@pytest.fixture
def port() -> int:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        number: int = taken.getsockname()[1]
        return number


@pytest.fixture
def job(tmp_path: Path, port: int) -> Iterator[Job]:
    """A job whose source is away; its target is in this process."""
    yield opened(tmp_path, f'[metrics]\nlisten = "127.0.0.1:{port}"\n')
    forget()


def opened(path: Path, more: str) -> Job:
    file = path / "job.toml"
    file.write_text(FILE + more)
    return Job(load_job(file, {"ANABRANCH_HOME": str(path)}), file)


def asked(port: int, path: str = "/metrics") -> tuple[str, str]:
    with urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as answer:
        return answer.headers["Content-Type"], answer.read().decode()


def told(of: Status) -> list[str]:
    return [line for line in text_of("shop", of_status(of)).splitlines() if not line.startswith("#")]


def table(name: str, state: str, **more: Any) -> TableStatus:
    return TableStatus(f"shop.{name}", f"public.{name}", state, "", 5, 7, **more)


def whole(**target: Any) -> Status:
    """A status in which everything has something to say."""
    undecided = UndecidedStatus(3, "shop.b", "ALTER TABLE b", AT)
    tables = [
        table("a", "streaming", set_aside=2, conflicts=3, left_out=["x", "y"]),
        table("b", "parked", undecided=undecided),
    ]
    counters: Mapping[str, Any] = {"since_start": APPLIED, BUSY: 10}
    stages = [StageStatus("applying", 0.5, 200, None), StageStatus("source_not_read", None, None, "why")]
    given = {"lag": LagStatus(1.5, 300, stages), "tables": tables, "counters": counters} | target
    to = TargetStatus("there", None, PlaceStatus("6@b:1", AT), slow_epochs={"count": 1}, **given)
    return Status(
        1,
        "0",
        AT,
        "shop",
        StateStatus("streaming", "working", "", AT, True, None),
        PhaseStatus("streaming", ""),
        [PartStatus("apply", None, 1, "here", AT)],
        PositionsStatus(None, PlaceStatus("9@b:2", AT), None),
        {"since_start": CAPTURED, "open_transactions": 1},
        [to],
        [{}],
        None,
        log_held=HeldLog(5_000, None, ""),
    )


def test_a_status_is_told_in_numbers() -> None:
    lines = told(whole())
    b, at = 'job="shop",target="there",table="shop.b"', 'job="shop",target="there"'
    for wanted in (
        'anabranch_job_active{job="shop"} 1',
        'anabranch_job_state{job="shop",state="streaming",sub_state="working"} 1',
        'anabranch_part_start_time_seconds{job="shop",part="apply",target=""} 1795860000',
        'anabranch_capture_bytes_total{job="shop"} 700',
        'anabranch_source_log_held_bytes{job="shop"} 5000',
        f"anabranch_lag_seconds{{{at}}} 1.5",
        f"anabranch_lag_transactions{{{at}}} 3",
        f'anabranch_lag_stage_seconds{{{at},stage="applying"}} 0.5',
        f'anabranch_lag_stage_bytes{{{at},stage="applying"}} 200',
        f"anabranch_apply_epochs_total{{{at}}} 4",
        f'anabranch_tables{{{at},state="parked"}} 1',
        f'anabranch_tables{{{at},state="loading"}} 0',
        f"anabranch_table_parked{{{b}}} 1",
        f"anabranch_table_undecided{{{b}}} 1",
        f'anabranch_table_columns_left_out{{{at},table="shop.a"}} 2',
    ):
        assert wanted in lines, wanted
    assert len(lines) == len(set(lines))


def test_every_metric_has_something_that_tells_it(job: Job) -> None:
    """Of a status, of the trail's files, or of what `run` counts."""
    job.config.home.mkdir(parents=True)
    with closing(StateStore(job.config.home)) as store:
        for part, counts, gauges in (("run", {RESTARTS: 2}, {}), ("apply", {}, {BUSY: 1_500})):
            store.part(part, 1, "elsewhere")
            store.count(part, counts, gauges)
            store.part_ended(part, 1, "elsewhere")
    text = job.metrics()
    assert 'anabranch_part_restarts_total{job="shop"} 2' in text
    assert f'anabranch_apply_busy_seconds_total{{job="shop",target="{job.endpoint}"}} 1.5' in text
    every = text + "\n".join(told(whole()))
    trail = {"trail_bytes", "trail_segments"}
    assert {name for name in METRICS if f"anabranch_{name}{{" not in every} == trail


def test_what_is_not_known_is_left_out() -> None:
    lines = told(whole(lag=LagStatus(None, None), tables=[], counters=None))
    assert not [line for line in lines if "lag_seconds" in line or "lag_bytes" in line or "epochs_total" in line][1:]


def test_metrics_are_asked_for_over_http(job: Job, port: int) -> None:
    with listening(job):
        kind, text = asked(port)
        assert kind == CONTENT_TYPE and 'anabranch_ends_unreachable{job="shop"} 1\n' in text
        with pytest.raises(HTTPError, match="404"):
            asked(port, "/")
        with listening(job):  # the address is taken: a warning, and the job goes on
            assert asked(port, "/metrics?x=1")[0] == CONTENT_TYPE
    with pytest.raises(OSError):
        asked(port)


@pytest.mark.parametrize(
    "listen", ["9187", "127.0.0.1:0", ":9187", "127.0.0.1:70000", "::1:9187", "[127.0.0.1]:1", "a:b"]
)
def test_an_address_has_a_host_and_a_port(listen: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no address to listen at"):
        opened(tmp_path, f'[metrics]\nlisten = "{listen}"\n')


def test_an_ipv6_address_stands_in_brackets(tmp_path: Path) -> None:
    assert opened(tmp_path, '[metrics]\nlisten = "[::1]:9187"\n').config.metrics.address == ("::1", 9187)
    assert opened(tmp_path, "").config.metrics.address is None


def test_metrics_go_into_a_file_as_a_whole(job: Job, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "shop.prom"
    assert shell.exit_code(["metrics", str(job.path), "-o", str(path)]) == 0
    assert path.read_text().startswith("# HELP anabranch_job_active") and [*tmp_path.glob(".*.tmp")] == []
    assert shell.exit_code(["metrics", str(job.path)]) == 0
    assert "anabranch_job_state" in capsys.readouterr().out
    assert shell.exit_code(["metrics", str(job.path), "-o", str(tmp_path / "none" / "x.prom")]) == 2
    assert "cannot be written" in capsys.readouterr().err
