"""Finds places in TOML text: the line of a key by its path (names and list indexes), and the lines of each statement.
`tomllib` gives values without places.

Works on text that tomllib has already accepted, so it needs no error cases of its own. What does not live here:
reading values.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import takewhile

Path = tuple[str | int, ...]

_TOKEN = re.compile(
    r"""(?P<string>\"{3}(?:\\.|[^\\])*?\"{3,5}|'{3}.*?'{3,5}|"(?:\\.|[^"\\\n])*"|'[^'\n]*')
      | (?P<newline>\n) | (?P<skip>[^\S\n]+|\#[^\n]*) | (?P<mark>[\[\]{}=,]) | (?P<bare>[^\s\[\]{}=,"'\#]+)""",
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    line: int


@dataclass(frozen=True, slots=True)
class Statement:
    """A header, or a key with its value. `names`: without indexes, of a key those of its header before its own. `first`,
    `last`: lines from 1."""

    names: tuple[str, ...]
    is_header: bool
    first: int
    last: int


def key_lines(text: str) -> dict[Path, int]:
    """Return the line (from 1) of every table header, key and list item."""
    return _Scanner(list(_tokens(text))).scan()


def statements(text: str) -> list[Statement]:
    """Return what the text consists of, in its order; comments and empty lines stand between."""
    scanner = _Scanner(list(_tokens(text)))
    scanner.scan()
    return scanner.statements


def line_of(lines: dict[Path, int], path: Path) -> int | None:
    """Return the line of `path`, or of the nearest thing around it that stands in the file."""
    while path:
        if path in lines:
            return lines[path]
        path = path[:-1]
    return None


def _tokens(text: str) -> Iterator[_Token]:
    line = 1
    for match in _TOKEN.finditer(text.replace("\r\n", "\n")):
        kind = str(match.lastgroup)
        if kind != "skip":
            yield _Token(kind, match.group(), line)
        line += match.group().count("\n")


@dataclass
class _Scanner:
    tokens: list[_Token]
    at: int = 0
    lines: dict[Path, int] = field(default_factory=dict)
    counts: dict[Path, int] = field(default_factory=dict)  # array of tables -> how many so far
    statements: list[Statement] = field(default_factory=list)

    def scan(self) -> dict[Path, int]:
        prefix: Path = ()
        while self._peek():
            if self._take("\n"):
                continue
            start, is_header = self.at, self._peek() == "["
            prefix = self._header() if is_header else self._pair(prefix, prefix)
            self._note(prefix, is_header, start)
        return self.lines

    def _note(self, prefix: Path, is_header: bool, start: int) -> None:
        names = [part for part in prefix if isinstance(part, str)]
        end = self.tokens[self.at - 1]
        if not is_header:
            names += _names(self.tokens[start : self.at])
        last = end.line + end.text.count("\n")
        self.statements.append(Statement(tuple(names), is_header, self.tokens[start].line, last))

    def _peek(self) -> str:
        return self.tokens[self.at].text if self.at < len(self.tokens) else ""

    def _take(self, text: str) -> bool:
        found = self._peek() == text
        self.at += found
        return found

    def _skip_newlines(self) -> None:
        while self._take("\n"):
            pass

    def _header(self) -> Path:
        line = self.tokens[self.at].line
        self._take("[")
        is_array = self._take("[")
        path = self._resolve(self._key())
        if is_array:
            self.counts[path] = self.counts.get(path, 0) + 1
            self.lines.setdefault(path, line)
            path = (*path, self.counts[path] - 1)
        self.lines[path] = line
        while self._take("]"):
            pass
        return path

    def _resolve(self, names: Path) -> Path:
        """Return a header's names with the index of the latest element wherever a prefix is an array of tables."""
        path: Path = ()
        for place, name in enumerate(names, 1):
            path = (*path, name)
            if place < len(names) and path in self.counts:
                path = (*path, self.counts[path] - 1)
        return path

    def _key(self) -> Path:
        """Read dotted names up to `=` or `]`; tomllib itself reads quoted ones."""
        start = self.at
        while self._peek() not in ("=", "]"):
            self.at += 1
        return _names(self.tokens[start : self.at])

    def _pair(self, prefix: Path, after: Path) -> Path:
        """Read one `key = value`; returns `after`, the prefix of what follows."""
        line = self.tokens[self.at].line
        path = (*prefix, *self._key())
        for length in range(len(prefix) + 1, len(path) + 1):
            self.lines.setdefault(path[:length], line)
        self._take("=")
        self._value(path)
        return after

    def _value(self, path: Path) -> None:
        if self._take("["):
            self._array(path)
        elif self._take("{"):
            self._inline(path)
        else:
            while self._peek() and self.tokens[self.at].kind in ("string", "bare"):
                self.at += 1

    def _array(self, path: Path) -> None:
        index = 0
        self._skip_newlines()
        while not self._take("]"):
            self.lines[(*path, index)] = self.tokens[self.at].line
            self._value((*path, index))
            index += 1
            self._skip_newlines()
            self._take(",")
            self._skip_newlines()

    def _inline(self, path: Path) -> None:
        self._skip_newlines()
        while not self._take("}"):
            self._pair(path, path)
            self._skip_newlines()
            self._take(",")
            self._skip_newlines()


def _names(tokens: list[_Token]) -> tuple[str, ...]:
    """Return the dotted names with which the tokens begin."""
    texts = (token.text for token in takewhile(lambda token: token.text != "=", tokens))
    value = tomllib.loads("".join(texts) + "=0")
    names: list[str] = []
    while isinstance(value, dict):
        name, value = next(iter(value.items()))
        names.append(name)
    return tuple(names)
