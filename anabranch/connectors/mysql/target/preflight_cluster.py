"""Checks of targets that are several servers: Galera and Group Replication, and of servers that want a key in every table.

https://mariadb.com/kb/en/mariadb-galera-cluster-known-limitations/
https://dev.mysql.com/doc/refman/8.0/en/group-replication-limitations.html
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from anabranch.connectors.mysql.target.preflight_facts import Live
from anabranch.connectors.sql.findings import failed, some, warning
from anabranch.model.checks import CheckResult
from anabranch.rows.net import TargetTable

GALERA, GROUP = "Galera", "Group Replication"
# Variable -> what switches it off. https://dev.mysql.com/doc/refman/8.0/en/server-system-variables.html#sysvar_sql_require_primary_key
# https://mariadb.com/kb/en/innodb-system-variables/#innodb_force_primary_key
WANT_KEYS = ("sql_require_primary_key", "innodb_force_primary_key")
# Then the server gives a key that nobody sees to each table that is made without one.
# https://dev.mysql.com/doc/refman/8.0/en/create-table-gipks.html
GIVES_KEYS = "sql_generate_invisible_primary_key"
GIVE_ONE = "give them a primary key at the source, or leave them out ([[rules]] exclude)"
# Variable -> bytes below which an epoch may be too large: what the servers have by themselves.
# https://galeracluster.com/library/documentation/mysql-wsrep-options.html#wsrep-max-ws-size
# https://dev.mysql.com/doc/refman/8.0/en/group-replication-system-variables.html#sysvar_group_replication_transaction_size_limit
SIZES = {GALERA: ("wsrep_max_ws_size", 1 << 30), GROUP: ("group_replication_transaction_size_limit", 150_000_000)}

# What tests have seen; of others it is said what their manuals say.
TESTED = {GALERA: ("mariadb", (10, 11)), GROUP: ("mysql", (8, 0))}
ONE_NODE = (
    "let the target's URL name one node, not a proxy or a name that spreads connections over several: another process of the"
    " job would be found by the checkpoint alone, and two may make the same table"
)

# A LOAD DATA commits every 10,000 rows; by default before MariaDB 10.4, which makes fragments of one transaction of them.
# https://mariadb.com/docs/server/ref/mdb/system-variables/wsrep_load_data_splitting
SPLITS = "wsrep_load_data_splitting"


def kind(variables: Mapping[str, str]) -> str:
    """Return what kind of cluster the server is a part of, "" for none."""
    if variables.get("wsrep_on", "OFF").upper() in ("ON", "1"):
        return GALERA
    return GROUP if variables.get("group_replication_group_name") else ""


def check_keys_wanted(live: Live) -> Iterator[CheckResult]:
    """Check for tables without a key that the server would refuse to make."""
    gives = live.is_on(GIVES_KEYS)
    keyless = [table for table in live.new() if not table.key and not (gives and not _counts(live, table))]
    for name in WANT_KEYS:
        if live.is_on(name) and keyless:
            tables = [str(table.source) for table in keyless]
            text = f"{name} is on, and tables without a key would be made: {some(tables)}"
            yield failed(name, text, f"SET GLOBAL {name} = OFF; or {GIVE_ONE}", names=tables)


def _counts(live: Live, table: TargetTable) -> bool:
    """Return whether a column counts: beside it the server makes no key of its own."""
    return any(column.auto_increment for column in live.context.tables[table.source].columns)


def check_cluster(live: Live) -> Iterator[CheckResult]:
    keyless = [table for table in live.context.targets.values() if not table.key]
    yield from one_node(live.variables, (live.family, live.version[:2]))
    yield from limits(live.variables, keyless)
    yield from commit_order(live.variables, live.context.user_choices.get("apply.commit_order", ""))
    if kind(live.variables) == GROUP and live.is_on("group_replication_enforce_update_everywhere_checks"):
        acting = [
            f"{table}.{key.name}"
            for table, schema in live.context.tables.items()
            for key in schema.foreign_keys
            if key.changes_rows
        ]
        if acting:
            text = f"this group takes no foreign keys that change rows: {some(acting)}"
            yield warning("cluster", text, "they are not made, or let the group have one primary", names=acting)


def one_node(variables: Mapping[str, str], server: tuple[str, tuple[int, ...]]) -> Iterator[CheckResult]:
    """Yield what a URL has to lead to. `server`: family, and major and minor version."""
    if of := kind(variables):
        node = variables.get("hostname", "")
        text = f"{of}: locks by which sessions find each other (GET_LOCK) are of one node, here of {node}"
        unseen = "" if server == TESTED[of] else "; no test has seen such a cluster, what is checked follows its manual"
        yield warning("node", text + unseen, ONE_NODE)


def commit_order(variables: Mapping[str, str], chosen: str) -> Iterator[CheckResult]:
    """Yield that a cluster does not get commits in any order (`MysqlJobs.begin_notes`)."""
    if chosen == "relaxed" and (of := kind(variables)):
        text = (
            f'[apply] commit_order = "relaxed": in a {of} a claim at another node does not wait for locks at this one'
        )
        yield failed("cluster", text, '[apply] commit_order = "kept"')


def limits(variables: Mapping[str, str], keyless: Sequence[TargetTable]) -> Iterator[CheckResult]:
    """Yield what a cluster refuses (changes of tables without a key, transactions beyond a size), or splits."""
    of = kind(variables)
    if not of:
        return
    if keyless:
        names = [str(table.source) for table in keyless]
        yield failed("cluster", f"{of} takes no changes of tables without a key: {some(names)}", GIVE_ONE, names=names)
    if of == GALERA and variables.get(SPLITS, "OFF").upper() in ("ON", "1"):
        text = f"{SPLITS} is on: LOAD DATA may commit in parts, so that rows of a piece are committed without their ledger row"
        yield failed("cluster", text, f"SET GLOBAL {SPLITS} = OFF")
    name, usual = SIZES[of]
    most = int(variables.get(name) or 0)
    if 0 < most < usual:
        text = f"{name} = {most}: {of} refuses a larger epoch, and a larger piece of a load"
        yield warning("cluster", text, f"SET GLOBAL {name} = {usual}")
    rows = int(variables.get("wsrep_max_ws_rows") or 0) if of == GALERA else 0
    if rows:
        text = f"wsrep_max_ws_rows = {rows}: {of} refuses an epoch with more rows"
        yield warning("cluster", text, "SET GLOBAL wsrep_max_ws_rows = 0")
