"""The pages of hops of a trail: in the list, each with its delays, its forms, without what only jobs have. No process."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from anabranch.manager import Manager
from anabranch.manager.callers import Role
from anabranch.state.store import StateStore
from anabranch.trail.lock import OsLock
from anabranch.transport.hop_state import FOLDER, HopState
from rigs.hop_files import pump_file, receive_file, route_file
from unit.console.conftest import ADMIN, Browser
from unit.transport.conftest import begun


@pytest.fixture
def way(manager: Manager, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A receiver, a router and a pump that runs and has said how far it is; the trail's directory."""
    monkeypatch.setattr("anabranch.manager.glances.KEPT_S", -1.0)
    directory = tmp_path / "a"
    begun(directory).close()
    files = (receive_file(tmp_path, 7421), route_file(tmp_path, 7420, 7421))
    for file in (*files, pump_file(tmp_path, directory, "trail+tcp://127.0.0.1:7420/shop")):
        manager.add(ADMIN, file.read_text())
    said = HopState("hop", "trail+tcp://127.0.0.1:7420/shop", "sending", 9, 8, 7, 12_000, 500, 4.5)
    said.legs = [("dmz", 0.0018), ("in", 0.25)]
    said.at = time.time() + 3600  # so that it is new for as long as the test takes
    (directory / FOLDER).mkdir(exist_ok=True)
    said.save(directory)
    (manager.home / "hop").mkdir()
    lock, state = OsLock(directory / FOLDER / "hop.lock"), StateStore(manager.home / "hop")
    state.part("run", os.getpid(), os.uname().nodename)
    state.phase("streaming")
    yield directory
    state.close()
    lock.close()


def test_hops_are_listed_by_what_they_are_and_parked_tables_are_not_theirs(browser: Browser, way: Path) -> None:
    browser.log_in()
    page = browser.page("/")
    assert all(f'<span class="soft">{noun}</span>' in page for noun in ("receiver", "router", "pump"))
    assert page.count("not asked") == 1  # of the job


def test_the_page_of_a_pump_has_every_hop_with_its_delay(browser: Browser, way: Path) -> None:
    browser.log_in()
    page = browser.page("/jobs/hop")
    assert "1.8 ms" in page and "250.0 ms" in page and "Lag: <strong>4.5 s</strong>" in page
    assert "durable up to 7" in page and "✔" in page
    assert "/jobs/hop/log" in page and "/jobs/hop/versions" in page
    assert "/jobs/hop/preflight" not in page and "What both ends say" not in page
    assert "1.8 ms" in browser.part("/jobs/hop/now")


def test_a_pump_whose_next_store_is_away_waits_and_says_why(browser: Browser, way: Path) -> None:
    said = json.loads((way / FOLDER / "hop.json").read_text())
    (way / FOLDER / "hop.json").write_text(json.dumps(said | {"state": "waiting: disk full <b>"}))
    browser.log_in()
    assert "disk full &lt;b&gt;" in browser.page("/jobs/hop")
    assert "disk full &lt;b&gt;" in browser.page("/")


def test_the_page_of_a_receiver_has_its_trails_and_that_of_a_router_its_ways(browser: Browser, way: Path) -> None:
    begun(way.parent / "in" / "shop").close()
    (way.parent / "in" / "broken").mkdir()
    (way.parent / "in" / "broken" / "trail.json").write_text("{")
    browser.log_in()
    page = browser.page("/jobs/in")
    assert "shop" in page and "cannot be read" in page and "does not run" in page
    page = browser.page("/jobs/dmz")
    assert "trail+tcp://127.0.0.1:7421" in page and "says how long each hop takes" in page


@pytest.mark.parametrize(
    ("name", "action", "said"),
    [
        ("in", "start", "writes the trails that its file allows"),
        ("dmz", "start", "passes on what the file has a way for"),
        ("hop", "start", "goes on where that one is"),
        ("in", "stop", "nothing passes here"),
        ("hop", "restart", "starts again with version 1"),
    ],
)
def test_what_comes_of_an_action_is_said_before(browser: Browser, way: Path, name: str, action: str, said: str) -> None:
    browser.log_in()
    page = browser.page(f"/jobs/{name}/{action}")
    assert said in page and "Capture, load and apply" not in page and "Preflight comes first" not in page


@pytest.mark.parametrize("kind", ["receive", "route", "pump"])
def test_the_form_of_a_new_hop_begins_with_a_file_that_fits(browser: Browser, manager: Manager, kind: str) -> None:
    csrf = browser.log_in(Role.ADMINISTRATOR)
    page = browser.page(f"/new?kind={kind}")
    assert f'href="/new?kind={kind}"' in page
    from anabranch.config.hop_kinds import Kind, kind_of
    from anabranch.console.file_pages import drafted_hop

    drafted = drafted_hop(Kind(kind))
    assert kind_of(drafted) == kind
    answer = browser.client.post("/new", data={"csrf": csrf, "text": drafted, "act": "check"})
    assert answer.status_code == 200 and f"the file of a {Kind(kind).noun}" in answer.text


@pytest.mark.parametrize("page", ["preflight", "definitions", "cutover", "trail", "status", "verification"])
def test_pages_of_jobs_alone_say_so_of_a_hop(browser: Browser, way: Path, page: str) -> None:
    browser.log_in()
    answer = browser.client.get(f"/jobs/hop/{page}", headers={"HX-Request": "true"})
    assert answer.status_code < 500 and "hop is a pump" in answer.text
