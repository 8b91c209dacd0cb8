"""May the job's user publish what the rules include, now and later? If not, who has to is said before it is missed.

https://www.postgresql.org/docs/current/sql-alterpublication.html
What does not live here: the statements (slots.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from anabranch.connectors.postgresql.connection import Connection, one
from anabranch.connectors.postgresql.quoting import quote
from anabranch.connectors.postgresql.source.slots import members
from anabranch.contracts import PreflightContext
from anabranch.model.checks import CheckResult, CheckVerdict
from anabranch.model.ids import TableId
from anabranch.model.markers import MARKERS, jobs_among

CHECK = "source.publication"
SHOWN = 8  # names in one message
_MAY_CREATE = "SELECT pg_catalog.has_database_privilege(pg_catalog.current_database(), 'CREATE')"
_OWNER = """
SELECT pg_catalog.pg_get_userbyid(pubowner)::text, pg_catalog.pg_has_role(pubowner, 'USAGE')
  FROM pg_catalog.pg_publication WHERE pubname = %s
"""
_OTHERS = """
SELECT n.nspname::text, c.relname::text, pg_catalog.pg_get_userbyid(c.relowner)::text
  FROM unnest(%s::text[], %s::text[]) AS w (schema, name)
  JOIN pg_catalog.pg_namespace n ON n.nspname = w.schema
  JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = w.name
 WHERE NOT pg_catalog.pg_has_role(c.relowner, 'USAGE') ORDER BY 1, 2
"""
_SETUP = "an administrator runs what anabranch setup JOB shows"


def check_publication(connection: Connection, context: PreflightContext) -> Iterator[CheckResult]:
    user = str(one(connection, "SELECT current_user"))
    published = members(connection, context.source_name) if context.source_name else None
    if published is None and not one(connection, _MAY_CREATE):
        yield _warning(f"the user {user} may not create the job's publication (CREATE on the database)", _SETUP)
    owner = connection.execute(_OWNER, [context.source_name]).fetchone()
    if owner is not None and not owner[1]:
        why = f"the publication {context.source_name} belongs to {owner[0]}, who has to add tables that come later"
        yield _warning(why, f"{_SETUP} before load --table, or once: {_grant(owner[0], user)}")
    jobs = jobs_among(context.leave_out)
    markers = MARKERS if jobs else frozenset[TableId]()
    if published is not None and (lacking := sorted(markers - published)):
        say = f"{_some(map(str, lacking))}, which say what comes from {_some(sorted(jobs))}"
        hint = (
            "anabranch setup JOB --execute adds them: let those jobs write after that only, else their rows come back"
        )
        yield _warning(f"the publication {context.source_name} lacks {say}", hint)
    wanted = sorted({*context.tables, *context.waiting, *markers} - (published or set()))
    schemas, names = [table.schema for table in wanted], [table.name for table in wanted]
    others = connection.execute(_OTHERS, (schemas, names)).fetchall() if wanted else []
    for role in sorted({row[2] for row in others}):
        tables = _some(str(TableId(schema, name)) for schema, name, owned in others if owned == role)
        why = f"only the owner {role} can publish {tables}"
        yield _warning(why, f"{_SETUP} as that role, or once: {_grant(role, user)}")


def _grant(role: str, user: str) -> str:
    return f"GRANT {quote(role)} TO {quote(user)}"


def _some(names: Iterable[str]) -> str:
    listed = list(names)
    more = f" and {len(listed) - SHOWN} more" if len(listed) > SHOWN else ""
    return ", ".join(listed[:SHOWN]) + more


def _warning(message: str, hint: str) -> CheckResult:
    return CheckResult(CHECK, CheckVerdict.WARNING, message, hint)
