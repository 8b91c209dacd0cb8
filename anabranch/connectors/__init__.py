"""The databases. Engines come in by `source(endpoint)` and `target(endpoint)` only; drivers are imported on first use.

Which databases there are says the registry (`anabranch/databases.py`). One that can be a source has a module `source`, one
that can be a target a module `target`, each with `connector(endpoint, options)`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeGuard

from anabranch.databases import SOURCE, TARGET, Options, registry
from anabranch.errors import ConfigError, install_hint

if TYPE_CHECKING:
    from anabranch.contracts import RowTarget, SourceConnector, TargetConnector
    from anabranch.model.endpoint import Endpoint
    from anabranch.model.recipe import Asked, EndRecipe


ROWS, CHANGES = "connector", "change_connector"  # functions of a module `target`; not each has the second
RECIPE = "recipe_for"  # a function of either module; one whose servers need nothing has none


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


def recipe(name: str, role: str, asked: Asked) -> EndRecipe | None:
    """Return what has to be set up at a server of the database `name` in this role; None where nothing has to be.

    Raises ConfigError for a database that cannot be that."""
    make = _maker(name, role, RECIPE)
    with _installed(name):
        found: EndRecipe | None = make(asked) if make is not None else None
    return found


def _keeps_rows(connector: TargetConnector) -> TypeGuard[RowTarget]:
    return hasattr(connector, "loader")


def _role(endpoint: Endpoint, options: Options | None, role: str, makes: str = ROWS) -> Any:
    make = _maker(endpoint.scheme, role, makes)
    if make is None:
        raise ConfigError(
            f"{endpoint.scheme}:// keeps no changes yet", hint='form = "rows", or a PostgreSQL, MySQL or MariaDB'
        )
    with _installed(endpoint.scheme):
        return make(endpoint, options or registry()[endpoint.scheme].options_of(role)())


def _maker(name: str, role: str, makes: str) -> Any:
    """Return the function of this name in the module of a role, None where it has none."""
    database = registry()[name]
    if role not in database.roles:
        raise ConfigError(f"{name}:// cannot be a {role} yet")
    with _installed(name):
        return getattr(import_module(f"{database.package}.{role}"), makes, None)


@contextmanager
def _installed(name: str) -> Iterator[None]:
    """Turn an import that fails, also of a driver without its C library, into what has to be installed."""
    database = registry()[name]
    try:
        yield
    except ImportError as missing:
        raise ConfigError(
            f"the driver of {name}:// is not installed ({missing.name or missing})",
            hint=install_hint(database.extra or database.name),
        ) from missing
