"""Facts that the checks of a source share: the server as it answers, and how a finding is worded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from anabranch.connectors.postgresql.connection import Connection
from anabranch.connectors.postgresql.source.options import PostgresSourceOptions
from anabranch.contracts import PreflightContext
from anabranch.model.checks import CheckResult, CheckVerdict
from anabranch.model.endpoint import Endpoint

SHOWN = 8  # names in one message


@dataclass(frozen=True)
class Setting:
    """A server's setting as it is in force. `waits`: the configuration says otherwise, which a restart brings into force."""

    value: str
    waits: bool = False
    unit: str = ""


@dataclass(frozen=True)
class Live:
    """The facts that the checks share."""

    connection: Connection
    settings: Mapping[str, Setting]
    context: PreflightContext
    endpoint: Endpoint
    user: str
    options: PostgresSourceOptions

    @property
    def version(self) -> int:
        return self.connection.info.server_version

    def value(self, name: str) -> str | None:
        """Return a setting; None for one that this release does not have."""
        found = self.settings.get(name)
        return None if found is None else found.value


def some(names: Iterable[str]) -> str:
    listed = list(names)
    more = f" and {len(listed) - SHOWN} more" if len(listed) > SHOWN else ""
    return ", ".join(listed[:SHOWN]) + more


def ok(check: str, message: str) -> CheckResult:
    return CheckResult(f"source.{check}", CheckVerdict.OK, message)


def warning(check: str, message: str, hint: str) -> CheckResult:
    return CheckResult(f"source.{check}", CheckVerdict.WARNING, message, hint)


def failed(check: str, message: str, hint: str) -> CheckResult:
    return CheckResult(f"source.{check}", CheckVerdict.FAILED, message, hint)
