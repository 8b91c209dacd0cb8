"""Read the metrics of a manager as Prometheus does, and find in them all that deploy/ asks for. No server."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from anabranch.api.metrics import KNOWN
from anabranch.manager import Manager
from anabranch.manager.measures import Measure, TargetMeasure
from anabranch.model.metrics import METRICS, OF_MANAGER
from tests.unit.api.test_api_asking import bearer, client, manager

__all__ = ["client", "manager"]
DEPLOY = Path(__file__).parents[3] / "deploy"


def test_all_jobs_and_the_manager_in_one_answer(client: TestClient, manager: Manager) -> None:
    targets = (TargetMeasure("there", 1.5, 900),)
    counts = {"transactions_completed": 9, "changes_read": 20, "bytes_written": 700}
    manager.monitor.latest["shop"] = Measure("streaming", "working", "", 1.5, 30.0, 0.0, 2, targets, counts)
    who = bearer(manager)
    client.get("/api/v1/jobs/shop", headers=who)
    client.get("/wp-login.php")
    answer = client.get("/metrics", headers=who)
    lines = answer.text.splitlines()
    for wanted in (
        'anabranch_job_wanted{job="shop"} 0',
        'anabranch_job_state{job="shop",state="streaming",sub_state="working"} 1',
        'anabranch_lag_seconds{job="shop",target="there"} 1.5',
        'anabranch_capture_bytes_total{job="shop"} 700',
        'anabranch_job_tables_parked{job="shop"} 2',
        'anabranch_manager_http_requests_total{method="GET",route="/api/v1/jobs/{name}",code="200"} 1',
    ):
        assert wanted in lines, answer.text
    assert "wp-login" not in answer.text and 'route="none",code="404"' in answer.text
    told = {line.split()[2].removeprefix("anabranch_") for line in lines if line.startswith("# TYPE")}
    assert told == {*KNOWN, *OF_MANAGER}
    assert len([line for line in lines if line.startswith("# HELP")]) == len(told)


def test_jobs_of_others_are_not_told(client: TestClient, manager: Manager) -> None:
    assert 'job="shop"' not in client.get("/metrics", headers=bearer(manager, jobs=("web-*",))).text


@pytest.mark.parametrize("file", ["prometheus/anabranch.rules.yml", "grafana/anabranch.json"])
def test_what_is_deployed_asks_only_for_metrics_that_there_are(file: str) -> None:
    text = (DEPLOY / file).read_text()
    named = set(re.findall(r"\banabranch_(\w+)", text))
    assert len(named) > 8 and named <= {*METRICS, *OF_MANAGER}


def test_the_dashboard_is_one() -> None:
    board = json.loads((DEPLOY / "grafana" / "anabranch.json").read_text())
    numbers = [panel["id"] for panel in board["panels"]]
    assert len(numbers) == len(set(numbers)) and all(panel["targets"] for panel in board["panels"])
