"""Users, tokens and the audit in the console, in this process. Without a server."""

from __future__ import annotations

import re

import pytest

from anabranch.manager.callers import Caller, Role
from tests.unit.console.conftest import ADMIN, Browser

EVIL = "<script>alert(1)</script>\x07"


def made(shown: str) -> str:
    found = re.search(r'id="made">([^<]+)<', shown)
    assert found is not None
    return found[1]


def test_a_user_is_added_gets_a_password_once_and_is_removed(browser: Browser) -> None:
    word = browser.log_in(Role.ADMINISTRATOR)
    fields = {"csrf": word, "name": "bob", "role": "viewer", "jobs": "web-*, shop"}
    password = made(browser.send("/users", 200, **fields))
    found = browser.manager.accounts.checked("bob", password)
    assert found is not None and found.must_change and found.jobs == ("web-*", "shop")
    assert password not in browser.page("/users") and "for one login" in browser.page("/users")
    assert "there is a user bob already" in browser.send("/users", 422, **fields)
    assert "is no user" in browser.send("/users", 422, **(fields | {"name": EVIL}))
    browser.send("/users", 422, **(fields | {"role": "king"}))
    for action in ("password", "remove"):
        assert "logged out at once" in browser.page(f"/users/bob/{action}")
    other = made(browser.send("/users/bob/password", 200, csrf=word))
    assert browser.manager.accounts.checked("bob", password) is None and browser.manager.accounts.checked("bob", other)
    assert browser.send("/users/bob/remove", csrf=word) == "/users"
    browser.page("/users/bob/remove", 404)
    browser.send("/users/bob/password", 404, csrf=word)
    assert "last administrator" in browser.send("/users/administrator0/remove", 422, csrf=word)
    told = [(one.action, str(one.before), str(one.after)) for one in browser.manager.audit.entries()]
    assert {"user_added", "password_set", "user_removed"} <= {action for action, *_ in told}
    assert not any(password in text or other in text for _, *texts in told for text in texts)


def test_a_token_is_made_shown_once_and_revoked(browser: Browser) -> None:
    word = browser.log_in(Role.ADMINISTRATOR)
    assert "There is no token yet" in browser.page("/tokens")
    fields = {"csrf": word, "name": f"ci {EVIL}", "role": "operator", "days": "7"}
    text = made(browser.send("/tokens", 200, **fields))
    caller = browser.manager.tokens.caller(text, "")
    assert caller is not None and caller.role is Role.OPERATOR
    shown = browser.page("/tokens")
    assert text not in shown and "<script>alert" not in shown and "\\x07" in shown
    number = browser.manager.tokens.all()[0].id
    assert "cannot be taken back" in browser.page(f"/tokens/{number}/revoke")
    assert browser.send(f"/tokens/{number}/revoke", csrf=word) == "/tokens"
    assert browser.manager.tokens.caller(text, "") is None and "revoked" in browser.page("/tokens")
    browser.page("/tokens/none/revoke", 404)
    for days in ("0", "-1", "nan", "x"):
        browser.send("/tokens", 422, **(fields | {"days": days}))


def test_the_audit_is_shown_in_pages_and_of_one_job(browser: Browser) -> None:
    browser.log_in(Role.ADMINISTRATOR)
    who = Caller(f"eve {EVIL}", "session", Role.VIEWER, (), "10.0.0.9")
    for number in range(101):
        browser.manager.audit.note(who, "login_refused", after=f"number {number}")
    first = browser.page("/audit")
    assert "number 100" in first and ">number 0<" not in first and "<script>alert" not in first and "10.0.0.9" in first
    older = re.search(r'href="(/audit\?before=\d+[^"]*)"', first)
    assert older is not None
    rest = browser.page(older[1].replace("&amp;", "&"))
    assert ">number 0<" in rest and "number 100" not in rest and "job added" in rest
    assert "job added" in browser.page("/audit?job=shop") and "login" not in browser.page("/audit?job=shop")
    assert "Nobody has done anything" in browser.page("/audit?job=none")


@pytest.mark.parametrize(("role", "jobs"), [(Role.VIEWER, "*"), (Role.OPERATOR, "*"), (Role.ADMINISTRATOR, "shop")])
def test_users_tokens_and_audit_are_for_administrators_of_all_jobs(browser: Browser, role: Role, jobs: str) -> None:
    browser.manager.accounts.create("bob", "four words are long", Role.VIEWER, ("*",))
    browser.manager.tokens.create(Role.VIEWER, "ci", ("*",), ADMIN.name)
    number = browser.manager.tokens.all()[0].id
    word = browser.log_in(role, (jobs,))
    for path in ("/users", "/tokens", "/audit", "/users/bob/remove", "/users/none/remove", f"/tokens/{number}/revoke"):
        assert "You may not do this" in browser.page(path, 403)
    fields = {"csrf": word, "name": "eve", "role": "administrator", "days": "1"}
    for path in ("/users", "/tokens", "/users/bob/remove", "/users/bob/password", f"/tokens/{number}/revoke"):
        browser.send(path, 403, **fields)
    assert [one.name for one in browser.manager.accounts.all()] == sorted(["bob", f"{role}1"])
    assert browser.manager.tokens.all()[0].revoked is None and len(browser.manager.tokens.all()) == 1
    assert "/users" not in browser.page("/")


def test_ones_own_password_is_reached_from_every_page(browser: Browser) -> None:
    browser.log_in(Role.VIEWER)
    assert 'href="/password"' in browser.page("/")
