"""Types of MySQL and MariaDB with values that are easily lost."""

from __future__ import annotations

from anabranch.connectors.mysql.source.edge_values import ALL as ALL
