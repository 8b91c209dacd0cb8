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
# It counts a row that is there as found, and IGNORE would take wrong values: whose row it is has to be read.
ADD = """
INSERT INTO `anabranch`.`verified` (`verified_at`, `facts`, `job`, `source_table`) VALUES (%s, %s, %s, %s)
ON DUPLICATE KEY UPDATE `job` = `verified`.`job`
"""
IS_KEPT = """
SELECT 1 FROM `anabranch`.`verified` WHERE `verified_at` = %s AND `facts` = %s AND `job` = %s AND `source_table` = %s
"""
REPLACE = """
UPDATE `anabranch`.`verified` SET `verified_at` = %s, `facts` = %s
 WHERE `job` = %s AND `source_table` = %s AND `verified_at` = %s
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

    def note_verified(self, job: str, found: Verified, before: int = 0) -> bool:
        values = found.at, json.dumps(found.facts, ensure_ascii=False), job, str(found.source)
        if before:
            return self._session.run("keep a result of verification", REPLACE, *values, before) == 1
        self._session.run("keep a result of verification", ADD, *values)
        return bool(self._session.rows("look for a result of verification", IS_KEPT, *values))

    def forget_verified(self, job: str, table: TableId) -> None:
        if self._session.rows("look for results of verification", IS_THERE):
            self._session.run("forget a result of verification", FORGET, job, str(table))
