"""Row changes that are set aside at a MySQL target, and what is wanted of them: `anabranch.set_aside`.

What does not live here: setting aside and settling, which an epoch does, which changes they are (apply engine).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from anabranch.connectors.mysql.target.session import Connection, run, transaction
from anabranch.connectors.mysql.target.state_facts import drop_fact
from anabranch.connectors.mysql.target.state_session import IN_ONE_STATEMENT, StateSession
from anabranch.model.ids import TableId

if TYPE_CHECKING:
    from anabranch.rows.aside import AsideChange

READ = """
SELECT `sequence`, `position`, `commit_time`, `source_table`, `target_table`, `key`, `operation`, `before`, `after`, `reason`,
       `keys_off`, `wish`, `discarded_at` IS NOT NULL, `unconverted`, `number`,
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', `set_aside_at`)
  FROM `anabranch`.`set_aside` WHERE `job` = %s AND (`discarded_at` IS NOT NULL) = %s{} ORDER BY `number`
"""
OF_TABLE = " AND `source_table` = %s"
COUNT = """
SELECT `source_table`, COUNT(*) FROM `anabranch`.`set_aside` WHERE `job` = %s AND `discarded_at` IS NULL GROUP BY `source_table`
"""
ASKED = "SELECT 1 FROM `anabranch`.`set_aside` WHERE `job` = %s AND `wish` <> '' AND `discarded_at` IS NULL LIMIT 1"
WISH = """
UPDATE `anabranch`.`set_aside` SET `wish` = %s, `reason` = COALESCE(NULLIF(%s, ''), `reason`)
 WHERE `job` = %s AND `number` IN ({}) AND `discarded_at` IS NULL
"""
FORGET = "DELETE FROM `anabranch`.`set_aside` WHERE `job` = %s AND `source_table` = %s"


class MysqlAsides:
    """AsideStore of the target."""

    def __init__(self, session: StateSession) -> None:
        self._session = session

    def set_aside(self, job: str, table: TableId | None = None, discarded: bool = False) -> list[AsideChange]:
        query = READ.format(OF_TABLE if table else "")
        rows = self._session.rows("read what is set aside", query, job, discarded, *([str(table)] if table else []))
        return [_change(row) for row in rows]

    def count_aside(self, job: str) -> Mapping[TableId, int]:
        rows = self._session.rows("count what is set aside", COUNT, job)
        return {TableId.parse(source): number for source, number in rows}

    def forget_aside(self, job: str, table: TableId) -> None:
        with self._session("forget what is set aside") as connection, transaction(connection):
            forget(connection, job, table)

    def asked(self, job: str) -> bool:
        return bool(self._session.rows("look what is wanted for rows that are set aside", ASKED, job))

    def wish(self, job: str, numbers: Sequence[int], wish: str, reason: str = "") -> int:
        found = 0
        with self._session("note what is wanted for rows that are set aside") as connection, transaction(connection):
            for start in range(0, len(numbers), IN_ONE_STATEMENT):
                some = numbers[start : start + IN_ONE_STATEMENT]
                marks = ", ".join(["%s"] * len(some))
                found += run(connection, WISH.format(marks), wish, reason, job, *some)
        return found


def forget(connection: Connection, job: str, source: TableId) -> None:
    """Forget everything that is set aside for a table, in the caller's transaction: its rows are replaced, or left to
    themselves."""
    run(connection, FORGET, job, str(source))
    drop_fact(connection, job, source, "set_aside")


def _change(row: tuple[Any, ...]) -> AsideChange:
    from anabranch.rows.aside import AsideChange  # most who open a store have nothing to do with such rows
    from anabranch.rows.net import Operation

    sequence, position, time, source, target, key, operation, before, after, reason, *rest = row
    keys_off, wish, is_discarded, unconverted, number, at = rest
    return AsideChange(
        sequence,
        position,
        time,
        TableId.parse(source),
        TableId.parse(target),
        json.loads(key),
        Operation(operation),
        _images(before),
        _images(after),
        reason,
        keys_off=bool(keys_off),
        wish=wish,
        is_discarded=bool(is_discarded),
        unconverted=json.loads(unconverted),
        number=number,
        set_aside_at=at,
    )


def _images(text: str | None) -> dict[str, str | None] | None:
    return None if text is None else json.loads(text)
