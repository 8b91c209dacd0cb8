"""Clusters of two nodes on this machine that take writes at either: Galera, and Group Replication with several primaries.

Nothing in them is told apart by time: a node that is slow for minutes stays a member.
https://galeracluster.com/library/documentation/galera-parameters.html
https://dev.mysql.com/doc/refman/8.0/en/group-replication-system-variables.html
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pymysql

from anabranch.testing import packages
from anabranch.testing.databases import Database, connect, unique_name
from anabranch.testing.in_time import until
from anabranch.testing.processes import give_away
from anabranch.testing.servers import Server, free_port, start_mariadb, start_mysql

NAMES = ("north", "south")
HOST = "127.0.0.1"
FAST = ("--sync-binlog=0", "--innodb-flush-log-at-trx-commit=2")
# The second node says that it has what the first one had when it began: both have an empty data directory.
# What came since is sent from the first one's cache. https://galeracluster.com/library/documentation/node-recovery.html
STATE = "# GALERA saved state\nversion: 2.1\nuuid: {0}\nseqno: {1}\nsafe_to_bootstrap: 0\n"
PLACE = "SHOW GLOBAL STATUS WHERE Variable_name IN ('wsrep_cluster_state_uuid', 'wsrep_last_committed')"
GALERA = (
    *FAST, "--wsrep-on=ON", "--wsrep-cluster-name=anabranch", "--wsrep-sst-method=skip", "--innodb-autoinc-lock-mode=2",
)  # fmt: skip
PATIENT = "evs.suspect_timeout=PT5M;evs.inactive_timeout=PT10M;evs.install_timeout=PT5M;gcache.size=32M"
GROUP = (
    *FAST, "--plugin-load-add=group_replication.so", f"--report-host={HOST}",
    "--loose-group-replication-start-on-boot=OFF", "--loose-group-replication-single-primary-mode=OFF",
    "--loose-group-replication-message-cache-size=134217728", "--loose-group-replication-recovery-get-public-key=ON",
    "--loose-group-replication-member-expel-timeout=3600",
)  # fmt: skip
SIZE = "SHOW GLOBAL STATUS WHERE Variable_name IN ('wsrep_cluster_size', 'wsrep_local_state_comment')"
ONLINE = "SELECT COUNT(*) FROM performance_schema.replication_group_members WHERE MEMBER_STATE = 'ONLINE'"


@contextmanager
def galera(directory: Path) -> Iterator[tuple[Server, Server]]:
    """Provide two nodes of a MariaDB."""
    ports, seen, made = _ports(4), "", []
    directory.mkdir()
    directory.chmod(0o755)
    provider = shutil.copy(packages.find_galera(), directory)  # where the server's account may read it
    try:
        for number, name in enumerate(NAMES):
            port, received = ports[2 * number], ports[2 * number + 1]
            listens = f"gmcast.listen_addr=tcp://{HOST}:{port};ist.recv_addr={HOST}:{received};{PATIENT}"
            options = (
                *GALERA,
                f"--wsrep-provider={provider}",
                f"--wsrep-cluster-address=gcomm://{seen}",
                f"--wsrep-node-address={HOST}:{port}",
                f"--wsrep-provider-options={listens}",
            )
            if made:
                _begin_at(directory / name, made[0])
            made.append(start_mariadb(directory / name, options=options))
            seen = f"{HOST}:{port}"
        for node in made:
            until(lambda node=node: _says(node, SIZE, ["2", "Synced"]), f"the node is not ready:\n{node.log_tail()}")
        yield made[0], made[1]
    finally:
        for node in reversed(made):
            node.stop(immediate=True)


def _begin_at(directory: Path, node: Server) -> None:
    """Make a data directory that says it is where this node is."""
    until(lambda: _says(node, SIZE, ["1", "Synced"]), f"the first node is not ready:\n{node.log_tail()}")
    alone = start_mariadb(directory, options=FAST)
    alone.stop()
    with closing(connect(node)) as connection, closing(connection.cursor()) as cursor:
        cursor.execute(PLACE)
        found = dict(cursor.fetchall())
    assert alone.datadir is not None
    file = alone.datadir / "grastate.dat"
    file.write_text(STATE.format(found["wsrep_cluster_state_uuid"], found["wsrep_last_committed"]))
    give_away(file)


@contextmanager
def group(directory: Path) -> Iterator[tuple[Server, Server]]:
    """Provide two members of a group of MySQL 8.0."""
    ports, made = _ports(2), []
    seeds = ",".join(f"{HOST}:{port}" for port in ports)
    named = f"--loose-group-replication-group-name={uuid.uuid4()}"
    try:
        for number, name in enumerate(NAMES):
            local = f"--loose-group-replication-local-address={HOST}:{ports[number]}"
            of_group = (named, local, f"--loose-group-replication-group-seeds={seeds}", f"--server-id={number + 1}")
            made.append(start_mysql(directory / name, options=(*GROUP, *of_group)))
        first, second = made
        _run(first, "SET GLOBAL group_replication_bootstrap_group = ON", "START GROUP_REPLICATION")
        _run(first, "SET GLOBAL group_replication_bootstrap_group = OFF")
        account = f"SOURCE_USER = '{first.user}', SOURCE_PASSWORD = '{first.password}'"
        _run(second, f"CHANGE REPLICATION SOURCE TO {account} FOR CHANNEL 'group_replication_recovery'")
        _run(second, "START GROUP_REPLICATION")
        for node in made:
            until(lambda node=node: _says(node, ONLINE, [2]), f"the member is not ready:\n{node.log_tail()}")
        yield first, second
    finally:
        for node in reversed(made):
            node.stop(immediate=True)


KINDS: dict[str, Callable[[Path], Any]] = {"galera": galera, "group": group}


@contextmanager
def held_up(at: Database, table: str) -> Iterator[None]:
    """Let a node apply nothing that concerns this table, and so nothing that was committed behind it."""
    with closing(at.connect()) as connection, closing(connection.cursor()) as cursor:
        cursor.execute(f"LOCK TABLES {table} READ")
        yield
        cursor.execute("UNLOCK TABLES")


def everywhere(made: Database, other: Server) -> Database:
    """Return the database of one node as another one has it, as soon as that has it."""
    there = Database(other, made.name)
    until(lambda: _says(other, f"SHOW DATABASES LIKE '{made.name}'", [made.name]), "the database is at one node alone")
    return there


def new_directory(servers_directory: Path) -> Path:
    return servers_directory / unique_name("cluster")


def _says(node: Server, query: str, wanted: Sequence[Any]) -> bool:
    """Ask a node, which may not be ready to be asked."""
    try:
        with closing(connect(node)) as connection, closing(connection.cursor()) as cursor:
            cursor.execute(query)
            return sorted(row[-1] for row in cursor.fetchall()) == list(wanted)
    except pymysql.err.MySQLError:
        return False


def _run(node: Server, *statements: str) -> None:
    with closing(connect(node)) as connection, closing(connection.cursor()) as cursor:
        for statement in statements:
            cursor.execute(statement)


def _ports(count: int) -> list[int]:
    found: set[int] = set()
    while len(found) < count:
        found.add(free_port())
    return sorted(found)
