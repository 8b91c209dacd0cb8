"""Do a table's messages go on behind a changed definition, and what is told of it? Nothing is written or registered here.

What does not live here: which keys stay as they are (rows/messages/altered.py), what is asked in front of a job (preflight.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from anabranch.connectors.kafka.registry import Registry
from anabranch.connectors.kafka.target.records import Key, Value
from anabranch.connectors.kafka.target.registered import unfit
from anabranch.connectors.kafka.target.state_forms import SCHEMA
from anabranch.errors import TargetError, TargetUnavailable
from anabranch.model.ddl_changes import DdlChange, Outcome
from anabranch.model.position import Position
from anabranch.model.schema import TableSchema
from anabranch.rows.altered import AlteredTable
from anabranch.rows.appended import Committed
from anabranch.rows.messages.altered import why_not_told
from anabranch.rows.messages.debezium.schema_changes import schema_change
from anabranch.rows.messages.format import Format, Messages, Settings
from anabranch.rows.messages.protobuf.envelope import altered_fields
from anabranch.rows.messages.protobuf.numbers import Numbers


def refuse_altered(
    altered: AlteredTable, settings: Settings, format: Format, registry: Registry | None
) -> Numbers | None:
    """Raise TargetError, for which the table is parked, where its messages cannot go on; TargetUnavailable where the registry
    does not say whether they can: a table that is parked does not come back when the registry does. Return the numbers that
    the columns' fields have from then on, where fields have numbers."""
    table = altered.table
    keyed = settings if registry is None else replace(settings, schema=True)  # keys begin with their schema's number
    why = why_not_told(altered, keyed) or "; ".join(format.check([table]))
    numbers = None
    if not why and registry is not None:
        try:
            if registry.format == "protobuf":
                numbers = altered_fields(settings, altered)
                settings = replace(settings, fields=lambda table: numbers)
            why = "; ".join(unfit(registry, settings, table))
        except TargetError as error:
            raise TargetUnavailable(error.message, hint=error.hint, table=str(table.source)) from error
    if why:
        raise TargetError(why, table=str(table.source))
    return numbers


def told_change(change: DdlChange, settings: Settings, topic: str, records: Mapping[Key, Value]) -> Messages | None:
    """Return what a topic is told of a change of a definition, None where the table does not go on by it. `records`: the job's
    state behind the change."""
    if change.outcome is not Outcome.ALTERED:
        return None
    schema = TableSchema.from_json(records[SCHEMA, str(change.source)]["schema"])
    native = Position.parse(change.position).native
    at = Committed(change.sequence, native, change.commit_time, change.gtid)
    return schema_change(settings, topic, schema, change.statement, at)
