"""Steps of databases whose connector comes later: what exBase's guide asks for, with its slips mended and public facts of
the vendors beside. Nothing of this has been tried on a server by this project, and preflight judges by none of it.

What does not live here: databases that have a connector, which tell their own steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from anabranch import connectors
from anabranch.databases import SOURCE, TARGET
from anabranch.model.recipe import Asked, Item, Step, check, setting, statement
from anabranch.recipe.routes import Release

RIGHTS_OF_ORACLE = (
    ("CREATE SESSION", "log in"),
    ("SELECT ANY TABLE", "read the tables"),
    ("FLASHBACK ANY TABLE", "read them at one moment"),
    ("SELECT ANY DICTIONARY", "read versions, character sets, tables and columns"),
    ("SELECT_CATALOG_ROLE", "read views of the dictionary"),
    ("SELECT ANY SEQUENCE", "read sequences"),
    ("LOCK ANY TABLE", "add supplemental logging"),
)
ON_TABLES = ("CREATE", "SELECT", "INSERT", "UPDATE", "DELETE")
CONTAINERS = ("12c", "18c", "19c")  # releases whose databases may be containers


def later_steps(release: Release, role: str, asked: Asked) -> tuple[Step, ...]:
    """Return the steps of a database in a role; none for one that needs no set-up in it."""
    make = STEPS.get((release.name, role))
    return tuple(make(release, asked)) if make else ()


def _oracle_source(release: Release, asked: Asked) -> Iterator[Step]:
    log = (
        statement("ALTER SYSTEM SET db_recovery_file_dest_size = 100G", "as much as the disk allows"),
        replace(statement("ALTER SYSTEM SET db_recovery_file_dest = '<directory>' SCOPE = SPFILE"), needs_restart=True),
        check(
            "SHUTDOWN IMMEDIATE, STARTUP MOUNT",
            "only where V$DATABASE.LOG_MODE is not ARCHIVELOG: it interrupts business",
        ),
        statement("ALTER DATABASE ARCHIVELOG"),
        statement("ALTER DATABASE OPEN"),
        statement("ALTER DATABASE ADD SUPPLEMENTAL LOG DATA (PRIMARY KEY) COLUMNS", "updates and deletes have the key"),
        statement("ALTER TABLE <table> ADD SUPPLEMENTAL LOG DATA (ALL) COLUMNS", "tables without a primary key", True),
    )
    yield Step("source.log", "Archived logs, with keys", log)
    user = asked.user
    is_common = release.release in CONTAINERS
    if is_common:
        user = user if user.lower().startswith("c##") else f"c##{user}"
    everywhere = " CONTAINER = ALL" if is_common else ""
    why = (
        "in a root of containers a user's name begins with c##; elsewhere leave out c## and CONTAINER"
        if is_common
        else ""
    )
    yield Step(
        "source.user", "The job's user", (statement(f'CREATE USER {user} IDENTIFIED BY "<password>"{everywhere}', why),)
    )
    rights = [statement(f"GRANT {right} TO {user}{everywhere}", why) for right, why in RIGHTS_OF_ORACLE]
    rights.append(statement(f"GRANT EXECUTE ON DBMS_METADATA TO {user}{everywhere}", "read definitions"))
    if is_common:
        rights.append(statement(f"GRANT LOGMINING TO {user}{everywhere}", "read the log"))
    else:
        rights.append(statement(f"GRANT EXECUTE ON DBMS_LOGMNR TO {user}", "read the log"))
    yield Step("source.rights", "Its rights", tuple(rights))


def _oracle_target(release: Release, asked: Asked) -> Iterator[Step]:
    user = asked.user
    yield Step("target.user", "The job's user", (statement(f'CREATE USER {user} IDENTIFIED BY "<password>"'),))
    rights = ", ".join(("CREATE SESSION", "CREATE TABLE", *(f"{one} ANY TABLE" for one in ON_TABLES)))
    items = (
        statement(f"GRANT {rights} TO {user}", "change the tables, and keep the job's state"),
        statement(f"ALTER USER {user} QUOTA UNLIMITED ON <tablespace>", "room for the job's state"),
    )
    yield Step("target.rights", "Its rights", items)


def _sqlserver_source(release: Release, asked: Asked) -> Iterator[Step]:
    agent = check("the service SQL Server Agent runs (sys.dm_server_services): SQLSERVERAGENT, or SQLAgent$<instance>")
    yield Step("source.agent", "The agent, which reads the log", (agent,))
    schema = asked.schemas[0] if asked.schemas else "dbo"
    tracked = (
        statement("EXEC sys.sp_cdc_enable_db", "in the database of the tables, as sysadmin"),
        statement(
            f"EXEC sys.sp_cdc_enable_table @source_schema = N'{schema}', @source_name = N'<table>', @role_name = NULL",
            "for each table that sys.tables.is_tracked_by_cdc does not show yet",
        ),
    )
    yield Step("source.log", "Change data capture", tracked)
    user = f"[{asked.user}]"
    items = (
        statement(f"CREATE LOGIN {user} WITH PASSWORD = '<password>'"),
        statement(f"CREATE USER {user} FOR LOGIN {user}"),
    )
    yield Step("source.user", "The job's user", items)
    rights = (
        statement(f"GRANT SELECT ON SCHEMA::cdc TO {user}", "read changes"),
        statement(f"GRANT SELECT ON SCHEMA::[{schema}] TO {user}", "read the tables"),
        statement(f"GRANT VIEW SERVER STATE TO {user}", "see whether the agent runs"),
    )
    yield Step("source.rights", "Its rights", rights)


def _sqlserver_target(release: Release, asked: Asked) -> Iterator[Step]:
    user = f"[{asked.user}]"
    items = (
        statement(f"CREATE LOGIN {user} WITH PASSWORD = '<password>'"),
        statement(f"CREATE USER {user} FOR LOGIN {user}"),
    )
    yield Step("target.user", "The job's user", items)
    schema = asked.schemas[0] if asked.schemas else "dbo"
    rights = (
        statement(f"GRANT SELECT, INSERT, UPDATE, DELETE, ALTER ON SCHEMA::[{schema}] TO {user}", "change the tables"),
        statement(f"GRANT CREATE SCHEMA, CREATE TABLE TO {user}", "keep the job's state"),
    )
    yield Step("target.rights", "Its rights", rights)


def _alike(role: str) -> Callable[[Release, Asked], Iterator[Step]]:
    """Return the steps of a database that a PostgreSQL's client speaks to: those of a PostgreSQL 12, with its own beside."""

    def steps(release: Release, asked: Asked) -> Iterator[Step]:
        made = connectors.recipe("postgresql", role, replace(asked, version=(12,)))
        for step in made.steps if made is not None else ():
            if step.name.endswith(".release"):
                continue  # its numbers are its own
            yield replace(step, checks=())
        if role == SOURCE:
            yield Step("source.own", "Settings of its own", OWN_SETTINGS.get(release.name, ()))

    return steps


SENDER = setting("wal_sender_timeout = 60s", "6 s is the default there: a reader that is busy for longer is cut")
OWN_SETTINGS: Mapping[str, tuple[Item, ...]] = {
    "vastbase-g100": (
        SENDER,
        check("vb_ctl restart", "after a change of wal_level, max_wal_senders, max_replication_slots"),
    ),
    "vastbase-e100": (
        setting(
            "shared_preload_libraries = 'decoderbufs'",
            "only once the plug-in's file is there: without it no start",
            True,
        ),
        check("libprotobuf-c 1.2 or later, found by the server's user (LD_LIBRARY_PATH)"),
    ),
}


STEPS: Mapping[tuple[str, str], Callable[[Release, Asked], Iterator[Step]]] = {
    ("oracle", SOURCE): _oracle_source,
    ("oracle", TARGET): _oracle_target,
    ("sqlserver", SOURCE): _sqlserver_source,
    ("sqlserver", TARGET): _sqlserver_target,
    **{
        (name, role): _alike(role)
        for name in ("vastbase-g100", "vastbase-e100", "opengauss", "gaussdb")
        for role in (SOURCE, TARGET)
    },
}
