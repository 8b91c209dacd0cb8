"""Hides secrets in any text: those that the job knows in every form in which they are written, and what looks like one.

What does not live here: values of rows, which no list can have (`cutting.py`).
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING
from urllib.parse import quote, quote_plus, unquote

if TYPE_CHECKING:
    from anabranch.view.job_view import JobView

HIDDEN = "…"
NAMES = re.compile(
    r"pass|pwd|secret|token|credential|private|api_?key|auth(?!_plugin)|connection_?string|dsn", re.IGNORECASE
)
NO_SECRETS = ("PWD", "OLDPWD")  # directories
SHORT = 4  # characters: a shorter secret is hidden as a word alone, else no text would be left
_LOGIN = re.compile(r"\b([a-zA-Z][a-zA-Z0-9+.-]*://)[^\s/\"'<>]*@")
_IDENTIFIED = re.compile(
    r"\b(IDENTIFIED\s+(?:WITH\s+\S+\s+)?(?:BY|AS)\s+(?:PASSWORD\s+)?|PASSWORD\s+)('[^']*'|\"[^\"]*\")", re.IGNORECASE
)
_SAID = re.compile(
    r"(\b[\w.-]*(?:passw(?:or)?d|passphrase|pwd|secret|token|api_?key|credentials?|authorization)[\"']?\s*(?:=|:)\s*)"
    r"(\\?\"(?:[^\"\\]|\\.)*\\?\"|'[^']*'|(?:Basic |Bearer )?[^\s,;&)\"']+)",
    re.IGNORECASE,
)
_USER = re.compile(r"\b(user(?: name)?|role|login)( [\"'`])([^\"'`]*)([\"'`])", re.IGNORECASE)
_USER_AT = re.compile(r"(['\"`])[^'\"`\s]*(['\"`]@['\"`])")
_BEARER = re.compile(r"\b(Basic|Bearer) [A-Za-z0-9+/=._~-]{6,}")
PLAIN_QUERY = ("ssl_mode", "sasl_mechanism")
_QUERY = re.compile(r"([?&])([\w.-]+)=([^&\s\"']*)")


@dataclass(frozen=True)
class Secrets:
    """Passwords that are known by their values, and the users that they belong to."""

    values: frozenset[str]
    logins: frozenset[tuple[str, str]] = frozenset()

    @classmethod
    def of(cls, job: JobView, environment: Mapping[str, str], written: str) -> Secrets:
        """Collect the job's passwords, what its file (`written`) has in their place, and variables that are called like one."""
        ends = [job.config.source.endpoint, *job.config.ends.values()]
        values = {end.password for end in ends}
        values |= {
            value
            for name, value in environment.items()
            if NAMES.search(name) and name not in NO_SECRETS and len(value) >= SHORT
        }
        for login in re.findall(r"://([^\s/\"'@]*(?:@[^\s/\"'@]*)*)@", written):
            typed = login.partition(":")[2]
            values |= {text for text in (typed, unquote(typed)) if "${" not in text}
        logins = {(end.user, end.password) for end in ends if end.password}
        return cls(frozenset(value for value in values if value.strip()), frozenset(logins))

    def hide(self, text: str) -> str:
        """Return the text without secrets, and without users in URLs and in what servers say of them."""
        if self._known is not None:
            text = self._known.sub(HIDDEN, text)
        text = _LOGIN.sub(rf"\1{HIDDEN}@", text)
        text = _IDENTIFIED.sub(rf"\1{HIDDEN}", text)
        text = _SAID.sub(rf"\1{HIDDEN}", text)
        text = _BEARER.sub(rf"\1 {HIDDEN}", text)
        text = _USER.sub(rf"\1\2{HIDDEN}\4", text)
        return _USER_AT.sub(rf"\1{HIDDEN}\2", text)

    def url(self, text: str) -> str:
        """Return a URL of the job file with its place alone: neither user nor password, and options by their names."""
        return _QUERY.sub(
            lambda found: found[0] if found[2] in PLAIN_QUERY else f"{found[1]}{found[2]}={HIDDEN}", self.hide(text)
        )

    @cached_property
    def _known(self) -> re.Pattern[str] | None:
        forms = {form for value in self.values for form in _forms(value)}
        forms |= {form for user, password in self.logins for form in _base64(f"{user}:{password}")}
        longest = sorted(filter(None, forms), key=len, reverse=True)
        found = [re.escape(form) if len(form) >= SHORT else rf"(?<!\w){re.escape(form)}(?!\w)" for form in longest]
        return re.compile("|".join(found)) if found else None


def _forms(value: str) -> Iterator[str]:
    """Yield a secret as it may stand in a text: plain, escaped, percent-encoded, in hexadecimal and in base64."""
    yield value
    yield repr(value)[1:-1]
    yield value.replace("'", "''")
    yield from (json.dumps(value, ensure_ascii=is_ascii)[1:-1] for is_ascii in (True, False))
    yield json.dumps(json.dumps(value)[1:-1])[1:-1]
    for encoded in (quote(value, safe=""), quote(value), quote_plus(value)):
        yield from (encoded, re.sub("%..", lambda found: found[0].lower(), encoded))
    if len(value) >= SHORT:
        yield "".join(f"%{byte:02X}" for byte in value.encode(errors="replace"))
        yield from (value.encode(errors="replace").hex(), value.encode(errors="replace").hex().upper())
        yield from _base64(value)


def _base64(value: str) -> Iterable[str]:
    """Yield what base64 makes of a value, wherever it stands in what is encoded: without the letters that depend on others."""
    data = value.encode(errors="replace")
    for before in range(3):
        encoded = base64.b64encode(bytes(before) + data).decode().rstrip("=")
        first = -(-before * 8 // 6)
        last = (before + len(data)) * 8 // 6
        core = encoded[first:last]
        if len(core) >= SHORT:
            yield from (core, core.replace("+", "-").replace("/", "_"))
