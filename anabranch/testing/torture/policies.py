"""Row security that would hide rows from a history's job, at both ends: the job's user is one who may see past it.

Policies are on the tables of a PostgreSQL source, and on every table that the job makes at a target, from its first moment on.
Sessions of the kit are a superuser's, whom no policy concerns. What does not live here: a policy that comes while a job streams
whose user may not see past it (bound.py). https://www.postgresql.org/docs/current/ddl-rowsecurity.html
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import closing

from anabranch import connectors
from anabranch.model.endpoint import Endpoint
from anabranch.testing.databases import Database
from anabranch.testing.torture.worst import USER as WORST
from anabranch.testing.torture.worst import has_worst

USER = "torture_sees"
SHARE = 0.2  # of the histories
KINDS = (
    "",  # a table without a policy shows no row
    "CREATE POLICY hides ON {} USING (false)",
    "CREATE POLICY hides ON {} USING (hashtext(ctid::text) % 2 = 0)",
    "CREATE POLICY hides ON {0} USING (true); CREATE POLICY more ON {0} AS RESTRICTIVE FOR SELECT USING (false)",
    "CREATE POLICY hides ON {} FOR SELECT USING (false)",
)
FORCED = "ALTER TABLE {0} ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY"
# Of each table that this user makes for a history. https://www.postgresql.org/docs/current/event-triggers.html
AT_THE_TARGET = f"""
CREATE FUNCTION torture_policies() RETURNS event_trigger LANGUAGE plpgsql AS $$
DECLARE made record;
BEGIN
  FOR made IN SELECT * FROM pg_event_trigger_ddl_commands() WHERE object_type = 'table' AND NOT in_extension
              AND schema_name ~ '^torture_[0-9]+$' AND current_user = '{USER}' LOOP
    EXECUTE format('{FORCED.format("%1$s")}', made.object_identity);
    EXECUTE format('CREATE POLICY hides ON %s USING (false)', made.object_identity);
  END LOOP;
END $$
"""


def has_policies(seed: int) -> bool:
    """Return whether a history has policies; not with the user of the worst settings, who is a superuser."""
    return not has_worst(seed) and random.Random(f"policies of {seed}").random() < SHARE


def at_the_source(seed: int, tables: Sequence[str]) -> Iterator[str]:
    """The statements, for most of the tables."""
    r = random.Random(f"policies at the source of {seed}")
    for table in tables if has_policies(seed) else ():
        if r.random() < 0.8:
            yield FORCED.format(table)
            yield from filter(None, [r.choice(KINDS).format(table)])


def make_user(admin: Database) -> None:
    """Owns what the administrator and the user with the worst settings own; may replicate and switch triggers off, and see
    past policies; no superuser."""
    admin.execute(
        f"CREATE ROLE {USER} LOGIN BYPASSRLS REPLICATION PASSWORD '{admin.server.password}'",
        f'GRANT "{admin.server.user}", {WORST} TO {USER}',
        *may_switch_triggers_off(admin, USER),
    )


def may_switch_triggers_off(admin: Database, user: str) -> Sequence[str]:
    """The grant, where the release has it."""
    (version,) = admin.query("SELECT current_setting('server_version_num')::int")[0]
    return [f"GRANT SET ON PARAMETER session_replication_role TO {user}"] if version >= 15_00_00 else []


def make_them_at_the_target(admin: Database) -> None:
    """Make the product's schema as the administrator, whom it then belongs to, and policies for tables to come."""
    server = admin.server
    own = Endpoint("postgresql", server.host, server.port, server.user, server.password, admin.name)
    with closing(connectors.target(own).store()) as store:
        store.prepare()
    admin.execute(
        AT_THE_TARGET,
        "CREATE EVENT TRIGGER torture_policies ON ddl_command_end WHEN TAG IN ('CREATE TABLE', 'CREATE TABLE AS')"
        " EXECUTE FUNCTION torture_policies()",
    )
