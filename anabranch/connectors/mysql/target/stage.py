"""Staging by executors: net changes into tables of one attempt, and the proof before they are merged (K10).

Every row carries a random number; the committing transaction counts the rows and adds the numbers up again. Rows that are
missing or there twice change both. A table's name is `stage_<digest of the job>_<uuid of the attempt>_<number>`. It is made
and filled before the epoch and dropped behind it: making and dropping one commits whatever is open. While an attempt fills its
tables it holds a lock of its name, by which a sweep knows it; what no epoch took is swept when an owner claims the job.
https://dev.mysql.com/doc/refman/8.0/en/implicit-commit.html · https://dev.mysql.com/doc/refman/8.0/en/locking-functions.html
What does not live here: the statements that merge (`merge.py`), sending rows (`staging.py`).
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import pyarrow as pa
import pymysql

from anabranch.connectors.mysql.target import carrying, merge
from anabranch.connectors.mysql.target.errors import translated
from anabranch.connectors.mysql.target.exchange import exchange
from anabranch.connectors.mysql.target.keyless import LABELS
from anabranch.connectors.mysql.target.known_columns import KnownColumns
from anabranch.connectors.mysql.target.newer_rows import refuse_newer
from anabranch.connectors.mysql.target.session import Connection, ask, connect, one, run, table_name
from anabranch.connectors.mysql.target.stage_sweep import SCHEMA, lock_name, stage_prefix
from anabranch.connectors.mysql.target.staging import StagingTables, create_stage, refuse_replaced_nulls, stage_rows
from anabranch.connectors.sql.merge_pieces import MergeAction, MergePiece, Texts
from anabranch.connectors.sql.staged import PROOF, lost, proof_numbers, prove, staged_pieces
from anabranch.contracts import ValueRules
from anabranch.errors import StateError, TargetBusy
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId
from anabranch.rows.net import StagedNet, TableNet

DECLARED = """
SELECT COLUMN_NAME, COLUMN_TYPE FROM information_schema.COLUMNS
 WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s AND DATA_TYPE IN ('enum', 'set')
