"""Staging by executors: net changes into unlogged tables of one attempt, and the proof before they are merged (K10).

Every row carries a random number; the committing transaction counts the rows and adds the numbers up again. Rows that
are missing (an unlogged table is empty after a server crash) or there twice (a stopped task's late COPY) change both.
A table's name is `stage_<digest of the job>_<uuid of the attempt>_<number>`; what no running attempt owns is swept when
an owner claims the job. What does not live here: the statements that merge (`merge.py`).
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import psycopg
import pyarrow as pa
from psycopg import sql

from anabranch.connectors.postgresql.connection import Connection, connect, table_name
from anabranch.connectors.postgresql.errors import translated
from anabranch.connectors.postgresql.target import merge
from anabranch.connectors.postgresql.target.exchange import exchange
from anabranch.connectors.postgresql.target.newer_rows import refuse_newer
from anabranch.connectors.postgresql.target.stage_sweep import stage_prefix
from anabranch.connectors.postgresql.target.staging import ANALYZE_ROWS, stage_rows
from anabranch.connectors.sql.merge_pieces import MergePiece, Texts
from anabranch.connectors.sql.staged import PROOF, lost, proof_numbers, prove, staged_pieces
from anabranch.contracts import ValueRules
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId
from anabranch.rows.net import StagedNet, TableNet

SCHEMA = "anabranch"
HEAD, OPTIONS = sql.SQL("CREATE UNLOGGED TABLE"), sql.SQL("WITH (autovacuum_enabled = false)")


@dataclass(frozen=True, slots=True)
class StagedPiece:
    """A piece and the staging table that holds its rows."""

    piece: MergePiece
    table: str
    rows: int

    @property
    def id(self) -> TableId:
        return TableId(SCHEMA, self.table)

    @property
    def name(self) -> sql.Identifier:
        return table_name(self.id)


class PostgresStager:
    """Puts net changes into staging tables at the target; one per executor task.

    Delivery: what `stage` returns is committed; an attempt that is lost leaves tables that nobody merges."""

    def __init__(self, endpoint: Endpoint, rules: ValueRules) -> None:
        self._endpoint, self._rules = endpoint, rules
        self._open: Connection | None = None

    def stage(self, job: str, nets: Iterable[TableNet]) -> list[StagedNet]:
        prefix = f"{stage_prefix(job)}{uuid.uuid4().hex}"
        staged: list[StagedNet] = []
        connection = self._session()
        with translated("stage changes"), connection.transaction():
            for net in nets:
                staged.append(self._stage(connection, f"{prefix}_{len(staged)}", net))
        return staged

    def close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None

    def _session(self) -> Connection:
        if self._open is None or self._open.closed:
            self._open = connect(self._endpoint, "anabranch-stage", autocommit=True)
        return self._open

    def _stage(self, connection: Connection, staging: str, net: TableNet) -> StagedNet:
        done, digest = [], 0
        with translated(f"stage changes of {net.table.target}", net.table.source):
            for number, (piece, arrays) in enumerate(merge.pieces(net)):
                one = StagedPiece(piece, f"{staging}_{number}", len(arrays[0]))
                digest += _fill(connection, one, arrays, self._rules.nul)
                done.append(one)
        counts = {one.table: one.rows for one in done}
        return StagedNet(net.table, staging, counts, digest, net.checked, {"pieces": tuple(done)})


def _fill(connection: Connection, staged: StagedPiece, arrays: list[Any], nul: str) -> int:
    """Create the table, COPY the rows, and return the sum of their numbers."""
    connection.execute(merge.create_stage(HEAD, staged.name, OPTIONS, staged.piece, [PROOF]))
    numbers = proof_numbers(staged.rows)
    columns = (*staged.piece.columns, PROOF)
    stage_rows(connection, staged.id, columns, [*arrays, pa.array(numbers)], nul)
    if staged.rows > ANALYZE_ROWS:
        connection.execute(sql.SQL("ANALYZE {}").format(staged.name))
    return int(numbers.sum())


def merge_staged(connection: Connection, staged: StagedNet) -> list[Texts]:
    """Prove, merge and drop what was staged, inside the caller's transaction. Raises Conflict; psycopg errors pass."""
    pieces = staged_pieces(staged)
    if not pieces:
        return []
    names = sql.SQL(", ").join(one.name for one in pieces)
    _prove(connection, staged, pieces, names)
    again = []
    for contend, some in groupby(pieces, key=lambda one: one.piece.contends):
        held = list(some)
        for one in held:
            if one.piece.newest_by:
                refuse_newer(connection, one.piece, one.id, one.rows)
        if contend:
            exchange(connection, [(one.piece, one.id, one.rows) for one in held], prepare=False)
            continue
        for one in held:
            again += merge.carry_out(connection, one.piece, one.id, one.rows, prepare=False)
    connection.execute(sql.SQL("DROP TABLE {}").format(names))
    return again


def _prove(connection: Connection, staged: StagedNet, pieces: tuple[StagedPiece, ...], names: sql.Composed) -> None:
    """Lock the tables against more rows, then check that rows and numbers are those that were staged (K10)."""
    try:
        connection.execute(sql.SQL("LOCK TABLE {} IN SHARE ROW EXCLUSIVE MODE").format(names))
    except psycopg.errors.UndefinedTable:
        raise lost(staged) from None
    prove(staged, ((one.table, *_counted(connection, one)) for one in pieces))


def _counted(connection: Connection, one: StagedPiece) -> tuple[int, int]:
    """Return how many rows a staging table has, and the sum of their numbers."""
    query = sql.SQL("SELECT count(*), coalesce(sum(proof), 0)::bigint FROM {}").format(one.name)
    return connection.execute(query).fetchone() or (0, 0)
