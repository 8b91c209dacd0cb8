"""A Chromium that goes through the console's pages as a person does: wide and light, narrow and dark, by keyboard.

Each page is looked at by axe-core, has to fit its width, and asks no other host; what its console says is an error. What does
not live here: Chromium itself (anabranch/testing/chromium.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from playwright.sync_api import ConsoleMessage, Page, Request, sync_playwright

from anabranch.testing.chromium import find_chromium

WIDE, NARROW = (1280, 800), (390, 844)
Look = tuple[tuple[int, int], Literal["light", "dark"]]
# A page is loaded for the first of each width; colours alone change nothing that a page has done as it was loaded.
LOOKS: tuple[Look, ...] = ((WIDE, "light"), (WIDE, "dark"), (NARROW, "dark"), (NARROW, "light"))
AXE = (files("axe_playwright_python") / "axe.min.js").read_text()
VIOLATIONS = """async options => (await axe.run(document, options)).violations.map(
    one => one.id + ": " + one.nodes.map(node => node.html + " " + node.failureSummary).join(" | "))"""
# What is found to be right is not told of.
EACH: dict[str, Any] = {"resultTypes": ["violations"]}
# All that differs by width and by colours.
BY_LOOK = EACH | {
    "runOnly": {"type": "rule", "values": ["color-contrast", "link-in-text-block", "scrollable-region-focusable"]}
}
FOCUSABLE = "a[href], button, input:not([type=hidden]), select, textarea"


@contextmanager
def window(url: str, scratch: Path, screenshots: Path | None) -> Iterator[Window]:
    """A window of a Chromium of its own, at the console at `url`."""
    found = find_chromium()
    with sync_playwright() as driver:
        environment = {**found.environment(scratch)}
        browser = driver.chromium.launch(executable_path=found.program, env=environment)
        try:
            context = browser.new_context()
            context.set_default_timeout(60_000)
            yield Window(context.new_page(), url, screenshots)
        finally:
            browser.close()


class Window:
    """One person's window. `page`: as Playwright drives it; `seen`: paths that were looked at; `wrong`: what was said in the
    browser's console, and requests to other hosts."""

    def __init__(self, page: Page, url: str, screenshots: Path | None) -> None:
        self.page, self.url, self.seen = page, url, set[str]()
        self.wrong: list[str] = []
        self._screenshots, self._is_refusal = screenshots, False
        page.on("console", self._said)
        page.on("pageerror", lambda error: self.wrong.append(f"{page.url}: {error}"))
        page.on("request", self._asked)

    def open(self, path: str, ready: str = "main h1", code: int = 200) -> None:
        """Go to a page, and wait until something is there."""
        self._is_refusal = code >= 400  # which the browser says in its console, too
        answer = self.page.goto(self.url + path)
        assert answer is not None and answer.status == code, f"{path}: {answer and answer.status}"
        self.page.wait_for_selector(ready)
        self._is_refusal = False
        self.seen.add(urlsplit(path).path)

    def look(self, path: str, ready: str = "main h1", code: int = 200, picture: str = "") -> None:
        """Open a page wide and narrow, look at each in light and in dark, and judge it there. `picture`: the name of one to
        keep, where pictures are wanted; with its width, 1280 or 390."""
        for number, (size, scheme) in enumerate(LOOKS):
            is_first = size not in [one for one, _ in LOOKS[:number]]
            self._appear(size, scheme)
            if is_first:
                self.open(path, ready, code)
                self.page.evaluate(AXE)
            wide = self.page.evaluate("document.documentElement.scrollWidth")
            assert wide <= size[0], f"{path} is {wide} wide at {size[0]}"
            found = self.page.evaluate(VIOLATIONS, BY_LOOK if number else EACH)
            assert found == [], f"{path}, {size[0]}, {scheme}:\n" + "\n".join(found)
            if self._screenshots and is_first and picture.endswith(f"-{size[0]}"):
                self._screenshots.mkdir(parents=True, exist_ok=True)
                self.page.screenshot(path=self._screenshots / f"{picture}.png")
        self._appear(*LOOKS[0])

    def _appear(self, size: tuple[int, int], scheme: Literal["light", "dark"]) -> None:
        self.page.set_viewport_size({"width": size[0], "height": size[1]})
        self.page.emulate_media(color_scheme=scheme)

    def press(self, name: str, to: str = "", is_refused: bool = False) -> None:
        """Press the button, or follow the link, of a name, and wait for the page at the path `to`, where one is given.
        `is_refused`: the answer is a refusal, which the browser's console tells, too."""
        found = self.page.get_by_role("button", name=name, exact=True).or_(
            self.page.get_by_role("link", name=name, exact=True)
        )
        self._is_refusal = is_refused
        found.first.click()
        if to:
            self.page.wait_for_url(self.url + to)
        if is_refused:
            self.page.wait_for_selector(".problem")
        self._is_refusal = False

    def fill(self, **fields: str) -> None:
        """Fill in fields of the page's main part by their names."""
        for name, value in fields.items():
            found = self.page.locator(f"main [name={name}]").first
            if found.evaluate("one => one.tagName") == "SELECT":
                found.select_option(value)
            else:
                found.fill(value)

    def text(self) -> str:
        """Return the text of the main part."""
        return self.page.inner_text("main")

    def walk_by_keyboard(self) -> None:
        """Come to all that can be pressed or filled in by Tab alone; first to what leads past the head of the page."""
        self.page.keyboard.press("Tab")
        assert self.page.evaluate("document.activeElement.className") == "skip"
        wanted = self.page.evaluate(
            f"[...document.querySelectorAll('{FOCUSABLE}')].filter(one => one.checkVisibility()).length"
        )
        mark = "const one = document.activeElement; if (one.dataset.reached) return false; one.dataset.reached = 1; return true"
        while self.page.evaluate(f"(() => {{ {mark} }})()"):
            assert self.page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none" or (
                self.page.evaluate("document.activeElement === document.body")
            )
            self.page.keyboard.press("Tab")
        reached = self.page.evaluate(
            f"[...document.querySelectorAll('{FOCUSABLE}')].filter(one => one.dataset.reached).length"
        )
        assert reached == wanted, f"{reached} of {wanted} were reached by Tab"

    def _said(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and not (
            self._is_refusal and "Failed to load resource" in message.text
        ):
            self.wrong.append(f"{self.page.url}: {message.text}")

    def _asked(self, request: Request) -> None:
        if not request.url.startswith((self.url + "/", "data:")):
            self.wrong.append(f"{self.page.url} asks {request.url}")


def patterns(parts: Any) -> list[tuple[str, Any]]:
    """The pages of the console: the path with its names, and what tells whether a path is one of it."""
    return [(route.path, route.path_regex) for part in parts for route in part.routes.routes if "GET" in route.methods]
