"""Answer a browser where there is nothing for it, over HTTP, in this process. No server."""

from __future__ import annotations

from anabranch.manager.callers import Role
from tests.unit.console.conftest import Browser


def test_an_address_without_a_page_has_a_page_that_says_so(browser: Browser) -> None:
    assert "There is no such page" in browser.page("/nothing/here", 404), "also without a login"
    browser.log_in()
    assert "Log out" in browser.page("/nothing", 404)


def test_programs_are_told_by_problems_and_people_by_pages(browser: Browser) -> None:
    browser.log_in()
    for path in ("/jobs/none", "/nothing"):
        answer = browser.client.get(path, headers={"Accept": "application/json"})
        assert (answer.status_code, answer.headers["content-type"]) == (404, "application/problem+json")
    assert browser.client.get("/api/v1/jobs/none").headers["content-type"] == "application/problem+json"
    assert browser.client.get("/static/style.css").headers["content-type"].startswith("text/css")


def test_a_part_leads_the_whole_page_to_the_login(browser: Browser) -> None:
    answer = browser.client.get("/parts/jobs", headers={"HX-Request": "true"})
    assert (answer.status_code, answer.headers["hx-redirect"]) == (401, "/login")


def test_a_wrong_request_is_a_page_and_a_part(browser: Browser) -> None:
    browser.log_in(Role.VIEWER)
    browser.page("/jobs/shop/status?page=none", 422)
    assert "<html" not in browser.part("/jobs/shop/status?page=0", 422)


def test_the_pages_of_who_is_there_can_be_used_by_everybody(browser: Browser) -> None:
    assert "Log in" in browser.page("/login")
    browser.log_in()
    browser.page("/password")


def test_htmx_needs_no_style_and_no_evaluation_in_the_page(browser: Browser) -> None:
    shown = browser.page("/login")
    assert '"includeIndicatorStyles": false' in shown and '"allowEval": false' in shown
    script = browser.client.get("/static/htmx.min.js")
    assert script.status_code == 200 and "script" in script.headers["content-type"] and "htmx" in script.text
