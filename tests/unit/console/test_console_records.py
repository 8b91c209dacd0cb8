"""Log, trace and preflight in the console, in this process. Without a server."""

from __future__ import annotations

from pathlib import Path

import pytest

from anabranch.errors import SourceUnavailable
from anabranch.manager import run_log
from anabranch.manager.callers import Role
from anabranch.model.checks import CheckResult, CheckVerdict
from anabranch.preflight.report import Report
from anabranch.state.trace import Trace
from tests.unit.console.conftest import Browser

EVIL = "<script>alert(1)</script>"
LOG = (
    "2026-03-01T10:00:00Z [\x1b[32minfo     \x1b[0m] \x1b[1mbegun\x1b[0m\n"
    f"2026-03-01T10:00:01Z [warning  ] odd {EVIL}\n"
    '{"event": "torn", "level": "error"}\nTraceback (most recent call last):\n26/03/01 WARN Utils: x\n'
)


def test_the_log_is_text_and_is_found_by_text_and_level(browser: Browser) -> None:
    browser.log_in(Role.VIEWER)
    assert "Nothing is written yet" in browser.page("/jobs/shop/log")
    home = browser.manager.home / "shop"
    home.mkdir()
    (home / "run.log").write_bytes(LOG.encode() + b"\xff\x00\n")
    shown = browser.page("/jobs/shop/log")
    assert "[info     ] begun" in shown and "<script>" not in shown and "\\x00" in shown and "\x1b" not in shown
    found = browser.page("/jobs/shop/log?level=error")
    assert "torn" in found and "Traceback" in found and "odd" not in found and "WARN" not in found
    assert "odd" in browser.page("/jobs/shop/log?text=ODD") and "begun" not in browser.page("/jobs/shop/log?text=odd")
    assert "No line fits" in browser.page("/jobs/shop/log?text=none")


def test_of_a_long_log_whole_lines_of_its_end_are_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_log, "TAIL", 100)
    (tmp_path / "run.log").write_text("".join(f"line {number:04}\n" for number in range(1000)))
    found = [line.text for line in run_log.tail(tmp_path / "run.log")]
    assert found[0] == "line 0991" and found[-1] == "line 0999"


def test_the_trace_of_a_job(browser: Browser) -> None:
    browser.log_in(Role.VIEWER)
    assert "No entry of this time" in browser.page("/jobs/shop/trace")
    home = browser.manager.home / "shop"
    home.mkdir()
    trace = Trace(home, "shop/apply")
    trace.note("info", "part_started", "")
    trace.note("error", "error", f"refused {EVIL}", code="target_refused", rows=3)
    shown = browser.page("/jobs/shop/trace")
    assert "part started" in shown and "rows=3" in shown and "<script>" not in shown and "2 entries" in shown
    assert "part started" not in browser.page("/jobs/shop/trace?level=error&hours=1")
    assert "1 entry" in browser.page("/jobs/shop/trace?text=REFUSED")
    browser.page("/jobs/shop/trace?hours=0", 422)


def test_a_preflight_comes_behind_its_page(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    results = (
        CheckResult("source.version", CheckVerdict.OK, "fine"),
        CheckResult("target.rights", CheckVerdict.FAILED, f"missing {EVIL}", "GRANT x", "shop.t"),
    )
    asked: list[str] = []
    monkeypatch.setattr(
        browser.manager, "preflight", lambda _, name: asked.append(name) or [("", Report(name, results))]
    )
    browser.log_in(Role.VIEWER)
    assert "Both ends are looked at" in browser.page("/jobs/shop/preflight") and not asked
    for shown in (browser.part("/jobs/shop/preflight"), browser.page("/jobs/shop/preflight?ask=true")):
        assert shown.index("target.rights") < shown.index("source.version") and "data-copy" in shown
        assert "1 failed" in shown and "<script>alert" not in shown


def test_a_preflight_that_cannot_be_made_says_why(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise SourceUnavailable("no answer", hint="look at the server")

    monkeypatch.setattr(browser.manager, "preflight", fails)
    browser.log_in(Role.VIEWER)
    shown = browser.part("/jobs/shop/preflight")
    assert "no answer" in shown and "look at the server" in shown and "Look again" in shown
