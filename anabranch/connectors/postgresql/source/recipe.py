"""Tell what has to be set up at a PostgreSQL before a job reads it: the facts of preflight, as steps in their order.

What does not live here: the facts themselves (`preflight_server.py`, `rights.py`, `slots.py`), which the checks judge by.
"""

from __future__ import annotations

from collections.abc import Iterator

from anabranch.connectors.postgresql.quoting import quote
from anabranch.connectors.postgresql.registered import may_see_jobs
from anabranch.connectors.postgresql.source.preflight_server import (
    IDLE,
    KEEP,
    KEPT_LOG,
    LOGICAL,
    OLDEST,
    OLDEST_NAME,
    OUR_CONNECTIONS,
    PINNED_TIMEOUT,
    TIMEOUT,
    TIMEOUT_LINE,
)
from anabranch.connectors.postgresql.source.rights import may_read, replication
from anabranch.model.recipe import Asked, EndRecipe, Item, ItemKind, Step, Version, check, made, setting, statement

KEEP_SINCE, IDLE_SINCE = (13,), (18,)
TABLES = (
    "anabranch preflight JOB: logged tables, replica identities, a primary key, types and values that the log shows"
)
OF_TABLES = ("source.unlogged", "source.replica_identity", "source.keys", "source.computed", "source.large_objects")


def recipe_of(asked: Asked) -> EndRecipe:
    """Return the steps. Pure: no server is asked."""
    text = f"PostgreSQL {OLDEST_NAME} or later, the primary, over a URL that leads to the server itself, not to a pool"
    room = f"max_connections and CONNECTION LIMIT of role and database leave {OUR_CONNECTIONS} and [load] parallel more"
    steps = (
        Step("source.release", "The release", (check(text),), ("source.version", "source.primary", "source.encoding")),
        Step("source.log", "The log, with rows", tuple(_settings(asked.version)), OF_LOG),
        Step("source.connections", "Room for the job's sessions", (check(room),), ("source.connections",)),
        *_user(asked),
        *_published(asked),
        Step("source.tables", "The tables", (check(TABLES),), OF_TABLES),
    )
    return EndRecipe(steps, (OLDEST // 10_000,))


OF_LOG = tuple(
    f"source.{name}"
    for name in ("wal_level", "max_replication_slots", "max_wal_senders", KEEP, IDLE, TIMEOUT, "failover")
)


def _settings(version: Version) -> Iterator[Item]:
    yield setting(f"wal_level = {LOGICAL}", "the log has rows", needs_restart=True)
    why = "one more than others use, for each job"
    yield setting("max_replication_slots = 10", why, needs_restart=True)
    yield setting("max_wal_senders = 10", why, needs_restart=True)
    if version >= KEEP_SINCE:
        yield setting(
            f"{KEEP} = {KEPT_LOG}", "a job that stands still does not fill the disk of its source", is_optional=True
        )
    if version >= IDLE_SINCE:
        yield setting(f"{IDLE} = 0", "capture that is away keeps its slot", is_optional=True)
    if version < (PINNED_TIMEOUT // 10_000,):
        yield setting(
            f"{TIMEOUT} = {TIMEOUT_LINE}", "a reader whose line was cut lets go of its slot", is_optional=True
        )


def _user(asked: Asked) -> Iterator[Step]:
    user = quote(asked.user)
    hba = f"host {asked.database} {asked.user} <address of this host>/32 scram-sha-256"
    login = statement(f"CREATE ROLE {user} LOGIN PASSWORD '<password>'")
    line = Item(
        hba,
        ItemKind.LINE,
        "pg_hba.conf, where no line lets the user in; then SELECT pg_reload_conf()",
        is_optional=True,
    )
    yield Step("source.user", "The job's user", (login, line), ("source.log_connection", "source.reached"))
    rights = [
        statement(f"GRANT CONNECT ON DATABASE {quote(asked.database)} TO {user}", "enter the database"),
        statement(replication(asked.user), "read the log"),
        *(statement(text, "read the tables") for text in may_read(asked.schemas, asked.user)),
        *(
            statement(text, "where other jobs write to this database: see to which tables", True)
            for text in may_see_jobs(asked.user)
        ),
    ]
    checks = ("rights", "replication", "schemas", "select", "registered", "row_security")
    yield Step("source.rights", "Its rights", tuple(rights), tuple(f"source.{name}" for name in checks))


def _published(asked: Asked) -> Iterator[Step]:
    user = quote(asked.user)
    why = "publish the tables; or let an administrator run what anabranch setup JOB shows"
    items = (
        statement(f"GRANT CREATE ON DATABASE {quote(asked.database)} TO {user}", why),
        statement(f"GRANT {quote(asked.owner)} TO {user}", f"{why}; the owner of each table"),
        made("publication and slot anabranch_<job>_<8 digits>", "anabranch drop JOB removes them"),
        made("REPLICA IDENTITY FULL of tables without a primary key", "it stays: others may rely on it"),
    )
    yield Step("source.publication", "Publication and slot", items, ("source.publication", "source.decoder"))
