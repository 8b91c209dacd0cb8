"""MariaDB as a source: what differs from its elder, MySQL, is told by the server and stands in the elder's tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch.connectors.mysql.source import MysqlSource
from anabranch.connectors.mysql.source.options import USUAL, MysqlSourceOptions

if TYPE_CHECKING:
    from anabranch.contracts import SourceConnector
    from anabranch.model.endpoint import Endpoint
    from anabranch.model.recipe import Asked, EndRecipe

FAMILY = "mariadb"


def connector(endpoint: Endpoint, options: MysqlSourceOptions = USUAL) -> SourceConnector:
    return MysqlSource(endpoint, options, FAMILY)


def recipe_for(asked: Asked) -> EndRecipe:
    """Return what has to be set up at a MariaDB before it is a source."""
    from anabranch.connectors.mysql.source.recipe import recipe_of

    return recipe_of(FAMILY, asked)
