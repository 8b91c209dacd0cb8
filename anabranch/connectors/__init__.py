"""The databases. Engines come in by `source(endpoint)` and `target(endpoint)` only; drivers are imported on first use.

The table below is the registry: URL scheme -> package that has `source` and / or `target`, each with `connector(endpoint)`.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeGuard

from anabranch.errors import ConfigError, install_hint

if TYPE_CHECKING:
    from anabranch.contracts import RowTarget, SourceConnector, TargetConnector
    from anabranch.model.endpoint import Endpoint

SCHEMES = {
    "mysql": "anabranch.connectors.mysql",
    "mariadb": "anabranch.connectors.mariadb",
    "postgresql": "anabranch.connectors.postgresql",
    "memory": "anabranch.connectors.memory",
}
EXTRAS = {"mysql": "mysql", "mariadb": "mysql", "postgresql": "postgresql"}


def source(endpoint: Endpoint) -> SourceConnector:
    """The connector that reads from `endpoint`. Raises ConfigError when this database cannot be a source."""
    connector: SourceConnector = _role(endpoint, "source")
    return connector


def target(endpoint: Endpoint) -> TargetConnector:
    """The connector that writes to `endpoint`. Raises ConfigError when this database cannot be a target."""
    connector: TargetConnector = _role(endpoint, "target")
    return connector


def row_target(endpoint: Endpoint) -> RowTarget:
    """The connector of a target that keeps rows. Raises ConfigError for one that takes changes only."""
    connector = target(endpoint)
    if not _keeps_rows(connector):
        raise ConfigError(f"{endpoint.scheme}:// keeps no rows: it cannot be the target of such a job yet")
    return connector


def _keeps_rows(connector: TargetConnector) -> TypeGuard[RowTarget]:
    return hasattr(connector, "writer")


def _role(endpoint: Endpoint, role: str) -> Any:
    module = f"{SCHEMES[endpoint.scheme]}.{role}"
    if find_spec(module) is None:
        raise ConfigError(f"{endpoint.scheme}:// cannot be a {role} yet")
    try:
        return import_module(module).connector(endpoint)
    except ImportError as missing:  # also a driver without its C library
        extra = EXTRAS.get(endpoint.scheme, endpoint.scheme)
        raise ConfigError(
            f"the driver of {endpoint.scheme}:// is not installed ({missing.name or missing})",
            hint=install_hint(extra),
        ) from missing
