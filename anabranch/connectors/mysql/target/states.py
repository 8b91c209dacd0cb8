"""States of tables at a MySQL target: `anabranch.table_state`.

Every change is a compare-and-set: the row is locked, compared with what the caller has seen, then written. What is written
inside an epoch (`apply.py`, `begin.py`) goes by the functions here, in the caller's transaction.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pymysql

from anabranch.connectors.mysql.target import aside, verified
from anabranch.connectors.mysql.target.errors import DUPLICATE
from anabranch.connectors.mysql.target.session import Connection, ask, bound, run, transaction
from anabranch.connectors.mysql.target.state_session import IN_ONE_STATEMENT, StateSession
from anabranch.errors import Fenced
from anabranch.model.ids import TableId
from anabranch.model.table_life import Place, TableState, read_stored

if TYPE_CHECKING:  # `status` goes without what it brings along
    from anabranch.model.schema import TableSchema

COLUMNS = """`source_table`, `target_table`, `state`, `generation`, `low`, `high`, `reason`, `rows_loaded`, `changes_applied`,
    `facts`, `schema_digest`"""
READ_TABLE = f"SELECT {COLUMNS}, `schema` FROM `anabranch`.`table_state` WHERE `job` = %s AND `source_table` = %s"
# All of them at one moment. A definition that is known by its digest is not read: who waits asks again and again, and
# definitions of thousands of tables are megabytes. Nor is it for who does not want any.
READ_TABLES = f"SELECT {COLUMNS}, {{}} FROM `anabranch`.`table_state` WHERE `job` = %s"
KNOWN = "IF(`schema_digest` IN ({}), NULL, `schema`)"
# Beside the names as other jobs write them the job's own that a server which folds names takes for one of those.
READ_OTHERS = """
SELECT `target_table` FROM `anabranch`.`table_state` WHERE `job` <> %s
 UNION SELECT mine.`target_table` FROM `anabranch`.`table_state` AS mine
  JOIN `anabranch`.`table_state` AS other ON LOWER(other.`target_table`) = LOWER(mine.`target_table`)
 WHERE @@lower_case_table_names <> 0 AND mine.`job` = %s AND other.`job` <> mine.`job`
"""
LOCK_TABLES = """
SELECT `source_table`, `state`, `generation`, `facts`, `reason` FROM `anabranch`.`table_state`
 WHERE `job` = %s AND `source_table` IN ({}) ORDER BY `source_table` FOR UPDATE
"""
VALUES = "`target_table`, `state`, `generation`, `low`, `high`, `reason`, `rows_loaded`, `changes_applied`, `facts`"
ADD_TABLE = f"""
INSERT INTO `anabranch`.`table_state` ({VALUES}, `schema`, `schema_digest`, `job`, `source_table`)
VALUES (%s{", %s" * 12})
"""
CHANGE_TABLE = f"""
UPDATE `anabranch`.`table_state` SET {" = %s, ".join(VALUES.split(", "))} = %s, `schema` = COALESCE(%s, `schema`),
    `schema_digest` = COALESCE(%s, `schema_digest`) WHERE `job` = %s AND `source_table` = %s
