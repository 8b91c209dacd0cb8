"""Trail, definitions, verification, cut-over and alerts in the console, in this process. Without a server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from anabranch.cutover.acting import Told
from anabranch.cutover.report import CutoverReport
from anabranch.errors import TargetUnavailable
from anabranch.manager import inside, trail_rows
from anabranch.manager.alert_rules import Kind, Rule
from anabranch.manager.callers import Role
from anabranch.manager.inside import Definitions
from anabranch.model.cutover import Cutover, CutoverNote, Phase, Step
from anabranch.model.ids import TableId
from anabranch.trail.reader import TrailReader
from anabranch.trail.show import show
from anabranch.trail.writer import TrailWriter
from rigs import trail_source
from tests.unit.console.conftest import ADMIN, Browser
from tests.unit.console.test_console_jobs import status, table
from tests.unit.console.test_console_tables import CHANGE, VERSION

EVIL = "<script>alert(1)</script>"
PARTS = ("definitions", "verification", "cutover")


@pytest.fixture
def trail(browser: Browser) -> Browser:
    """A browser whose job has a trail of seven transactions, the last one in fragments."""
    with TrailWriter.open(browser.manager.home / "shop" / "trail", **trail_source.JOB, pack=False) as writer:
        for name in (trail_source.ORDERS, trail_source.NOTES):
            writer.schema(trail_source.definition(name))
        for part in (trail_source.chunk(1, 6), *trail_source.large(7)):
            writer.append(part)
        writer.flush()
    return browser


def test_the_trail_is_shown_to_operators_with_values_and_the_audit_notes_it(trail: Browser) -> None:
    trail.log_in(Role.VIEWER)
    shown = trail.page("/jobs/shop/trail")
    assert "shop.orders" in shown and "class=&#34;cell" not in shown and 'class="cell"' not in shown
    assert "values of rows are shown to operators" in shown
    assert "You may not do this" in trail.page("/jobs/shop/trail?key=id%3D1", 403), "who may not see may not guess"
    trail.log_in(Role.OPERATOR)
    shown = trail.page("/jobs/shop/trail")
    assert 'class="cell"' in shown and "the trail has 1 to 7" in shown
    told = [one for one in trail.manager.audit.entries() if one.action == "rows_shown"]
    assert len(told) == 1 and str(told[0].after).startswith("trail, 1 to 7")
    other = trail.page(f"/jobs/shop/trail?table={EVIL}.t&key=a%3D{EVIL}")
    assert "fits what you look for" in other and "<script>alert" not in other
    assert "is no table" in trail.page("/jobs/shop/trail?table=none", 422)
    assert "is not COLUMN=VALUE" in trail.page("/jobs/shop/trail?key=none")
    trail.page("/jobs/none/trail?table=none", 404)


def test_a_job_without_a_trail_says_so(browser: Browser) -> None:
    browser.log_in()
    assert "There is no transaction in the trail yet" in browser.page("/jobs/shop/trail")


def test_pages_of_the_trail_have_each_row_once_also_within_a_transaction(
    trail: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = trail.manager.home / "shop" / "trail"
    with TrailReader(directory, name="trail") as reader:
        whole = list(show(reader, after=0))
    for each in (1, 2, 7, len(whole)):
        monkeypatch.setattr(trail_rows, "EACH", each)
        place, found = (0, 0), []
        while True:
            page = trail_rows.read_page(directory, trail_rows.Wanted(*place))
            assert len(page.rows) <= each and not page.is_cut
            found += page.rows
            if page.next is None:
                break
            place = page.next
        assert found == whole
    trail.log_in()
    assert "skip=" in (monkeypatch.setattr(trail_rows, "EACH", 1) or trail.page("/jobs/shop/trail?after=0"))


def test_looking_that_takes_long_is_broken_off_and_goes_on(trail: Browser) -> None:
    wanted = trail_rows.Wanted(0, 0, TableId("shop", "none"))
    directory = trail.manager.home / "shop" / "trail"
    page = trail_rows.read_page(directory, wanted, longest=-1.0)
    assert not page.rows and page.is_cut and page.next == (6, 0)
    page = trail_rows.read_page(directory, trail_rows.Wanted(6, 0, wanted.table), longest=-1.0)
    assert not page.is_cut and page.next is None


@pytest.mark.parametrize("what", PARTS)
def test_a_page_asks_behind_itself_and_has_a_state_for_an_end_that_is_away(
    browser: Browser, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise TargetUnavailable(f"no answer {EVIL}", hint="look at the server")

    for place, name in ((inside, "_definitions"), (browser.manager, "status"), (browser.manager.inside, "cutover")):
        monkeypatch.setattr(place, name, fails)
    browser.log_in(Role.VIEWER)
    assert "are asked …" in browser.page(f"/jobs/shop/{what}")
    code = 286 if what == "cutover" else 200
    for shown in (browser.part(f"/jobs/shop/{what}", code), browser.page(f"/jobs/shop/{what}?ask=1")):
        assert "no answer &lt;script&gt;" in shown and "look at the server" in shown and "Ask again" in shown
    browser.page(f"/jobs/none/{what}", 404)


def hear(browser: Browser, monkeypatch: pytest.MonkeyPatch, *tables: dict[str, Any]) -> None:
    monkeypatch.setattr(browser.manager, "status", lambda *_: browser.manager.glances.hear("shop", status(*tables)))


def test_changes_wait_with_what_each_decision_means(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    waits = {"number": 7, "table": "shop.t", "statement": f"ALTER {EVIL}", "since": "2026-03-01T10:00:00Z"}
    hear(browser, monkeypatch, table("shop.t", "parked") | {"undecided": waits}, table("shop.u") | {"undecided": waits})
    monkeypatch.setattr(inside, "_definitions", lambda *_: Definitions([VERSION], [("", [CHANGE])]))
    browser.log_in(Role.OPERATOR)
    shown = browser.part("/jobs/shop/definitions")
    assert shown.count("in front of change 7") == 1 and "number=7" in shown and "<script>alert" not in shown
    assert "Carry it out" in shown and "Go on without it" in shown and "I have altered" not in shown
    assert "parked: since" in shown and "first seen at 1@x" in shown
    browser.log_in(Role.ADMINISTRATOR)
    assert "I have altered the table" in browser.part("/jobs/shop/definitions")
    assert "<textarea" in browser.page("/jobs/shop/do/replace?number=7&table=shop.t")
    browser.log_in(Role.VIEWER)
    assert "operators decide" in browser.part("/jobs/shop/definitions")
    hear(browser, monkeypatch)
    monkeypatch.setattr(inside, "_definitions", lambda *_: Definitions([], [("", [])]))
    shown = browser.part("/jobs/shop/definitions")
    assert "No table waits" in shown and "No table was altered" in shown and "no definition yet" in shown


def test_a_statement_goes_with_the_decision_that_takes_one_alone(browser: Browser) -> None:
    word = browser.log_in(Role.ADMINISTRATOR)
    browser.send("/jobs/shop/do/replace", csrf=word, number="7", sql="ALTER TABLE t\r\nADD x int")
    made = browser.manager.operations.all(ADMIN, "shop")[0]
    assert made.arguments == ("--sql=ALTER TABLE t\nADD x int", "--", "7")
    browser.send("/jobs/shop/do/approve", 422, csrf=word, number="7", sql="DROP TABLE t")
    word = browser.log_in(Role.OPERATOR)
    browser.send("/jobs/shop/do/replace", 403, csrf=word, number="7", sql="DROP TABLE t")


def test_results_and_comparisons_that_were_asked_for(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    one = {
        "result": "different",
        "at": "2026-03-01T10:00:00Z",
        "rows": 12_345,
        "differing": 2,
        "pending": 0,
        "why": EVIL,
    }
    hear(browser, monkeypatch, table("shop.t") | {"verified": one}, table("shop.u"))
    word = browser.log_in(Role.VIEWER)
    shown = browser.part("/jobs/shop/verification")
    assert "12,345" in shown and "different" in shown and "<script>alert" not in shown and "Nobody has asked" in shown
    assert "do/repair" not in shown and "do/sample" in shown
    browser.send("/jobs/shop/do/sample", csrf=word)
    assert "verify --sample=5%" in browser.part("/jobs/shop/verification")
    browser.send("/jobs/shop/do/repair", 403, csrf=word)
    hear(browser, monkeypatch, table("shop.u"))
    assert "No table has a result" in browser.part("/jobs/shop/verification")


def note(number: int, step: Step, phase: Phase, **facts: Any) -> CutoverNote:
    who: Mapping[str, Any] = {"user": "ann", "host": "h", "release": "1", "pid": 1} if step is Step.BEGIN else {}
    return CutoverNote(number, step, phase, 1_700_000_000_000_000 + number, {**who, **facts})


NOTES = (
    note(1, Step.BEGIN, Phase.BEGINS),
    note(2, Step.LAG, Phase.BEGINS),
    note(3, Step.LAG, Phase.DONE),
    note(4, Step.FENCE, Phase.BEGINS),
)


def test_a_cut_over_is_shown_step_by_step_and_anew_while_it_is_under_way(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = Told("triggers", "t", f"t has no trigger {EVIL}", "ALTER TABLE t ENABLE TRIGGER x")

    def has(*notes: CutoverNote, looked: tuple[Told, ...] | None = None) -> None:
        found = [("", CutoverReport("shop", Cutover(notes), (f"open {EVIL}",) if notes else (), looked))]
        monkeypatch.setattr(browser.manager.inside, "cutover", lambda *_: found)

    has()
    browser.log_in()
    shown = browser.part("/jobs/shop/cutover", 286)
    assert "not begun" in shown and "Cut over …" in shown and "Take it back" not in shown
    assert "does not act" not in shown, "nobody has looked"
    has(looked=())
    assert "Every trigger, key and check acts there" in browser.part("/jobs/shop/cutover", 286)
    has(looked=(told,))
    shown = browser.part("/jobs/shop/cutover", 286)
    assert "As both ends are now" in shown and "<code>ALTER TABLE t ENABLE TRIGGER x</code>" in shown
    assert "no trigger &lt;script&gt;" in shown
    proven = {"unproven": [{"table": "t", "what": "check small is NOT VALID", "do": "VALIDATE it"}]}
    has(*NOTES, note(5, Step.CONSTRAINTS, Phase.BEGINS), note(6, Step.CONSTRAINTS, Phase.DONE, **proven))
    shown = browser.part("/jobs/shop/cutover")
    assert (
        "As it was found at the fence" in shown and "check small is NOT VALID, of t: <code>VALIDATE it</code>" in shown
    )
    has(*NOTES)
    shown = browser.part("/jobs/shop/cutover")
    assert "under way" in shown and "Go on …" in shown and "Take it back …" in shown and "open &lt;script&gt;" in shown
    assert shown.index("lag") < shown.index('aria-current="step"') < shown.index("<strong>drain")
    assert 'hx-trigger="load, every 5s"' in browser.page("/jobs/shop/cutover")
    browser.log_in(Role.VIEWER)
    shown = browser.part("/jobs/shop/cutover")
    assert "operators cut over" in shown and "abort-cutover" not in shown and "plan-cutover" in shown


def test_alerts_are_shown_of_jobs_that_one_may_see(browser: Browser) -> None:
    browser.log_in(Role.VIEWER)
    assert "There was no alert" in browser.page("/alerts")
    browser.manager.alert_rules.set([Rule(f"r {EVIL}", Kind.LAG, 5.0)], "ann")
    browser.manager.alerts._open((f"r {EVIL}", "shop"), f"late {EVIL}")
    shown = browser.page("/alerts")
    assert "goes on" in shown and "late &lt;script&gt;" in shown and "<script>alert" not in shown
    browser.log_in(Role.VIEWER, ("web-*",))
    assert "There was no alert" in browser.page("/alerts")


def test_what_the_gate_refuses_is_a_page_for_a_browser_and_a_problem_for_a_program(browser: Browser) -> None:
    browser.log_in()
    wrong = {"Host": "evil.example"}
    answer = browser.client.get("/", headers=wrong)
    assert answer.status_code == 421 and "This is not the name of this manager" in answer.text
    assert "default-src 'none'" in answer.headers["content-security-policy"] and "evil.example" not in answer.text
    part = browser.client.get("/parts/jobs", headers=wrong | {"HX-Request": "true"})
    assert part.status_code == 421 and "<html" not in part.text
    for path, accepted in (("/", "application/json"), ("/api/v1/jobs", "text/html")):
        answer = browser.client.get(path, headers=wrong | {"Accept": accepted})
        assert answer.headers["content-type"] == "application/problem+json"
    crossed = browser.client.post("/logout", headers={"Sec-Fetch-Site": "cross-site"})
    assert crossed.status_code == 403 and "page of another site" in crossed.text
    large = browser.client.post("/logout", content=b"x" * 1_000_001)
    assert large.status_code == 413 and "This is too large" in large.text
