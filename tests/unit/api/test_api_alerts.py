"""Alerts and their rules over HTTP. No server."""

from __future__ import annotations

from fastapi.testclient import TestClient

from anabranch.manager import Manager
from anabranch.manager.callers import Role
from anabranch.manager.measures import Measure
from tests.unit.api.test_api_asking import bearer, client, manager

__all__ = ["client", "manager"]


def test_rules_are_an_administrators_and_alerts_of_those_who_see_the_job(client: TestClient, manager: Manager) -> None:
    viewer, other, admin = bearer(manager), bearer(manager, jobs=("web-*",)), bearer(manager, Role.ADMINISTRATOR)
    rules = client.get("/api/v1/alerts/rules", headers=viewer).json()
    assert {rule["kind"] for rule in rules} == {"lag", "state", "parked", "disk"}
    wanted = [{"name": "late", "kind": "lag", "threshold": 5, "for_s": 0}]
    assert client.put("/api/v1/alerts/rules", json=wanted, headers=viewer).status_code == 403
    assert client.put("/api/v1/alerts/rules", json=wanted * 2, headers=admin).status_code == 422
    for wrong in (True, "5", None):
        changed = [wanted[0] | {"threshold": wrong}]
        assert client.put("/api/v1/alerts/rules", json=changed, headers=admin).status_code == 422, wrong
    assert manager.alert_rules.all()[0].name == "lag"
    assert client.put("/api/v1/alerts/rules", json=wanted, headers=admin).status_code == 200
    assert manager.audit.entries()[0].action == "alert_rules_changed"
    manager.alerts.look(0.0, {"shop": Measure("streaming", lag=9.0)}, {"shop"})
    found = client.get("/api/v1/alerts", params={"firing": True}, headers=viewer).json()
    assert [(one["rule"], one["job"], one["ended"]) for one in found] == [("late", "shop", None)]
    assert client.get("/api/v1/alerts", headers=other).json() == []
