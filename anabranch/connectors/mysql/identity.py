"""A server's identity: which of its variables tell it from every other server, by family.

What does not live here: how they are asked for (`source/log_end.py`, `target/own_source.py`).
"""

from __future__ import annotations

from collections.abc import Mapping

# https://dev.mysql.com/doc/refman/8.0/en/replication-options.html#sysvar_server_uuid, from MySQL 5.6 on. MariaDB keeps no
# such thing: its server_uid (https://mariadb.com/kb/en/server-system-variables/#server_uid, not in older releases) comes
# from hardware address and port, so a server that moves counts as another one, and the switch is allowed by GTID.
IDENTITY = {"mysql": ("server_uuid",), "mariadb": ("server_id", "server_uid")}
# MySQL 5.5 has no name of its own: a copy of it on another machine or port is another server.
NAMELESS = ("server_id", "hostname", "port")
NAMES = tuple(dict.fromkeys((*IDENTITY["mysql"], *IDENTITY["mariadb"], *NAMELESS)))  # of the variables to ask for


def identity_of(family: str, told: Mapping[str, str]) -> str:
    """Return text that is equal for the same server. `told`: its global variables of these NAMES, those that it has."""
    facts = [told[name] for name in IDENTITY[family] if name in told]
    if family == "mysql" and facts:
        return facts[0]
    return "-".join([family, *(facts or [told[name] for name in NAMELESS])])


def is_certain(identity: str) -> bool:
    """Return whether no other server has this identity: every MariaDB without server_uid has that of all with its server_id."""
    kind, _, rest = identity.partition("-")
    return bool(identity) and (kind != "mariadb" or "-" in rest)
