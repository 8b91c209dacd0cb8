"""Secrets in the console, in this process. Without a server."""

from __future__ import annotations

import pytest

from anabranch.manager.callers import Role
from tests.unit.console.conftest import ADMIN, Browser

VALUE = "S3cret@ of a shop"


def test_a_secret_is_set_and_removed_and_its_value_shown_never(browser: Browser) -> None:
    word = browser.log_in(Role.ADMINISTRATOR)
    assert "There is no secret yet" in browser.page("/secrets") and 'href="/secrets"' in browser.page("/")
    fields = {"csrf": word, "name": " PW ", "value": VALUE, "jobs": "shop"}
    shown = browser.send("/secrets", 200, **fields)
    assert 'href="/jobs/shop/restart"' in shown and VALUE not in shown + browser.page("/secrets")
    assert browser.manager.secrets.find("PW", "shop") == VALUE
    refused = browser.send("/secrets", 422, **(fields | {"name": "PATH"}))
    assert "programs read themselves" in refused and VALUE not in refused
    assert "shop cannot start again" in browser.page("/secrets/PW/remove")
    browser.page("/secrets/NONE/remove", 404)
    assert "has its value. No job file has" in browser.send("/secrets", 200, **(fields | {"name": "OTHER"}))
    assert browser.send("/secrets/PW/remove", csrf=word) == "/secrets"
    browser.manager.store.path.with_name("secret.key").unlink()
    assert "its key is not there" in browser.page("/secrets")


@pytest.mark.parametrize(("role", "jobs"), [(Role.OPERATOR, "*"), (Role.ADMINISTRATOR, "shop")])
def test_secrets_are_for_administrators_of_all_jobs(browser: Browser, role: Role, jobs: str) -> None:
    browser.manager.secrets.set(ADMIN, "PW", VALUE)
    word = browser.log_in(role, (jobs,))
    browser.page("/secrets", 403)
    browser.page("/secrets/PW/remove", 403)
    browser.send("/secrets", 403, csrf=word, name="PW", value="x")
    browser.send("/secrets/PW/remove", 403, csrf=word)
    assert 'href="/secrets"' not in browser.page("/") and browser.manager.secrets.find("PW", "shop") == VALUE
