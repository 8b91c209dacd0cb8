"""The databases. Engines come in by `source(endpoint)` and `target(endpoint)` only; drivers are imported on first use.

Which databases there are says the registry (`anabranch/databases.py`). One that can be a source has a module `source`, one
that can be a target a module `target`, each with `connector(endpoint, options)`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeGuard

from anabranch.databases import SOURCE, TARGET, Options, registry
from anabranch.errors import ConfigError, install_hint

if TYPE_CHECKING:
    from anabranch.contracts import RowTarget, SourceConnector, TargetConnector
    from anabranch.model.endpoint import Endpoint


ROWS, CHANGES = "connector", "change_connector"  # functions of a module `target`; not each has the second


def source(endpoint: Endpoint, options: Options | None = None) -> SourceConnector:
    """Return the connector that reads from `endpoint`. Raises ConfigError when this database cannot be a source."""
    connector: SourceConnector = _role(endpoint, options, SOURCE)
    return connector


def target(endpoint: Endpoint, options: Options | None = None) -> TargetConnector:
    """Return the connector that writes to `endpoint`. Raises ConfigError when this database cannot be a target."""
    connector: TargetConnector = _role(endpoint, options, TARGET)
    return connector


def row_target(endpoint: Endpoint, options: Options | None = None) -> RowTarget:
    """Return the connector of a target that keeps rows. Raises ConfigError for one that takes changes only."""
    connector = target(endpoint, options)
    if not _keeps_rows(connector):
        raise ConfigError(f"{endpoint.scheme}:// keeps no rows: it cannot be the target of such a job yet")
    return connector


def change_target(endpoint: Endpoint, options: Options | None = None) -> RowTarget:
    """Return the connector of a target that keeps changes in tables. Raises ConfigError for a database that has none yet."""
    connector: RowTarget = _role(endpoint, options, TARGET, CHANGES)
    return connector


def _keeps_rows(connector: TargetConnector) -> TypeGuard[RowTarget]:
    return hasattr(connector, "writer")


def _role(endpoint: Endpoint, options: Options | None, role: str, makes: str = ROWS) -> Any:
    database = registry()[endpoint.scheme]
    if role not in database.roles:
        raise ConfigError(f"{endpoint.scheme}:// cannot be a {role} yet")
    try:
        make = getattr(import_module(f"{database.package}.{role}"), makes, None)
        if make is None:
            raise ConfigError(
                f"{endpoint.scheme}:// keeps no changes yet", hint='form = "rows", or a PostgreSQL, MySQL or MariaDB'
            )
        return make(endpoint, options or database.options_of(role)())
    except ImportError as missing:  # also a driver without its C library
        raise ConfigError(
            f"the driver of {endpoint.scheme}:// is not installed ({missing.name or missing})",
            hint=install_hint(database.extra or database.name),
        ) from missing
