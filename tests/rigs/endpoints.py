"""How a connector reaches a database of a test."""

from __future__ import annotations

from urllib.parse import unquote, urlsplit

from anabranch.model.endpoint import Endpoint
from anabranch.testing.databases import Database


def endpoint_of(database: Database, user: str = "", password: str = "", port: int = 0, **options: str) -> Endpoint:
    """The endpoint of `database`; as another user, or through another port, where these are given."""
    url = urlsplit(database.url)
    return Endpoint(
        url.scheme,
        url.hostname or "",
        port or url.port or 0,
        user or unquote(url.username or ""),
        password or unquote(url.password or ""),
        unquote(url.path[1:]),
        tuple(options.items()),
    )
