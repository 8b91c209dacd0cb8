"""Tell what has to be set up at a PostgreSQL before a job writes to it: the facts of preflight, as steps in their order.

What does not live here: the facts themselves (`preflight_server.py`, `constraints.py`), which the checks judge by.
"""

from __future__ import annotations

from anabranch.connectors.postgresql.quoting import quote
from anabranch.connectors.postgresql.target.constraints import grant_statement
from anabranch.connectors.postgresql.target.preflight_acting import PARAMETER_GRANTS_SINCE
from anabranch.connectors.postgresql.target.preflight_server import (
    OLDEST,
    OUR_CONNECTIONS,
    may_create,
    may_create_in,
)
from anabranch.model.recipe import Asked, EndRecipe, Item, ItemKind, Step, check, made, statement

TABLES = "anabranch preflight JOB: best leave tables out, the load makes them; of those that stand it compares columns and keys"
OF_TABLES = ("target.existing", "target.columns", "target.triggers", "target.row_security")
PUBLIC, MAKE = "public", "make tables, where the schema is there already"
SUPERUSER = (
    "without it foreign keys and triggers react to replicated rows, and apply keeps to an order that they accept"
)


def recipe_of(asked: Asked) -> EndRecipe:
    """Return the steps. Pure: no server is asked."""
    text = f"PostgreSQL {OLDEST // 10_000} or later, the primary, a database in UTF-8"
    room = f"max_connections and CONNECTION LIMIT of role and database leave {OUR_CONNECTIONS} and [load] parallel more"
    of_release = ("target.version", "target.writable")
    steps = (
        Step("target.release", "The release", (check(text),), of_release),
        Step("target.connections", "Room for the job's sessions", (check(room),), ("target.connections",)),
        Step("target.database", "The database", (_database(asked),), ("target.encoding",)),
        *_user(asked),
        Step("target.tables", "The tables", (check(TABLES),), OF_TABLES),
    )
    return EndRecipe(steps, (OLDEST // 10_000,))


def _database(asked: Asked) -> Item:
    text = f"CREATE DATABASE {quote(asked.database)} TEMPLATE template0 ENCODING 'UTF8'"
    return statement(text, "where it is not there: the job makes schemas and tables in it, never the database", True)


def _user(asked: Asked) -> tuple[Step, ...]:
    user = quote(asked.user)
    hba = f"host {asked.database} {asked.user} <address of this host>/32 scram-sha-256"
    items = [
        statement(f"GRANT CONNECT ON DATABASE {quote(asked.database)} TO {user}", "enter the database"),
        statement(may_create(asked.database, asked.user), "make schema anabranch, and schemas that are missing"),
        *(statement(may_create_in(one, asked.user), MAKE, one != PUBLIC) for one in asked.schemas),
    ]
    why = "where [compat] exbase = true: make the view kafkaoffset there"
    items.append(statement(may_create_in(PUBLIC, asked.user), why, is_optional=True))
    if asked.version >= (PARAMETER_GRANTS_SINCE // 10_000,):
        items.append(statement(grant_statement(asked.user), SUPERUSER, is_optional=True))
    else:
        items.append(check(f"{asked.user} is a superuser, where foreign keys and triggers are to be off: {SUPERUSER}"))
    line = Item(
        hba,
        ItemKind.LINE,
        "pg_hba.conf, where no line lets the user in; then SELECT pg_reload_conf()",
        is_optional=True,
    )
    login = statement(f"CREATE ROLE {user} LOGIN PASSWORD '<password>'")
    state = made(
        "schema anabranch, with the state of all jobs", "docs/reference/state.md has every table; anabranch drop JOB"
    )
    checks = ("rights", "state", "session_replication_role", "compat")
    return (
        Step("target.user", "The job's user", (login, line), ("target.reached",)),
        Step("target.rights", "Its rights", tuple(items), tuple(f"target.{name}" for name in checks)),
        Step("target.made", "What the product makes here", (state,)),
    )
