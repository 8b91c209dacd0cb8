"""Promotion over HTTP, in this process: from one job to another, as a new one, from another manager. No server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from anabranch.api import create_app
from anabranch.manager import Manager
from anabranch.manager.callers import Caller, Role
from tests.unit.api.test_api_asking import bearer
from tests.unit.manager.test_manager_store import text

ADMIN = Caller("ann", "token", Role.ADMINISTRATOR)
PATH = "/api/v1/jobs/shop/promotion"
ENDS = {"source": "mysql://u:${PROD}@127.0.0.1:2", "target": "postgresql://u:${PROD}@127.0.0.1:2/db"}
_LISTEN = 'name = "shop"\n[listen]\naddress = "127.0.0.1:7"\n[[allow]]\ntrail = "*"\n'
HOPS = {
    "receiver": f'{_LISTEN}[store]\nurl = "trail+file:///a"\n',
    "router": f'{_LISTEN}[[routes]]\ntrail = "*"\nto = "trail+tcp://127.0.0.1:8"\n',
    "pump": 'name = "shop"\n[source]\nurl = "trail+file:///a"\n[target]\nurl = "trail+tcp://127.0.0.1:7/shop"\n',
}
TRIED = text("shop-test").replace("shop.*", "shop.item")


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Manager:
    monkeypatch.setenv("PW", "S3cret@")
    monkeypatch.setenv("PROD", "0ther@")
    monkeypatch.setenv("ANABRANCH_HOME", str(tmp_path))
    made = Manager(tmp_path)
    made.add(ADMIN, TRIED)
    return made


@pytest.fixture
def client(manager: Manager) -> Iterator[TestClient]:
    with TestClient(create_app(manager), base_url="http://127.0.0.1") as made:
        yield made


def ask(client: TestClient, who: dict[str, str], **body: Any) -> tuple[int, dict[str, Any]]:
    answer = client.post(PATH, json=body, headers=who)
    return answer.status_code, answer.json()


def test_a_job_that_was_tried_becomes_a_new_one_with_other_ends(client: TestClient, manager: Manager) -> None:
    who = bearer(manager, Role.ADMINISTRATOR)
    code, shown = ask(client, who, job="shop-test", ends=ENDS, secrets={"PW": "PROD"}, is_tried=True)
    assert (code, shown["is_new"], shown["version"]) == (200, True, None) and '+name = "shop"' in shown["difference"]
    assert [job.name for job in manager.jobs.all()] == ["shop-test"], "nothing was kept"
    code, made = ask(client, who, job="shop-test", ends=ENDS, secrets={"PW": "PROD"})
    assert (code, made["version"], made["difference"]) == (200, 1, shown["difference"])
    (version,) = manager.jobs.versions("shop")
    assert version.note == "version 1 of shop-test" and "PW}" not in version.text and ENDS["source"] in version.text
    assert not manager.jobs.is_wanted("shop"), "nobody has started it"


def test_rules_go_into_a_job_that_is_there_once(client: TestClient, manager: Manager) -> None:
    who = bearer(manager, Role.ADMINISTRATOR)
    manager.add(ADMIN, text())
    code, shown = ask(client, who, job="shop-test", is_tried=True)
    assert (code, shown["is_new"], shown["version"]) == (200, False, None)
    assert '-include = ["shop.*"]' in shown["difference"] and '+include = ["shop.item"]' in shown["difference"]
    assert shown["effects"] == [{"key": "rule 1 include", "when": "decision", "parts": []}]
    assert ask(client, who, job="shop-test")[1]["version"] == 2
    assert ask(client, who, job="shop-test")[1] == {
        "name": "shop",
        "is_new": False,
        "version": 2,
        "of_version": 2,
        "difference": "",
        "effects": [],
    }
    assert "127.0.0.1:1" in manager.jobs.version("shop").text, "its ends stay"
    assert manager.audit.entries(job="shop")[0].action == "job_changed"


def test_only_the_version_that_was_shown_gets_it(client: TestClient, manager: Manager) -> None:
    who = bearer(manager, Role.ADMINISTRATOR)
    assert ask(client, who, job="shop-test", ends=ENDS, is_tried=True)[1]["of_version"] is None
    assert ask(client, who, job="shop-test", ends=ENDS, of_version=1)[0] == 409, "it is not there"
    manager.add(ADMIN, text())
    assert ask(client, who, job="shop-test", is_tried=True)[1]["of_version"] == 1
    manager.change(ADMIN, "shop", text(more="# another\n"))
    for is_tried in (True, False):
        code, found = ask(client, who, job="shop-test", of_version=1, is_tried=is_tried)
        assert code == 409 and "at version 2" in found["detail"] and manager.jobs.job("shop").version == 2
    code, made = ask(client, who, job="shop-test", of_version=2)
    assert (code, made["of_version"], made["version"]) == (200, 2, 3)


def test_a_file_of_another_manager_is_promoted_by_its_text(client: TestClient, manager: Manager) -> None:
    who = bearer(manager, Role.ADMINISTRATOR)
    elsewhere = TRIED.replace("${PW}", "${NOT_HERE}")  # a variable that this manager does not have
    assert ask(client, who, text=elsewhere, ends=ENDS)[1]["version"] == 1


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({}, "either job or text"),
        ({"job": "shop-test", "text": TRIED}, "either job or text"),
        ({"text": "name = "}, "TOML"),
        ({"text": 'name = "a"\ntarget = "x"\nsource = 1\n'}, "source"),
        ({"job": "shop-test"}, "are not told: source, target"),
        ({"job": "shop-test", "ends": {**ENDS, "source": "mysql://u:…@h"}}, "hidden"),
        ({"job": "shop-test", "ends": {**ENDS, "target": "nonsense"}}, "URL"),
        ({"job": "shop-test", "ends": {**ENDS, "source": "mysql://u:${GONE}@h"}}, "GONE"),
    ],
)
def test_what_cannot_be_promoted_is_refused_and_nothing_is_kept(
    client: TestClient, manager: Manager, body: dict[str, Any], told: str
) -> None:
    code, found = ask(client, bearer(manager, Role.ADMINISTRATOR), **body)
    assert code == 422 and told in f"{found}", found
    assert [job.name for job in manager.jobs.all()] == ["shop-test"]


def test_the_name_of_an_end_that_is_a_url_is_not_said(client: TestClient, manager: Manager) -> None:
    ends = {**ENDS, "postgresql://app:geheim@db/shop?a": "b"}
    code, found = ask(client, bearer(manager, Role.ADMINISTRATOR), job="shop-test", ends=ends)
    assert code == 422 and "no end" in found["detail"] and "geheim" not in f"{found}"


def test_ends_of_a_job_that_is_there_are_not_replaced(client: TestClient, manager: Manager) -> None:
    manager.add(ADMIN, text())
    code, found = ask(client, bearer(manager, Role.ADMINISTRATOR), job="shop-test", ends=ENDS)
    assert code == 422 and "ends of its own" in found["detail"] and manager.jobs.job("shop").version == 1


@pytest.mark.parametrize("kind", ["router", "receiver"])
def test_a_hop_that_listens_is_not_promoted_nor_promoted_into(client: TestClient, manager: Manager, kind: str) -> None:
    who = bearer(manager, Role.ADMINISTRATOR)
    code, found = ask(client, who, text=HOPS[kind], ends={"source": "trail+file:///b"})
    assert (code, manager.jobs.all()[-1].name) == (422, "shop-test") and f"a {kind}" in found["detail"]
    manager.add(ADMIN, HOPS[kind])
    code, found = ask(client, who, job="shop-test")
    assert code == 422 and f"a {kind}" in found["detail"] and manager.jobs.job("shop").version == 1


def test_a_pump_becomes_no_job_and_gives_none_rules(client: TestClient, manager: Manager) -> None:
    who = bearer(manager, Role.ADMINISTRATOR)
    manager.add(ADMIN, HOPS["pump"])
    code, found = ask(client, who, job="shop-test")
    assert code == 422 and "a pump" in found["detail"] and manager.jobs.job("shop").version == 1
    manager.remove(ADMIN, "shop")
    manager.add(ADMIN, text())
    code, found = ask(client, who, text=HOPS["pump"])
    assert code == 422 and "a pump" in found["detail"] and manager.jobs.version("shop").text == text()


def test_only_administrators_of_both_jobs_may(client: TestClient, manager: Manager) -> None:
    assert ask(client, bearer(manager, Role.OPERATOR), job="shop-test", ends=ENDS)[0] == 403
    manager.add(ADMIN, text())
    one = {"Authorization": f"Bearer {manager.tokens.create(Role.ADMINISTRATOR, 'one', ('shop',), 'ann')}"}
    assert ask(client, one, job="shop-test")[0] == 404, "it does not see the other one"
    assert ask(client, one, text=TRIED)[0] == 200
    other = {"Authorization": f"Bearer {manager.tokens.create(Role.ADMINISTRATOR, 'o', ('shop-test',), 'ann')}"}
    assert ask(client, other, job="shop-test", ends=ENDS)[0] == 403
    assert manager.jobs.job("shop").version == 2


def test_a_password_in_a_file_is_in_no_difference(client: TestClient, manager: Manager) -> None:
    manager.change(ADMIN, "shop-test", TRIED.replace("${PW}", "l1teral"))
    ends = {"source": "mysql://u:h1dden@127.0.0.1:2", "target": "postgresql://u:h1dden@127.0.0.1:2/db"}
    code, found = ask(client, bearer(manager, Role.ADMINISTRATOR), job="shop-test", ends=ends)
    assert code == 200 and "l1teral" not in f"{found}" and "h1dden" not in f"{found}"
    assert "h1dden" in manager.jobs.version("shop").text
