"""A Chromium goes through every page of the console, and does what people do there, with a job of two real servers."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from anabranch import console
from anabranch.testing.servers import Server
from rigs.browser import Window, patterns, window
from rigs.scenario import Scenario, repeating
from rigs.served import Served

Make = Callable[..., Scenario]
QUICK = Path(__file__).parents[1] / "rigs" / "quick"
PASSWORD = "four words are long"
PARTS = {"/parts/jobs", "/jobs/{name}/now"}  # of pages, and asked for by them
BY_PROVIDER = {"/login/oidc", "/login/oidc/callback"}  # of tests/scenarios/test_scenario_sign_on.py
TABLES = (
    "CREATE TABLE customer (id INT PRIMARY KEY, name VARCHAR(40), town VARCHAR(40))",
    "CREATE TABLE orders (id INT PRIMARY KEY, customer INT, amount DECIMAL(10, 2))",
    "CREATE TABLE tick (id INT PRIMARY KEY, n INT)",
    "INSERT INTO tick VALUES (1, 0)",
    "INSERT INTO customer VALUES (1, 'Ada', 'Ghent'), (2, 'Ben <b>', 'Graz'), (3, 'Cid', 'Gera')",
    "INSERT INTO orders VALUES (10, 1, 12.50), (11, 2, 7.00)",
)


@pytest.mark.quick
def test_a_browser_goes_through_every_page_and_does_what_people_do(
    mariadb: Server, scenario: Make, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    made = scenario(mariadb, *TABLES)
    made.write_job('[ddl]\nadd_column = "park"\ndrop_column = "ask"\n[cutover]\nflip = ["false"]\n')
    environment = made.environment | {"PYTHONPATH": f"{QUICK}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    (made.directory / "output").mkdir(exist_ok=True)
    manager = Served(environment, made.directory / "output" / "serve")
    try:
        manager.wait_health()
        with window(manager.url, tmp_path, request.config.getoption("--screenshots")) as seen:
            somebody_logs_in(seen, manager)
            a_job_is_made_and_started(seen, made)
            made.wait_streaming(manager.process)
            made.source.execute("ALTER TABLE orders ADD COLUMN paid INT")
            made.sync()
            every_page_of_a_job_can_be_used(seen)
            with repeating(
                lambda: made.source.execute("UPDATE tick SET n = n + 1"), 0.5
            ):  # what waits for the log goes on
                a_parked_table_is_brought_back(seen, made)
                the_trail_and_comparisons_are_looked_at(seen)
                a_change_that_waits_is_approved(seen, made)
            a_cut_over_whose_flip_fails_is_shown_step_by_step(seen, made)
            a_job_is_changed_restarted_and_stopped(seen)
            people_are_let_in(seen)
            what_is_not_there_is_a_page(seen)
            every_page_was_seen(seen)
            assert seen.wrong == []
    finally:
        note_processes(manager)
        manager.close()


def note_processes(manager: Served) -> None:
    """Let the job's process end with the manager."""
    manager.token = manager.command("token", "create", "--role", "administrator", "--name", "test")
    if manager.ask("GET", "/api/v1/jobs/shop")[0] == 200:
        manager.job("shop")


def somebody_logs_in(seen: Window, manager: Served) -> None:
    found = re.search(r"with the password (\S+)", manager.process.stderr)
    assert found
    seen.look("/login")
    seen.open("/jobs/none", "main form")  # which leads to the login, and comes back
    seen.page.keyboard.type("admin")
    seen.page.keyboard.press("Tab")
    seen.page.keyboard.type(found[1])
    seen.page.keyboard.press("Enter")
    seen.page.wait_for_url(f"{seen.url}/password")
    seen.look("/password")
    seen.fill(present=found[1], wanted=PASSWORD)
    seen.press("Save", "/login")
    seen.fill(name="admin", password=PASSWORD)
    seen.press("Log in", "/")
    seen.look("/?live=no")
    assert "There is no job yet" in seen.text()


