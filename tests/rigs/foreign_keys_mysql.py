"""Histories of foreign keys at a real server of MySQL's family: its own keys carry them out in one database, and what
apply's plan makes of their log, which lacks what the keys did, is carried out in another one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pymysql

from anabranch.apply.cascades.cascade import rules_of
from anabranch.apply.compact import NeedsSlowWay
from anabranch.apply.context import ApplyContext, Followed
from anabranch.apply.following import unique_keys
from anabranch.apply.order import key_order
from anabranch.apply.plan import Group, group, stages
from anabranch.apply.row_steps import RemovedByKeys, steps
from anabranch.connectors.mysql.target.apply import MysqlWriter
from anabranch.connectors.mysql.target.catalog import MysqlTargetCatalog
from anabranch.connectors.mysql.target.options import USUAL
from anabranch.contracts import Conflict, Emptying
from anabranch.model.ids import TableId
from anabranch.model.schema import Action, TableSchema
from anabranch.model.table_life import TableState
from anabranch.rows.net import Cascade, RowChange, TableNet, TargetTable
from anabranch.testing.databases import Database
from anabranch.trail.reader import TrailReader
from anabranch.trail.writer import TrailWriter
from rigs.an_applier import an_applier
from rigs.chunks import chunk_of
from rigs.endpoints import endpoint_of
from rigs.foreign_keys import Change, Row
from rigs.mysql_epoch import RULES, Epoch, state_at

ACTIONS = {Action.CASCADE: "CASCADE", Action.SET_NULL: "SET NULL", Action.RESTRICT: "RESTRICT"}
Rows = Mapping[str, list[tuple[str, ...]]]


def create(database: Database, schemas: Sequence[TableSchema], with_keys: bool) -> None:
    """Parents stand before their children."""
    database.execute(*(_definition(one, with_keys) for one in schemas))


def _definition(one: TableSchema, with_keys: bool) -> str:
    parts = [f"{column.name} bigint" for column in one.columns]
    parts += [f"PRIMARY KEY ({', '.join(one.primary_key)})"] if one.primary_key else []
    parts += [f"UNIQUE KEY {index.name} ({', '.join(index.columns)})" for index in one.indexes]
    for number, key in enumerate(one.foreign_keys if with_keys else ()):
        acts = f"ON DELETE {ACTIONS[key.on_delete]} ON UPDATE {ACTIONS[key.on_update]}"
        ours, theirs = ", ".join(key.columns), ", ".join(key.parent_columns)
        name = f"{one.id.name}_{number}"
        parts.append(f"CONSTRAINT {name} FOREIGN KEY ({ours}) REFERENCES `{key.parent.name}` ({theirs}) {acts}")
    return f"CREATE TABLE `{one.id.name}` ({', '.join(parts)}) ENGINE=InnoDB"


def fill(database: Database, start: Mapping[str, Iterable[Row]]) -> None:
    statements = [_insert(name, row) for name, rows in start.items() for row in rows]
    database.execute("SET foreign_key_checks = 0", *statements)


def do(database: Database, changes: Iterable[Change]) -> bool:
    """Carry out changes as an application at the source; False where the server refuses one."""
    with closing(database.connect()) as connection, closing(connection.cursor()) as cursor:
        for change in changes:
            try:
                cursor.execute(_statement(change))
            except pymysql.err.MySQLError:
                return False
    return True


def _statement(change: Change) -> str:
    name, what, *rows = change
    if what == "i":
        return _insert(name, rows[0])
    where = " AND ".join(f"{column} <=> {_shown(value)}" for column, value in rows[0].items())
    if what == "d":
        return f"DELETE FROM `{name}` WHERE {where} LIMIT 1"
    sets = ", ".join(f"{c} = {_shown(value)}" for c, value in rows[1].items() if value != rows[0][c])
    return f"UPDATE `{name}` SET {sets} WHERE {where} LIMIT 1"


def _insert(name: str, row: Row) -> str:
    return f"INSERT INTO `{name}` ({', '.join(row)}) VALUES ({', '.join(map(_shown, row.values()))})"


def _shown(value: Any) -> str:
    return "NULL" if value is None else str(value)


def rows(database: Database, schemas: Sequence[TableSchema]) -> Rows:
    found = {}
    for one in schemas:
        names = ", ".join(column.name for column in one.columns)
        found[one.id.name] = sorted(
            tuple(map(repr, row)) for row in database.query(f"SELECT {names} FROM `{one.id.name}`")
        )
    return found


def apply(at: Epoch, schemas: Sequence[TableSchema], changes: Sequence[Change]) -> int:
    """Carry out the log as one epoch. Returns how many stages there were, 0 where it went row by row."""
    whole = _context(schemas, at.database.name)
    part = group([chunk_of([[change] for change in changes], schemas)], whole)
    try:
        planned = stages(part, whole)
        for stage in planned:
            _carry_out(at, [*stage.nets, *stage.cascades])
    except (Conflict, NeedsSlowWay):
        at.again()
        _one_by_one(at, part, whole)
        planned = []
    at.commit()
    return len(planned)


def _one_by_one(at: Epoch, part: Group, whole: ApplyContext) -> None:
    _carry_out(at, steps(part, whole, RemovedByKeys()))


def _carry_out(at: Epoch, done: Iterable[TableNet | Cascade | RowChange]) -> None:
    for one in done:
        if isinstance(one, TableNet):
            at.writer.merge(one)
        elif isinstance(one, Cascade):
            at.writer.cascade(one, one.rules)
        else:
            assert at.writer.change(one)


def _context(schemas: Sequence[TableSchema], where: str) -> ApplyContext:
    tables = _followed(schemas, where)
    return ApplyContext(tables, rules_of(tables), Emptying.DELETE)


def _followed(schemas: Sequence[TableSchema], where: str) -> dict[TableId, Followed]:
    tables = {}
    for one in schemas:
        names = tuple(column.name for column in one.columns)
        types = tuple(column.type for column in one.columns if column.type)
        table = TargetTable(one.id, TableId(where, one.id.name), names, types, one.primary_key, names)
        tables[one.id] = Followed(one, table, unique_keys=unique_keys(one, table))
    return tables


def apply_where_keys_act(
    database: Database, schemas: Sequence[TableSchema], start: Sequence[Change], changes: Sequence[Change], home: Path
) -> None:
    """Carry out the log by the whole of apply, in two epochs, at a target whose own keys act."""
    endpoint, job = endpoint_of(database), database.name
    targets = {one.id: followed.table for one, followed in zip(schemas, _followed(schemas, job).values(), strict=True)}
    with closing(TrailWriter.open(home, job=job, job_uuid="u", source_identity="s", pack=False)) as trail:
        for one in schemas:
            trail.schema(one)
        with closing(MysqlTargetCatalog(endpoint)) as catalog:
            enforced = catalog.foreign_keys(list(targets.values()))
        order = key_order({one.id: one for one in schemas}, targets, enforced)

        def context(states: object) -> ApplyContext:
            tables = _followed(schemas, job)
            return ApplyContext(tables, rules_of(tables), Emptying.DELETE, order)

        with state_at(endpoint, job) as store, closing(MysqlWriter(endpoint, RULES, False, USUAL)) as writer:
            for one in schemas:
                state = TableState(one.id, targets[one.id].target, "streaming", schema=one)
                store.states.save_table(job, state, None)
            writer.claim(job, "me")
            with closing(TrailReader(home)) as reader:
                applier = an_applier(job, reader, writer, store, context)
                applier.progress.look()
                for transactions in ([list(start)], [[change] for change in changes]):
                    trail.append(chunk_of(transactions, schemas, 0))
                    trail.flush()
                    applier.apply(trail.end.position.sequence)
