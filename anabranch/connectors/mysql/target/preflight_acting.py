"""Checks of what reacts at the target to the rows we write: triggers, which no session can switch off (K7).

Foreign keys do not: our sessions have them off. What does not live here: keys that a load takes off (preflight_tables.py).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from anabranch.connectors.mysql.target.preflight_facts import Live
from anabranch.connectors.mysql.target.session import GUARD, ask, quoted, table_name
from anabranch.connectors.sql.findings import failed, ok, some, warning
from anabranch.model.checks import CheckResult
from anabranch.model.ids import TableId

FIRE = "fire"  # [apply] triggers
# https://dev.mysql.com/doc/refman/8.0/en/information-schema-triggers-table.html
BODIES = """
SELECT EVENT_OBJECT_TABLE, TRIGGER_NAME, ACTION_TIMING, EVENT_MANIPULATION, ACTION_STATEMENT
  FROM information_schema.TRIGGERS WHERE EVENT_OBJECT_SCHEMA = %s ORDER BY TRIGGER_NAME
"""


def check_triggers(live: Live) -> Iterator[CheckResult]:
    """Check for triggers on target tables: what they did at the source is in its log, and would be done twice."""
    fires = live.context.user_choices.get("apply.triggers") == FIRE
    found = _triggers(live)
    for table, existing in live.tables():
        open_ = [name for name, body in found.get(existing.id, {}).items() if GUARD not in body.lower()]
        guarded = [name for name in found.get(existing.id, {}) if name not in open_]
        if guarded:
            yield ok("triggers", f"{existing.id}: {some(guarded)} can tell our rows by {GUARD}")
        if open_ and fires:
            text = f"{some(open_)} on {existing.id} fire for the rows that we write"
            yield warning("triggers", text, "", table, open_)
        elif open_:
            one = open_[0].split(" ", 1)[0]
            drop = f"DROP TRIGGER {quoted(existing.id.schema)}.{quoted(one)}"
            text = f"{some(open_)} on {existing.id} would fire for the rows that we write, and cannot be switched off"
            hint = f'{drop}; or let it leave our rows alone (IF {GUARD} IS NULL THEN … END IF); or [apply] triggers = "fire"'
            yield failed("triggers", text, hint, table, open_)


def _triggers(live: Live) -> dict[TableId, dict[str, str]]:
    """Return triggers with their events and bodies by table, as the tables were asked for."""
    named = {existing.id: existing for _, existing in live.tables() if existing.triggers}
    found: dict[TableId, dict[str, str]] = defaultdict(dict)
    for schema in sorted({table.schema for table in named}):
        for name, trigger, timing, event, body in ask(live.connection, BODIES, schema):
            table = next((t for t in named if t.schema == schema and t.name.lower() == str(name).lower()), None)
            if table is not None and any(one.name == trigger for one in named[table].triggers):
                found[table][f"{trigger} ({timing} {event})"] = str(body)
    return found


def check_versioned(live: Live) -> Iterator[CheckResult]:
    """Check for tables that keep their history: each of our changes becomes a row of it.

    https://mariadb.com/kb/en/system-versioned-tables/
    """
    for table in live.context.targets.values():
        existing = live.existing.get(table.target)
        if existing is not None and existing.type == "SYSTEM VERSIONED":
            text = f"{existing.id} keeps the history of its rows: the load and every change add to it"
            hint = f"ALTER TABLE {table_name(existing.id)} DROP SYSTEM VERSIONING"
            yield warning("versioned", text, hint, table)
