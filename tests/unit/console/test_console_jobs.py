"""The pages of jobs in all their states, over HTTP, in this process. No server."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from markupsafe import escape

from anabranch.errors import TargetUnavailable
from anabranch.manager import Manager
from anabranch.manager.callers import Role
from anabranch.model.position import Position
from anabranch.state.store import StateStore
from tests.unit.console.conftest import ADMIN, Browser
from tests.unit.manager.test_manager_store import text

EVIL = "<script>alert(1)</script>\x1b[31m\u202e"


@pytest.fixture
def state(manager: Manager, monkeypatch: pytest.MonkeyPatch) -> Iterator[StateStore]:
    """Note what parts of the job `shop` do; each look at it is a new one."""
    monkeypatch.setattr("anabranch.manager.glances.KEPT_S", -1.0)
    (manager.home / "shop").mkdir()
    made = StateStore(manager.home / "shop")
    yield made
    made.close()


def runs(state: StateStore, *parts: str) -> None:
    for name in parts:
        state.part(name, os.getpid(), os.uname().nodename)


def status(*tables: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return what `status --json` has of a job with one target."""
    lag = {"seconds": 3.0, "bytes": 2_000_000, "stages": [], "culprit": {"text": "a lock", "since": None}}
    target = {"name": "postgresql://127.0.0.1:1/db", "lag": lag, "tables": list(tables), "applied": None}
    job = {"state": "streaming", "sub_state": "working", "state_detail": "", "positions": {"source_end": None}}
    return {**job, "targets": [target], **more}


def table(source: str, state: str = "streaming", reason: str = "") -> dict[str, Any]:
    facts = {"rows_loaded": 10, "changes_applied": 12_345, "set_aside": 2, "conflicts": 1}
    return {"source": source, "target": source, "state": state, "reason": reason, **facts}


def test_without_a_job_the_overview_says_what_to_do(browser: Browser) -> None:
    browser.log_in(Role.VIEWER, ("web-*",))
    assert "An administrator of this manager takes jobs in" in browser.page("/")
    browser.manager.remove(ADMIN, "shop")
    browser.log_in(Role.ADMINISTRATOR)
    assert "Make one of two URLs" in browser.page("/")


def test_the_overview_has_first_what_needs_a_person(browser: Browser, state: StateStore) -> None:
    for name in ("ab", "zz"):
        browser.manager.add(ADMIN, text(name))
    runs(state, "run", "capture", "apply")
    state.phase("streaming")
    browser.manager.glances.hear("zz", status(table("shop.t", "parked", "a reason")))
    browser.log_in()
    shown = browser.page("/")
    assert shown.index("/jobs/zz") < shown.index("/jobs/ab") < shown.index("/jobs/shop")
    assert "streaming" in shown and "stopped" in shown and 'hx-trigger="every 2s"' in shown
    assert 'hx-trigger="every 2s"' not in browser.page("/?live=no")
    part = browser.part("/parts/jobs")
    assert 'id="to-shop"' in part and "<html" not in part, "what has the focus is found again by its id"


