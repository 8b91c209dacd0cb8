"""A URL of the job file -> Endpoint. Variables are put in after the URL is cut into parts, and taken literally.

No message of this file repeats a part of a URL that could be a password. What does not live here: whether the server
is what the scheme says (preflight asks it).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from urllib.parse import SplitResult, unquote, urlsplit

from anabranch.databases import Database, public, registry
from anabranch.errors import Problem
from anabranch.model.endpoint import Endpoint

_VARIABLE = re.compile(r"\$\{([^{}]*)\}")
_ENCODE = "write special characters of a user or password as %XX, or use ${VARIABLE}, which is taken literally"


@dataclass
class _Parser:
    env: Mapping[str, str]
    role: str
    problems: list[Problem] = field(default_factory=list)

    def fail(self, message: str, expected: str = "", nearest: str = "") -> None:
        self.problems.append(Problem(message=message, expected=expected, nearest=nearest))

    def fill(self, text: str) -> str:
        """Percent-decode what stands in the URL, and put variables in as they are."""
        parts = _VARIABLE.split(text)
        return "".join(self.variable(part) if odd % 2 else unquote(part) for odd, part in enumerate(parts))

    def variable(self, name: str) -> str:
        if name not in self.env:
            self.fail(f"the environment variable {name} is not set", f"${{{name}}} to have a value")
        return self.env.get(name, "")

    def variables(self, text: str) -> None:
        """Report missing variables of a URL that cannot be cut into parts."""
        for name in dict.fromkeys(_VARIABLE.findall(text)):
            self.variable(name)

    def scheme(self, name: str) -> Database | None:
        """Return the scheme, None for an unknown one. A scheme of the other role is reported, and the rest of the URL
        is still checked.
        """
        usual = list(public(self.role))
        expected = "one of " * (len(usual) > 1) + ", ".join(f"{one.name}://" for one in usual)
        found = registry().get(name)
        if found is None and name.startswith("trail+"):  # an end of a hop, and of no job
            self.fail(f"{name}:// cannot be an end of a job", "the trail+file:// to which a pump brings such a trail")
        elif found is None:
            self.fail(f"unknown URL scheme {name!r}", expected, _nearest_scheme(name, usual))
        elif not self.has_role(found):
            self.fail(f"{name}:// cannot be a {self.role}", expected)
        return found

    def has_role(self, scheme: Database) -> bool:
        return self.role in ("", *scheme.roles)

    def port(self, text: str, default: int) -> int:
        if not text:
            return default
        known = len(self.problems)
        number = self.fill(text)
        if number.isascii() and number.isdigit() and 0 < int(number) < 65536:
            return int(number)
        if len(self.problems) == known:  # a missing variable has been reported
            self.fail("the port of the URL is not a port", f"a number from 1 to 65535 after the host; {_ENCODE}")
        return default

    def options(self, scheme: str, query: str) -> Iterator[tuple[str, str]]:
        allowed = registry()[scheme].url_options
        for pair in filter(None, query.split("&")):
            name, equals, value = pair.partition("=")
            if name not in allowed:
                shown = repr(name) if equals and name.isidentifier() else ""
                nearest = get_close_matches(name, allowed, 1)
                self.fail(f"unknown option {shown} in the URL", f"one of {', '.join(allowed)}", "".join(nearest))
                continue
            known = len(self.problems)
            filled = self.fill(value)
            yield name, self.option(scheme, name, filled) if len(self.problems) == known else value

    def option(self, scheme: str, name: str, value: str) -> str:
        modes = registry()[scheme].ssl_modes
        if name == "ssl_mode" and value.lower() not in modes and value.lower().replace("-", "_") not in modes:
            nearest = get_close_matches(value.lower(), modes, 1)
            self.fail(f"unknown ssl_mode {value!r} in the URL", f"one of {', '.join(modes)}", "".join(nearest))
        values = registry()[scheme].option_values.get(name)
        if values is not None and value not in values:
            nearest = get_close_matches(value, values, 1)
            self.fail(
                f"{name} of the URL is not one that a job can use", f"one of {', '.join(values)}", "".join(nearest)
            )
        return value


def parse_url(
    text: str, env: Mapping[str, str], *, needs_database: bool, role: str = ""
) -> tuple[Endpoint | None, list[Problem]]:
    """Return the endpoint, or every problem of the URL. `role`: source or target, "" for either."""
    parser = _Parser(env, role)
    name, separator, _ = text.partition("://")
    if not separator:
        parser.fail("not a URL", "scheme://user:${PASSWORD}@host:port/database")
        parser.variables(text)
        return None, parser.problems
    scheme = parser.scheme(name)
    if scheme is None:
        parser.variables(text)
        return None, parser.problems
    is_trail = scheme.is_trail
    endpoint = _trail(parser, scheme.name, text) if is_trail else _endpoint(parser, scheme, text, needs_database)
    return (None if parser.problems else endpoint), parser.problems


def _endpoint(parser: _Parser, scheme: Database, text: str, needs_database: bool) -> Endpoint | None:
    try:
        parts, several = _cut(text)
    except ValueError:
        parser.fail("not a URL", f"scheme://user:${{PASSWORD}}@host:port/database; {_ENCODE}")
        parser.variables(text)
        return None
    if parts.fragment or text.endswith("#") or "@" in parts.path + parts.query:
        parser.fail("the URL has a '#', '/', '?' or '@' where none can be", _ENCODE)
        parser.variables(text)
        return None
    login, _, address = parts.netloc.rpartition("@")
    user, _, password = login.partition(":")
    host, port = ("", "") if several else _address(address)
    host = ",".join(_addresses(parser, several, scheme)) if several else host
    database = parts.path.removeprefix("/")
    endpoint = Endpoint(
        scheme=parts.scheme,
        host=host if several else parser.fill(host),
        port=parser.port(port, scheme.port),
        user=parser.fill(user),
        password=parser.fill(password),
        database=parser.fill(database),
        options=tuple(parser.options(parts.scheme, parts.query)),
        variables=None if parser.env is os.environ else parser.env,
    )
    if scheme.needs_user and parser.has_role(scheme):
        written = replace(endpoint, user=endpoint.user or user, host=endpoint.host or host)
        named = replace(written, database=endpoint.database or database)
        _complete(parser, named, needs_database or scheme.has_databases)
    return endpoint


def _trail(parser: _Parser, scheme: str, text: str) -> Endpoint | None:
    """Read `trail+file:///DIR/NAME`: the path is the endpoint's `database`, and it is absolute."""
    path = parser.fill(text.partition("://")[2])
    if not path.startswith("/") or path.strip("/") == "" or any(mark in path for mark in "?#"):
        parser.fail("the URL names no directory", f"{scheme}:///DIRECTORY/NAME, an absolute path")
    elif ".." in path.split("/"):
        parser.fail("the URL leads upwards ('..')", f"{scheme}:///DIRECTORY/NAME, an absolute path")
    return Endpoint(scheme=scheme, host="", port=0, user="", password="", database=path.rstrip("/"))


