"""`[apply]` of the job file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from anabranch.config.section import Section, refuse
from anabranch.errors import Problem

# Of what a job with commit_order = "relaxed" needs
STRICT = '"stop": a row that differs may be that of a later transaction'


def _not_newest(value: Any) -> Any:
    if value == "newest":
        raise refuse(Problem("'newest' compares a column of one table", expected="it in [[tables]], with newest_by"))
    return value


class Apply(Section):
    """Bringing the trail to the target."""

    mode: Literal["epoch", "transaction"] = "epoch"
    """One target transaction per epoch (many source transactions), or one per source transaction."""
    appliers: int = Field(default=1, ge=1, le=8)
    """How many sessions carry out source transactions at once with mode = "transaction"
    ([more](../howto/several-appliers.md))."""
    commit_order: Literal["kept", "relaxed"] = "kept"
    """Commit in the source's order with several appliers; or let each commit as soon as what its transaction depends on is
    committed, where commits are slow. The target is then what the source was between two barriers only
    ([more](../howto/several-appliers.md#when-commits-are-slow))."""
    truncate: Literal["truncate", "delete"] | None = None
    """How a TRUNCATE is done at the target; `delete` keeps it invisible to older snapshots until it commits. When absent:
    `truncate` at a PostgreSQL, `delete` at a MySQL or MariaDB, where TRUNCATE commits by itself
    ([more](../howto/mysql-as-a-target.md#truncate))."""
    triggers: Literal["refuse", "fire"] = "refuse"
    """Refuse triggers at a target where no session can switch them off (MySQL, MariaDB): preflight names the tables that have
    some. Or let them fire for what the job writes ([more](../howto/prepare-a-mysql-target.md#triggers))."""
    on_conflict: Annotated[
        Literal["stop", "source_wins", "target_wins", "ignore_missing"], BeforeValidator(_not_newest)
    ] = "stop"
    """Settle a change whose row is not as expected at the target, in tables whose entry does not say: stop with
    the row's key; write the source's row; keep the target's; or leave out what changes a missing row."""
    on_error: Literal["stop", "park", "set_aside"] = "stop"
    """Decide about a row that the target refuses, or that has a value which cannot be converted: stop the job with the row's
    key; park its table, with all tables that foreign keys connect it with, while the others go on; or set the row aside, and
    park only where that cannot be. Parked
    tables are resumed by `anabranch parked resume`, rows that are set aside by `anabranch parked release`."""
    set_aside_limit: int = Field(default=1000, ge=1)
    """How many changes of a table may be set aside. One more parks it."""
    runner: Literal["streaming", "continuous"] = "streaming"
    """Choose what starts an epoch: Spark's Structured Streaming, in batches that last while the trail brings more; or one
    thread of apply that watches the trail continuously, with the shortest delay; Spark starts when an epoch has work for it."""
    stage_rows: int | None = Field(default=None, ge=1)
    """Row images of an epoch from which executors stage it. When absent: 250,000 of updates and deletes, as was measured."""

    @model_validator(mode="after")
    def _appliers_fit(self) -> Self:
        if self.appliers > 1 and self.mode != "transaction":
            what = f'[apply] appliers = {self.appliers} with mode = "{self.mode}"'
            raise refuse(Problem(what, expected='mode = "transaction": an epoch is merged over one session'))
        if self.appliers > 1 and self.triggers == "fire":
            expected = "appliers = 1: a trigger may read what a transaction before has not committed yet"
            raise refuse(Problem(f'[apply] appliers = {self.appliers} with triggers = "fire"', expected=expected))
        if self.commit_order == "relaxed" and (found := list(self._misfits_of_relaxed())):
            what = '[apply] commit_order = "relaxed" with'
            raise refuse(*(Problem(f"{what} {misfit}", expected=expected) for misfit, expected in found))
        return self

    def _misfits_of_relaxed(self) -> Iterator[tuple[str, str]]:
        if self.appliers == 1:
            yield "appliers = 1", "appliers > 1: one session commits in the source's order"
        if self.on_error != "stop":
            at = '"stop": a table is parked, and a row set aside, at one place of the log'
            yield f'on_error = "{self.on_error}"', at
        if self.on_conflict != "stop":
            yield f'on_conflict = "{self.on_conflict}"', STRICT
