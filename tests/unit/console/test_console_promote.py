"""The page of promotion: what comes of it is said before, and only that is kept. In this process, no server."""

from __future__ import annotations

import re
from typing import Any

import pytest

from anabranch.manager import Manager
from anabranch.manager.callers import Role
from tests.unit.api.test_api_promotion import HOPS
from tests.unit.console.conftest import ADMIN, Browser
from tests.unit.manager.test_manager_store import text

ENDS = "source=mysql://u:${PW}@127.0.0.1:2\r\ntarget=postgresql://u:${PW}@127.0.0.1:2/db\r\n"


@pytest.fixture
def csrf(browser: Browser, manager: Manager) -> str:
    manager.add(ADMIN, text("tried").replace("shop.*", "shop.item"))
    return browser.log_in(Role.ADMINISTRATOR)


def seen(page: str) -> str:
    (found,) = re.findall(r'name="seen" value="(\w+)"', page)
    return str(found)


def test_rules_go_into_a_job_that_is_there_behind_a_look_at_them(browser: Browser, manager: Manager, csrf: str) -> None:
    assert '/jobs/tried/promote">Promote …' in browser.page("/jobs/tried")
    browser.page("/jobs/tried/promote")
    fields = {"csrf": csrf, "into": "shop"}
    page = browser.send("/jobs/tried/promote", 200, **fields, act="look")
    assert "keeps its ends" in page and "shop.item" in page and manager.jobs.job("shop").version == 1
    browser.send("/jobs/tried/promote", 200, **fields, act="save", seen="another")
    assert manager.jobs.job("shop").version == 1, "it was not shown"
    assert browser.send("/jobs/tried/promote", **fields, act="save", seen=seen(page)) == "/jobs/shop"
    assert (manager.jobs.version("shop").version, manager.jobs.version("shop").note) == (2, "version 1 of tried")
    assert "has it already" in browser.send("/jobs/tried/promote", 200, **fields, act="look")


def test_a_new_job_is_made_with_its_ends_and_what_changed_meanwhile_is_shown_again(
    browser: Browser, manager: Manager, csrf: str
) -> None:
    fields = {"csrf": csrf, "into": "live", "ends": ENDS, "secrets": ""}
    page = browser.send("/jobs/tried/promote", 200, **fields, act="look")
    assert "does not run before somebody starts it" in page
    manager.change(ADMIN, "tried", text("tried").replace("shop.*", "shop.other"))
    page = browser.send("/jobs/tried/promote", 200, **fields, act="save", seen=seen(page))
    assert "shop.other" in page and "live" not in [job.name for job in manager.jobs.all()]
    assert browser.send("/jobs/tried/promote", **fields, act="save", seen=seen(page)) == "/jobs/live"


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"into": "live"}, "ends of the new job"),
        ({"into": "live", "ends": "source"}, "not in full"),
        ({"into": "shop", "ends": ENDS}, "ends of its own"),
    ],
)
def test_what_cannot_be_is_said_beside_the_form(browser: Browser, csrf: str, fields: dict[str, str], said: str) -> None:
    page = browser.send("/jobs/tried/promote", 422, csrf=csrf, **fields, act="save")
    assert said in page and f'value="{fields["into"]}"' in page


@pytest.mark.parametrize(
    "forgotten", ["postgresql://app:geheim@db/shop", "postgresql://app:geheim@db/shop?ssl_mode=required"]
)
def test_a_password_in_a_line_without_its_end_is_not_in_the_message(
    browser: Browser, csrf: str, forgotten: str
) -> None:
    page = browser.send("/jobs/tried/promote", 422, csrf=csrf, into="live", ends=f"source=x\n{forgotten}", act="look")
    said = re.sub("(?s)<textarea.*?</textarea>", "", page)  # what was typed stays in its field
    assert "line number 2" in said and "geheim" not in said


def test_a_job_that_changes_behind_the_comparison_does_not_get_what_was_not_shown(
    browser: Browser, manager: Manager, csrf: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fields = {"csrf": csrf, "into": "shop"}
    page = browser.send("/jobs/tried/promote", 200, **fields, act="look")
    promote = manager.promote

    def changed_meanwhile(*given: Any, **more: Any) -> Any:
        if not more.get("is_tried"):
            manager.change(ADMIN, "shop", text(more="# somebody else\n[cutover]\ngrace = 5\n"))
        return promote(*given, **more)

    monkeypatch.setattr(manager, "promote", changed_meanwhile)
    assert "somebody else" in browser.send("/jobs/tried/promote", 409, **fields, act="save", seen=seen(page))
    assert manager.jobs.job("shop").version == 2 and "shop.item" not in manager.jobs.version("shop").text


def test_a_router_has_no_such_page(browser: Browser, manager: Manager, csrf: str) -> None:
    manager.add(ADMIN, HOPS["router"].replace("shop", "dmz"))
    assert "a router" in browser.page("/jobs/dmz/promote", 422)
    assert "a router" in browser.send("/jobs/dmz/promote", 422, csrf=csrf, into="live", ends="source=a")


def test_it_is_for_administrators_of_both(browser: Browser, manager: Manager, csrf: str) -> None:
    csrf = browser.log_in(Role.ADMINISTRATOR, ("tried",))
    browser.send("/jobs/tried/promote", 403, csrf=csrf, into="shop")
    browser.log_in(Role.OPERATOR)
    browser.page("/jobs/tried/promote", 403)
