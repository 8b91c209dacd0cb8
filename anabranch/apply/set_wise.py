"""Carrying out stages: net changes are merged as sets, in one target transaction that the caller begins and commits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from anabranch.apply.abilities import MergeWriter
from anabranch.apply.compact import NeedsSlowWay
from anabranch.apply.pair_altering import refuse_come
from anabranch.apply.stage import Stage
from anabranch.apply.work import Work
from anabranch.contracts import Cascader
from anabranch.failpoints import reach
from anabranch.rows.net import Cascade, StagedNet, TableNet, TargetTable

PlannedStage = tuple[Stage, Sequence[TableNet | StagedNet]]


def carry_out_stages(planned: Sequence[PlannedStage], writer: MergeWriter, work: Work) -> None:
    """Carry out each stage with its nets, which may be staged. Raises Conflict; and NeedsSlowWay if rows have to be
    read again which a later stage was planned with, or lack columns that have come at the target."""
    for number, (stage, nets) in enumerate(planned, 1):
        if stage.truncates:
            writer.truncate(stage.truncates, work.context.truncate)
            reach("apply.truncated")
        noted: list[TargetTable] = []
        for place, net in enumerate(nets):
            refuse_come(net.table, work.followed(net.table.source).on_conflict, writer)
            noted += carry_out_cascades(stage.ahead.get(place, ()), writer, work)
            noted += [net.table] if work.reread(net.table.source, _merge(net, writer)) else []
        noted += carry_out_cascades(stage.cascades, writer, work)
        noted += [work.followed(t).table for t, keys in stage.reread if work.reread_keys(t, keys)]
        if noted and number < len(planned):
            raise NeedsSlowWay(noted[0], "rows have to be read again, and what comes next was planned without that")


def carry_out_cascades(cascades: Iterable[Cascade], writer: Cascader, work: Work) -> list[TargetTable]:
    """Carry out cascades. Returns the children whose rows have to be read again."""
    noted = []
    for cascade in cascades:
        if work.reread(cascade.child.source, writer.cascade(cascade, cascade.rules)):
            noted.append(cascade.child)
        reach("apply.cascaded")
    return noted


def _merge(net: TableNet | StagedNet, writer: MergeWriter) -> list[dict[str, str | None]]:
    if isinstance(net, StagedNet):
        again = writer.merge_staged(net)
        reach("apply.merged.staged")
    else:
        again = writer.merge(net)
        reach("apply.merged")
    return again
