"""A schema registry, by its public interface: schemas get a number under a subject's name.

https://docs.confluent.io/platform/current/schema-registry/develop/api.html, which other registries have as well. One request
at a time over HTTP; nothing is kept open. What does not live here: what schemas say (rows/messages/).
"""

from __future__ import annotations

import base64
import json
import os
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote, unquote, urljoin, urlsplit
from urllib.request import HTTPRedirectHandler, HTTPSHandler, OpenerDirector, ProxyHandler, Request, build_opener

from anabranch.errors import ConfigError, TargetError, TargetUnavailable

KIND = "application/vnd.schemaregistry.v1+json"
LIMIT_S = 15.0  # for one answer
NOT_FOUND, CONFLICT = 404, 409
NO_SUBJECT, NO_VERSION, NO_LEVEL = 40401, 40402, 40408
TRANSITIVE = "_TRANSITIVE"  # the end of the names of such compatibilities
NOT_NOW = (408, 429)  # and every 5xx: tried again
REDIRECTS = range(300, 400)
ABSENT = object()
USUAL_KIND = "AVRO"  # of schemas of which nobody says another one
NUMBERS = range(1 << 31)  # those of schemas: four bytes of a message have one
SHOWN = 200  # characters of an answer that is none
AWAY_HINT = (
    "start the registry, or look at the address in [target.options] registry; anabranch run goes on by itself once it answers,"
    " another command is given again"
)
RIGHTS_HINT = "check user, password and rights of [target.options] registry: the job reads and writes its subjects"
_VARIABLE = re.compile(r"\$\{([^{}]*)\}")
_EXPECTED = 'registry = "https://user:${REGISTRY_PASSWORD}@host:8081"'


@dataclass
class Registry:
    """The registry at a URL of the job file, whose variables are taken from the environment. `ssl_ca`: a file in PEM form of
    who is trusted beside the system's authorities. `format`: of the schemas. Raises ConfigError for what is no such URL."""

    url: str
    ssl_ca: str = ""
    env: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False)
    format: str = "avro"
    _known: dict[tuple[str, str], int] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        self._place, self._headers = _read(self.url, self.env)
        self._opener = _opener(self._place, self.ssl_ca)

    @property
    def place(self) -> str:
        """The URL without user and password."""
        return self._place

    @property
    def kind(self) -> str:
        """The registry's word for the schemas."""
        return self.format.upper()

    def number(self, subject: str, schema: str) -> int:
        """Return the number of a schema under a subject: a new one, or that which it has already. Raises TargetError where the
        registry refuses it, TargetUnavailable."""
        if (subject, schema) not in self._known:
            doing = f"register the schema of {subject}"
            told = self._ask("POST", f"/subjects/{quote(subject, safe='')}/versions", doing, self._body(schema))
            found = told.get("id") if isinstance(told, dict) else None
            if type(found) is not int or found not in NUMBERS:
                raise self._odd(doing, told)
            self._known[subject, schema] = found
        return self._known[subject, schema]

    def fits(self, subject: str, schema: str) -> bool:
        """Return whether a subject would take a schema: it does where it has none yet, or has this one; else it has to fit the
        latest one, and all others where the subject's compatibility is transitive."""
        if (subject, schema) in self._known or not self._fits(subject, "latest", schema):
            return (subject, schema) in self._known
        return all(self._fits(subject, str(one), schema) for one in self._former(subject))

    def _former(self, subject: str) -> list[int]:
        """Return the versions beside the latest one that a new one has to fit."""
        doing = f"read the versions of {subject}"
        if not self._level(subject).endswith(TRANSITIVE):
            return []
        told = self._ask("GET", f"/subjects/{quote(subject, safe='')}/versions", doing, or_absent=True)
        if told is ABSENT:
            return []
        if not isinstance(told, list) or not all(type(one) is int for one in told):
            raise self._odd(doing, told)
        return sorted(told)[-2::-1]

    def _level(self, subject: str) -> str:
        """Return the compatibility of a subject, which may be that of the registry; "" where it is not for us to read."""
        doing = f"ask for the compatibility of {subject}"
        for path in (f"/config/{quote(subject, safe='')}?defaultToGlobal=true", "/config"):
            try:
                told = self._ask("GET", path, doing, or_absent=True)
            except TargetUnavailable:
                raise
            except TargetError:
                return ""  # a right that nothing else needs
            if told is not ABSENT:
                found = told.get("compatibilityLevel") if isinstance(told, dict) else None
                if not isinstance(found, str):
                    raise self._odd(doing, told)
                return found
        return ""

    def _fits(self, subject: str, version: str, schema: str) -> bool:
        path = f"/compatibility/subjects/{quote(subject, safe='')}/versions/{version}"
        doing = f"compare the schema of {subject}"
        told = self._ask("POST", path, doing, self._body(schema), or_absent=True)
        if told is ABSENT:
            return True
        found = told.get("is_compatible") if isinstance(told, dict) else None
        if not isinstance(found, bool):
            raise self._odd(doing, told)
        return found

    def latest(self, subject: str) -> str | None:
        """Return the latest schema of a subject, None where it has none. Raises TargetError for one of another kind."""
        doing = f"read the schema of {subject}"
        told = self._ask("GET", f"/subjects/{quote(subject, safe='')}/versions/latest", doing, or_absent=True)
        if told is ABSENT:
            return None
        found = told.get("schema") if isinstance(told, dict) else None
        if not isinstance(found, str):
            raise self._odd(doing, told)
        if (kind := told.get("schemaType", USUAL_KIND)) != self.kind:
            what = f"subject {subject} at the registry at {self._place} has schemas of {kind}, not of {self.kind}"
            raise TargetError(what, hint="take other topics, or delete the subject if nobody reads by it")
        return found

    def _body(self, schema: str) -> dict[str, str]:
        return {"schema": schema} | ({} if self.kind == USUAL_KIND else {"schemaType": self.kind})

    def types(self) -> list[str]:
        """Return the kinds of schemas that the registry takes."""
        told = self._ask("GET", "/schemas/types", doing := "ask for kinds of schemas")
        if not isinstance(told, list) or not all(isinstance(one, str) for one in told):
            raise self._odd(doing, told)
        return told

    def _ask(self, method: str, path: str, doing: str, told: Any = None, *, or_absent: bool = False) -> Any:
        """Return what the registry answers. `or_absent`: ABSENT for a subject that is not there."""
        body = None if told is None else json.dumps(told).encode()
        request = Request(self._place + path, body, self._headers, method=method)
        try:
            with self._opener.open(request, timeout=LIMIT_S) as answer:
                return json.loads(answer.read())
        except HTTPError as error:
            code, why = _told(error)
            if or_absent and error.code == NOT_FOUND and code in (NO_SUBJECT, NO_VERSION, NO_LEVEL):
                return ABSENT
            if error.code in REDIRECTS:
                raise self._elsewhere(error, f"cannot {doing}", path) from None
            raise self._refusal(error.code, f"cannot {doing}: {why}") from None
        except (OSError, HTTPException, ValueError) as error:
            what = f"cannot {doing}: the registry at {self._place}: {error}"
            raise TargetUnavailable(what, hint=AWAY_HINT) from error

    def _odd(self, doing: str, told: Any) -> TargetUnavailable:
        """Return the error of an answer of another shape: a proxy in front of a registry may answer in its place for a time."""
        what = json.dumps(told)
        what = what if len(what) <= SHOWN else f"{what[:SHOWN]}…"
        what = f"cannot {doing}: the registry at {self._place} answers with something else: {what}"
        return TargetUnavailable(
            what, hint="look at [target.options] registry: it has to be the address of a schema registry"
        )

    def _elsewhere(self, error: HTTPError, what: str, path: str) -> TargetError:
        """Return the error of an answer that points to another address: user and password are for this one alone."""
        where = _shown(self._place + path, error.headers.get("Location", ""))
        what = f"{what}: the registry at {self._place} points to {where or 'no address'} ({error.code}), which is not followed"
        return TargetError(what, hint="write the registry's own address into [target.options] registry")

    def _refusal(self, status: int, what: str) -> TargetError:
        what = f"{what} (the registry at {self._place} answers {status})"
        if status >= 500 or status in NOT_NOW:
            return TargetUnavailable(what, hint=AWAY_HINT)
        if status in (401, 403):
            return TargetError(what, hint=RIGHTS_HINT)
        hint = (
            "delete the subject if nobody reads by it, take other topics, or set its compatibility"
            if status == CONFLICT
            else ""
        )
        return TargetError(
            what, hint=hint or "check that [target.options] registry is the address of a schema registry"
        )


