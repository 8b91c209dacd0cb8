"""Checks of what reacts at the target to the rows we write: foreign keys, triggers, rules, row security (K7).

Whether the first two react depends on the rights of the job's user; the other two change or hide rows and are refused.
What does not live here: what is taken off for a load (preflight_tables.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

from anabranch.connectors.postgresql.fence_names import SCHEMA, prefixes
from anabranch.connectors.postgresql.lookout import APPLICATION
from anabranch.connectors.postgresql.quoting import qualified, quote
from anabranch.connectors.postgresql.row_security import hidden
from anabranch.connectors.postgresql.target.constraints import grant_statement
from anabranch.connectors.postgresql.target.enforced import read_keys
from anabranch.connectors.postgresql.target.preflight_facts import Live
from anabranch.connectors.sql.findings import failed, ok, some, warning
from anabranch.model.checks import CheckResult, CheckVerdict
from anabranch.rows.keys import differences

PARAMETER_GRANTS_SINCE = 150000  # https://www.postgresql.org/docs/release/15.0/
# Bits of pg_trigger.tgtype, as in the server's pg_trigger.h
EVENTS = {4: "INSERT", 8: "DELETE", 16: "UPDATE", 32: "TRUNCATE"}
FIRES = {
    "O": "an ordinary session",
    "R": "a replica",
    "A": "any session",
}  # pg_trigger.tgenabled, pg_rewrite.ev_enabled

TRIGGERS = """
SELECT tgname::text, tgenabled::text, tgtype FROM pg_trigger
 WHERE tgrelid = %s AND NOT tgisinternal AND tgenabled <> 'D' ORDER BY 1
"""
# With the code of its function, and what is handed to it (moddatetime('changed_at')).
WRITING_TRIGGERS = """
SELECT t.tgname::text, t.tgtype, p.prosrc || ' ' || encode(t.tgargs, 'escape')
  FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid
 WHERE t.tgrelid = %s AND NOT t.tgisinternal AND t.tgenabled IN ('O', 'A') AND t.tgtype & 20 <> 0 ORDER BY 1
"""
BEFORE = 2  # a bit of pg_trigger.tgtype
FENCE = """
SELECT t.tgname::text, f.prosrc FROM pg_trigger t JOIN pg_proc f ON f.oid = t.tgfoid
  JOIN pg_namespace n ON n.oid = f.pronamespace
 WHERE t.tgrelid = %s AND n.nspname = %s
"""
FENCED = (
    "anabranch cutover of the job that was cut over from here, with --status, says how far it is; where nobody needs the fence"
    f" any more: DROP SCHEMA {SCHEMA} CASCADE"
)
# https://www.postgresql.org/docs/current/catalog-pg-rewrite.html
RULES = """
SELECT rulename::text, (ARRAY['SELECT', 'UPDATE', 'INSERT', 'DELETE'])[ev_type::text::int], ev_enabled::text
  FROM pg_rewrite WHERE ev_class = %s AND ev_type <> '1' AND ev_enabled <> 'D' ORDER BY 1
