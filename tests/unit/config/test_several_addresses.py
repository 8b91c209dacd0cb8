"""Several addresses in one URL: read as they stand, with the usual port where one has none, and one end with fewer or more."""

from __future__ import annotations

import pytest

from anabranch.config.changes import WHERE, _is_one
from anabranch.config.url import parse_url
from anabranch.model.endpoint import Endpoint

ENV = {"PW": "s3cret,@/?#[]:", "HOSTS": "db1:1,::1,[::2]:3,db4"}


def parsed(text: str, role: str = "") -> Endpoint:
    endpoint, problems = parse_url(text, ENV, needs_database=False, role=role)
    assert endpoint is not None, problems
    return endpoint


@pytest.mark.parametrize(
    ("text", "place", "each"),
    [
        ("mysql://u@a,b:3307", "a:3306,b:3307", [("a", 3306), ("b", 3307)]),
        ("postgresql://u@a,b/d", "a:5432,b:5432", [("a", 5432), ("b", 5432)]),
        (
            "mariadb://u@[::1],[fe80::2]:7,c/d",
            "[::1]:3306,[fe80::2]:7,c:3306",
            [("::1", 3306), ("fe80::2", 7), ("c", 3306)],
        ),
        ("postgresql://u@a:1,[::1]:2/d", "a:1,[::1]:2", [("a", 1), ("::1", 2)]),
        ("postgresql://u@${HOSTS}/d", ENV["HOSTS"], [("db1", 1), ("::1", 5432), ("::2", 3), ("db4", 5432)]),
        ("postgresql://u@a:1/d", "a:1", [("a", 1)]),
        ("postgresql://u@[::1]:1/d", "[::1]:1", [("::1", 1)]),
    ],
)
def test_addresses_of_a_url(text: str, place: str, each: list[tuple[str, int]]) -> None:
    endpoint = parsed(text)
    assert endpoint.place == place
    assert [(one.host, one.port) for one in endpoint.each] == each
    assert {(one.user, one.database) for one in endpoint.each} == {(endpoint.user, endpoint.database)}


def test_a_password_with_every_mark_is_no_address() -> None:
    endpoint = parsed("postgresql://u:${PW}@a,b/d?ssl_mode=require&target_session_attrs=primary", "target")
    assert endpoint.password == ENV["PW"] and endpoint.place == "a:5432,b:5432"
    assert parsed("mysql://u,v:p%2Cq@a").password == "p,q" and len(parsed("mysql://u,v:p,q@a").each) == 1
    assert ENV["PW"] not in f"{endpoint!r} {endpoint} {endpoint.each}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mysql://u:secret@a,,b", "the URL has an empty address"),
        ("mysql://u:secret@a,b:x", "the port of the URL is not a port"),
        ("mysql://u:secret@a,b:99999", "the port of the URL is not a port"),
        ("mysql://u:secret@a,b?unix_socket=/run/x", "the URL names several addresses, and unix_socket"),
        ("postgresql://u:secret@a,b/d?target_session_attrs=standby", "target_session_attrs of the URL is not one"),
        ("mysql://u:secret@a,b?target_session_attrs=primary", "unknown option 'target_session_attrs'"),
    ],
)
def test_what_is_wrong_with_addresses_is_said_without_the_password(text: str, message: str) -> None:
    endpoint, problems = parse_url(text, ENV, needs_database=False)
    assert endpoint is None and message in problems[0].message
    assert "secret" not in str(problems)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("mysql://a:1/", "mysql://a:1,b:1/", True),
        ("mysql://a:1,b:1/", "mysql://b:1/", True),
        ("mysql://a:1,b:1/", "mysql://b:1,c:1/", True),
        ("mysql://::1:1/", "mysql://[::1]:1,b:1/", True),
        ("mysql://::1:1/", "mysql://[::1]:1/", True),
        ("mysql:///run/a.sock/", "mysql:///run/a.sock/", True),
        ("mysql:///run/a.sock/", "mysql:///run/b.sock/", False),
        ("mysql://a:1/", "mysql://b:1/", False),
        ("mysql://a:1/", "mariadb://a:1/", False),
        ("postgresql://a:1/x", "postgresql://a:1,b:1/y", False),
        ("trail+file:///a/b", "trail+file:///a/b", True),
        ("trail+file:///a/b", "trail+file:///c/b", False),
    ],
)
def test_a_server_may_join_a_source_or_leave_it(before: str, after: str, expected: bool) -> None:
    assert WHERE == "source" and _is_one(before, after) is expected
