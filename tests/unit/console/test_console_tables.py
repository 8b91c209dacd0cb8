"""The page of a table, actions and operations in the console, in this process. Without a server."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from anabranch.console.actions import ACTIONS
from anabranch.console.operation_pages import NO_MORE
from anabranch.errors import TargetUnavailable
from anabranch.lifecycle.parking import ParkedTable
from anabranch.manager import inside
from anabranch.manager.callers import Role
from anabranch.manager.inside import TableInside, TableThere
from anabranch.model.ddl_changes import PARKS, DdlChange, Outcome
from anabranch.model.ids import TableId
from anabranch.model.schema import Column, TableSchema
from anabranch.rows.aside import AsideChange
from anabranch.rows.conflict import NotedConflict
from anabranch.view.schema_history import TableVersion
from tests.unit.console.conftest import Browser
from tests.unit.console.test_console_jobs import status, table

EVIL = "<script>alert(1)</script>\x1b[31m"
NAME = TableId("shop", 'a"/../<b>')
PARKED = ParkedTable(NAME, NAME, f"why {EVIL}", 7, "7@x", 3, 400)
ASIDE = AsideChange(
    8, "8@x", 0, NAME, NAME, {"id": EVIL}, "insert", None, {"id": EVIL, "v": None}, f"too long {EVIL}", number=4
)
CONFLICT = NotedConflict(
    9, "9@x", 0, NAME, NAME, {"id": "17"}, "update", "newer", "newer_wins", "target", None, {"v": EVIL}
)
CHANGE = DdlChange(
    5, "5@x", 1_700_000_000_000_000, NAME, NAME, f"ALTER {EVIL}", PARKS, Outcome.PARKED, "since", number=2
)
VERSION = TableVersion(TableSchema(NAME, (Column(EVIL, None, "int(11)"),), (EVIL,)), 1, "1@x", "first seen")

Known = Callable[..., str]


@pytest.fixture
def known(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> Known:
    """Say what targets have of the table; returns the address of its page."""

    def say(there: Sequence[TableThere], versions: Sequence[TableVersion] = (VERSION,)) -> str:
        monkeypatch.setattr(inside, "_table", lambda *_: TableInside(str(NAME), versions, there, True))
        found = status(table(str(NAME), "parked", "why"))
        monkeypatch.setattr(browser.manager, "status", lambda *_: browser.manager.glances.hear("shop", found))
        return "/jobs/shop/tables/" + browser_path(str(NAME))

    return say


def browser_path(name: str) -> str:
    from anabranch.console.words import segment

    return segment(name)


def test_the_page_of_a_table_asks_behind_itself_and_leads_back(browser: Browser, known: Known) -> None:
    path = known([TableThere("", PARKED, [ASIDE], [CONFLICT], [CHANGE])])
    browser.log_in()
    assert "Both ends are asked" in browser.page(path)
    for shown in (browser.part(path), browser.page(f"{path}?ask=true")):
        assert "<script>alert" not in shown and "\x1b" not in shown
        assert all(
            word in shown
            for word in ("Resume …", "Load again …", "Give up what is held …", "Discard …", "3 row images")
        )
        assert "int(11)" in shown and "first seen at 1@x" in shown and "ALTER" in shown and "2023-11-14" in shown
        assert "&lt;script&gt;" in shown and "<em>NULL</em>" in shown and "newer: target" in shown


def test_values_of_rows_are_for_operators_and_their_sight_is_audited(browser: Browser, known: Known) -> None:
    evil = replace(ASIDE, key={"id": "secret1"}, after={"id": "secret1"}, reason="too long")
    path = known([TableThere("", None, [evil], [replace(CONFLICT, found={"v": "secret2"})], [])])
    browser.log_in(Role.VIEWER)
    shown = browser.part(path)
    assert "secret" not in shown and "for operators" in shown and "too long" in shown and "/do/" not in shown
    seen = [one.action for one in browser.manager.audit.entries()]
    browser.log_in(Role.OPERATOR)
    shown = browser.part(path)
    assert "secret1" in shown and "secret2" in shown and "number=4" in shown
    after = [one.action for one in browser.manager.audit.entries()]
    assert "rows_shown" not in seen and after.count("rows_shown") == 1


def test_a_table_that_nobody_knows_and_ends_that_are_away_have_pages(
    browser: Browser, known: Known, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = known([TableThere("", None, [], [], [])], ())
    browser.log_in(Role.VIEWER)
    other = browser.part("/jobs/shop/tables/shop.none")
    assert "knows no such table" in other and "has no definition of this table" in other
    for name in ("one", "a.b.c", 'a."b'):
        browser.page(f"/jobs/shop/tables/{browser_path(name)}", 404)
    browser.page("/jobs/none/tables/shop.t", 404)

    def fails(*_: object) -> None:
        raise TargetUnavailable(f"no answer {EVIL}", hint="look at the server")

    monkeypatch.setattr(inside, "_table", fails)
    assert "no answer &lt;script&gt;" in browser.part(path) and "look at the server" in browser.page(f"{path}?ask=1")


def test_of_several_targets_each_has_its_part_and_its_ways_back(browser: Browser, known: Known) -> None:
    path = known([TableThere("one", PARKED, [], [], []), TableThere("two <b>", PARKED, [], [], [])])
    browser.log_in()
    shown = browser.part(path)
    assert "At two &lt;b&gt;" in shown and "target=two+%3Cb%3E" in shown


OF_ONE_TARGET = ("drill", "reverse")  # commands of jobs with one target, which have no option to name it


@pytest.mark.parametrize("action", sorted(ACTIONS))
def test_what_comes_of_an_action_is_said_and_then_it_is_an_operation(browser: Browser, action: str) -> None:
    one = ACTIONS[action]
    about: dict[str, Any] = {"table": {"table": "-shop.t <b>"}, "number": {"number": "3"}}.get(one.needs, {})
    word = browser.log_in(Role.ADMINISTRATOR)
    at = {} if one.verb in OF_ONE_TARGET else {"target": "x"}
    if not at:
        browser.page(f"/jobs/shop/do/{action}?target=x", 422)
    query = "&".join(f"{name}={browser_path(value)}" for name, value in (about | at).items())
    shown = browser.page(f"/jobs/shop/do/{action}?{query}")
    assert "anabranch " + one.verb in shown and one.comes[0].replace("'", "&#39;") in shown and "<b>" not in shown
    to = browser.send(f"/jobs/shop/do/{action}", csrf=word, **about, **at)
    made = browser.manager.operations.all(browser.manager_caller(), "shop")[0]
    assert (
        to == f"/jobs/shop/operations/{made.id}"
        and made.verb == one.verb
        and ("--target=x" in made.arguments) is bool(at)
    )
    browser.send(f"/jobs/shop/do/{action}", code=403, csrf="another", **about)
    if about:
        assert "not said what" in browser.page(f"/jobs/shop/do/{action}", 422)
    browser.send("/jobs/shop/do/none", code=404, csrf=word)
    browser.page("/jobs/shop/do/none", 404)
    browser.send("/jobs/none/do/" + action, code=404, csrf=word, **about)


def test_an_action_is_for_those_who_may_have_its_command_carried_out(browser: Browser) -> None:
    word = browser.log_in(Role.VIEWER)
    assert "You may not do this" in browser.page("/jobs/shop/do/resume?table=shop.t", 403)
    browser.send("/jobs/shop/do/resume", code=403, csrf=word, table="shop.t")
    assert browser.manager.operations.all(browser.manager_caller(), "shop") == []


def test_operations_are_listed_shown_and_cancelled(browser: Browser) -> None:
    browser.log_in(Role.VIEWER)
    assert "There is none yet" in browser.page("/jobs/shop/operations")
    word = browser.log_in()
    to = browser.send("/jobs/shop/do/reload", csrf=word, table=f"shop.{EVIL}")
    listed = browser.page("/jobs/shop/operations")
    assert "parked reload" in listed and "<script>alert" not in listed and "queued" in listed
    shown = browser.page(to)
    assert 'hx-trigger="every 2s"' in shown and "It has said nothing yet" in shown and "Cancel …" in shown
    place = browser.manager.operations._recorded(1).place
    place.mkdir(parents=True)
    # As whoever starts it notes it: of one that is queued nothing is told.
    with browser.manager.store.writing() as connection:
        connection.execute("UPDATE operation SET began = ? WHERE id = 1", ("2026-11-29T16:00:00.000000Z",))
    (place / "stdout").write_text("x" * 70_000 + f"the end {EVIL}")
    shown = browser.part(to)
    assert "the end &lt;script&gt;" in shown and "The last 64 KB" in shown and "\x1b" not in shown
    assert "killed" in browser.page(f"{to}/cancel")
    assert browser.send(f"{to}/cancel", csrf=word) == to
    assert "cancelled" in browser.part(to, NO_MORE) and "nothing to cancel" in browser.page(f"{to}/cancel")
    browser.page("/jobs/shop/operations/99", 404)
    word = browser.log_in(Role.VIEWER)
    assert "for those who may ask for it" in browser.page(to) and "the end" not in browser.page(to)
    browser.page(f"{to}/cancel", 403)
    browser.send(f"{to}/cancel", code=403, csrf=word)
