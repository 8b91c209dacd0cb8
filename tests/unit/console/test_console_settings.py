"""The page of settings, and actions of the way back, in this process. No server."""

from __future__ import annotations

from pathlib import Path

import pytest

from anabranch.console.actions import ACTIONS, About
from anabranch.manager import Manager
from anabranch.manager.callers import Role
from anabranch.manager.oidc.settings import load_settings
from anabranch.manager.secret_keys import VARIABLE
from tests.unit.console.conftest import ADMIN, Browser
from tests.unit.manager.test_manager_oidc_file import RIGHT, written

BACK = ("plan-failback", "failback", "abort-failback", "plan-drill", "drill", "clean-drill", "reverse")


def test_settings_are_in_one_place_for_administrators_of_all_jobs(browser: Browser, manager: Manager) -> None:
    manager.secrets.set(ADMIN, "SHOP_PASSWORD", "not shown")
    manager.notifier.ways = {"webhook example": lambda _: None}
    browser.log_in(Role.ADMINISTRATOR)
    page = browser.page("/settings")
    assert "webhook example" in page and "secret.key" in page and "not shown" not in page
    assert "the last 100 of each job" in page
    assert "People log in with passwords of this manager alone" in page and ">Settings</a>" in page
    assert "every job, pump, router and receiver" in page
    manager.run_only(["capture", "pump"])
    assert "only capture, pump" in browser.page("/settings")
    browser.log_in(Role.ADMINISTRATOR, ("web-*",))
    browser.page("/settings", 403)
    browser.page("/settings/log-out-all", 403)
    word = browser.log_in(Role.OPERATOR)
    assert ">Settings</a>" not in browser.page("/")
    browser.send("/settings/log-out-all", 403, csrf=word)


def test_a_key_that_cannot_be_read_is_told_there(
    browser: Browser, manager: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser.log_in(Role.ADMINISTRATOR)
    monkeypatch.setenv(VARIABLE, "no key")
    assert "has what is no key" in browser.page("/settings")


def test_whom_a_provider_vouches_for_is_listed_and_logged_out(
    browser: Browser, manager: Manager, tmp_path: Path
) -> None:
    manager.sign_on_by(load_settings(written(tmp_path, RIGHT), {}))
    assert manager.oidc is not None
    secret = manager.oidc.sessions.begin("oidc:zoe", {"sub": "17", "groups": ["dba"], "address": "a street"})
    word = browser.log_in(Role.ADMINISTRATOR)
    page = browser.page("/settings")
    assert "oidc:zoe" in page and "https://login.example.org/realms/main" in page and "a street" not in page
    assert "1 session by the OpenID provider end" in browser.page("/settings/log-out-all")
    assert browser.send("/settings/log-out-all", csrf=word) == "/settings"
    assert manager.session(secret) is None and manager.audit.entries(1)[0].action == "logged_out_all"
    assert "Nobody is logged in by it" in browser.page("/settings"), "the administrator with a password stays"


@pytest.mark.parametrize("name", BACK)
def test_actions_of_the_way_back_say_what_comes_before_they_are_carried_out(browser: Browser, name: str) -> None:
    word = browser.log_in(Role.ADMINISTRATOR)
    page = browser.page(f"/jobs/shop/do/{name}")
    assert ACTIONS[name].comes[0].partition(":")[0] in page.replace("&#39;", "'")
    place = browser.send(f"/jobs/shop/do/{name}", csrf=word)
    operation = browser.manager.operations.operation(ADMIN, "shop", int(place.rpartition("/")[2]))
    assert operation.verb == ACTIONS[name].verb and list(operation.arguments) == ACTIONS[name].arguments(About())


def test_who_may_not_is_not_led_there(browser: Browser) -> None:
    word = browser.log_in(Role.VIEWER)
    browser.page("/jobs/shop/do/plan-failback")
    for name in ("failback", "drill", "reverse"):
        browser.page(f"/jobs/shop/do/{name}", 403)
        browser.send(f"/jobs/shop/do/{name}", 403, csrf=word)
    browser.log_in(Role.OPERATOR)
    browser.page("/jobs/shop/do/drill")
    browser.page("/jobs/shop/do/reverse", 403)
