"""The way of one transaction as text, for `anabranch trace --position`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from anabranch.job.one_transaction import AtTarget, Epoch, TransactionTrace


def lines(found: TransactionTrace) -> Iterator[str]:
    """Yield the way from the source to each target, a stage a line."""
    yield f"transaction  {found.position}" + (f"  {found.gtid}" if found.gtid else "")
    if found.commit_time:
        yield f"  committed  {found.commit_time}, by the source's clock" + (
            f", from {found.origin}" if found.origin else ""
        )
    if found.rows or found.barriers:
        told = [*(f"{table} {number:,}" for table, number in found.rows.items())]
        told += [f"{table} ({kind})" for table, kind in found.barriers]
        yield f"  changes    {', '.join(told)}"
    if found.captured.state != "written":
        yield f"capture      {found.captured.state}: {found.captured.why}"
    else:
        yield "capture      read: when is not kept, shortly before it was written"
        first, last = found.captured.between
        yield f"trail        written {f'between {first} and {last}' if last else f'when is not known: {found.captured.why}'}"
        yield from (
            f"  segment    {one.segment}, offset {one.offset}, made {one.made_at}" for one in found.captured.places
        )
    for target in found.targets:
        yield from _at(target)


def _at(target: AtTarget) -> Iterator[str]:
    upto = f", it is at {target.applied_upto}" if target.applied_upto else ""
    why = f": {target.why}" if target.why else ""
    state = "not yet: waits" if target.state == "waits" else target.state
    yield f"target       {target.target}: {state}{why}{upto}"
    for epoch in target.epochs:
        yield from _epoch(epoch)
    yield from (f"  {table}: {where}" for table, where in target.tables.items())
    if target.set_aside:
        yield f"  set aside  {_counts(target.set_aside)}"
    if target.conflicts:
        yield f"  conflicts  {_counts(target.conflicts)}"


def _epoch(epoch: Epoch) -> Iterator[str]:
    alone = "this one alone" if epoch.transactions == 1 else f"{epoch.transactions:,} transactions"
    yield f"  epoch      {epoch.number}, {alone}, opened {epoch.began}, committed {epoch.committed}"
    if epoch.changes:
        more = epoch.others.get("changes")
        told = _counts(epoch.changes) + (f", {more['tables']:,} other tables {more['rows']:,}" if more else "")
        yield f"  rows       {told}" + ("" if epoch.transactions == 1 else ", of the whole epoch")
    if epoch.parked:
        more = epoch.others.get("parked")
        yield f"  parked     {', '.join(epoch.parked)}" + (f", {more['tables']:,} other tables" if more else "")


def _counts(found: Mapping[str, int]) -> str:
    return ", ".join(f"{table} {number:,}" for table, number in found.items())
