"""Cuts texts that people write and servers answer down to what is no value of a row: words that this release itself uses, names
of tables and columns of the job, positions, counts. All else is `…`, whatever it is: no list has what rows hold.

What does not live here: secrets (`secrets.py`), which key of which piece is such a text (`shown.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from anabranch.job.bundle.secrets import HIDDEN

LEFT_OUT = ("testing", "demo")  # rooms whose words are examples of rows
LONGEST = 4_000  # characters of a text
_WORD = re.compile(r"[A-Za-z][A-Za-z_0-9]+")
_POSITION = r"\d+@[\w.-]+:\d+|\d+@[0-9A-F]+/[0-9A-F]+|\b[\w-]+(?:\.[\w-]+)*\.\d{6}:\d+|\b[0-9A-F]{1,8}/[0-9A-F]{6,8}\b"
_UNITS = (
    "s|ms|seconds?|minutes?|hours?|days?|bytes|kB|KiB|MB|MiB|GB|GiB|rows?|tables?|changes?|times?|transactions?|epochs?|columns?"
    "|checks?|segments?|files?|sessions?|connections?|attempts?|tries|jobs?|targets?|problems?|warnings?|failed|ok"
)
_COUNTED = (
    "errno|error|code|version|sequence|definition|offset|process|pid|line|byte|segment|exit|SQLSTATE"
    "|MySQL|MariaDB|PostgreSQL"
)
_TOKEN = re.compile(  # the first alternative that fits, from the most telling one on
    r"""(?P<row>the\ row\ with\ .*?(?=\ holds|\ —\ |\Z)|of\ the\ row\ (?!with\ ).*?(?=\ —\ |\n|\Z)|\(row\ .*\)
          |key\ [^\s=]+\s?=.*?(?=\ —\ |\n|\Z)|(?:contains|VALUES)\s*\(.*?(?=\n|\Z))
      | (?P<driver>\(\d{4},\ (?P<around>["'])(?P<said>(?:(?!(?P=around)\)).)*)(?P=around)\))
      | (?P<pair>[\w.]+\s?=\s?(?:\([^)]*\)|"[^"]*"|'[^']*'|[^\s,;)]+)|\([^()]*\)=\([^\n]*\))
      | (?P<quoted>(?<!\w)(?P<quote>["'`])(?:(?!(?P=quote)(?!\w)).)*(?P=quote)(?!\w))
      | (?P<position>"""
    + _POSITION
    + r""")
      | (?P<number>(?<![\w.])-?\d+(?:[.,:]\d+)*(?![\w]))
      | (?P<word>\w+(?:[.]\w+)*)
      | (?P<rest>\s+|.)""",
    re.VERBOSE | re.DOTALL,
)
KINDS = ("row", "driver", "pair", "quoted", "position", "number", "word", "rest")
# How messages name rows: what stands in front of the values, and what behind.
ROWS = (("the row with", ""), ("of the row", ""), ("(row", ")"), ("key", ""), ("contains", ""), ("VALUES", ""))
_ASSIGNED = re.compile(r"([\w.]+) ?= ?")
_BEHIND = re.compile(r", |; |\)| — | holds |\n")
_RUN = re.compile(rf"{HIDDEN}(?:[\s,.:;=/@+-]*{HIDDEN})+")


@cache
def words() -> frozenset[str]:
    """Return the words of this release's own code, in small letters; none where the code cannot be read."""
    root = Path(__file__).parents[2]
    found: set[str] = set()
    for path in root.rglob("*.py"):
        if path.relative_to(root).parts[0] not in LEFT_OUT:
            found.update(map(str.lower, _WORD.findall(path.read_text(encoding="utf-8", errors="replace"))))
    return frozenset(found)


class Cutter:
    """The cutting of texts. `names`: of tables, columns, hosts, and whatever else of the job is no value."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = set(filter(None, names))
        self._parts = {part for name in self._names for part in name.split(".")}

    def cut(self, text: str) -> str:
        """Return what may be seen of a text."""
        text = self._without_columns(text[:LONGEST])
        found = "".join(map(self._shown, _TOKEN.finditer(text)))
        return _RUN.sub(HIDDEN, found)

    def is_name(self, text: str) -> bool:
        """Return whether a text is a name of the job, or several with points between."""
        return text in self._names or (bool(text) and all(part in self._parts for part in text.split(".")))

    def is_plain(self, text: str) -> bool:
        """Return whether a text is one word, or a name."""
        return self.is_name(text) or all(len(part) == 1 or part.lower() in words() for part in text.split("."))

    def _without_columns(self, text: str) -> str:
        """Return the text without what is said to stand in a column of the job, however many words that are."""
        kept, at = list[str](), 0
        for found in _ASSIGNED.finditer(text):
            if found.start() >= at and self.is_name(found[1]):
                end = _BEHIND.search(text, found.end())
                kept += (text[at : found.end()], HIDDEN)
                at = end.start() if end else len(text)
        return "".join((*kept, text[at:]))

    def _shown(self, found: re.Match[str]) -> str:
        text = found[0]
        kind = next(one for one in KINDS if found[one] is not None)
        if kind == "row":
            return next((f"{head} {HIDDEN}{end}" for head, end in ROWS if text.startswith(head)), f"({HIDDEN})")
        if kind == "driver":  # its code, and what the server has said
            return f"{text[:6]} {found['around']}{self.cut(found['said'])}{found['around']})"
        if kind == "pair":
            return self._pair(text)
        if kind == "quoted":
            inner = text[1:-1]
            return text if self.is_name(inner) or _is_setting(inner) else f"{text[0]}{HIDDEN}{text[0]}"
        if kind == "number":
            return text if _is_count(found) else HIDDEN
        if kind == "word":
            return text if self.is_plain(text) else HIDDEN
        return text

    def _pair(self, text: str) -> str:
        """Return `setting=value` of a server's setting, of anything else its name alone."""
        name, value = (one.strip() for one in text.split("=", 1))
        is_setting = _is_setting(name) and not self.is_name(name)
        if is_setting and (value.isdigit() or (value.isidentifier() and self.is_plain(value))):
            return text
        return f"{name if self.is_plain(name) else HIDDEN}={HIDDEN}"


def _is_setting(text: str) -> bool:
    """Return whether a text is a name with underscores that the code has, as servers call their settings."""
    return "_" in text and text.lower() in words()


def _is_count(found: re.Match[str]) -> bool:
    before, after = (
        found.string[max(0, found.start() - 24) : found.start()],
        found.string[found.end() : found.end() + 16],
    )
    if re.fullmatch(r"\d", found[0]) or re.match(rf" ?(?:%|(?:{_UNITS})\b)", after):
        return True
    if re.search(rf"\b(?:{_COUNTED}) \Z", before, re.IGNORECASE):
        return True
    return bool(
        re.fullmatch(r"\d{4}", found[0]) and before.endswith("(") and re.match(r", [\"']", after)
    )  # a driver's code


# What a statement does, by words of the language alone.
_OPENING = re.compile(
    r"\s*(?:/\*.*?\*/\s*)*([A-Za-z]+)(?:\s+(?:OR\s+REPLACE|TEMPORARY|UNIQUE|ONLINE))?\s+([A-Za-z]+)", re.DOTALL
)
_VERBS = ("CREATE", "ALTER", "DROP", "RENAME", "TRUNCATE", "COMMENT", "REFRESH")
_OBJECTS = ("TABLE", "INDEX", "TYPE", "SEQUENCE", "VIEW", "DATABASE", "SCHEMA", "DOMAIN", "ON", "FUNCTION", "TRIGGER")
_CLAUSE = re.compile(
    r"\b(ADD|DROP|MODIFY|CHANGE|RENAME|ALTER|CONVERT|ATTACH|DETACH|REORGANIZE|EXCHANGE|TRUNCATE)\s+"
    r"(COLUMN|INDEX|KEY|PRIMARY|UNIQUE|CONSTRAINT|CHECK|FOREIGN|FULLTEXT|SPATIAL|PARTITION|TO|VALUE)?",
    re.IGNORECASE,
)
_QUOTED = re.compile(
    r"'(?:[^'\\]|''|\\.)*'|\"(?:[^\"\\]|\"\"|\\.)*\"|`[^`]*`|/\*.*?\*/|--[^\n]*|\$(\w*)\$.*?\$\1\$", re.DOTALL
)


def kind_of(statement: str) -> str:
    """Return what kind of statement it is, as `ALTER TABLE … ADD COLUMN …`: no name, no literal. "" for any other one."""
    text = _QUOTED.sub(" ", statement)
    opening = _OPENING.match(text)
    if opening is None or opening[1].upper() not in _VERBS or opening[2].upper() not in _OBJECTS:
        return ""
    head = f"{opening[1]} {opening[2]} {HIDDEN}".upper()
    clauses = (" ".join(filter(None, one)).upper() for one in _CLAUSE.findall(text[opening.end() :]))
    return ", ".join([head, *dict.fromkeys(f"{clause} {HIDDEN}" for clause in clauses)])


def type_of(native: str) -> str:
    """Return a native type without the labels that stand in it."""
    found = re.sub(r"'(?:[^'\\]|''|\\.)*'", f"'{HIDDEN}'", native)
    return found if found.count("'") % 2 == 0 else re.split(r"\W", native, maxsplit=1)[0]