def test_a_job_whose_file_cannot_be_used_says_so(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PW")
    browser.log_in()
    for path in ("/", "/jobs/shop"):
        assert "the environment variable PW is not set" in browser.page(path)
    monkeypatch.setenv("PW", "x")
    assert "PW is not set" not in browser.page("/jobs/shop"), "it is read anew"


def test_the_page_of_a_job_that_never_ran(browser: Browser) -> None:
    browser.log_in()
    shown = browser.page("/jobs/shop")
    assert "Both ends are asked" in shown and "has read nothing yet" in shown and "does not run" in shown
    assert 'hx-get="/jobs/shop/status" hx-trigger="load"' in shown


def test_the_page_of_a_job_that_loads_and_has_an_error(browser: Browser, state: StateStore) -> None:
    runs(state, "run", "capture", "load")
    state.phase("loading")
    state.progress(f"shop.{EVIL}", 25, 100)
    state.position("read", Position(7, "mysql-bin.000003:15499"))
    state.last_error(f"the target {EVIL} refuses", 6, "load", facts={"code": "target_refused"})
    browser.log_in()
    for shown in (browser.page("/jobs/shop"), browser.part("/jobs/shop/now")):
        assert "25 %" in shown and "7@mysql-bin.000003:15499" in shown and f"process {os.getpid()}" in shown
        assert "<script>alert" not in shown and "&lt;script&gt;" in shown and "target_refused" in shown
        assert "\x1b" not in shown and "\u202e" not in shown and "\\x1b" in shown


def test_ends_that_are_away_are_told_and_may_be_asked_again(browser: Browser) -> None:
    browser.log_in()
    shown = browser.part("/jobs/shop/status")
    assert shown.count("Not reached") == 2 and "Ask again" in shown and "No table is known yet" in shown
    assert browser.manager.glances.heard("shop") is not None
    browser.page("/jobs/shop/status")


def test_an_error_of_status_is_a_state_of_its_part(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise TargetUnavailable(f"no answer {EVIL}", hint="look at the server")

    monkeypatch.setattr(browser.manager, "status", fails)
    browser.log_in()
    shown = browser.part("/jobs/shop/status")
    assert "no answer &lt;script&gt;" in shown and "look at the server" in shown and "Ask again" in shown


def test_the_pipeline_says_what_passes_and_how_long_a_load_takes(
    browser: Browser, state: StateStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SimpleNamespace(now=100.0)
    clock.monotonic = lambda: clock.now
    monkeypatch.setattr("anabranch.manager.glances.time", clock)
    runs(state, "run", "capture", "load", "apply")
    state.phase("loading")

    def page(changes: int, bytes_: int, big: int, small: int) -> str:
        state.count("capture", {"changes_read": changes, "bytes_written": bytes_})
        state.count("apply", {"changes_applied": changes // 2})
        state.progress("shop.big", big, 1_000_000)
        state.progress("shop.small", small, 10)
        for part in ("capture", "apply"):
            state.seen(part)
        clock.now += 4.0
        return browser.part("/jobs/shop/now")

    browser.log_in()
    first = page(1000, 10_000, 0, 0)
    assert "changes/s" not in first and "How long it takes is not known yet" in first
    second = page(1000 + 4 * 1234, 10_000 + 4 * 5000, 400_000, 10)
    flows = re.findall(r'class="flow">(?:<span.*?</span>)?(.*?)</p>', second)
    assert flows == ["1,234 changes/s", "5.0 kB/s", "100,002 rows/s", "617 changes/s"], second
    assert "At 100,002 rows/s it takes about 6.0 s more." in second
    assert re.findall(r'<td class="figure">([^<]*)</td></tr>', second) == ["6.0 s", "-"]


def test_tables_come_in_pages_and_are_found_by_name_and_state(browser: Browser) -> None:
    many = [table(f"shop.t{number:03}") for number in range(120)]
    browser.manager.glances.hear("shop", status(*many, table("shop.zz", "dropped", f"gone {EVIL}")))
    browser.log_in()
    first = browser.part("/jobs/shop/status")
    assert first.index("shop.zz") < first.index("shop.t000") and "shop.t048" in first and "shop.t049" not in first
    assert "121 tables, page 1 of 3" in first and "page=2" in first and "12,345" in first and "a lock" in first
    assert "shop.t119" in browser.part("/jobs/shop/status?page=99") and "<script>alert" not in first
    found = browser.page("/jobs/shop/status?text=T11&state=streaming")
    assert "10 tables, page 1 of 1" in found and "shop.zz" not in found
    assert "fits what you look for" in browser.part("/jobs/shop/status?text=none")


def test_a_parked_table_has_its_way_back(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    from anabranch.lifecycle.parking import ParkedTable
    from anabranch.model.ids import TableId

    one, other = TableId("shop", "a b"), TableId("shop", "c")
    found = [
        (
            "",
            ParkedTable(
                one, one, f"why {EVIL}", 7, "7@x", 3, 400, f"anabranch parked resume JOB {shlex.quote(str(one))}"
            ),
        ),
        ("", ParkedTable(other, other, "w", None, "", 0, 0, f"anabranch load JOB --table {other}")),
    ]
    monkeypatch.setattr(browser.manager, "parked", lambda *_: found)
    browser.manager.glances.hear("shop", status(table("shop.a b", "parked", "why")))
    browser.log_in()
    shown = browser.part("/jobs/shop/status")
    assert f"shop.toml {escape(shlex.quote(str(one)))}</code>" in shown and "anabranch parked resume" in shown
    assert "anabranch load" in shown and "3 row images wait" in shown and "<script>alert" not in shown


@pytest.mark.parametrize("action", ["start", "stop", "restart"])
def test_what_comes_of_an_action_is_said_before_it(browser: Browser, action: str) -> None:
    word = browser.log_in()
    assert f"{action.capitalize()} shop?" in browser.page(f"/jobs/shop/{action}")
    assert browser.send(f"/jobs/shop/{action}", csrf=word) == "/jobs/shop"
    assert browser.manager.jobs.job("shop").is_wanted == (action != "stop")
    browser.send(f"/jobs/shop/{action}", code=403, csrf="another")


@pytest.mark.parametrize("action", ["start", "stop", "restart"])
def test_a_viewer_may_look_only(browser: Browser, action: str) -> None:
    word = browser.log_in(Role.VIEWER)
    assert "operators start and stop jobs" in browser.page("/jobs/shop")
    assert "You may not do this" in browser.page(f"/jobs/shop/{action}", 403)
    browser.send(f"/jobs/shop/{action}", code=403, csrf=word)
    assert not browser.manager.jobs.job("shop").is_wanted


@pytest.mark.parametrize("path", ["", "/now", "/status", "/start"])
def test_a_job_that_one_may_not_see_is_not_there(browser: Browser, path: str) -> None:
    browser.log_in(Role.OPERATOR, ("web-*",))
    seen, other = browser.page(f"/jobs/shop{path}", 404), browser.page(f"/jobs/none{path}", 404)
    assert seen.replace("shop", "none") == other


def test_passwords_in_a_job_file_are_for_administrators_alone(browser: Browser) -> None:
    literal = text("lit").replace("${PW}", "hun:ter2@x", 1)
    browser.manager.add(ADMIN, literal)
    browser.manager.change(ADMIN, "lit", literal.replace("ter2", "ter3"))
    assert all("ter" not in str(entry.after) for entry in browser.manager.audit.entries())
    for role in Role:
        browser.log_in(role)
        shown = browser.page("/jobs/lit")
        assert ("hun:ter3@x" in shown) == (role is Role.ADMINISTRATOR) and "${PW}" in shown
