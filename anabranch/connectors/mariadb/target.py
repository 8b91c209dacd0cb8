"""MariaDB as a target: what differs from its elder, MySQL, is told by the server and stands in the elder's tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch.connectors.mysql.target import MysqlChangeTarget, MysqlTarget
from anabranch.connectors.mysql.target.options import USUAL, MysqlTargetOptions

if TYPE_CHECKING:
    from anabranch.contracts import RowTarget
    from anabranch.model.endpoint import Endpoint
    from anabranch.model.recipe import Asked, EndRecipe

FAMILY = "mariadb"


def connector(endpoint: Endpoint, options: MysqlTargetOptions = USUAL) -> RowTarget:
    """Return the target connector. Raises ModuleNotFoundError without the driver."""
    import pymysql  # noqa: F401 - asked whether it is there

    return MysqlTarget(endpoint, options, FAMILY)


def change_connector(endpoint: Endpoint, options: MysqlTargetOptions = USUAL) -> RowTarget:
    """Return the connector of a target that keeps changes. Raises ModuleNotFoundError without the driver."""
    import pymysql  # noqa: F401 - asked whether it is there

    return MysqlChangeTarget(endpoint, options, FAMILY)


def recipe_for(asked: Asked) -> EndRecipe:
    """Return what has to be set up at a MariaDB before it is a target."""
    from anabranch.connectors.mysql.target.recipe import recipe_of

    return recipe_of(FAMILY, asked)