"""
FORGET_TABLE = (
    "DELETE FROM `anabranch`.`table_state` WHERE `job` = %s AND `source_table` = %s",
    "DELETE FROM `anabranch`.`load_chunk` WHERE `job` = %s AND `source_table` = %s",
)
FORGET_UNTOUCHED = """
DELETE FROM `anabranch`.`table_state` WHERE `job` = %s AND `source_table` = %s AND `generation` = 0 AND `schema` IS NULL
"""
Row = tuple[Any, ...]


class MysqlTableStates:
    """TableStates of the target."""

    def __init__(self, session: StateSession) -> None:
        self._session = session
        self._known: dict[str, dict[str, tuple[Row, TableState]]] = {}  # job -> source table -> its row, state

    def tables(self, job: str, whole: bool = True) -> dict[TableId, TableState]:
        known = self._known.get(job, {})
        digests = {state[0][-1] for state in known.values()} - {None}
        schema = KNOWN.format(", ".join(f"'{digest}'" for digest in sorted(digests))) if digests else "`schema`"
        rows = self._session.rows("read the tables' states", READ_TABLES.format(schema if whole else "NULL"), job)
        if not whole:
            return {state.source: state for state in (state_of(row, None) for row in map(tuple, rows))}
        definitions = {row[-1]: state.schema for row, state in known.values()}
        self._known[job] = {row[0]: _kept(known, definitions, row) for row in rows}
        return {state.source: state for _, state in self._known[job].values()}

    def table(self, job: str, table: TableId) -> TableState | None:
        rows = self._session.rows("read a table's state", READ_TABLE, job, str(table))
        return state_of(rows[0], _definition(rows[0][-1])) if rows else None

    def others(self, job: str) -> frozenset[TableId]:
        rows = self._session.rows("read the tables of other jobs", READ_OTHERS, job, job)
        return frozenset(TableId.parse(target) for (target,) in rows)

    def save_table(self, job: str, state: TableState, before: TableState | None) -> None:
        self.save_tables(job, [(state, before)])

    def save_tables(self, job: str, states: Sequence[tuple[TableState, TableState | None]]) -> None:
        seen = {state.source: before for state, before in states if before is not None}
        with self._session("save states of tables") as connection, transaction(connection):
            require_same(connection, job, seen.values())
            add_states(connection, job, [state for state, before in states if before is None])
            change_states(connection, job, [state for state, before in states if before is not None])

    def forget_table(self, job: str, before: TableState) -> None:
        with self._session("forget a table") as connection, transaction(connection):
            require_same(connection, job, [before])
            aside.forget(connection, job, before.source)
            for statement in FORGET_TABLE:
                run(connection, statement, job, str(before.source))
            verified.forget(connection, job, before.source)


def require_same(connection: Connection, job: str, before: Iterable[TableState]) -> None:
    """Lock the rows of states that somebody has seen. Raises Fenced where one is another by now."""
    seen = {str(state.source): state for state in before}
    found = locked_places(connection, job, list(seen))
    for source, state in seen.items():
        if found.get(source) != state.place:
            raise changed_meanwhile(job, state.source)


def locked_places(connection: Connection, job: str, sources: Sequence[str]) -> dict[str, Place]:
    """Lock rows, and return TableState.place of those that there are. They are locked in one order, whoever asks."""
    found: dict[str, Place] = {}
    for some in in_parts(sorted(sources)):
        marks = ", ".join(["%s"] * len(some))
        for source, *place in ask(connection, LOCK_TABLES.format(marks), job, *some):
            found[source] = stored_place(*place)
    return found


def stored_place(state: str, generation: int, facts: str | None, reason: str | None) -> Place:
    """Return TableState.place of a row."""
    life, known = read_stored(state, reason or "", json.loads(facts or "{}"))
    return life, generation, known


def add_states(connection: Connection, job: str, states: Sequence[TableState]) -> None:
    """Add rows of new tables. Raises Fenced where somebody has added one meanwhile, after waiting for that transaction."""
    try:
        connection.together([bound(connection, ADD_TABLE, _row(job, state)) for state in states])
    except pymysql.err.IntegrityError as error:
        if error.args[0] != DUPLICATE:
            raise
        raise changed_meanwhile(job, states[0].source) from None


def change_states(connection: Connection, job: str, states: Sequence[TableState]) -> None:
    """Write rows that the caller has locked; a state without schema keeps the one there."""
    found = connection.together([bound(connection, CHANGE_TABLE, _row(job, state)) for state in states])
    for state, number in zip(states, found, strict=True):
        if number != 1:
            raise changed_meanwhile(job, state.source)


def save_state(connection: Connection, job: str, state: TableState) -> None:
    """Write a row, whatever there was, in the caller's transaction; a state without schema keeps the one there."""
    row = _row(job, state)
    if run(connection, CHANGE_TABLE, *row) == 0:
        run(connection, ADD_TABLE, *row)


def changed_meanwhile(job: str, table: TableId) -> Fenced:
    return Fenced(
        "the table's state was changed meanwhile",
        job=job,
        table=str(table),
        hint="another load of it goes on: let one of them end",
    )


def in_parts(names: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """Cut a list into pieces that one statement takes."""
    return (names[start : start + IN_ONE_STATEMENT] for start in range(0, len(names), IN_ONE_STATEMENT))


def _row(job: str, state: TableState) -> list[Any]:
    """Return the values of ADD_TABLE and CHANGE_TABLE."""
    schema = None if state.schema is None else json.dumps(state.schema.to_json(), ensure_ascii=False)
    digest = None if schema is None else hashlib.blake2b(schema.encode(), digest_size=16).hexdigest()
    facts = json.dumps(state.facts.stored(), ensure_ascii=False)
    life = [str(state.target), str(state.state), state.generation, state.low, state.high, state.reason]
    return [*life, state.rows_loaded, state.changes_applied, facts, schema, digest, job, str(state.source)]


def _kept(
    known: Mapping[str, tuple[Row, TableState]], definitions: Mapping[str | None, TableSchema | None], row: Row
) -> tuple[Row, TableState]:
    """Return a row without its definition, and its state: the one that was made of this row before, if it was."""
    *values, schema = row
    kept, digest = tuple(values), values[-1]
    if (before := known.get(kept[0])) is not None and before[0] == kept:
        return before
    return kept, state_of(row, _definition(schema) if schema is not None else definitions.get(digest))


def state_of(row: Row, definition: TableSchema | None) -> TableState:
    source, target, state, generation, low, high, reason, rows, changes, facts, *_ = row
    ids = TableId.parse(source), TableId.parse(target)
    life, known = read_stored(state, reason or "", json.loads(facts or "{}"))
    return TableState(*ids, life, generation, low or "", high or "", reason or "", rows, changes, definition, known)


def _definition(schema: str | None) -> TableSchema | None:
    if schema is None:
        return None
    from anabranch.model.schema import TableSchema  # see READ_TABLES: not everybody wants them

    return TableSchema.from_json(json.loads(schema))