"""
NO_TABLE = (1146, 1051)
# https://dev.mysql.com/doc/refman/8.0/en/innodb-locking-reads.html: the rows stay as they were counted
PROVE = "SELECT COUNT(*), CAST(COALESCE(SUM(`proof`), 0) AS UNSIGNED) FROM {} LOCK IN SHARE MODE"


@dataclass(frozen=True, slots=True)
class StagedPiece:
    """A piece and the staging table that holds its rows."""

    piece: MergePiece
    table: str
    rows: int

    @property
    def id(self) -> TableId:
        return TableId(SCHEMA, self.table)


class MysqlStager:
    """Puts net changes into staging tables at the target; one per executor task.

    Delivery: what `stage` returns is committed; an attempt that is lost leaves tables that nobody merges."""

    def __init__(self, endpoint: Endpoint, rules: ValueRules) -> None:
        self._endpoint, self._rules = endpoint, rules
        self._open: Connection | None = None
        self._known: KnownColumns | None = None

    def stage(self, job: str, nets: Iterable[TableNet]) -> list[StagedNet]:
        attempt = uuid.uuid4().hex
        staged: list[StagedNet] = []
        connection, known = self._session()
        with translated("stage changes"), _attempting(connection, attempt):
            for net in nets:
                staging = f"{stage_prefix(job)}{attempt}_{len(staged)}"
                staged.append(self._stage(connection, known, staging, net))
            connection.commit()
            known.ended()
        return staged

    def close(self) -> None:
        if self._open is not None and self._open.open:
            self._open.close()
        self._open = self._known = None

    def _session(self) -> tuple[Connection, KnownColumns]:
        if self._open is None or self._known is None or not self._open.open:
            self._open = connect(self._endpoint, "anabranch-stage")
            self._known = KnownColumns(self._open)
        return self._open, self._known

    def _stage(self, connection: Connection, known: KnownColumns, staging: str, net: TableNet) -> StagedNet:
        done, digest = [], 0
        with translated(f"stage changes of {net.table.target}", net.table.source):
            for number, (piece, arrays) in enumerate(merge.pieces(net)):
                staged = StagedPiece(piece, f"{staging}_{number}", len(arrays[0]))
                digest += _fill(connection, known, staged, arrays, self._rules.nul)
                done.append(staged)
        counts = {staged.table: staged.rows for staged in done}
        return StagedNet(net.table, staging, counts, digest, net.checked, {"pieces": tuple(done)})


@contextmanager
def _attempting(connection: Connection, attempt: str) -> Iterator[None]:
    """Hold the lock of an attempt. After an error the connection is closed, and lets it go."""
    name = lock_name(attempt)
    try:
        if one(connection, "SELECT GET_LOCK(%s, 0)", name) != 1:
            raise StateError(
                "the target gives no lock to stage changes under", hint="GET_LOCK has to work at the target"
            )
        yield
        one(connection, "SELECT RELEASE_LOCK(%s)", name)
    except BaseException:  # whatever it was, it is passed on
        connection.close()
        raise


def _fill(connection: Connection, known: KnownColumns, staged: StagedPiece, arrays: list[Any], nul: str) -> int:
    """Create the table, send the rows, and return the sum of their numbers."""
    table, columns = staged.piece.table, (*staged.piece.columns, PROOF)
    run(connection, create_stage("CREATE TABLE", staged.id, known.of(table.target), columns))
    known.ended()  # it has committed
    numbers = proof_numbers(staged.rows)
    stage_rows(connection, staged.id, columns, [*arrays, pa.array(numbers)], nul, table.source)
    return int(numbers.sum())


def merge_staged(stages: StagingTables, staged: StagedNet) -> list[Texts]:
    """Prove and merge what was staged, inside the caller's transaction. Raises Conflict; the driver's errors pass. The tables
    are dropped behind the commit (stage_sweep.drop_taken)."""
    pieces = staged_pieces(staged)
    _prove(stages.connection, staged, pieces)
    for part in pieces:
        _refuse_other_labels(stages, part)
    again: list[Texts] = []
    for contend, some in groupby(pieces, key=lambda one: one.piece.contends):
        held = list(some)
        for part in held:
            refuse_replaced_nulls(stages, part.piece, part.id)
            if part.piece.newest_by:
                refuse_newer(stages.connection, part.piece, part.id, part.rows)
        if contend:
            exchange(stages, [(part.piece, part.id, part.rows) for part in held])
            continue
        for part in held:
            again += carrying.carry_out(stages, part.piece, part.id, part.rows)
    return again


def _refuse_other_labels(stages: StagingTables, part: StagedPiece) -> None:
    """Raise TargetBusy where an enum or set of a table without a key has other labels since rows were staged: such rows are
    compared by the labels' places (keyless.py). The epoch is staged again then."""
    piece = part.piece
    if piece.action is not MergeAction.MULTISET:
        return
    known = stages.known.of(piece.table.target)
    then = {column.name: column.like for column in piece.columns if column.like}
    if not any(known.column(name).type in LABELS for name in then.values()):
        return
    for name, declared in ask(stages.connection, DECLARED, part.id.schema, part.id.name):
        if name in then and known.column(then[name]).declared != declared:
            what = f"labels of {then[name]} have changed since rows were staged: {piece.table.target}"
            raise TargetBusy(what, table=str(piece.table.source), hint="tried again by itself")


def _prove(connection: Connection, staged: StagedNet, pieces: tuple[StagedPiece, ...]) -> None:
    """Lock the rows, then check that rows and numbers are those that were staged (K10)."""
    prove(staged, ((one.table, *_counted(connection, staged, one)) for one in pieces))


def _counted(connection: Connection, staged: StagedNet, one: StagedPiece) -> tuple[int, int]:
    """Return how many rows a staging table has, and the sum of their numbers; the rows are locked."""
    try:
        count, numbers = ask(connection, PROVE.format(table_name(one.id)))[0]
    except pymysql.err.Error as error:
        if error.args[0] in NO_TABLE:
            raise lost(staged) from None
        raise
    return int(count), int(numbers)
