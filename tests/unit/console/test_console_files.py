"""Job files in the console: made, changed with the difference shown first, restored. In this process, without a server."""

from __future__ import annotations

import re

import pytest

from anabranch.manager.callers import Role
from tests.unit.console.conftest import ADMIN, Browser
from tests.unit.manager.test_manager_store import text

EVIL = "</textarea><script>alert(1)</script>"


def seen(shown: str) -> str:
    found = re.search(r'name="seen" value="([0-9a-f]+)"', shown)
    assert found is not None
    return found[1]


def test_a_job_is_made_of_two_urls_looked_at_and_taken_in(browser: Browser) -> None:
    word = browser.log_in(Role.ADMINISTRATOR)
    browser.page("/new")
    urls = {"source": "mysql://u:${PW}@127.0.0.1:1", "target": "postgresql://u:${PW}@127.0.0.1:1/db"}
    shown = browser.send("/new/draft", 200, csrf=word, name="made", tables="shop.*, web.*", **urls)
    assert "[&#34;shop.*&#34;, &#34;web.*&#34;]" in shown and "mysql://u:${PW}@127.0.0.1:1" in shown
    made = text("made")
    assert "This is the file of a job made" in browser.send("/new", 200, csrf=word, text=made, act="check")
    assert not [one for one in browser.manager.jobs.all() if one.name == "made"]
    assert browser.send("/new", csrf=word, text=made.replace("\n", "\r\n"), note="by hand", act="save") == "/jobs/made"
    assert browser.manager.jobs.version("made").text == made and not browser.manager.jobs.job("made").is_wanted


def test_problems_of_a_file_are_shown_at_their_lines(browser: Browser) -> None:
    word = browser.log_in(Role.ADMINISTRATOR)
    wrong = text("other").replace("[target]", f"[traget]  # {EVIL}")
    for act in ("check", "save"):
        shown = browser.send("/new", 422, csrf=word, text=wrong, act=act)
        assert "line " in shown and "traget" in shown and "<script>" not in shown
    assert "already" in browser.send("/new", 422, csrf=word, text=text(), act="save")


def test_a_change_is_shown_before_it_is_saved(browser: Browser) -> None:
    word = browser.log_in(Role.ADMINISTRATOR)
    assert "[target]" in browser.page("/jobs/shop/edit")
    changed = text(more=f"# {EVIL}\n")
    fields = {"csrf": word, "version": "1", "text": changed, "note": "why"}
    shown = browser.send("/jobs/shop/edit", 200, **fields, act="save")
    assert "<ins>+# &lt;/textarea&gt;" in shown and browser.manager.jobs.job("shop").version == 1, (
        "it was not shown yet"
    )
    mark = seen(shown)
    other = browser.send("/jobs/shop/edit", 200, **(fields | {"text": text(more="# x\n")}), act="save", seen=mark)
    assert "<ins>+# x" in other, "another text than the one that was shown"
    assert browser.send("/jobs/shop/edit", **fields, act="save", seen=mark) == "/jobs/shop"
    assert browser.manager.jobs.version("shop").text == changed
    late = browser.send("/jobs/shop/edit", 409, **fields, act="save", seen=mark)
    assert "somebody else has changed it" in late
    browser.send("/jobs/shop/edit", 422, **(fields | {"text": "name ="}), act="look")
    same = {**fields, "version": "2"}
    assert "Nothing differs" in browser.send("/jobs/shop/edit", 200, **same, act="look")


def test_versions_are_listed_compared_and_taken_up_again(browser: Browser) -> None:
    literal = text().replace("${PW}", "hunter2", 1)
    browser.manager.change(ADMIN, "shop", literal, f"note {EVIL}")
    browser.manager.change(ADMIN, "shop", literal.replace("hunter2", "hunter3"))
    word = browser.log_in(Role.ADMINISTRATOR)
    assert "3</a>, the present one" in browser.page("/jobs/shop/versions")
    shown = browser.page("/jobs/shop/versions/2")
    assert "<del>-url" in shown and shown.count("hunter2") == 1, "in the file itself, not in the difference"
    assert "Only passwords differ" in browser.page("/jobs/shop/versions/3")
    browser.page("/jobs/shop/versions/1?against=3")
    browser.page("/jobs/shop/versions/9", 404)
    assert browser.send("/jobs/shop/versions/1/restore", csrf=word, present="3") == "/jobs/shop/versions"
    assert browser.manager.jobs.version("shop").text == text() and browser.manager.jobs.job("shop").version == 4
    browser.send("/jobs/shop/versions/2/restore", 409, csrf=word, present="3")
    for role in (Role.VIEWER, Role.OPERATOR):
        browser.log_in(role)
        assert "hunter" not in browser.page("/jobs/shop/versions/2") + browser.page("/jobs/shop/versions")


def test_an_administrator_of_some_jobs_changes_these_and_no_program_in_them(browser: Browser) -> None:
    word = browser.log_in(Role.ADMINISTRATOR, ("shop",))
    assert "[target]" in browser.page("/jobs/shop/edit")
    fields = {"csrf": word, "version": "1", "note": ""}
    wrong = browser.send("/jobs/shop/edit", 422, **fields, text="name =", act="look")
    assert "is not TOML" in wrong
    flip = text(more='[cutover]\nflip = ["sh", "-c", "id"]\n')
    for act in ("look", "save"):
        shown = browser.send("/jobs/shop/edit", 403, **fields, text=flip, act=act)
        assert "[cutover] flip" in shown and "&#34;id&#34;" in shown, "what was typed is still there"
    changed = text(more="[cutover]\ngrace = 5\n")
    shown = browser.send("/jobs/shop/edit", 200, **fields, text=changed, act="look")
    assert "<li>[cutover] grace: holds for the next command</li>" in shown
    mark = seen(shown)
    assert browser.send("/jobs/shop/edit", **fields, text=changed, act="save", seen=mark) == "/jobs/shop"
    assert browser.manager.jobs.version("shop").text == changed
    browser.page("/new", 403)


@pytest.mark.parametrize("path", ["/new", "/jobs/shop/edit"])
def test_job_files_are_for_administrators_to_change(browser: Browser, path: str) -> None:
    word = browser.log_in(Role.OPERATOR)
    assert "You may not do this" in browser.page(path, 403)
    browser.send(path, 403, csrf=word, text=text("x"), version="1", act="save")
    browser.send("/jobs/shop/versions/1/restore", 403, csrf=word, present="1")
    assert "New job" not in browser.page("/")


@pytest.mark.parametrize("path", ["/edit", "/versions", "/versions/1", "/log", "/trace", "/preflight"])
def test_pages_of_a_job_that_one_may_not_see_are_not_there(browser: Browser, path: str) -> None:
    browser.log_in(Role.ADMINISTRATOR, ("web-*",))
    browser.page(f"/jobs/shop{path}", 404)
