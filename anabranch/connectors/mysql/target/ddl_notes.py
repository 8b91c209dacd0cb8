"""Notes of what became of changes of definitions, at a MySQL target: `anabranch.ddl`.

What does not live here: what a note says (model/ddl_changes.py), transactions (`apply.py`), how a table is rendered (`ddl.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch.connectors.mysql.target.session import Connection, run
from anabranch.connectors.sql.ddl_notes import change_of
from anabranch.model.ids import TableId

if TYPE_CHECKING:
    from anabranch.connectors.mysql.target.state_session import StateSession
    from anabranch.model.ddl_changes import DdlChange

WHICH = ("job", "sequence", "source_table")
FACTS = (
    "position",
    "commit_time",
    "target_table",
    "statement",
    "source_user",
    "setting",
    "action",
    "outcome",
    "why",
    "version",
    "digest",
    "by",
)
EACH = ", ".join(f"`{name}`" for name in FACTS)
# Two statements: an INSERT that may update, of a table with two unique keys, is one that a log of statements cannot repeat.
CHANGE = f"""
UPDATE `anabranch`.`ddl` SET {", ".join(f"`{name}` = %s" for name in FACTS)}, `noted_at` = CURRENT_TIMESTAMP(6)
 WHERE {" AND ".join(f"`{name}` = %s" for name in WHICH)}
"""
ADD = f"""
INSERT INTO `anabranch`.`ddl` ({EACH}, {", ".join(f"`{name}`" for name in WHICH)}) VALUES (%s{", %s" * 14})
"""
READ = f"""
SELECT `sequence`, `source_table`, {EACH}, `number`, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', `noted_at`)
  FROM `anabranch`.`ddl` WHERE `job` = %s{{}} ORDER BY `number`
"""
IS_THERE = "SELECT 1 FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'anabranch' AND TABLE_NAME = 'ddl'"


def keep(connection: Connection, job: str, change: DdlChange) -> None:
    """Note a change in the caller's transaction. The driver's errors pass."""
    c = change
    where, tables = [c.position, c.commit_time, str(c.target)], [job, c.sequence, str(c.source)]
    done = [c.rule.setting, c.rule.action, str(c.outcome), c.why, c.version, c.digest, c.by]
    row = [*where, c.statement, c.source_user, *done, *tables]
    if not run(connection, CHANGE, *row):
        run(connection, ADD, *row)


def read(session: StateSession, job: str, table: TableId | None) -> list[DdlChange]:
    """Return what is noted. A release before may not have made the place."""
    if not session.rows("look for changes of definitions", IS_THERE):
        return []
    query = READ.format(" AND `source_table` = %s" if table else "")
    return [change_of(row) for row in session.rows("read the changes of definitions", query, job, *_named(table))]


def _named(table: TableId | None) -> list[str]:
    return [str(table)] if table else []
