"""The last results of verifications that go on for ever: `anabranch.verified`.

What does not live here: what a result is (model/verified.py).
"""

from __future__ import annotations

import json

from anabranch.connectors.mysql.target.session import Connection, ask, run
from anabranch.connectors.mysql.target.state_session import StateSession
from anabranch.model.ids import TableId
from anabranch.model.verified import Verified

READ = """
SELECT `source_table`, `verified_at`, `facts` FROM `anabranch`.`verified` WHERE `job` = %s ORDER BY `source_table`
"""
# Assignments go from left to right: `facts` is decided while the older time still stands.
KEEP = """
INSERT INTO `anabranch`.`verified` (`job`, `source_table`, `verified_at`, `facts`) VALUES (%s, %s, %s, %s)
ON DUPLICATE KEY UPDATE `facts` = IF(VALUES(`verified_at`) >= `verified_at`, VALUES(`facts`), `facts`),
    `verified_at` = GREATEST(`verified_at`, VALUES(`verified_at`))
"""
IS_THERE = "SELECT 1 FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'anabranch' AND TABLE_NAME = 'verified'"
FORGET = "DELETE FROM `anabranch`.`verified` WHERE `job` = %s AND `source_table` = %s"


def forget(connection: Connection, job: str, table: TableId) -> None:
    """Remove the result of a table, in the caller's transaction. A release before may not have made the place."""
    if ask(connection, IS_THERE):
        run(connection, FORGET, job, str(table))


class MysqlVerified:
    """VerifiedStore of the target."""

    def __init__(self, session: StateSession) -> None:
        self._session = session

    def verified(self, job: str) -> list[Verified]:
        if not self._session.rows("look for results of verification", IS_THERE):
            return []
        rows = self._session.rows("read the results of verification", READ, job)
        return [Verified.of(table, at, json.loads(facts)) for table, at, facts in rows]

    def note_verified(self, job: str, found: Verified) -> None:
        facts = json.dumps(found.facts, ensure_ascii=False)
        self._session.run("keep a result of verification", KEEP, job, str(found.source), found.at, facts)

    def forget_verified(self, job: str, table: TableId) -> None:
        if self._session.rows("look for results of verification", IS_THERE):
            self._session.run("forget a result of verification", FORGET, job, str(table))
