"""MariaDB, the younger of MySQL's family: only what differs from its elder is here. The descriptor, without a driver."""

from __future__ import annotations

from dataclasses import replace

from anabranch.connectors.mysql import DATABASE as ELDER

DATABASE = replace(ELDER, name="mariadb", title="MariaDB", nicknames=("maria",))