def a_job_is_made_and_started(seen: Window, made: Scenario) -> None:
    text = made.job_file.read_text()
    seen.look("/new")
    source, target = re.findall(r'url = "([^"]+)"', text)
    seen.fill(source=source, target=target, tables=f"{made.schema}.*")
    seen.page.locator("main [name=name]").fill("shop")
    seen.press("Write a job file of this")
    assert f'url = "{source}"' in seen.page.input_value("textarea")
    seen.fill(text="name = 1")
    seen.press("Check", is_refused=True)
    seen.fill(text=text)
    seen.press("Check")
    assert "This is the file of a job shop" in seen.text()
    seen.press("Take it in", "/jobs/shop")
    seen.look("/jobs/shop/preflight", "#checks table", picture="preflight-1280")
    seen.look("/jobs/shop/start")
    seen.press("Start", "/jobs/shop")
    seen.page.wait_for_selector("#now .state:has-text('streaming')")  # by itself


def every_page_of_a_job_can_be_used(seen: Window) -> None:
    seen.look("/jobs/shop/status?fresh=1", "#tables")
    assert "orders" in seen.text() and "parked" in seen.text()
    seen.open("/jobs/shop?live=no", "#status #tables")
    seen.walk_by_keyboard()
    seen.look("/jobs/shop?live=no", "#status #tables", picture="job-1280")
    seen.look("/?live=no", "#jobs-table", picture="overview-390")
    seen.open("/jobs/shop/status", "#tables")
    seen.page.fill("#table-text", "customer")
    seen.press("Show")
    seen.page.wait_for_selector("caption:has-text('1 table,')")
    seen.look("/jobs/shop/log", "main pre")
    seen.look("/jobs/shop/trace")
    seen.press("Show")


def a_parked_table_is_brought_back(seen: Window, made: Scenario) -> None:
    seen.open("/jobs/shop/status?state=parked", "#table-1")
    path = seen.page.get_attribute("#table-1", "href") or ""
    seen.look(path, "#table dl.facts", picture="table-1280")
    assert "ADD COLUMN paid" in seen.text() and "amount: decimal(10,2)" in seen.text()
    seen.press("Make it anew, and load …")
    seen.page.wait_for_selector("main form")
    seen.look(seen.page.url.removeprefix(seen.url))
    seen.press("Make it anew, and load")
    seen.page.wait_for_selector("#operation .state:has-text('done')")  # by itself
    operation = seen.page.url.removeprefix(seen.url)
    seen.look(operation, "#operation dl.facts")
    seen.look(f"{operation}/cancel")
    seen.look("/jobs/shop/operations")
    made.source.execute("INSERT INTO orders VALUES (12, 3, 1.00, 1)")
    made.sync()
    made.assert_identical("orders")
    seen.open(path, "#table .state.good")


def the_trail_and_comparisons_are_looked_at(seen: Window) -> None:
    seen.look("/jobs/shop/trail?after=0", "#rows")
    seen.fill(key="id=12")
    seen.press("Show")
    seen.page.wait_for_selector("caption:has-text('1 row behind')")
    assert "amount = 1.00" in seen.text()
    seen.look("/jobs/shop/verification", "#ask-again")
    seen.press("Compare both ends …")
    seen.press("Compare")
    seen.page.wait_for_selector("#operation .state:has-text('done')")
    assert "identical" in seen.text()
    seen.look("/jobs/shop/verification", "#asked")
    seen.look("/alerts")


def a_change_that_waits_is_approved(seen: Window, made: Scenario) -> None:
    made.source.execute("ALTER TABLE customer DROP COLUMN town")
    made.source.execute("INSERT INTO customer VALUES (4, 'Dee')")
    made.sync()
    seen.look("/jobs/shop/definitions", "#approve-1", picture="definitions-1280")
    assert "DROP COLUMN town" in seen.text()
    for name in ("Go on without it …", "I have altered the table …"):
        seen.press(name)
        seen.page.wait_for_selector("main h1:has-text('?')")
        seen.open("/jobs/shop/definitions", "#approve-1")
    seen.press("Carry it out …")
    seen.press("Carry it out")
    seen.page.wait_for_selector("#operation .state:has-text('done')")
    made.wait_streaming()
    made.sync()
    made.assert_identical("customer")
    seen.open("/jobs/shop/definitions", "#ask-again")
    assert "No table waits for a decision" in seen.text()


