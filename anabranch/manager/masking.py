"""Hides passwords that stand literally in the text of a job file. A variable, `${NAME}`, is none, and stays.

A text is looked at as TOML has it: each string as its reader reads it, however it is written, and each comment. What does not
live here: secrets in any other text (`job/bundle/secrets.py`).
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator

from anabranch.config.toml_text import text_of
from anabranch.errors import ConfigError

HIDDEN = "…"
_TOKEN = re.compile(
    r'"""(?:[^\\]|\\.)*?"{3,5}|' + r"'''.*?'{3,5}|" + r'"(?:[^"\\\n]|\\.)*"|' + r"'[^'\n]*'|#[^\n]*", re.DOTALL
)
# As a URL is cut: in front of the path, up to the last @, behind the first colon. A comment may have what is none.
_LOGIN, _LOGIN_IN_COMMENT = (
    re.compile(r"(://[^:/?#]*:)([^/?#]*)(?=@)"),
    re.compile(r"(://[^:/\s]{0,200}:)(\S{0,2000})(?=@)"),
)
_WORD = r"(?:pass(?:word|phrase|wd)?|pwd|secret|token|api_?key|credentials?)"
_SAID = re.compile(rf"({_WORD}[\w.-]{{0,64}}=)(\"[^\"]*\"|'[^']*'|[^&\s\"',;]+)", re.IGNORECASE)
_SAID_IN_COMMENT = re.compile(
    rf"({_WORD}[\w.-]{{0,64}}[\"']?[ \t]{{0,9}}[=:][ \t]{{0,9}})(\"[^\"]*\"|'[^']*'|[^&\s\"',;]+)", re.IGNORECASE
)
_KEY = re.compile(rf"{_WORD}[\w-]*[\"']?[ \t]*=[ \t]*\Z", re.IGNORECASE)  # what stands in front of its value
_LONGEST_KEY = 200
_VARIABLES = re.compile(r"[\"']?(?:\$\{[^{}]*\})+[\"']?")


def masked(text: str) -> str:
    """Return the text of a job file without the passwords that somebody has written into it."""
    return _TOKEN.sub(lambda found: _hidden(found[0], _is_secret(text, found.start())), text)


def refuse_masked(text: str) -> None:
    """Raise ConfigError for the text of a job file in which a hidden password stands in place of one."""
    for found in _TOKEN.finditer(text):
        value = "" if found[0].startswith("#") else _read(found[0])
        if (value == HIDDEN and _is_secret(text, found.start())) or HIDDEN in _secrets(value):
            raise ConfigError(
                f"the file has {HIDDEN} where a password was hidden", hint="write ${NAME}, or the password itself"
            )


def _is_secret(text: str, start: int) -> bool:
    """Return whether the string that begins there is the value of a key that is called like a password."""
    return _KEY.search(text[max(0, start - _LONGEST_KEY) : start]) is not None


def _hidden(token: str, is_secret: bool) -> str:
    """Return a string or a comment, as it is written, without its passwords."""
    if token.startswith("#"):
        return _without(token, _LOGIN_IN_COMMENT, _SAID_IN_COMMENT)
    value = _read(token)
    if is_secret:
        return token if not value or _VARIABLES.fullmatch(value) else f"{token[0]}{HIDDEN}{token[0]}"
    hidden = _without(value, _LOGIN, _SAID)
    return token if hidden == value else text_of(hidden)


def _read(token: str) -> str:
    """Return the value of a TOML string."""
    try:
        return str(tomllib.loads(f"x = {token}")["x"])
    except tomllib.TOMLDecodeError:  # a text that is none yet
        return token.strip("\"'")


def _without(text: str, *patterns: re.Pattern[str]) -> str:
    for pattern in patterns:
        text = pattern.sub(lambda found: found[0] if _VARIABLES.fullmatch(found[2]) else f"{found[1]}{HIDDEN}", text)
    return text


def _secrets(value: str) -> Iterator[str]:
    """Yield what stands in a string in place of a password."""
    for pattern in (_LOGIN, _SAID):
        yield from (found[2].strip("\"'") for found in pattern.finditer(value))