def _told(error: HTTPError) -> tuple[int, str]:
    """Return the registry's own code of an error, and its words."""
    try:
        found = json.loads(error.read())
        return int(found.get("error_code", 0)), str(found.get("message", error.reason))
    except (OSError, ValueError, AttributeError, TypeError):
        return 0, str(error.reason)


def _read(url: str, env: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """Return the address without user and password, and the headers of a request."""
    try:
        parts = urlsplit(url)
        host, user, password = parts.hostname, parts.username, parts.password
        port = parts.port
    except ValueError:
        host = user = password = port = None
    if not host or parts.scheme not in ("http", "https") or parts.query or parts.fragment:
        raise ConfigError("[target.options] registry is no address of a schema registry", hint=_EXPECTED)
    headers = {"Accept": KIND, "Content-Type": KIND}
    if user is not None:
        if password and not _VARIABLE.fullmatch(password):
            raise ConfigError("[target.options] registry shows a password", hint=f"name a variable: {_EXPECTED}")
        pair = f"{_filled(user, env)}:{_filled(password or '', env)}"
        headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
    shown = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{shown}{f':{port}' if port else ''}{parts.path.rstrip('/')}", headers


def _filled(text: str, env: Mapping[str, str]) -> str:
    parts = _VARIABLE.split(text)
    if missing := [name for name in parts[1::2] if name not in env]:
        raise ConfigError(f"the environment variable {missing[0]} is not set", hint=_EXPECTED)
    return "".join(env[part] if odd % 2 else unquote(part) for odd, part in enumerate(parts))


class _Stays(HTTPRedirectHandler):
    """Follows no answer to another address, where user and password would be sent, and a POST become a GET."""

    def redirect_request(self, *args: Any) -> None: ...


def _shown(asked: str, location: str) -> str:
    """Return the address that an answer points to, without user, password and query."""
    try:
        parts = urlsplit(urljoin(asked, location.strip())) if location.strip() else None
    except ValueError:
        return ""
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}" if parts else ""


def _opener(place: str, ssl_ca: str) -> OpenerDirector:
    """Return what asks, without a proxy: a registry is near its cluster. Answers that point elsewhere are errors."""
    handlers: list[Any] = [ProxyHandler({}), _Stays()]
    if place.startswith("https:"):
        context = ssl.create_default_context()
        if ssl_ca:
            _trust(context, ssl_ca)
        handlers.append(HTTPSHandler(context=context))
    return build_opener(*handlers)


def _trust(context: ssl.SSLContext, file: str) -> None:
    try:
        context.load_verify_locations(file)
    except OSError as error:
        raise ConfigError(f"ssl_ca cannot be read: {error}", hint="a file of certificates in PEM form") from error
