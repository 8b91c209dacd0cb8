"""Statistics over HTTP: who may read them, and what they look like. No server."""

from __future__ import annotations

import time

from fastapi.testclient import TestClient

from anabranch.manager import Manager
from anabranch.manager.measures import Measure
from tests.unit.api.test_api_asking import bearer, client, manager

__all__ = ["client", "manager"]


def test_a_measure_of_the_last_hour(client: TestClient, manager: Manager) -> None:
    now = int(time.time())
    for second in range(5):
        manager.statistics.note(now - 10 + second, {"shop": Measure("streaming", lag=float(second))})
    manager.statistics.write(now)
    who = bearer(manager)
    found = client.get("/api/v1/jobs/shop/statistics", headers=who).json()
    assert (found["measure"], found["unit"], found["job"]) == ("lag", "seconds", "shop")
    assert max(point["maximum"] for point in found["points"]) == 4.0 and found["points"][0]["at"].endswith("Z")
    asked = {"measure": "state", "from": found["points"][0]["at"], "step": 60}
    states = client.get("/api/v1/jobs/shop/statistics", params=asked, headers=who).json()
    assert {point["state"] for point in states["points"]} == {"streaming"}


def test_wrong_questions_and_jobs_of_others(client: TestClient, manager: Manager) -> None:
    who, other = bearer(manager), bearer(manager, jobs=("web-*",))
    assert client.get("/api/v1/jobs/shop/statistics", headers=other).status_code == 404
    assert client.get("/api/v1/jobs/shop/statistics", params={"measure": "x"}, headers=who).status_code == 422
    long = {"from": "2020-01-01T00:00:00Z", "step": 1}
    answer = client.get("/api/v1/jobs/shop/statistics", params=long, headers=who)
    assert (answer.status_code, answer.json()["code"]) == (422, "configuration")