"""


def check_bypass(live: Live) -> Iterator[CheckResult]:
    """Report whether foreign keys and triggers are off, where target tables have, or will have, some (K7)."""
    reasons = [f"{e.id} has foreign keys or triggers" for _, e in live.tables() if e.has_actions]
    reasons += [f"{s.id} has foreign keys" for s in live.context.tables.values() if s.foreign_keys]
    reasons = sorted(set(reasons))
    if not reasons:
        return
    if live.may_bypass:
        yield ok("session_replication_role", "foreign keys and triggers are off for this job's writes")
        return
    firing = list(_firing(live))
    since = live.version >= PARAMETER_GRANTS_SINCE
    yield warning(
        "session_replication_role",
        f"{live.user} may not set it: changes are applied in an order that foreign keys accept, which is slower"
        + (f"; triggers fire: {some(firing)}" if firing else ""),
        grant_statement(live.user) if since else f"ALTER ROLE {quote(live.user)} SUPERUSER",
        names=[*firing, *reasons],
    )


def check_logged_actions(live: Live) -> Iterator[CheckResult]:
    """Check for keys that would act twice: the source's log has what a key does there, and the target's own key would
    do it as well.

    The change that the log has then finds no row.
    """
    if live.may_bypass or not live.context.logs_cascades:
        return
    for table, schema in sorted(live.context.tables.items(), key=str):
        names = [key.name for key in schema.foreign_keys if key.changes_rows and key.parent in live.context.tables]
        if names:
            what = f"foreign keys act at both ends, and the source's log has what they do there: {some(names)}"
            since = live.version >= PARAMETER_GRANTS_SINCE
            hint = grant_statement(live.user) if since else f"ALTER ROLE {quote(live.user)} SUPERUSER"
            yield CheckResult("target.foreign_keys", CheckVerdict.FAILED, what, hint, str(table))


def _firing(live: Live) -> Iterator[str]:
    """Yield triggers that fire for what an ordinary session writes: table, name, events."""
    for _, existing in live.tables():
        for name, enabled, bits in live.connection.execute(TRIGGERS, [existing.oid]):
            if enabled in "OA":
                events = " OR ".join(event for bit, event in EVENTS.items() if bits & bit)
                yield f"{name} on {existing.id} ({events})"


def check_aging_triggers(live: Live) -> Iterator[CheckResult]:
    """Check for triggers that fire and set the column by which a pair tells the newest row: our copy of a row would be newer
    than the row itself, at one site only. One whose code asks for our sessions (application_name) leaves them alone."""
    for table, existing in live.tables() if not live.may_bypass else ():
        column = live.context.told_by.get(table.source, "")
        for name, bits, code in live.connection.execute(WRITING_TRIGGERS, [existing.oid]) if column else ():
            if bits & BEFORE or re.search(r"\bupdate\b", code, re.IGNORECASE):
                is_named = re.search(rf"(?<!\w){re.escape(column)}(?!\w)", code, re.IGNORECASE)
                if is_named and APPLICATION not in code.lower():
                    text = f"trigger {name} fires for rows of the other site and sets {column}, by which the newest row is told"
                    drop = f"ALTER TABLE {qualified(existing.id)} DISABLE TRIGGER {quote(name)}"
                    since = live.version >= PARAMETER_GRANTS_SINCE
                    hint = grant_statement(live.user) if since else drop
                    yield failed("triggers", text, hint, table, [name])


def check_other_triggers(live: Live) -> Iterator[CheckResult]:
    """Check for triggers that fire in spite of session_replication_role = replica."""
    for table, existing in live.tables() if live.may_bypass else ():
        fence: dict[str, str] = dict(live.connection.execute(FENCE, [existing.oid, SCHEMA]).fetchall())
        if any(map(partial(_refuses, live.context.job), fence.values())):
            yield failed("triggers", "the fence of a cut-over refuses what this job writes", FENCED, table)
        for name in (n for n, enabled in existing.triggers.items() if enabled in "RA" and n not in fence):
            hint = f"ALTER TABLE {qualified(existing.id)} ENABLE TRIGGER {quote(name)}"
            yield failed("triggers", f"trigger {name} also fires for replicated rows", hint, table)


def _refuses(job: str, code: str) -> bool:
    """Return whether a trigger's function of a fence refuses this job's sessions, by its code."""
    return "RAISE EXCEPTION" in code and not any(prefix in code for prefix in prefixes(job))


def check_key_actions(live: Live) -> Iterator[CheckResult]:
    """Check for keys of the target that act otherwise than the source's, where they are not switched off."""
    if live.may_bypass:
        return
    enforced = read_keys(live.connection, live.existing)
    tables = {table.target: table for table in live.context.targets.values()}
    for found in differences(enforced, live.context.tables, live.context.targets):
        key, place = found.key, tables[found.key.child]
        alter = f"ALTER TABLE {qualified(key.child)}"
        if found.loses_rows:
            what = f"{found}: rows would be changed or lost that the source has kept"
            yield failed("foreign_keys", what, f"{alter} DROP CONSTRAINT {quote(key.name)}", place)
        else:
            yield warning("foreign_keys", str(found), f"{alter} ALTER CONSTRAINT {quote(key.name)} DEFERRABLE", place)


def check_rules(live: Live) -> Iterator[CheckResult]:
    """Check for rules: one makes other statements of ours, or none. COPY ignores rules, so that not even that is the
    same for all rows.
    """
    in_force = "RA" if live.may_bypass else "OA"
    for table, existing in live.tables():
        for name, event, enabled in live.connection.execute(RULES, [existing.oid]):
            if enabled in in_force:
                hint = f"ALTER TABLE {qualified(existing.id)} DISABLE RULE {quote(name)}"
                what = f"rule {name} rewrites {event} in {FIRES[enabled]}, also this job's"
                yield failed("rules", what, hint, table)


def check_row_security(live: Live) -> Iterator[CheckResult]:
    """Check for policies: they filter what apply changes and what verify reads, and refuse what the load writes."""
    tables = {existing.id: table for table, existing in live.tables()}
    for found in hidden(live.connection, tables):
        yield failed("row_security", found.message, found.mending, tables.get(found.table))
