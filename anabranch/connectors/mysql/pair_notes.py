"""The notes of deletes in `anabranch.pair_note`: a job of a pair keeps them at its target, its twin reads them there, at its
source (K23).

What does not live here: transactions (`target/apply.py`), who does what when (the apply engine). The driver's errors pass.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any, TypeVar

import pymysql

from anabranch.connectors.mysql.connection import ask
from anabranch.errors import SourceError, SourceUnavailable
from anabranch.model.ids import TableId
from anabranch.model.pair_notes import DeletedRow, PairNotes, StandingRow

DELETED, CLEARED, STANDING = "deleted", "cleared", "again"
ADD = (
    "INSERT INTO `anabranch`.`pair_note` (`job`, `kind`, `id`, `target_table`, `key`, `age`) VALUES (%s, %s, %s, %s, %s, %s)"
    " ON DUPLICATE KEY UPDATE `id` = `id`"
)
READ = (
    "SELECT `id`, `target_table`, `key`, `age` FROM `anabranch`.`pair_note` WHERE `job` = %s AND `kind` = %s"
    " AND `id` > %s ORDER BY `id` LIMIT %s"
)
FORGET = "DELETE FROM `anabranch`.`pair_note` WHERE `job` = %s AND `kind` = %s AND `id` = %s"
ALL = 1 << 62  # rows: LIMIT wants a number
NOT_THERE, NO_DATABASE = 1146, 1049
NO_RIGHT = (1142, 1143, 1044)
# https://dev.mysql.com/doc/mysql-errors/8.0/en/server-error-reference.html

T = TypeVar("T")
Run = Callable[..., Any]  # a statement and its values


def keep(run: Run, job: str, deleted: DeletedRow) -> None:
    key = json.dumps(dict(deleted.key), ensure_ascii=False)
    run(ADD, job, DELETED, deleted.id, str(deleted.table), key, deleted.age)


def keep_standing(run: Run, job: str, row: StandingRow) -> None:
    both = json.dumps({"key": dict(row.key), "values": dict(row.values)}, ensure_ascii=False)
    run(ADD, job, STANDING, row.id, str(row.table), both, row.age)


def standing(ask: Callable[..., Sequence[Any]], job: str, limit: int, after: str) -> tuple[StandingRow, ...]:
    rows = [
        (id, TableId.parse(table), json.loads(both), age)
        for id, table, both, age in ask(READ, job, STANDING, after, limit)
    ]
    return tuple(StandingRow(id, table, both["key"], age, both["values"]) for id, table, both, age in rows)


def forget_standing(run: Run, job: str, ids: Collection[str]) -> None:
    for id in ids:
        run(FORGET, job, STANDING, id)


def keep_cleared(run: Run, job: str, ids: Collection[str]) -> None:
    for id in ids:
        run(ADD, job, CLEARED, id, None, None, None)


def forget(run: Run, job: str, deleted: Collection[str], cleared: Collection[str]) -> None:
    for kind, ids in ((DELETED, deleted), (CLEARED, cleared)):
        for id in ids:
            run(FORGET, job, kind, id)


def read(ask: Callable[..., Sequence[Any]], job: str, limit: int = 0, after: str = "") -> PairNotes:
    asked = ((DELETED, after), (CLEARED, ""))
    deleted, cleared = (ask(READ, job, kind, above, limit or ALL) for kind, above in asked)
    rows = (DeletedRow(id, TableId.parse(table), json.loads(key), age) for id, table, key, age in deleted)
    return PairNotes(tuple(rows), tuple(id for id, *_ in cleared))


def read_at_source(connection: pymysql.Connection, job: str, limit: int, after: str) -> PairNotes:
    """Read what is committed; none where there is no such table. Raises SourceError where the user may not read it."""
    return _asked(lambda: read(partial(ask, connection), job, limit, after), PairNotes())


def standing_at_source(connection: pymysql.Connection, job: str, limit: int, after: str) -> tuple[StandingRow, ...]:
    """Read rows to be written again, as `read_at_source` does notes of deletes."""
    return _asked(lambda: standing(partial(ask, connection), job, limit, after), ())


def _asked(question: Callable[[], T], nothing: T) -> T:
    try:
        return question()
    except SourceUnavailable:
        raise
    except SourceError as error:
        number = error.__cause__.args[0] if isinstance(error.__cause__, pymysql.err.Error) else 0
        if number in (NOT_THERE, NO_DATABASE):
            return nothing
        if number in NO_RIGHT:
            what = "the source's user may not read anabranch.pair_note, by which a row that the other site has deleted is found"
            grant = "GRANT SELECT ON `anabranch`.* TO the user of [source] url"
            raise SourceError(what, hint=f'{grant}; or [pair] deletes = "refuse" in both job files') from None
        raise