def a_cut_over_whose_flip_fails_is_shown_step_by_step(seen: Window, made: Scenario) -> None:
    seen.look("/jobs/shop/cutover", "#ask-again")
    for name in (
        "Look what is in the way back …",
        "Show that the way back works …",
        "Write the job file of the way back …",
    ):
        seen.press(name)
        seen.page.wait_for_selector("main h1:has-text('?')")
        seen.open("/jobs/shop/cutover", "#ask-again")
    seen.press("Look what is in the way …")
    seen.press("Look what is in the way")
    seen.page.wait_for_selector("#operation .state:has-text('done')")
    seen.open("/jobs/shop/cutover", "#ask-again")
    seen.press("Cut over …")
    seen.press("Cut over")
    seen.page.wait_for_selector("#operation .state:has-text('failed')")
    seen.look("/jobs/shop/cutover", "#ask-again", picture="cutover-1280")
    assert "aborted" in seen.text() and "the source takes writes" in seen.text()
    made.source.execute("INSERT INTO customer VALUES (5, 'Eve')")
    made.sync()


def a_job_is_changed_restarted_and_stopped(seen: Window) -> None:
    seen.look("/jobs/shop/edit")
    seen.fill(text=seen.page.input_value("textarea") + "# a word\n", note="for a test")
    seen.press("Show what would change")
    assert "+# a word" in seen.text()
    seen.press("Save this", "/jobs/shop")
    seen.look("/jobs/shop/versions")
    seen.look("/jobs/shop/versions/1")
    seen.press("Take version 1 up again", "/jobs/shop/versions")
    seen.look("/jobs/shop/promote")
    ends = "source=mysql://repl@production:3306\ntarget=postgresql://app@copy:5432/shop"
    seen.fill(into="shop-prod", ends=ends)
    seen.press("Show what would change")
    assert "The new job shop-prod, against shop" in seen.text() and "repl@production" in seen.text()
    seen.look("/jobs/shop/restart")
    seen.press("Restart", "/jobs/shop")
    seen.look("/jobs/shop/stop")
    seen.press("Stop", "/jobs/shop")
    seen.page.wait_for_selector("#now .state:has-text('stopped')")


def people_are_let_in(seen: Window) -> None:
    seen.look("/tokens")
    seen.fill(name="ci", role="viewer")
    seen.press("Make it")
    seen.page.wait_for_selector("#made")
    seen.open("/tokens")
    seen.press("Revoke ci …")
    seen.page.wait_for_selector("main form")
    seen.look(seen.page.url.removeprefix(seen.url))
    seen.press("Revoke", "/tokens")
    seen.look("/users")
    seen.fill(name="bob", role="viewer", jobs="web-*")
    seen.press("Add")
    given = seen.page.inner_text("#made")
    seen.look("/users/bob/password")
    seen.look("/audit")
    seen.look("/settings")
    seen.look("/settings/log-out-all")
    seen.open("/secrets")
    seen.fill(name="OTHER_PASSWORD", value="not shown")
    seen.page.locator("main form button").last.click()
    seen.page.wait_for_selector("main tbody th:has-text('OTHER_PASSWORD')")
    seen.look("/secrets")
    assert "not shown" not in seen.page.content()
    seen.look("/secrets/OTHER_PASSWORD/remove")
    a_viewer_sees_only_what_is_hers(seen, given)
    seen.look("/users/bob/remove")
    seen.press("Remove", "/users")


def a_viewer_sees_only_what_is_hers(seen: Window, given: str) -> None:
    seen.press("Log out", "/login")
    for password, path in ((given, "/password"), (PASSWORD, "/")):
        seen.fill(name="bob", password=password)
        seen.press("Log in", path)
        if path == "/password":
            seen.fill(present=given, wanted=PASSWORD)
            seen.press("Save", "/login")
    seen.look("/?live=no")
    assert "An administrator of this manager takes jobs in" in seen.text()
    seen.look("/users", code=403)
    seen.look("/jobs/shop", code=404)
    seen.press("Log out", "/login")
    seen.fill(name="admin", password=PASSWORD)
    seen.press("Log in", "/")


def what_is_not_there_is_a_page(seen: Window) -> None:
    seen.look("/nothing", code=404)
    seen.look("/jobs/none", code=404)


def every_page_was_seen(seen: Window) -> None:
    missed = [
        path for path, regex in patterns(console.PARTS)
        if path not in PARTS | BY_PROVIDER and not any(regex.match(one) for one in seen.seen)
    ]  # fmt: skip
    assert missed == []
