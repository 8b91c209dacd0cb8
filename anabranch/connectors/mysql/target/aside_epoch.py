"""Row changes that are set aside, and settled, inside an epoch: `anabranch.set_aside`.

What does not live here: which are and what becomes of them (apply engine), transactions (`apply.py`), what a store reads and
wishes of them (`aside.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from anabranch.connectors.mysql.target.conflicts import as_json
from anabranch.connectors.mysql.target.session import Connection, run

if TYPE_CHECKING:
    from anabranch.rows.aside import AsideChange

ADD = f"""
INSERT INTO `anabranch`.`set_aside` (`job`, `sequence`, `position`, `commit_time`, `source_table`, `target_table`, `key`,
    `operation`, `before`, `after`, `reason`, `keys_off`, `unconverted`) VALUES (%s{", %s" * 12})
"""
WAITING = "WHERE `job` = %s AND `number` IN ({}) AND `discarded_at` IS NULL"
REMOVE = f"DELETE FROM `anabranch`.`set_aside` {WAITING}"
DISCARD = f"UPDATE `anabranch`.`set_aside` SET `wish` = '', `discarded_at` = CURRENT_TIMESTAMP(6) {WAITING}"
NUMBERS = 1000  # in one statement


def add(connection: Connection, job: str, one: AsideChange) -> int:
    """Set a change aside. Returns its number."""
    where = [one.sequence, one.position, one.commit_time, str(one.source), str(one.target)]
    images = [as_json(one.key), str(one.operation), as_json(one.before), as_json(one.after)]
    run(connection, ADD, job, *where, *images, one.reason, one.keys_off, as_json(one.unconverted))
    return int(connection.insert_id())


def settle(connection: Connection, job: str, numbers: Sequence[int], discarded: bool) -> int:
    """Remove or discard changes that are set aside. Returns how many of them waited."""
    statement, done = DISCARD if discarded else REMOVE, 0
    for start in range(0, len(numbers), NUMBERS):
        some = numbers[start : start + NUMBERS]
        done += run(connection, statement.format(", ".join(["%s"] * len(some))), job, *some)
    return done
