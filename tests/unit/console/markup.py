"""Looks whether a page can be used by everybody: what is wrong with its HTML, told from the text alone."""

from __future__ import annotations

from html.parser import HTMLParser

VOID = {"meta", "link", "input", "br", "hr", "img"}
FIELDS = ("input", "select", "textarea")


class _Looked(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.faults: list[str] = []
        self.open: list[str] = []
        self.ids: list[str] = []
        self.named: list[str] = []  # ids that labels and regions speak of
        self.headings: list[int] = []
        self.tables: list[set[str]] = []
        self.languages = self.titles = self.mains = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        for name in found:
            if name == "style" or name.startswith(("on", "hx-on", "hx-vars")) or found[name].startswith("javascript:"):
                self.faults.append(f"<{tag}> has {name}, which the security policy forbids")
        if tag == "script" and "src" not in found:
            self.faults.append("a script stands in the page")
        for name in ("src", "href", "action", "hx-get"):
            if found.get(name, "").startswith(("http:", "https:", "//")):
                self.faults.append(f"<{tag}> leads to another host: {found[name]}")
        if "id" in found:
            self.ids.append(found["id"])
        self.named += found.get("aria-labelledby", "").split() + found.get("for", "").split()
        if tag in FIELDS and found.get("type") != "hidden" and "label" not in self.open and "aria-label" not in found:
            self.faults.append(f"<{tag} name={found.get('name')}> has no label")
        if tag == "form" and found.get("method", "get") == "post":
            self.named.append("!csrf")
        if tag == "input" and found.get("name") == "csrf":
            self.named.remove("!csrf")
        if len(tag) == 2 and tag[0] == "h" and tag[1].isdigit():
            self.headings.append(int(tag[1]))
        if tag == "table":
            self.tables.append(set())
        elif self.tables:
            self.tables[-1].add(f"{tag} {found.get('scope', '')}".strip())
        if tag == "td" and "tbody" not in self.open:
            self.faults.append("a cell is in no body of a table")
        self.languages += tag == "html" and bool(found.get("lang"))
        self.titles += tag == "title" and "head" in self.open
        self.mains += tag == "main"
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open[-1] != tag:
            self.faults.append(f"</{tag}> closes {self.open[-1:]}")
        else:
            self.open.pop()


def faults(text: str, is_whole: bool) -> list[str]:
    """Return what is wrong with a page, or with a part of one."""
    looked = _Looked()
    looked.feed(text)
    looked.close()
    found = looked.faults + [f"<{tag}> is not closed" for tag in looked.open]
    found += [f"the id {one} is there twice" for one in set(looked.ids) if looked.ids.count(one) > 1]
    found += [f"nothing has the id {one}" for one in looked.named if one not in (*looked.ids, "!csrf")]
    found += ["a form sends no word of the session back"] * (looked.named.count("!csrf") - ('action="/login"' in text))
    for tags in looked.tables:
        found += [f"a table has no {tag}" for tag in ("caption", "th col", "th row") if tag not in tags]
    steps = zip([0 if is_whole else 1, *looked.headings], looked.headings, strict=False)
    found += [f"h{after} comes behind h{before}" for before, after in steps if after > before + 1 and is_whole]
    if is_whole and (looked.languages, looked.titles, looked.mains, looked.headings.count(1)) != (1, 1, 1, 1):
        found.append("a page has one language, one title, one main part and one first heading")
    return found