def _address(text: str) -> tuple[str, str]:
    """Split host and port; an IPv6 host stands in brackets."""
    if text.startswith("["):
        host, _, rest = text[1:].partition("]")
        return host, rest.removeprefix(":")
    host, _, port = text.partition(":")
    return host, port


def _cut(text: str) -> tuple[SplitResult, str]:
    """Split a URL; several addresses come beside it, since brackets around one of them are nothing that urlsplit() takes
    everywhere. Raises ValueError."""
    scheme, _, rest = text.partition("://")
    before = re.split("[/?#]", rest, maxsplit=1)[0]
    login, at, address = before.rpartition("@")
    if "," not in address:
        return urlsplit(text), ""
    return urlsplit(f"{scheme}://{login}{at}several{rest[len(before) :]}"), address


def _addresses(parser: _Parser, text: str, scheme: Database) -> Iterator[str]:
    """Yield several addresses, each with its port."""
    if not scheme.has_addresses:
        parser.fail("the URL names several addresses", "one host, and one port after it")
        return
    port = scheme.port
    for address in text.split(","):
        host, number = _address(address)
        shown = f"[{host}]" if ":" in host else parser.fill(host)
        if not host:
            parser.fail("the URL has an empty address", "host:port,host:port")
        yield f"{shown}:{parser.port(number, port)}"


def _complete(parser: _Parser, endpoint: Endpoint, needs_database: bool) -> None:
    """Check that user, host and database are there. `endpoint` keeps what is written where a variable is missing: that
    is another problem.
    """
    if not endpoint.user and not registry()[endpoint.scheme].may_be_anonymous:
        parser.fail("the URL names no user", f"{endpoint.scheme}://user:${{PASSWORD}}@host/…")
    if not endpoint.host and not endpoint.option("unix_socket"):
        parser.fail("the URL names no host", "a host after the @, or the option unix_socket")
    if "," in endpoint.host and endpoint.option("unix_socket"):
        parser.fail("the URL names several addresses, and unix_socket", "one of the two")
    if needs_database and not endpoint.database:
        parser.fail("the URL names no database", f"{endpoint.scheme}://user:${{PASSWORD}}@host:port/database")
    if "/" in endpoint.database:
        parser.fail("the URL has more than one name after the host", "one database")


def _nearest_scheme(name: str, usual: Sequence[Database]) -> str:
    base = name.lower().split("+")[0].removeprefix("jdbc:")
    meant = [one.name for one in usual if base in one.nicknames]
    found = meant or get_close_matches(base, [one.name for one in usual], 1, 0.5)
    return f"{found[0]}://" if found else ""
