"""Statements of a MySQL's log cut into tokens: words, names, texts, marks, each with how deep in parentheses it stands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_PATTERN = r"""
      (?P<space>   \s+ | /\*(?!M?!).*?(?:\*/|\Z) | --(?=\s|\Z)[^\n]* | \#[^\n]* )   # ordinary comments are space
    | (?P<executed> /\*M?!\d* | \*/ )                                              # so are the marks of executed ones
    | (?P<name>    `(?:[^`]|``)*`? )
    | (?P<string>  '(?:[^'\\]|\\.|'')*'? | "(?:[^"\\]|\\.|"")*"? )
    | (?P<word>    [\w$\u0080-\U0010ffff]+ )
    | (?P<mark>    . )
    """
TOKEN = re.compile(_PATTERN, re.VERBOSE | re.DOTALL)
# With the sql_mode NO_BACKSLASH_ESCAPES a backslash is a sign as any other.
_WITHOUT_ESCAPES = re.compile(re.sub(r"\\\\\]\|\\\\\.", "]", _PATTERN), re.VERBOSE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Token:
    kind: str  # name | string | word | mark
    text: str  # as written; names and strings without their quotes
    depth: int = 0  # parentheses around it
    written: str = field(default="", compare=False)  # with its quotes
    is_apart: bool = field(default=False, compare=False)  # space or a comment stands before it

    @property
    def word(self) -> str:
        return self.text.upper() if self.kind == "word" else ""


def tokens(sql: str, escapes: bool = True) -> Iterator[Token]:
    """Cut a statement. `escapes`: a backslash in a text goes with the next sign."""
    depth, is_apart = 0, False
    for found in (TOKEN if escapes else _WITHOUT_ESCAPES).finditer(sql):
        kind, text = str(found.lastgroup), found[0]
        if kind in ("space", "executed"):
            is_apart = True
            continue
        if text == ")" and kind == "mark":
            depth -= 1
        yield Token(kind, _unquoted(text) if kind in ("name", "string") else text, depth, text, is_apart)
        is_apart = False
        if text == "(" and kind == "mark":
            depth += 1


def _unquoted(text: str) -> str:
    quote = text[0]
    inner = text[1:-1] if len(text) > 1 and text.endswith(quote) else text[1:]
    return inner.replace(quote * 2, quote)
