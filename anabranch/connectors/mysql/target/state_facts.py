"""Facts of a table's state at a MySQL target, changed one by one: they stand in one text, as MySQL 5.6 has no JSON.

What does not live here: writing whole states (`states.py`).
"""

from __future__ import annotations

import json

from anabranch.connectors.mysql.target.session import Connection, ask, run
from anabranch.model.ids import TableId

LOCK_FACTS = "SELECT `facts` FROM `anabranch`.`table_state` WHERE `job` = %s AND `source_table` = %s FOR UPDATE"
CHANGE_FACTS = "UPDATE `anabranch`.`table_state` SET `facts` = %s WHERE `job` = %s AND `source_table` = %s"


def drop_fact(connection: Connection, job: str, source: TableId, fact: str) -> None:
    """Take a fact from a table's state, in the caller's transaction."""
    for (text,) in ask(connection, LOCK_FACTS, job, str(source)):
        facts = json.loads(text or "{}")
        if facts.pop(fact, None) is not None:
            run(connection, CHANGE_FACTS, json.dumps(facts, ensure_ascii=False), job, str(source))
