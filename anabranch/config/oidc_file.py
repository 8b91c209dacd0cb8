"""The file of an OpenID provider, by which people and programs log in at a manager.

A problem of it is told as one of a job file is: line, key, what was expected. What does not live here: logging in
(`manager/oidc/`).
"""

from __future__ import annotations

import re
from typing import Annotated, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator

from anabranch.config.section import Section, refuse
from anabranch.errors import Problem

LOOPBACK = ("127.0.0.1", "::1", "localhost")
_PATTERN = re.compile(r"[^\s,]{1,63}")
_SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")  # https://www.rfc-editor.org/rfc/rfc6749#section-3.3
ROLES = ("viewer", "operator", "administrator")


def is_safe(url: str) -> bool:
    """Return whether a URL is one of HTTPS, or of HTTP at this machine, and has neither a user nor a fragment."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return False
    is_open = parts.scheme == "http" and parts.hostname in LOOPBACK
    return (
        bool(parts.hostname) and (parts.scheme == "https" or is_open) and "@" not in parts.netloc and not parts.fragment
    )


def _url(text: str) -> str:
    if not is_safe(text) or "?" in text:
        expected = "https://HOST[:PORT][/PATH]; http:// at this machine's own addresses only"
        raise refuse(Problem(f"{text!r} is no such URL", expected=expected))
    return text


def _role(text: str) -> str:
    if text not in ROLES:
        raise refuse(Problem(f"{text!r} is no role", expected=f"one of {', '.join(ROLES)}"))
    return text


def _scope(text: str) -> str:
    if not _SCOPE.fullmatch(text):
        raise refuse(Problem(f"{text!r} is no scope", expected="a word such as groups"))
    return text


def _jobs(text: str) -> str:
    if not _PATTERN.fullmatch(text):
        raise refuse(Problem(f"{text!r} is no pattern on jobs' names", expected="a word such as web-*"))
    return text


Url = Annotated[str, AfterValidator(_url)]


class RoleRule(Section):
    """`[[roles]]`: the role of those of whom the provider says something."""

    claim: str = Field(min_length=1)
    """The claim; a dot leads into an object, where no claim has the whole name."""
    value: str = Field(min_length=1)
    """The value that the claim has to be, or to have among its values."""
    role: Annotated[str, AfterValidator(_role)]
    jobs: list[Annotated[str, AfterValidator(_jobs)]] = Field(default=["*"], min_length=1)
    """Patterns on the names of the jobs at which it counts."""


class OidcFile(Section):
    """The file of `anabranch serve --oidc`."""

    issuer: Url
    """The provider, as its own discovery document and its tokens name it."""
    client_id: str = Field(min_length=1)
    public_url: Url
    """The address of the console in browsers; the provider sends them back to PUBLIC_URL/login/oidc/callback."""
    client_secret_file: str | None = None
    client_secret_env: str | None = None
    name: str = Field(default="the OpenID provider", min_length=1, max_length=60)
    """The name of the provider on the button of the login page: log in with NAME."""
    scopes: list[Annotated[str, AfterValidator(_scope)]] = ["profile"]
    """The scopes that the provider is asked for beside `openid`."""
    user_claim: str = Field(default="sub", min_length=1)
    """The claim by which people are called in the console and in the audit."""
    session_hours: int = Field(default=8, ge=1, le=24)
    """After which a person logs in anew: what the provider takes away counts from then on."""
    api_audience: str | None = None
    """REST takes the provider's tokens for this audience; without it, none of them."""
    ca_file: str | None = None
    """The authority (PEM) of the provider's certificate, where the system does not know it."""
    roles: list[RoleRule] = Field(min_length=1)

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.client_secret_file is not None and self.client_secret_env is not None:
            raise refuse(Problem("two secrets are named", expected="client_secret_file or client_secret_env"))
        if urlsplit(self.public_url).path.strip("/"):
            raise refuse(Problem(f"public_url {self.public_url!r} has a path", expected="scheme, host and port alone"))
        return self
