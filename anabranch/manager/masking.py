"""Hides passwords that stand literally in the text of a job file. A variable, `${NAME}`, is none, and stays.

What does not live here: secrets in any other text (`job/bundle/secrets.py`).
"""

from __future__ import annotations

import re

from anabranch.errors import ConfigError

HIDDEN = "…"
_LOGIN = re.compile(r"(://[^:/?#@\n]*:)([^/?#\n]*)@")  # as a URL is cut: up to the last @ in front of the path
_WORD = r"(?:pass(?:word|phrase|wd)?|pwd|secret|token|api_?key|credentials?)"
_QUERY = re.compile(rf"([?&][\w.-]*{_WORD}[\w.-]*=)([^&\s\"']+)", re.IGNORECASE)
_KEY = re.compile(rf"(\b[\w.-]*{_WORD}[\w-]*\"?\s*=\s*)(\"(?:[^\"\\\n]|\\.)*\"|'[^'\n]*')", re.IGNORECASE)
_VARIABLES = re.compile(r"[\"']?(?:\$\{[^{}]*\})+[\"']?")


def masked(text: str) -> str:
    """Return the text of a job file without the passwords that somebody has written into it."""
    text = _LOGIN.sub(lambda found: found[0] if _VARIABLES.fullmatch(found[2]) else f"{found[1]}{HIDDEN}@", text)
    for pattern in (_QUERY, _KEY):
        text = pattern.sub(lambda found: found[0] if _VARIABLES.fullmatch(found[2]) else _hidden(found), text)
    return text


def _hidden(found: re.Match[str]) -> str:
    quote = found[2][0] if found[2][0] in "\"'" else ""
    return f"{found[1]}{quote}{HIDDEN}{quote}"


def refuse_masked(text: str) -> None:
    """Raise ConfigError for the text of a job file in which a hidden password stands in place of one."""
    if any(found[2] == HIDDEN for found in _LOGIN.finditer(text)):
        raise ConfigError(
            f"the file has {HIDDEN} where a password was hidden", hint="write ${NAME}, or the password itself"
        )
