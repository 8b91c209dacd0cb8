"""MariaDB as a source: what differs from its elder, MySQL, is told by the server and stands in the elder's tables."""

from __future__ import annotations

from anabranch.abc import SourceConnector
from anabranch.connectors.mysql import MysqlSource
from anabranch.model.endpoint import Endpoint

FAMILY = "mariadb"


def source(endpoint: Endpoint) -> SourceConnector:
    return MysqlSource(endpoint, FAMILY)
