"""Tell what has to be set up at a MySQL or MariaDB before a job writes to it: the facts of preflight, as steps in their order.

What does not live here: the facts themselves (`preflight_server.py`, `mysql/rights.py`, `migrate.py`), which the checks judge
by.
"""

from __future__ import annotations

from anabranch.connectors.mysql.registered import STATE
from anabranch.connectors.mysql.rights import ROUTINES, TO_WRITE, as_pattern, grant
from anabranch.connectors.mysql.target import migrate
from anabranch.connectors.mysql.target.preflight_facts import NAMES
from anabranch.connectors.mysql.target.preflight_server import (
    LARGEST_PACKET,
    LOG_FORMAT,
    OLDEST,
    OUR_CONNECTIONS,
    SETTINGS,
)
from anabranch.connectors.mysql.target.progress_view import RIGHTS as VIEW_RIGHTS
from anabranch.model.change_names import SCHEMA
from anabranch.model.recipe import Asked, EndRecipe, Item, Step, check, made, setting, statement


def recipe_of(family: str, asked: Asked) -> EndRecipe:
    """Return the steps for a server of this family. Pure: no server is asked."""
    oldest = ".".join(map(str, OLDEST[family])).removesuffix(".0")
    text = f"{NAMES[family]} {oldest} or later, with InnoDB; the URL begins with {family}://"
    of_release = ("target.family", "target.version", "target.engine")
    text_of_room = (
        f"max_connections and limits of the user leave {OUR_CONNECTIONS} connections and [load] parallel more"
    )
    steps = (
        Step("target.release", "The release", (check(text),), of_release),
        Step("target.settings", "Settings of the server", _settings(), OF_SETTINGS),
        Step("target.connections", "Room for the job's sessions", (check(text_of_room),), ("target.connections",)),
        *_user(asked),
        Step("target.tables", "The tables", (check(TABLES), check(TRIGGERS)), ("target.existing", "target.triggers")),
    )
    return EndRecipe(steps, OLDEST[family])


TABLES = "anabranch preflight JOB: best leave tables out, the load makes them; of those that stand it compares columns and keys"
TRIGGERS = "tables have no triggers, or some that leave our rows alone (@anabranch_applies)"
OF_SETTINGS = (
    *(f"target.{one.name}" for one in SETTINGS), "target.binlog_format", "target.max_allowed_packet", "target.read_only",
    "target.cluster", "target.node",
)  # fmt: skip


def _settings() -> tuple[Item, ...]:
    return (
        setting(LOG_FORMAT, "where the server has a log: changes of READ COMMITTED sessions are rows"),
        setting(LARGEST_PACKET, "where columns may hold more than 64 MB", is_optional=True),
        *(
            setting(
                f"{one.name} = {'ON' if 'ON' in one.good else 'OFF'}",
                f"else: {one.message}",
                is_optional="ON" in one.good,
            )
            for one in SETTINGS
            if one.name != "innodb_force_recovery"
        ),
        setting("read_only = OFF", "the server is a primary of its own"),
    )


def _user(asked: Asked) -> tuple[Step, ...]:
    user = f"'{asked.user}'@'%'"
    login = statement(f"CREATE USER {user} IDENTIFIED BY '<password>'")
    on_tables = [
        statement(grant(", ".join(TO_WRITE), f"{as_pattern(schema)}.*", user), "make the tables, load and change them")
        for schema in asked.schemas
    ]
    on_state = statement(
        grant(migrate.RIGHTS, f"`{STATE}`.*", user), "the job's state, in the same transaction as its rows"
    )
    changes = grant(", ".join((*TO_WRITE, *ROUTINES)), f"`{SCHEMA}`.*", user)
    on_changes = statement(changes, 'where form = "change_tables": make and fill change tables', is_optional=True)
    own = grant(", ".join(VIEW_RIGHTS), f"{as_pattern(asked.user)}.*", user)
    on_view = statement(own, "where [compat] exbase = true: make the view kafkaoffset there", is_optional=True)
    return (
        Step("target.user", "The job's user", (login,), ("target.reached",)),
        Step(
            "target.rights",
            "Its rights",
            (*on_tables, on_state, on_changes, on_view),
            ("target.rights", "target.state", "target.truncate", "target.compat"),
        ),
        Step(
            "target.made",
            "What the product makes here",
            (made(f"database {STATE}, with the state of all jobs", STATE_PAGE),),
        ),
    )


STATE_PAGE = "docs/reference/state.md has every table; anabranch drop JOB removes a job's rows"
