"""A pair of the user's: two URLs, looked at before the first history, so that what is missing is said once and at once.

What does not live here: how a server is entered and what it must allow (sources.py, targets.py and their families), what
histories do to it and what is cleared away (ground.py).
"""

from __future__ import annotations

import os

from anabranch.config.url import parse_url
from anabranch.errors import ConfigError
from anabranch.model.endpoint import Endpoint
from anabranch.testing.torture.ground import Ground
from anabranch.testing.torture.sources import source_family
from anabranch.testing.torture.targets import target_family

ALIASES = {"postgres": "postgresql"}  # schemes of URLs that are no family's name


def users_own(source: str, target: str) -> Ground:
    """The pair that two URLs name. Raises ConfigError; SourceUnavailable, TargetUnavailable where one cannot be entered;
    PreflightFailed where it cannot do what a history needs."""
    ends = _endpoint(source, "source"), _endpoint(target, "target")
    entered = source_family(_family(ends[0])).entered(ends[0])
    return Ground([entered], target_family(_family(ends[1])).entered(ends[1]))


def _endpoint(url: str, role: str) -> Endpoint:
    endpoint, problems = parse_url(url, os.environ, needs_database=False, role=role)
    if endpoint is None:
        raise ConfigError(f"--{role}:", problems=problems)
    if endpoint.options:
        raise ConfigError(f"--{role}: the kit's own sessions take no options", hint="name a server that needs none")
    return endpoint


def _family(end: Endpoint) -> str:
    return ALIASES.get(end.scheme, end.scheme)
